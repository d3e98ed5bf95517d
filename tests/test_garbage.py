"""Python looks for garbage when it is told to."""

import gc
import weakref

import pytest

from gapless.garbage import no_collection, set_aside


class Knot:
    def __init__(self):
        self.own = self


def test_no_collection_leaves_what_lies_in_cycles_and_the_switch_as_it_was():
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            with pytest.raises(KeyError), no_collection():
                knot = weakref.ref(Knot())
                made = [[] for _ in range(100_000)]  # enough to have Python look
                assert knot() is not None and len(made) == 100_000
                raise KeyError
            assert gc.isenabled() == was_on
        finally:
            gc.enable()
    gc.collect()
    assert knot() is None


@pytest.fixture
def nothing_set_aside():
    """As in a process of a learner's; the tests' own has set aside what was imported for all of them."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def test_what_is_set_aside_is_not_looked_through_again(nothing_set_aside):
    before, held = weakref.ref(Knot()), Knot()
    there = weakref.ref(held)
    set_aside()
    assert before() is None and gc.get_freeze_count() > 0
    del held
    gc.collect()
    assert there() is not None
    later = weakref.ref(Knot())
    held = Knot()
    set_aside()  # what came since is collected, and goes on to be
    assert later() is None
    later = weakref.ref(held)
    del held
    gc.collect()
    assert later() is None
