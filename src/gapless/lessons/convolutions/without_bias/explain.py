"""Lesson 05: why an answer to ``without_bias`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from .stage import BUFFERS, HOOKS

MODES = ("A norm that was in evaluation mode is now in training mode. `model.train()` changes every part, even frozen "
         "ones. Note each part's `training` before you change it, and restore it.")
_TAKEN_OUT = "This bias is cancelled: its convolution's output goes to {} and nowhere else."
_NEEDED = "This bias is needed: {}."
# Network → why biases are needed there.
_WHY_NEEDED = {
    "an activation between convolution and norm": "an activation comes before the norm and changes the values",
    "an activation in place between them": "an activation comes before the norm and changes the values",
    "a function in place between them": "the tensor is changed in place before the norm gets it",
    "a mask between them, as of dropout": "a mask sets some values to zero, without the bias, and leaves the others with "
                                          "it",
    "zeros padded between them": "zeros are padded before the norm, and they have no bias",
    "a residual connection around the norm": "the same output is added again after the norm",
    "the convolution's output returned as well": "the convolution's output is also a result of the model",
    "a convolution before a norm, and before an activation": "the same convolution is used again, with no norm after it",
    "a norm behind two convolutions": "one norm with one running mean follows two convolutions with two biases",
    "a norm behind a convolution, and behind an activation": "the norm's running mean is used for another input too",
    "a frozen norm": "that norm stays in evaluation mode, and does not subtract the batch's mean",
    "GroupNorm of two groups": "the norm subtracts the mean of several channels, whose biases differ",
    "LayerNorm of all channels": "the norm subtracts the mean of all channels, whose biases differ",
    "a linear layer before a norm": "no norm follows that convolution (and the task does not ask for a linear layer's "
                                    "bias)",
}


def without_bias(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(found.get("parameters"), dict):
        return None
    if set(wanted["norms in evaluation mode"]) - set(found["norms in evaluation mode"]):
        return MODES
    missing = [name for name in wanted["parameters"] if name not in found["parameters"]]
    extra = [name for name in found["parameters"] if name not in wanted["parameters"]]
    if missing and not missing[0].endswith("bias"):
        return "A parameter that is not a convolution's bias is gone, or has another name now. Keep these as they are."
    if missing:
        why = _WHY_NEEDED.get(case.options["network"], "no norm that subtracts its channel's own mean follows directly")
        return _NEEDED.format(why)
    if extra:
        return _TAKEN_OUT.format("norms that subtract each channel's own mean")
    if found.get(BUFFERS) != wanted[BUFFERS]:
        return ("A norm's running mean has to stay a buffer, or `state_dict()` and `.to(device)` leave it out. Change its "
                "values: `norm.running_mean -= …`.")
    if found.get(HOOKS):
        return "Your hooks are still in the model, and run in each pass. Take each out with the handle: `handle.remove()`."
    if found.get("in training mode") is False:
        return "The model was in training mode: return it in training mode."
    if found.get("outputs in training") != wanted["outputs in training"]:
        return ("The right biases are gone, but the model computes something else, in training too. Apart from the "
                "biases, only the norms' running means may change.")
    if found.get("outputs in evaluation") != wanted["outputs in evaluation"]:
        return ("The right biases are gone. In evaluation a norm subtracts its running mean, which contains the bias. "
                "Did you subtract the whole bias from it, once for each norm, whatever the number of calls?")
    if found.get("gradients") == wanted["gradients"]:
        return ("The right biases are gone, and the model is right until it takes a step. A norm's count of batches "
                "(`num_batches_tracked`) or its `momentum` has changed. Only running means may change.")
    return None
