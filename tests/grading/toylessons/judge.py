import numpy as np

from gapless.course.checks import FAIL, PASS, Verdict


def judge(exercise, cases, evidence):
    values, speed = "", ""
    if evidence.error or evidence.tampering:
        values = speed = evidence.error or "; ".join(evidence.tampering)
    else:
        for case, answer in zip(cases, evidence.answers, strict=True):
            x = case.inputs["x"]
            right = {"double": (2 * x, np.full_like(x, 2)), "square": (x * x, 2 * x)}[exercise.name]
            if answer.error:
                values = answer.error
            elif answer.shape != x.shape or not (np.allclose(answer.value, right[0]) and np.allclose(answer.grads["x"], right[1])):
                values = "wrong"
        if evidence.learner is None:
            speed = evidence.measure_error
        elif evidence.learner.true_ms > 0.1 * evidence.before.true_ms:
            speed = "slow"
    return [Verdict(f"{exercise.name}.{check}", exercise.name, exercise.points[check], FAIL if problem else PASS, problem or "right")
            for check, problem in (("values", values), ("step_time", speed))]
