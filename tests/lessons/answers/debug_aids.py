"""Lesson 06, debug aids to be turned off: right answers by other routes, and wrong ones."""

import inspect
import statistics

from gapless.lessons.launch_overhead.training_without_debugging.cases import COSTLY


def mean(values):
    return sum(values) / len(values)


def without(training, aid):
    return [other for other in training.aids if other != aid]


def by_long_runs(training):
    """The first steps are in both of two runs, and their difference is of the others."""
    def added_ms(on):
        return sum(training.run(on, 10).step_ms) - sum(training.run(on, 4).step_ms)

    bare_ms, log = added_ms([]), training.run(training.aids).log
    return [aid for aid in training.aids
            if added_ms([aid]) > 1.1 * bare_ms and training.run(without(training, aid)).log == log]


def added_to_what_is_needed(training):
    log = training.run(training.aids).log
    needed = [aid for aid in training.aids if training.run(without(training, aid)).log != log]
    least_ms = mean(training.run(needed).step_ms[1:])
    return {aid for aid in training.aids
            if aid not in needed and mean(training.run([*needed, aid]).step_ms[1:]) > 1.1 * least_ms}


def one_after_another(training):
    """Turned on in the end are those that stay."""
    full, bare = training.run(training.aids), training.run(())
    stay = {aid for aid in training.aids if training.run(without(training, aid)).log != full.log
            or sum(training.run([aid]).step_ms[1:]) - sum(bare.step_ms[1:]) < 0.1 * sum(bare.step_ms[1:])}
    return tuple(set(training.aids) - stay)


def judged(of=lambda times: mean(times[1:]), alone=True, log=True, limit=1.1):
    """The solution, with one part in another way."""

    def answer(training):
        bare, full, off = training.run([]), training.run(training.aids), []
        for aid in training.aids:
            left_out = training.run(without(training, aid))
            if alone:
                costs = of(training.run([aid]).step_ms) > limit * of(bare.step_ms)
            else:
                costs = of(full.step_ms) > limit * of(left_out.step_ms)
            if costs and (left_out.log == full.log or not log):
                off.append(aid)
        return off

    return answer


def share_of_all(training):
    """A tenth of a step with all aids."""
    bare, full = training.run([]), training.run(training.aids)
    return [aid for aid in training.aids if training.run(without(training, aid)).log == full.log
            and mean(training.run([aid]).step_ms[1:]) - mean(bare.step_ms[1:]) > 0.1 * mean(full.step_ms[1:])]


def told_by_no_run(training):
    begin = inspect.getclosurevars(training.run).nonlocals["begin"]
    kinds = inspect.getclosurevars(begin).nonlocals["kinds"]
    return [name for name in training.aids if kinds[name] in COSTLY]


def logs_compared(same, alone=False):
    """``same``: whether two logs are held to be equal; ``alone``: with only this aid on, and with none."""

    def answer(training):
        bare, full = training.run([]), training.run(training.aids)
        return [aid for aid in training.aids if mean(training.run([aid]).step_ms[1:]) > 1.1 * mean(bare.step_ms[1:])
                and (same(training.run([aid]).log, bare.log) if alone else same(training.run(without(training, aid)).log, full.log))]

    return answer


DEBUG_ROUTES = [by_long_runs, added_to_what_is_needed, one_after_another]

DEBUG_WRONG = [("training_without_debugging", answer, says) for answer, says in (
    (lambda training: training.aids, "All aids are off"),
    (lambda training: [], "Turn off `"),
    (judged(log=False), "Compare the log with that of all aids on"),
    (judged(of=mean), "leave the first step out of the mean"),
    (judged(of=statistics.median), "it works in only one step of three"),
    (judged(of=lambda times: max(times[1:])), "it makes one step of three more than 10 % longer"),
    (judged(alone=False), "They turn on the same thing"),
    (judged(limit=0), "must stay on"),
    (judged(limit=1.5), "The limit is 10 %"),
    (judged(limit=1.08), "only 8.6 % longer"),
    (logs_compared(lambda own, others: set(own) == set(others)), "line by line"),
    (logs_compared(lambda own, others: all(one == other for one, other in zip(own, others))), "at the end of the log"),
    (logs_compared(lambda own, others: own == others, alone=True), "only beside another aid"),
    (share_of_all, "The limit is 10 % of a step of a training without any aid"),
    (lambda training: [name for name in training.aids if training._kinds[name] in COSTLY], "it raised AttributeError"),
    (told_by_no_run, "none of your runs can tell"),
    (lambda training: training.aids[0] if training.aids else "", "a str. Return a list of the names of the aids"),
    (lambda training: ["anomaly mode"], "not one of the aids"),
    (lambda training: None, "is there a `return`?"),
    (lambda training: training.run(["all"]), "no aid is called 'all'"),
)]
