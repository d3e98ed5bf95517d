"""Wrong versions as changes of the solution: what a file may say, and what is said where it does not fit."""

import importlib
import pickle
import sys

import pytest

from gapless.course.mistakes import MistakesFile, MistakesFileError, right_code

SOLUTION = """# half

```python
def half(x):
    y = offset + x
    return y / 2
```

- **Why it is right.** It is half.
"""
HELPER = "from .other import TWO\n\n\ndef divided(x):\n    return x / TWO\n\n\ndef half(x):\n    return divided(x)\n"


def names():
    return {"offset": 0}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """The mistakes of a package with this text in its file."""
    folder = tmp_path / "ours" / "half"
    folder.mkdir(parents=True)
    for name, text in (("__init__.py", ""), ("solution.md", SOLUTION), ("slow.py", HELPER), ("other.py", "TWO = 2"),
                       ("mistakes.py", "def twice(x):\n    return 2 * x\n")):
        (folder / name).write_text(text, encoding="utf-8")
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()

    def read(text):
        (folder / "mistakes.toml").write_text(text, encoding="utf-8")
        return MistakesFile("ours.half", names)

    yield read
    for name in [name for name in sys.modules if name.partition(".")[0] == "ours"]:
        del sys.modules[name]


def test_changes_and_functions_in_their_order(read):
    found = read('''
[[mistake]]
why = """
It is not
halved."""
replace = " / 2"
by = ""

[[mistake]]
why = "Another half."
[[mistake.version]]
replace = ["offset + x", "y / 2"]
by = ["offset - x", "y / 4"]
[[mistake.version]]
function = "twice"
''')
    assert [(mistake.why, mistake.function(8)) for mistake in found] == [
        ("It is not halved.", 8), ("Another half.", -2), ("Another half.", 16)]
    assert found[0].function is found[0].function and found[:2][1] is found[1]


def test_a_change_of_a_module_may_be_in_a_function_that_it_calls(read):
    mistake, = read('of = "slow.py"\n[[mistake]]\nwhy = "Times."\nreplace = "x / TWO"\nby = "x * TWO"\n')
    assert mistake.function(8) == 16 and right_code("ours.half", "slow.py") == HELPER


def test_nothing_is_read_before_somebody_asks_and_nothing_compiled_before_it_is_tried(read):
    assert MistakesFile("no.such.package", names) is not None
    found = read('[[mistake]]\nwhy = "It does not compile."\nreplace = "return"\nby = "return return"\n')
    assert len(found) == 1
    with pytest.raises(SyntaxError, match=r"mistakes.toml, mistake 1"):
        found[0].function


def test_can_go_to_another_process(read):
    found = read('[[mistake]]\nwhy = "Once."\nreplace = " / 2"\nby = ""\n')
    assert pickle.loads(pickle.dumps(found))[0].function(8) == 8


@pytest.mark.parametrize("text, says", [
    ("[[mistake]]\nwhy = ", "mistakes.toml: "),
    ("", r"it holds `\[\[mistake\]\]` entries"),
    ("off = 1\n[[mistake]]\nwhy = 'a'\nreplace = 'x'\nby = ''", r"it holds `\[\[mistake\]\]` entries"),
    ("[[mistake]]\nreplace = 'x'\nby = ''", "mistake 1: `why` is missing"),
    ("[[mistake]]\nwhy = 'a'", r"mistake 1 \(a\): there is no version"),
    ("[[mistake]]\nwhy = 'a'\nreplace = 'x'", r"mistake 1 \(a\): a version has `replace` and `by`, or `function`; this one has replace"),
    ("[[mistake]]\nwhy = 'a'\nreplace = ['x', 'y']\nby = ['']", r"mistake 1 \(a\): `replace` and `by` are lists of different lengths"),
    ("[[mistake]]\nwhy = 'a'\nfunction = 'thrice'", r"mistake 1 \(a\): mistakes.py has no function 'thrice'"),
])
def test_refuses_what_it_cannot_read(read, text, says):
    with pytest.raises(MistakesFileError, match=says):
        len(read(text))


@pytest.mark.parametrize("replace, says", [("y", r"'y' occurs 2 times in solution.md; .*, so give more of its line"),
                                           ("z", r"'z' occurs 0 times in solution.md; a change replaces what occurs once$")])
def test_says_which_change_does_not_fit(read, replace, says):
    mistake, = read(f"[[mistake]]\nwhy = 'a'\nreplace = '{replace}'\nby = ''")
    with pytest.raises(MistakesFileError, match=r"mistakes.toml, mistake 1 \(a\): " + says):
        mistake.function
