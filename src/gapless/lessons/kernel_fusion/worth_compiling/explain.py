"""Lesson 07: why an answer to ``worth_compiling`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from statistics import median

LONG = 100_000  # steps, to which somebody may count


def worth(case, found, wanted) -> str | None:
    """What is known of the case."""
    if not isinstance(found, (list, tuple)) or len(found) != 2:
        return "Return two things: whether it pays, and from which step on (or None)."
    if found[0] == wanted[0] and (found[1] is None) != (wanted[1] is None):
        return "It is None if it never pays, and a number of steps if it pays at some time, even if that is too late."
    (first_ms, _), *later = case.options["compiled"]
    usual = [ms for ms, compiles in case.options["compiled"] if not compiles]
    if not usual:
        return "Every step compiled. So you do not know how long a compiled step takes, and compiling never pays."
    before, steady = median(case.options["eager"]), median(usual)
    again = [ms - steady for ms, compiles in later if compiles]
    early = found[1] is not None and wanted[1] is not None and found[1] < wanted[1] and wanted[1] > LONG
    hint = " The step may be far off: does a loop end too early? Divide instead." if early else ""
    return (f"By the medians a step takes {before:.5g} ms before and {steady:.5g} ms compiled. The first takes "
            f"{first_ms:.5g} ms. Of the {len(later)} after it {len(again)} compile again, for {sum(again):.5g} ms more in "
            f"all. {case.options['steps']:,} steps are still to run.{hint}")
