"""What to do about a wait, and the lesson that explains it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..evidence.traces.waits import IN_BACKWARD

# Number of a lesson → its folder among the notebooks.
LESSONS = {
    "00": "00_two_clocks", "01": "01_profiler_tour", "02": "02_masked_loss", "03": "03_metric_collection",
    "04": "04_data_loading", "05": "05_convolutions", "06": "06_launch_overhead", "07": "07_kernel_fusion",
    "08": "08_memory", "09": "09_data_parallel",
}


@dataclass(frozen=True)
class Advice:
    """``why`` the host waits, ``what`` to do about it, the number of the ``lesson``."""

    why: str
    what: str
    lesson: str


_SIZE = "The size of the result depends on values, so the host has to read it."
_NUMBER = "The program asks for a number that the GPU has not computed yet."
# Operator (a pattern, of the whole name) → advice; the first that fits.
_BY_OPERATOR: tuple[tuple[str, Advice], ...] = (
    (r"aten::(nonzero|argwhere|where|index|masked_select|index_put_?)(\.\w+)?",
     Advice(_SIZE, "Keep the shape: `torch.where(mask, x, 0)` with a sum over the mask, a loss's `ignore_index`, or "
            "multiply by the mask.", "02")),
    (r"aten::(_?unique\w*|unique_\w+|bincount|histc)",
     Advice(_SIZE, "Give sizes or limits, or count with `scatter_add_` into a tensor of known size.", "02")),
    (r"aten::repeat_interleave",
     Advice(_SIZE, "Give `output_size=`.", "02")),
    (r"aten::one_hot", Advice("Without a number of classes the largest label is read.", "Give `num_classes=`.", "02")),
    (r"aten::(equal|allclose|is_nonzero)",
     Advice("The answer is a Python bool, which the host has to have.", "Compare on the GPU, add the results up there, and "
            "read them once an epoch.", "03")),
    (r"aten::(masked_fill_?|full|arange|linspace|index_fill_?)",
     Advice("A number on the GPU is asked for as a Python number.", "Use an operator that takes a tensor, such as "
            "`torch.where(mask, value, x)`.", "03")),
    (r"aten::(item|_local_scalar_dense)",
     Advice(_NUMBER, "Add up on the GPU (`total += loss.detach()`), and read it seldom, say every 100 steps.",
            "00")),
)
_BY_KIND = {
    "read-back": Advice(_NUMBER, "Keep it on the GPU, or copy it with `non_blocking=True` and read it a step later.",
                        "00"),
    "device": Advice("The program waits for all work of the GPU.", "Leave `torch.cuda.synchronize()` to measurements; time "
                     "with events.", "00"),
    "stream": Advice("The program waits for all that its stream holds.", "Let another stream wait (`wait_stream`), not the "
                     "host.", "04"),
    "event": Advice("The program waits for an event.", "Wait later, or let a stream wait: `stream.wait_event(event)`.",
                    "04"),
    "launch": Advice("Each launch waits for its kernel.", "Leave `CUDA_LAUNCH_BLOCKING` and other debug aids out.", "06"),
}
_TO_THE_DEVICE = Advice("A copy from pageable memory holds the host until it is done.",
                        "`DataLoader(…, pin_memory=True)` and `.to(device, non_blocking=True)`; a constant is made on the "
                        "GPU, once (`torch.full`, a buffer).", "04")
_PINNED = Advice("The host waits for a copy from pinned memory, which is not "
                 "necessary.", "`.to(device, non_blocking=True)`.", "04")
_TO_THE_HOST = Advice("A copy to the host's memory is waited for.", "Copy less often, or into pinned memory with "
                      "`non_blocking=True`, and look a step later.", "00")
_METRICS = Advice("A metric's library reads a number, or checks its inputs, at each step.", "`validate_args=False`, "
                  "`nan_strategy=\"disable\"`; compute once an epoch.", "03")
_SCALER = Advice("`GradScaler` reads whether a gradient was infinite.", "A fused optimizer (`fused=True`) decides on the "
                 "GPU; bfloat16 needs no scaler.", "05")
_CLIPPING = Advice("Clipping looks whether the norm is finite.", "`clip_grad_norm_(…, error_if_nonfinite=False)`.", "06")
_CLOSURE = Advice("An optimizer that takes a closure (LBFGS) reads numbers at each of its iterations.",
                  "Fewer of them (`max_iter`, `max_eval`), no line search, or an optimizer that needs no closure.", "00")
_SPARSE = Advice("A product with a sparse COO tensor sorts and counts its indices on the way, and waits for that.",
                 "`coalesce()` it once, outside the loop; one that is small, or not very sparse, is faster dense.", "02")
_FREES = Advice("The allocator gives memory back to the driver, which waits.", "Leave `torch.cuda.empty_cache()` out of the "
                "loop; equal sizes from step to step.", "08")

# What stands at the line (a pattern), or in its file's path → advice; the first that fits. More than an operator tells.
_BY_LINE: tuple[tuple[str, Advice], ...] = (
    (r"/transformers/\S*trainer\w*\.py", Advice(
        "The Trainer reads the loss, to look whether it is finite or to log it.",
        "`TrainingArguments(logging_nan_inf_filter=False, logging_steps=100)`.", "00")),
    (r"/(lightning|pytorch_lightning)/", Advice(
        "Lightning reads a number that is logged or shown.",
        "`Trainer(log_every_n_steps=100)`, `self.log(…, prog_bar=False)`, no `.item()` in a step.", "00")),
    (r"\b(Categorical|Bernoulli|Normal|MultivariateNormal|Beta|Dirichlet)\(|/torch/distributions/", Advice(
        "A distribution looks whether its parameters are valid.",
        "`validate_args=False`, or for all of them `torch.distributions.Distribution.set_default_validate_args(False)`.",
        "03")),
    (r"\b(if|while|assert)\b(?!.*\.item\().*(\.(any|all|isnan|isfinite)\(|[<>]=?|==)", Advice(
        "Python can go on only when it knows the answer.",
        "Do it with the mask on the GPU: `torch.where`, or multiply by it; a check of the loss every 100 steps.", "02")),
    (r"\bprint\(|tqdm|set_postfix|set_description|\blogg(er|ing)\b|\b(self|run)\.log\(|wandb|add_scalar", Advice(
        "A number is read to be shown.",
        "Show it every 100 steps; until then keep `loss.detach()`, and no `.item()`.", "00")),
    (r"\bactions?\b|\benvs?\b|\bobs\w*\b|\breward", Advice(
        "The environment runs on the CPU, so each action has to come over.",
        "Many environments a step, so that one copy brings all their actions; or an environment on the GPU.", "00")),
)
_MADE_HERE = Advice("Values of the host are copied from pageable memory, and the host waits until they are.",
                    "Make it on the GPU (`torch.arange`, `torch.full`), once before the loop; or in a `DataLoader` with "
                    "`pin_memory=True`, and `.to(device, non_blocking=True)`.", "04")


def advice(kind: str, operator: str | None, call: str, location: str | None, line: str | None, memory: str = "unknown"
           ) -> Advice:
    """What to do about a wait: its ``kind`` (:class:`gapless.evidence.report.Sync`), operator and runtime ``call``, its
    ``location``, that ``line``'s text, and of a copy the host's ``memory`` (pageable or pinned)."""
    place = location or ""
    if "torchmetrics" in place:
        return _METRICS
    if re.search(r"scaler\.(step|unscale_|update)\b", line or "") or "grad_scaler.py" in place:
        return _SCALER
    if "clip_grad_norm" in (line or ""):
        return _CLIPPING
    if kind == "read-back" and re.search(r"\.step\(\s*(closure=)?[A-Za-z_]\w*\s*\)", line or "") \
            and "sched" not in line:
        return _CLOSURE
    if call.endswith("Free"):
        return _FREES
    for pattern, found in _BY_LINE:
        if kind == "read-back" and (re.search(pattern, line or "") or re.search(pattern, place)):
            return found
    if kind != "launch" and re.fullmatch(r"aten::(mm|addmm|bmm|_sparse_mm|_coalesce|coalesce)(\.\w+)?", operator or ""):
        return _SPARSE  # dense products never wait
    if kind == "copy":
        made = re.search(r"\btorch\.(tensor|as_tensor|from_numpy|FloatTensor|LongTensor)\(|np\.", line or "")
        return _PINNED if memory == "pinned" else _MADE_HERE if made else _TO_THE_DEVICE
    for pattern, found in _BY_OPERATOR:
        if operator and re.fullmatch(pattern, operator):
            return found
    if kind == "read-back" and operator in ("aten::to", "aten::_to_copy", "aten::copy_"):
        return _TO_THE_HOST
    return _BY_KIND.get(kind, _BY_KIND["read-back"])


_KINDS = {"cudaDeviceSynchronize": "device", "cudaStreamSynchronize": "stream", "cudaEventSynchronize": "event"}
_READS = re.compile(r"cpu|item|tolist|numpy")


def advice_for_wait(operator: str, location: str | None, line: str) -> Advice:
    """:func:`advice` where only the operator, or the runtime call, is known and what stands at the line."""
    copies = re.fullmatch(r"aten::(to|_to_copy|copy_)", operator) and not _READS.search(line)
    return advice(_KINDS.get(operator, "copy" if copies else "read-back"), operator, operator, location, line)


# What stands at a line, or in its file's path → what to do about the time that it takes itself; the first that fits.
_BY_HOST_LINE: tuple[tuple[str, str], ...] = (
    (r"\bsleep\(", "It sleeps: leave that out of the loop."),
    (r"\bprint\(|\btqdm\b|\blogg(er|ing)\.|\.write\(|wandb|writer\.add_|\b(self|run)\.log\(",
     "It writes: less often (every 100 steps), and not to a terminal or a network in each."),
    (r"\b(torch|pickle|joblib|json)\.(save|dump)\(|save_pretrained|save_checkpoint",
     "It writes a file while the GPU waits: less often, or from another thread or process, of a copy (`async_save`)."),
    (r"tokenizer|tokenize|encode_batch", "Tokenize once, before the training, or in the workers of a `DataLoader`."),
    (r"\bImage\.open|\bcv2\.|\bPIL\b|imread|decode_|\btransforms?\b|albumentations",
     "Decode and transform in the workers of a `DataLoader` (`num_workers=`), or on the GPU."),
    (r"\bopen\(|\bread(_\w+)?\(|np\.load|requests\.|urlopen|\.recv\(|\.get\(timeout",
     "It reads: in the workers of a `DataLoader`, ahead of the step; once, where it is always the same."),
    (r"\benv\w*\.step\(|\benvs?\b.*\.(step|reset)\(",
     "The environment runs on the CPU: several at once in processes of their own, or one on the GPU."),
    (r"\.acquire\(|\bwith \w*lock\b|\.join\(\)|\.wait\(|\.get\(\)|\.result\(",
     "It waits for another thread or process: let that one be ahead by a few batches."),
    (r"\bsubprocess\.|os\.system|\bPopen\(", "It starts another program in each step."),
    (r"\bgc\.collect\(", "Leave the garbage collector alone in the loop."),
    (r"\bnp\.|numpy|\brandom\.|scipy|pandas",
     "It computes on the CPU: in the workers of a `DataLoader`, or with PyTorch on the GPU."),
)


def host_advice(line: str, path: str) -> str | None:
    """What to do about a line that takes the host's time; None: what stands there does not tell."""
    return next((what for pattern, what in _BY_HOST_LINE if re.search(pattern, line) or re.search(pattern, path)), None)


_MANY = 30  # launches of a line in one step


def launch_advice(line: str, location: str, launches: float) -> str | None:
    """What to do about a line whose operators launch many kernels in each step; None: they are few."""
    if launches < _MANY:
        return None
    many = f"{launches:.0f} launches a step."
    if re.search(r"optim\w*\.step\(|\bopt\.step\(|scaler\.step\(", line):
        return f"{many} `fused=True`, or `foreach=True`, updates many parameters by one kernel."
    if location.endswith(IN_BACKWARD) or ".backward(" in line:
        return f"{many} Fewer operators in the forward pass make fewer here; `torch.compile` merges both."
    return (f"{many} If a loop comes here, put its inputs into one tensor and compute all at once; else `torch.compile` the "
            "function, or replay the step as a CUDA graph.")
