"""Measurements of a made-up GPU, whose truth is known."""

import dataclasses

from gapless.fidelity import experiments
from gapless.vgpu import CARDS

TRUTH = dataclasses.replace(
    CARDS["a100"],
    memory_efficiency={**CARDS["a100"].memory_efficiency, "pointwise": 0.91, "reduction": 0.62, "sort": 0.33,
                       "gather": 0.71, "scatter": 0.22, "scan": 0.55, "memset": 0.95},
    time_factors={"normalization": 1.3, "optimizer": 0.9, "convolution:tf32": 1.35, "convolution:bfloat16": 0.88,
                  "matmul:float32": 1.21, "matmul:tf32": 0.86, "matmul:float16": 0.94, "matmul:bfloat16": 1.02},
    math_efficiency={"attention:float32": 0.3, "attention:bfloat16": 0.47},
    kernel_floor_ns=1700,
    kernel_start_ns={"pointwise": 900, "reduction": 2500, "matmul": 3000, "sort": 1200},
)
HOST = {
    "launch_s": 3e-6, "operator_s": 9e-6, "product_s": 21e-6, "view_s": 1.5e-6, "synchronize_s": 4e-6, "queue_length": 1022,
    "pinned_to_device_bytes_per_s": 24e9, "device_to_pinned_bytes_per_s": 24e9, "pageable_to_device_bytes_per_s": 8e9,
    "device_to_pageable_bytes_per_s": 8e9, "python_call_s": 4e-7, "cores": 6, "core_flops": 9e10, "core_bytes_per_s": 1.2e10,
    "memory_bytes_per_s": 4e10,
}
GPU = {"name": "NVIDIA A100-SXM4-40GB", "memory_bytes": 42_000_000_000, "sm_count": 108, "compute_capability": [8, 0]}


def exact_measurements():
    """What a GPU exactly like TRUTH would measure."""
    points = []
    for experiment in experiments.experiments():
        model = experiment.model()
        seconds = sum(experiments.kernel_from_json(kernel).duration_ns(TRUTH) for kernel in model) / 1e9
        points.append({"what": experiment.what, "kind": experiment.kind, "dtype": experiment.dtype, "seconds": seconds,
                       "model": model})
    return {"gpu": GPU, "host": HOST, "kernels": points}
