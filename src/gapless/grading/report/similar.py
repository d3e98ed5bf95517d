"""Answers that are nearly the same: a hint to look, no verdict.

An answer becomes a set of *parts*: its statements, each without the statements inside it, and the larger expressions in
them, with every name that the answer itself binds left out of account, and comments, docstrings, annotations, layout and the
order of a sum's or product's operands too. Parts that stand in the handed-out text or in the solution, or in the
answers of many in the class, tell nothing and are left out. What is left are an answer's *own* parts. Two answers are alike
when they share at least :data:`LEAST_STATEMENTS` own statements, and at least :data:`LEAST_SHARE` of the own parts that
either has. Statements in another order, or moved into a function of their own, are the same parts.

Compared are only answers that share an own part, found by an index: a class costs about what reading its answers costs.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

LEAST_SHARE = 0.6
LEAST_STATEMENTS = 3
LONGEST = 50_000  # characters; no answer to an exercise is near that
_SMALLEST = 5  # nodes of a syntax tree: what is smaller says nothing
_COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
_FLIPPED = {ast.Gt: "Lt", ast.GtE: "LtE"}
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_LEFT_OUT = {"annotation", "returns", "type_comment", "ctx", "kind", "simple", "type_ignores"}


class Unreadable(ValueError):
    """An answer that is no Python, or far too long or deep; the message says which."""


@dataclass(frozen=True)
class Parts:
    """What an answer consists of: digests of its statements, and of these and its larger expressions together."""

    statements: frozenset[bytes]
    all: frozenset[bytes]


@dataclass(frozen=True)
class Alike:
    """Answers that hang together: who gave them, and the least and the most of the own parts that two of them share (0 to 1)
    where they are alike."""

    who: tuple[str, ...]
    least: float
    most: float


def parts(source: str) -> Parts:
    """The parts of an answer. Raises Unreadable."""
    if len(source) > LONGEST:
        raise Unreadable(f"it has more than {LONGEST} characters")
    try:
        reader = _Reader(ast.parse(source))
        return Parts(frozenset(reader.statements), frozenset(reader.statements | reader.expressions))
    except (SyntaxError, ValueError):
        raise Unreadable("it is no Python") from None
    except (RecursionError, MemoryError):
        raise Unreadable("it is nested too deeply") from None


def many(count: int) -> int:
    """In how many of ``count`` answers a part may stand and still be somebody's own."""
    return max(4, count // 20)


def alike(answers: Mapping[str, Parts], known: Iterable[Parts] = ()) -> list[Alike]:
    """Groups of answers to one exercise that are nearly the same, the most alike first.

    ``answers``: who → parts. ``known``: those of the handed-out text and the solutions.
    """
    told = frozenset().union(*(each.all for each in known))
    holders: dict[bytes, list[str]] = defaultdict(list)
    for who, each in answers.items():
        for part in each.all - told:
            holders[part].append(who)
    own: dict[str, set[bytes]] = defaultdict(set)
    shared: dict[tuple[str, str], set[bytes]] = defaultdict(set)
    for part, whose in holders.items():
        if len(whose) <= many(len(answers)):
            for who in whose:
                own[who].add(part)
            for pair in combinations(sorted(whose), 2):
                shared[pair].add(part)
    found = {}
    for (one, other), both in shared.items():
        share = len(both) / len(own[one] | own[other])
        if share >= LEAST_SHARE and len(both & answers[one].statements) >= LEAST_STATEMENTS:
            found[one, other] = share
    groups = [
        Alike(tuple(sorted(who)), min(shares), max(shares))
        for who in _connected(found)
        if (shares := [share for pair, share in found.items() if pair[0] in who])
    ]
    return sorted(groups, key=lambda group: (-group.most, group.who))


def _connected(pairs: Collection[tuple[str, str]]) -> list[set[str]]:
    group: dict[str, set[str]] = {}
    for one, other in pairs:
        whole = group.get(one, {one}) | group.get(other, {other})
        group.update(dict.fromkeys(whole, whole))
    return list({id(each): each for each in group.values()}.values())


class _Reader:
    """Reads a module: digests of its ``statements`` and ``expressions``."""

    def __init__(self, module: ast.Module):
        self.statements: set[bytes] = set()
        self.expressions: set[bytes] = set()
        self._modules: dict[str, str] = {}
        self._bound: set[str] = set()
        for node in ast.walk(module):
            self._note_names(node)
        self._body(module.body)

    def _note_names(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self._bound.add(node.id)
        elif isinstance(node, ast.arg):
            self._bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._bound.add(node.name)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self._bound.add(node.name)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            self._bound.add(node.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    self._modules[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self._modules[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"

    def _body(self, statements: list[ast.stmt]) -> None:
        for node in statements:
            if isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass)):
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring, or dots
            digest, size = self._digest(node)
            if size >= _SMALLEST:
                self.statements.add(digest)
            for name in _BODIES:
                inner = getattr(node, name, None)
                if isinstance(inner, list):
                    self._body(inner)

    def _digest(self, node) -> tuple[bytes, int]:
        """What the node is except for the statements in it, and of how many nodes that consists."""
        if isinstance(node, ast.Name):
            return _hash("name", self._name(node.id)), 1
        if isinstance(node, ast.Constant):
            return _hash("constant", type(node.value).__name__, repr(node.value)), 1
        kind, size, inside = type(node).__name__, 1, []
        if isinstance(node, ast.AnnAssign):
            kind, node = "Assign", ast.Assign([node.target], node.value) if node.value else node.target
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _FLIPPED:
            left, right = node.comparators[0], node.left
            sides = [self._digest(left), self._digest(right)]
            inside = [_FLIPPED[type(node.ops[0])].encode(), *(digest for digest, _ in sides)]
            size += sum(count for _, count in sides)
        else:
            for name, value in ast.iter_fields(node):
                if name in _LEFT_OUT or (
                    isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)) and name in _BODIES
                ):
                    continue
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, ast.AST):
                        digest, count = self._digest(each)
                        size += count
                    else:  # a call's keyword names what another function has; a renamed variable leaves it alone
                        masked = name in ("name", "arg") and not isinstance(node, ast.keyword)
                        digest = _hash("field", self._name(each) if masked else repr(each))
                    inside.append(digest)
            if (
                isinstance(node, ast.BoolOp)
                or (isinstance(node, ast.BinOp) and isinstance(node.op, _COMMUTATIVE))
                or (isinstance(node, ast.Compare) and all(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops))
            ):
                inside.sort()
        digest = _hash(kind, *inside)
        if isinstance(node, ast.expr) and size >= _SMALLEST:
            self.expressions.add(digest)
        return digest, size

    def _name(self, name) -> str:
        if name in self._bound:
            return "_"
        return self._modules.get(name, str(name))


def _hash(*pieces) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        digest.update(piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace"))
        digest.update(b"\0")
    return digest.digest()
