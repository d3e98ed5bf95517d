"""Lesson 01: why an answer to ``source_of`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ....evidence.traces.waits import source_line
from ..explain import is_number, of_case, scaled_by


def source(case: Case, found, wanted) -> str:
    if not isinstance(found, dict):
        return "Return a dict: line → µs."
    if not found:
        return (f"{of_case(case)}The dict is empty. Does a kernel's `args[\"correlation\"]` find its call? Does the name "
                "match?")
    if not all(map(is_number, found.values())):
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
        return (f"{of_case(case)}`{extra[0]}` is a line of another thread: look at the launch's own, and where that has "
                "none at the one with the `ProfilerStep#` blocks.")
    if any("loop.py:18" in line for line in extra):
        return "Several frames around the launch give a line: the innermost is the one, not the line that called it."
    missing = [line for line in wanted if line not in found]
    if extra and all(any(line != key and key in line for line in wanted) for key in extra):
        return "A line is the whole text that `line_of` gives, file and number: \"train/model.py:31\"."
    scaled = scaled_by([(found[line], wanted[line]) for line in wanted if line in found])
    if scaled:
        return scaled
    if any("loop.py:20" in line for line in missing):
        return ("The backward pass launches from a thread without Python frames: then take the innermost line of the "
                "thread that has the `ProfilerStep#` blocks, at the moment of the launch.")
    where = "" if extra or missing else ("The lines are right and their times are not: the sum of the kernels' durations, "
                                        "in µs. ")
    return (f"{where}{of_case(case)}The line is the one at the moment of the *launch*: from the kernel to the runtime "
            "call with the same correlation, and to the innermost line around that.")
