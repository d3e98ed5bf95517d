"""What a learner types for a notebook."""

import pytest

from gapless.commands.find import chosen, find_notebook, known_exercises, open_lesson
from gapless.course.notebooks.submission import SubmissionError
from gapless.lessons import LESSONS, find_lesson

from .learner import LESSON


def test_a_folder_with_one_notebook_is_that_notebook(notebook):
    (notebook.parent / ".ipynb_checkpoints").mkdir()
    (notebook.parent / ".hidden.ipynb").write_text("")
    assert find_notebook(notebook.parent) == notebook
    lesson, submission = open_lesson(notebook)
    assert (lesson.id, list(submission.cells)) == (LESSON, list(lesson.exercises))


def test_a_folder_of_folders_lists_what_is_there(notebook):
    with pytest.raises(SubmissionError, match=f"is a folder: name the notebook .* it: .*{LESSON}.ipynb"):
        find_notebook(notebook.parent.parent)


def test_a_folder_without_notebooks_says_so(tmp_path):
    with pytest.raises(SubmissionError, match="there is none"):
        find_notebook(tmp_path)


@pytest.mark.parametrize("typed", ["course/02_maskedloss.ipynb", "02_masked_loss.ipynb", "course/02_masked_loss"])
def test_a_mistyped_name_is_guessed(notebook, monkeypatch, typed):
    monkeypatch.chdir(notebook.parent.parent)
    with pytest.raises(SubmissionError, match=r"there is no .*; did you mean course/02_masked_loss.ipynb\?"):
        find_notebook(typed)


def test_a_strange_name_says_where_you_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SubmissionError, match=r"\(you are in "):
        find_notebook("thesis.docx")


def test_a_path_through_a_file_says_so(notebook):
    with pytest.raises(SubmissionError, match="cannot be read: Not a directory"):
        find_notebook(notebook / "more")


def test_every_lesson_is_known():
    assert list(known_exercises()) == list(LESSONS) and "zero_if_uniform" in known_exercises()[LESSON]


def test_exercises_are_chosen_once_and_all_without_a_name():
    lesson = find_lesson(LESSON)
    assert chosen(lesson, ["zero_if_uniform", "zero_if_uniform"]) == ["zero_if_uniform"]
    assert chosen(lesson, []) == list(lesson.exercises)


def test_raises_when_the_exercise_is_unknown():
    with pytest.raises(SubmissionError, match=r"did you mean zero_if_uniform\? It has: ignore_background"):
        chosen(find_lesson(LESSON), ["zero_uniform"])
