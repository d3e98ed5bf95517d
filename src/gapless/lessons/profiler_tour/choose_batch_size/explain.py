"""Lesson 01: why an answer to ``choose_batch_size`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ..explain import OF_CASE


def batch(case: Case, found, wanted) -> str:
    if "errors" in case.options:
        return "An error other than `torch.OutOfMemoryError` has to reach the caller, as it was raised."
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
        why = "You return a float: return the candidate itself, a whole number. "
    elif found not in fits:
        why = "That is no candidate that fits: return the batch size itself. "
    elif speeds[found] < 0.95 * max(speeds.values()):
        why = (f"{found} reaches only {speeds[found] / max(speeds.values()):.0%} of the best throughput, but should be "
               f"95 %; {near}. ")
    else:
        why = f"{found} is fast enough, but it is not the smallest: {near} already. "
    return f"{why}{OF_CASE.get(case.name, '')} Samples by batch size: {facts}.".replace("  ", " ")
