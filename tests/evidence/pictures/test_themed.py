import re
import xml.etree.ElementTree as ElementTree

import pytest

from ..kineto_events import training_steps

pytest.importorskip("matplotlib")

from gapless.evidence.pictures import painting, picture, themed
from gapless.evidence.report import StepReport
from gapless.lessons.two_clocks.look import draw_host_steps


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


FIGURES = {
    "timeline": lambda: picture.draw(StepReport.from_trace(training_steps(3))),
    "pair": lambda: picture.before_after(*[StepReport.from_trace(training_steps(1))] * 2),
    "host steps": lambda: draw_host_steps([1.0, 9.0], 9.0, "simulated A10G"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_ink_is_the_pages_and_there_is_no_ground(name):
    figure = FIGURES[name]()
    root = ElementTree.fromstring(themed.svg(figure, figure.alt))
    assert root.get("role") == "img" and root.get("aria-label") == figure.alt and root.get("fill") == "currentColor"
    text = ElementTree.tostring(root, encoding="unicode")
    assert "#000000" not in text and "#ffffff" not in text
    # Nothing is left where a page takes the elements out.
    assert not "".join(root.itertext()).replace("*{stroke-linejoin: round; stroke-linecap: butt}", "").strip()


@pytest.mark.parametrize("name", FIGURES)
def test_colours_stand_out_from_a_light_page_and_from_a_dark_one(name):
    figure = FIGURES[name]()
    text = themed.svg(figure, figure.alt)
    tag = {painting.TAG["facecolor"], painting.TAG_INK}  # on each other, not on the page
    colours = set(re.findall(r"#[0-9a-f]{6}\b(?=[;\"])", text)) - tag
    assert colours
    for colour in colours:
        assert min(contrast(colour, "#ffffff"), contrast(colour, "#111111")) >= 3, colour
    assert contrast(*tag) > 4.5


def test_a_hatch_is_seen_on_a_face_that_shines_through():
    figure = FIGURES["timeline"]()
    root = ElementTree.fromstring(themed.svg(figure, figure.alt))
    patterns = {each.get("id"): each for each in root.iter("{http://www.w3.org/2000/svg}pattern")}
    hatched = [each.get("style") for each in root.iter() if "url(#" in each.get("style", "")]
    assert hatched and all(re.findall(r"url\(#(\w+)\)", style)[0] in patterns for style in hatched)
    assert not any("opacity" in style for style in hatched)
    for pattern in patterns.values():
        ground, lines = pattern
        assert float(ground.get("fill-opacity")) < 0.5 and "opacity" not in lines.get("style")


def test_a_page_that_takes_no_svg_shows_the_png():
    """What sanitises HTML drops <svg> and <style> alike."""
    figure = FIGURES["timeline"]()
    bundle, metadata = themed.mime_bundle(figure, 'a "title" & <more>', "<p>controls</p>")
    shown = bundle["text/html"]
    assert 'aria-label="a &quot;title&quot; &amp; &lt;more&gt;"' in shown and shown.endswith("<p>controls</p>")
    rest = re.sub(r"<(svg|style).*?</\1>", "", shown, flags=re.DOTALL)
    assert f'alt="a &quot;title&quot; &amp; &lt;more&gt;" style="max-width:100%" src="data:image/png;base64,{bundle["image/png"]}"' in rest
    assert metadata["image/png"]["alt"] == bundle["text/plain"] == 'a "title" & <more>'
