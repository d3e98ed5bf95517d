"""What all tests share: none of them touches the learner's own progress, and workers do not contend for cores."""

import gc
import os
import signal
import sys

import pytest
import torch

from .hangs import pytest_runtest_logfinish, pytest_runtest_logstart, pytest_sessionstart  # noqa: F401  hooks

if "PYTEST_XDIST_WORKER" in os.environ:
    # A worker for each core is already there: more threads in each would wait for one another.
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # and in what the tests start

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for what a shell starts in the background, and for all that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session):
    """What was imported for all tests stays: the collector need not look through it again and again, as in tests that call it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory):
    """A folder for the progress that this run's checks record, in this process and in all that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAPLESS_HOME", str(tmp_path_factory.mktemp("gapless-home")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _grading_where_there_is_no_sandbox():
    """The notebooks that tests grade are ours: they are graded on a machine without bubblewrap too."""
    from gapless.grading.sandbox.confine import UNCONFINED, find_confinement

    with pytest.MonkeyPatch.context() as patch:
        if find_confinement().bubblewrap is None:
            patch.setenv(UNCONFINED, "1")
        yield


@pytest.fixture(autouse=True)
def _default_precision():
    """What a test, or a learner's function in it, switches does not reach the next test."""
    backends = torch.backends
    owners = backends, backends.cudnn, backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn
    before = [owner.fp32_precision for owner in owners]
    yield
    backends.cudnn.benchmark = False
    if [owner.fp32_precision for owner in owners] != before:
        torch.set_float32_matmul_precision("highest")  # the older switches first: they set the newer ones too
        backends.cudnn.allow_tf32 = True
        for owner, precision in zip(owners, before):
            owner.fp32_precision = precision


@pytest.fixture(autouse=True)
def _own_kernel():
    """Each test is a kernel of its own: what a notebook counts as replaced, it counts from this test on."""
    patches = sys.modules.get("gapless.learner.patches")
    if patches is not None:
        patches._baseline = None


@pytest.fixture
def progress_home(tmp_path, monkeypatch):
    """A folder where nothing is recorded yet."""
    home = tmp_path / "progress-home"
    monkeypatch.setenv("GAPLESS_HOME", str(home))
    return home


@pytest.fixture
def no_bubblewrap(monkeypatch):
    """A machine where no bubblewrap is found, and nothing allows grading without."""
    from gapless.grading.sandbox.confine import UNCONFINED, find_confinement

    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(UNCONFINED, raising=False)
    find_confinement.cache_clear()
    yield
    find_confinement.cache_clear()


@pytest.hookimpl(tryfirst=True)  # before the worker's own, which reads the groups
def pytest_collection_modifyitems(items):
    """Tests that share what is set up, those of a file or of a lesson or exercise in it, run one after another on one worker."""
    first: dict[str, int] = {}  # of each group: where it comes
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        place = [item.path.relative_to(item.config.rootpath).as_posix()]
        if "lesson_id" in given:
            place += [str(given[name]) for name in ("lesson_id", "name") if name in given]
        item.group = " ".join(place)
        item.add_marker(pytest.mark.xdist_group(item.group))
        first.setdefault(item.group, len(first))
    items.sort(key=lambda item: first[item.group])
