import pytest
import torch

from gapless.vgpu.boundary.switches import in_words, switch, switched, switches


def test_what_a_program_switches_ends_with_its_turn():
    before = in_words(switches())
    wanted = ["tf32", "ieee", "none", True, 3, True, True, False, True, "float64"]
    with switched(wanted):
        assert in_words(switches()) == wanted and torch.zeros(1).dtype == torch.float64
        switch([*wanted[:-1], "bfloat16"])
    assert in_words(switches()) == before


@pytest.mark.parametrize("nonsense", [None, [], ["evil"] * 10, ["none"] * 3 + [1, 10, True, False, False, False, "float32"],
                                      ["none"] * 3 + [True, 10, True, False, False, False, "int64"],
                                      ["none"] * 3 + [True, 10, True, False, 0, False, "float32"]])
def test_nonsense_switches_nothing(nonsense):
    before = in_words(switches())
    with pytest.raises(ValueError, match="unknown"):
        switch(nonsense)
    assert in_words(switches()) == before
