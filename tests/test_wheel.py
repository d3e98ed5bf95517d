"""The wheel, built, installed beside nothing of the repository, and used from a folder elsewhere."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from gapless.lessons import LESSONS

from . import ROOT

LESSON = "02_masked_loss"
NEEDED = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")


def run(*arguments, **options):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def build(source, into):
    """The wheel of the repository in ``source``: made by pip, without a network."""
    run("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", into, source)
    wheel, = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of what a wheel is made from, so that building leaves nothing in the repository; and an author's leavings."""
    root = tmp_path_factory.mktemp("repository")
    for folder in ("src", "notebooks"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for file in NEEDED:
        shutil.copy(ROOT / file, root / file)
    left = root / "notebooks" / LESSON / ".ipynb_checkpoints"
    left.mkdir(exist_ok=True)
    for path in (left / f"{LESSON}-checkpoint.ipynb", root / "notebooks" / LESSON / "mine.ipynb",
                 root / "build" / "lib" / "gapless" / "notebooks" / "99_old" / "99_old.ipynb"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return root


@pytest.fixture(scope="module")
def wheel(repository, tmp_path_factory):
    return build(repository, tmp_path_factory.mktemp("wheel"))


def contents(wheel):
    """Name → bytes of what the wheel installs, its metadata aside."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def test_it_holds_the_package_and_the_notebooks_and_nothing_else(wheel):
    package = {path.relative_to(ROOT / "src").as_posix(): path for path in (ROOT / "src" / "gapless").rglob("*")
               if path.is_file() and path.suffix != ".pyc"} | {"gapless_command.py": ROOT / "src" / "gapless_command.py"}
    handed_out = {f"gapless/notebooks/{name}": ROOT / "notebooks" / name
                  for name in ("index.ipynb", *(f"{lesson}/{lesson}.ipynb" for lesson in LESSONS))}
    found = contents(wheel)
    assert set(found) == set(package) | set(handed_out)
    assert all(found[name] == path.read_bytes() for name, path in {**package, **handed_out}.items())


def test_it_names_no_place_on_the_machine_that_built_it(wheel, repository):
    places = [str(place).encode() for place in (ROOT, repository, Path.home(), sys.prefix) if len(Path(place).parts) > 2]
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            assert not [place for place in places if place in content], name
            assert b"### BEGIN SOLUTION" not in content or not name.endswith(".ipynb"), name


@pytest.mark.slow
def test_an_sdist_makes_the_same_wheel(wheel, repository, tmp_path):
    run("-c", "import setuptools.build_meta as b; b.build_sdist('dist')", cwd=repository)
    archive, = (repository / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        assert not [name for name in tar.getnames() if "/tests/" in name or "/solutions/0" in name or name.endswith("checkpoint.ipynb")]
        tar.extractall(tmp_path, filter="data")
    unpacked, = tmp_path.iterdir()
    assert contents(build(unpacked, tmp_path / "wheel")) == contents(wheel)


# -- as a learner has it ----------------------------------------------------------------------------

SETUP_CELLS = """
import json, sys
for path in sys.argv[1:]:
    cells = json.load(open(path, encoding="utf-8"))["cells"]
    setup, = ["".join(cell["source"]) for cell in cells if cell["id"] == "setup"]
    exec(compile(setup, path, "exec"), {})
"""


@pytest.fixture(scope="module")
def learner(wheel, tmp_path_factory):
    """``learner("start", …)``: the command from the wheel, in a folder of the learner's; ``learner.python(…)``: Python there."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("home")
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel)
    environment = {**os.environ, "PYTHONPATH": str(site), "GAPLESS_HOME": str(folder / "progress")}

    def command(*arguments):
        return command.python("-m", "gapless_command", *arguments)

    command.python = lambda *arguments: run(*arguments, cwd=folder, env=environment)
    command.folder = folder
    assert str(site) in command.python("-c", "import gapless; print(gapless.__file__)")
    return command


@pytest.mark.slow
def test_lessons_are_handed_out_and_run(learner):
    learner("start", "course")
    paths = sorted((learner.folder / "course").rglob("*.ipynb"))
    assert [path.stem for path in paths] == [*LESSONS, "index"]
    learner.python("-c", SETUP_CELLS, *(path for path in paths if path.stem in LESSONS))
    found = json.loads(learner("doctor", "--json"))
    assert found["installation"].startswith("from a wheel") and f"{len(LESSONS)} lessons; gapless start" in found["installation"]
    assert found["lessons"] == dict.fromkeys(LESSONS, True)


@pytest.mark.slow
def test_a_solved_lesson_is_checked_and_graded(learner):
    shutil.copy(ROOT / "solutions" / LESSON / f"{LESSON}.ipynb", learner.folder / "solved.ipynb")
    assert "5 of 5 points" in learner("check", "solved.ipynb", "ignore_background")
    learner("grade", "solved.ipynb", "--device", "vgpu:a10g", "--json", "result.json")
    assert json.loads((learner.folder / "result.json").read_text())["score"] == LESSONS[LESSON].max_points


# -- on Colab ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """``colab(folder, **environment)``: the first cell of lesson 02's notebook for Colab, run by a Python that has all that this
    one has but gapless."""
    root = tmp_path_factory.mktemp("colab")
    (root / "site").mkdir()
    for path in Path(os.path.dirname(pytest.__file__)).parent.iterdir():
        if "gapless" not in path.name:
            (root / "site" / path.name).symlink_to(path)
    run("-m", "venv", "--without-pip", root / "venv")
    python, = (root / "venv").glob("bin/python")
    packages, = (root / "venv").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(str(root / "site"))
    cells = json.loads((ROOT / "colab" / f"{LESSON}.ipynb").read_text(encoding="utf-8"))["cells"]
    program = "\n".join("".join(cell["source"]) for cell in cells if cell["id"] in ("install", "setup"))

    def first_cell(folder, **environment):
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run([python, "-c", program], cwd=folder, env={**clean, **environment}, capture_output=True, text=True,
                              timeout=300)

    return first_cell


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_the_first_cell_on_colab_installs_the_course_and_the_lesson_runs(colab, wheel, tmp_path):
    nowhere = {"PIP_NO_INDEX": "1", "https_proxy": "http://127.0.0.1:9"}
    failed = colab(tmp_path, **nowhere)
    assert failed.returncode == 1 and "put the course's wheel (gapless-….whl) into this folder" in failed.stderr
    shutil.copy(wheel, tmp_path)
    done = colab(tmp_path, **nowhere)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "Installing the course …" and said[1].startswith("Ready: gapless ") and len(said) == 2
    again = colab(tmp_path, **nowhere)
    assert again.stdout.splitlines() == said[1:] and again.returncode == 0
