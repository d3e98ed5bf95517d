"""Promises of the project as a whole: one place for versions, a light core."""

import ast
import re
import shlex
import sys
import tomllib

import pytest
import yaml

from . import ROOT, forked

SOURCE = ROOT / "src" / "gapless"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.M))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_environment_yml_installs_what_pyproject_says():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = {str(d).split(">")[0].split("=")[0]: str(d) for d in environment["dependencies"] if isinstance(d, str)}
    pip, = (d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    assert conda["python"] == "python" + PROJECT["requires-python"]
    assert set(conda) == {"python", "pip"}, "versions of packages belong in pyproject.toml alone"
    extra = pip[0].split("[")[1].rstrip("]")
    assert len(pip) == 1 and pip[0].startswith("--editable .[") and extra in PROJECT["optional-dependencies"]


def test_core_needs_torch_and_numpy_only():
    assert sorted(d.split(">")[0] for d in PROJECT["dependencies"]) == ["numpy", "torch"]
    code = "import sys, torch; before = set(sys.modules); import gapless; print(sorted(set(sys.modules) - before))"
    done = forked.run("-c", code, imports=forked.PYTORCH)
    done.check_returncode()
    top = {name.partition(".")[0] for name in ast.literal_eval(done.stdout) if not name.startswith("_")}
    # triton comes with torch.
    assert not top - set(sys.stdlib_module_names) - {"gapless", "torch", "numpy", "triton"}


@pytest.mark.parametrize("code", [
    "from gapless.profiler import record_function", "from gapless.views import gpu_utilization",
    "import gapless.views; assert gapless.views is gapless.evidence.views",
])
def test_public_modules_are_imported_by_their_public_names(code):
    done = forked.run("-c", code, imports=forked.PYTORCH)
    assert done.returncode == 0, done.stderr


def test_clocks_cards_and_memory_need_no_torch():
    for name in ("clock/timeline", "clock/engine", "cards/specs", "cards/cardfile", "memory/memory"):
        tree = ast.parse((SOURCE / "vgpu" / "hardware" / f"{name}.py").read_text(encoding="utf-8"))
        imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert not any(str(each).partition(".")[0] == "torch" for each in imported), name


def test_what_is_unix_only_is_imported_where_it_may_be_missing():
    unix = {"resource", "fcntl", "pwd", "grp", "termios", "pty"}
    for path in SOURCE.rglob("*.py"):
        if "grading" in path.parts:
            continue
        tree = ast.parse(path.read_text())
        guarded = {inner for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in node.body
                   if any(isinstance(handler.type, ast.Name) and handler.type.id == "ImportError" for handler in node.handlers)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and node not in guarded:
                assert not unix & {a.name for a in node.names}, path


def test_a_wheel_holds_what_lies_beside_the_modules():
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    inside = {package: SOURCE.parent.joinpath(*package.split(".")) for package in packed if package != "*"}

    def is_packed(path):
        return any(path.match(pattern) for pattern in packed["*"]) or any(
            path in folder.glob(pattern) for package, folder in inside.items() for pattern in packed[package])

    beside = [path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert beside and not [path for path in beside if not is_packed(path)]


def made(script: str) -> list[str]:
    """The targets of make that a shell script asks for."""
    asked = []
    for line in script.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            asked += [word for word in words[1:] if "=" not in word]
    return asked


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_asks_make_for_targets_that_there_are(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["name"] == path.stem and set(workflow[True]) == {"push", "pull_request"}  # YAML reads "on" as true
    asked = []
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            asked += made(step.get("run", ""))
        versions = job.get("strategy", {}).get("matrix", {}).get("python", [])
        oldest = PROJECT["requires-python"].removeprefix(">=")
        assert not versions or oldest in versions
    assert "dev" in asked and not set(asked) - TARGETS


def test_the_own_continuous_integration_does_what_the_workflows_do():
    asked = made((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert asked == ["dev", "lint", "test", "test-all"]
    # The site is published, not tested, by its workflow: a slow test builds it without running the demonstrations.
    assert {*asked, "site"} == {target for path in WORKFLOWS for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
                          for step in job["steps"] for target in made(step.get("run", ""))}


def test_make_names_its_targets_and_installs_extras_that_there_are():
    phony = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[1].split())
    assert phony == TARGETS
    installed = [extra for extras in re.findall(r"--editable '\.\[(.*?)\]'", MAKEFILE) for extra in extras.split(",")]
    assert installed == ["lab", "grading", "dev"] and set(installed) <= set(PROJECT["optional-dependencies"])


def test_hooks_use_the_environment_of_make():
    hooks = [hook for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"] for hook in repo["hooks"]]
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", MAKEFILE, re.M)[1].split("\n\t")
    assert [hook["entry"].split()[0] for hook in hooks] == [f".venv/bin/{line.split()[0]}" for line in recipe]
    assert all(hook["language"] == "system" for hook in hooks)


def test_how_to_cite_is_what_pyproject_says():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert PROJECT["urls"]["Repository"].startswith(citation["repository-code"] + "/")
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# What IPython 7.34, Colab's, has: looked up there, and run in it by benchmarks/colab_runtime.py.
IN_IPYTHON_7 = {"IPython.core.displayhook.DisplayHook", "IPython.core.interactiveshell.InteractiveShell", "IPython.display.HTML", "IPython.display.display", "IPython.utils.capture.capture_output", "get_ipython",
                "history_manager", "input_hist_raw", "input_hist_parsed", "InteractiveTB", "structured_traceback", "user_ns",
                "display", "set_custom_exc", "custom_exceptions", "showtraceback", "set_next_input", "events"}


def test_nothing_is_used_of_ipython_that_colabs_has_not():
    """Every name that is imported from it, and every attribute of its shell, as far as the code calls it ``shell``."""
    used = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "IPython":
                used |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Attribute) and path.parent.name == "learner":
                of = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
                if of in ("shell", "ipython", "history", "history_manager", "InteractiveTB"):
                    used.add(node.attr)
    assert {"get_ipython", "input_hist_raw", "structured_traceback"} <= used  # it finds what is there
    assert not used - IN_IPYTHON_7, "look them up in IPython 7.34, and run benchmarks/colab_runtime.py there"
