"""The figures that are kept are those that their program draws, and each has its alternative text."""

import runpy

import pytest

from . import ROOT

pytest.importorskip("matplotlib")
FIGURES = runpy.run_path(str(ROOT / "docs" / "figures" / "__main__.py"), run_name="figures")
KEPT = ROOT / "docs" / "figures"


@pytest.mark.parametrize("name", FIGURES["ALTS"])
def test_each_has_its_files_and_its_text(name):
    alt = (KEPT / f"{name}.md").read_text(encoding="utf-8").strip()
    assert alt == " ".join(FIGURES["ALTS"][name].split())
    assert (KEPT / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"<dc:description>{alt[:40]}" in (KEPT / f"{name}.svg").read_text(encoding="utf-8")


def test_a_wait_in_mid_step_costs_the_more():
    """The drawn times follow from the rule; they are not set by hand."""
    step = [9.0, *[0.35] * 5]
    ends = [sum(FIGURES["lay"](step * 2, waits)[2][-1]) for waits in ((0, 6), (5, 11), ())]
    assert ends[0] > ends[1] > ends[2] == pytest.approx(1.0 + 2 * sum(step))


def test_the_floor_plan_is_that_of_the_house():
    from .test_house import FOLDERS

    rooms = [name.removeprefix("vgpu/") for name in FOLDERS if name.startswith("vgpu/") and name.count("/") == 1]
    floors = [name for name in FOLDERS[FOLDERS.index("evidence"):FOLDERS.index("__init__")] if "/" not in name]
    assert (FIGURES["ROOMS"], FIGURES["FLOORS"]) == (tuple(reversed(rooms)), tuple(reversed(floors)))


def test_the_page_on_architecture_shows_its_figure_with_its_text():
    alt = (KEPT / "architecture.md").read_text(encoding="utf-8").strip()
    assert f"![{alt}](figures/architecture.png)" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
