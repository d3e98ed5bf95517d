"""Why an answer is wrong: which known mistake gives it; else what its numbers have to do with the right ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from .. import vgpu
from .answers import answer
from .evidence import Answer, Case
from .exercise import Exercise
from .mistakes import Changed, Mistake
from .plain import difference
from .stage import LocalStage
from .tolerance import close, plain_tolerances

_MOST_OTHERS = 40  # answers that decide between mistakes: a check has to end soon
_FEW, _SHARE_OF_FEW = 3, 0.25  # numbers or words; the share on which a mistake has to agree that gives no more of them
_SHARE_OF_A_WORD = 0.6  # of the few that there are
_NEARLY = 0.02  # what rounding to half precision, and a few operators on it, may bring about


class MadeAgain:
    """An exercise's known mistakes, made again on ``device``: each once for each case. ``right(case)``: the right answer."""

    def __init__(self, exercise: Exercise, device: torch.device, right: Callable[[Case], Answer]):
        self._exercise, self._device, self._right = exercise, device, right
        self._made: dict[tuple[int, int], tuple[Case, Answer]] = {}

    def cause(self, case: Case, found: Answer, others: Sequence[tuple[Case, Answer]]) -> str | None:
        """The ``why`` of the mistake whose answer to ``case`` is what was ``found``, and that agrees best with the
        ``others``; of equals the first. None where there is none, where the others do not confirm it, or where what was
        found tells little of its cause and they confirm another as well."""
        needed, best, most = _needed(found), [], 0.0
        for mistake in self._exercise.teaching.mistakes:
            if not self._alike(case, found, self._answer(mistake, case)):
                continue
            share = self._share(mistake, others[:_MOST_OTHERS], max(needed, most))
            if share > most:
                best, most = [], share
            if share == most and share >= needed:
                best.append(mistake.why)
        if not best or (_tells_little(found) and len(set(best)) > 1 and most < 1.0):
            return None
        return best[0]

    def _share(self, mistake: Mistake | Changed, others: Sequence[tuple[Case, Answer]], needed: float) -> float:
        """Of the inputs on which the learner or the mistake is wrong (the one that is explained is among them), the share on
        which both give the same; 0 where ``needed`` can no longer be reached. Where both are right tells nothing."""
        agreed = told = 1
        for left, (other, own) in zip(reversed(range(len(others))), others):
            same = self._alike(other, own, self._answer(mistake, other))
            if same and self._alike(other, own, self._right(other)):
                continue
            agreed, told = agreed + same, told + 1
            if (agreed + left) / (told + left) < needed:
                return 0.0
        return agreed / told

    def _alike(self, case: Case, found: Answer, made: Answer) -> bool:
        """Whether two answers to ``case`` are the same within the exercise's tolerances; two errors, except for their
        numbers and lines."""
        if found.error is not None or made.error is not None:
            return found.error is not None and made.error is not None and _kind(found.error) == _kind(made.error)
        if found.unusable is not None or made.unusable is not None:
            return False
        exercise = self._exercise
        if exercise.asked.ask is not None:
            return difference(found.plain, made.plain, *plain_tolerances(exercise, case)) is None
        if found.value is None or made.value is None or found.value.shape != made.value.shape:
            return False
        pairs = [(found.value, made.value), *((found.grads.get(name), grad) for name, grad in made.grads.items())]
        return all(own is not None and own.shape == grad.shape and close(exercise, own, grad).all() for own, grad in pairs)

    def _answer(self, mistake: Mistake | Changed, case: Case) -> Answer:
        key = id(mistake), id(case)
        if key not in self._made:
            stage = LocalStage(mistake.function, self._device, self._exercise.asked.ask)
            try:
                made = answer(self._exercise, stage, case, self._device)
            finally:
                if self._device.type == "vgpu":
                    vgpu.timeline().reset()
            self._made[key] = case, made  # its case is kept, so that no other gets that number
        return self._made[key][1]


def _kind(error: str) -> str:
    """An error's text without where it was raised and without numbers."""
    return re.sub(r"\d+", "0", re.sub(r" \((?:.*, )?line \d+: .*\)$", "", error))


def _needed(found: Answer) -> float:
    """The share of the inputs that tell something on which a mistake has to give the same. Whatever goes wrong may end in a
    nan or in a single 0, a single word is often met by chance, and so are a few numbers; many at once are not."""
    if found.error is not None:
        return 1.0
    if found.value is not None:
        return 1.0 if not np.isfinite(found.value).any() else _SHARE_OF_FEW if (
            found.value.size == 1 or not found.value.any()) else 0.0
    if isinstance(found.plain, str):
        return _SHARE_OF_A_WORD
    if any(map(math.isnan, _numbers(found.plain))) or _is_zero(tree_leaves(found.plain)):
        return 1.0
    return _SHARE_OF_FEW if len(tree_leaves(found.plain)) <= _FEW else 0.0


def _is_zero(leaves: list) -> bool:
    return len(leaves) == 1 and type(leaves[0]) is float and leaves[0] == 0


def _tells_little(found: Answer) -> bool:
    """Whether it is remarks in words alone, which several mistakes give by chance."""
    return isinstance(found.plain, (dict, list)) and not _numbers(found.plain)


def _numbers(plain) -> list[int | float]:
    return [leaf for leaf in tree_leaves(plain) if isinstance(leaf, (int, float)) and not isinstance(leaf, bool)]


def counts_of(case: Case) -> dict[str, int]:
    """What a forgotten or an extra factor may count: in words → how many."""
    found: dict[str, int] = {}
    for name, value in case.inputs.items():
        arrays = value if isinstance(value, list) else [value]
        if isinstance(value, list):
            found[f"the {len(arrays)} of `{name}`"] = len(arrays)
        total = sum(array.size for array in arrays)
        found.setdefault(f"the {total} elements of `{name}`", total)
        for place, size in enumerate(arrays[0].shape if arrays else ()):
            found.setdefault(f"the {size} along dimension {place} of `{name}`", size)
    return {words: count for words, count in found.items() if count > 1}


def of_numbers(found: np.ndarray, wanted: np.ndarray, counts: dict[str, int]) -> str | None:
    """What wrong numbers have to do with the right ones, of the same shape; None where nothing is seen.

    ``counts``: as :func:`counts_of` gives them.
    """
    found, wanted = np.atleast_1d(found).astype(np.float64), np.atleast_1d(wanted).astype(np.float64)
    wrong_nan = np.isnan(found) & ~np.isnan(wanted)
    if wrong_nan.any():
        return ("A nan comes from 0 / 0, 0 × inf, inf − inf or inf / inf (`exp` of a large number is inf: `logsumexp` and "
                "`log_softmax` avoid it). Do not compute any of these, not even in a branch that is not used.")
    if (np.isinf(found) & np.isfinite(wanted)).any():
        return ("An inf comes from the logarithm of 0 (`log_softmax` avoids it), a division by 0, or an `exp` that is too "
                "large for its dtype.")
    if (np.isnan(wanted) & ~np.isnan(found)).any():
        return ("A nan is right here: it comes from a nan in the inputs, or from 0 / 0. What replaces it (`nan_to_num`, "
                "`clamp`, a comparison, which is false for nan) hides an error.")
    usable = np.isfinite(found) & np.isfinite(wanted)
    own, right = found[usable], wanted[usable]
    if not own.size:
        return None
    if not own.any() and right.any():
        return "All of it is 0: was the result overwritten, or multiplied by 0?"
    for unit, words in ((-1.0, "The sign is wrong."), (1e3, "That is 1000 times too large: look at the units."),
                        (1e-3, "That is 1000 times too small: look at the units."),
                        (100.0, "That is in per cent."), (1e6, "That is a million times too large: look at the units."),
                        (1e-6, "That is a million times too small: look at the units.")):
        if _same(own, unit * right):
            return words
    for words, count in counts.items():
        if _same(own, count * right):
            return f"That is {count} times too large, and {count} is {words}: a sum instead of a mean?"
        if _same(own * count, right):
            return f"That is {count} times too small, and {count} is {words}: is it divided once too often?"
    if right.any() and own.size == right.size and (right != 0).all() and _same(own, 1 / right):
        return "That is one divided by the right number: is the fraction upside down?"
    if any(_same(own, whole(right)) for whole in (np.trunc, np.round, np.floor)):
        return "The fraction is cut off: something is converted to a whole number (`//`, `int`, `.long()`)."
    if np.allclose(own, right, rtol=_NEARLY, atol=1e-6):
        return "It is close, but not equal: is it computed in a lower precision, rounded, or with one element more or less?"
    ratios = own[right != 0] / right[right != 0]
    if ratios.size > 1 and np.allclose(ratios, ratios[0], rtol=1e-4) and not math.isclose(ratios[0], 1, rel_tol=1e-3):
        return f"All of it is {ratios[0]:.4g} times the right number: is it divided by another number?"
    return None


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(b.any()) and np.allclose(a, b, rtol=1e-4, atol=1e-9)
