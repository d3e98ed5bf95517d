"""``gapless doctor``: what is installed, which device the course will use and why, what is wrong, and what fixes it.

It needs the standard library only: PyTorch may be the patient. The versions that are wanted are read from the package's own
metadata, so that they are stated in pyproject.toml alone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from ..installed import NotebooksMissing, on_colab, whence
from .probe import probe

# Extra in pyproject.toml → what it is for.
USES = {"": "lessons", "plots": "lessons", "lab": "JupyterLab and all lessons", "grading": "grading", "tools": "trace tools"}
_NEEDED = "lessons"  # what has to be there for the exit status 0
_IMPORTED_AS = {"traceinsight": "hta", "torch-tb-profiler": "torch_tb_profiler"}
_INSTALLED_AS = {"PIL": "pillow", "lightning_utilities": "lightning-utilities"}
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?$")
_ALSO = ("ipython", "fsspec")  # come with others, and are known to make trouble
_HIDES = ("torch", "numpy", "matplotlib", "torchvision", "torchmetrics", "gapless", "IPython")


@dataclass(frozen=True)
class Package:
    """``state``: ok, missing, wrong version, or broken (it is there and cannot be imported: ``detail`` says how)."""

    name: str
    use: str
    wanted: str
    installed: str | None
    state: str
    detail: str = ""


@dataclass(frozen=True)
class Problem:
    """Something wrong; ``needed``: lessons cannot run, or not as they should: those in ``lessons``, or all where that is
    empty. ``fix``: a command, or what to do."""

    what: str
    fix: str
    needed: bool = False
    lessons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """All that was found. ``device`` holds ``name`` (None: there is none) and ``why``; ``installation`` says from where the
    course runs, in words."""

    gapless: str
    python: str
    interpreter: str
    device: dict
    packages: list[Package]
    confinement: str
    problems: list[Problem]
    lessons: tuple[str, ...] = ()  # all there are, as far as the course can be imported
    installation: str = ""

    @property
    def missing(self) -> dict[str, list[Package]]:
        """Use → what it lacks."""
        return {use: [each for each in self.packages if each.use == use and each.state != "ok"]
                for use in dict.fromkeys(USES.values())}

    @property
    def ok(self) -> bool:
        """Whether all lessons can run."""
        return self._any_can and not any(p.needed for p in self.problems)

    @property
    def _any_can(self) -> bool:
        return (self.device["name"] is not None and not self.missing[_NEEDED]
                and not any(p.needed and not p.lessons for p in self.problems))

    @property
    def stopped(self) -> dict[str, bool]:
        """Lesson → whether something keeps it from running."""
        some = {lesson for p in self.problems if p.needed for lesson in p.lessons}
        return {lesson: not self._any_can or lesson in some for lesson in self.lessons}

    @property
    def verdict(self) -> str:
        """Which lessons can run, in a sentence."""
        if self.ok:
            return "All lessons can run."
        can = [lesson for lesson, stopped in self.stopped.items() if not stopped]
        if not can:
            return "The lessons cannot run yet: see above."
        cannot = [lesson for lesson, stopped in self.stopped.items() if stopped]
        return f"{_lessons(cannot)} cannot run yet: see above. {_lessons(can)} can."

    def to_json(self) -> dict:
        """Plain JSON types."""
        return {"ok": self.ok, "gapless": self.gapless, "installation": self.installation, "python": self.python,
                "interpreter": self.interpreter, "device": self.device, "packages": [asdict(each) for each in self.packages],
                "lessons": {lesson: not stopped for lesson, stopped in self.stopped.items()},
                "uses": {use: not lacks for use, lacks in self.missing.items()}, "confinement": self.confinement,
                "problems": [asdict(each) for each in self.problems]}

    def __str__(self) -> str:
        lines = [f"gapless {self.gapless}, Python {self.python} ({self.interpreter})",
                 f"Installed: {self.installation}",
                 f"Device: {self.device['name'] or 'none'}", f"   Why: {self.device['why']}", ""]
        rows = [("package", "installed", "wanted", "state"),
                *((each.name, each.installed or "-", each.wanted or "any", each.state) for each in self.packages)]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines += ["  ".join([*(text.ljust(width) for text, width in zip(row, widths)), row[3]]) for row in rows]
        lines += [f"Confinement of graded code: {self.confinement}", ""]
        lines += [*self._lacks(self.missing), *self._problem_lines(), "", self.verdict]
        return "\n".join(lines)

    def short(self) -> str:
        """A line where all is well; else what is wrong for a learner, and what fixes it."""
        for_lessons = {use: lacks for use, lacks in self.missing.items() if use in (USES[""], USES["lab"]) and lacks}
        if self.ok and not for_lessons and not self.problems:
            return f"Everything is there. {self.verdict} Device: {self.device['name']}."
        device = [] if self.device["name"] else [f"There is no device: {self.device['why']}"]
        return "\n".join([*device, *self._lacks(for_lessons), *self._problem_lines(), "", self.verdict,
                          "For the full report, run gapless doctor in a terminal."]).strip()

    @staticmethod
    def _lacks(missing: dict[str, list[Package]]) -> list[str]:
        lines = []
        for use, lacks in missing.items():
            lines.append(f"For {use}: " + (", ".join(f"{each.name} is {each.state}" for each in lacks) or "ready"))
            wanted = [each for each in lacks if each.state in ("missing", "wrong version")]
            if wanted:
                lines.append(f"    {install(*(each.name + each.wanted for each in wanted))}")
        return lines

    def _problem_lines(self) -> list[str]:
        lines = ["", "What is wrong:"] if self.problems else []
        for problem in sorted(self.problems, key=lambda each: not each.needed):
            lines += [f"  {'✗' if problem.needed else '!'} {problem.what}", f"      {problem.fix}"]
        return lines


def _lessons(lesson_ids: list[str]) -> str:
    """``Lesson 03``, ``Lessons 01 and 03``, by their numbers."""
    numbers = [lesson.partition("_")[0] for lesson in lesson_ids]
    return f"Lesson {numbers[0]}" if len(numbers) == 1 else f"Lessons {', '.join(numbers[:-1])} and {numbers[-1]}"


def add_parser(commands) -> None:
    """Add ``doctor`` to the command line."""
    parser = commands.add_parser("doctor", help="say what is installed, what is wrong, and what fixes it",
                                 description="Say what is installed, which device the course will use and why, what is "
                                             "wrong, and the command that fixes it. Exit status: 0 all lessons can run, 1 "
                                             "some cannot.")
    parser.add_argument("--short", action="store_true", help="one line where all is well, else only what is wrong")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Print the diagnosis."""
    if sys.stderr.isatty():
        print("Looking at what is installed …", file=sys.stderr)
    found = diagnose()
    if arguments.json:
        print(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
    else:
        print(found.short() if arguments.short else found)
    return 0 if found.ok else 1


def install(*requirements: str, again: bool = False) -> str:
    """The command that installs these into this very interpreter's environment; ``again``: even where they are there."""
    options = ["--force-reinstall"] if again else []
    return " ".join([_quote(sys.executable), "-m pip install", *options, *(f'"{each}"' for each in requirements)])


def _quote(path: str) -> str:
    return f'"{path}"' if os.name == "nt" and " " in path else path if os.name == "nt" else shlex.quote(path)


def diagnose() -> Diagnosis:
    """Look at this interpreter, in this folder."""
    try:
        own = metadata.distribution("gapless")
        version, python_wanted = own.version, own.metadata.get("Requires-Python") or ""  # type: ignore[attr-defined]  # a message of email.message
    except metadata.PackageNotFoundError:
        own, version, python_wanted = None, "not installed", ""
    wanted = _wanted(own.requires or [] if own else ["torch", "numpy"])
    try:
        installation, lost = whence(), []
    except NotebooksMissing as error:
        installation, lost = "without its notebooks", [Problem(str(error), install("gapless", again=True) + " --no-deps")]
    if on_colab():  # which shows notebooks itself
        wanted.pop("jupyterlab", None)
    modules = [_IMPORTED_AS.get(name, name) for name in wanted if _version(name)]
    probed = probe([*modules, "gapless"])
    packages = [_package("python", _NEEDED, python_wanted, ".".join(map(str, sys.version_info[:3])), None)]
    packages += [_package(name, use, specifier, _version(name), probed.get(_IMPORTED_AS.get(name, name)))
                 for name, (use, specifier) in wanted.items()]
    packages += [Package(name, "others", "", _version(name), "ok" if _version(name) else "missing") for name in _ALSO]
    misplaced = _misplaced(probed)
    lessons = probed["gapless"].get("lessons", {})
    problems = [*_installation_problems(own, packages), *lost, *(misplaced or _broken(packages, lessons)),
                *_conflicts(packages), *_hiding_files(Path.cwd()), *_kernel_problems(), *_path_problems()]
    problems += _choosing(probed["gapless"], own.requires or [] if own else [])
    device, device_problems = _device(probed.get("torch", {"error": "it is not installed"}), probed["gapless"], packages)
    return Diagnosis(version, packages[0].installed, sys.executable, device, packages, _confinement(),
                     [*problems, *device_problems, *_lesson_problems(lessons, packages)], tuple(lessons), installation)


# -- packages -------------------------------------------------------------------------------------


def _wanted(requires: list[str]) -> dict[str, tuple[str, str]]:
    """Package → (its use, its versions), of the core and the extras in USES."""
    found: dict[str, tuple[str, str]] = {}
    for text in requires:
        name, specifier, marker = _REQUIREMENT.match(text).groups()
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", marker or "")
        extra = extra.group(1) if extra else ""
        if name != "gapless" and extra in USES:
            found.setdefault(name, (USES[extra], specifier.strip()))
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str, use: str, wanted: str, installed: str | None, probed: dict | None) -> Package:
    if installed is None:
        state = "missing"
    elif probed is not None and probed["error"]:
        return Package(name, use, wanted, installed, "broken", probed["error"])
    else:
        state = "ok" if _fits(installed, wanted) is not False else "wrong version"
    return Package(name, use, wanted, installed, state)


def _fits(version: str, wanted: str) -> bool | None:
    """Whether the version is in the range; None where that is unknown."""
    try:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
        from packaging.version import InvalidVersion
    except ImportError:
        return None
    try:
        return SpecifierSet(wanted).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return None


def _installation_problems(own, packages: list[Package]) -> list[Problem]:
    problems = []
    if own is None:
        problems.append(Problem("gapless runs from its source and is not installed: the versions that it needs are "
                                "unknown",
                                f"in its folder: {_quote(sys.executable)} -m pip install --editable '.[lab]'"))
    if importlib.util.find_spec("packaging") is None:
        problems.append(Problem("version ranges were not checked: the package packaging is missing", install("packaging")))
    if packages[0].state == "wrong version":
        problems.append(Problem(f"this is Python {packages[0].installed}, and {packages[0].wanted} is needed",
                                "install a newer Python, and the course into it", needed=True))
    return problems


def _misplaced(probed: dict[str, dict]) -> list[Problem]:
    """Modules that are imported from elsewhere than where pip put them, as by PYTHONPATH."""
    problems = []
    for name in ("torch", "numpy"):
        file = probed.get(name, {}).get("file")
        if file and not _same(Path(file).parent, Path(str(metadata.distribution(name).locate_file(name)))):
            problems.append(Problem(f"{name} is imported from {file}, which is not the installed one",
                                    "rename that file, or take its folder out of PYTHONPATH", needed=True))
    return problems


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _broken(packages: list[Package], lessons: dict[str, list[str]]) -> list[Problem]:
    """``lessons``: lesson → the packages that it needs besides."""
    problems = []
    broken: dict[str, list[Package]] = {}
    for each in packages:
        if each.state == "broken":
            broken.setdefault(each.detail, []).append(each)
    for detail, (each, *others) in broken.items():  # what depends on torch fails as torch does
        own = each.name + each.wanted
        fix = install(own, again=True)
        what = f"{each.name} {each.installed} is installed but cannot be imported: {detail}"
        if "torchvision::" in detail:
            torch = next(p for p in packages if p.name == "torch")
            what += (f". It is built for another PyTorch than the one installed ({torch.installed}), often a CPU-only one: "
                     "both have to come from the same place")
            fix = install(torch.name + torch.wanted, own, again=True)
        uses = {p.use for p in (each, *others)}
        names = {p.name for p in (each, *others)}
        stopped = tuple(lesson for lesson, needs in lessons.items() if names & set(needs)) if USES[""] not in uses else ()
        problems.append(Problem(what, fix, bool(uses & {USES[""], USES["lab"]}), stopped))
    return problems


def _conflicts(packages: list[Package]) -> list[Problem]:
    """What the installed packages themselves need and do not get, as ``pip check`` would find."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError:
        return []
    problems = []
    for each in packages:
        if each.installed is None or each.name == "python":
            continue
        for text in metadata.requires(each.name) or []:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                continue
            have = _version(requirement.name)
            if have is None or _fits(have, str(requirement.specifier)) is False:
                problems.append(Problem(
                    f"{each.name} {each.installed} needs {requirement.name}{requirement.specifier}, and "
                    + (f"{have} is installed" if have else "that is not installed"),
                    install(f"{requirement.name}{requirement.specifier}")))
    return problems


# -- surroundings ---------------------------------------------------------------------------------


def _hiding_files(folder: Path) -> list[Problem]:
    """Files in ``folder`` that a notebook there would import in place of what it means."""
    problems = []
    names = {*_HIDES, *sys.stdlib_module_names}
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        return []
    for path in inside:
        name = path.stem if path.suffix == ".py" else path.name if (path / "__init__.py").is_file() else None
        if name not in names:
            continue
        meant = importlib.util.find_spec(name) if name == "gapless" else None
        if meant is not None and _same(Path(meant.origin).parent, path):
            continue
        new = path.with_name(f"my_{path.name}").name
        problems.append(Problem(f"{path} hides {name}: a notebook in this folder imports it instead",
                                f"rename it: {'ren' if os.name == 'nt' else 'mv'} {_quote(str(path))} {_quote(new)}",
                                needed=name in _HIDES))
    return problems


def _kernel_problems() -> list[Problem]:
    """Whether the notebooks' kernel, python3, is this interpreter."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except Exception:
        return []
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return [Problem("Jupyter has no kernel python3, which the notebooks ask for", install("ipykernel"), needed=True)]
    program = spec.argv[0] if spec.argv else ""
    # Jupyter itself puts its own interpreter in for such a name.
    if re.fullmatch(r"python(3(\.\d+)?)?", program) or _same(Path(program).parent, Path(sys.executable).parent):
        return []
    inside = Path(spec.resource_dir).is_relative_to(sys.prefix)
    fix = (f"{_quote(sys.executable)} -m ipykernel install --sys-prefix" if inside
            else f"{_quote(sys.executable)} -m jupyter kernelspec remove python3    (it is in {spec.resource_dir})")
    return [Problem(f"the notebooks' kernel python3 is another interpreter: {program}", fix, needed=True)]


def _path_problems() -> list[Problem]:
    """Programs that are found elsewhere than beside this interpreter, or not at all."""
    problems = []
    here = Path(sys.executable).parent
    activate = here / ("activate" if os.name != "nt" else "activate.bat")
    fix = (f"activate this environment: {'' if os.name == 'nt' else 'source '}{_quote(str(activate))}" if activate.exists()
            else f"put {here} first on PATH")
    for program, package, why in (("jupyter", "jupyterlab", "notebooks would not be opened by this environment"),
                                  ("alembic", "nbgrader", "nbgrader starts it by name (in the course's folder it is "
                                                          "found)")):
        if _version(package) is None:
            continue
        found = shutil.which(program)
        if found is None:
            problems.append(Problem(f"{program} is not on PATH: {why}", fix))
        elif not _same(Path(found).parent, here):
            problems.append(Problem(f"{program} is {found}, of another environment: {why}", fix))
    return problems


def _confinement() -> str:
    from ..grading.sandbox.confine import UNCONFINED, find_confinement

    found = find_confinement()
    if found.bubblewrap is not None:
        return found.description
    return f"{found.description}; other people's work is not graded so, unless --unconfined or {UNCONFINED}=1 says to"


def _lesson_problems(lessons: dict[str, list[str]], packages: list[Package]) -> list[Problem]:
    """What single lessons also need and do not get; :func:`_broken` reports what is broken."""
    known = {each.name: each for each in packages}
    problems = []
    for name in dict.fromkeys(package for needs in lessons.values() for package in needs):
        stopped = tuple(lesson for lesson, needs in lessons.items() if name in needs)
        need = f"lesson {stopped[0]} needs" if len(stopped) == 1 else f"lessons {', '.join(stopped)} need"
        each = known.get(name)
        wanted = each.wanted if each else ""
        if each.state == "missing" if each else importlib.util.find_spec(name) is None:
            fix = install(_INSTALLED_AS.get(name, name) + wanted)
            problems.append(Problem(f"{need} {name}, which is not installed", fix, True, stopped))
        elif each and each.state == "wrong version":
            what = f"{need} {name}{wanted}, and {each.installed} is installed"
            problems.append(Problem(what, install(name + wanted), True, stopped))
    return problems


def _choosing(gapless: dict, requires: list[str]) -> list[Problem]:
    """Libraries that choose the device themselves, in versions that were not tried with the virtual GPU."""
    if not str(gapless.get("device") or "").startswith("vgpu"):
        return []
    problems = []
    for text in requires:
        name, specifier, marker = _REQUIREMENT.match(text).groups()
        line = gapless["libraries"].get(name) if "programs" in (marker or "") else None
        installed = _version(name)
        if line and installed and _fits(installed, specifier.strip()) is False:
            problems.append(Problem(f"{name} {installed} chooses its device itself, and was tried with the virtual GPU in "
                                    f"versions {specifier.strip()}: it may take the CPU", line))
    return problems


# -- the device -----------------------------------------------------------------------------------


def _device(torch: dict, gapless: dict, packages: list[Package]) -> tuple[dict, list[Problem]]:
    """(the device's name and why it is this one, what is wrong with it)."""
    asked = os.environ.get("GAPLESS_DEVICE")
    if torch["error"]:
        return {"name": None, "why": f"PyTorch cannot be imported ({torch['error']})"}, []
    if gapless["error"]:
        why = f"gapless cannot be imported: {gapless['error']}"
        fix = f'see the whole error: {_quote(sys.executable)} -c "import gapless.lessons"'
        return {"name": None, "why": why}, [Problem(why, fix, needed=True)]
    reason = _why_no_cuda(torch)
    problems = []
    if torch["cuda_build"] is None and shutil.which("nvidia-smi"):
        wanted = next(each.wanted for each in packages if each.name == "torch")
        fix = "on pytorch.org/get-started choose the command for this computer" if os.name == "nt" else install(
            f"torch{wanted}", again=True)
        problems.append(Problem("there is an NVIDIA driver here, but this PyTorch is built without CUDA", fix))
    if gapless["device"] is None:
        why = f"GAPLESS_DEVICE is {asked!r}: {gapless['device_error']}"
        if (asked or "").strip().lower().startswith("cuda") and not torch["cuda"]:
            why += f". {reason}"
        none = "set GAPLESS_DEVICE=" if os.name == "nt" else "unset GAPLESS_DEVICE"
        fix = f"name a device that is there, or none: {none}"
        problems.append(Problem(f"GAPLESS_DEVICE is {asked!r}, and there is no such device here", fix, needed=True))
        return {"name": None, "why": why}, problems
    virtual = gapless["device"].startswith("vgpu")
    name = f"{gapless['device_name']}, {'simulated: the virtual GPU' if virtual else gapless['device']}"
    if asked:
        why = f"GAPLESS_DEVICE is {asked!r}"
    elif virtual:
        why = f"PyTorch sees no CUDA GPU. {reason}"
    else:
        why = f"PyTorch sees {', '.join(torch['gpus'])}"
    return {"name": name, "why": why}, problems


def _why_no_cuda(torch: dict) -> str:
    if torch["cuda"]:
        return ""
    if torch["cuda_build"] is None:
        return "It is built without CUDA."
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1"):
        return "The variable CUDA_VISIBLE_DEVICES is set and empty, which hides all GPUs: unset it to see them."
    return f"It says: {torch['why']}" if torch["why"] else ""
