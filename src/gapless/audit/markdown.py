"""The audit as Markdown."""

from __future__ import annotations

from collections import defaultdict

from ..evidence.report import give_or_take
from ..evidence.traces.waits import IN_BACKWARD
from ..installed import repository
from ..vgpu import Assumptions
from ..words import counted
from .advice import LESSONS
from .afterwards import Seldom
from .remarks import BANDWIDTH, Remark
from .result import Audit, noise_ms
from .switches import SWITCHES

_WORST, _WORTH = 3, 0.03
_FILES = 5  # are named
_ASSUMED = Assumptions()
_NEARLY_ALL = 0.9  # of a step, that the GPU is busy for
_FAST = (f" Values were not computed (--fast): every value reads as zero, {100 * _ASSUMED.density:.0f} % of each mask is "
         f"true, and `unique` finds {_ASSUMED.distinct} values. Without --fast they are computed.")

PARTS = {
    "input": "the input: a batch that is not there yet",
    "waits": "waits: the host waits for the GPU",
    "communication": "communication between GPUs",
    "host": "the host: Python and launches",
    "device": "the GPU",
    "seldom": "what only some steps do, on average",
}


def bound(audit: Audit) -> str:
    """What bounds a step, in words; of the host or its input, also the line that takes most of it."""
    if not audit.report.kernels:
        return "the CPU: nothing runs on the GPU"
    if audit.bound == "seldom":
        most = audit.seldom[0]
        return (f"what only some steps do, at {most.location} ({ms(most.ms)} ms about every {most.every:.3g} steps, "
                f"{ms(most.costs_ms)} ms a step on average)")
    if audit.bound == "input" and audit.loaders and audit.loaders[0].num_workers and audit.loaders[0].location:
        return f"{PARTS['input']}, from {audit.loaders[0].location}"
    first = audit.host[0] if audit.host else None
    if audit.bound in ("host", "input") and first is not None and first.own_ms >= audit.parts_ms[audit.bound] / 2:
        return f"{PARTS[audit.bound].partition(':')[0]}, at {first.location} ({ms(first.own_ms)} ms)"
    if audit.bound == "host":
        lines: dict[str, float] = defaultdict(float)  # with their backward passes
        for each in audit.host:
            lines[each.location.removesuffix(IN_BACKWARD)] += each.total_ms
        most = max(lines, key=lines.__getitem__, default=None)
        if most is not None and lines[most] >= audit.parts_ms["host"] / 2:
            return f"{PARTS['host']}, most of it for {most} ({ms(lines[most])} ms)"
    if audit.bound == "device" and audit.kinds_ms:
        kind, kind_ms = next(iter(audit.kinds_ms.items()))
        limit = ", which the memory's bandwidth limits" if kind in BANDWIDTH else ""
        return f"{PARTS['device']}, most of all {kind} ({ms(kind_ms)} ms){limit}"
    return PARTS[audit.bound]


def others(audit: Audit) -> str:
    """What else may bound it, with a space before it."""
    if len(audit.bounds) == 1 or not audit.report.kernels:
        return ""
    return (f" That is too close to tell from {' or from '.join(PARTS[name] for name in audit.bounds[1:])}: times are "
            f"uncertain by {100 * audit.spread:.0f} % or more.")


def clock(audit: Audit) -> str:
    """Where the times come from."""
    if not audit.report.simulated:
        return "Times are the profiler's." + _without_the_profiler(audit)
    return _host_clock(audit) + ("" if audit.facts.get("values", True) else _FAST)


def _without_the_profiler(audit: Audit) -> str:
    """What a step of a real GPU took before it was recorded, and whether the GPU is busy nearly all of that."""
    plain_ms, busy_ms = audit.facts.get("unrecorded_ms"), audit.report.device_busy_ms
    if not plain_ms:
        return ""
    text = f" Without it a step took {ms(plain_ms)} ms, and the GPU's work takes {ms(busy_ms)} ms"
    if busy_ms < _NEARLY_ALL * plain_ms:
        return text + "."
    return text + ": it is the GPU that bounds the step, and what the host does above is the profiler's cost."


def _host_clock(audit: Audit) -> str:
    if audit.facts.get("host") == "measured":
        return ("Measured: what the program itself takes between two calls of the device, Python, functions in C, files and "
                f"sleeping, and a loader's workers (on this machine, {audit.facts.get('processor')}). Modelled: PyTorch's "
                "operators on the host, launches, copies and the GPU." + (" The machine was busy with other work: what is "
                "measured may be far too long." if audit.facts.get("busy") else ""))
    return ("Nothing is measured: the host counts Python's calls, operators on CPU tensors and torchvision's decoding. "
            "Other functions in C (Pillow's, NumPy's, tokenizers'), files and sleeping take no time there.")


def overwritten(audit: Audit) -> str:
    """Which files that were there the script has changed, in a sentence; empty: none."""
    files = audit.facts.get("overwritten") or []
    more = f" and {len(files) - _FILES} more" if len(files) > _FILES else ""
    return (f"The script changed {counted(len(files), 'file')} of those there before: {', '.join(files[:_FILES])}{more}. "
            "--scratch runs it in a copy of its folder.") if files else ""


def worst(audit: Audit) -> list[str]:
    """The three findings that cost most, in a sentence each; only what costs 3 % of a step."""
    found = [(each.costs_ms or 0.0, f"{each.location or 'An unknown line'} waits for the GPU in "
              f"{each.operator or each.call}.") for each in audit.waits]
    found += [(each.own_ms, f"{each.location} keeps the host busy.") for each in audit.host]
    found += [(each.costs_ms or 0.0, f"{each.title}.") for each in audit.remarks]
    found += [(each.costs_ms, f"{each.location} takes time about every {each.every:.3g} steps.") for each in audit.seldom]
    found.sort(key=lambda each: -each[0])
    return [f"{text} Up to {ms(cost)} ms a step." for cost, text in found[:_WORST] if cost >= _WORTH * audit.step_ms]


def share(audit: Audit, part: str) -> str:
    """Of a step's time, or, of what only some steps do, of the average step's."""
    return _share(audit.parts_ms[part], audit.step_ms + (audit.parts_ms[part] if part == "seldom" else 0.0))


def costs(remark: Remark) -> str:
    """What a remark says it costs, with a space before it."""
    return "" if remark.costs_ms is None else f" At most {ms(remark.costs_ms)} ms a step."


def lesson_name(number: str) -> str:
    """What the course calls the lesson of this number."""
    return f"lesson {LESSONS[number]}"


def lesson_address(number: str) -> str | None:
    """Where its notebook can be read; None where the course names no repository: then ``gapless lab`` opens it."""
    to = repository()
    return None if to is None else f"{to.blob}notebooks/{LESSONS[number]}/{LESSONS[number]}.ipynb"


def _lesson(number: str) -> str:
    address, name = lesson_address(number), lesson_name(number)
    return f"({name}: `gapless lab`)" if address is None else f"(gapless, [{name}]({address}))"


def ms(value: float | None) -> str:
    """Milliseconds with as many digits as tell something."""
    if value is None:
        return "not known"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def times(count: float) -> str:
    """How often something happens in a step."""
    return "once" if count == 1 else f"{count:.3g} times"


def heading(audit: Audit) -> str:
    """The device, and whether its times are modelled."""
    report = audit.report
    if not report.simulated:
        return report.device_name
    rest = "the host's own work is measured" if audit.facts.get("host") == "measured" else "not measured"
    return f"simulated {report.device_name}: modelled times, {rest}"


def busy(audit: Audit) -> str:
    """How long the GPU works in a step, and by how much that is uncertain."""
    return f"{ms(audit.report.device_busy_ms)} ms{give_or_take(audit.report)}"


def markdown(audit: Audit) -> str:
    """The whole audit."""
    report, step, sure = audit.report, audit.step_ms, "**" if len(audit.bounds) == 1 else ""
    lines = [f"# Audit of `{audit.script}`", "", f"{report.steps} steps after {audit.facts.get('warm_up')} of warm-up, "
             f"{heading(audit)}; torch {audit.facts.get('torch')}. A step ends with `{audit.facts.get('kind')}`.", "",
             f"{sure}A step takes {ms(step)} ms. What bounds it: {bound(audit)}.{sure}{others(audit)}", "",
             *(f"{number}. {cell(text)}" for number, text in enumerate(worst(audit), start=1)), "",
             f"The GPU is busy for {busy(audit)} of it ({_share(report.device_busy_ms, step)}), with "
             f"{report.kernels:.0f} kernels; the host waits {times(report.syncs_per_step)}.", "",
             "| without | a step is shorter by | |", "|---|--:|--:|"]
    lines += [f"| {PARTS[name]} | {ms(saved)} ms | {share(audit, name)} |" for name, saved in audit.parts_ms.items()]
    lines += ["", "Each row is the step played again without that one thing; what two rows have in common is in both.", "",
              clock(audit), "", *([cell(overwritten(audit)), ""] if overwritten(audit) else []), "## Waits, by line", ""]
    if audit.waits:
        lines += ["| costs ms | waits ms | times | where | what waits |", "|--:|--:|--:|---|---|"]
        lines += [f"| {ms(each.costs_ms)} | {ms(each.wait_ms)} | {each.times:.3g} | "
                  f"{cell(each.location or 'unknown line')} | {cell(each.operator or each.call)} |"
                  for each in audit.waits]
        for each in audit.waits:
            quoted = f": `{each.line}`" if each.line and "`" not in each.line else ""
            called = f", called at {cell(each.called_at)}" if each.called_at else ""
            lines += ["", f"**{cell(each.location or 'unknown line')}**{quoted}{called}  ",
                      f"{each.advice.why} {each.advice.what} {_lesson(each.advice.lesson)}"]
    else:
        lines += ["None."]
    if audit.host:
        lines += ["", "## The host's time, by line", "", "| own ms | operators ms | launches | where | |",
                  "|--:|--:|--:|---|---|"]
        lines += [f"| {ms(each.own_ms)} | {ms(each.operators_ms)} | {each.launches:.3g} | {cell(each.location)} | "
                  f"{cell(each.line or '')} |" for each in audit.host]
        lines += ["", HOST_LINES]
        lines += [f"- {cell(each.location)}: {each.what}" for each in audit.host if each.what]
    lines += ["", "## Now and then", "", watched(audit), ""]
    lines += [f"- {cell(each.location)}: {now_and_then(each)}" for each in audit.seldom]
    if audit.remarks:
        lines += ["", "## What else costs time", ""]
        lines += [f"- **{each.title}.** {each.what}{costs(each)} {_lesson(each.lesson)}" for each in audit.remarks]
    if audit.trials:
        lines += ["", "## Tried", "", "| with | a step takes | |", "|---|---|---|"]
        rows = [(what, result, _lesson(number)) for what, result, number in trials_in_words(audit)]
        lines += ["| " + " | ".join(each.replace("|", r"\|") for each in row) + " |" for row in rows]
        lines += ["", TRIED]
    if audit.memory is not None:
        lines += ["", "## Memory", "", f"The peak of a step is {audit.memory.peak_bytes / 2**20:.1f} MiB.", "",
                  "| | at the peak MiB |", "|---|--:|"]
        lines += [f"| {row.category} | {row.at_peak_bytes / 2**20:.2f} |" for row in audit.memory.rows]
        lines += ["", FROM_BEFORE]
    return "\n".join([*lines, ""])


def watched(audit: Audit) -> str:
    """How long the program was watched for what not every step does."""
    steps = audit.facts.get("afterwards", {}).get("steps", 0)
    if not steps:
        return "What not every step does was not looked for."
    found = "This happens in some of them:" if audit.seldom else "Nothing was seen that only some of them do."
    return f"{steps} more steps were watched. {found}"


def now_and_then(each: Seldom) -> str:
    """What happens there, how often, and what it costs on average."""
    what = f" {each.what}" if each.what else ""
    return (f"{each.does}, about every {each.every:.3g} steps, {ms(each.ms)} ms each time: {ms(each.costs_ms)} ms a step on "
            f"average.{what}")


def trials_in_words(audit: Audit) -> list[tuple[str, str, str]]:
    """What was tried, what a step then takes, and the lesson's number; what saves most first."""
    def order(trial):
        return trial.step_ms is None, trial.step_ms or 0.0

    rows = []
    for trial in sorted(audit.trials, key=order):
        switch = SWITCHES[trial.name]
        if trial.step_ms is None:
            result = f"failed: {trial.error}"
        else:
            change, uncertain_ms = 100 * (trial.step_ms / audit.step_ms - 1), max(trial.noise_ms, noise_ms(audit.facts))
            result = f"{ms(trial.step_ms)} ms ({change:+.0f} %)" if abs(change) >= 1 else "the same"
            if abs(trial.step_ms - audit.step_ms) < uncertain_ms:
                result = f"{ms(trial.step_ms)} ms: about the same, as steps vary by {ms(uncertain_ms)} ms"
        rows.append((switch.what, result, switch.lesson))
    return rows


TRIED = ("Each is the script run once more with that alone switched on. Results change in their last digits or, in lower "
         "precision, more: look whether the training still converges.")


FROM_BEFORE = ("Parameters are those that get gradients. From before: what lay there when the step began, such as frozen "
               "parameters, buffers, an average of the weights.")


HOST_LINES = ("Own: Python, functions in C, and what they wait for. Operators: PyTorch's on the host, and launches. "
              "Waits for the GPU are in neither.")


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def cell(text: str) -> str:
    """The text as it stands in a table or a list, whatever is in it."""
    return text.replace("|", r"\|").replace("_", r"\_").replace("*", r"\*").replace("<", "&lt;")
