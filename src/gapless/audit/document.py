"""The audit as a JSON document: ``schema.json`` beside this file says what is in it, and where each number comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from .result import Audit

SCHEMA = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
VERSION = SCHEMA["properties"]["schema"]["const"]


def document(audit: Audit) -> dict:
    """All of the audit but its traces, in plain JSON types."""
    facts, report, memory = audit.facts, audit.report, audit.memory
    clock = "profiler" if not report.simulated else facts.get("host", "counted")
    found = {
        "schema": VERSION, "script": audit.script, "device": report.device_name, "simulated": report.simulated,
        "host_clock": clock, "values": facts.get("values", True), "processor": facts.get("processor"),
        "busy": bool(facts.get("busy")), "torch": facts.get("torch"), "steps": report.steps, "warm_up": facts.get("warm_up"),
        "a_step_ends_with": facts.get("kind"), "step_ms": audit.step_ms, "bound": audit.bound, "bounds": audit.bounds,
        "spread": audit.spread, "saved_without_ms": audit.parts_ms, "device_busy_ms": report.device_busy_ms,
        "device_busy_uncertainty": report.uncertainty,
        "kernels_by_kind_ms": audit.kinds_ms,
        "waits_per_step": report.syncs_per_step, "wait_ms": report.wait_ms, "kernels_per_step": report.kernels,
        "bus_bytes_per_step": report.bus_bytes, "overwritten": facts.get("overwritten", []),
        **{name: [asdict(each) for each in getattr(audit, name)]
           for name in ("waits", "host", "loaders", "seldom", "remarks", "trials")},
        "memory": None if memory is None else {
            "peak_bytes": memory.peak_bytes, "at_peak_bytes": {row.category: row.at_peak_bytes for row in memory.rows}},
        "origin": {name: SCHEMA["origins"][row][clock] for name, row in _origins(SCHEMA)}}
    return json.loads(json.dumps(found))  # tuples become lists


def _origins(schema) -> Iterator[tuple[str, str]]:
    """Name and row of origins of each number that the schema knows."""
    for name, inner in schema.items() if isinstance(schema, dict) else (("", each) for each in schema):
        if isinstance(inner, (dict, list)):
            if isinstance(inner, dict) and isinstance(inner.get("origin"), str):
                yield name, inner["origin"]
            yield from _origins(inner)
