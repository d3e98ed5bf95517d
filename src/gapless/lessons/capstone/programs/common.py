"""What several programs have: causes in files and lines that are alike, and a question about one of them."""

from ..cause import KERNELS, WAIT, WORK, Cause, Change

BIAS_QUESTION = """\
**Question.** In another program a norm follows a convolution. You remove the convolution's bias, and all losses change. \
Should they?

<details><summary>Answer</summary>

The bias is no reason: the norm cancels it. But the layer now draws fewer random numbers, so every later weight is \
different. So copy the same weights into both versions before you compare. In this lesson's program each weight's random \
values depend on its name, so the others stay as they are.

</details>"""
OPTIMIZER = Cause(
        "an optimizer parameter by parameter", (KERNELS,), "06_launch_overhead",
        "`foreach=False` launches some kernels for each parameter. Lists need a handful in all.",
        (("optim.py", "foreach=False"), ("train.py", "optimizer.step()")),
        (Change("optim.py", "foreach=False", "fused=next(network.parameters()).device.type != \"cpu\""),),
        seen_at=(("train.py", "optimizer.step()"),))
CLIPPING = Cause(
        "clipping by hand", (WAIT, KERNELS), "06_launch_overhead",
        "The host reads a norm for each parameter.",
        (("optim.py", "parameter.grad.norm().item()"), ("optim.py", "parameter.grad.mul_(")),
        (Change("optim.py", """    total = 0.0
    for parameter in network.parameters():
        total += parameter.grad.norm().item() ** 2
    if total ** 0.5 > max_norm:
        for parameter in network.parameters():
            parameter.grad.mul_(max_norm / (total ** 0.5 + 1e-6))
""", """    torch.nn.utils.clip_grad_norm_(network.parameters(), max_norm, foreach=True)
"""),), seen_at=(("optim.py", "parameter.grad.norm().item()"),))
AVERAGES = Cause(
        "averages by hand", (KERNELS,), "06_launch_overhead",
        "Four kernels for each parameter; lists need one.",
        (("optim.py", "value.copy_("),),
        (Change("optim.py", """        for value, parameter in zip(self.values, network.parameters()):
            value.copy_(self.decay * value + (1 - self.decay) * parameter)
""", """        torch._foreach_lerp_(self.values, list(network.parameters()), 1 - self.decay)
"""),))
ZEROS = Cause(
        "gradients set to zero", (KERNELS, WORK), "06_launch_overhead",
        "Zeros are written, and then added to. Gradients of None need neither.",
        (("train.py", "zero_grad(set_to_none=False)"),),
        (Change("train.py", "zero_grad(set_to_none=False)", "zero_grad()"),))
LOSS_READ = Cause(
        "the loss read in each step", (WAIT,), "00_two_clocks",
        "The host reads the loss before it starts the next step. But nobody looks at it before the run is over.",
        (("train.py", "losses.append(loss.item())"),),
        (Change("train.py", "losses.append(loss.item())", "losses.append(loss.detach())"),
         Change("train.py", "    return {\"losses\": losses,", """    losses = torch.stack(losses).tolist()
    if any(loss != loss for loss in losses):
        raise FloatingPointError("a loss is not a number")
    return {"losses": losses,""")))
SYNCHRONISATION = Cause(
        "a synchronisation in each step", (WAIT,), "00_two_clocks",
        "The host waits until the device is done.",
        (("train.py", "            synchronize(device)"),),
        (Change("train.py", "            synchronize(device)\n", ""),))
