"""Lesson 04, `prefetch`: right and fast answers by other routes, and wrong ones."""

import itertools
from collections import deque

import torch
from torch.utils._pytree import tree_map


def copied(batch, device):
    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        return (value if value.is_pinned() else value.pin_memory()).to(device, non_blocking=True)

    return tree_map(move, batch)


def kept(batch, stream):
    return tree_map(lambda value: value.record_stream(stream) if isinstance(value, torch.Tensor) else None, batch)


def current():
    return torch.accelerator.current_stream()


# -- right --------------------------------------------------------------------------------------------


def both_wait(loader, device):
    """`wait_stream` both ways: the copies wait until the loop has used what it had before, and nothing is recorded."""
    side, batches, end = torch.Stream(device), iter(loader), object()

    def load():
        try:
            batch = next(batches, end)
        except Exception as error:
            return end, error
        if batch is end:
            return end, None
        side.wait_stream(current())
        with side:
            return copied(batch, device), None

    following, error = load()
    while following is not end:
        current().wait_stream(side)
        batch = following
        following, error = load()
        yield batch
    if error is not None:
        raise error


class Ahead:
    """An iterator, and two batches on their way."""

    def __init__(self, loader, device):
        self.batches, self.device, self.side = iter(loader), device, torch.Stream(device)
        self.held, self.error = deque(), None
        self.load()

    def load(self):
        if self.error is None:
            try:
                batch = next(self.batches)
            except Exception as error:
                self.error = error
                return
            with self.side:
                self.held.append((copied(batch, self.device), self.side.record_event()))

    def __iter__(self):
        return self

    def __next__(self):
        self.load()
        if not self.held:
            raise self.error
        batch, done = self.held.popleft()
        done.wait(current())
        kept(batch, current())
        return batch


def by_hand(loader, device):
    """Events made and recorded by themselves; the nesting gone through by hand."""
    side = torch.Stream(device)

    def each(function, value):
        if isinstance(value, torch.Tensor):
            return function(value)
        if isinstance(value, dict):
            return {key: each(function, item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(each(function, item) for item in value)
        return value

    def load(batch):
        event = torch.Event(device)
        before = current()
        torch.accelerator.set_stream(side)
        batch = each(lambda t: (t if t.is_pinned() else t.pin_memory()).to(device, non_blocking=True), batch)
        event.record(side)
        torch.accelerator.set_stream(before)
        return batch, event

    def hand_over(batch, event):
        current().wait_event(event)
        each(lambda t: t.record_stream(current()), batch)
        return batch

    held, failed = [], []

    def taken():
        try:
            yield from loader
        except Exception as error:
            failed.append(error)

    for batch in taken():
        held.append(load(batch))
        if len(held) == 2:
            yield hand_over(*held.pop(0))
    if held:
        yield hand_over(*held.pop())
    if failed:
        raise failed[0]


# -- wrong --------------------------------------------------------------------------------------------


def wrong(*, wait=True, record=True, event=True, last=True, first=True, inside=False, errors=""
                                                                                             "kept", all_at_once=False, twice=False,
          alike=lambda batch: batch, default=False):
    """The reference with some of its parts left out or turned round."""

    def prefetch(loader, device):
        side = torch.Stream(device)
        loop = current()

        def hand_over(batch, done):
            stream = torch.vgpu.default_stream() if default and device.type == "vgpu" else current()
            if wait:
                stream.wait_event(done) if event else stream.wait_stream(side)
            if record:
                kept(batch, stream)
            return alike(batch)

        held = failed = None
        try:
            for number, batch in enumerate(list(loader) if all_at_once else loader):
                with side:
                    following = copied(batch, device), side.record_event()
                if held is not None and (first or number > 1):
                    if inside:
                        loop.wait_event(held[1])
                        with side:
                            yield hand_over(*held)
                    else:
                        yield hand_over(*held)
                held = following
        except Exception as error:
            if errors == "at once":
                raise
            failed = None if errors == "swallowed" else error
        if held is not None and last:
            yield hand_over(*held)
            if twice:
                yield hand_over(*held)
        if failed is not None:
            if errors == "another":
                raise RuntimeError(f"the loader failed: {failed}")
            raise failed

    return prefetch


def only_tensors(loader, device):
    for batch in loader:
        yield [value.to(device) for value in batch] if isinstance(batch, (list, tuple)) else batch.to(device)


def as_lists(batch):
    return list(batch) if isinstance(batch, tuple) else batch


def one_buffer(loader, device):
    buffers = None
    for batch in loader:
        batch = copied(batch, device)
        if not isinstance(batch, torch.Tensor) or (buffers is not None and buffers.shape != batch.shape):
            yield batch
            continue
        buffers = batch if buffers is None else buffers.copy_(batch)
        yield buffers


def into_the_loaders_dicts(loader, device):
    """Its batches hold tensors of the device from then on, and the loader may give them again."""
    for batch in loader:
        if isinstance(batch, dict):
            batch.update(copied(batch, device))
        yield batch if isinstance(batch, dict) else copied(batch, device)


def asks_an_empty_loader(loader, device):
    batches = iter(loader)
    first = next(batches)
    yield copied(first, device)
    for batch in batches:
        yield copied(batch, device)


def in_pairs(loader, device):
    batches = list(itertools.islice(loader, 30))
    yield from (copied(batch, device) for batch in batches[::-1])


def leaves_the_stream(loader, device):
    torch.accelerator.set_stream(torch.Stream(device))
    for batch in loader:
        yield copied(batch, device)


OTHER_ROUTES = {"prefetch": [both_wait, Ahead, by_hand]}

WRONG = [
    ("prefetch", wrong(last=False), "The last batch is lost"),
    ("prefetch", wrong(first=False), "The first batch is lost"),
    ("prefetch", wrong(twice=True), "once too often"),
    ("prefetch", wrong(wait=False), "nothing orders the two streams"),
    ("prefetch", wrong(record=False), "record_stream"),
    ("prefetch", wrong(default=True), "A race"),
    ("prefetch", wrong(inside=True), "`yield` is inside"),
    ("prefetch", leaves_the_stream, "`yield` is inside"),
    ("prefetch", wrong(errors="at once"), "that batch is lost"),
    ("prefetch", wrong(errors="swallowed"), "believes that the epoch is done"),
    ("prefetch", wrong(errors="another"), "RuntimeError"),
    ("prefetch", wrong(all_at_once=True), "each takes the device's memory"),
    ("prefetch", wrong(alike=as_lists), "the same dicts, lists and tuples"),
    ("prefetch", only_tensors, "the same dicts, lists and tuples"),
    ("prefetch", into_the_loaders_dicts, "it has changed `loader`"),
    ("prefetch", asks_an_empty_loader, "In a generator give it a default"),
    ("prefetch", in_pairs, "in another order"),
    ("prefetch", lambda loader, device: iter(loader), "on the device"),
    ("prefetch", lambda loader, device: None, "TypeError"),
]
