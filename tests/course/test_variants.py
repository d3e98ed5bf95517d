"""Cases drawn from lists: every entry occurs, and the first case is a plain one."""

import numpy as np
import pytest

from gapless.course.evidence import Case
from gapless.course.variants import DTYPES, covering, varied


@pytest.mark.parametrize("seed", range(5))
def test_every_entry_of_every_list_occurs_and_the_first_of_each_come_first(seed):
    lists = {"a": ("a0", "a1", "a2", "a3", "a4"), "b": ("b0", "b1"), "c": ("c0", "c1", "c2")}
    found = covering(np.random.default_rng(seed), **lists)
    assert found[0] == {"a": "a0", "b": "b0", "c": "c0"} and len(found) == 5
    for name, entries in lists.items():
        assert {pick[name] for pick in found} == set(entries)


def test_another_seed_gives_other_partners():
    lists = {"a": range(8), "b": range(8)}
    assert covering(np.random.default_rng(1), **lists) != covering(np.random.default_rng(2), **lists)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_has_a_fraction_is_cast_and_the_name_says_so(dtype):
    case = Case("plain", {"x": np.ones(3, np.float32), "list": [np.zeros(2, np.float32)], "target": np.arange(3)})
    found = varied(case, dtype, "strided")
    assert str(found.inputs["x"].dtype) == str(found.inputs["list"][0].dtype) == dtype and found.inputs["target"].dtype == np.int64
    assert found.name == "plain" + (f", {dtype}" if dtype != "float32" else "") + ", every second element of a larger tensor"
    assert set(found.layouts.values()) == {"strided"} and case.layouts == {} and case.inputs["x"].dtype == np.float32
    assert varied(case).name == "plain"
