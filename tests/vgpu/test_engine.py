"""How work shares a part of the card, against sums made by hand and a simulation nanosecond by nanosecond."""

import random
from dataclasses import replace

import pytest

from gapless.vgpu import CARDS
from gapless.vgpu.hardware.clock.engine import WHOLE, Engine
from gapless.vgpu.hardware.kernels.costs import Kernel


def run(*work):
    engine = Engine()
    return [engine.run(*one) for one in work]


def test_alone_work_takes_its_time():
    assert run((50, 1000, WHOLE), (2000, 10, 1), (3000, 0, WHOLE)) == [(50, 1050), (2000, 2010), (3000, 3000)]


def test_work_that_fills_it_comes_one_after_another():
    assert run(*[(0, 100, WHOLE)] * 16) == [(100 * i, 100 * (i + 1)) for i in range(16)]


def test_small_work_goes_side_by_side_until_there_is_no_room():
    assert run(*[(0, 100, WHOLE // 4)] * 5) == [*[(0, 100)] * 4, (100, 200)]


def test_later_work_has_what_earlier_leaves():
    # A quarter of 100 ns' work in the first 100 ns beside three quarters, the rest at full speed.
    assert run((0, 100, 750), (0, 100, WHOLE)) == [(0, 100), (0, 175)]


def test_earlier_work_keeps_its_time_wherever_it_lies():
    # The second was launched later and could start sooner: it stops while the first runs.
    assert run((100, 50, WHOLE), (0, 150, WHOLE)) == [(100, 150), (0, 200)]


def test_what_is_over_may_be_forgotten():
    engine = Engine()
    for i in range(100):
        engine.run(1000 * i, 500, WHOLE)
        engine.forget(1000 * i)
    assert engine.run(99_000, 10, WHOLE) == (99_500, 99_510)
    assert len(engine._times) <= 4


@pytest.mark.parametrize("seed", range(20))
def test_against_a_simulation(seed):
    draw = random.Random(seed)
    engine, taken, now = Engine(), [0] * 6000, 0
    for _ in range(25):
        now += draw.randrange(20)
        engine.forget(now)
        ready, duration, share = now + draw.randrange(60), draw.randrange(1, 40), draw.choice([1, 100, 333, 500, 999, WHOLE])
        left, begin, ns = duration * share, None, ready
        while left > 0:
            part = min(share, WHOLE - taken[ns])
            if part and begin is None:
                begin = ns
            taken[ns] += part
            left -= part
            ns += 1
        assert engine.run(ready, duration, share) == (begin, ns)
    assert max(taken) <= WHOLE


def test_a_kernel_takes_what_binds_it():
    card = replace(CARDS["a10g"], kernel_start_ns={})
    rate = card.bandwidth_bytes_per_s * card.memory_share("pointwise")
    assert Kernel("k", "pointwise", rate * 1e-3).duration_and_share(card) == (10**6, WHOLE)
    assert Kernel("k", "pointwise", rate * 1e-6).duration_and_share(card) == (card.kernel_floor_ns, WHOLE // 2 + 1)
    assert Kernel("k", "pointwise", 0).duration_and_share(card) == (card.kernel_floor_ns, 1)


def test_what_is_held_is_taken_from_later_work_and_no_more_than_there_is():
    """Work whose end others decide: it never takes longer, and the rest goes round it."""
    from gapless.vgpu.hardware.clock.engine import WHOLE, Engine

    engine = Engine()
    engine.hold(100, 300, WHOLE // 4)
    assert engine.run(0, 100, WHOLE) == (0, 100)
    assert engine.run(100, 150, WHOLE) == (100, 300)  # three quarters are left of 200 ns
    engine.hold(200, 400, WHOLE)
    assert engine.run(100, 100, WHOLE) == (400, 500)
    engine.hold(500, 500, WHOLE)
    assert engine.run(500, 10, WHOLE) == (500, 510)
