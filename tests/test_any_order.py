"""The lessons' notebooks in a real kernel: from the top as handed out and solved, every cell run again, and in any order.

One kernel a lesson, since starting one costs seconds. Its rounds, each on what the earlier ones left behind:

1. as handed out, the setup cell first, then the others shuffled: only a name that is not there yet may be an error;
2. as handed out, from the top: nothing may fail any more, and nothing is scored that was not earned; a cell that needs no
   exercise is run twice in a row;
3. solved, from the top, the cells that depend on an exercise (the others were run twice in 2);
4. the same cells once more, shuffled, all answers being there: no error at all.

``GAPLESS_SHUFFLE=7`` shuffles in another order than the usual one.
"""

import os
import random
import re
import runpy
import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

from gapless.learner.explain_names import EXPLAINED
from gapless.lessons import LESSONS

from . import ROOT
from .test_lesson_notebooks import output_text, read

dependents = runpy.run_path(str(ROOT / "docs" / "demonstrations.py"))["dependents"]
SEED = int(os.environ.get("GAPLESS_SHUFFLE", "0"))

# The figures that a notebook prints are tried elsewhere: here a step or two are enough, and a headline of the same functions
# is measured once. A check measures as it always does; what its second time has in common with the first is found out once
# for all of the lesson's Notebooks, and in any order, where nothing is said of its verdict, its first two inputs are enough.
SHORT_RUNS = """
import dataclasses

import gapless.course.headline
import gapless.learner.notebook
from gapless.measure import profile

time_step, profiled = profile.time_step, profile.profile

def short(step, **options):
    return time_step(step, **{**options, "warmup": min(1, options.get("warmup", 1)), "steps": 1, "blocks": 1})

profile.time_step = short  # for the lessons, which are not imported yet
for module in (gapless, gapless.course.headline, gapless.learner.notebook):
    module.time_step = short
gapless.course.headline.profile = lambda step, **options: profiled(step, **{**options, "steps": 1})

headline, measured = gapless.Notebook.headline, {}

def once(self, functions=None):
    key = repr(self), *((name, getattr(f, "__code__", f)) for name, f in (functions or {}).items())
    if key not in measured:
        measured[key] = headline(self, functions)
    return measured[key]

known_of, known = gapless.Notebook._known_of, {}

def shared(self, exercise):
    if id(exercise) not in known:
        known[id(exercise)] = known_of(self, exercise)
    found = known[id(exercise)]
    short = dataclasses.replace(found.plan, cases=found.plan.cases[:2])
    return dataclasses.replace(found, plan=short) if self.in_any_order else found

gapless.Notebook.headline, gapless.Notebook._known_of, gapless.Notebook.in_any_order = once, shared, True
"""

# Of a lesson: smaller networks, fewer trials, and what is looked at and does not change is found out once.
SMALLER = {
    "01_profiler_tour": """
import functools

from gapless.lessons.profiler_tour import workload

workload.trace_at, measure_on = functools.cache(workload.trace_at), workload.measure_on
workload.measure_on = functools.cache(lambda device: functools.cache(measure_on(device)))
""",
    "00_two_clocks": """
from gapless.lessons.two_clocks import workload

workload.DEEP_LAYERS = 3
""",
    "04_data_loading": """
import functools

from gapless.lessons.data_loading import workload
from gapless.lessons.data_loading.input_bound import look as idle_programs

workload.epoch, idle_programs.trace_of = functools.cache(workload.epoch), functools.cache(idle_programs.trace_of)
workload.BATCH = 16  # of real images, by real processes
workload.epoch.__wrapped__.__defaults__ = (4 * workload.BATCH,)
""",
    "05_convolutions": """
import functools

from gapless.lessons.convolutions import look as batch_look
from gapless.lessons.convolutions import published, workload

workload.SIDE = 256  # of such large images few fit into the memory
published.resnet50_ms, batch_look.throughputs = functools.cache(published.resnet50_ms), functools.cache(batch_look.throughputs)
""",
    "06_launch_overhead": """
from gapless.lessons.launch_overhead import workload
from gapless.lessons.launch_overhead.capture_step import look as capture_look

workload.BLOCKS = 1
capture_look.draw_step_times.__defaults__ = (capture_look.WIDTHS[:2],)
""",
    "07_kernel_fusion": """
from gapless.lessons.kernel_fusion import workload

workload.LAYERS = 1
""",
    "08_memory": """
from gapless.lessons.memory import lesson

lesson.MOST = 16
""",
    "10_capstone": """
from gapless.lessons.capstone.programs.photos import program, sizes

sizes.SETTINGS.update(epochs=1, batch_size=9)
object.__setattr__(program.PHOTOS, "stages", program.PHOTOS.stages[::7])
""",
}


def without_names(source: str) -> str:
    """The same in a function: no name of it is one of the notebook's, where a cell could take it for its own."""
    return f"def _run():\n{textwrap.indent(source, '    ')}\n_run()\ndel _run\n"


class Rounds:
    """Runs cells of a notebook in one kernel and collects what fails: ``failures``, a line each."""

    def __init__(self, client: NotebookClient):
        self.client, self.failures, self.shown = client, [], {}

    def set(self, in_any_order: bool) -> None:
        """For the checks from here on: see SHORT_RUNS."""
        source = without_names(f"import gapless\ngapless.Notebook.in_any_order = {in_any_order}")
        self.run(nbformat.v4.new_code_cell(source, id="in_any_order"), "between")

    def run(self, cell, where: str, unexplained_only: bool = False) -> None:
        cell = cell.copy()
        self.client.nb.cells[:] = [cell]
        self.client.execute_cell(cell, 0)
        self.shown[cell.id] = output_text(cell)
        for output in cell.outputs:
            if output.output_type == "error" and not (unexplained_only and is_explained(output)):
                self.failures.append(f"{where}, cell {cell.id}: {output.ename}: {output.evalue.splitlines()[0][:200]}\n"
                                     f"      {line_of(output)}")


def is_explained(error) -> bool:
    return error.ename == "NameError" and EXPLAINED in error.traceback[-1]


def line_of(error) -> str:
    """The line of the cell that raised it, as the traceback shows it."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
    marked = re.findall(r"^-+> *\d+ (.*)$", plain, flags=re.MULTILINE)
    return marked[0].strip() if marked else plain.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id", LESSONS)
def test_every_cell_runs_again_and_in_any_order(lesson_id, tmp_path):
    lesson = LESSONS[lesson_id]
    given, solved = ({c.id: c for c in read(folder, lesson_id).cells if c.cell_type == "code"}
                     for folder in ("notebooks", "solutions"))
    assert list(given) == list(solved)
    depends = dependents(solved.values(), lesson.exercises)
    shuffled, again = [i for i in given if i != "setup"], [i for i in solved if i in depends]
    for order in (shuffled, again):
        random.Random(SEED).shuffle(order)

    client = NotebookClient(nbformat.v4.new_notebook(cells=[]), timeout=300, kernel_name="python3", allow_errors=True,
                            resources={"metadata": {"path": str(tmp_path)}})
    with client.setup_kernel():
        rounds = Rounds(client)
        source = without_names(f"{SHORT_RUNS}\n{SMALLER.get(lesson_id, '')}")
        rounds.run(nbformat.v4.new_code_cell(source, id="short_runs"), "at first")
        rounds.run(given["setup"], "at first")
        for cell_id in shuffled:
            rounds.run(given[cell_id], f"as handed out, shuffled with GAPLESS_SHUFFLE={SEED}", unexplained_only=True)
        rounds.set(in_any_order=False)
        for cell_id, cell in given.items():
            for where in ("as handed out, from the top", "as handed out, run again")[: 1 if cell_id in depends else 2]:
                rounds.run(cell, where)
        handed_out = dict(rounds.shown)
        for cell_id in (i for i in solved if i in depends):
            rounds.run(solved[cell_id], "solved, from the top")
        in_the_end = dict(rounds.shown)
        rounds.set(in_any_order=True)
        for cell_id in again:
            rounds.run(solved[cell_id], f"solved, shuffled with GAPLESS_SHUFFLE={SEED}")

    assert not rounds.failures, f"{len(rounds.failures)} failures:\n  " + "\n  ".join(rounds.failures)
    for shown, earned in ((handed_out, 0), (in_the_end, lesson.max_points)):
        assert shown["score"].rstrip().endswith(f"{earned:g} of {lesson.max_points:g}")
        assert "simulated" in shown["headline"] or "measured" in shown["headline"]
    pictures = ("Timeline of ", "Memory over time", "Tokens of ")  # how their alternative texts begin
    assert any(picture in text for text in in_the_end.values() for picture in pictures)
