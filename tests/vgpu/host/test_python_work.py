"""Calls of Python functions are counted alike on every Python, and nobody's profiler is broken by it."""

import contextlib
import cProfile
import shutil
import subprocess
import sys
import threading

import pytest

from gapless.vgpu.host import python_work

PROGRAM = """
import contextlib
def numbers(count):
    for number in range(count):
        yield number
def plus(x):
    return x + 1
class Thing:
    def __init__(self):
        self.x = 1
    @property
    def y(self):
        return 2
    def __getattr__(self, name):
        return 3
@contextlib.contextmanager
def block():
    yield
def calls():
    plus(1), plus(2)
def comprehensions():
    [plus(i) for i in range(3)], {i: i for i in range(5)}, {i for i in range(5)}
def generators():
    list(numbers(3))
def expressions():
    sum(i for i in range(4))
def objects():
    Thing().y, Thing().z
def blocks():
    with block():
        pass
def errors():
    try:
        with block():
            raise ValueError
    except ValueError:
        pass
def functions_in_c():
    sorted([3, 1, 2]), len("abc"), sum([1, 2]), "a".upper()
def sorts():
    sorted([3, 1, 2], key=lambda value: -value)
def imports():
    import sys
    sys.modules.pop("colorsys", None)
    import colorsys
    try:
        import there_is_no_such_module
    except ImportError:
        pass
"""
# Each with itself: `calls` is one call, and makes two.
CALLS = {"calls": 3, "comprehensions": 4, "generators": 5, "expressions": 6, "objects": 5, "blocks": 7, "errors": 7,
         "functions_in_c": 1, "sorts": 4, "imports": 1}

names: dict = {}
exec(compile(PROGRAM, "program.py", "exec"), names)



@pytest.fixture
def counter():
    return python_work.counter(lambda filename: filename in ("program.py", contextlib.__file__))


def counted(counter, function) -> int:
    counter.start()
    function()
    found = counter.take()
    counter.stop()
    return found


@pytest.mark.parametrize("name", CALLS)
def test_what_is_a_call(counter, name):
    assert counted(counter, names[name]) == counted(counter, names[name]) == CALLS[name]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_every_python_counts_the_same(version):
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"there is no Python {version} here")
    script = f"""
import importlib.util, contextlib
spec = importlib.util.spec_from_file_location("python_work", {python_work.__file__!r})
work = importlib.util.module_from_spec(spec)
spec.loader.exec_module(work)
names = {{}}
exec(compile({PROGRAM!r}, "program.py", "exec"), names)
counter = work.counter(lambda file: file in ("program.py", contextlib.__file__))
found = {{}}
for name in {list(CALLS)!r}:
    counter.start()
    names[name]()
    found[name] = counter.take()
    counter.stop()
print(found)
"""
    said = subprocess.run([python, "-c", script], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert eval(said.stdout) == CALLS


def test_another_thread_does_not_pause_the_one_that_counts(counter):
    said = []
    counter.start()
    other = threading.Thread(target=lambda: said.append(counter.pause()))
    other.start()
    other.join()
    counter.take()
    names["plus"](1)
    assert said == [False]
    assert counter.take() == 1
    counter.stop()


def test_what_is_between_a_pause_and_its_end_is_not_counted(counter):
    counter.start()
    names["plus"](1)
    assert counter.pause()
    names["plus"](1)
    counter.resume()
    names["plus"](1)
    assert counter.take() == 2
    assert counter.take() == 0
    counter.stop()
    names["plus"](1)
    assert counter.take() == 0


def test_other_threads_are_not_counted(counter):
    def work():
        thread = threading.Thread(target=names["calls"])
        thread.start()
        thread.join()

    assert counted(counter, work) == 0


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="there a profile function and the counter do not meet")
def test_a_profile_function_of_someone_elses_goes_on(counter):
    theirs = []

    def see(frame, event, argument):
        if event == "call":
            theirs.append(frame.f_code.co_name)

    sys.setprofile(see)
    try:
        assert counted(counter, names["calls"]) == 3
        assert sys.getprofile() is see
    finally:
        sys.setprofile(None)
    assert theirs.count("plus") == 2


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="there a profiler and the counter do not meet")
def test_a_profiler_that_is_at_work_is_an_error_that_says_so(counter):
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with pytest.raises(RuntimeError, match="a profiler .* is at work"):
            counter.start()
    finally:
        profiler.disable()
    assert counted(counter, names["calls"]) == 3


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="there a profile function and the counter do not meet")
def test_who_takes_the_counters_place_is_told(counter):
    counter.start()
    sys.setprofile(None)
    with pytest.raises(RuntimeError, match="has replaced the profile function"):
        counter.stop()
    assert sys.getprofile() is None
    assert counted(counter, names["calls"]) == 3


def test_a_tracer_goes_on(counter):
    """Debuggers and coverage."""
    before, lines = sys.gettrace(), []

    def trace(frame, event, argument):
        if frame.f_code.co_filename == "program.py":
            lines.append(event)
            return trace
        return None

    sys.settrace(trace)
    try:
        assert counted(counter, names["calls"]) == 3
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert "line" in lines
