"""Lesson 07, fusing reckoned: right answers by other routes, and wrong ones."""

import math
import statistics


def by_pairs(kernels, outputs, known=lambda name, names: name in names):
    before = after = 0
    made, seen = [], []
    for reads, writes in kernels:
        for name in reads:
            before += reads[name]
            if name not in made and not known(name, seen):
                seen.append(name)
                after += reads[name]
        for name in writes:
            before += writes[name]
        made += writes
    sizes = {name: size for _, writes in kernels for name, size in writes.items()}
    after += sum(sizes[name] for name in set(outputs) & set(made))
    return before / after if after else 1


def from_the_end(kernels, outputs):
    """Outside is what was not made before."""
    moved = sum(sum(each.values()) for kernel in kernels for each in kernel)
    outside, lasting = {}, {}
    for place in range(len(kernels) - 1, -1, -1):
        reads, writes = kernels[place]
        lasting |= {name: size for name, size in writes.items() if name in outputs}
        earlier = set().union(*(writes for _, writes in kernels[:place]))
        outside |= {name: size for name, size in reads.items() if name not in earlier}
    left = sum(outside.values()) + sum(lasting.values())
    return 1.0 if left == 0 else moved / left


def reckoned(kernels, outputs, lasting=lambda name, outputs: name in outputs, inside=lambda name, made: name in made,
             guard=lambda kernels, after: after):
    made, left, before = set(), {}, 0
    for reads, writes in kernels:
        before += sum(reads.values()) + sum(writes.values())
        left |= {"r" + name: size for name, size in reads.items() if not inside(name, made)}
        left |= {"w" + name: size for name, size in writes.items() if lasting(name, outputs)}
        made |= set(writes)
    after = sum(left.values())
    return before / after if guard(kernels, after) else 1.0


def by_loop(eager, compiled, steps):
    usual = sorted(ms for ms, compiles in compiled if not compiles)
    if not usual:
        return False, None
    steady = statistics.median(usual)
    cost = statistics.fmean([ms if compiles else steady for ms, compiles in compiled[1:]] or [steady])
    before = statistics.median(eager)
    if before - cost <= 0.05 * before:
        return False, None
    behind = compiled[0][0] - steady
    after = max(math.ceil(behind / (before - cost)), 1)
    return steps >= after, after


def as_a_list(eager, compiled, steps):
    return list(by_loop(eager, compiled, steps))


def decided(eager, compiled, steps, middle=statistics.median, price=True, again=True, least=0.05, whole=math.ceil,
            per_step=lambda compiled: max(1, len(compiled) - 1), begin=0, free=False):
    usual = [ms for ms, compiles in compiled[begin:] if not compiles] or [math.inf]
    steady = middle(usual)
    gain = middle(eager) - steady
    if again:
        gain -= sum(ms - steady for ms, compiles in compiled[1:] if compiles) / per_step(compiled)
    if not gain > least * middle(eager):
        return False, None
    after = max(1, whole((0 if free and not compiled[0][1] else compiled[0][0] - steady * price) / gain))
    return after <= steps, after


def counted_up(eager, compiled, steps):
    """Step by step, and no farther than 100,000."""
    pays, after = decided(eager, compiled, steps)
    return pays, after and min(after, 100_000)


RECKONED_ROUTES = {
    "predicted_gain": [by_pairs, from_the_end, reckoned],
    "worth_compiling": [by_loop, as_a_list, decided],
}

RECKONED_WRONG = [
    ("predicted_gain", lambda kernels, outputs: len(kernels), "the number of kernels"),
    ("predicted_gain", lambda kernels, outputs: 1 / reckoned(kernels, outputs), "the inverse"),
    ("predicted_gain", lambda kernels, outputs: reckoned(kernels, outputs, lasting=lambda name, outputs: True), "stays in a register"),
    ("predicted_gain", lambda kernels, outputs: reckoned(kernels, outputs, lasting=lambda name, outputs: (
        name in outputs or name in kernels[-1][1])), "only if `outputs` names them"),
    ("predicted_gain", lambda kernels, outputs: reckoned(kernels, outputs, guard=lambda kernels, after: sum(
        sum(part.values()) for kernel in kernels for part in kernel)),
     "what nobody needs"),
    ("predicted_gain", lambda kernels, outputs: reckoned(kernels, outputs, inside=lambda name, made: False), "In one kernel"),
    ("predicted_gain", lambda kernels, outputs: reckoned(kernels, outputs) if kernels else 0.0, "no gain: a factor of 1"),
    ("predicted_gain", lambda kernels, outputs: reckoned([[dict.fromkeys(part, 1) for part in kernel] for kernel in kernels], outputs),
     "You count tensors"),
    ("predicted_gain", lambda kernels, outputs: reckoned([({}, writes) for _, writes in kernels], outputs), "kernels also read"),
    ("predicted_gain", lambda kernels, outputs: reckoned([(reads, {}) for reads, _ in kernels], outputs), ""),
    ("predicted_gain", lambda kernels, outputs: sum(map(len, kernels)) / 2, "bytes"),
    ("predicted_gain", lambda kernels, outputs: int(by_pairs(kernels, outputs)), "cut off the fraction"),
    ("predicted_gain", lambda kernels, outputs: None, ""),
    ("predicted_gain", lambda kernels, outputs: by_pairs(kernels, outputs, known=lambda name, names: name in " ".join(names)),
     "Compare whole names"),
    ("worth_compiling", counted_up, "does a loop end too early"),
    ("predicted_gain", lambda kernels, outputs: by_pairs([kernels.pop(0) for _ in kernels[:]], outputs), "Work on a copy"),
    ("predicted_gain", lambda kernels, outputs: reckoned(kernels, outputs, guard=lambda kernels, after: kernels),
     '"no elements" it raised ZeroDivisionError'),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, [[max(compiled)[0], True], *compiled[1:]], steps),
     "the *first* step"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, per_step=len), "all steps after the first"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, again=False), "compiled again"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, price=False), "did its work as well"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, least=0.0), "within the noise"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, whole=math.floor), "round up"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, middle=min), "medians"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, middle=statistics.fmean), ""),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, begin=1), "belongs to the median too"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps, free=True), "whether it compiled or not"),
    ("worth_compiling", lambda eager, compiled, steps: decided(eager, compiled, steps)[0], "Return two things"),
    ("worth_compiling", lambda eager, compiled, steps: (sum(eager) > sum(ms for ms, _ in compiled), 1), ""),
    ("worth_compiling", lambda eager, compiled, steps: (min(eager) > min(ms for ms, _ in compiled), 1), "has a price"),
    ("worth_compiling", lambda eager, compiled, steps: (decided(eager, compiled, steps)[0], decided(eager, compiled, steps)[1] or 0),
     "None"),
]
