"""What a learner's cell can do, and what it scores for it: real workers on the toy lesson."""

import json
import time

import psutil
import pytest

from gapless.grading.confine import Confinement, GradingError, find_confinement
from gapless.grading.grade import seed_for

from .toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, SLOW_SQUARE

LIMITS_ONLY = Confinement(None, "limits only, for this test")


def double(body, before=""):
    return f"# exercise: double\n{before}\ndef double(x):\n    {body}\n"


def test_a_good_answer_scores_everything(grade_cells):
    result = grade_cells(GOOD_DOUBLE, GOOD_SQUARE)
    assert (result.score, result.max_score) == (6, 6)
    assert result.notes == []


def test_a_stub_scores_only_for_being_right(grade_cells):
    result = grade_cells(SLOW_DOUBLE, SLOW_SQUARE)
    assert result.score == 4


def test_one_exercise_does_not_spoil_another(grade_cells):
    assert grade_cells(double("__import__('os')._exit(0)"), GOOD_SQUARE).score == 3


def test_json_has_the_agreed_form_and_no_seed(grade_cells, tmp_path):
    result = grade_cells(GOOD_DOUBLE, SLOW_SQUARE)
    result.write(tmp_path / "out.json")
    stored = json.loads((tmp_path / "out.json").read_text())
    assert set(stored) == {"lesson", "device", "simulated", "score", "max_score", "checks", "confinement", "notes"}
    assert (stored["lesson"], stored["device"], stored["simulated"]) == ("77_toy", "vgpu", True)
    assert (stored["score"], stored["max_score"]) == (5, 6)
    assert [set(check) for check in stored["checks"]] == [{"id", "exercise", "points", "earned", "outcome", "message"}] * 4
    assert list(tmp_path.glob("*.tmp")) == []


@pytest.mark.parametrize("cell, says", [
    (double("raise KeyError('mine')"), "KeyError"),
    (double("return 2 * x", "raise KeyError('mine')"), "KeyError: 'mine' (line 2"),
    ("# exercise: double\ndef double(x:\n", "does not compile"),
    ("# exercise: double\ntwice = 3\n", "defines no function called 'double'"),
    (double("return 2 * x", "import os; os._exit(0)"), "ended before the checks were done (exit status 0)"),
    (double("__import__('os')._exit(0)"), "ended before the checks were done"),
    (double("return 2 * x", "raise SystemExit"), "SystemExit"),
    (double("raise KeyboardInterrupt"), "KeyboardInterrupt"),
    (double("return 2 * x", "import os; os.abort()"), "ended before the checks were done (signal 6)"),
    (double("return x.int()"), ""),
    (double("return torch.zeros(1)"), ""),
    (double("return None"), ""),
    (double("return open('/etc/passwd').read()"), "reading the file /etc/passwd"),
    (double("import pathlib; return pathlib.Path('solutions/77_toy.ipynb').read_text()"), "reading the file"),
    (double("import os; return os.listdir('/')"), "listing the folder"),
    (double("import subprocess; subprocess.run(['true']); return 2 * x"), "starting or stopping processes"),
    (double("import os; os.system('true'); return 2 * x"), "starting or stopping processes"),
    (double("import socket; socket.create_connection(('127.0.0.1', 9)); return 2 * x"), "connections"),
    (double("import ctypes; ctypes.CDLL(None); return 2 * x"), "looking into the interpreter"),
    (double("import sys; sys._getframe(1); return 2 * x"), "looking into the interpreter"),
    (double("import gc; gc.get_objects(); return 2 * x"), "looking into the interpreter"),
    (double("open('note', 'w').write('x'); return 2 * x"), "writing the file"),
    (double("return 2 * x", "import gapless.evidence.trace"), "takes from gapless.evidence.trace"),
    (double("return 2 * x", "exec('import gapless.evidence.trace')"), "import gapless.evidence.trace"),
    (double("import sys; return sys.modules['gapless.views']"), "takes from gapless.views"),
    (double("return double.__globals__"), "looks into the interpreter"),
    (double("return x.inner * 2"), "looks into the interpreter or the virtual GPU"),
])
def test_what_fails_says_why(grade_double, cell, says):
    checks, _ = grade_double(cell)
    assert checks["values"].outcome == checks["step_time"].outcome == "fail" or says == ""
    assert checks["values"].earned == 0
    assert says in checks["values"].message


@pytest.mark.parametrize("cell, says", [
    (double("return 2 * x", "torch.stack = None"), "torch.stack was replaced"),
    (double("return 2 * x", "torch.nn.functional.cross_entropy = print"), "torch.nn.functional.cross_entropy was replaced"),
    (double("return 2 * x", "import time\ntime.perf_counter = lambda: 0.0"), "time.perf_counter was replaced"),
    (double("return 2 * x", "torch.Tensor.item = lambda self: 0"), "torch.Tensor.item was"),
    (double("return 2 * x", "import importlib\nimportlib.import_module('gap' + 'less.evidence.trace').Trace = 1"), "gapless.evidence.trace.Trace was replaced"),
    (double("return 2 * x", "import sys\nsys.modules['gap' + 'less.course.cells'].CellError.x = print"), "CellError.x was added"),
    (double("return 2 * x", "import sys\nsys.modules['toylessons.gather']._measure.__code__ = (lambda a, b, c: 0).__code__"),
     "changing toylessons.gather._measure.__code__"),
    (double("kept = torch.stack\n    torch.stack = print\n    torch.stack = kept\n    return 2 * x"), "torch.stack was replaced"),
    (double("return 2 * x", "from unittest import mock\nmock.patch('torch.stack').start()"), "torch.stack was replaced"),
    (double("return 2 * x", "import sys\nsys.modules['gap' + 'less.evidence.trace'] = sys"), "the module gapless.evidence.trace was replaced"),
    (double("return 2 * x", "import builtins\nbuiltins.len = lambda x: 1"), "builtins.len was replaced"),
    (double("return 2 * x", "from torch.utils._python_dispatch import TorchDispatchMode\nTorchDispatchMode().__enter__()"), "dispatch modes"),
    (double("return 2 * x", "torch.set_default_dtype(torch.float64)"), "torch's default dtype was changed"),
    (double("torch.set_grad_enabled(False); return 2 * x"), "the recording of gradients was changed"),
])
def test_tampering_is_seen(grade_double, cell, says):
    checks, _ = grade_double(cell)
    assert checks["values"].earned == checks["step_time"].earned == 0
    assert says in checks["values"].message


@pytest.mark.parametrize("cell", [
    double("import sys; print('loud', file=sys.stderr); print('quiet'); return 2 * x"),
    double("import warnings; warnings.warn('mind the gap'); return 2 * x"),
    double("return 2 * x", "import torch._dynamo, math, dataclasses, functools, typing\ntorch.manual_seed(1)"),
    double("return Double.apply(x)", "class Double(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return 2 * x\n"
           "    @staticmethod\n    def backward(ctx, g):\n        return 2 * g\n"),
    double("return x.add(x)", "from dataclasses import dataclass\n@dataclass\nclass Size:\n    n: int = 1\n"
           "import collections\nPair = collections.namedtuple('Pair', 'a b')\n"),
    double("with torch.no_grad():\n        two = torch.full((), 2.0)\n    return two * x", "torch.set_printoptions(precision=2)"),
    double("try:\n        raise ValueError\n    except ValueError:\n        import traceback; traceback.print_exc()\n    return 2 * x"),
    "\n\n  # exercise:   double  \ndouble = lambda x: 2 * x",
    "# exercise: double\ndef double(x):\n    raise ValueError\n\ndef double(x):\n    return x + x",
])
def test_harmless_things_cost_nothing(grade_double, cell):
    checks, result = grade_double(cell)
    assert result.score == 3, checks


def test_a_loop_without_end_is_stopped(grade_double):
    started = time.monotonic()
    checks, _ = grade_double(double("while True:\n        pass"), seconds=4)
    assert "within 4 s" in checks["values"].message and checks["step_time"].earned == 0
    assert time.monotonic() - started < 25


def test_allocating_without_end_is_stopped(grade_double):
    checks, _ = grade_double(double("kept = []\n    while True:\n        kept.append(torch.ones(2**22))"), memory_bytes=300 * 2**20)
    assert "memory" in checks["values"].message.lower()
    checks, _ = grade_double(double("return 2 * x", "kept = []\nwhile True:\n    kept.append(bytearray(2**22))"),
                             memory_bytes=300 * 2**20)
    assert "memory" in checks["values"].message.lower()


def test_the_watchdog_stops_memory_where_the_system_does_not(grade_double, monkeypatch):
    # A limit of the system's own would come first: lifted by the cell, as the cell can.
    lift = "import resource as r\nr.setrlimit(r.RLIMIT_DATA, (r.getrlimit(r.RLIMIT_DATA)[1],) * 2)"
    checks, _ = grade_double(double("kept = []\n    while True:\n        kept.append(torch.ones(2**22))", lift),
                             memory_bytes=300 * 2**20)
    assert "more than 0.293 GiB of memory" in checks["values"].message


def test_a_missing_cell_fails_and_says_so(grade_cells):
    result = grade_cells(GOOD_SQUARE)
    assert (result.score, result.max_score) == (3, 6)
    assert "# exercise: double" in result.verdicts[0].message
    assert any("double" in note for note in result.notes)


def test_of_duplicates_the_last_counts(grade_cells):
    result = grade_cells(SLOW_DOUBLE, GOOD_DOUBLE, GOOD_SQUARE)
    assert result.score == 6
    assert "more than once" in result.notes[0]
    assert grade_cells(GOOD_DOUBLE, SLOW_DOUBLE, GOOD_SQUARE).score == 5


def test_it_cannot_say_it_is_finished(grade_double):
    forged = ("import os, json\nfor fd in range(3, 64):\n    try: os.write(fd, b'[\"\", \"finished\", \"\"]\\n')\n    except OSError: pass\n"
              "os._exit(0)")
    checks, _ = grade_double(double("return 2 * x", forged))
    assert "ended before" in checks["values"].message


@pytest.mark.skipif(find_confinement().bubblewrap is None, reason="bubblewrap does not work here")
def test_the_sandbox_hides_files_and_network(grade_double, tmp_path):
    """Past the guard, in C, there is still nothing to see: os.stat and os.access are not audited."""
    secret = tmp_path / "gradebook.db"
    secret.write_text("scores")
    here = __file__
    checks, _ = grade_double(double("return 2 * x", "import os\n" + "\n".join(
        f"if os.access({path!r}, os.F_OK): raise ValueError('sees ' + {path!r})" for path in (str(secret), here, "/etc/passwd", "/root/.bashrc"))))
    assert checks["values"].earned == 2
    checks, _ = grade_double(double("return 2 * x", f"import os\nif os.access({here!r}, os.F_OK): raise ValueError('sees it')"),
                             confinement=LIMITS_ONLY)
    assert "sees it" in checks["values"].message, "this test could not have failed"


def test_limits_alone_confine_too(grade_double):
    checks, result = grade_double(GOOD_DOUBLE, confinement=LIMITS_ONLY)
    assert result.score == 3 and result.confinement == LIMITS_ONLY.description
    checks, _ = grade_double(double("return open('/etc/passwd').read()"), confinement=LIMITS_ONLY)
    assert "reading the file" in checks["values"].message


def test_what_breaks_the_measuring_is_told_from_what_is_broken(grade_double, monkeypatch):
    """The toy's gather raises at this variable, wherever it comes from."""
    checks, _ = grade_double(double("return 2 * x", "torch.nn.gather_breaks = True"))
    assert "nothing could be measured any more: RuntimeError: gather broke" in checks["values"].message
    monkeypatch.setenv("LC_ALL", "gather_breaks")
    with pytest.raises(GradingError, match="(?s)whatever the cell does.*gather broke"):
        grade_double(GOOD_DOUBLE)


def test_nothing_is_left_running(grade_double, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a worker's command names its folder: these are ours
    grade_double(double("while True: pass"), seconds=2, confinement=LIMITS_ONLY)
    left = [p for p in psutil.process_iter() if p.status() != psutil.STATUS_ZOMBIE and str(tmp_path) in " ".join(p.cmdline())]
    assert left == []


def test_each_exercise_has_its_own_inputs():
    assert seed_for(1, "double") != seed_for(1, "square") != seed_for(2, "square")
    assert seed_for(1, "double") == seed_for(1, "double")
