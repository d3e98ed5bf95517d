"""The button, and a browser that presses it: a page of ours stands in for Perfetto's, on another origin."""

import base64
import gzip
import json
import re
import shutil
import subprocess
import threading
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from gapless.evidence.pictures import perfetto

TRACE = gzip.compress(b'{"traceEvents": []}', mtime=0)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """The tags of a page, and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags[-1][0] == "script" and data.strip():
            self.scripts.append(data)


def test_the_trace_is_in_the_page_and_nothing_is_loaded_with_it():
    page = Page(perfetto.button(TRACE, "a title"))
    script, = page.scripts
    assert base64.b64decode(re.search(r'atob\("([^"]*)"\)', script).group(1)) == TRACE
    assert not any(key in attributes for _, attributes in page.tags for key in ("src", "href"))
    assert not re.search(r"\b(fetch|import|XMLHttpRequest)\b", script)


def test_without_scripts_there_is_no_button_that_does_nothing():
    assert [tag for tag, _ in Page(perfetto.button(TRACE, "a title")).tags] == ["div", "script"]


@pytest.mark.parametrize("title", ['</script><b>"', "<!--<script>", "it's \\ a\nline", "{key} {0}"])
def test_a_title_stays_a_title(title):
    page = Page(perfetto.button(TRACE, title))
    assert [tag for tag, _ in page.tags] == ["div", "script"]
    literal = re.search(r"title = (\".*?\"), fileName", page.scripts[0]).group(1)
    assert json.loads(literal) == title


def test_the_same_trace_gives_the_same_page_and_another_another_place():
    page = perfetto.button(TRACE, "a title")
    assert page == perfetto.button(TRACE, "a title")
    place = Page(page).tags[0][1]["data-gapless-trace"]
    assert place != Page(perfetto.button(gzip.compress(b"{}"), "a title")).tags[0][1]["data-gapless-trace"]


def test_a_large_trace_stays_outside_and_the_note_says_what_to_do(monkeypatch):
    monkeypatch.setattr(perfetto, "MOST_BYTES", len(TRACE))
    assert "atob" in perfetto.button(TRACE, "a title")
    monkeypatch.setattr(perfetto, "MOST_BYTES", len(TRACE) - 1)
    note = perfetto.button(TRACE, "a title", address='https://ui.example/"<')
    assert "atob" not in note and "<script" not in note
    assert 'report.trace.write("trace.json.gz")' in note
    assert dict(Page(note).tags)["a"]["href"] == 'https://ui.example/"<'


# -- in a browser -----------------------------------------------------------------------------------

# Answers no PING before its third: a page that is not ready drops what it is sent.
STUB = """<!doctype html><script>
let pings = 0;
addEventListener("message", event => {
  if (event.data === "PING") { if (++pings > 2) event.source.postMessage("PONG", "*"); return; }
  const {buffer, title, fileName} = event.data.perfetto;
  fetch("/got?" + encodeURIComponent(JSON.stringify([title, fileName, event.origin])), {method: "POST", body: buffer});
});
</script>"""

# Presses after a while, so that what the page does by itself has been seen; then saves, and sends what it would save.
PRESS = """<script>
setTimeout(async () => {
  await fetch("/before", {method: "POST"});
  const places = document.querySelectorAll("[data-gapless-trace]");
  const [button] = places[0].getElementsByTagName("button"), [save] = places[0].getElementsByTagName("a");
  save.addEventListener("click", event => event.preventDefault());
  save.click();
  const saved = await (await fetch(save.href)).arrayBuffer();
  const counts = [...places].map(place => place.getElementsByTagName("button").length);
  await fetch("/saved?" + encodeURIComponent(JSON.stringify([save.download, counts])), {method: "POST", body: saved});
  button.click();
}, 500);
</script>"""


@pytest.fixture
def site():
    """A server, its pages (path → text) and what it was asked (path, body), with an event when all has arrived."""
    asked, pages, done = [], {}, threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, b""))
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write((body or "").encode())

        def do_POST(self):
            asked.append((self.path, self.rfile.read(int(self.headers.get("Content-Length", 0)))))
            self.send_response(204)
            self.end_headers()
            if self.path.startswith("/got"):
                done.set()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, pages, asked, done
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium to press the button")
def test_a_browser_hands_the_trace_over_and_asks_for_nothing_before(site, tmp_path):
    port, pages, asked, done = site
    # Two names of this machine are two origins to a browser.
    ours, stub = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
    title = 'simulated <A10G> & "more" </script>'
    output = perfetto.button(TRACE, title, address=stub)
    pages |= {"/page": f"<!doctype html><title>a notebook</title>{output}{output}{PRESS}", "/": STUB}
    browser = subprocess.Popen(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-popup-blocking", "--no-first-run",
         f"--user-data-dir={tmp_path}", "--remote-debugging-port=0", f"{ours}/page"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert done.wait(60), asked
    finally:
        browser.terminate()
        browser.wait(30)
    paths = [path for path, _ in asked if path != "/favicon.ico"]
    assert paths[:2] == ["/page", "/before"]
    found = {path.partition("?")[0]: (path.partition("?")[2], body) for path, body in asked}
    assert found["/got"][1] == TRACE
    assert json.loads(unquote(found["/got"][0])) == [title, "trace.json.gz", ours]
    assert found["/saved"][1] == TRACE
    assert json.loads(unquote(found["/saved"][0])) == ["trace.json.gz", [1, 1]]
