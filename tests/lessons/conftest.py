import pytest

from .reference import solution


@pytest.fixture(scope="session")
def solutions():
    """The functions of lesson 02's reference solution."""
    return solution("02_masked_loss")
