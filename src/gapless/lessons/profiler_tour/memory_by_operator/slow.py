"""Lesson 01: ``memory_by_operator`` as handed out."""

from __future__ import annotations


def memory_by_operator(trace):
    """Allocations alone, for every operator of any thread that runs at the time."""
    rows = {}
    for event in trace.events:
        if event["name"] == "[memory]" and event["args"]["Bytes"] > 0:
            for span in trace.spans:
                if span.category == "op" and span.start_us <= event["ts"] <= span.end_us:
                    row = rows.setdefault(span.name, {"size_increase_bytes": 0, "self_size_increase_bytes": 0,
                                                      "allocation_bytes": 0, "self_allocation_bytes": 0})
                    for key in row:
                        row[key] += event["args"]["Bytes"]
    return rows
