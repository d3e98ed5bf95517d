"""``gapless start``: everything is handed out, nothing is written over."""

import os

import pytest

from gapless.commands.start import StartError, hand_out
from gapless.lessons import LESSONS

from .. import ROOT
from .learner import LESSON

ALL = ["index.ipynb", *(f"{lesson}/{lesson}.ipynb" for lesson in LESSONS)]


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_hands_out_everything(tmp_path):
    done = hand_out(tmp_path / "deep" / "course")
    assert done.new == ALL and not done.same and not done.kept
    found = files(tmp_path / "deep" / "course")
    assert sorted(found) == sorted(ALL)
    assert found[ALL[3]] == (ROOT / "notebooks" / ALL[3]).read_bytes()  # which links to nothing else of the repository
    assert not any(b"](../../" in content for content in found.values())


@pytest.mark.parametrize("wanted", ["02_masked_loss", "02", "2", "02_masked_loss.ipynb"])
def test_hands_out_one_lesson(tmp_path, wanted):
    assert hand_out(tmp_path, [wanted, wanted]).new == ["index.ipynb", f"{LESSON}/{LESSON}.ipynb"]


def test_what_is_there_is_never_written_over(tmp_path, gapless):
    mine, link = tmp_path / ALL[3], tmp_path / ALL[5]
    for path in (mine, link):
        path.parent.mkdir()
    mine.write_text("my work")
    link.symlink_to(tmp_path / "nowhere")
    (tmp_path / ALL[4]).mkdir(parents=True)
    hand_out(tmp_path, ["00"])
    before = files(tmp_path)
    status, out, _ = gapless("start", tmp_path)
    assert status == 0 and f"Yours, and not changed: {ALL[3]}, {ALL[4]}, {ALL[5]}." in out
    assert "There already, as handed out: index, 00_two_clocks\n" in out and "01_profiler_tour" in out.splitlines()[0]
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before and link.is_symlink() and not (tmp_path / "nowhere").exists()
    assert set(after) - set(before) == set(ALL) - set(before) - {ALL[4], ALL[5]}


def test_bad_input_is_told_and_nothing_is_written(tmp_path, gapless):
    (tmp_path / "file").write_text("x")
    for arguments, says in ((["file"], "is not a folder"), (["new", "--lesson", "02_maskedloss"], "Did you mean 02_masked_loss?"),
                            (["new", "--lesson", "77"], f"There are {', '.join(LESSONS)}"), (["file/below"], "cannot be written")):
        status, out, err = gapless("start", tmp_path / arguments[0], *arguments[1:])
        assert status == 2 and says in err and not out and sorted(files(tmp_path)) == ["file"], err


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="root may write everywhere")
def test_a_folder_that_is_somebody_elses(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StartError, match="Name a folder that you may write to"):
        hand_out(tmp_path / "course")


def test_what_was_written_before_the_disk_was_full_is_told(tmp_path, monkeypatch):
    left = iter(range(2))

    def write(path, content):
        if next(left, None) is None:
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(content)

    monkeypatch.setattr("gapless.commands.start.write_bytes", write)
    with pytest.raises(StartError, match="No space left on device.*2 notebooks were written before"):
        hand_out(tmp_path)
