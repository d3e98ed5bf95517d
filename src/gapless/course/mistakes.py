"""Known wrong versions of an exercise's function, made again to recognise what a learner has done."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import resources
from itertools import combinations


@dataclass(frozen=True)
class Mistake:
    """``function``: a wrong version, called as the learner's is. ``why``: a sentence or two that name the cause and what to
    do instead; it stands behind a message that says where the answer is wrong."""

    function: Callable
    why: str


# -- as changes of the solution, in a file of text --------------------------------------------------

FILE = "mistakes.toml"
_SOLUTION = "solution.md"


class MistakesFileError(ValueError):
    """An entry of a ``mistakes.toml`` cannot be read, or does not fit the code that it changes; the message says which."""


class MistakesFile(Sequence):
    """The wrong versions of an exercise that ``mistakes.toml`` in its ``package`` lists, in that order. Read when somebody
    first asks for one: most processes never do.

    An entry has a sentence, ``why``, and a change of the right code: the text ``replace``, which occurs there once, becomes
    ``by``. Both may be lists, for a change in several places. Several changes with the same ``why`` are
    ``[[mistake.version]]`` under it. What is no small change is a ``function`` of ``mistakes.py`` in the same folder.

    The right code is the exercise's function in ``solution.md``, which finds the ``names()`` of the lesson as a learner's
    cell does; or a module of the folder, which the file names at its top: ``of = "slow.py"``.
    """

    def __init__(self, package: str, names: Callable[[], dict]):
        self._package, self._names = package, names

    def __len__(self) -> int:
        return len(self._mistakes)

    def __getitem__(self, place):
        return self._mistakes[place]

    @cached_property
    def _mistakes(self) -> tuple[Mistake | Changed, ...]:
        path = resources.files(self._package) / FILE
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise MistakesFileError(f"{path}: {error}") from None
        if data.keys() - {"of", "mistake"} or not data.get("mistake"):
            raise MistakesFileError(f"{path}: it holds `[[mistake]]` entries and, above them, `of`; nothing else")
        file = data.get("of", _SOLUTION)
        return tuple(mistake for number, entry in enumerate(data["mistake"], start=1)
                     for mistake in self._of_entry(entry, file, f"{path}, mistake {number}"))

    def _of_entry(self, entry: dict, file: str, where: str) -> Iterator[Mistake | Changed]:
        why = entry.get("why")
        if not isinstance(why, str):
            raise MistakesFileError(f"{where}: `why` is missing, a sentence that names the cause")
        why = " ".join(why.split())  # it may stand on several lines
        rest = {key: value for key, value in entry.items() if key not in ("why", "version")}
        versions = ([rest] if rest else []) + entry.get("version", [])
        if not versions:
            raise MistakesFileError(f"{where} ({why}): there is no version of the code")
        for version in versions:
            if version.keys() == {"function"}:
                module = importlib.import_module(".mistakes", self._package)
                if not hasattr(module, version["function"]):
                    raise MistakesFileError(f"{where} ({why}): mistakes.py has no function {version['function']!r}")
                yield Mistake(getattr(module, version["function"]), why)
            elif version.keys() == {"replace", "by"}:
                pairs = [[value] if isinstance(value, str) else value for value in (version["replace"], version["by"])]
                if len(pairs[0]) != len(pairs[1]):
                    raise MistakesFileError(f"{where} ({why}): `replace` and `by` are lists of different lengths")
                yield Changed(why, tuple(zip(*pairs)), self._package, file, self._names, where)
            else:
                raise MistakesFileError(f"{where} ({why}): a version has `replace` and `by`, or `function`; this one has "
                                        f"{', '.join(version)}")


@dataclass(frozen=True)
class Changed:
    """As a :class:`Mistake`; its ``function`` is compiled when somebody first asks for it. ``changes``: pairs of old and new
    text, one after the other. ``where`` the entry is, for messages."""

    why: str
    changes: tuple[tuple[str, str], ...]
    package: str
    file: str
    names: Callable[[], dict]
    where: str

    @cached_property
    def function(self) -> Callable:
        return _made(self.package, self.file, self.source, self.where, self.names() if self.file == _SOLUTION else {})

    @property
    def source(self) -> str:
        """The code with the change. Raises MistakesFileError where it does not fit."""
        text = right_code(self.package, self.file)
        for old, new in self.changes:
            count = text.count(old)
            if count != 1:
                raise MistakesFileError(f"{self.where} ({self.why}): {old!r} occurs {count} times in {self.file}; a change "
                                        "replaces what occurs once" + ", so give more of its line" * (count > 1))
            text = text.replace(old, new)
        return text


def right_code(package: str, file: str = _SOLUTION) -> str:
    """The code that an exercise's changes are made to: a module of its ``package``, or the code of the solution's text."""
    text = (resources.files(package) / file).read_text(encoding="utf-8")
    if file != _SOLUTION:
        return text
    code = re.search(r"^```python\n(.*?)^```", text, re.S | re.M)
    if code is None:
        raise MistakesFileError(f"{package}: {file} has no block of code that begins with ```python")
    return code[1]


_right: dict[str, Callable] = {}  # one of each package: what is compiled for it is compiled once


def right_function(package: str, names: dict) -> Callable:
    """The function of that code, which finds ``names`` as a learner's cell does. Raises FileNotFoundError."""
    if package not in _right:
        _right[package] = _made(package, _SOLUTION, right_code(package), "its code", names)
    return _right[package]


def _made(package: str, file: str, source: str, where: str, names: dict) -> Callable:
    """The function of an exercise's ``package`` that ``source`` defines, found in ``file`` at ``where``."""
    names = {**names, "__name__": f"{package}.{file.partition('.')[0]}", "__package__": package}
    # Named as a file of the lesson, so that its calls count as those of the lesson do.
    exec(compile(source, f"{resources.files(package) / file} ({where})", "exec", dont_inherit=True), names)
    return names[package.rpartition(".")[2]]


# -- as one function that can go wrong in several ways ----------------------------------------------


@dataclass(frozen=True)
class Way:
    """Option ``name`` of the function as ``value``, which is wrong; ``why`` in words. ``often``: so often that it comes
    together with others."""

    name: str
    value: object
    why: str
    often: bool = False


def versions(function: Callable, ways: tuple[Way, ...]) -> tuple[Mistake, ...]:
    """The function with one thing wrong, in the order given, and then with two of those that are frequent."""
    single = [Mistake(partial(function, **{way.name: way.value}), way.why) for way in ways]
    double = [Mistake(partial(function, **{one.name: one.value, other.name: other.value}),
                      one.why if one.why == other.why else f"Two things. {one.why} And: {other.why}")
              for one, other in combinations(ways, 2) if one.often and other.often and one.name != other.name]
    return (*single, *double)
