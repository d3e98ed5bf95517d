"""Two audits, before and after a change of the program: what became better or worse by more than the times are uncertain."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from .document import VERSION
from .launch import AuditError
from .markdown import PARTS, cell, ms, times

_BUSY = 0.3  # of a step: audits of one script on a machine busy with other work were up to 24 % apart
_HOSTS = {"measured", "counted"}  # to compare these two is to ask what counting does not see
_OFTEN = 0.5  # times a step: a wait in only some of the steps may be in one more of those recorded


@dataclass(frozen=True)
class Line:
    """A line whose ``what``, "wait", "host" or "loader" (which it makes), is not as it was. ``how``: "new",
    "gone", "more" or "less". ``location``: of
    the later audit, of the earlier one where it is gone. Times and counts are per step; None: not known."""

    what: str
    how: str
    location: str
    line: str | None
    operator: str | None
    before_ms: float | None
    after_ms: float | None
    before_times: float
    after_times: float

    @property
    def is_new_wait(self) -> bool:
        """Whether the host waits where it did not before, or more often."""
        return self.what == "wait" and self.after_times >= self.before_times + (0 if self.how == "new" else _OFTEN)


@dataclass(frozen=True)
class Comparison:
    """``step``: "faster", "slower", or "same" where the difference is smaller than ``uncertain_ms``, as a changed line's has
    to be larger too, unless a wait is new, gone, or more or less frequent. ``notes``: why the two
    may differ in more than the program."""

    script: str
    before_step_ms: float
    after_step_ms: float
    uncertain_ms: float
    step: str
    before_bounds: tuple[str, ...]
    after_bounds: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def new_waits(self) -> list[Line]:
        """What makes ``--fail-on-waits`` fail."""
        return [each for each in self.lines if each.is_new_wait]


def read(path: str) -> dict:
    """The document in the file. Raises AuditError where there is none of this version."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AuditError(f"{path} cannot be read as JSON ({error}): name what gapless audit --out FILE.json wrote") from None
    version = found.get("schema") if isinstance(found, dict) else None
    if version != VERSION:
        raise AuditError(f"{path} is no audit of the form {VERSION} (it says {version!r}): make it with this version of "
                         "gapless, gapless audit --out FILE.json")
    return found


def compare(before: dict, after: dict) -> Comparison:
    """Two documents (:mod:`.document`). Raises AuditError where their times cannot be compared."""
    check_same(before, after["device"], after["host_clock"])
    busy = after["host_clock"] == "measured" and (before["busy"] or after["busy"])
    spread = max(before["spread"], after["spread"], _BUSY if busy else 0.0)
    uncertain_ms = spread * max(before["step_ms"], after["step_ms"])
    change_ms = after["step_ms"] - before["step_ms"]
    step = "same" if abs(change_ms) <= uncertain_ms else "slower" if change_ms > 0 else "faster"
    found = [line for what in _TABLES for line in _lines(what, before, after, uncertain_ms)]
    return Comparison(before["script"], before["step_ms"], after["step_ms"], uncertain_ms, step, tuple(before["bounds"]),
                      tuple(after["bounds"]), tuple(found), tuple(_notes(before, after)))


def check_same(before: dict, device: str, host_clock: str) -> None:
    """Raises AuditError where the times of an audit on this device, with this ``host_clock``, would be other ones."""
    for was, now in ((before["device"], device), (before["host_clock"], host_clock)):
        if was != now and {was, now} != _HOSTS:
            raise AuditError(f"the earlier audit is of {was}, this one of {now}: their times cannot be compared. Make both "
                             "with the same --device")


def with_comparison(after: dict, found: Comparison) -> dict:
    """The later document, with what the comparison found."""
    return {**after, "against": json.loads(json.dumps(asdict(found)))}


def _notes(before: dict, after: dict):
    if before["host_clock"] != after["host_clock"]:
        yield ("One audit measures the host, the other counts Python's calls: lines differ by what counting does not see, "
               "such as functions in C, files, sleeping and locks, and by this machine's speed.")
    if before["host_clock"] == after["host_clock"] == "measured" and before["processor"] != after["processor"]:
        yield (f"The host's time was measured on different processors ({before['processor']}; {after['processor']}): audit "
               "both on one machine, or with --host counted.")
    if before["busy"] or after["busy"]:
        yield "The machine was busy with other work during an audit, so only a large difference tells something."
    for name, words in (("torch", "PyTorch's versions differ"), ("a_step_ends_with", "What ends a step differs")):
        if before[name] != after[name]:
            yield f"{words}: {before[name]}; {after[name]}."


def _lines(what: str, before: dict, after: dict, uncertain_ms: float) -> list[Line]:
    """The changed lines, largest change first. A line is the same where file, text and operator are: its number is not
    looked at, as lines move."""
    old, new = _by_line(what, before), _by_line(what, after)
    # A wait of some steps may have been seen in the recorded ones of one audit, and only afterwards in the other's.
    seldom = {(_file(each["location"]), each["line"]) for each in before["seldom"]} if what == "wait" else set()
    found = []
    for key in old.keys() | new.keys():
        (was, was_ms, was_times), (now, now_ms, now_times) = old.get(key, _NONE), new.get(key, _NONE)
        change_ms = None if was_ms is None or now_ms is None else now_ms - was_ms
        costs = change_ms is not None and abs(change_ms) > uncertain_ms
        often = what == "wait" and abs(now_times - was_times) >= _OFTEN
        if what == "wait" and was is None and key[:2] not in seldom:
            how = "new"
        elif what == "wait" and now is None:
            how = "gone"
        elif costs or often:
            how = "more" if (change_ms if costs else now_times - was_times) > 0 else "less"
        else:
            continue
        shown = now or was
        found.append(Line(what, how, shown["location"] or "an unknown line", shown["line"], shown.get("operator"), was_ms,
                          now_ms, was_times, now_times))
    return sorted(found, key=lambda each: (-abs((each.after_ms or 0.0) - (each.before_ms or 0.0)), each.location))


# What is compared → the document's table, what each row costs, how often.
_TABLES = {"wait": ("waits", lambda row: row["costs_ms"], "times"),
           "host": ("host", lambda row: row["own_ms"] + row["operators_ms"], "launches"),
           "loader": ("loaders", lambda row: row["costs_ms"], "batches")}
_NONE = (None, 0.0, 0.0)  # no such line: it costs nothing


def _by_line(what: str, document: dict) -> dict[tuple, tuple[dict, float | None, float]]:
    """File, text and operator → one such line, what all of them cost, and how often."""
    table, cost, count = _TABLES[what]
    groups = defaultdict(list)
    for each in document[table]:
        groups[_file(each["location"]), each["line"], each.get("operator")].append(each)
    found = {}
    for key, rows in groups.items():
        costs = [cost(row) for row in rows]
        found[key] = (rows[0], None if None in costs else sum(costs), sum(row[count] for row in rows))
    return found


def _file(location: str | None) -> str:
    """Its name alone: the program before may lie in another folder."""
    return (location or "").rpartition(":")[0].rpartition("/")[2]


# -- in words ---------------------------------------------------------------------------------------------

LINES = ("change", "before ms", "now ms", "where", "what stands there")


def sentences(found: Comparison) -> list[str]:
    """The comparison in prose, what matters most first."""
    said = {"same": "no change beyond what times are uncertain by", "slower": "slower", "faster": "faster"}[found.step]
    percent = 100 * (found.after_step_ms / found.before_step_ms - 1)
    text = [f"A step took {ms(found.before_step_ms)} ms and now takes {ms(found.after_step_ms)} ms ({percent:+.0f} %): "
            f"{said} (±{ms(found.uncertain_ms)} ms)."]
    before, after = (" or ".join(PARTS[name] for name in bounds) for bounds in (found.before_bounds, found.after_bounds))
    if not set(found.before_bounds) & set(found.after_bounds):
        text.append(f"What bounds it was {before}, and is now {after}.")
    else:
        text.append(f"What bounds it: {after}, as before." if before == after else
                    f"What bounds it was {before}; now {after}. That is too close to call a change.")
    waits = len(found.new_waits)
    text.append(f"{waits} {'line waits' if waits == 1 else 'lines wait'} that did not before, or not so often." if waits
                else "No line waits that did not before.")
    return [*text, *found.notes]


def rows(found: Comparison) -> list[tuple[str, str, str, str, str]]:
    """A row for each changed line, under :data:`LINES`."""
    told = []
    for each in found.lines:
        if each.what == "host":
            change = f"the host works {'longer' if each.how == 'more' else 'less'}"
        elif each.what == "loader":
            change = f"its batches cost {each.how}"
        elif each.how in ("new", "gone"):
            change = f"{'new' if each.how == 'new' else 'no longer a'} wait, {each.operator or 'no operator'}"
        else:
            often = abs(each.after_times - each.before_times) >= _OFTEN
            counts = f", {times(each.after_times)} a step (was {times(each.before_times)})" if often else ""
            change = f"waits cost {each.how}{counts}, {each.operator or 'no operator'}"
        told.append((change, ms(each.before_ms), ms(each.after_ms), each.location, each.line or ""))
    return told


def comparison_in_markdown(found: Comparison) -> str:
    """The comparison alone."""
    lines = [f"# Against the audit of `{found.script}` before", "", *(f"- {each}" for each in sentences(found)), ""]
    if found.lines:
        lines += ["| " + " | ".join(LINES) + " |", "|---|--:|--:|---|---|"]
        lines += ["| " + " | ".join(cell(each) for each in row) + " |" for row in rows(found)]
        lines += [""]
    return "\n".join(lines)
