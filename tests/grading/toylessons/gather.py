import os

import torch

from gapless.course.cells import describe_error
from gapless.course.evidence import Answer, Evidence, Run
from gapless.evidence.trace import Trace


class _Counter(torch.overrides.TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def _measure(exercise, function, device):
    step = exercise.step(function, device)
    with _Counter() as counter:
        step()
    return Run(counter.calls, counter.calls, [counter.calls], Trace([], {}))


def measure_slow(exercise, device):
    return _measure(exercise, exercise.slow, device)


def gather(exercise, function, cases, device, before):
    """Counts operators instead of time."""
    if hasattr(torch.nn, "gather_breaks") or os.environ.get("LC_ALL") == "gather_breaks":
        raise RuntimeError("gather broke")
    evidence = Evidence(exercise.name, device, device_name="toy", before=before)
    for case in cases:
        x = torch.from_numpy(case.inputs["x"].copy()).requires_grad_()
        try:
            value = function(x)
            value.sum().backward()
            evidence.answers.append(Answer(case.name, None, type(value).__name__, "cpu", str(value.dtype), tuple(value.shape),
                                           value.detach().numpy(), {"x": x.grad.numpy()}))
        except Exception as error:
            evidence.answers.append(Answer(case.name, describe_error(error, exercise.name)))
    try:
        evidence.learner = _measure(exercise, function, device)
    except Exception as error:
        evidence.measure_error = describe_error(error, exercise.name)
    evidence.after = _measure(exercise, exercise.slow, device)
    return evidence
