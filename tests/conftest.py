"""What all tests share: none of them touches the learner's own progress."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory):
    """A folder for the progress that this run's checks record, in this process and in all that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAPLESS_HOME", str(tmp_path_factory.mktemp("gapless-home")))
        yield


@pytest.fixture
def progress_home(tmp_path, monkeypatch):
    """A folder where nothing is recorded yet."""
    home = tmp_path / "progress-home"
    monkeypatch.setenv("GAPLESS_HOME", str(home))
    return home
