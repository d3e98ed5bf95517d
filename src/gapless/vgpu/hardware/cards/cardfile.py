"""A card by its name, and card files: a card of one's own, or one that ``gapless calibrate`` has measured, as JSON.

    {"schema": "gapless card 1",
     "card": {"key": "mine", "name": "NVIDIA Mine", "memory_bytes": 85899345920, "bandwidth_bytes_per_s": 2e12,
              "peak_flops": {"float32": 2e13, "bfloat16": 3e14}, "sm_count": 100, "pcie_bytes_per_s": 3.2e10,
              "compute_capability": [8, 0], "source": "its data sheet",
              "memory_efficiency": {"pointwise": 0.9}, "math_efficiency": {"matmul:bfloat16": 0.7},
              "kernel_floor_ns": 2000, "kernel_start_ns": {"pointwise": 500}, "host": {"launch_ns": 4000}}}

What follows ``source`` may be left out: the assumptions of :mod:`.specs` stand. A calibration's file
also holds its measurements, which are not read here.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
from pathlib import Path

from .specs import CARDS, MATH_EFFICIENCY, MEMORY_EFFICIENCY, Card, CardError, Host, UnknownCard

SCHEMA = "gapless card 1"
# Folders of measured cards: below the folder that a command runs in, and beside an editable install.
FOLDERS = (Path("records") / "cards", Path(__file__).parents[5] / "records" / "cards")
_BESIDE_THE_CARD = ("schema", "card", "measurements", "fit", "gpu", "versions", "date", "command", "note")

DTYPES = ("float32", "tf32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")

# Field → smallest and largest number that can be meant. Outside it is a slip of units or of the keyboard.
_NUMBERS = {
    "memory_bytes": (10**8, 10**13),
    "bandwidth_bytes_per_s": (1e9, 1e14),
    "sm_count": (1, 10_000),
    "pcie_bytes_per_s": (1e8, 1e13),
    "kernel_floor_ns": (1, 10**6),
    "l2_bytes": (2**16, 2**33),
    "clock_hz": (1e8, 1e10),
    "power_w": (5, 10_000),
    "process_nm": (1, 65),
}
_PEAK = (1e9, 1e18)
_FACTOR = (0.05, 20.0)
_SHARE = (1e-3, 2.0)  # above 1 where caches serve what the model takes for memory
_START_NS = (0, 10**7)
_HOST_TIMES = ("op_ns", "library_op_ns", "view_ns", "launch_ns", "sync_ns")
_HOST = {
    **dict.fromkeys(_HOST_TIMES, (1, 10**7)), "python_call_ns": (0, 10**7), "queue_length": (1, 10**6),
    "pinned_share": (1e-3, 1.0), "pageable_share": (1e-3, 1.0), "cores": (1, 1024), "core_flops": (1e6, 1e14),
    "core_bytes_per_s": (1e6, 1e13), "memory_bytes_per_s": (1e6, 1e14),
}
_WHOLE = ("memory_bytes", "sm_count", "l2_bytes", "process_nm", "kernel_floor_ns",
          *_HOST_TIMES, "python_call_ns", "queue_length", "cores")
_OPTIONAL = ("memory_efficiency", "math_efficiency", "kernel_floor_ns", "kernel_start_ns", "host", "l2_bytes", "clock_hz",
             "power_w", "process_nm", "fitted_as", "time_factors")


def read_card(path: str | os.PathLike) -> Card:
    """The card in a file. The same file read twice is the same object until it changes. Raises CardError, which names the
    file and the field."""
    path = Path(path)
    try:
        status = path.stat()
    except OSError as error:
        raise CardError(f"card file {path}: {error.strerror}; name a .json file that `gapless calibrate` wrote") from None
    if not path.is_file():
        raise CardError(f"card file {path} is not a file")
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _read(path: Path, modified_ns: int, size: int) -> Card:
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise CardError(f"card file {path} is not JSON: {error}") from None
    except OSError as error:
        raise CardError(f"card file {path} cannot be read: {error.strerror}") from None
    try:
        return card_from_json(value)
    except CardError as error:
        raise CardError(f"card file {path}: {error}") from None


def _no_constant(name: str):
    raise ValueError(f"{name} is no number")


def measured_card(name: str) -> Card | None:
    """The card called ``name`` in a folder of measured cards, or None. Raises CardError if its file cannot be used."""
    if os.sep in name or (os.altsep and os.altsep in name):
        return None
    return next((read_card(folder / f"{name}.json") for folder in FOLDERS if (folder / f"{name}.json").is_file()), None)


def find_card(name: str) -> Card:
    """The card called ``name``: a card file (``….json``), else a measured card in ``records/cards``, else one of
    ``CARDS`` (upper or lower case). Raises UnknownCard, and CardError for a file that cannot be used."""
    if name.lower().endswith(".json"):
        return read_card(name)
    found = measured_card(name.lower()) or CARDS.get(name.lower())
    if found is None:
        raise UnknownCard(f"no card is called {name!r}; the virtual GPU knows {', '.join(CARDS)}, and card files "
                          "(….json)")
    return found


def card_from_json(value) -> Card:
    """The card in a parsed card file. Raises CardError, which names the field."""
    file = _object(value, "the file")
    _known(file, _BESIDE_THE_CARD, "the file")
    if file.get("schema") != SCHEMA:
        raise CardError(f"schema is {file.get('schema')!r}, not {SCHEMA!r}")
    if "card" not in file:
        raise CardError("card is missing")
    found = _object(file["card"], "card")
    fields = [field.name for field in dataclasses.fields(Card)]
    _known(found, fields, "card")
    for name in fields:
        if name not in found and name not in _OPTIONAL:
            raise CardError(f"card.{name} is missing")
    read = {name: _number(found[name], f"card.{name}", limits, name in _WHOLE)
            for name, limits in _NUMBERS.items() if name in found}
    read |= {name: _text(found[name], f"card.{name}") for name in ("key", "name", "source")}
    read["compute_capability"] = _capability(found["compute_capability"])
    read["peak_flops"] = _shares(found["peak_flops"], "card.peak_flops", DTYPES, _PEAK)
    if "float32" not in read["peak_flops"]:
        raise CardError("card.peak_flops.float32 is missing: other dtypes fall back on it")
    kinds = tuple(MEMORY_EFFICIENCY)
    math_kinds = (*MATH_EFFICIENCY, *(f"{kind}:{dtype}" for kind in MATH_EFFICIENCY for dtype in DTYPES))
    for name, keys, limits, default in (("memory_efficiency", kinds, _SHARE, MEMORY_EFFICIENCY),
                                        ("math_efficiency", math_kinds, _SHARE, MATH_EFFICIENCY),
                                        ("kernel_start_ns", kinds, _START_NS, {}),
                                        ("time_factors", (*kinds, *math_kinds), _FACTOR, {})):
        if name in found:
            read[name] = {**default, **_shares(found[name], f"card.{name}", keys, limits)}
    if found.get("fitted_as") is not None:
        read["fitted_as"] = _text(found["fitted_as"], "card.fitted_as")
    if "host" in found:
        read["host"] = _host(found["host"])
    return Card(**read)


def card_to_json(card: Card) -> dict:
    """The file's object of ``card``; ``card_from_json`` reads it back."""
    fields = {field.name: getattr(card, field.name) for field in dataclasses.fields(Card)}
    for name in ("peak_flops", "memory_efficiency", "math_efficiency", "kernel_start_ns", "time_factors"):
        fields[name] = dict(fields[name])
    fields["compute_capability"] = list(card.compute_capability)
    fields["host"] = dataclasses.asdict(card.host)
    return {"schema": SCHEMA, "card": fields}


# -- one value --------------------------------------------------------------------------------------


def _object(value, field: str) -> dict:
    if not isinstance(value, dict):
        raise CardError(f"{field} is {_shown(value)}, not an object")
    return value


def _known(value: dict, names, field: str) -> None:
    for name in value:
        if name not in names:
            raise CardError(f"{field} has an unknown key {name!r}; known are {', '.join(names)}")


def _number(value, field: str, limits: tuple[float, float], whole: bool = False):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CardError(f"{field} is {_shown(value)}, not a number")
    if not math.isfinite(value) or not limits[0] <= value <= limits[1]:
        raise CardError(f"{field} is {value:g}: it must lie between {limits[0]:g} and {limits[1]:g}")
    if whole and value != int(value):
        raise CardError(f"{field} is {value:g}, not a whole number")
    return int(value) if whole else float(value)


def _text(value, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise CardError(f"{field} is {_shown(value)}, not a text")
    return value


def _shares(value, field: str, names, limits: tuple[float, float]) -> dict[str, float]:
    _known(_object(value, field), names, field)
    return {name: _number(number, f"{field}.{name}", limits) for name, number in value.items()}


def _capability(value) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise CardError(f"card.compute_capability is {_shown(value)}, not a list of two whole numbers")
    return (_number(value[0], "card.compute_capability[0]", (1, 99), True),
            _number(value[1], "card.compute_capability[1]", (0, 99), True))


def _host(value) -> Host:
    _known(_object(value, "card.host"), _HOST, "card.host")
    return Host(**{name: _number(number, f"card.host.{name}", _HOST[name], name in _WHOLE)
                   for name, number in value.items()})


def _shown(value) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "…"
