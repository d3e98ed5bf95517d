"""Lesson 08, budget, the leak and the search: right answers that are not what the reference solution does, and wrong ones."""

import copy
import gc
import logging
import sys
import weakref

import torch
import torch.nn.functional as F

# -- budget -----------------------------------------------------------------------------------------


def _fixed_parts(model, optimizer):
    weights = sum(each.nbytes for each in model.parameters())
    trained = sum(each.nbytes for each in model.parameters() if each.requires_grad)
    group = optimizer.param_groups[0]
    if isinstance(optimizer, torch.optim.SGD):
        state, temporary = trained * (group["momentum"] > 0), 0
    else:
        state = trained * (3 if group["amsgrad"] else 2)
        temporary = 0 if group["fused"] or group["foreach"] is False else trained
    return weights, sum(each.nbytes for each in model.buffers()), trained, state, temporary


def _answer(model, batch, optimizer, activations):
    weights, buffers, trained, state, temporary = _fixed_parts(model, optimizer)
    there = weights + buffers + state + sum(each.nbytes for each in batch)
    return {"parameters": weights, "buffers": buffers, "gradients": trained, "optimizer state": state,
            "activations": activations, "peak": there + max(activations, trained + temporary)}


def by_saved_tensors(model, batch, optimizer, dtype):
    """Counts what autograd saves, by hooks, instead of asking the device."""
    known = {each.untyped_storage().data_ptr() for each in model.parameters()}

    def saved(rows):
        part = [each[:rows] for each in batch]
        given = known | {each.untyped_storage().data_ptr() for each in batch}
        kept = {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in given:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor.detach()  # a node that saves its own result, itself, would be a cycle

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), \
                torch.autocast(batch[0].device.type, dtype or torch.bfloat16, enabled=dtype is not None):
            loss = model(*part)
        total = sum(kept.values())
        del loss
        return total

    rows = len(batch[0])
    few = min(rows, max(2, rows // 20))
    if few == rows:
        return _answer(model, batch, optimizer, saved(rows))
    one, two = saved(few), saved(2 * few)
    return _answer(model, batch, optimizer, two + (two - one) / few * (rows - 2 * few))


def by_three_batches(model, batch, optimizer, dtype):
    """A straight line through three small batches."""
    device, rows = batch[0].device, len(batch[0])
    counts = sorted({min(rows, max(1, rows // share)) for share in (32, 16, 8)})
    found = []
    for count in counts:
        before = torch.vgpu.memory_allocated() if device.type == "vgpu" else torch.cuda.memory_allocated()
        with torch.autocast(device.type, dtype=dtype or torch.float16, enabled=bool(dtype)):
            loss = model(*(each[:count] for each in batch))
        after = torch.vgpu.memory_allocated() if device.type == "vgpu" else torch.cuda.memory_allocated()
        found.append(after - before)
        del loss
    if len(counts) == 1:
        return _answer(model, batch, optimizer, found[0])
    slope = (found[-1] - found[0]) / (counts[-1] - counts[0])
    return _answer(model, batch, optimizer, found[0] + slope * (rows - counts[0]))


def by_two_batches(few):
    """A straight line through so few rows and twice as many."""
    def budget(model, batch, optimizer, dtype):
        def left(count):
            before = torch.accelerator.memory_allocated()
            with torch.autocast(batch[0].device.type, dtype=dtype or torch.float16, enabled=bool(dtype)):
                loss = model(*(each[:count] for each in batch))
            held = torch.accelerator.memory_allocated() - before
            del loss  # and with it what the forward pass has left
            return held

        at_few = left(few)
        return _answer(model, batch, optimizer, at_few + (left(2 * few) - at_few) / few * (len(batch[0]) - few))

    return budget


def state_by_trying(model, batch, optimizer, dtype):
    """Asks a small optimizer of the same kind for its state."""
    group = {key: value for key, value in optimizer.param_groups[0].items() if key not in ("params", "decoupled_weight_decay")}
    probe = torch.nn.Parameter(torch.zeros(1000, device=batch[0].device, dtype=next(model.parameters()).dtype))
    probe.grad = torch.zeros_like(probe)
    small = type(optimizer)([probe], **group)
    small.step()
    times = sum(value.nbytes for value in small.state[probe].values() if value.numel() > 1) / probe.nbytes
    found = by_three_batches(model, batch, optimizer, dtype)
    _, _, trained, state, _ = _fixed_parts(model, optimizer)
    return {**found, "optimizer state": times * trained, "peak": found["peak"] + times * trained - state}


def four_times(model, batch, optimizer, dtype):
    weights = sum(each.nbytes for each in model.parameters())
    return _answer(model, batch, optimizer, 0) | {"peak": 4.0 * weights, "activations": 0.0}


def twice_if_tied(model, batch, optimizer, dtype):
    found = by_three_batches(model, batch, optimizer, dtype)
    doubled = sum(each.nbytes for name, each in model.named_parameters(remove_duplicate=False))
    return {**found, "parameters": doubled}


def frozen_too(model, batch, optimizer, dtype):
    return by_three_batches(model, batch, optimizer, dtype) | {"gradients": sum(each.nbytes for each in model.parameters())}


def summed(model, batch, optimizer, dtype):
    found = by_three_batches(model, batch, optimizer, dtype)
    return {**found, "peak": sum(value for name, value in found.items() if name != "peak")}


def in_megabytes(model, batch, optimizer, dtype):
    return {name: value / 1e6 for name, value in by_three_batches(model, batch, optimizer, dtype).items()}


def per_row(model, batch, optimizer, dtype):
    before = torch.accelerator.memory_allocated()
    with torch.autocast(batch[0].device.type, dtype=dtype or torch.float16, enabled=bool(dtype)):
        loss = model(*(each[:4] for each in batch))
    kept = torch.accelerator.memory_allocated() - before
    del loss
    return _answer(model, batch, optimizer, kept * len(batch[0]) / min(4, len(batch[0])))


def the_whole_pass(model, batch, optimizer, dtype):
    before = torch.accelerator.memory_allocated()
    with torch.autocast(batch[0].device.type, dtype=dtype or torch.float16, enabled=bool(dtype)):
        loss = model(*batch)
    kept = torch.accelerator.memory_allocated() - before
    loss.backward()
    optimizer.zero_grad()
    return _answer(model, batch, optimizer, kept)


def on_a_copy(model, batch, optimizer, dtype):
    return by_three_batches(copy.deepcopy(model), batch, optimizer, dtype)


def without_the_batch(model, batch, optimizer, dtype):
    found = by_three_batches(model, batch, optimizer, dtype)
    return found | {"peak": found["peak"] - sum(each.nbytes for each in batch)}


def while_evaluating(model, batch, optimizer, dtype):
    """Dropout keeps nothing then; the mode is put back."""
    model.eval()
    found = by_three_batches(model, batch, optimizer, dtype)
    model.train()
    return found


def left_in_evaluation(model, batch, optimizer, dtype):
    found = by_three_batches(model, batch, optimizer, dtype)
    model.eval()
    return found


def run_when_looked_at(model, batch, optimizer, dtype):
    """A dict that runs the step when the function has returned."""
    class Late(dict):
        def items(self):
            return the_whole_pass(model, batch, optimizer, dtype).items()

    return Late()


def with_temporaries(model, batch, optimizer, dtype):
    """Those of ``foreach``, though it may be switched off."""
    found, weights = by_three_batches(model, batch, optimizer, dtype), sum(each.nbytes for each in model.parameters())
    group = optimizer.param_groups[0]
    return found | {"peak": found["peak"] + weights} if group.get("foreach") is False else found


def of_the_first_group(model, batch, optimizer, dtype):
    of_group = sum(each.nbytes for each in optimizer.param_groups[0]["params"])
    share = of_group / sum(each.nbytes for each in model.parameters())
    found = by_three_batches(model, batch, optimizer, dtype)
    return found | {"optimizer state": share * found["optimizer state"]}


_ballast: list[torch.Tensor] = []


def in_the_room_of_ballast(model, batch, optimizer, dtype):
    """The step is run where memory has been held, which no peak tells; and it is held again at the end."""
    _ballast.clear()
    found = the_whole_pass(model, batch, optimizer, dtype)
    _ballast.append(torch.empty(2**30, dtype=torch.uint8, device=batch[0].device))
    return found


# -- the leak ---------------------------------------------------------------------------------------


def epoch(*, keep=lambda prediction: prediction.argmax(1), error_of=str, seen=lambda output: output.detach().abs().mean(),
          look=torch.no_grad, eyes=lambda model: None, begin=lambda model: None, removes=True,
          mean=lambda losses, validation: torch.stack(losses).mean(), loss_of=lambda loss: loss.detach(), finish=lambda: None, catches=ValueError, removed=lambda handle, body: handle.remove()):
    def train_epoch(model, optimizer, batches, validation, every):
        losses, looks, predictions, failures, activity = [], [], [], [], []
        handle = model.body.register_forward_hook(lambda module, args, output: activity.append(seen(output)))
        try:
            for step, (x, y) in enumerate(batches, start=1):
                optimizer.zero_grad()
                begin(model)
                try:
                    prediction = model(x)
                    loss = F.cross_entropy(prediction, y)
                except catches as error:
                    failures.append(error_of(error))
                    continue
                loss.backward()
                optimizer.step()
                losses.append(loss_of(loss))
                predictions.append(keep(prediction))
                if step % every == 0:
                    eyes(model)
                    with look():
                        looks.append(mean([F.cross_entropy(model(vx), vy) for vx, vy in validation], validation))
        finally:
            if removes:
                removed(handle, model.body)
        finish()
        return {"loss": sum(losses), "looks": looks, "activity": activity, "failures": [str(each) for each in failures],
                "predictions": [each.argmax(1) if each.dim() > 1 else each for each in predictions]}

    return train_epoch


def read_at_the_end(model, optimizer, batches, validation, every):
    report = epoch()(model, optimizer, batches, validation, every)
    return {**report, "loss": float(report["loss"]),
            "activity": torch.stack(report["activity"]).tolist() if report["activity"] else []}


def over_all_rows(losses, validation):
    return sum(loss * len(vy) for loss, (_, vy) in zip(losses, validation)) / sum(len(vy) for _, vy in validation)


def context_hook(model, optimizer, batches, validation, every):
    """The hook in a ``with`` block, and a helper whose frame ends with each step."""
    from contextlib import contextmanager

    @contextmanager
    def watched(activity):
        handle = model.body.register_forward_hook(lambda module, args, output: activity.append(output.detach().abs().mean()))
        try:
            yield activity
        finally:
            handle.remove()

    def one(x, y):
        optimizer.zero_grad(set_to_none=True)
        prediction = model(x)
        loss = F.cross_entropy(prediction, y)
        loss.backward()
        optimizer.step()
        return loss.detach(), prediction.detach().argmax(1)

    report = {"loss": 0.0, "looks": [], "predictions": [], "failures": []}
    with watched([]) as activity:
        for step, (x, y) in enumerate(batches, start=1):
            try:
                loss, classes = one(x, y)
            except ValueError as error:
                report["failures"].append(f"{error}")
                continue
            report["loss"] += loss
            report["predictions"].append(classes)
            if step % every == 0:
                with torch.inference_mode():
                    report["looks"].append(sum(F.cross_entropy(model(vx), vy) for vx, vy in validation) / len(validation))
    return {**report, "activity": activity}


def without_traceback(model, optimizer, batches, validation, every):
    """The error itself is kept for the while, its traceback is not."""
    def stripped(error):
        return error.with_traceback(None)

    return epoch(error_of=stripped)(model, optimizer, batches, validation, every)


def looking(in_try=False, after_failed=False):
    """``in_try``: an error in a look counts as a failed batch; ``after_failed``: a failed batch is followed by a look too."""
    def train_epoch(model, optimizer, batches, validation, every):
        report = {"loss": 0.0, "looks": [], "predictions": [], "failures": [], "activity": []}
        handle = model.body.register_forward_hook(
            lambda module, args, output: report["activity"].append(output.detach().abs().mean()))

        def look():
            with torch.no_grad():
                report["looks"].append(sum(F.cross_entropy(model(x), y) for x, y in validation) / len(validation))

        try:
            for step, (x, y) in enumerate(batches, start=1):
                optimizer.zero_grad()
                due, failed = step % every == 0, False
                try:
                    prediction = model(x)
                    loss = F.cross_entropy(prediction, y)
                    loss.backward()
                    optimizer.step()
                    report["loss"] += loss.detach()
                    report["predictions"].append(prediction.argmax(1))
                    if due and in_try:
                        look()
                except ValueError as error:
                    report["failures"].append(str(error))
                    failed = True
                if due and not in_try and (after_failed or not failed):
                    look()
        finally:
            handle.remove()
        return report

    return train_epoch


class _LateZero:
    """Clears the gradients behind each step, and not before it."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def zero_grad(self):
        pass

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def zero_grad_after(model, optimizer, batches, validation, every):
    return epoch()(model, _LateZero(optimizer), batches, validation, every)


def nothing_reported(model, optimizer, batches, validation, every):
    epoch()(model, optimizer, batches, validation, every)


def all_batches_first(model, optimizer, batches, validation, every):
    return epoch()(model, optimizer, list(batches), validation, every)


def weak_list(model, optimizer, batches, validation, every):
    """Weak references hold nothing, and in the end there is nothing."""
    return epoch(keep=lambda prediction: prediction.argmax(1), seen=lambda output: weakref.ref(output))(
        model, optimizer, batches, validation, every)


# -- the search -------------------------------------------------------------------------------------


def _fits(step, batch):
    failed = False
    torch.accelerator.empty_cache()
    for _ in range(2):
        try:
            step(batch)
        except torch.OutOfMemoryError:
            failed = True
        if failed:
            return False
    return True


def _leaks(step):
    sizes = []
    for _ in range(3):
        step(1)
        sizes.append(torch.accelerator.memory_allocated())
    return sizes[2] > sizes[1]


def calling_itself(step, most):
    """A function that refers to itself, and to ``step``: a cycle, which holds no trial."""
    def search(low, high):
        if high - low < 2:
            return low
        middle = min((low + high) // 2, 2 * low)
        return search(middle, high) if _fits(step, middle) else search(low, middle)

    if not _fits(step, 1):
        print("not one fits")
        return 0
    if _leaks(step):
        raise ValueError("it leaks")
    return search(1, most + 1)


def bits(step, most):
    """The answer's binary digits, from the highest."""
    if not _fits(step, 1):
        print("a single row does not fit")
        return 0
    if _leaks(step):
        raise ValueError("the step keeps more with each call")
    answer = 0
    for place in reversed(range(most.bit_length())):
        higher = answer | 1 << place
        if higher <= most and _fits(step, higher):
            answer = higher
    return answer


def warned(step, most):
    import warnings

    if not _fits(step, 1):
        warnings.warn("not one row fits", stacklevel=2)
        return 0
    if _leaks(step):
        raise ValueError("it leaks")
    low, high = 1, most + 1
    while high - low > 1:
        middle = min((low + high) // 2, 2 * low)
        if _fits(step, middle):
            low = middle
        else:
            high = middle
    return low


def cleans_up(step, most):
    """As the reference, with garbage collected, and the cache emptied after each failure too: no harm."""
    gc.collect()

    def fits(batch):
        torch.vgpu.empty_cache()
        try:
            step(batch)
            step(batch)
            return True
        except torch.OutOfMemoryError:
            pass
        torch.vgpu.empty_cache()
        return False

    if not fits(1):
        print("0: the smallest batch does not fit")
        return 0
    if _leaks(step):
        raise ValueError("it leaks")
    low, high = 1, most + 1
    while high - low > 1:
        middle = min((low + high) // 2, 2 * low)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def said_by(say):
    """In another way than by ``print``."""
    def largest_batch_that_fits(step, most):
        if not _fits(step, 1):
            say("not one fits")
            return 0
        return warned(step, most)

    return largest_batch_that_fits


def in_steps_of_ten(step, most):
    low = 1
    while _fits(step, 1) and low + 10 <= most and _fits(step, low + 10):
        low += 10
    return warned(step, min(most, low + 10))


def doubled_beyond_the_most(step, most):
    """To the last power of two that is allowed, and from there on to the next, less one."""
    return warned(step, 2 ** most.bit_length() - 1)


def keeps_the_error(step, most):
    low, high, last = 0, most + 1, None
    while high - low > 1:
        middle = (low + high) // 2
        torch.accelerator.empty_cache()
        try:
            step(middle)
            step(middle)
        except torch.OutOfMemoryError as error:
            last, high = error, middle
        else:
            low = middle
    return low if last is None or low else 0


def leaks_by_what_is_reserved(step, most):
    """A piece in reserve has room for what leaks."""
    reserved = [0]
    for _ in range(3):
        torch.accelerator.empty_cache()
        if not _fits(step, 1):
            return warned(step, most)
        reserved.append(torch.accelerator.memory_reserved())
    if reserved[3] > reserved[2]:
        raise ValueError("it leaks")
    low, high = 1, most + 1
    while high - low > 1:
        middle = min((low + high) // 2, 2 * low)
        low, high = (middle, high) if _fits(step, middle) else (low, middle)
    return low


def swallows_all(step, most):
    low, high = 0, most + 1
    while high - low > 1:
        middle = min((low + high) // 2, max(1, 2 * low))
        torch.accelerator.empty_cache()
        try:
            step(middle)
            step(middle)
            low = middle
        except Exception:
            high = middle
    return low


def in_doubt_memory(catches=Exception, text="memory", threshold=0, ends=4096, last=lambda step: (step(1), None)[1]):
    """Right, except where errors of other kinds, small leaks, or many rows come, or where a result is held."""
    def largest_batch_that_fits(step, most):
        def fits(batch):
            torch.accelerator.empty_cache()
            try:
                step(batch)
                step(batch)
            except catches as error:
                if text not in str(error):
                    raise
                return False
            return True

        if not fits(1):
            print("not one fits")
            return 0
        before = torch.accelerator.memory_allocated()
        result = last(step)
        if torch.accelerator.memory_allocated() > before + threshold:
            raise ValueError("it leaks")
        del result
        low, high = 1, min(most, ends) + 1
        while high - low > 1:
            middle = min((low + high) // 2, 2 * low)
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    return largest_batch_that_fits


def silent(step, most):
    if not _fits(step, 1):
        return 0
    return warned(step, most)


def never_twice(step, most):
    low, high = 0, most + 1
    while high - low > 1:
        middle = min((low + high) // 2, max(1, 2 * low))
        torch.accelerator.empty_cache()
        try:
            step(middle)
            low = middle
        except torch.OutOfMemoryError:
            high = middle
    return low


def a_float(step, most):
    return float(warned(step, most))


BASICS_ROUTES = {
    "budget": [by_saved_tensors, by_two_batches(1), by_two_batches(3), by_three_batches, state_by_trying, on_a_copy],
    "train_epoch": [epoch(), epoch(eyes=torch.nn.Module.eval, begin=torch.nn.Module.train), read_at_the_end,
                    context_hook, without_traceback],
    "largest_batch_that_fits": [bits, warned, cleans_up, calling_itself, said_by(logging.warning),
                                said_by(lambda text: print(text, file=sys.stderr))],
}

BASICS_WRONG = [
    ("budget", four_times, "Yours is 0 times that"),
    ("budget", without_the_batch, "is on the device too, all the time"),
    ("budget", while_evaluating, "in which dropout does nothing"),
    ("budget", left_in_evaluation, "the model's mode has changed"),
    ("budget", run_when_looked_at, "leaves something on the device"),
    ("budget", in_the_room_of_ballast, "leaves something on the device"),
    ("budget", twice_if_tied, "a tied weight twice"),
    ("budget", frozen_too, "A frozen parameter gets no gradient"),
    ("budget", summed, "The peak"),
    ("budget", in_megabytes, "These are M"),
    ("budget", per_row, "Not everything that a forward pass leaves grows with the batch"),
    ("budget", the_whole_pass, "you ran the whole step"),
    ("budget", with_temporaries, "With `foreach=False` Adam takes one parameter after the other"),
    ("budget", of_the_first_group, "Optimizer state: the tensors"),
    ("budget", lambda model, batch, optimizer, dtype: None, "is there a `return`?"),
    ("budget", lambda model, batch, optimizer, dtype: [0] * 6, "from the name of each of the six parts"),
    ("budget", lambda model, batch, optimizer, dtype: {"parameters": batch[0].sum()}, "is a tensor on the device"),
    ("budget", lambda model, batch, optimizer, dtype: {"parameters": "many"}, "not a number of bytes"),
    ("train_epoch", epoch(error_of=lambda error: error), "An error keeps its traceback"),
    ("train_epoch", epoch(look=torch.enable_grad), "are kept with their graph"),
    ("train_epoch", epoch(seen=lambda output: output.abs().mean()), "A mean with a graph keeps the output too"),
    ("train_epoch", epoch(keep=lambda prediction: prediction.detach()), "`detach` alone frees none of the numbers"),
    ("train_epoch", epoch(removes=False), "call its `remove()`"),
    ("train_epoch", epoch(keep=lambda prediction: prediction, finish=gc.collect), "`prediction.argmax(1)` at once"),
    ("train_epoch", epoch(keep=lambda prediction: prediction, finish=lambda: torch.vgpu.empty_cache()), "`prediction.argmax(1)`"),
    ("train_epoch", epoch(catches=Exception), "It has to pass"),
    ("train_epoch", epoch(removed=lambda handle, body: sys.exc_info()[0] or handle.remove()), "`remove()` in a `finally`"),
    ("train_epoch", epoch(removed=lambda handle, body: body._forward_hooks.clear()), "that other code had registered"),
    ("train_epoch", epoch(error_of=lambda error: type(error).__name__), "does not say what failed"),
    ("train_epoch", epoch(error_of=repr), "`repr` puts the class's name around them"),
    ("train_epoch", epoch(mean=over_all_rows), "the batches' mean losses"),
    ("train_epoch", all_batches_first, "Take each batch when its step begins"),
    ("train_epoch", epoch(eyes=torch.nn.Module.eval), "call `model.train()` again"),
    ("train_epoch", epoch(catches=(ValueError, IndexError)), "It has to pass"),
    ("train_epoch", epoch(catches=(ValueError, TypeError, LookupError)), "It has to pass"),
    ("train_epoch", looking(in_try=True), "put only the batch's forward pass and its loss into the `try`"),
    ("train_epoch", looking(after_failed=True), "No look follows a batch that fails itself"),
    ("train_epoch", zero_grad_after, "because there may be older ones already"),
    ("train_epoch", nothing_reported, "is there a `return`?"),
    ("largest_batch_that_fits", keeps_the_error, "the answer is wrong"),
    ("largest_batch_that_fits", leaks_by_what_is_reserved, "read `torch.accelerator.memory_allocated()`"),
    ("largest_batch_that_fits", swallows_all, "the others have to pass"),
    ("largest_batch_that_fits", in_steps_of_ten, "then halve the gap: about twenty trials"),
    ("largest_batch_that_fits", doubled_beyond_the_most, "the most"),
    ("largest_batch_that_fits", in_doubt_memory(), "the others have to pass"),
    ("largest_batch_that_fits", in_doubt_memory((torch.OutOfMemoryError, ValueError), ""), "hides it"),
    ("largest_batch_that_fits", in_doubt_memory(text="out of memory", ends=1024), "Only `most` limits the batch"),
    ("largest_batch_that_fits", in_doubt_memory(text="out of memory", last=lambda step: step(1)), "This step does not leak"),
    ("largest_batch_that_fits", in_doubt_memory(text="out of memory", threshold=4096), "raise a ValueError"),
    ("largest_batch_that_fits", silent, "A 0 without a message is hard to understand"),
    ("largest_batch_that_fits", never_twice, "two calls in a row"),
    ("largest_batch_that_fits", a_float, "not a whole number"),
    ("largest_batch_that_fits", lambda step, most: most, "does not fit"),
    ("largest_batch_that_fits", lambda step, most: step(0), "at least 1 is needed"),
    ("largest_batch_that_fits", lambda step, most: 1, "2 fits too"),
]
