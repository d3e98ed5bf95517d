"""The learner's points on the learner's own disk: one small JSON file for all notebooks and commands.

It helps the learner to remember and decides no grade. Where it cannot be written, nothing else may fail: the functions
that write return what went wrong as a sentence, or an empty string.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..files import write_json

VARIABLE = "GAPLESS_HOME"
_VERSION = 1
_LOCK_SECONDS = 5.0


@dataclass(frozen=True)
class Record:
    """What is remembered of one exercise.

    ``best``, ``last``: points earned, of ``points``; ``attempts``: checks so far; ``hints``: the furthest hint seen;
    ``device``: where the last check ran; ``when``: its time (ISO 8601, UTC).
    """

    best: float = 0.0
    last: float = 0.0
    points: float = 0.0
    attempts: int = 0
    hints: int = 0
    device: str = ""
    when: str = ""


class _Damaged(ValueError):
    """The file is not what was written."""


def home() -> Path:
    """The folder for the course's own data: ``GAPLESS_HOME``, else the platform's place for such things.

    Raises OSError where the platform knows no home folder.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gapless"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "gapless"
        data = os.environ.get("XDG_DATA_HOME", "")
        # The XDG Base Directory Specification says to ignore a relative one.
        return (Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share") / "gapless"
    except RuntimeError as error:
        raise OSError(f"{error}: set {VARIABLE}") from None


def progress_path() -> Path:
    """Where the progress is kept. Raises OSError as :func:`home` does."""
    return home() / "progress.json"


def read_progress() -> tuple[dict[str, dict[str, Record]], str]:
    """(lesson id → exercise → record, a remark). Without a file: nothing recorded, no remark."""
    try:
        return _read(progress_path()), ""
    except _Damaged as error:
        return {}, f"{error}. It will be kept under another name at the next check."
    except OSError as error:
        return {}, f"The progress file cannot be read: {_reason(error)}."


def record_check(lesson: str, exercise: str, earned: float, points: float, device: str) -> str:
    """Remember a check. Returns why it could not be saved, or what else there is to say, or ''."""

    def change(record: Record) -> Record:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return replace(record, best=max(record.best, earned), last=earned, points=points, attempts=record.attempts + 1,
                       device=device, when=now)

    return _update(lesson, exercise, change)


def record_hint(lesson: str, exercise: str, stage: int) -> str:
    """Remember that hint number ``stage`` was seen. Returns as :func:`record_check` does."""
    return _update(lesson, exercise, lambda record: replace(record, hints=max(record.hints, stage)))


def _update(lesson: str, exercise: str, change: Callable[[Record], Record]) -> str:
    try:
        path = progress_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            remark = ""
            try:
                records = _read(path)
            except _Damaged as error:
                records, remark = {}, f"{error}. It is kept as {_keep_aside(path)}; a new one was started."
            exercises = records.setdefault(lesson, {})
            exercises[exercise] = change(exercises.get(exercise, Record()))
            write_json(path, {"version": _VERSION, "lessons": {
                name: {each: asdict(record) for each, record in found.items()} for name, found in records.items()}})
        return remark
    except OSError as error:
        return f"Your progress was not saved: {_reason(error)}. The check itself still counts."


@contextlib.contextmanager
def _locked(path: Path):
    """One writer at a time, across processes. The lock goes with the process that holds it."""
    from filelock import FileLock, Timeout  # comes with torch

    lock = FileLock(f"{path}.lock", timeout=_LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise OSError(f"another notebook holds {path}.lock") from None
    except NotImplementedError:
        # A file system without locks: better the rare lost update than no record.
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _read(path: Path) -> dict[str, dict[str, Record]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        stored = json.loads(content)
        version, lessons = stored["version"], stored["lessons"]
        if isinstance(version, int) and version > _VERSION:
            raise OSError(f"{path} is from a newer version of gapless: update this one")
        return {lesson: {name: _record(fields) for name, fields in exercises.items()}
                for lesson, exercises in lessons.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _Damaged(f"The progress file {path} is damaged") from None


def _record(fields: dict) -> Record:
    record = Record(**fields)
    numbers = (record.best, record.last, record.points)
    counts = (record.attempts, record.hints)
    if not (all(type(n) in (int, float) and math.isfinite(n) and n >= 0 for n in numbers)
            and all(type(n) is int and n >= 0 for n in counts)
            and all(type(text) is str for text in (record.device, record.when))):
        raise ValueError(f"no record: {fields}")
    return record


def _keep_aside(path: Path) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        aside = path.with_name(f"{path.name}.damaged-{stamp}" + (f"-{number}" if number else ""))
        if not aside.exists():
            os.replace(path, aside)
            return aside
    raise OSError(f"{path} is damaged and cannot be put aside: move it away")


def _reason(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.strerror and error.filename else str(error)
