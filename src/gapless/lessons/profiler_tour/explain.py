"""Why an answer in lesson 01 is wrong, where it is none of the known mistakes: by its form, by what the input has that the
ones before had not, and by what was asked for."""

from __future__ import annotations

from contextlib import suppress

from ...course.evidence import Case
from ...evidence.waits import source_line
from .cases import REAL, STEADY, trace_of
from .disturbances import trap_in
from .mistaken_tables import MEMORY
from .right import MEMORY_FIELDS, idle_evidence
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS

ROW = ("name", "calls", "device_self_us", "device_total_us")
OF_CASE = {
    "two streams at once": "Kernels run at the same time here: each moment counts once.",
    "copies between the kernels": "Here copies run between the kernels, and they are none: only the steps' time goes on "
                                  "with them.",
    "short kernels while a long one runs on another stream": "Here a kernel starts and ends while a longer one runs: what "
                                                             "starts last need not end last.",
    "the GPU works on after the last step": "Here the GPU works on after the last step on the host: the steps' time ends "
                                            "with the later of both.",
    "a copy ends the last step": "Here a copy is the GPU's last work: it is no kernel, but the steps' time goes on until "
                                 "it ends.",
    "a kernel runs on from before the first step": "Here a kernel was running before the first step: it counts from the "
                                                   "step's start.",
    "some kernels do not tell": "Some kernels have no such value in their `args`.",
    "every kernel tells 0": "Every kernel tells its value here, and it is 0: the mean is 0.0, and None would say that "
                            "there is nothing to tell.",
    "a single step": "This trace has one step.",
    "five steps": "This trace has five steps: their number is not always 3.",
    "with copies and memsets": "Copies and memsets are the GPU's work too; and kernels launched before the recording have "
                               "no call in the trace.",
    STEADY: "Each batch is a few per cent faster than the one before, and together that is a lot: compare with the best of "
            "all.",
    REAL: "This one is real: nested operators, a backward pass on a thread of its own, kernels on several streams at once. "
          "`from gapless.lessons.profiler_tour.real import real_trace` gives it.",
}


_MEANS = {
    "size_increase_bytes": "A size increase is what was allocated minus what was freed, inner operators included.",
    "self_size_increase_bytes": "It is what was allocated minus what was freed, by the innermost operator around the "
                                "moment alone.",
    "allocation_bytes": "An allocation size counts allocations alone, inner operators included: leave out changes below 0.",
    "self_allocation_bytes": "It counts allocations alone, and only for the innermost operator around the moment.",
}


def _of_case(case: Case) -> str:
    """What this input has that those before had not."""
    trap = trap_in(case.name)
    text = trap.why if trap is not None else OF_CASE.get(case.name, "")
    return f"{text} " if text else ""


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FACTORS = {
    1e-3: "1000 times too small (ms for µs, KB for bytes)", 1 / 1024: "1024 times too small (KB for bytes)",
    1e-6: "a million times too small", 2**-20: "2²⁰ times too small (MB for bytes)", 1e3: "1000 times too large",
    -1: "of the wrong sign", 2: "twice what they should be", 0.5: "half of what they should be",
}


def _scaled(pairs: list[tuple[float, float]]) -> str | None:
    """What (found, wanted) have in common where all are wrong alike: another unit, or rounding."""
    pairs = [(found, wanted) for found, wanted in pairs if _is_number(found) and _is_number(wanted) and wanted]
    if not pairs or all(abs(found - wanted) <= 1e-4 * abs(wanted) for found, wanted in pairs):
        return None
    for factor, words in _FACTORS.items():
        if all(abs(found - factor * wanted) <= max(0.001 * abs(factor * wanted), type(found) is int)
               for found, wanted in pairs):
            return f"All numbers are {words}: look at the units."
    if all(abs(found - wanted) <= 1 and float(found).is_integer() for found, wanted in pairs):
        return "The numbers were rounded: return them as they are."
    return None


def _like_a_mistake(case: Case, columns, mistakes) -> str | None:
    """The ``why`` of a mistake that gives the columns that are wrong, where others are right. ``columns(answer)``: those."""
    found = columns(None)
    for mistake in mistakes:
        with suppress(Exception):
            options = {name: value for name, value in case.options.items() if name != "events"}
            if columns(mistake.function(trace_of(case), **options)) == found:
                return mistake.why
    return None


def _share(case: Case, found, wanted, otherwise: str) -> str | None:
    if wanted is None:
        return "There is no kernel with such a value in this trace: None says so."
    if found is None:
        return _of_case(case) or None
    if not _is_number(found):
        return "Return one number, a share between 0 and 1."
    if found < -1e-9:
        return (f"{_of_case(case)}A share below 0: some end comes before its start, or the subtraction is the wrong way "
                "round.")
    if abs(found - 100 * wanted) <= 0.51:
        return "That is in per cent, rounded perhaps: a share between 0 and 1 is wanted, as it is."
    if abs(found - wanted) <= 0.0051 and abs(found - round(found, 2)) < 1e-9:
        return "The answer was rounded: return it as it is."
    text = _of_case(case)
    if found > 1 + 1e-9:
        text += "A share above 1 counts something twice, or is in another unit. "
    return text + otherwise


def utilization(case: Case, found, wanted) -> str | None:
    return _share(case, found, wanted, "Print the merged intervals and the two ends of the steps' time for the trace of "
                                       "the lesson, and compare with the timeline picture.")


def efficiency(case: Case, found, wanted) -> str | None:
    return _share(case, found, wanted, "Cut the steps' time at every start and end of a kernel. Between two cuts nothing "
                                       "changes: add up the blocks per SM of the kernels running, at most 1, times the "
                                       "length.")


def occupancy(case: Case, found, wanted) -> str | None:
    return _share(case, found, wanted, "Sum of occupancy times duration, by the sum of the durations, over the kernels "
                                       "that tell.")


def operators(case: Case, found, wanted) -> str:
    if isinstance(found, dict):
        return f"Return a list of dicts, not a dict: one row for each name, with {', '.join(ROW)}."
    if not isinstance(found, list):
        return f"Return a list of dicts with {', '.join(ROW)}."
    if found and not all(isinstance(row, dict) for row in found):
        return (f"Return a list of dicts with {', '.join(ROW)}: `{{\"name\": name, \"calls\": calls, …}}`. Each entry here "
                f"is a {type(found[0]).__name__}.")
    missing = [key for key in ROW if any(key not in row for row in found)]
    if missing:
        return f"Return a list of dicts with {', '.join(ROW)}: {missing[0]} is missing."
    if len(found) > case.options["k"]:
        return f"Return the first k rows alone. {_of_case(case)}"
    own = [row["device_self_us"] for row in found]
    if all(map(_is_number, own)) and own != sorted(own, reverse=True):
        return f"The largest `device_self_us` comes first. {_of_case(case)}"
    names = [row["name"] for row in found]
    if len(set(map(str, names))) < len(names):
        return "A name has several rows: one row for each name, with the sums over all its calls."
    known = {span.name for span in trace_of(case).spans if span.category == "op"}
    unknown = [name for name in names if name not in known]
    if unknown:
        return f"{unknown[0]!r} is no operator's name here: take `span.name` of the spans of category `op`, as it is."
    by_name = {row["name"]: row for row in wanted}
    rows = [(row, by_name[row["name"]]) for row in found if row["name"] in by_name]

    scaled = _scaled([(row[key], right[key]) for row, right in rows for key in ROW[2:]])
    if scaled and [row["name"] for row in wanted] == names:
        return scaled

    def off(key: str) -> bool:
        return any(not _is_number(row[key]) or abs(row[key] - right[key]) > 1e-3 + 1e-4 * right[key] for row, right in rows)

    wrong = [key for key in ROW[1:] if off(key)]
    where = ""
    if wrong == ["calls"]:
        where = "Only `calls` is wrong: how often the operator ran, whether it launched something or not. "
    elif wrong == ["device_total_us"]:
        where = ("Only the total is wrong: it counts for *every* operator around the call, whatever its name and however "
                 "deep it lies. ")
    elif wrong == ["device_self_us"]:
        where = "The totals are right, the self times are not: the innermost operator around the call has it. "
    return (f"{where}{_of_case(case)}From a kernel (or copy, or memset) to the runtime call with the same correlation, and "
            "to the operators around that call on its own thread.")


def memory(case: Case, found, wanted) -> str:
    if not isinstance(found, dict):
        return "Return a dict: operator's name → a dict of its four numbers."
    if not found:
        return (f"{_of_case(case)}The dict is empty. `[memory]` is in `trace.events` and not in `trace.spans`, and a thread "
                "is text: `(str(event[\"pid\"]), str(event[\"tid\"]))`.")
    rows = list(found.values())
    if not all(isinstance(row, dict) for row in rows):
        return (f"Each operator has a dict of four numbers: {', '.join(MEMORY_FIELDS)}. Here one has a "
                f"{type(rows[0]).__name__}.")
    missing = [field for field in MEMORY_FIELDS if any(field not in row for row in rows)]
    if missing:
        return f"Each operator has a dict of four numbers: `{missing[0]}` is missing."
    if any(isinstance(value, float) for row in rows for value in row.values()):
        return ("Bytes are whole numbers: there is a division or a float in it. Start from 0, not 0.0, and divide by "
                "nothing.")
    extra = [name for name in found if name not in wanted]
    if extra and not any(any(found[name].values()) for name in extra):
        return "An operator that neither allocated nor freed is left out."
    if extra:
        return (f"{_of_case(case)}`{extra[0]}` changed no memory of the GPU: only operators of the thread that the change "
                "is on are around it, and only Device Type 1 is the GPU.")
    absent = [name for name in wanted if name not in found]
    if absent:
        return (f"{_of_case(case)}`{absent[0]}` is an operator too: each span of category `op` counts, whatever its name "
                "and on whichever thread, where memory of the GPU changed inside it.")
    shared = [name for name in wanted if name in found]
    scaled = _scaled([(found[name][field], wanted[name][field]) for name in shared for field in MEMORY_FIELDS])
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
    return (f"{where}{_of_case(case)}Only the GPU's memory counts, and only operators of the thread that the change is on; "
            "what is freed between operators is nobody's.")


def source(case: Case, found, wanted) -> str:
    if not isinstance(found, dict):
        return "Return a dict: line → µs."
    if not found:
        return (f"{_of_case(case)}The dict is empty. Does a kernel's `args[\"correlation\"]` find its call? Does the name "
                "match?")
    if not all(map(_is_number, found.values())):
        return "Return a dict from a line (text) to one number: the µs of all kernels that it launched, added up."
    extra = [line for line in found if line not in wanted]
    if any(line in ("None", "", "unknown", "?") for line in extra):
        return "A kernel whose launch is not in the trace has no line: leave it out."
    if any("): " in line for line in extra) and any(source_line(line) in wanted for line in extra):
        return "The keys are frames' names here: take what `line_of(span)` gives, like \"train/model.py:31\"."
    if any("torch/" in line or "(" in line for line in extra):
        return ("A frame of PyTorch's is not the user's line: `line_of` gives None for it. Go outwards to the next that "
                "gives a line.")
    if any("loader.py" in line for line in extra):
        return (f"{_of_case(case)}`{extra[0]}` is a line of another thread: look at the launch's own, and where that has "
                "none at the one with the `ProfilerStep#` blocks.")
    if any("loop.py:18" in line for line in extra):
        return "Several frames around the launch give a line: the innermost is the one, not the line that called it."
    missing = [line for line in wanted if line not in found]
    if extra and all(any(line != key and key in line for line in wanted) for key in extra):
        return "A line is the whole text that `line_of` gives, file and number: \"train/model.py:31\"."
    scaled = _scaled([(found[line], wanted[line]) for line in wanted if line in found])
    if scaled:
        return scaled
    if any("loop.py:20" in line for line in missing):
        return ("The backward pass launches from a thread without Python frames: then take the innermost line of the "
                "thread that has the `ProfilerStep#` blocks, at the moment of the launch.")
    where = "" if extra or missing else ("The lines are right and their times are not: the sum of the kernels' durations, "
                                        "in µs. ")
    return (f"{where}{_of_case(case)}The line is the one at the moment of the *launch*: from the kernel to the runtime "
            "call with the same correlation, and to the innermost line around that.")


def batch(case: Case, found, wanted) -> str:
    table = {int(batch): row for batch, row in case.options["table"].items()}
    fits = {batch: row for batch, row in table.items() if row is not None}
    speeds = {batch: batch / row["step_ms"] for batch, row in fits.items()}
    facts = ", ".join(f"{batch}: {speeds[batch] * 1e3:.0f} a second" if batch in fits else f"{batch}: out of memory"
                      for batch in sorted(table))
    near = f"{wanted} reaches {speeds[wanted] / max(speeds.values()):.0%} of the best"
    if isinstance(found, list | dict):
        why = "Return one batch size, not several values. "
    elif found is None:
        why = "It returned nothing here: at least one candidate fits. "
    elif isinstance(found, float) and found in fits:
        why = "It is a float: return the candidate itself, a whole number. "
    elif found not in fits:
        why = "That is no candidate that fits: return the batch size itself. "
    elif speeds[found] < 0.95 * max(speeds.values()):
        why = (f"{found} reaches only {speeds[found] / max(speeds.values()):.0%} of the best throughput, and 95 % are "
               f"wanted; {near}. ")
    else:
        why = f"{found} is fast enough, but it is not the smallest: {near} already. "
    return f"{why}{OF_CASE.get(case.name, '')} Samples by batch size: {facts}.".replace("  ", " ")


def idle(case: Case, found, wanted) -> str:
    labels = (SMALL_BATCH, SMALL_KERNELS, SLOW_LOADER)
    if found not in labels:
        near = next((label for label in labels if isinstance(found, str) and label.split()[-1] in found.lower()), None)
        spelt = f" {near!r} is spelt like this, to the letter." if near else ""
        return f"Return one of {', '.join(map(repr, labels))}.{spelt}"
    launching, filled = idle_evidence(trace_of(case))
    if launching < 0.5:
        verdict = "For most of the time it does something else, and the GPU has nothing to do; an " \
                  "operator that launches nothing is no work for it either."
    elif filled < 0.5:
        verdict = "So the host launches as fast as it can, and its kernels are too small to fill the card."
    else:
        verdict = "So the host launches as fast as it can, and its kernels fill the card, but are over too soon."
    return (f"{_of_case(case)}The evidence: in {launching:.0%} of the steps' time the host is in an operator that launches "
            f"work; while a kernel runs, {filled:.0%} of the SMs have a block. {verdict}")
