"""The page and its Markdown: whole, by themselves, and nothing of the script can break out of it."""

import re
from html.parser import HTMLParser

import pytest
import torch

import gapless
from gapless.audit.advice import LESSONS
from gapless.audit.markdown import lesson_address, markdown
from gapless.audit.page import page
from gapless.installed import repository

from .. import ROOT
from .made_up import made, training

_EMPTY = {"meta", "br", "img", "path", "use", "rect"}


class Reader(HTMLParser):
    """Checks that elements end in order, and collects what is outside scripts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.addresses, self.alts, self.numbers = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.addresses += [attributes[name] for name in ("src", "href") if name in attributes]
        self.alts += [attributes["aria-label"]] if "aria-label" in attributes else []
        self.numbers += [attributes["data-of"]] if tag == "td" and attributes.get("class") == "n" else []
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if tag not in _EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


@pytest.fixture(scope="module")
def audit():
    gapless.vgpu.enable("a10g")
    gapless.vgpu.timeline().reset()
    return made(training(reads=1, input_ms=1.0), memory=True)


def test_the_page_needs_nothing_else(audit):
    read = Reader(page(audit))
    assert not read.open and len(read.alts) == 2 and "Timeline of 3 steps on simulated NVIDIA A10G" in read.alts[0]
    assert all(address.startswith(("#", repository().blob)) for address in read.addresses)
    text = " ".join(read.text)
    for words in ("modelled times, not measured", "What bounds it", "Waits, by line", "loss.item()", "lesson 00_two_clocks",
                  "Memory", "The longest kernels", "the input: a batch that is not there yet"):
        assert words in text


def test_many_small_kernels_are_also_shown_one_by_one():
    read = Reader(page(made(training(layers=12, foreach=False, input_ms=1.0))))
    assert not read.open and read.alts[1].startswith("One typical millisecond")
    assert "One millisecond of the above" in " ".join(read.text)


def test_numbers_say_what_they_are_where_there_is_no_room_for_columns(audit):
    assert {"costs ms a step", "own ms a step", "a step is shorter by", "MiB at the peak"} <= set(Reader(page(audit)).numbers)


def test_what_a_script_is_called_stays_text(audit):
    import dataclasses

    bad = "<script>alert(1)</script>`|"
    hostile = dataclasses.replace(audit, script=bad, waits=(dataclasses.replace(audit.waits[0], line=bad, location=bad),))
    read = Reader(page(hostile))
    assert not read.open and bad in " ".join(read.text)
    assert "<script>alert" not in page(hostile) and "`<script>" not in markdown(hostile).partition("\n")[2]


def test_lessons_are_links_where_the_course_is_published(audit, monkeypatch):
    lead = {address for address in Reader(page(audit)).addresses if address.startswith("http")}
    lead |= set(re.findall(r"\]\((http.*?)\)", markdown(audit)))
    assert len(lead) >= 2 and all((ROOT / address.removeprefix(repository().blob)).is_file() for address in lead)
    monkeypatch.setattr("gapless.audit.markdown.repository", lambda: None)
    assert not [address for address in Reader(page(audit)).addresses if address.startswith("http")]
    assert "](http" not in markdown(audit) and "(lesson 00_two_clocks: `gapless lab`)" in markdown(audit)


@pytest.mark.parametrize("number", LESSONS)
def test_each_lesson_is_there(number):
    assert (ROOT / lesson_address(number).removeprefix(repository().blob)).is_file()


def test_without_matplotlib_there_is_a_page_without_pictures(audit, monkeypatch):
    from gapless.evidence.pictures import picture

    def missing(*args, **kwargs):
        raise ImportError("matplotlib")

    monkeypatch.setattr(picture, "draw", missing)
    monkeypatch.setattr("gapless.audit.page.memory_picture", missing)
    text = page(audit)
    assert "No pictures" in text and "<svg" not in text and not Reader(text).open


def test_markdown_tables_have_their_columns(audit):
    for block in re.findall(r"(?:^\|.*\n)+", markdown(audit), flags=re.MULTILINE):
        assert len({line.replace(r"\|", "").count("|") for line in block.splitlines()}) == 1


def test_a_script_that_computes_on_the_cpu():
    x = torch.ones(64, 64)
    text = markdown(made(lambda: (x @ x).sum()))
    assert "nothing runs on the GPU" in text and "Nothing runs on the GPU: the script computes on the CPU" in text
    assert "At most not known" not in text


def test_where_the_times_come_from():
    measured, counted = made(training(), host="measured", processor="Tin 7", busy=True), made(training())
    for write in (markdown, page):
        assert "on this machine, Tin 7" in write(measured) and "was busy" in write(measured)
        assert "Nothing is measured" in write(counted)


def test_how_uncertain_the_gpus_time_is():
    found = made(training())
    share = f"{100 * found.report.uncertainty:.0f}"
    for write in (markdown, page):
        assert re.search(rf"The GPU is busy for [\d.]+ ms ± {share} % of ", write(found))


def test_the_worst_findings_come_first():
    found = made(training(size=1800, host_ms=8.0, reads=1))
    for write in (markdown, page):
        top = write(found).partition("The GPU is busy")[0]
        assert "waits for the GPU in aten::item" in top.replace("\\_", "_") and "ms a step" in top
