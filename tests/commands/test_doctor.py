"""``gapless doctor``: what it finds here, and the traps that it knows."""

import functools
import json
import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from gapless.commands import doctor
from gapless.commands.doctor import Package
from gapless.commands.probe import probe
from gapless.grading.sandbox.confine import find_confinement

TORCH = {"error": None, "file": "", "cuda_build": "13.0", "cuda": False, "why": "Found no NVIDIA driver on your system", "gpus": []}
COURSE = {"error": None, "file": "", "lessons": {}, "device": "vgpu:0", "device_name": "NVIDIA A10G"}
CORE = [Package("torch", "lessons", ">=2.11,<2.16", "2.11.0", "ok"),
        Package("torchvision", "JupyterLab and all lessons", ">=0.26,<0.30", "0.26.0", "ok")]


def distribution(folder, name, version, *requires):
    """Install a package of this name and version, as far as its metadata goes."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = [f"Requires-Dist: {each}" for each in requires]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, ""]))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that comes first on the path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture(autouse=True)
def no_choice(monkeypatch):
    monkeypatch.delenv("GAPLESS_DEVICE", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@functools.cache
def probed(names):
    return probe(list(names))


@pytest.fixture
def once(monkeypatch):
    """What can be imported here, and that with the virtual T4, is found out once: it takes ten seconds."""
    monkeypatch.setenv("GAPLESS_DEVICE", "vgpu:t4")
    monkeypatch.setattr(doctor, "probe", lambda names: probed(tuple(names)))


@pytest.mark.slow
def test_here_the_lessons_can_run(tmp_path, monkeypatch, gapless, once):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))  # whichever kernels its owner has
    monkeypatch.setenv("SOME_TOKEN", "a secret")
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    status, out, _ = gapless("doctor", "--json")
    found = json.loads(out)
    assert status == 0 and found["ok"] and found["uses"]["lessons"], [p for p in found["problems"] if p["needed"]]
    assert found["device"] == {"name": "Tesla T4, simulated: the virtual GPU", "why": "GAPLESS_DEVICE is 'vgpu:t4'"}
    packages = {each["name"]: each for each in found["packages"]}
    assert packages["torch"]["installed"] == metadata.version("torch") and packages["torch"]["state"] == "ok"
    assert "<2.16" in packages["torch"]["wanted"] and "secret" not in out and "SOME_TOKEN" not in out


def test_in_short_it_is_a_line_here(tmp_path, monkeypatch, gapless, once):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    status, out, _ = gapless("doctor", "--short")
    assert (status == 0) == ("All lessons can run." in out) and "package " not in out and len(out.splitlines()) < 17


def test_wanted_versions_are_those_of_the_packages_own_metadata():
    wanted = doctor._wanted(["torch>=2,<3", 'x-y[z]>=1; extra == "tools"', "old (>=5) ; extra == 'plots'", 'pytest>=8; extra == "dev"',
                             'gapless[plots]; extra == "lab"', 'bare; extra == "lab"'])
    assert wanted == {"torch": ("lessons", ">=2,<3"), "x-y": ("trace tools", ">=1"), "old": ("lessons", ">=5"),
                      "bare": ("JupyterLab and all lessons", "")}


@pytest.mark.parametrize("installed, probed, state", [
    (None, None, "missing"), ("2.12.0", TORCH, "ok"), ("2.15.0+cpu", TORCH, "ok"), ("2.10.1", TORCH, "wrong version"),
    ("2.16.0", TORCH, "wrong version"), ("2.12.0", {"error": "OSError: no"}, "broken"), ("2.14.0a0+git12", TORCH, "ok"),
])
def test_state_of_a_package(installed, probed, state):
    assert doctor._package("torch", "lessons", ">=2.11,<2.16", installed, probed).state == state


def test_what_is_missing_is_said_for_each_use_with_the_command():
    lacking = [*CORE, Package("papermill", "grading", ">=2.7,<3", None, "missing"),
               Package("psutil", "grading", ">=5.9", "5.1", "wrong version")]
    found = doctor.Diagnosis("0", "3.11", sys.executable, {"name": "a GPU", "why": ""}, lacking, "", [])
    assert found.ok and f'{sys.executable} -m pip install "papermill>=2.7,<3" "psutil>=5.9"' in str(found)
    assert "For lessons: ready" in str(found) and "For grading: papermill is missing, psutil is wrong version" in str(found)
    lacking[0] = Package("torch", "lessons", ">=2.11,<2.16", None, "missing")
    assert not found.ok and "The lessons cannot run yet" in str(found)


def test_torchvision_for_another_torch_is_known():
    broken = Package("torchvision", "JupyterLab and all lessons", ">=0.26,<0.30", "0.26.0", "broken",
                     "RuntimeError: operator torchvision::nms does not exist")
    problem, = doctor._broken([CORE[0], broken], {})
    assert problem.needed and "built for another PyTorch" in problem.what
    assert '--force-reinstall "torch>=2.11,<2.16" "torchvision>=0.26,<0.30"' in problem.fix


def test_what_fails_as_torch_does_is_not_told_again():
    assert len(doctor._broken([Package(name, "lessons", "", "1", "broken", "OSError: x") for name in ("torch", "torchmetrics")], {})) == 1


def test_a_package_that_does_not_get_what_it_needs(site):
    distribution(site, "nbgrader", "0.9.6", "ipython>=8.10", 'never-installed>=2; extra == "dev"', "never-installed>=1")
    distribution(site, "ipython", "7.34.0")
    problems = doctor._conflicts([Package("nbgrader", "grading", "", "0.9.6", "ok")])
    assert [each.what for each in problems] == ["nbgrader 0.9.6 needs ipython>=8.10, and 7.34.0 is installed",
                                                "nbgrader 0.9.6 needs never-installed>=1, and that is not installed"]
    assert problems[0].fix.endswith('-m pip install "ipython>=8.10"') and not problems[0].needed


@pytest.mark.parametrize("name, needed", [("torch.py", True), ("numpy/__init__.py", True), ("random.py", False)])
def test_a_file_that_hides_a_module(tmp_path, name, needed):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    (tmp_path / "mine.py").write_text("")
    problem, = doctor._hiding_files(tmp_path)
    assert str(tmp_path / name.split("/")[0]) in problem.what and problem.needed is needed and "my_" in problem.fix


def test_the_course_itself_hides_nothing():
    import gapless

    assert not any("gapless" in each.what.split(" hides ")[1]
                   for each in doctor._hiding_files(Path(gapless.__file__).parents[1]))


@pytest.mark.parametrize("argv, says", [
    (["python", "-m", "ipykernel_launcher"], None), (["python3.11"], None), ([sys.executable, "-m", "ipykernel_launcher"], None),
    (["/somewhere/else/bin/python3", "-m", "ipykernel_launcher"], "/somewhere/else/bin/python3"),
])
def test_a_kernel_of_another_interpreter(tmp_path, monkeypatch, argv, says):
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    problems = doctor._kernel_problems()
    if says is None:
        assert problems == []
    else:
        problem, = problems
        assert says in problem.what and "kernelspec remove python3" in problem.fix and problem.needed


def test_programs_of_another_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    problems = doctor._path_problems()
    assert [each.what.split(" is ")[0] for each in problems] == ["jupyter", "alembic"] and "activate" in problems[0].fix
    other = tmp_path / "jupyter"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert f"jupyter is {other}, of another environment" in doctor._path_problems()[0].what
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    assert doctor._path_problems() == []


# -- which device, and why ------------------------------------------------------------------------


def test_without_cuda_the_reason_is_pytorchs_own():
    device, problems = doctor._device(TORCH, COURSE, CORE)
    assert device["name"] == "NVIDIA A10G, simulated: the virtual GPU"
    assert device["why"] == "PyTorch sees no CUDA GPU. It says: Found no NVIDIA driver on your system" and problems == []


def test_a_cpu_only_build_is_a_problem_only_where_there_is_a_driver(tmp_path, monkeypatch):
    build = TORCH | {"cuda_build": None, "why": "Torch not compiled with CUDA enabled"}
    monkeypatch.setenv("PATH", str(tmp_path))
    device, problems = doctor._device(build, COURSE, CORE)
    assert device["why"].endswith("It is built without CUDA.") and problems == []
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\n")
    driver.chmod(0o755)
    problem, = doctor._device(build, COURSE, CORE)[1]
    assert "built without CUDA" in problem.what and '--force-reinstall "torch>=2.11,<2.16"' in problem.fix and not problem.needed


@pytest.mark.parametrize("value", ["", "-1"])
def test_hidden_gpus_are_told(monkeypatch, value):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert "CUDA_VISIBLE_DEVICES" in doctor._device(TORCH, COURSE, CORE)[0]["why"]


def test_a_real_gpu_is_named():
    torch = TORCH | {"cuda": True, "gpus": ["NVIDIA H200"], "why": ""}
    device, problems = doctor._device(torch, COURSE | {"device": "cuda:0", "device_name": "NVIDIA H200"}, CORE)
    assert device == {"name": "NVIDIA H200, cuda:0", "why": "PyTorch sees NVIDIA H200"} and problems == []


def test_a_chosen_device_that_is_not_there(monkeypatch):
    monkeypatch.setenv("GAPLESS_DEVICE", "cuda")
    device, (problem,) = doctor._device(TORCH, COURSE | {"device": None, "device_error": "PyTorch sees none here"}, CORE)
    assert device["name"] is None and "Found no NVIDIA driver" in device["why"]
    assert problem.needed and "GAPLESS_DEVICE" in problem.fix


def test_pytorch_that_cannot_be_imported_leaves_no_device():
    assert doctor._device({"error": "OSError: libcudart"}, {"error": "x"}, CORE)[0]["why"] == "PyTorch cannot be imported (OSError: libcudart)"


def test_a_lesson_that_lacks_its_package():
    problem, = doctor._lesson_problems({"03_x": ["json", "never_installed"]}, CORE)
    assert problem.what == "lesson 03_x needs never_installed, which is not installed"
    assert problem.needed and problem.lessons == ("03_x",)


def test_a_module_is_installed_by_its_packages_name(monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    problem, = doctor._lesson_problems({"03_x": ["PIL"]}, CORE)
    assert "needs PIL" in problem.what and problem.fix.endswith('-m pip install "pillow"')


LESSONS = {"00_a": [], "01_b": ["torchvision"], "02_c": [], "03_d": ["torchvision", "torchmetrics"]}


def diagnosis(*more, device="a GPU", problems=()):
    packages = [CORE[0], *more]
    found = [*problems, *doctor._broken(packages, LESSONS), *doctor._lesson_problems(LESSONS, packages)]
    return doctor.Diagnosis("0", "3.11", sys.executable, {"name": device, "why": "because"}, packages, "", found, tuple(LESSONS))


def extra(name, state, detail=""):
    return Package(name, "JupyterLab and all lessons", ">=1", None if state == "missing" else "0.5", state, detail)


VISION, METRICS = extra("torchvision", "ok"), extra("torchmetrics", "ok")


@pytest.mark.parametrize("state, says", [("missing", "not installed"), ("wrong version", "0.5 is installed"), ("broken", "cannot be imported")])
def test_a_lesson_that_is_told_to_lack_something_is_not_told_to_run(state, says):
    found = diagnosis(VISION, extra("torchmetrics", state, "ImportError: x"))
    assert found.verdict == "Lesson 03 cannot run yet: see above. Lessons 00, 01 and 02 can." and not found.ok
    for text in (str(found), found.short()):
        assert says in text and found.verdict in text and "All lessons can run" not in text
    assert found.to_json()["lessons"] == {"00_a": True, "01_b": True, "02_c": True, "03_d": False}


def test_a_cause_stops_every_lesson_that_it_reaches():
    """torchmetrics fails as the torchvision does that it imports."""
    same = "RuntimeError: operator torchvision::nms does not exist"
    found = diagnosis(extra("torchvision", "broken", same), extra("torchmetrics", "broken", same))
    assert found.verdict == "Lessons 01 and 03 cannot run yet: see above. Lessons 00 and 02 can."
    core = doctor._broken([Package("torch", "lessons", "", "1", "broken", same), extra("torchmetrics", "broken", same)], LESSONS)
    assert [(each.needed, each.lessons) for each in core] == [(True, ())]


def test_what_all_need_stops_all():
    for found in (diagnosis(VISION, METRICS, device=None),
                  diagnosis(VISION, METRICS, problems=[doctor.Problem("torch.py hides torch", "mv", True)]),
                  diagnosis(VISION, METRICS, Package("numpy", "lessons", ">=1", None, "missing"))):
        assert found.verdict == "The lessons cannot run yet: see above." and all(found.stopped.values())


def test_in_short_all_is_well_in_a_line_and_else_only_what_is_wrong():
    well = diagnosis(VISION, METRICS, Package("papermill", "grading", ">=2", None, "missing"))
    assert well.short() == "Everything is there. All lessons can run. Device: a GPU."
    short = diagnosis(VISION, extra("torchmetrics", "missing")).short()
    assert "torchmetrics>=1" in short and "pip install" in short and "torchvision" not in short
    hidden = diagnosis(VISION, METRICS, problems=[doctor.Problem("random.py hides random", "mv random.py mine.py")]).short()
    assert "! random.py hides random" in hidden and "mv random.py" in hidden and "All lessons can run." in hidden


def test_from_where_the_course_runs_is_told(monkeypatch):
    """On Colab, which shows notebooks itself, JupyterLab is not missed."""
    monkeypatch.setattr(doctor, "probe", lambda names: {"torch": TORCH, "gapless": COURSE | {"libraries": {}}})
    here = doctor.diagnose()
    assert "as a checkout of the repository" in here.installation and f"Installed: {here.installation}\n" in str(here)
    assert "jupyterlab" in {each.name for each in here.packages} and here.to_json()["installation"] == here.installation
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-colab_20261101")
    there = doctor.diagnose()
    assert ", on Colab, with " in there.installation and "jupyterlab" not in {each.name for each in there.packages}


def test_a_package_without_its_notebooks(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "probe", lambda names: {"torch": TORCH, "gapless": COURSE | {"libraries": {}}})
    monkeypatch.setattr("gapless.installed._PACKAGE", tmp_path / "site" / "gapless")
    found = doctor.diagnose()
    assert any("came without its notebooks" in each.what and "--force-reinstall" in each.fix for each in found.problems)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_what_keeps_graded_code_in_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    find_confinement.cache_clear()
    try:
        assert "not installed" in doctor._confinement() and "--unconfined" in doctor._confinement()
    finally:
        find_confinement.cache_clear()


def test_a_library_that_may_take_the_cpu_is_said_with_the_line(site):
    distribution(site, "lightning", "9.1")
    found = {"device": "vgpu:0", "libraries": {"lightning": "Trainer(…)"}}
    requires = ['lightning<3,>=2.6; extra == "programs"', 'lightning<3; extra == "other"', "torch>=2.11"]
    problem, = doctor._choosing(found, requires)
    assert "lightning 9.1" in problem.what and "CPU" in problem.what and problem.fix == "Trainer(…)" and not problem.needed
    assert doctor._choosing({"device": "cuda:0"}, requires) == []
    distribution(site, "lightning", "2.7")
    assert [each for each in doctor._choosing(found, requires) if "2.7" in each.what] == []
