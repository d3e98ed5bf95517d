"""A fast subset of the operator database in every test run; ``make conformance`` runs it all, a process an entry."""

import pytest
import torch

from .entries import DTYPES, EXCEPTIONS, check, entries

EVERY = 12  # one entry in so many, a different one for each type

SUBSET = [(name, dtype) for offset, (dtype, kind) in enumerate(DTYPES.items())
          for name in entries(kind)[offset::EVERY] if name not in EXCEPTIONS]


@pytest.mark.parametrize("name, dtype", [*SUBSET[::2], *(pytest.param(*each, marks=pytest.mark.slow) for each in SUBSET[1::2])])
def test_entry_gives_the_cpus_values_and_gradients(name, dtype):
    check(name, DTYPES[dtype], most_samples=2)


def test_exceptions_name_entries_and_reasons():
    known = {name for kind in DTYPES.values() for name in entries(kind)}
    assert set(EXCEPTIONS) <= known and all(EXCEPTIONS.values())


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_still_is_one(name):
    """Else the table would hide what works."""
    with pytest.raises((AssertionError, RuntimeError, NotImplementedError, TypeError)):
        check(name, torch.float32)
