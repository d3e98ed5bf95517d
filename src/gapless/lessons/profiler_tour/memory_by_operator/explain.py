"""Lesson 01: why an answer to ``memory_by_operator`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from contextlib import suppress

from ....course.evidence import Case
from ..cases import trace_of
from ..explain import of_case, scaled_by
from .mistakes import MEMORY
from .right import MEMORY_FIELDS

_MEANS = {
    "size_increase_bytes": "A size increase is what was allocated minus what was freed, inner operators included.",
    "self_size_increase_bytes": "It is what was allocated minus what was freed, by the innermost operator around the "
                                "moment alone.",
    "allocation_bytes": "An allocation size counts allocations alone, inner operators included: leave out changes below 0.",
    "self_allocation_bytes": "It counts allocations alone, and only for the innermost operator around the moment.",
}


def _like_a_mistake(case: Case, columns, mistakes) -> str | None:
    """The ``why`` of a mistake that gives the columns that are wrong, where others are right. ``columns(answer)``: those."""
    found = columns(None)
    for mistake in mistakes:
        with suppress(Exception):
            options = {name: value for name, value in case.options.items() if name != "events"}
            if columns(mistake.function(trace_of(case), **options)) == found:
                return mistake.why
    return None


def memory(case: Case, found, wanted) -> str:
    if not isinstance(found, dict):
        return "Return a dict: operator's name → a dict of its four numbers."
    if not found:
        return (f"{of_case(case)}The dict is empty. `[memory]` is in `trace.events` and not in `trace.spans`, a thread is "
                "text: `(str(event[\"pid\"]), str(event[\"tid\"]))`, and `Device Type` tells the GPU, not `Device Id`.")
    rows = list(found.values())
    if not all(isinstance(row, dict) for row in rows):
        return (f"Each operator has a dict of four numbers: {', '.join(MEMORY_FIELDS)}. Here one has a "
                f"{type(rows[0]).__name__}.")
    missing = [field for field in MEMORY_FIELDS if any(field not in row for row in rows)]
    if missing:
        return f"Each operator has a dict of four numbers: `{missing[0]}` is missing."
    if any(isinstance(value, float) for row in rows for value in row.values()):
        return ("Bytes are whole numbers, but yours are floats. Start from 0, not 0.0, and do not divide.")
    extra = [name for name in found if name not in wanted]
    if extra and not any(any(found[name].values()) for name in extra):
        return "An operator that neither allocated nor freed is left out."
    if extra:
        return (f"{of_case(case)}`{extra[0]}` changed no memory of the GPU: only operators of the thread that the change "
                "is on are around it, and only Device Type 1 is the GPU.")
    absent = [name for name in wanted if name not in found]
    if absent:
        return (f"{of_case(case)}`{absent[0]}` is an operator too: each span of category `op` counts, whatever its name "
                "and on whichever thread, where memory of the GPU changed inside it.")
    shared = [name for name in wanted if name in found]
    scaled = scaled_by([(found[name][field], wanted[name][field]) for name in shared for field in MEMORY_FIELDS])
    if scaled:
        return scaled
    small = [value for name in shared for value in found[name].values() if value]
    if small and max(map(abs, small)) < 512:
        return "These are counts: the bytes of the changes were asked for, `event[\"args\"][\"Bytes\"]`."
    wrong = {field for name in shared for field in MEMORY_FIELDS if found[name][field] != wanted[name][field]}
    if wrong and len(wrong) < len(MEMORY_FIELDS):
        def columns(answer):
            answer = found if answer is None else answer
            return {(name, field): answer[name][field] for name in shared for field in wrong}

        known = _like_a_mistake(case, columns, MEMORY[1:])  # the first is wrong in all
        if known:
            return f"Of `{sorted(wrong)[0]}`: {known}"
    where = ""
    taken = {other for field in wrong for other in MEMORY_FIELDS
             if other != field and all(found[name][field] == wanted[name][other] for name in shared)}
    if len(wrong) == 1 and taken:
        return f"`{min(wrong)}` is what `{min(taken)}` should be. {_MEANS[min(wrong)]}"
    if wrong and all(field.startswith("self_") for field in wrong):
        where = "Only the `self_` numbers are wrong: they are those of the innermost operator around the moment. "
    elif wrong and not any(field.startswith("self_") for field in wrong):
        where = "Only the totals are wrong: each operator around the moment counts it, whatever its name. "
    elif wrong and all("size_increase" in field for field in wrong):
        where = "Only the increases are wrong: they count the frees as well, as numbers below 0. "
    elif wrong and all("allocation" in field for field in wrong):
        where = "Only the allocations are wrong: changes above 0 alone. "
    return (f"{where}{of_case(case)}Only the GPU's memory counts, and only operators of the thread that the change is on; "
            "memory freed between operators belongs to none.")
