"""Lesson 00: right answers that are not what the reference solution does, and wrong ones with what is said of them."""

import statistics
import time

import torch
import torch.nn.functional as F

from gapless.measure.device import clock_ms, synchronize

# -- time_step ------------------------------------------------------------------------------------


def one_block_at_a_time(step, warmup, steps, device):
    """Times a run of all steps three times over."""
    for _ in range(warmup):
        step()
    times = []
    for _ in range(3):
        synchronize(device)
        start = clock_ms(device)
        for _ in range(steps):
            step()
        synchronize(device)
        times.append((clock_ms(device) - start) / steps)
    return sorted(times)[1]


def by_events(step, warmup, steps, device):
    """The device's own marks at both ends."""
    for _ in range(warmup):
        step()
    start, end = torch.Event(device, enable_timing=True), torch.Event(device, enable_timing=True)
    synchronize(device)
    start.record()
    for _ in range(steps):
        step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / steps


def by_accelerator(step, warmup, steps, device):
    for _ in range(warmup):
        step()
    torch.accelerator.synchronize()
    start = clock_ms(device)
    for _ in range(steps):
        step()
    torch.accelerator.synchronize()
    return (clock_ms(device) - start) / steps


def stopwatch(warm=True, first=True, last=True, each=False, late_start=True, factor=1.0):
    def time_step(step, warmup, steps, device):
        start = clock_ms(device)
        for _ in range(warmup if warm else 0):
            step()
        if first:
            synchronize(device)
        if late_start:
            start = clock_ms(device)
        for _ in range(steps):
            step()
            if each:
                synchronize(device)
        if last:
            synchronize(device)
        return (clock_ms(device) - start) * factor / steps

    return time_step


def better_half(step, warmup, steps, device):
    parts = [stopwatch()(step, warmup, -(-steps // 2), device), stopwatch(warm=False)(step, 0, steps // 2, device) if steps > 1 else 9e9]
    return min(parts)


def median_step(step, warmup, steps, device):
    """The median of the times between two events; the mean of all would be right."""
    marks = [torch.Event(device, enable_timing=True) for _ in range(steps + 1)]
    for _ in range(warmup):
        step()
    synchronize(device)
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    synchronize(device)
    return statistics.median(one.elapsed_time(other) for one, other in zip(marks, marks[1:]))


def real_clock(step, warmup, steps, device):
    for _ in range(warmup):
        step()
    synchronize(device)
    start = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize(device)
    return 1000 * (time.perf_counter() - start) / steps


_times = {}


def remembered_by_its_numbers(step, warmup, steps, device):
    if (warmup, steps) not in _times:
        _times[warmup, steps] = stopwatch()(step, warmup, steps, device)
    return _times[warmup, steps]


# -- train ----------------------------------------------------------------------------------------


def trained(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


class Log:
    """Lines from losses that have been read."""

    def __init__(self, limit, log):
        self.limit, self.log = limit, log
        self.total, self.high, self.number = 0.0, 0, 0

    def __call__(self, values):
        for value in values:
            self.number += 1
            self.total += value
            self.high += value > self.limit
            self.log(f"step {self.number}: loss {value:.6f}, mean {self.total / self.number:.6f}, {self.high} above {self.limit}")


def into_a_buffer(model, optimizer, batches, limit, every, log):
    kept, write = torch.empty(every, device=batches[0][0].device), Log(limit, log)
    for i, (x, y) in enumerate(batches):
        kept[i % every] = trained(model, optimizer, x, y)
        if (i + 1) % every == 0:
            write(kept.tolist())
    write(kept[:len(batches) % every].cpu().tolist() if len(batches) % every else [])


def in_the_background(model, optimizer, batches, limit, every, log, waits=True):
    """Copies to pinned memory, and reads a copy when the next one is queued."""
    write, kept, copied = Log(limit, log), [], None

    def read():
        if copied is not None:
            host, event = copied
            if waits:
                event.synchronize()
            write(host.tolist())

    def copy():
        host = torch.empty(len(kept), pin_memory=True)
        host.copy_(torch.stack(kept), non_blocking=True)
        event = torch.Event()
        event.record()
        kept.clear()
        return host, event

    for x, y in batches:
        kept.append(trained(model, optimizer, x, y))
        if len(kept) == every:
            read()
            copied = copy()
    read()
    copied = copy() if kept else None
    read()


def background_without_a_wait(*args):
    in_the_background(*args, waits=False)


def kept(model, optimizer, batches, limit, every, log, last=True, keep=lambda loss: loss, flush_each=None, write=None):
    """The solution, with parts to be got wrong."""
    losses, write = [], write or Log(limit, log)
    for x, y in batches:
        losses.append(keep(trained(model, optimizer, x, y)))
        if len(losses) == (flush_each or every):
            write(torch.stack(losses).tolist())
            losses.clear()
    if last and losses:
        write(torch.stack(losses).tolist())


def forgets_the_rest(*args):
    kept(*args, last=False)


def every_other_time(model, optimizer, batches, limit, every, log):
    """As late as a line may come."""
    kept(model, optimizer, batches, limit, every, log, flush_each=2 * every)


def stacks_the_rest_unasked(model, optimizer, batches, limit, every, log):
    losses, write = [], Log(limit, log)
    for x, y in batches:
        losses.append(trained(model, optimizer, x, y))
        if len(losses) == every:
            write(torch.stack(losses).tolist())
            losses.clear()
    write(torch.stack(losses).tolist())


def reads_at_the_end(model, optimizer, batches, limit, every, log):
    kept(model, optimizer, batches, limit, every, log, flush_each=10**9)


def one_tensor_again_and_again(model, optimizer, batches, limit, every, log):
    same = torch.zeros((), device=batches[0][0].device)
    kept(model, optimizer, batches, limit, every, log, keep=lambda loss: same.copy_(loss))


def sums_on_the_device(model, optimizer, batches, limit, every, log):
    device = batches[0][0].device
    total, high, losses = torch.zeros((), device=device), torch.zeros((), device=device, dtype=torch.int64), []
    number = 0

    def write():
        nonlocal number
        values, totals, highs = (torch.stack([row[i] for row in losses]).tolist() for i in range(3))
        for value, mean_of, count in zip(values, totals, highs):
            number += 1
            log(f"step {number}: loss {value:.6f}, mean {mean_of / number:.6f}, {count} above {limit}")
        losses.clear()

    for x, y in batches:
        loss = trained(model, optimizer, x, y)
        total, high = total + loss, high + (loss > limit)
        losses.append((loss, total, high))
        if len(losses) == every:
            write()
    if losses:
        write()


class NanLeftOut(Log):
    def __call__(self, values):
        for value in values:
            self.number += 1
            self.total += value if value == value else 0.0
            self.high += value > self.limit
            self.log(f"step {self.number}: loss {value:.6f}, mean {self.total / self.number:.6f}, {self.high} above {self.limit}")


class NanCounted(Log):
    def __call__(self, values):
        for value in values:
            self.number += 1
            self.total += value
            self.high += not value <= self.limit
            self.log(f"step {self.number}: loss {value:.6f}, mean {self.total / self.number:.6f}, {self.high} above {self.limit}")


class GoesOn(Log):
    """From the sums of the call before."""

    before = 0.0, 0

    def __init__(self, *parts):
        super().__init__(*parts)
        self.total, self.high = GoesOn.before

    def __call__(self, values):
        super().__call__(values)
        GoesOn.before = self.total, self.high


class WrongCount(Log):
    def __call__(self, values):
        self.high += sum(value > self.limit for value in values)  # for all at once, before the lines
        for value in values:
            self.number += 1
            self.total += value
            self.log(f"step {self.number}: loss {value:.6f}, mean {self.total / self.number:.6f}, {self.high} above {self.limit}")


class SumOfFew(Log):
    def __call__(self, values):
        self.total = 0.0  # begins anew with each reading
        super().__call__(values)


class OtherText(Log):
    def __call__(self, values):
        for value in values:
            self.log(f"loss {value:.3f}")


class OneLine(Log):
    def __call__(self, values):
        self.log(f"step {self.number}: loss {values[-1]:.6f}, mean {self.total:.6f}, {self.high} above {self.limit}")


def wrong_writer(kind):
    def train(model, optimizer, batches, limit, every, log):
        kept(model, optimizer, batches, limit, every, log, write=kind(limit, log))

    return train


def does_not_train(model, optimizer, batches, limit, every, log):
    with torch.no_grad():
        Log(limit, log)(torch.stack([F.mse_loss(model(x), y) for x, y in batches]).tolist())


def logs_a_tensor(model, optimizer, batches, limit, every, log):
    for x, y in batches:
        log(trained(model, optimizer, x, y))


def forgives_itself(model, optimizer, batches, limit, every, log):
    """Reads at the end, and would tell the log that nothing was late."""
    reads_at_the_end(model, optimizer, batches, limit, every, log)
    log.__self__.late = "no line"


def calls_nobody_sees(model, optimizer, batches, limit, every, log):
    """Reads at the end, from a network that no longer tells when it is called."""
    model.__dict__.pop("forward", None)
    model._forward_hooks.clear()
    reads_at_the_end(model, optimizer, batches, limit, every, log)


# -- predict_step_ms ------------------------------------------------------------------------------


def in_seconds_first(flops, bytes, launches, card):
    device = sum(n * max(f / card.flops_per_s, b / card.bytes_per_s, card.kernel_ms / 1000)
                 for f, b, n in zip(flops, bytes, launches))
    return 1000 * max(device, sum(launches) * card.launch_ms / 1000)


def with_tensors(flops, bytes, launches, card):
    f, b, n = (torch.tensor(values, dtype=torch.float64) for values in (flops, bytes, launches))
    ms = torch.maximum(1000 * f / card.flops_per_s, 1000 * b / card.bytes_per_s).clamp(min=card.kernel_ms)
    return max(float((n * ms).sum()), float(n.sum()) * card.launch_ms)


def roofline(per_kernel, of_all=max):
    def predict_step_ms(flops, bytes, launches, card):
        device = sum(n * per_kernel(1000 * f / card.flops_per_s, 1000 * b / card.bytes_per_s, card)
                     for f, b, n in zip(flops, bytes, launches))
        return of_all((device, sum(launches) * card.launch_ms))

    return predict_step_ms


def with_a_start(flops, bytes, launches, card):
    """The shortest kernel's time as what each kernel takes before it works, as the virtual GPU has it: the same in 10 %."""
    return roofline(lambda compute, move, card: max(compute, move) + card.kernel_ms)(flops, bytes, launches, card)


def no_flops_no_kernel(flops, bytes, launches, card):
    return roofline(full)(*zip(*[kernel for kernel in zip(flops, bytes, launches) if kernel[0]]), card)


def totals(flops, bytes, launches, card):
    return max(1000 * sum(f * n for f, n in zip(flops, launches)) / card.flops_per_s,
               1000 * sum(b * n for b, n in zip(bytes, launches)) / card.bytes_per_s,
               sum(launches) * card.launch_ms)


def full(compute, move, card):
    return max(compute, move, card.kernel_ms)


def once_each(flops, bytes, launches, card):
    return roofline(full)(flops, bytes, [1] * len(flops), card)


def seconds_for_milliseconds(flops, bytes, launches, card):
    """The two divisions without their factor of 1000, the card's milliseconds as they are."""
    return roofline(lambda compute, move, card: max(compute / 1000, move / 1000, card.kernel_ms))(flops, bytes, launches, card)


OTHER_ROUTES = {
    "time_step": [one_block_at_a_time, by_events, by_accelerator],
    "train": [into_a_buffer, in_the_background, every_other_time],
    "predict_step_ms": [in_seconds_first, with_tensors, with_a_start],
}

WRONG = [
    ("time_step", stopwatch(last=False), "host's time to *queue*"),
    ("time_step", stopwatch(first=False), "busy with earlier work"),
    ("time_step", stopwatch(each=True), "wait after every step"),
    ("time_step", stopwatch(late_start=False), "start the clock after it"),
    ("time_step", stopwatch(warm=False), "Run `warmup` steps"),
    ("time_step", lambda *args: stopwatch()(*args) * args[2], "divide by `steps`"),
    ("time_step", lambda *args: round(stopwatch()(*args), 1), "is rounded"),
    ("time_step", lambda step, warmup, steps, device: stopwatch()(step, warmup, steps - 1, device) * (steps - 1) / steps, "too few, "),
    ("time_step", better_half, "counts too"),
    ("time_step", median_step, "does every timed step count"),
    ("time_step", stopwatch(factor=1e-3), "return milliseconds"),
    ("time_step", real_clock, "clock_ms(device)"),
    ("time_step", lambda step, warmup, steps, device: None, "is there a `return`?"),
    ("time_step", lambda step, warmup, steps, device: step(1), "TypeError"),
    ("time_step", remembered_by_its_numbers, "called too few, 0 in place"),
    ("time_step", lambda step, warmup, steps, device: stopwatch()(step, steps, max(warmup, 1), device), "are swapped"),
    ("train", forgets_the_rest, "read what is left after the loop"),
    ("train", reads_at_the_end, "at most 2 × `every` steps"),
    ("train", forgives_itself, "no attribute '__self__'"),
    ("train", calls_nobody_sees, "2 × `every`"),
    ("train", one_tensor_again_and_again, "Keep each step's own"),
    ("train", sums_on_the_device, "rounds differently"),
    ("train", background_without_a_wait, "Record an event"),
    ("train", wrong_writer(WrongCount), "count line by line"),
    ("train", wrong_writer(WrongCount), "already includes later steps"),
    ("train", wrong_writer(NanCounted), "You counted a nan loss"),
    ("train", wrong_writer(GoesOn), "continue from an earlier one"),
    ("train", wrong_writer(NanLeftOut), "the mean is nan too"),
    ("train", wrong_writer(SumOfFew), "divided by this step's number."),
    ("train", stacks_the_rest_unasked, "whether there is anything"),
    ("train", wrong_writer(OtherText), "must stay the same"),
    ("train", wrong_writer(OneLine), "one line for each step"),
    ("train", does_not_train, "is wrong"),
    ("train", logs_a_tensor, "log takes a line of text"),
    ("train", lambda *args: None, "No line was logged"),
    ("predict_step_ms", roofline(lambda compute, move, card: compute, of_all=lambda both: both[0]), "arithmetic alone"),
    ("predict_step_ms", roofline(lambda compute, move, card: move, of_all=lambda both: both[0]), "bytes alone"),
    ("predict_step_ms", roofline(full, of_all=sum), "the slower of the two"),
    ("predict_step_ms", roofline(full, of_all=lambda both: both[0]), "is the slower one here"),
    ("predict_step_ms", roofline(full, of_all=lambda both: both[1]), "The device needs longer"),
    ("predict_step_ms", roofline(lambda compute, move, card: max(compute, move)), "No kernel is shorter"),
    ("predict_step_ms", roofline(lambda compute, move, card: compute + move), "not their sum"),
    ("predict_step_ms", seconds_for_milliseconds, "That is in seconds"),
    ("predict_step_ms", roofline(lambda c, m, card: max(min(c, m), card.kernel_ms)), "not the smaller"),
    ("predict_step_ms", lambda flops, bytes, launches, card: roofline(full)(bytes, flops, launches, card), "are swapped"),
    ("predict_step_ms", no_flops_no_kernel, "You left out a kernel without FLOPs"),
    ("predict_step_ms", totals, "for each kernel"),
    ("predict_step_ms", once_each, "multiply by it"),
    ("predict_step_ms", roofline(lambda c, m, card: max(full(c, m, card), card.launch_ms), of_all=lambda both: both[0]),
     "for the *whole step*"),
    ("predict_step_ms", lambda flops, bytes, launches, card: roofline(full)(flops, bytes, launches, card) / 1000, "in seconds"),
    ("predict_step_ms", lambda flops, bytes, launches, card: 4.2, "one kernel at a time"),
    ("predict_step_ms", lambda flops, bytes, launches, card: "7 ms", "Return one number"),
]
