"""A part of the dtypes that one of the devices lacks, and of the halves; ``make conformance`` runs them all."""

import pytest

from .dtypes import check_halves, check_pairs, halves, pairs


@pytest.mark.slow
@pytest.mark.parametrize("name", pairs()[::4])
def test_what_cuda_has_works_and_what_it_lacks_does_not(name):
    assert check_pairs(name, most_samples=3)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*halves()[3::30], "matrix_exp", "grid_sampler_2d"])
def test_halves_are_near_float32(name):
    check_halves(name, most_samples=3)
