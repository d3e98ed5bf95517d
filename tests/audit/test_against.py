"""Two audits compared: what is told, and what is left alone as it may be chance."""

import copy
import json

import jsonschema
import pytest

import gapless
from gapless.audit.against import compare, comparison_in_markdown, read, rows, sentences, with_comparison
from gapless.audit.document import SCHEMA, document
from gapless.audit.launch import AuditError
from gapless.audit.page import comparison_page

from .made_up import made, training


@pytest.fixture(scope="module")
def audits():
    """Of steps that read no number, one, and three; of one that works longer on the host."""
    gapless.vgpu.enable("a10g")
    gapless.vgpu.timeline().reset()
    steps = {"none": {}, "one": {"reads": 1}, "three": {"reads": 3}, "long": {"host_ms": 30.0}}
    return {name: document(made(training(**{"size": 1200, "host_ms": 3.0, **step}))) for name, step in steps.items()}


def changed(document, **fields):
    return copy.deepcopy(document) | fields


def test_an_audit_against_itself(audits):
    found = compare(audits["one"], audits["one"])
    assert found.step == "same" and not found.lines and not found.notes
    assert "No line waits that did not before." in sentences(found)


def test_a_new_wait_and_one_that_is_gone(audits):
    new, gone = compare(audits["none"], audits["one"]), compare(audits["one"], audits["none"])
    wait = next(each for each in new.lines if each.what == "wait")
    assert (wait.how, wait.line, wait.operator, wait.before_times, wait.after_times) == ("new", "loss.item()", "aten::item", 0, 1)
    assert new.step == "slower" and new.new_waits == [wait] and wait.after_ms > 0.5
    assert gone.step == "faster" and [each.how for each in gone.lines if each.what == "wait"] == ["gone"] and not gone.new_waits


def test_a_wait_that_comes_more_often_is_one_that_was_not_there(audits):
    more, less = compare(audits["one"], audits["three"]), compare(audits["three"], audits["one"])
    assert [(each.how, each.after_times) for each in more.new_waits] == [("more", 3)] and not less.new_waits
    assert "3 times a step (was once)" in rows(more)[0][0]


def test_a_line_that_only_moved_or_is_in_another_folder_is_the_same(audits):
    moved = json.loads(json.dumps(audits["one"]).replace("audit/made_up.py:", "before/made_up.py:1"))
    assert moved["waits"][0]["location"] != audits["one"]["waits"][0]["location"]
    assert not compare(audits["one"], moved).lines


def test_what_some_steps_did_before_is_no_new_wait(audits):
    wait, = audits["one"]["waits"]
    seldom = {"location": wait["location"], "line": wait["line"], "does": "", "every": 10, "ms": 1.0, "costs_ms": 0.1, "what": None}
    rare = changed(audits["one"], waits=[wait | {"times": 1 / 3}])
    assert compare(audits["none"], rare).new_waits and not compare(changed(audits["none"], seldom=[seldom]), rare).new_waits


def test_less_than_what_is_uncertain_is_no_change(audits):
    one, ms = audits["one"], audits["one"]["step_ms"]
    for factor, spread, step in ((1.08, 0.1, "same"), (1.2, 0.1, "slower"), (0.8, 0.1, "faster"), (1.2, 0.25, "same")):
        assert compare(one, changed(one, step_ms=factor * ms, spread=spread)).step == step
    busy = compare(changed(one, host_clock="measured"), changed(one, host_clock="measured", step_ms=1.2 * ms, busy=True))
    assert busy.step == "same" and "only a large difference" in sentences(busy)[-1]


def test_the_host_s_lines(audits):
    found = compare(audits["none"], audits["long"])
    assert found.step == "slower" and found.after_bounds == ("host",)
    assert "the host works longer" in [row[0] for row in rows(found)]


def test_a_loader_whose_batches_cost_more(audits):
    loader = {"location": "train.py:7", "line": "DataLoader(data)", "batches": 1.0, "costs_ms": 1.0}
    one = audits["one"]
    was = changed(one, loaders=[loader])
    now = changed(one, loaders=[{**loader, "location": "train.py:9", "costs_ms": 1.0 + one["step_ms"]}])
    ((change, before, _, *where),) = rows(compare(was, now))
    assert (change, before, where) == ("its batches cost more", "1.00", ["train.py:9", "DataLoader(data)"])


def test_what_bounds_it(audits):
    was, now = changed(audits["one"], bounds=["device"]), changed(audits["one"], bounds=["waits", "host"])
    assert "What bounds it was the GPU, and is now waits" in " ".join(sentences(compare(was, now)))
    assert "too close" in " ".join(sentences(compare(changed(was, bounds=["device", "waits"]), now)))


def test_what_cannot_be_compared(audits, tmp_path):
    one = audits["one"]
    with pytest.raises(AuditError, match="the same --device"):
        compare(one, changed(one, device="Tin 7"))
    with pytest.raises(AuditError, match="of counted, this one of profiler"):
        compare(one, changed(one, host_clock="profiler"))
    assert "what counting does not see" in compare(one, changed(one, host_clock="measured")).notes[0]
    noted = compare(one, changed(one, torch="9.9"))
    assert "PyTorch's versions differ: 2.14.1; 9.9." in noted.notes
    for text in ("{", "[]", json.dumps(changed(one, schema="gapless.audit/0"))):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(AuditError, match="gapless audit --out FILE.json"):
            read(str(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text(json.dumps(one))
    assert read(str(tmp_path / "a.json")) == one


def test_it_is_written_in_all_three_forms(audits):
    found = compare(audits["none"], audits["one"])
    both = with_comparison(audits["one"], found)
    jsonschema.validate(both, SCHEMA)
    assert both["against"]["lines"][0]["how"] == "new"
    for text in (comparison_in_markdown(found), comparison_page("b.json", found)):
        assert "new wait, aten::item" in text and "loss.item()" in text and "slower" in text
