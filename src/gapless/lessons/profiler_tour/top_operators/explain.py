"""Lesson 01: why an answer to ``top_operators`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ..cases import trace_of
from ..explain import is_number, of_case, scaled_by

ROW = ("name", "calls", "device_self_us", "device_total_us")


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
        return f"Return only the first k rows. {of_case(case)}"
    own = [row["device_self_us"] for row in found]
    if all(map(is_number, own)) and own != sorted(own, reverse=True):
        return f"The largest `device_self_us` comes first. {of_case(case)}"
    names = [row["name"] for row in found]
    if len(set(map(str, names))) < len(names):
        return "A name has several rows: one row for each name, with the sums over all its calls."
    known = {span.name for span in trace_of(case).spans if span.category == "op"}
    unknown = [name for name in names if name not in known]
    if unknown:
        return f"{unknown[0]!r} is not an operator's name here: take `span.name` of the spans of category `op`, as it is."
    by_name = {row["name"]: row for row in wanted}
    rows = [(row, by_name[row["name"]]) for row in found if row["name"] in by_name]

    scaled = scaled_by([(row[key], right[key]) for row, right in rows for key in ROW[2:]])
    if scaled and [row["name"] for row in wanted] == names:
        return scaled

    def off(key: str) -> bool:
        return any(not is_number(row[key]) or abs(row[key] - right[key]) > 1e-3 + 1e-4 * right[key] for row, right in rows)

    wrong = [key for key in ROW[1:] if off(key)]
    where = ""
    if wrong == ["calls"]:
        where = "Only `calls` is wrong: it is how often the operator ran, even if it launched nothing. "
    elif wrong == ["device_total_us"]:
        where = ("Only the total is wrong: it counts for *every* operator around the call, whatever its name and however "
                 "deep it lies. ")
    elif wrong == ["device_self_us"]:
        where = "The totals are right, the self times are not: the innermost operator around the call has it. "
    return (f"{where}{of_case(case)}From a kernel (or copy, or memset) to the runtime call with the same correlation, and "
            "to the operators around that call on its own thread.")
