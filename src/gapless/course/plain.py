"""Answers that are not one tensor: as plain data, and how two of them differ."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import torch


class Unusable(Exception):
    """An answer of a kind that cannot be compared; the message ("it returned …; a … is wanted") is for the learner."""


OVERWRITTEN = ("a later call has overwritten what the first one returned, which its caller may still need. Return new "
               "memory in each call, and keep nothing from one call to the next.")


def left_alone(name: str, now, before) -> None:
    """Raises Unusable where what a function was given under this name is something else ``now``."""
    if now != before:
        raise Unusable(f"it has changed `{name}`, which belongs to the caller, who afterwards finds something else in "
                       "it. Work on a copy.")


def same_objects(name: str, now: Iterable, before: Iterable) -> None:
    """Raises Unusable where a list that a function was given under this name holds other objects ``now``, or in another
    order. (Tensors cannot be compared by ``==``.)"""
    left_alone(name, list(map(id, now)), list(map(id, before)))


def hooks_on(model: torch.nn.Module) -> int:
    """How many hooks of any kind there are on a network's modules and parameters."""
    kept = [vars(module) for module in model.modules()]
    on_parameters = [each for parameter in model.parameters()
                     for each in (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None))]
    return sum(len(value) for attributes in kept for name, value in attributes.items()
               if name.endswith("_hooks") and isinstance(value, dict)) + sum(len(each) for each in on_parameters if each)


_NONE: Mapping[str, float] = MappingProxyType({})


def as_plain(value, where: str = "", *, keep_tensors: bool = False):
    """``value`` in JSON's types. Tensors (unless they are kept) and arrays become (lists of) numbers, tuples lists.

    Raises Unusable for anything else but numbers, text, None, lists and dicts with text as keys.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.Tensor) and keep_tensors:
        return value
    if isinstance(value, torch.Tensor) or type(value).__module__ == "numpy":
        return as_plain(value.tolist(), where)
    if isinstance(value, (list, tuple)):
        return [as_plain(item, f"{where}[{i}]", keep_tensors=keep_tensors) for i, item in enumerate(value)]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: as_plain(item, f"{where}[{key!r}]", keep_tensors=keep_tensors) for key, item in value.items()}
    kind = "a dict whose keys are not all text" if isinstance(value, dict) else f"a {type(value).__name__}"
    raise Unusable(f"the answer holds {kind}{' at ' + where if where else ''}: return numbers, text, lists and dicts.")


def apart(found: float, wanted: float) -> str:
    """Both numbers, with as many digits as tell them apart."""
    digits = next((few for few in (6, 9, 12) if f"{found:.{few}g}" != f"{wanted:.{few}g}"), 17)
    return f"it is {found:.{digits}g} and should be {wanted:.{digits}g}."


def difference(found, wanted, relative: float, absolute: float, where: str = "", slack: Mapping[str, float] = _NONE
               ) -> str | None:
    """The first thing in which two plain values differ, in words; or None.

    Whole numbers, text and truth values must be equal. Where a number with a fraction is wanted, any number within the
    tolerances will do; nan equals nan. ``slack``: place (:func:`place_of`) → the absolute tolerance there, where it is
    larger.
    """
    place = f"{where}: " if where else ""
    if found is None and wanted is not None and not where:
        form = f"; {_form(wanted)} is wanted" if isinstance(wanted, (dict, list)) else ""
        return f"it returned nothing{form}: is there a `return`?"
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return f"{place}it is {_describe(found)}; {_form(wanted)} is wanted."
        for key in wanted:
            if key not in found:
                return f"{place}{key!r} is missing."
            fault = difference(found[key], wanted[key], relative, absolute, f"{where}[{key!r}]" if where else key, slack)
            if fault is not None:
                return fault
        extra = [key for key in found if key not in wanted]
        return f"{place}{extra[0]!r} should not be there." if extra else None
    if isinstance(wanted, list):
        if not isinstance(found, list):
            return f"{place}it is {_describe(found)}; {_form(wanted)} is wanted."
        for i in _perhaps_different(found, wanted, relative, absolute):
            fault = difference(found[i], wanted[i], relative, absolute, f"{where}[{i}]", slack)
            if fault is not None:
                return fault
        entries = "1 entry" if len(found) == 1 else f"{len(found)} entries"
        return None if len(found) == len(wanted) else f"{place}it has {entries}; return {len(wanted)}."
    if type(wanted) is float and isinstance(found, numbers.Real) and not isinstance(found, bool):
        try:
            found = float(found)
        except OverflowError:
            return f"{place}it is a whole number too large for a float and should be {wanted:.6g}."
        absolute = max(absolute, slack.get(place_of(where), 0.0))
        same = math.isclose(found, wanted, rel_tol=relative, abs_tol=absolute) or (math.isnan(found) and math.isnan(wanted))
        return None if same else f"{place}{apart(found, wanted)}"
    same = type(found) is type(wanted) and found == wanted
    return None if same else f"{place}it is {_describe(found)} and should be {_describe(wanted)}."


def _perhaps_different(found: list, wanted: list, relative: float, absolute: float) -> Iterable[int]:
    """The places to look at one by one: in lists of floats those alone where no tolerance makes them equal at once."""
    if set(map(type, found)) == set(map(type, wanted)) == {float} and len(found) == len(wanted):
        a, b = np.array(found), np.array(wanted)
        with np.errstate(invalid="ignore"):  # inf - inf
            near = np.abs(a - b) <= np.maximum(relative * np.maximum(np.abs(a), np.abs(b)), absolute)
        same = (a == b) | (near & np.isfinite(a) & np.isfinite(b)) | (np.isnan(a) & np.isnan(b))
        return np.flatnonzero(~same).tolist()
    return range(min(len(found), len(wanted)))


def place_of(where: str) -> str:
    """``where`` in a plain answer, without the numbers of list items."""
    return re.sub(r"\[\d+\]", "", where)


def _form(wanted: dict | list) -> str:
    if isinstance(wanted, list):
        return f"a list of {len(wanted)}"
    return f"a dict with {', '.join(map(repr, wanted)) or 'nothing in it'}"


def _describe(value) -> str:
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"
