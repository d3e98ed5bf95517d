"""The Dockerfile agrees with the rest. That it builds is for where there is Docker: nothing here runs it."""

import re
import tomllib

import pytest

from . import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_TEXT = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = [line.split(maxsplit=1) for line in re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", _TEXT)).splitlines() if line]


def every(name):
    return [rest for word, rest in INSTRUCTIONS if word == name]


def test_every_line_is_an_instruction():
    known = {"FROM", "RUN", "ARG", "COPY", "USER", "WORKDIR", "ENV", "EXPOSE", "CMD"}
    assert {word for word, _ in INSTRUCTIONS} <= known and len(every("FROM")) == 1


def test_python_is_one_that_the_project_allows():
    version = tuple(map(int, re.match(r"python:(\d+)\.(\d+)-", every("FROM")[0]).groups()))
    assert version >= tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))


def test_versions_are_those_of_pyproject():
    install, = (line for line in every("RUN") if "--index-url" in line)
    wanted = {re.match(r"[\w-]+", each)[0]: each for extra in ("lab", "grading") for each in PROJECT["optional-dependencies"][extra]}
    wanted |= {re.match(r"[\w-]+", each)[0]: each for each in PROJECT["dependencies"]}
    named = re.findall(r'"(torch\w*[<>=][^"]*)"', install)
    assert named == [wanted["torch"], wanted["torchvision"]]
    extras, = re.findall(r"/opt/gapless\[([\w,]+)\]", _TEXT)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("line", every("COPY"))
def test_what_is_copied_is_there_and_not_left_out(line):
    *sources, _ = line.split()
    let_in = [each[1:] for each in (ROOT / ".dockerignore").read_text().splitlines() if each.startswith("!")]
    for source in sources:
        assert (ROOT / source).exists() and source in let_in


def test_no_solutions_and_no_tests_are_sent():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines and not {"!solutions", "!autograde", "!tests"} & set(lines)


def test_it_does_not_run_as_root():
    user, = every("USER")
    assert user != "root" and any(f" {user}" in line and "useradd" in line for line in every("RUN"))
    words = [word for word, _ in INSTRUCTIONS]
    assert "RUN" not in words[words.index("USER"):]


def test_no_other_host_than_pytorchs_own():
    assert re.findall(r"https?://([^/\s]+)", _TEXT) == ["download.pytorch.org"]
