"""Lesson 04: right and fast answers that are not what the reference solution does, and wrong ones with what is said of
them."""

import copy

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from . import augmenting, measuring_workers, prefetching

# -- input_bound --------------------------------------------------------------------------------------

WORK = ("kernel", "memcpy", "memset")
HOST = ("annotation", "op")


def parts(trace):
    """(start, end, blocks, work)."""
    steps = [s for s in trace.spans if s.category in HOST and s.name.startswith("ProfilerStep#")]
    blocks = [s for s in trace.spans if s.category in HOST and s.name.startswith("enumerate(DataLoader)#")
              and (not steps or s.thread == steps[0].thread)]
    spans = steps or trace.spans
    work = [s for s in trace.spans if s.category in WORK]
    return min(s.start_us for s in spans), max(s.end_us for s in spans), blocks, work


def by_cuts(trace):
    start, end, blocks, work = parts(trace)
    cuts = sorted({start, end, *(t for s in [*blocks, *work] for t in (s.start_us, s.end_us) if start < t < end)})
    idle = sum(right - left for left, right in zip(cuts, cuts[1:])
               if any(s.start_us <= left and s.end_us >= right for s in blocks)
               and not any(s.start_us <= left and s.end_us >= right for s in work))
    return idle / (end - start)


def by_counting(trace):
    start, end, blocks, work = parts(trace)
    changes = []
    for place, spans in enumerate((blocks, work)):
        for s in spans:
            changes += [(min(max(s.start_us, start), end), 1, place), (min(max(s.end_us, start), end), -1, place)]
    depth, since, idle = [0, 0], start, 0.0
    for at, change, place in sorted(changes):
        if depth[0] > 0 and depth[1] == 0:
            idle += at - since
        depth[place] += change
        since = at
    return idle / (end - start)


def gaps_of_the_device(trace):
    start, end, blocks, work = parts(trace)
    idle, reached, found = [], start, []
    for s in work:
        idle += [(reached, min(s.start_us, end))] if s.start_us > reached else []
        reached = max(reached, s.end_us)
    idle += [(reached, end)] if reached < end else []
    last = start
    for block in blocks:
        since = max(block.start_us, last)
        found += [min(b, block.end_us) - max(a, since) for a, b in idle if b > since and a < block.end_us]
        last = max(last, block.end_us)
    return sum(each for each in found if each > 0) / (end - start)


# -- to_device ----------------------------------------------------------------------------------------


def by_tree_map(batch, device):
    def move(value):
        return pinned(value).to(device, non_blocking=True) if isinstance(value, torch.Tensor) else value

    return tree_map(move, batch)


def pinned(tensor):
    return tensor.pin_memory() if tensor.device.type == "cpu" else tensor


def with_an_empty_one(batch, device):
    if isinstance(batch, torch.Tensor):
        if batch.device.type == device.type:
            return batch
        source = batch if batch.is_pinned() else torch.empty_like(batch, pin_memory=True).copy_(batch)
        return torch.empty_like(batch, device=device).copy_(source, non_blocking=True)
    return other_parts(with_an_empty_one, batch, device)


def other_parts(move, batch, device):
    if isinstance(batch, dict):
        moved = copy.copy(batch)
        for key, value in batch.items():
            moved[key] = move(value, device)
        return moved
    if isinstance(batch, tuple) and type(batch) is not tuple:
        return batch._make(move(value, device) for value in batch)
    if isinstance(batch, (list, tuple)):
        return type(batch)([move(value, device) for value in batch])
    return batch


def flat(batch, device):
    leaves, form = tree_flatten(batch)
    return tree_unflatten([pinned(leaf).to(device=device, non_blocking=True) if torch.is_tensor(leaf) else leaf
                           for leaf in leaves], form)


# -- prepare ------------------------------------------------------------------------------------------


def on_the_device(images, mean, std):
    return (images.to(mean.device, non_blocking=True) / 255 - mean[:, None, None]) / std[:, None, None]


def one_factor(images, mean, std):
    x = images.to(mean.device, non_blocking=True)
    scale, shift = 1 / (255 * std), -mean / std
    return x * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)


def in_place(images, mean, std):
    x = images.to(device=mean.device, non_blocking=True).to(mean.dtype)
    return x.div_(255).sub_(mean[None, :, None, None]).div_(std[None, :, None, None])


OTHER_ROUTES = {
    "input_bound": [by_cuts, by_counting, gaps_of_the_device],
    "to_device": [by_tree_map, with_an_empty_one, flat],
    "prepare": [on_the_device, one_factor, in_place],
}


# -- wrong --------------------------------------------------------------------------------------------


def all_idle(trace):
    start, end, _, work = parts(trace)
    return by_cuts_of(start, end, work)


def by_cuts_of(start, end, work):
    covered, reached = 0.0, start
    for s in work:
        covered += max(0.0, min(s.end_us, end) - max(s.start_us, reached))
        reached = max(reached, min(s.end_us, end))
    return 1 - covered / (end - start)


def without_overlap(trace):
    start, end, blocks, work = parts(trace)
    idle = sum(b.end_us - b.start_us for b in blocks) - sum(
        max(0, min(b.end_us, w.end_us) - max(b.start_us, w.start_us)) for b in blocks for w in work)
    return idle / (end - start)


def kernels_alone(trace):
    trace = type(trace)([e for e in trace.events if e.get("cat") not in ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset")])
    return by_cuts(trace)


def whole_trace(trace):
    start, end, blocks, work = parts(trace)
    share = by_cuts(trace) * (end - start)
    return share / (max(s.end_us for s in trace.spans) - min(s.start_us for s in trace.spans))


def any_thread(trace):
    steps = [s for s in trace.spans if s.category in HOST and s.name.startswith("ProfilerStep#")]
    spans = steps or trace.spans
    start, end = min(s.start_us for s in spans), max(s.end_us for s in spans)
    blocks = [s for s in trace.spans if s.category in HOST and s.name.startswith("enumerate(DataLoader)")]
    work = [s for s in trace.spans if s.category in WORK]
    return by_cuts_of(start, end, work) - by_cuts_of(start, end, sorted([*work, *blocks], key=lambda s: s.start_us))


def idle_in(trace, blocks):
    start, end, _, work = parts(trace)
    return by_cuts_of(start, end, work) - by_cuts_of(start, end, sorted([*work, *blocks], key=lambda s: s.start_us))


def one_thread(trace):
    blocks = parts(trace)[2]
    return idle_in(trace, [s for s in blocks if s.thread == blocks[0].thread])


def by_similar_names(trace):
    threads = {s.thread for s in trace.spans if s.name.startswith("ProfilerStep#")}
    return idle_in(trace, [s for s in trace.spans if s.category in HOST and "enumerate(DataLoader)#" in s.name
                           and (not threads or s.thread in threads)])


def pageable(batch, device):
    return tree_map(lambda v: v.to(device, non_blocking=True) if isinstance(v, torch.Tensor) else v, batch)


def waits_in_the_end(batch, device):
    moved = by_tree_map(batch, device)
    getattr(torch, device.type).synchronize()
    return moved


def a_list_for_a_tuple(batch, device):
    if isinstance(batch, torch.Tensor):
        return pinned(batch).to(device, non_blocking=True)
    if isinstance(batch, dict):
        return type(batch)((key, a_list_for_a_tuple(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        return [a_list_for_a_tuple(value, device) for value in batch]
    return batch


def a_named_tuple_of_one(batch, device):
    if isinstance(batch, torch.Tensor):
        return pinned(batch).to(device, non_blocking=True)
    if isinstance(batch, dict):
        return type(batch)((key, a_named_tuple_of_one(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        return type(batch)([a_named_tuple_of_one(value, device) for value in batch])
    return batch


def a_dict_of_its_type(batch, device):
    if isinstance(batch, torch.Tensor):
        return pinned(batch).to(device, non_blocking=True)
    if isinstance(batch, dict):
        return type(batch)({key: a_dict_of_its_type(value, device) for key, value in batch.items()})
    return other_parts(a_dict_of_its_type, batch, device)


def into_the_batch(batch, device):
    if isinstance(batch, dict):
        for key, value in batch.items():
            batch[key] = into_the_batch(value, device)
        return batch
    if isinstance(batch, list):
        batch[:] = [into_the_batch(value, device) for value in batch]
        return batch
    return other_parts(into_the_batch, batch, device) if not isinstance(batch, torch.Tensor) else (
        pinned(batch).to(device, non_blocking=True))


def one_buffer(batch, device, buffers={}):
    """One pinned buffer for all tensors of a shape and dtype: overwritten while its copy is under way."""
    if isinstance(batch, torch.Tensor):
        key = batch.shape, batch.dtype
        if key not in buffers:
            buffers[key] = torch.empty(batch.shape, dtype=batch.dtype).pin_memory()
        return buffers[key].copy_(batch).to(device, non_blocking=True)
    return other_parts(lambda value, device: one_buffer(value, device, buffers), batch, device)


def on_another_stream(batch, device):
    streams = getattr(torch, device.type)
    with streams.stream(streams.Stream()):
        return by_tree_map(batch, device)


def whatever_can_be_iterated(batch, device):
    if isinstance(batch, (torch.Tensor, dict)) or hasattr(batch, "_fields") or not hasattr(batch, "__iter__"):
        return by_tree_map(batch, device)
    return type(batch)([whatever_can_be_iterated(part, device) for part in batch])


def half_way(images, mean, std):
    x = images.float().pin_memory().to(mean.device, non_blocking=True) / 255
    return (x - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)


def as_in_the_first_call(images, mean, std, kept={}):
    return on_the_device(images, *kept.setdefault((mean.shape, mean.dtype), (mean, std)))


def beside_the_loop(images, mean, std):
    side = torch.Stream(mean.device)
    with side:
        found = on_the_device(images, mean, std)
    torch.accelerator.current_stream().wait_stream(side)
    return found


def minus_in_bytes(images, mean, std):
    there = images.to(mean.device) - (mean * 255).to(torch.uint8).view(-1, 1, 1)
    return there / 255 / std.view(-1, 1, 1)


def moved_and(change):
    return lambda batch, device: tree_map(change, by_tree_map(batch, device))


def idle_us(trace):
    start, end, _, _ = parts(trace)
    return by_cuts(trace) * (end - start)


WRONG = [
    ("input_bound", idle_us, "in µs: divide by the steps' time"),
    ("to_device", moved_and(lambda v: v.int() if torch.is_tensor(v) and v.dtype == torch.int64 else v), "int64 became int32"),
    ("to_device", lambda batch, device: moved_and(lambda v: torch.tensor(v, device=device) if type(v) in (int, float) else v)(batch, device),
     "A number became a tensor"),
    ("to_device", moved_and(lambda v: v.t() if torch.is_tensor(v) and v.dim() == 2 else v), "was transposed"),
    ("to_device", lambda batch, device: [part.to(device) for part in batch], "took a tensor apart"),
    ("to_device", lambda batch, device: (by_tree_map(part, device) for part in batch), "a generator"),
    ("prepare", as_in_the_first_call, "Do you keep something from an earlier call?"),
    ("prepare", beside_the_loop, "A race"),
    ("prepare", minus_in_bytes, "10 − 20 is 246"),
    ("prepare", lambda images, mean, std: on_the_device(images, mean, std.sqrt()), "already a root"),
    ("prepare", lambda images, mean, std: (images.to(mean.device) / 255 - 255 * mean.view(-1, 1, 1)) / std.view(-1, 1, 1), "one of the two"),
    ("prepare", lambda images, mean, std: on_the_device(images, mean, std).round(decimals=2), "You rounded"),
    ("prepare", lambda images, mean, std: (images.to(mean.device) / 127.5 - 1 - mean.view(-1, 1, 1)) / std.view(-1, 1, 1), "−1 … 1"),
    ("input_bound", all_idle, "also idle if the host is slow to launch"),
    ("input_bound", without_overlap, "merge first"),
    ("input_bound", lambda trace: 0.9 * by_cuts(trace), "Which of these differs in your version?"),
    ("input_bound", kernels_alone, "A copy or a memset is work of the GPU too"),
    ("input_bound", whole_trace, "counts only where no step is marked"),
    ("input_bound", one_thread, "Where no step is marked, the loader's blocks of all threads count"),
    ("input_bound", by_similar_names, "is recognised by the beginning of its name"),
    ("input_bound", any_thread, "Another thread has its own loader"),
    ("input_bound", lambda trace: 100 * by_cuts(trace), "in per cent"),
    ("input_bound", lambda trace: by_cuts(trace) > 0.5, "not whether it is large"),
    ("input_bound", lambda trace: round(by_cuts(trace), 3), "wrong"),
    ("input_bound", lambda trace: None, "return"),
    ("input_bound", lambda trace: 1 - by_cuts(trace), "1 minus the right share"),
    ("to_device", lambda batch, device: batch, "on the cpu still"),
    ("to_device", lambda batch, device: batch.pin_memory().to(device, non_blocking=True), "AttributeError"),
    ("to_device", a_list_for_a_tuple, "A tuple comes back as another type"),
    ("to_device", a_named_tuple_of_one, "TypeError"),
    ("to_device", a_dict_of_its_type, "first argument must be callable"),
    ("to_device", into_the_batch, "it has changed `batch`"),
    ("to_device", lambda batch, device: tree_map(lambda v: v.pin_memory().to(device, non_blocking=True) if torch.is_tensor(v) else v, batch), "raised"),
    ("to_device", one_buffer, "A race"),
    ("to_device", on_another_stream, "A race"),
    ("to_device", whatever_can_be_iterated, "A text's parts are texts again"),
    ("to_device", lambda batch, device: tree_map(lambda v: torch.as_tensor(v).to(device) if not isinstance(v, str) else v, by_tree_map(batch, device)), "A number became a tensor"),
    ("to_device", lambda batch, device: tree_map(lambda v: v.float() if isinstance(v, torch.Tensor) else v, by_tree_map(batch, device)), "a copy does not change the dtype"),
    ("prepare", lambda images, mean, std: on_the_device(images, mean, std).cpu(), "stay on the device"),
    ("prepare", lambda images, mean, std: on_the_device(images, mean, std).half(), "dtype"),
    ("prepare", lambda images, mean, std: images.to(mean.device, non_blocking=True) / 255, "The mean and `std` are not used"),
    ("prepare", lambda images, mean, std: (images.to(mean.device, non_blocking=True) - mean.view(-1, 1, 1)) / std.view(-1, 1, 1), "divide by 255 first"),
    ("prepare", lambda images, mean, std: (images.to(mean.device) / 255 - mean) / std, "dimensions of 1 at its end"),
    ("prepare", lambda images, mean, std: on_the_device(images, mean.mean().expand(len(mean)), std), "is wrong"),
    ("prepare", lambda images, mean, std: on_the_device(images // 2 * 2, mean, std), "elements differ"),
    ("prepare", lambda images, mean, std: on_the_device(images, (255 * mean).round() / 255, std), "Your channel 0 is"),
    ("prepare", lambda images, mean, std: on_the_device(images.permute(0, 2, 3, 1).permute(0, 3, 1, 2)[:, :3], mean, std), "must match"),
    ("prepare", lambda images, mean, std: on_the_device(images, mean, std)[0], "the shape (2, 3, 5, 7) is wanted"),
]

for answers in (measuring_workers, augmenting, prefetching):
    OTHER_ROUTES |= answers.OTHER_ROUTES
    WRONG += answers.WRONG
