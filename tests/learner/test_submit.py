"""The file to hand in: what it says, what is in it, and what it never overwrites."""

import json

import nbformat
import pytest

import gapless
from gapless.course.notebooks.submission import read_submission
from gapless.learner.submit import CannotSubmit, file_name
from gapless.lessons import find_lesson

from .. import ROOT
from ..grading.toy import code, markdown, notebook, write

ID = "02_masked_loss"
NAMES = list(find_lesson(ID).exercises)
SOLVED = ROOT / "solutions" / ID / f"{ID}.ipynb"
RIGHT = "# exercise: ignore_background\ndef ignore_background(target):\n    return torch.where(target == BACKGROUND, IGNORE, target)\n"


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return gapless.Notebook(ID, device="vgpu:a10g")


def cells(**sources):
    return [code(sources.get(name, f"# exercise: {name}\ndef {name}(*inputs):\n    return inputs\n")) for name in NAMES]


def mine(folder, *more, **sources):
    return write(notebook(*cells(**sources), *more, gapless={"lesson": ID}), folder / "mine.ipynb")


def test_the_file_holds_what_is_graded_and_nothing_else(lesson, tmp_path):
    content = nbformat.read(SOLVED, as_version=4)
    content.cells[2].outputs = [nbformat.v4.new_output("stream", text="x" * 10**6)]
    content.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {"a": "y" * 10**6}}}
    nbformat.write(content, tmp_path / "mine.ipynb")
    made = lesson.submit("mine.ipynb", name="ada")
    assert made.path == tmp_path / "hand_in" / f"ada--{ID}.ipynb" and made.bytes == made.path.stat().st_size < 100_000
    whole = nbformat.read(made.path, as_version=4)
    nbformat.validate(whole)
    assert whole.metadata.gapless == {"lesson": ID, "handed_in_by": "ada"} and "widgets" not in whole.metadata
    lessons = {ID: NAMES}
    assert read_submission(made.path, lessons) == read_submission(SOLVED, lessons)
    assert f'href="{made.link}" download="ada--{ID}.ipynb"' in made._repr_html_() and made.link == f"hand_in/ada--{ID}.ipynb"


def test_each_exercise_s_state_is_told(lesson, tmp_path):
    mine(tmp_path, ignore_background=RIGHT.replace("    return", "\n    return"), zero_if_uniform="%%time\n# exercise: zero_if_uniform\n",
         masked_cross_entropy=f"# exercise: {NAMES[2]}\nlesson.check({NAMES[2]})\n")
    states = dict(lesson.submit("mine.ipynb").states)
    assert states["ignore_background"] == states[NAMES[3]] == "not checked with this text since the kernel started"
    refusal = str(lesson.check_source("zero_if_uniform", "%%time\n# exercise: zero_if_uniform\n"))
    assert "`%%time` (line 1)" in refusal and states["zero_if_uniform"].partition(": ")[2] in refusal
    assert "Checks and hints have their own cells" in states[NAMES[2]]
    lesson.check_source("ignore_background", RIGHT)
    assert dict(lesson.submit("mine.ipynb").states) | {"zero_if_uniform": ""} == states | {"zero_if_uniform": ""}  # of another text
    mine(tmp_path, ignore_background=RIGHT.rstrip() + "  ", zero_if_uniform="%%time\n# exercise: zero_if_uniform\n")
    made = lesson.submit("mine.ipynb")
    assert dict(made.states)["ignore_background"] == "all 5 points at its check"
    assert dict(made.states)["zero_if_uniform"].startswith("would get no points: `%%time`")
    mine(tmp_path, ignore_background=RIGHT.replace("return", "1 / 0; return"))
    lesson.check_source("ignore_background", RIGHT.replace("return", "1 / 0; return"))
    assert dict(lesson.submit("mine.ipynb").states)["ignore_background"].startswith("0 of 5 points at its last check")
    assert "all 5 points" in str(made) and "<code>ignore_background</code>" in made._repr_html_()


def test_a_file_that_is_named_may_be_as_handed_out(lesson):
    made = lesson.submit(ROOT / "notebooks" / ID / f"{ID}.ipynb", folder=".")
    assert {state for _, state in made.states} == {"as handed out"} and made.path.exists()


def test_cells_that_are_gone_twice_or_no_code_are_told_and_may_be_handed_in(lesson, tmp_path):
    given = cells()
    write(notebook(given[0], given[0], markdown("".join(given[1]["source"])), given[2]), tmp_path / "mine.ipynb")
    made = lesson.submit("mine.ipynb")
    assert dict(made.states)[NAMES[3]] == f"missing: no code cell begins with the line '# exercise: {NAMES[3]}'"
    assert any("more than once" in note for note in made.notes) and any("make it a code cell" in note for note in made.notes)
    assert all(note in str(made) for note in made.notes) and made.path.exists()


@pytest.mark.parametrize("name, expected", [
    (None, f"{ID}.ipynb"), ("ada", f"ada--{ID}.ipynb"), ("Jürgen Groß", f"Jürgen-Groß--{ID}.ipynb"),
    ("ada@example.org", f"ada@example.org--{ID}.ipynb"), ("../a/b\\c:d*", f"a-b-c-d--{ID}.ipynb"), ("a__b--c", f"a-b-c--{ID}.ipynb"),
    ("x" * 300, "x" * 60 + f"--{ID}.ipynb"),
])
def test_a_name_makes_a_file_name_that_every_system_takes(name, expected):
    assert file_name(ID, name) == expected


def test_what_is_wrong_says_what_to_do_and_writes_nothing(lesson, tmp_path):
    write(notebook("# exercise: triple", gapless={"lesson": "00_two_clocks"}), tmp_path / "other.ipynb")
    write(notebook("x = 1"), tmp_path / "empty.ipynb")
    write("{", tmp_path / "broken.ipynb")
    mine(tmp_path)
    for arguments, says in [(("other.ipynb",), "is for lesson 00_two_clocks"), (("empty.ipynb",), "none of the lesson's exercises"),
                            (("broken.ipynb",), "not JSON"), (("no.ipynb",), "there is no no.ipynb"), ((".",), "is a folder"),
                            (("ada",), r'lesson.submit\(name="ada"\)')]:
        with pytest.raises(CannotSubmit, match=says):
            lesson.submit(*arguments)
    for name, says in (("/", "leaves nothing"), (7, "must be text")):
        with pytest.raises(CannotSubmit, match=says):
            lesson.submit("mine.ipynb", name=name)
    (tmp_path / "file").touch()
    with pytest.raises(CannotSubmit, match="choose another folder"):
        lesson.submit("mine.ipynb", folder="file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.ipynb", "empty.ipynb", "file", "mine.ipynb", "other.ipynb"]


def test_another_s_file_stays_unless_asked(lesson, tmp_path):
    mine(tmp_path)
    first = lesson.submit("mine.ipynb", name="ada b")
    before = first.path.read_bytes()
    with pytest.raises(CannotSubmit, match="was made for ada b.*replace=True"):
        lesson.submit("mine.ipynb", name="ada-b")
    assert first.path.read_bytes() == before
    mine(tmp_path, ignore_background=RIGHT)
    assert lesson.submit("mine.ipynb", name="ada b").path == first.path and first.path.read_bytes() != before  # one's own: the newer
    assert lesson.submit("mine.ipynb", name="ada-b", replace=True).path == first.path
    with pytest.raises(CannotSubmit, match="not one that lesson.submit made"):  # the notebook itself
        (tmp_path / f"{ID}.ipynb").write_bytes((tmp_path / "mine.ipynb").read_bytes())
        lesson.submit("mine.ipynb", folder=".")
    for content, says in (({"lesson": "00_two_clocks", "handed_in_by": None}, "for lesson 00_two_clocks"), ("text", "not one that")):
        write(json.dumps(notebook("x", gapless=content)), tmp_path / "there" / f"{ID}.ipynb")
        with pytest.raises(CannotSubmit, match=says):
            lesson.submit("mine.ipynb", folder="there")


def test_nothing_half_written_where_the_disk_is_full(lesson, tmp_path, monkeypatch):
    mine(tmp_path)
    made = lesson.submit("mine.ipynb")
    before = made.path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(CannotSubmit, match="No space left"):
        lesson.submit("mine.ipynb")
    assert [path.read_bytes() for path in made.path.parent.iterdir()] == [before]


def test_a_notebook_that_runs_from_the_top_goes_on(lesson):
    """Where nobody says which file it is, as under papermill."""
    made = lesson.submit()
    assert made.path is None and f'lesson.submit("{ID}.ipynb")' in str(made) and "hand in the notebook file itself" in made._repr_html_()
