"""What a GPU's kernels are for, by their names: PyTorch's, cuBLAS's, cuDNN's, CUTLASS's, CUB's, Triton's, and the virtual
GPU's, which are named after them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from .communication import is_communication
from .steps import launches_by_correlation
from .trace import Span
from .waits import enclosing

COPIES, COMMUNICATION, OPTIMIZER, OTHER = "copies", "communication", "optimizer", "other"
# The first pattern that is found wins.
_KINDS = {
    "attention": "fmha|flash|attention",
    "convolutions": r"conv|fprop|dgrad|wgrad|winograd|implicit_?gemm|scudnn|cutlass\w*cudnn|nchwtonhwc|nhwctonchw|"
                    "computeoffsets",
    "normalisation": "(batch|layer|group|rms)_?norm|bn_(fw|bw)|norm_(forward|backward)|rowwisemoments|gammabeta",
    "indexing and sorting": "sort|scan|index|indices|gather|scatter|embedding|nonzero|unique|topk|select|histogram|"
                            "compactinit|permute_|compute_cuda",
    "reductions and losses": "softmax|loss|reduc|triton_(red|per)_",
    "elementwise": "elementwise|pointwise|fill|catarray|pool|dropout|distribution|multi_tensor_apply|triton_poi_",
    "matrix products": "gemm|gemv|cutlass|cublas|splitk|nvjet|triton_tem_",
}
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _KINDS.items()}
# In the name of a CUDA kernel, a whole C++ signature: its function, and what PyTorch's general kernels compute.
_FUNCTION = re.compile(r"(?:^std::enable_if<.*?>::type )?[\w:]*?(\w+)(?:[<(]|$)")
_COMPUTES = re.compile(r"\w*[Ff]unctor\w*|\w+(?=_kernel_(?:cuda|impl)|_cuda_kernel|_kernel[<(])|\w*Norm\w*Ops?(?=<)"
                       r"|cutlass_\d\w+")
OPTIMIZER_STEP = "Optimizer.step#"  # what PyTorch records around an optimizer's step, before its class's name
OPTIMIZER_MARK = "gapless: optimizer.step"  # what a recording of ours puts there


def kinds_of(work: Sequence[Span], spans: Iterable[Span]) -> list[str]:
    """What each span of the device's ``work`` is for: ``copies``, ``communication``, ``optimizer`` (launched in an
    optimizer's ``step()``), ``convolutions`` and so on, or ``other``. ``spans``: those of the trace."""
    spans = list(spans)
    launches = launches_by_correlation(spans)
    in_optimizer = _within_optimizers(spans)
    kinds = []
    for span in work:
        if span.category != "kernel":
            kinds.append(COPIES)
        elif is_communication(span):
            kinds.append(COMMUNICATION)
        else:
            launch = launches.get(span.args.get("correlation"))
            kinds.append(OPTIMIZER if launch is not None and id(launch) in in_optimizer else kind_of_name(span.name))
    return kinds


@lru_cache(maxsize=4096)
def kind_of_name(name: str) -> str:
    """What a kernel of this name computes. Its function's name decides, its template's arguments only where that tells
    nothing: ``vectorized_elementwise_kernel<4, …nll_loss…>`` is elementwise."""
    name = name.replace("(anonymous namespace)::", "").lower()
    for text in (re.split(r"[<(]", name, maxsplit=1)[0], name):
        for kind, pattern in _PATTERNS.items():
            if pattern.search(text):
                return kind
    return OTHER


def _within_optimizers(spans: list[Span]) -> set[int]:
    """The ids of the runtime calls inside an optimizer's ``step()``, on its thread."""
    blocks = [span for span in spans
              if span.category in ("annotation", "op") and span.name.startswith((OPTIMIZER_STEP, OPTIMIZER_MARK))]
    found: set[int] = set()
    for thread in {block.thread for block in blocks}:
        calls = [span for span in spans if span.category == "runtime" and span.thread == thread]
        around = enclosing([block for block in blocks if block.thread == thread], calls)
        found |= {id(call) for call in calls if around[call]}
    return found


def readable_name(kernel: str) -> str:
    """A kernel's name without the sizes of its tiles; of a C++ signature what tells it from others:
    ``vectorized_elementwise_kernel (MulFunctor)``."""
    function = _FUNCTION.match(kernel.replace("(anonymous namespace)::", "").removeprefix("void "))
    if function is None or not ("::" in kernel or "<" in kernel):
        return kernel.partition("_tilesize")[0]
    computes = _COMPUTES.findall(function.string[function.end():])
    return function[1] + (f" ({computes[-1]})" if computes else "")
