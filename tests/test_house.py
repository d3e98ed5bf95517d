"""The house of src/gapless: a folder imports only from those below it, no two modules need each other, and tests/ mirrors it."""

import ast
from pathlib import Path

import pytest

from . import ROOT

SOURCE = ROOT / "src" / "gapless"
MODULES = sorted(SOURCE.rglob("*.py"))

# From the ground up. The files at the top of the package are named by themselves, and the rooms of large folders.
FOLDERS = ("files", "installed", "marker", "incoming", "garbage", "switches", "words",
           *(f"vgpu/{room}" for room in (
               "hardware/cards", "hardware/clock", "hardware/memory", "hardware/times", "hardware/kernels", "hardware",
               "process", "ordering", "core", "operators", "host", "compiling", "distributed", "boundary",
               "libraries", "face", "as_cuda")),
           "vgpu", "evidence/traces", "evidence/ranks", "evidence/pictures", "evidence", "measure", "course/notebooks", "course",
           "lessons", "learner", "grading/sandbox", "grading/notebooks", "grading/workers", "grading", "grading/report",
           "fidelity", "audit", "commands", "__init__", "pytest_plugin")
MOST_FILES = 20  # side by side in a folder; commands/ is a list


def folder(path: Path) -> str:
    """The folder of FOLDERS that a module lies in: the innermost."""
    inside = path.relative_to(SOURCE)
    if len(inside.parts) == 1:
        return inside.stem
    folders = ["/".join(inside.parts[:depth]) for depth in range(1, len(inside.parts))]
    return next((name for name in reversed(folders) if name in FOLDERS), folders[0])


def module(name: list[str]) -> Path | None:
    """The file of ``gapless.….…``, or None where the name is of something inside a module."""
    path = SOURCE.joinpath(*name[1:])
    return next((found for found in (path.with_suffix(".py"), path / "__init__.py") if found.is_file()), None)


def imports(path: Path, body=None):
    """(line, imported file) of each import within the package: of all, or of those among the statements ``body``."""
    package = ["gapless", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if body is None else body:
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            names = [[*base, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == "gapless":
                found = module(name) or module(name[:-1])
                assert found is not None, f"{shown(path)}:{node.lineno} imports {'.'.join(name)}, which is not there"
                yield node.lineno, found


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_a_folder_imports_only_from_those_below_it(path):
    """Imports inside functions count too."""
    assert folder(path) in FOLDERS, f"give {folder(path)} a place in FOLDERS"
    for line, imported in imports(path):
        if folder(imported) != folder(path):
            assert FOLDERS.index(folder(imported)) < FOLDERS.index(folder(path)), (
                f"{shown(path)}:{line} imports {shown(imported)}, which lies above it: move what it needs down")


@pytest.mark.parametrize("room", sorted({path.parent for path in MODULES} - {SOURCE / "commands"}), ids=shown)
def test_a_room_has_few_files(room):
    files = sorted(path.name for path in room.glob("*.py"))
    assert len(files) <= MOST_FILES, f"{shown(room)} has {len(files)} files side by side: it wants rooms"


def test_no_modules_import_each_other_in_a_circle():
    """Imports inside functions count too: what two modules need of each other lies below both, or one registers with the other."""
    needs = {path: list(imports(path)) for path in MODULES}
    done, way = set(), []

    def visit(path):
        way.append(path)
        for line, imported in needs[path]:
            if imported in way:
                circle = " → ".join(shown(each) for each in [*way[way.index(imported):], imported])
                pytest.fail(f"{shown(path)}:{line} closes a circle of imports: {circle}. Move what both need into a module "
                            "below them")
            if imported not in done:
                visit(imported)
        done.add(way.pop())

    for path in MODULES:
        if path not in done:
            visit(path)


# -- tests/ -------------------------------------------------------------------------------------------

# Module → the test file that tries it, where it has none of its own name: what it does is seen only through another.
ELSEWHERE = {
    "audit/child": "audit/test_audit",
    "audit/launch": "audit/test_audit",
    "audit/markdown": "audit/test_page",
    "audit/options": "audit/test_audit",
    "audit/places": "audit/test_host_lines",
    "audit/remarks": "audit/test_result",
    "audit/session": "audit/test_audit",
    "commands/course_folder": "commands/test_class_report",
    "commands/demo": "commands/test_cli",  # its refusals; its three parts have their own tests
    "commands/grades": "grading/report/test_facts",
    "commands/skeleton": "commands/test_new_lesson",
    "course/check": "course/test_judge",
    "course/checks/bus_bytes": "course/test_judge",
    "course/checks/host_time": "course/test_judge",
    "course/checks/in_its_own_way": "lessons/test_capstone",
    "course/checks/speed_up": "course/checks/test_measured",
    "course/checks/step_time": "course/test_judge",
    "course/checks/values": "course/test_judge",
    "course/checks/waits": "course/test_judge",
    "course/faults": "course/test_judge",
    "course/headline": "commands/test_record",
    "course/truth": "course/test_judge",
    "evidence/traces/averages": "measure/test_profiler",
    "grading/sandbox/boot": "grading/sandbox/test_confine",
    "grading/report/page": "grading/report/test_facts",
    "grading/report/tables": "grading/report/test_facts",
    "grading/sandbox/enclosure": "grading/sandbox/test_servers",
    "grading/export": "grading/test_autograde",
    "grading/workers/job": "grading/workers/test_pool",
    "grading/show": "grading/test_lessons",
    "grading/standing": "grading/test_autograde",
    "grading/notebooks/testnotebook": "grading/test_lessons",
    "measure/recorder": "measure/test_profile",
    "pytest_plugin": "measure/test_no_syncs",
    "vgpu/ordering/backward_streams": "vgpu/ordering/test_race_detector",
    "vgpu/operators/ctc": "vgpu/test_networks",
    "vgpu/process/eager": "vgpu/test_networks",
    "vgpu/process/forks": "vgpu/boundary/test_processes",
    "vgpu/hardware/clock/engine": "vgpu/test_engine",
    "vgpu/hardware/clock/streams": "vgpu/hardware/clock/test_timeline",
    "vgpu/core/identity": "vgpu/test_objects",
    "vgpu/core/inputs": "measure/test_profiler",
    "vgpu/face/kineto": "measure/test_profile",
    "vgpu/boundary/linked_groups": "grading/test_rank_processes",
    "vgpu/host/loader_worker": "vgpu/host/test_data_loader",
    "vgpu/face/modules": "vgpu/test_objects",
    "vgpu/operators/copies": "vgpu/core/test_dispatch",
    "vgpu/distributed/rank_process": "measure/test_several_gpus",
    "vgpu/boundary/served_groups": "grading/test_rank_processes",
    "vgpu/process/state": "vgpu/core/test_dispatch",
    "vgpu/ordering/streams": "vgpu/face/test_accelerator",
    "vgpu/core/tensor": "vgpu/test_objects",
}
# Test files of more than one module.
ACROSS = {
    "audit/test_pull_requests",  # docs/audit.md's examples
    "audit/test_trainers",  # libraries of others
    "browser/test_formgrader", "browser/test_lesson", "browser/test_pages",  # what is seen and pressed
    "test_colab_runtime", "test_hangs", "test_house", "test_project", "test_style", "test_times",
    "test_any_order", "test_authors", "test_dockerfile", "test_figures", "test_index_notebook", "test_instructors", "test_site",  # what is not in src
    "lessons/test_wrong_cells", "test_lesson_notebooks", "test_wheel", "mutants/test_mutants",
    "conformance/test_dtypes", "conformance/test_entries", "conformance/test_modes", "torch_suite/test_torch_suite",  # PyTorch's operators and tests
    "evidence/ranks/test_distributed_tools", "evidence/ranks/test_rank_runs", "evidence/ranks/test_rank_trace_tools",
    "evidence/traces/test_trace_tools", "evidence/test_views_tools",  # the field's tools, on our traces
    "grading/test_lesson02", "grading/test_lessons", "grading/test_nbgrader", "grading/test_rank_processes", "grading/test_round_trips",  # to a grade
    "grading/attempts/test_clock", "grading/attempts/test_honest", "grading/attempts/test_process", "grading/attempts/test_steps",
    "grading/attempts/test_values",
    "grading/test_faults",
    "learner/test_notebook_in_kernel",
    "lessons/test_exercises", "lessons/test_mistakes", "lessons/test_rank_traces",
    "programs/test_programs",  # models and libraries of others
    "vgpu/test_autograd", "vgpu/test_engine", "vgpu/test_memory_formats", "vgpu/test_networks", "vgpu/test_no_crash", "vgpu/test_objects",
    "vgpu/test_optimizers", "vgpu/test_sharding", "vgpu/test_sharding_time", "vgpu/test_tracing", "vgpu/test_training",
}


def own_test(path: Path) -> str:
    """Where the test file of a module belongs. A package inside a folder, such as a lesson, is tested as one."""
    inside = path.relative_to(SOURCE).with_suffix("")
    if inside.parts[:2] in (("vgpu", "as_cuda"), ("vgpu", "libraries")):
        return f"vgpu/test_{inside.parts[1]}"
    if inside.parts[:2] in (("fidelity", "fit"), ("course", "checks")):  # one each, as large as a module
        return "/".join([*inside.parts[:-1], f"test_{inside.parts[-1]}"])
    depth = len(Path(folder(path)).parts) + 1 if len(inside.parts) > 1 else 1
    parts = inside.parts[:depth]
    return "/".join([*parts[:-1], f"test_{parts[-1]}"])


def test_every_module_has_its_test_file_and_every_test_file_its_module():
    modules = {path: own_test(path) for path in MODULES if path.name != "__init__.py"}
    files = {path.relative_to(ROOT / "tests").with_suffix("").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    elsewhere = {}
    for path, own in modules.items():
        name = path.relative_to(SOURCE).with_suffix("").as_posix()
        if own not in files:
            elsewhere[name] = ELSEWHERE.get(name)
            assert elsewhere[name] in files, f"{shown(path)} has no tests/{own}.py, nor an entry in ELSEWHERE"
    assert elsewhere == ELSEWHERE, "an entry of ELSEWHERE is no longer needed"
    assert files - set(modules.values()) == ACROSS, "each is named after its module, or listed in ACROSS"
