"""Predicted times of the transformer steps that were measured: forward, and for training backward, in float32.

The models are those of ``records/measured/models.json``, made by ``transformers`` with eager attention. As they were
measured with PyTorch 2.1: token ids alike, dropout in training, no loss's own forward, no optimizer. A compiled step is the
whole forward in one region (:mod:`..vgpu.compiling.regions`), without
Dynamo: the models' forwards are taken to be one graph.
Not modelled: that the allocator's cache was emptied before each step, so that a measured step holds calls of ``cudaMalloc``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import nullcontext

import torch

from .. import vgpu
from ..vgpu.compiling import attention_patterns, regions
from .measured import FOLDER, MeasuredError, Step
from .predict import Predicted, recorded


def predicted(steps: Iterable[Step]) -> Iterator[Predicted | None]:
    """Of each step, in their order: its predicted time; None for one that does not fit into the card's memory.
    Raises ImportError without ``transformers``, and MeasuredError."""
    try:
        import transformers
    except ImportError as error:
        raise ImportError("measured transformer steps need transformers: pip install 'gapless[validation]'") from error

    transformers.logging.set_verbosity_error()
    configurations = json.loads((FOLDER / "models.json").read_text(encoding="utf-8"))
    for step in steps:
        if step.model not in configurations:
            raise MeasuredError(f"the model {step.model!r} is not in models.json, which has {', '.join(configurations)}")
        device = vgpu.enable(step.card)
        try:
            with vgpu.shape_only(), attention_patterns.as_in_torch_2_1():
                model = _model(transformers, configurations[step.model], device)
                with recorded() as uncertain:
                    ms = _measure(step, model, device)
                yield Predicted(ms, uncertain())
        except torch.OutOfMemoryError:
            yield None


def _model(transformers, configuration: dict, device: torch.device) -> torch.nn.Module:
    kind = getattr(transformers, configuration["architectures"][0])
    with torch.device("meta"):
        model = kind._from_config(transformers.AutoConfig.for_model(**configuration), attn_implementation="eager")
    return model.to_empty(device=device)


def _measure(step: Step, model: torch.nn.Module, device: torch.device) -> float:
    training = step.mode == "train"
    model.train(training)
    tokens = torch.ones(step.batch, step.sequence, dtype=torch.long, device=device)
    for _ in range(2):  # the first allocates gradients
        for parameter in model.parameters():
            parameter.grad = None
        logits = None
        with torch.set_grad_enabled(training):
            begun = _now_ns()
            with regions.running("forward", whole=True) if step.compiled else nullcontext() as region:
                logits = model(input_ids=tokens).logits
                if region is not None:
                    region.returns(logits)
            took_ns = _now_ns() - begun
        if training:
            gradient = torch.empty_like(logits)
            begun = _now_ns()
            logits.backward(gradient)
            took_ns += _now_ns() - begun
            del gradient
    return took_ns / 1e6


def _now_ns() -> int:
    vgpu.timeline().synchronize_device()
    return vgpu.timeline().host_ns
