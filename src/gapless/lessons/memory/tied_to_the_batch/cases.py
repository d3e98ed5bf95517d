"""Lesson 08: the networks of which is asked what looks at the whole batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....course.evidence import Case

_SHAPES = {False: (6,), True: (3, 6, 6)}  # of a row, of an image


def tied_cases(seed: int) -> list[Case]:
    """Networks with these modules in a drawn order, and others between them that look at nobody: no name and no picture of a
    network tells more than its modules do."""
    rng = np.random.default_rng(seed)

    def case(name: str, modules: Sequence[str], *, images: bool = False, **more) -> Case:
        chosen = [*modules, *["GELU", "linear"] * int(rng.integers(1, 3))]
        drawn = [chosen[place] for place in rng.permutation(len(chosen))]
        options = {"modules": drawn, "images": images, "ending": [], "uncalled": None, "frozen": False, "evaluating": False,
                   "seed": int(rng.integers(2**31)), **more}
        if options.pop("nested", False):
            options["modules"] = [drawn[:2], [drawn[2:-1]], *drawn[-1:]]
        rows = rng.normal(size=(2 * int(rng.integers(2, 6)), *_SHAPES[images])).astype(np.float32)
        return Case(name, {"rows": rows}, options)

    return [
        case("BatchNorm, and LayerNorm", ["batch norm", "layer norm"]),
        case("no norm", []),
        case("one of two BatchNorms is in evaluation mode", ["batch norm", "batch norm, evaluating"]),
        case("all in evaluation mode", ["batch norm"], evaluating=True),
        case("BatchNorm without statistics, in evaluation mode", ["batch norm without statistics"], evaluating=True),
        case("dropout", ["dropout", "dropout"]),
        case("dropout at the very end", ["layer norm"], ending=["dropout"]),
        case("images, with GroupNorm and InstanceNorm", ["group norm", "instance norm"], images=True),
        case("images, BatchNorm and dropout", ["batch norm", "dropout"], images=True),
        case("modules of one's own", ["centred by the batch", "scaled", "centred by itself"]),
        case("a module that looks at the batch only a little", ["centred a little by the batch", "layer norm"]),
        case("a BatchNorm that is called twice", ["batch norm, twice"]),
        case("a frozen BatchNorm, in training mode", ["batch norm"], frozen=True),
        case("a BatchNorm that is never called", [], uncalled="batch norm"),
        case("blocks within blocks", ["batch norm", "batch norm", "layer norm"], nested=True),
    ]
