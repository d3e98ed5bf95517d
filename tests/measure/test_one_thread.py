"""One thread inside, and as many as before afterwards."""

import pytest
import torch

from gapless.measure.one_thread import one_thread


def test_as_many_as_before_afterwards():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with pytest.raises(KeyError), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
