"""Promises of the project as a whole: one place for versions, a light core, floors that import downwards."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gapless"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Lower floors first; what is on one line may not import its neighbours, except where a comment says so.
FLOORS = [
    {"marker", "stub", "storage"},
    {"vgpu", "trace", "waits", "device", "perfetto", "files", "idioms", "workloads"},  # waits reads traces; device chooses a vgpu
    {"recorder", "averages", "views"},
    {"profiler"},
    {"profile", "report", "no_syncs", "progress_file", "notebook_file"},
    {"checks", "picture", "verdicts"},
    {"lessons"},
    {"progress"},
    {"notebook", "grading", "pytest_plugin"},
    {"commands"},
    {"record", "demo", "experiments"},  # demo reads the solutions as record does
    {"census", "calibrate", "validate"},
    {"cli"},
]
SIDEWAYS = {("waits", "trace"), ("device", "vgpu"), ("demo", "record"), ("verdicts", "checks")}
UPWARDS = {("report", "picture")}  # report.show() draws, imported when called


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    top = {name.partition(".")[0] for name in ast.literal_eval(done.stdout) if not name.startswith("_")}
    # triton comes with torch.
    assert not top - set(sys.stdlib_module_names) - {"gapless", "torch", "numpy", "triton"}


def imports(path: Path):
    """(importing floor, imported floor) of every import within the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    package = ["gapless", *parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            names = [base + [a.name] if len(base) == 1 else base for a in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gapless"):
            base = node.module.split(".")
            names = [base + [a.name] if len(base) == 1 else base for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name.split(".") for a in node.names if a.name.startswith("gapless.")]
        for name in names:
            yield parts[0], name[1]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_imports_point_down(path):
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    for importer, imported in imports(path):
        if importer == "__init__" or importer == imported:
            continue
        assert importer in floor and imported in floor, f"give {importer} and {imported} a floor"
        down = floor[imported] < floor[importer]
        assert down or (importer, imported) in SIDEWAYS | UPWARDS, f"{importer} imports {imported}"


def test_timeline_specs_and_memory_know_no_torch():
    for name in ("timeline", "specs", "memory"):
        tree = ast.parse((SOURCE / "vgpu" / f"{name}.py").read_text())
        imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        assert "torch" not in imported


def test_nothing_unix_only_is_imported_outside_the_worker():
    unix = {"resource", "fcntl", "pwd", "grp", "termios", "pty"}
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "grading":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not unix & {a.name for a in node.names}, path
