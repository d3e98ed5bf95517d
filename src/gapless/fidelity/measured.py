"""Times that others measured on real GPUs, as tables (CSV, also gzipped): operators, collectives, training steps, whole
networks.

Its columns show which of them a file holds. Those shipped lie in ``records/measured/``, with their licences.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..vgpu.hardware.cards.specs import CARDS, find_model

FOLDER = Path(__file__).parents[3] / "records" / "measured"
SHIPPED = ("operators.csv.gz", "vidur_linear.csv.gz", "vidur_allreduce.csv.gz", "steps.csv", "timm.csv")


class MeasuredError(ValueError):
    """A file of measured times cannot be used; the message names the file and the row."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One call of an operator. ``sizes``: the names that ``OPERATORS`` gives, in that order; ``device``: CUDA's name of
    the GPU; ``kernels``: the CUDA kernels that ran, where the file names them; ``dtype``: of all tensors. ``host``:
    whether the time holds what the host left between two events, else it is the kernels' alone."""

    card: str
    device: str
    op: str
    sizes: tuple[int, ...]
    ms: float
    part: str = ""
    kernels: str = ""
    dtype: str = "float32"
    host: bool = True

    @property
    def kind(self) -> str:
        """What :class:`gapless.vgpu.hardware.kernels.costs.Kernel` calls its kernel's kind."""
        return _KINDS.get(self.op, "pointwise")


@dataclass(frozen=True, slots=True)
class Step:
    """A whole step of a transformer of ``models.json``; ``mode``: ``inf`` or ``train``."""

    card: str
    model: str
    mode: str
    sequence: int
    batch: int
    ms: float
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """A whole step of a network of timm in mixed precision; ``mode``: ``train`` or ``infer``; ``format``: a memory
    format of PyTorch's."""

    card: str
    model: str
    mode: str
    format: str
    batch: int
    image: int
    ms: float
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class AllReduce:
    """NCCL's kernel of one AllReduce of ``nbytes`` over ``gpus`` cards, ``on_each`` in a machine; ``machine``: of
    :data:`gapless.vgpu.hardware.times.interconnect.MACHINES`."""

    card: str
    machine: str
    gpus: int
    on_each: int
    nbytes: int
    ms: float


_KINDS = {"bmm": "matmul", "linear": "matmul", "conv": "convolution", "softmax": "reduction", "ln": "normalization"}

# Operator → the names of its sizes, in the order that the files write them.
_VECTOR = ("b", "h")
OPERATORS: dict[str, tuple[str, ...]] = {
    "bmm": ("b", "m", "n", "k"),
    "linear": ("b", "m", "n", "k"),
    "conv": ("b", "input_channel", "output_channel", "kernel_size", "input_size", "stride", "padding"),
    **dict.fromkeys(("add", "mul", "div", "pow", "sub", "addu", "mulu", "divu", "powu", "subu", "relu", "tanh", "gelu",
                     "softmax", "ln"), _VECTOR),
}


def read(path: str | Path) -> list:
    """The rows of a file: of one kind, :class:`Operator`, :class:`AllReduce`, :class:`Step` or :class:`Network`. Raises
    MeasuredError, which names the row (the first below the header is row 1)."""
    path = Path(path)
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
    except OSError as error:
        raise MeasuredError(f"{path}: {error.strerror}; name a table of measured times (.csv or .csv.gz)") from None
    except (EOFError, ValueError, zlib.error) as error:
        raise MeasuredError(f"{path} is no table of text: {error}") from None
    lines = csv.reader(io.StringIO(text))
    header = next(lines, [])
    for form in _FORMS:
        if set(form.needed) <= set(header):
            break
    else:
        known = "; or ".join(", ".join(form.needed) for form in _FORMS)
        raise MeasuredError(f"{path}: the columns {', '.join(header) or '(none)'} are of no known table; needed are {known}")
    unknown = [name for name in header if name not in form.needed + form.optional]
    if unknown or len(set(header)) < len(header):
        raise MeasuredError(f"{path}: unknown or repeated column {(unknown or header)[0]!r}; known are "
                            f"{', '.join(form.needed + form.optional)}")
    rows, cards = [], {}
    for number, values in enumerate(lines, 1):
        if not values:
            continue
        try:
            if len(values) != len(header):
                raise MeasuredError(f"{len(values)} values for {len(header)} columns")
            rows.append(form.make(dict(zip(header, values)), cards))
        except MeasuredError as error:
            raise MeasuredError(f"{path}, row {number}: {error}") from None
    if not rows:
        raise MeasuredError(f"{path} has no rows")
    return rows


def shipped() -> list[Path]:
    """The files in ``records/measured/``. Raises MeasuredError where they are not beside the package."""
    found = [FOLDER / name for name in SHIPPED if (FOLDER / name).is_file()]
    if not found:
        raise MeasuredError(f"there are no measured times in {FOLDER}, which only a clone of the repository has: name one")
    return found


# -- one row ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[dict, dict], object]


def _operator(row: dict, cards: dict) -> Operator:
    names = OPERATORS.get(row["op"])
    if names is None:
        raise MeasuredError(f"the operator {row['op']!r} is not known; known are {', '.join(OPERATORS)}")
    given = dict(_SIZE.findall(row["dims"]))
    if set(given) != set(names) or re.sub(_SIZE, "", row["dims"]).strip():
        raise MeasuredError(f"dims of {row['op']} are {row['dims']!r}, not {' '.join(f'{name}=…' for name in names)}")
    sizes = tuple(int(given[name]) for name in names)
    if min(size for name, size in zip(names, sizes) if name != "padding") < 1:
        raise MeasuredError(f"dims are {row['dims']!r}: sizes are 1 or more")
    return Operator(_card(row["device"], cards), row["device"], row["op"], sizes, _ms(row, "latency_ms"),
                    row.get("part", ""), row.get("kernels", ""))


_VIDUR_CARDS = {"a100": "a100_80gb_pcie"}  # an 80 GB card, PCIe: records/measured/README.md


def _half_linear(row: dict, cards: dict) -> Operator:
    sizes = tuple(_count(row, name) for name in ("tokens", "inputs", "outputs"))
    device = row["device"]
    return Operator(_card(_VIDUR_CARDS.get(device, device), cards), device, "linear", (1, *sizes), _ms(row, "median_ms"),
                    row.get("operator", ""), dtype="float16", host=False)


# Machine in the file → what it is here, and its cards.
_VIDUR_MACHINES = {"a100_dgx": ("dgx_a100", "a100_80gb"), "h100_dgx": ("dgx_h100", "h100"),
                   "a100_pairwise_nvlink": ("pairs_a100", "a100_80gb_pcie"), "h100_pairwise_nvlink": ("pairs_h100", "h100")}


def _all_reduce(row: dict, cards: dict) -> AllReduce:
    if row["machine"] not in _VIDUR_MACHINES:
        raise MeasuredError(f"the machine {row['machine']!r} is not known; known are {', '.join(_VIDUR_MACHINES)}")
    machine, card = _VIDUR_MACHINES[row["machine"]]
    gpus, on_each = _count(row, "gpus"), _count(row, "gpus_per_node")
    if gpus < 2 or gpus % on_each:
        raise MeasuredError(f"{gpus} GPUs, {on_each} in each machine: there are two or more, and as many in each")
    return AllReduce(card, machine, gpus, on_each, _count(row, "bytes"), _ms(row, "median_ms"))


def _step(row: dict, cards: dict) -> Step:
    mode = _one_of(row, "mode", ("inf", "train"))
    return Step(_card(row["device"], cards), row["model"], mode, _count(row, "sequence"), _count(row, "batch"),
                _ms(row, "step_ms"), bool(_one_of(row, "variant", ("", "fusion"))))


def _network(row: dict, cards: dict) -> Network:
    mode, memory_format = _one_of(row, "mode", ("train", "infer")), _one_of(row, "format", ("contiguous", "channels_last"))
    return Network(_card(row["card"], cards), row["model"], mode, memory_format, _count(row, "batch"), _count(row, "image"),
                   _ms(row, "step_ms"), bool(row.get("compiled")))


def _card(device: str, cards: dict) -> str:
    """The key of the card that models a GPU of that name; ``cards`` remembers."""
    if device not in cards:
        cards[device] = device if device in CARDS else find_model(device)
    if cards[device] is None:
        raise MeasuredError(f"no card models {device!r}; known are {', '.join(CARDS)}")
    return cards[device]


def _ms(row: dict, name: str) -> float:
    try:
        value = float(row[name])
    except ValueError:
        raise MeasuredError(f"{name} is {row[name]!r}, not a number of milliseconds") from None
    if not (math.isfinite(value) and value > 0):
        raise MeasuredError(f"{name} is {row[name]}: a time is more than 0")
    return value


def _count(row: dict, name: str) -> int:
    if not row[name].isascii() or not row[name].isdigit() or int(row[name]) < 1:
        raise MeasuredError(f"{name} is {row[name]!r}, not a whole number of 1 or more")
    return int(row[name])


def _one_of(row: dict, name: str, known: tuple[str, ...]) -> str:
    value = row.get(name, "")
    if value not in known:
        raise MeasuredError(f"{name} is {value!r}, not {' or '.join(repr(each) for each in known)}")
    return value


_SIZE = re.compile(r"(\w+)=(\d+)")
_FORMS = (
    _Form(("device", "op", "dims", "latency_ms"), ("part", "kernels"), _operator),
    _Form(("device", "tokens", "inputs", "outputs", "median_ms"), ("model", "operator", "tensor_parallel", "min_ms"),
          _half_linear),
    _Form(("machine", "gpus", "gpus_per_node", "bytes", "median_ms"), ("min_ms",), _all_reduce),
    _Form(("device", "model", "mode", "sequence", "batch", "step_ms"), ("variant", "forward_ms", "backward_ms"), _step),
    _Form(("card", "mode", "format", "model", "batch", "image", "step_ms"), ("compiled", "torch", "samples_per_s"),
          _network),
)
