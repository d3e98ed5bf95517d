"""Lesson 08: the training steps whose memory is predicted."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case


def budget_cases(seed: int) -> list[Case]:
    """Steps in which the activations or the weights take most, in several precisions, with frozen or tied parts. A row of
    each layer takes whole pieces of 512 bytes in float32: the allocator rounds up what a single row takes, and a
    prediction from a single row is right too. Images go through so many layers that a convolution's workspace, which a
    prediction from what autograd saves leaves out, is at most 9 % of the peak (all shapes on A10G, T4, V100, L4, H200)."""
    rng = np.random.default_rng(seed)

    def between(low: int, high: int, multiple: int = 1) -> int:
        return multiple * int(rng.integers(low, high + 1))

    def case(name: str, network: str, optimizer: str, autocast: str | None = None, **options) -> Case:
        sizes = {
            "images": {"width": 32, "depth": between(4, 5), "side": between(10, 14, 8), "batch": between(4, 7, 16)},
            "table": {"width": between(14, 18, 128), "depth": between(7, 9), "batch": between(12, 18, 16)},
            "text": {"width": 256, "depth": between(5, 6), "side": between(15, 18, 8), "batch": between(20, 28),
                     "vocabulary": between(5, 7, 64)},
        }[network]
        return Case(name, {}, {"network": network, **sizes, "optimizer": optimizer, "autocast": autocast, **options})

    return [
        case("images, SGD with momentum", "images", "sgd", settings={"momentum": 0.9}),
        case("a table of numbers, AdamW", "table", "adamw"),
        case("a table, AdamW with the biases in a parameter group without weight decay", "table", "adamw", groups=True),
        case("a table, AdamW with foreach=False", "table", "adamw", settings={"foreach": False}),
        case("text, with the weights of the last layer tied to the first's, AdamW", "text", "adamw"),
        case("images in mixed precision, AdamW", "images", "adamw", "float16"),
        case("a table, the first half of the layers frozen, AdamW", "table", "adamw", trained="last half"),
        case("a table in mixed precision, plain SGD", "table", "sgd", "float16", batch=between(60, 80, 16)),
        case("a table, AdamW with fused=True", "table", "adamw", settings={"fused": True}),
        case("a table, all of it in bfloat16, Adam with amsgrad=True", "table", "adam", half=True,
             settings={"amsgrad": True}),
        case("text in mixed precision, all but the biases frozen, AdamW", "text", "adamw", "bfloat16", trained="biases"),
        case("a table of very many columns, AdamW", "table", "adamw", width=between(2, 3, 128), depth=2,
             columns=between(14, 18, 1024), batch=between(7, 9, 256)),
        case("a table with dropout, plain SGD", "table", "sgd", dropout=0.2, width=1536, batch=between(60, 80, 16)),
        case("a table with dropout, in evaluation mode, plain SGD", "table", "sgd", dropout=0.2, width=1536,
             batch=between(60, 80, 16), evaluating=True),
        case("images in bfloat16, the norms in float32, plain SGD", "images", "sgd", half="all but the norms"),
        case("a table with a single row, SGD with momentum", "table", "sgd", settings={"momentum": 0.9}, batch=1),
    ]
