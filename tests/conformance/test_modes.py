"""A fast part of the further modes in every test run; ``make conformance`` runs them all."""

import pytest

from .modes import MODE_EXCEPTIONS, MODES, check, tasks

EVERY = 90  # one entry in so many, different ones for each mode

SUBSET = [(how, name) for offset, how in enumerate(MODES) for name in tasks(how)[7 * offset::EVERY]]
# What has been wrong once.
FOUND = [("linearize", "nanmean"), ("linearize", "sinc"), ("traced", "nn.functional.linear"), ("jvp", "nansum"),
         ("out_argument", "masked_select"), ("out_argument", "nonzero"), ("out_argument", "linalg.matrix_rank"),
         ("out_argument", "matmul"), ("empty", "nn.functional.conv2d")]


@pytest.mark.slow
@pytest.mark.parametrize("how, name", [*SUBSET, *FOUND])
def test_a_mode_gives_what_it_gives_on_the_cpu(how, name):
    check(name, how, most_samples=1 if (how, name) in SUBSET else 8)


@pytest.mark.parametrize("how, name", MODE_EXCEPTIONS)
def test_an_exception_still_is_one(how, name):
    """Else the table would hide what works."""
    with pytest.raises((AssertionError, RuntimeError)):
        check(name, how)
