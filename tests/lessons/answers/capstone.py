"""Lesson 10: right and fast programs and findings that are not what the reference solution has, and wrong ones."""

from gapless.lessons.capstone.findings.judged import all_findings
from gapless.lessons.capstone.programs.photos.program import PHOTOS


def changed(file, before, after, files=None):
    """The model solution, or the program ``files``, with other text in a file."""
    files = dict(files or PHOTOS.solved_files)
    assert files[file].count(before) == 1, (file, before)
    files[file] = files[file].replace(before, after)
    return files


def program(*changes):
    files = None
    for change in changes:
        files = changed(*change, files)
    return PHOTOS.load(files)


def listed(*findings):
    return lambda: list(findings)


RIGHT = all_findings(PHOTOS)
ALL_LINES = [(line, kind) for text in PHOTOS.slow_files.values() for line in text.splitlines() for kind in ("wait", "kernels")]

OTHER_ROUTES = {
    "train": [program(
        ("optim.py", "fused=next(network.parameters()).device.type != \"cpu\"", "foreach=True"),
        ("data.py", "num_workers=2 if training", "num_workers=3 if training"),
        ("train.py", "@torch.no_grad()", "@torch.inference_mode()"),
        ("losses.py", "numbers = torch.arange(self.config.classes, device=self.device).view(1, -1, 1, 1)\n", "\n"),
        ("losses.py", "wanted = (masks.unsqueeze(1) == numbers).float()",
         "wanted = F.one_hot(torch.where(masks == VOID, self.config.classes, masks), self.config.classes + 1)\n"
         "        wanted = wanted.permute(0, 3, 1, 2)[:, :-1].float()"),
        ("train.py", "    if any(loss != loss for loss in losses):\n        raise FloatingPointError(\"a loss is not a number\")\n", ""))],
    "findings": [listed(*RIGHT[:15]), listed(*((line, kind.upper()) for line, kind in RIGHT)),
                 listed(*reversed(RIGHT), ("network.to(device)", "wait"), ("no such line", "wait"))],
}

WRONG = [
    # less work
    ("train", program(("data.py", "batch_size=config.batch_size", "drop_last=True, batch_size=config.batch_size")), "losses"),
    ("train", program(("model.py", "Network(config.width, ", "Network(max(1, config.width // 2), ")), "losses[0]"),
    ("train", program(("train.py", "validation.append(evaluate(network, validation_loader, config, device))",
                       "validation.append(scores[-1])")), "validation[0]"),
    ("train", program(("train.py", "    for _ in range(config.epochs):", "    for _ in range(1):")), "losses"),
    ("train", program(("data.py", "photo, mask = decode(self.photos[index], self.device), self.masks[index]",
                       "photo, mask = self.photos[index], self.masks[index]")), "records that were decoded"),
    ("train", program(("train.py", "average.update(network)", "pass")), "average[0]"),
    # other results
    ("train", program(("losses.py", "* self.dice(logits, masks)", "* self.dice(logits.detach(), masks)")), "losses"),
    ("train", program(("losses.py", "total / divisor.clamp(min=1e-12)", "total / divisor")), "without any label"),
    ("train", program(("train.py", "    clip(network, config.max_norm)\n", "")), "losses"),
    ("train", program(("data.py", "manual_seed(config.seed)", "manual_seed(config.seed + 1)")), "losses[0]"),
    ("train", program(("train.py", "    network.eval()\n", "")), "validation[0]"),
    ("train", program(("train.py", "    logits = network(photos)",
                       "    with torch.autocast(photos.device.type, torch.bfloat16):\n        logits = network(photos)\n"
                       "    logits = logits.float()")), "losses[0]"),
    ("train", program(("train.py", "    network.train()\n", "")), "Is the network in `train()` again?"),
    ("train", program(("train.py", "    optimizer.zero_grad()\n", "")), "do they add up?"),
    # none at all
    ("train", lambda photos, masks, device, **settings: None, "not a dict like the slow program's"),
    ("train", lambda photos, masks, device, **settings: {"losses": [2.0], "training": [], "validation": [], "head": [],
                                                         "average": []}, "losses"),
    ("findings", listed(*ALL_LINES[:150]), "Fewer than 5"),
    ("findings", listed(*((line, "wait") for line, _ in RIGHT[:4])), "Fewer than 5"),
    ("findings", listed(*((line, "work") for line, _ in RIGHT)), "Fewer than 5"),
    ("findings", listed(*((kind, line) for line, kind in RIGHT)), "in the wrong order"),
    ("findings", listed(("set_detect_anomaly(True)", "slow")), "no such cause"),
    ("findings", listed(("self.norm1(self.conv1(x))", "wait")), "in the backward pass of its operators"),
    ("findings", listed("train.py"), "is not a finding"),
    ("findings", lambda: None, "not a list of findings"),
]
