"""Why an answer in lesson 01 is wrong, where it is none of the known mistakes: by its form, by what the input has that the
ones before had not, and by what was asked for."""

from __future__ import annotations

from ...course.evidence import Case
from .cases import EARLIER, REAL, STEADY
from .disturbances import trap_in

OF_CASE = {
    "two streams at once": "Kernels run at the same time here: each moment counts once.",
    "copies between the kernels": "Here copies run between the kernels. They are not kernels, but they are part of the "
                                  "steps' time.",
    "short kernels while a long one runs on another stream": "Here a kernel starts and ends while a longer one runs: the "
                                                             "kernel that starts last may not end last.",
    "the GPU works on after the last step": "Here the GPU works on after the last step on the host: the steps' time ends "
                                            "with the later of both.",
    **{f"a {work} ends the last step": f"Here a {work} is the GPU's last work: it is no kernel, but the steps' time goes on "
                                       "until it ends." for work in ("copy", "memset")},
    "a kernel runs on from before the first step": "Here a kernel was running before the first step: it counts from the "
                                                   "step's start.",
    "some kernels have no value": "Some kernels have no such value in their `args`.",
    "every kernel tells 0": "Every kernel has the value here, and it is 0. So the mean is 0.0; None would mean that no "
                            "kernel has it.",
    "every kernel ended before the first step": "Here no kernel runs in the steps' time: the share is 0. None would mean "
                                                "that the trace has no kernel.",
    "a single kernel": "Here a single kernel runs, and it counts. None would mean that the trace has no kernel.",
    "a single step": "This trace has one step.",
    "five steps": "This trace has five steps: their number is not always 3.",
    "with copies and memsets": "Copies and memsets are the GPU's work too; and kernels launched before the recording have "
                               "no call in the trace.",
    EARLIER: "Here an operator launches before the first step. It is in the trace, so it counts like any other.",
    STEADY: "Each batch is a few per cent faster than the one before, and together that is a lot: compare with the best of "
            "all.",
    REAL: "This one is real: nested operators, a backward pass on a thread of its own, kernels on several streams at once. "
          "`from gapless.lessons.profiler_tour.real import real_trace` gives it.",
}


def of_case(case: Case) -> str:
    """What this input has that those before had not."""
    trap = trap_in(case.name)
    text = trap.why if trap is not None else OF_CASE.get(case.name, "")
    return f"{text} " if text else ""


def is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FACTORS = {
    1e-3: "1000 times too small (ms for µs, KB for bytes)", 1 / 1024: "1024 times too small (KB for bytes)",
    1e-6: "a million times too small", 2**-20: "2²⁰ times too small (MB for bytes)", 1e3: "1000 times too large",
    -1: "of the wrong sign", 2: "twice what they should be", 0.5: "half of what they should be",
}


def scaled_by(pairs: list[tuple[float, float]]) -> str | None:
    """What (found, wanted) have in common where all are wrong alike: another unit, or rounding."""
    pairs = [(found, wanted) for found, wanted in pairs if is_number(found) and is_number(wanted) and wanted]
    if not pairs or all(abs(found - wanted) <= 1e-4 * abs(wanted) for found, wanted in pairs):
        return None
    for factor, words in _FACTORS.items():
        if all(abs(found - factor * wanted) <= max(0.001 * abs(factor * wanted), type(found) is int)
               for found, wanted in pairs):
            return f"All numbers are {words}: look at the units."
    if all(abs(found - wanted) <= 1 and float(found).is_integer() for found, wanted in pairs):
        return "You rounded the numbers: return them as they are."
    return None


def explain_share(case: Case, found, wanted, otherwise: str) -> str | None:
    if wanted is None:
        return "No kernel in this trace has such a value: return None."
    if found is None:
        return of_case(case) or None
    if not is_number(found):
        return "Return one number, a share between 0 and 1."
    if found < -1e-9:
        return (f"{of_case(case)}A share below 0: some end comes before its start, or the subtraction is the wrong way "
                "round.")
    if abs(found - 100 * wanted) <= 0.51:
        return "That is in per cent, perhaps rounded: return a share between 0 and 1, not rounded."
    if abs(found - wanted) <= 0.0051 and abs(found - round(found, 2)) < 1e-9:
        return "You rounded the answer: return it as it is."
    text = of_case(case)
    if found > 1 + 1e-9:
        text += "A share above 1 counts something twice, or is in another unit. "
    return text + otherwise
