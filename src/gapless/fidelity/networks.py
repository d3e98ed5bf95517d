"""Predicted times of the networks of timm that were measured: a step in mixed precision, as its ``benchmark.py`` takes it.

Inference is a forward pass in evaluation, without gradients; training is forward, cross-entropy, backward (no loss scaler)
and SGD with Nesterov's momentum, a parameter at a time, into gradients that are zeroed and kept (PyTorch 1.12's
defaults, with which it was measured). Both under autocast to float16 with cuDNN's autotuner on; memory formats as the
row says. Attention is fused in inference (PyTorch 2.4; where it is not, its products stay in half precision, as
they did then) and in training is not (1.12 has no fused one). timm's ``fast_norm`` (layer and group norms in half precision
under autocast) is taken to be on in inference: the files do not say so, but networks with group norm run in half the
time that float32 would take. A compiled network is its whole forward in one region (:mod:`..vgpu.compiling.regions`),
without Dynamo: networks are taken to be one graph each.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F

from .. import vgpu
from ..vgpu.compiling import regions
from ..vgpu.core.tuning import autotuned
from .measured import MeasuredError, Network
from .predict import Predicted, card_of, recorded

_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def predicted(rows: Iterable[Network]) -> Iterator[Predicted | None]:
    """Of each row, in their order: the predicted time of its step; None for a network that the installed timm does not
    have. Raises ImportError without ``timm``."""
    rows = list(rows)
    found: list[Predicted | None] = [None] * len(rows)
    # Rows of a network follow each other, so that it is made once.
    maker = Maker()
    for place in sorted(range(len(rows)), key=lambda place: order(rows[place])):
        row = rows[place]
        if maker.has(row.model):
            found[place] = _simulate(maker, row)
    yield from found


def order(row: Network) -> tuple:
    """A key that sorts rows so that networks alike follow each other."""
    return row.model, row.mode, row.image, row.format


def predict_ms(card: str, model: str, batch: int, image: int, mode: str, format: str) -> float:
    """The predicted time (ms) of one step. ``mode``: ``train`` or ``infer``; ``format``: ``contiguous`` or
    ``channels_last``. Raises ImportError without ``timm``, MeasuredError for a network that it does not have."""
    return _simulate(Maker(), Network(card, model, mode, format, batch, image, ms=1.0)).ms


@contextmanager
def as_measured():
    """Inside, what PyTorch takes apart of attention stays in half precision, as it did when this was measured, and
    convolutions are tuned."""
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with vgpu.shape_only(), autotuned():
            yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)


def _simulate(maker: Maker, row: Network) -> Predicted:
    device = vgpu.enable(card_of(row.card))
    with as_measured():
        step = maker.step(row, device)
        step()  # makes the gradients and the momentum, and tunes
        vgpu.timeline().reset()
        with recorded() as uncertain:
            step()
            vgpu.timeline().synchronize_device()
        return Predicted(vgpu.timeline().host_ns / 1e6, uncertain())


class Maker:
    """Makes the networks of timm; keeps the last one."""

    def __init__(self):
        try:
            import timm
        except ImportError as error:
            raise ImportError("measured networks need timm: pip install 'gapless[validation]'") from error
        self._timm = timm
        self._made: tuple | None = None
        self._known: dict[str, bool] = {}

    def has(self, name: str) -> bool:
        """Whether the installed timm has a network of that name."""
        if name not in self._known:
            self._known[name] = self._timm.is_model(name) and self._makes(name)
        return self._known[name]

    def _makes(self, name: str) -> bool:
        if name in self._timm.list_models():
            return True
        try:  # an old name may stand for weights that are gone
            with torch.device("meta"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._timm.create_model(name)
        except RuntimeError:
            return False
        return True

    def step(self, row: Network, device: torch.device):
        """A function that takes the step of ``row`` on ``device``, inside :func:`as_measured`."""
        training = row.mode == "train"
        network = self._network(row.model, row.image, training, device)
        network.to(memory_format=_FORMATS[row.format])
        images = torch.empty(row.batch, 3, row.image, row.image, device=device)
        images = images.contiguous(memory_format=_FORMATS[row.format])
        return _training(network, images) if training else _inference(network, images, row.compiled)

    def _network(self, name: str, image: int, training: bool, device: torch.device) -> torch.nn.Module:
        wanted = name, image, training, str(device)
        if self._made is None or self._made[0] != wanted:
            if not self.has(name):
                raise MeasuredError(f"timm {self._timm.__version__} has no network {name!r}")
            self._made = None
            self._timm.layers.set_fused_attn(not training)
            self._timm.layers.set_fast_norm(not training)
            with torch.device(device), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of renamed networks
                try:
                    network = self._timm.create_model(name, img_size=image)
                except TypeError:  # one that takes images of any size
                    network = self._timm.create_model(name)
            self._made = wanted, network.train(training)
        return self._made[1]


def _inference(network, images, compiled):
    def step():
        with torch.no_grad(), torch.autocast(images.device.type, torch.float16):
            if not compiled:
                network(images)
                return
            with regions.running("forward", whole=True) as region:
                region.returns(network(images))

    return step


def _training(network, images):
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, momentum=0.9, nesterov=True, foreach=False)
    classes = torch.zeros(len(images), dtype=torch.long, device=images.device)

    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast(images.device.type, torch.float16):
            logits = network(images)
            F.cross_entropy(logits[0] if isinstance(logits, tuple) else logits, classes).backward()
        optimizer.step()

    return step
