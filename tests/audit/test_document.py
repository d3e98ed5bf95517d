"""The audit as JSON: what the schema says is what is there."""

import re

import jsonschema
import pytest

import gapless
from gapless.audit.document import SCHEMA, document
from gapless.audit.result import Trial

from .. import ROOT
from .made_up import made, training


@pytest.fixture(scope="module")
def found():
    gapless.vgpu.enable("a10g")
    gapless.vgpu.timeline().reset()
    step = training(reads=1, input_ms=1.0, host_ms=1.0, size=400)
    afterwards = {"steps": 10, "waits": {"/x/train.py(3): step\naten::item": {"0": 1.0, "5": 1.0}}, "own": {}, "longer_ms": 0.1}
    audit = made(step, memory=True, host="measured", processor="Tin 7", busy=False, afterwards=afterwards)
    object.__setattr__(audit, "trials", (Trial("amp", None, "ValueError"), Trial("tf32", 1.5)))
    return document(audit)


def numbers(value, name=""):
    """(name, number) of all that is in a document; those in a map without fixed names have the map's."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from numbers(each, name if name in ("saved_without_ms", "kernels_by_kind_ms", "at_peak_bytes") else key)
    elif isinstance(value, list):
        for each in value:
            yield from numbers(each, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value


def test_the_schema_is_one_and_the_audit_is_of_it(found):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(found, SCHEMA)
    assert all(found[name] for name in ("waits", "host", "seldom", "remarks", "trials", "memory")), "each kind is tried"
    for broken in ({**found, "step_ms": "1"}, {**found, "more": 1}, {k: v for k, v in found.items() if k != "waits"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)


def test_each_number_has_an_origin_and_each_time_a_unit(found):
    names = {name for name, _ in numbers(found)}
    assert names <= set(found["origin"])
    assert found["origin"] | {"own_ms": "measured", "operators_ms": "modelled", "step_ms": "mixed", "times": "counted"} == found["origin"]
    counts = {name for name in names if not re.search(r"(^|_)(ms|bytes)$", name)}
    assert counts == {"steps", "warm_up", "spread", "waits_per_step", "kernels_per_step", "bus_bytes_per_step", "times", "launches", "every",
                      "device_busy_uncertainty"}


def test_nothing_modelled_is_called_measured():
    origin = document(made(training()))["origin"]  # the host is counted
    assert set(origin.values()) == {"modelled", "counted"}


def test_the_documentation_has_a_row_for_each_field():
    text = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8").partition("## The JSON")[2].partition("\n## ")[0]
    told = [name for row in re.findall(r"^\| (.*?) \|", text, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert told == list(SCHEMA["properties"])
