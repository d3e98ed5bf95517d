"""Answers that are nearly the same: honest ones by other routes are not, disguised copies are."""

import ast
import importlib
import inspect
import json
import random
import textwrap
import time

import pytest

from gapless.course.notebooks.stub import handed_out
from gapless.grading.report.similar import LEAST_STATEMENTS, LONGEST, Unreadable, alike, many, parts
from gapless.lessons import LESSONS
from gapless.marker import exercise_name

from ... import ROOT


def _solutions(lesson_id):
    cells = json.loads((ROOT / "solutions" / lesson_id / f"{lesson_id}.ipynb").read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    return {name: text for text in texts if (name := exercise_name(text))}


def _sources(functions):
    """Function's name and place → its text, each text once; what is a bare lambda has none of its own."""
    found = {}
    for place, function in enumerate(functions):
        try:
            text = textwrap.dedent(inspect.getsource(function))
            parts(text)
        except (OSError, TypeError, Unreadable):
            continue
        if text not in found.values():
            found[f"{function.__name__}-{place}"] = text
    return found


@pytest.fixture(scope="module")
def exercises():
    """(known parts, honest answers by name) of each exercise."""
    found = {}
    for lesson_id, lesson in LESSONS.items():
        answers = importlib.import_module(f"tests.lessons.answers.{lesson_id[3:]}")
        solutions = _solutions(lesson_id)
        for name, functions in answers.OTHER_ROUTES.items():
            known = [parts(solutions[name]), parts(handed_out(lesson.exercises[name]))]
            found[lesson_id, name] = known, _sources(functions)
    assert sum(len(each) for _, each in found.values()) > 150
    return found


def test_honest_answers_are_not_alike(exercises):
    for exercise, (known, answers) in exercises.items():
        assert not alike({who: parts(text) for who, text in answers.items()}, known), exercise


def test_who_gives_the_solution_is_not_alike_to_others_who_do(exercises):
    for (lesson_id, name), (known, _) in exercises.items():
        assert not alike(dict.fromkeys(("ann", "bob", "cleo"), parts(_solutions(lesson_id)[name])), known)


class Renamed(ast.NodeTransformer):
    """Every name that is bound in the text gets another."""

    def __init__(self, tree):
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.new = {name: f"renamed_{place}" for place, name in enumerate(sorted(names))}

    def visit_Name(self, node):
        return ast.copy_location(ast.Name(self.new.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node):
        return ast.arg(self.new.get(node.arg, node.arg))


def renamed(text):
    """With other names, layout and docstrings, and without comments and annotations."""
    tree = ast.parse(text)
    tree = Renamed(tree).visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body.insert(0, ast.Expr(ast.Constant("All my own.")))
    return ast.unparse(ast.fix_missing_locations(tree))


def in_two_functions(text):
    """With the second half of the first function that has one in a function of its own."""
    tree = ast.parse(text)
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and len(node.body) > 2), None)
    if function is None:
        return text
    half = len(function.body) // 2
    names = ", ".join(sorted({node.id for node in ast.walk(function) if isinstance(node, ast.Name)
                              and isinstance(node.ctx, ast.Store)} | {each.arg for each in function.args.args}))
    helper = ast.parse(f"def helper({names}): pass").body[0]
    helper.body, function.body = function.body[half:], function.body[:half] + ast.parse(f"return helper({names})").body
    return ast.unparse(ast.fix_missing_locations(ast.Module([helper, *tree.body], [])))


@pytest.mark.parametrize("disguise", [renamed, in_two_functions, lambda text: in_two_functions(renamed(text))])
def test_disguised_copies_of_answers_with_something_of_their_own_are_found(exercises, disguise):
    tried = 0
    for exercise, (known, answers) in exercises.items():
        read = {who: parts(text) for who, text in answers.items()}
        for who, text in answers.items():
            told = frozenset().union(*(each.all for each in known))
            if len(read[who].statements - told) < LEAST_STATEMENTS:
                continue
            group, = alike({**read, "copy": parts(disguise(text))}, known)
            assert group.who == tuple(sorted(["copy", who])), (exercise, who)
            tried += 1
    assert tried > 100


ONE = """
def total(rows, weight):
    # the sum
    scale: float = weight.sum() * 2 + rows.mean()
    found = torch.zeros(len(rows), device=rows.device)
    for place, row in enumerate(rows):
        found[place] = (row * weight).sum() / scale
    low = found.clamp(min=0.25, max=rows.max())
    return low.flip(0).cumsum(0)
"""
OTHER = """
import torch as t
def total(a, b):
    '''Sums.'''
    f = t.zeros(len(a), device=a.device)
    s = a.mean() + 2 * b.sum()

    for i, r in enumerate(a):
        f[i] = (b * r).sum() / s
    k = f.clamp(min = .25,
                max = a.max())
    return k.flip(0).cumsum(0)
"""


def test_other_names_order_comments_layout_and_operands_are_the_same():
    group, = alike({"ann": parts("import torch\n" + ONE), "bob": parts(OTHER)})
    assert group.who == ("ann", "bob") and group.least == group.most == 1
    changed = OTHER.replace("flip(0)", "flip(1)").replace("mean", "median").replace("clamp", "clip").replace(
        "zeros", "ones").replace("enumerate(a)", "zip(a, b)")
    assert not alike({"ann": parts(ONE), "bob": parts(changed)})


def test_a_chain_of_copies_is_one_group_and_what_many_have_is_nobodys():
    read = parts(ONE)
    few, = alike({f"s{place}": read for place in range(many(30))})
    assert len(few.who) == many(30) == 4
    assert not alike({f"s{place}": read for place in range(many(30) + 1)})


@pytest.mark.parametrize("text", ["def f(:", "x = '\0'", "%time\nx = 1", "(" * 5000, "x = " + "-" * 20_000 + "1",
                                  "x = 1" + "+1" * 20_000, "x" * (LONGEST + 1), "x = '\ud83d'"])
def test_what_cannot_be_read_is_refused_and_nothing_breaks(text):
    with pytest.raises(Unreadable):
        parts(text)


def test_a_large_class_takes_seconds():
    """200 answers of some 30 statements; nothing is compared with all others."""
    random.seed(0)
    words = [f"w{place}" for place in range(300)]

    def answer():
        lines = [f"    v{place} = torch.{random.choice(words)}(x.{random.choice(words)}({random.randrange(99)}), x)"
                 for place in range(30)]
        return "def f(x):\n" + "\n".join(lines)

    answers = {f"s{place}": parts(answer()) for place in range(200)}
    answers["copy"] = answers["s7"]
    began = time.process_time()
    assert [group.who for group in alike(answers)] == [("copy", "s7")]
    print(f"{time.process_time() - began:.3f} s")
