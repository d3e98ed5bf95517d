"""An exercise's cell is known by its first line with text."""

import pytest

from gapless.marker import exercise_name, file_name, joined, parts


@pytest.mark.parametrize("source, name", [
    ("# exercise: one\nx = 1", "one"),
    ("\n\n  #exercise:two \nx = 1", "two"),
    ("#@title Exercise one { display-mode: \"form\" }\n# @markdown Write it.\n# exercise: one\nx = 1", "one"),
    ("# exercise: one\n#@title Exercise one", "one"),
    ("%%time\n#@title One\n\n# exercise: one", "one"),
    ("x = 1\n# exercise: one", None),
    ("# by me @home\n# exercise: one", None),
    ("# exercise: not a name", None),
    ("", None),
])
def test_marker_is_the_first_line_with_text(source, name):
    assert exercise_name(source) == name


PROGRAM = "# exercise: train\n# file: train.py\nimport torch\n\n\ndef train():\n    return model()\n"
FILES = {"model.py": "# file: model.py\ndef model():\n    return 1\n"}


def test_a_program_of_files_is_one_text_whose_lines_are_numbered_as_in_the_cells():
    text = joined(PROGRAM, FILES)
    assert exercise_name(text) == "train" and list(parts(text)) == ["model.py", "train.py"]
    assert parts(text)["train.py"] == PROGRAM and parts(text)["model.py"].rstrip() == FILES["model.py"].rstrip()
    assert joined(text, FILES) and parts(joined(text, {}))["model.py"].rstrip() == FILES["model.py"].rstrip()


@pytest.mark.parametrize("source, name", [
    ("# file: a.py\nx", "a.py"), ("\n# exercise: train\n\n#file: train.py\n", "train.py"), ("# exercise: train\nx = 1", None),
    ("#@title A\n%%time\n# file: a.py", "a.py"), ("#@title A\n# exercise: train\n#@markdown text\n# file: a.py", "a.py"),
    ("x = 1\n# file: a.py", None), ("# file: a.txt", None), ("# file: ../a.py", None), ("", None)])
def test_a_file_is_known_by_the_first_line_but_the_exercises(source, name):
    assert file_name(source) == name


def test_an_exercise_of_one_cell_stays_as_it_is():
    source = "# exercise: f\ndef f():\n    pass\n"
    assert joined(source, FILES) == source and parts(source) == {}


@pytest.mark.parametrize("above, between", [("#@title Train\n", ""), ("#@title Train\n\n", "# @markdown Train.\n"), ("", "\n")])
def test_a_form_s_lines_stay_with_the_program_s_last_file(above, between):
    source = PROGRAM.replace("# exercise: train\n", f"{above}# exercise: train\n{between}")
    text = joined(source, {"model.py": "#@title Model\n" + FILES["model.py"]})
    assert list(parts(text)) == ["model.py", "train.py"] and exercise_name(parts(text)["train.py"]) == "train"
    assert parts(text)["train.py"].splitlines()[-3:] == source.splitlines()[-3:]
    assert len(parts(text)["train.py"].splitlines()) == len(source.splitlines())
