"""The modelled step of GPT-2-large, data parallel on four H100 with NVLink, against one GPU alone, held against measured
steps.

    python benchmarks/data_parallel_steps.py

774 million float32 parameters, sequence 1024, forward and backward in float32 (transformers' model with eager attention), as
in ``records/measured``. Measured on real cards (NeuSight's figures): data parallel with 4 samples on each GPU takes 1.005 of
one GPU with 4 samples; with 1 sample on each, 1.06 of one GPU with 1. Needs transformers, no GPU; a minute or two.
"""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gapless
from gapless import vgpu
from gapless.fidelity.measured import FOLDER
from gapless.fidelity.transformer_steps import _model
from gapless.vgpu.compiling import attention_patterns

MEASURED = {4: 1.005, 1: 1.06}
NAME, SEQUENCE, STEPS = "gpt2_large", 1024, 4


def step_ms(rank, world, batch, options):
    """(virtual, real) ms of the last of some steps, alone where ``world`` is 1."""
    import transformers

    transformers.logging.set_verbosity_error()
    configuration = json.loads((FOLDER / "models.json").read_text(encoding="utf-8"))[NAME]
    if world > 1:
        dist.init_process_group()
    device, timeline = torch.device("vgpu:0"), vgpu.timeline()
    with vgpu.shape_only(), attention_patterns.as_in_torch_2_1():
        model = _model(transformers, configuration, device).train()
        if world > 1:
            model = DistributedDataParallel(model, **options)
        tokens = torch.ones(batch, SEQUENCE, dtype=torch.long, device=device)
        for _ in range(STEPS):
            timeline.synchronize_device()
            begun_ns, began = timeline.host_ns, time.perf_counter()
            logits = model(input_ids=tokens).logits
            logits.backward(torch.empty_like(logits))
            timeline.synchronize_device()
            took = (timeline.host_ns - begun_ns) / 1e6, (time.perf_counter() - began) * 1e3
            model.zero_grad(set_to_none=not options.get("gradient_as_bucket_view"))
            del logits
    if world > 1:
        dist.destroy_process_group()
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="h100")
    parser.add_argument("--gpus", type=int, default=4)
    arguments = parser.parse_args()
    print("| samples a GPU | alone (ms) | data parallel (ms) | ratio | measured | real s a step |")
    print("|---|---|---|---|---|---|")
    for batch, measured in MEASURED.items():
        (alone, _), = [each.value for each in gapless.on_gpus(1, step_ms, batch, {}, device=arguments.device)]
        together = gapless.on_gpus(arguments.gpus, step_ms, batch, {}, device=arguments.device)
        assert len({each.value[0] for each in together}) == 1, "the ranks' clocks differ"
        ms, real_ms = together[0].value
        print(f"| {batch} | {alone:.2f} | {ms:.2f} | {ms / alone:.4f} | {measured} | {real_ms / 1e3:.2f} |", flush=True)


if __name__ == "__main__":
    main()
