"""The measuring host's part in a measured time: CUDA events around one call on an idle GPU.

The first event is recorded at once; the kernel starts when the host has launched it, ``gap`` later; the last event
cannot be recorded before the host gets to it, ``floor`` after the first. So

    measured = max(floor, gap + kernel)

The data show both: below some size a time does not change at all, and above the line over the bytes meets zero at
about 0.55 of that. ``records/measured/hosts.json`` keeps them, by GPU and operator; they are no part of a card.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections import defaultdict
from typing import Any

from ..vgpu.hardware.cards.specs import CARDS, START_NS
from .calibrate import least_relative
from .measured import FOLDER, Operator

FILE = "hosts.json"
SMALL_BYTES = 2**20  # of operands: a kernel that no host waits for
TWO, ONE = ("add", "sub", "mul", "div", "pow"), ("addu", "subu", "mulu", "divu", "powu", "relu", "tanh", "gelu")
FEWEST = 5


def drift_ms(host: dict, place: Any) -> Any:
    """What the host added at ``place`` (0 to 1, or an array of such) of a session of convolutions: in the data it grows with
    the number of shapes that cuDNN's autotuner has seen, whatever their sizes. ``host``: one of
    ``fitted.hosts("convolutions")``."""
    return host["gap_ms"] + host["drift_ms"] * place


def fit(rows: list[Operator]) -> dict:
    """Device → ``{"share": gap over floor, "floor_us": {operator: µs}}`` from measured operators. A device without small
    sizes takes its floors from its gaps, in the proportions of the others."""
    by = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.host:
            by[row.device][row.op].append(row)
    floors = {device: {op: found for op, own in ops.items() if (found := _floor_us(op, own))} for device, ops in by.items()}
    gaps = {device: {op: found for op, own in ops.items() if (found := _gap_us(op, own))} for device, ops in by.items()}
    shares = {}
    for device in by:
        both = [gaps[device][op] / floors[device][op] for op in gaps[device] if op in floors[device]]
        if both:
            shares[device] = statistics.median(both)
    if not shares:
        return {}
    share = statistics.median(shares.values())
    known = sorted({op for own in floors.values() for op in own})
    # An operator's floor over the mean of the elementwise ones, on the devices that tell both.
    base = {device: _mean(own, ONE) for device, own in floors.items() if _mean(own, ONE)}
    relative = {op: statistics.median(floors[device][op] / base[device] for device in base if op in floors[device])
                for op in known if any(op in floors[device] for device in base)}
    found = {}
    for device in by:
        level, own_share = base.get(device), shares.get(device, share)
        if level is None:
            # No floor is above the shortest time.
            gap = _mean(gaps[device], ONE)
            shortest = {op: min(row.ms for row in own) * 1e3 for op, own in by[device].items()}
            level = min(gap / share if gap else statistics.median(base.values()),
                        *(shortest[op] / relative[op] for op in shortest if op in relative))
            own_share = min(gap / level, 1.0) if gap else share
        found[device] = {"share": round(own_share, 3),
                         "floor_us": {op: round(floors[device].get(op, level * relative[op]), 1) for op in relative}}
    return found


def _mean(values: dict, ops: tuple[str, ...]) -> float | None:
    own = [values[op] for op in ops if op in values]
    return statistics.mean(own) if own else None


def _operands(row: Operator) -> float:
    if row.op in ("bmm", "linear"):
        b, m, n, k = row.sizes
        return 4 * (b * m * k + n * k + b * m * n)
    return 4 * (3 if row.op in TWO else 2) * math.prod(row.sizes)


def _floor_us(op: str, rows: list[Operator]) -> float | None:
    small = [row.ms * 1e3 for row in rows if op != "conv" and _operands(row) < SMALL_BYTES]
    return statistics.median(small) if len(small) >= FEWEST else None


def _gap_us(op: str, rows: list[Operator]) -> float | None:
    """What is left of an elementwise kernel's time at no bytes, less the kernel's own start."""
    if op not in TWO + ONE:
        return None
    large = [(1.0, _operands(row), row.ms * 1e3) for row in rows if _operands(row) > 4 * CARDS[row.card].l2_bytes]
    if len(large) < FEWEST:
        return None
    return max(least_relative(large)[0] - START_NS / 1e3, 0.0) or None


# -- use --------------------------------------------------------------------------------------------


@functools.cache
def shipped() -> dict:
    """Device → its host's part, as fitted; nothing where the file is not there."""
    if not (FOLDER / FILE).is_file():
        return {}
    return json.loads((FOLDER / FILE).read_text(encoding="utf-8"))["devices"]


def floor_s(found: dict, device: str, op: str) -> float:
    """Seconds below which no time of ``op`` was measured on ``device``; 0 where nothing is known."""
    return found.get(device, {}).get("floor_us", {}).get(op, 0.0) / 1e6


def hidden_s(found: dict, device: str, op: str) -> float:
    """Seconds of a kernel that the host hides."""
    return floor_s(found, device, op) * (1 - found.get(device, {}).get("share", 1.0))


def measured_s(found: dict, device: str, op: str, kernel_s: float) -> float:
    """What the host of ``device`` would have measured for kernels of ``kernel_s`` seconds."""
    floor = floor_s(found, device, op)
    return max(floor, found[device]["share"] * floor + kernel_s) if floor else kernel_s
