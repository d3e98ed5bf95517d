"""Lesson 08: the usual wrong ways to take a batch in parts, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake
from ..cases import IGNORED


@dataclass(frozen=True)
class _InParts:
    """A step in parts. ``share``: by what the sum of a part's losses is divided; ``cut``: what makes
    them of a tensor and their number; ``backward``: whether a part goes backward; ``zeroed``, ``stepped``: when,
    ``returned``: what."""

    share: str = "all that count"
    cut: Callable = torch.chunk
    backward: bool = True
    zeroed: str = "first"
    stepped: str = "last"
    returned: str = "mean"
    dropped: bool = False
    evaluates: bool = False
    refuses: tuple[str, ...] = ("parts", "empty")

    def __call__(self, model, optimizer, tokens, labels, parts):
        if parts < 1 and "parts" in self.refuses:
            raise ValueError("no parts")
        if not len(tokens) and "empty" in self.refuses:
            raise ValueError("no batch")
        parts = max(parts, 1)
        if self.zeroed == "first":
            optimizer.zero_grad()
        if self.evaluates:
            model.eval()
        counted = (labels != IGNORED).sum()
        total, last = torch.zeros((), device=tokens.device), None
        pieces = list(zip(self.cut(tokens, parts), self.cut(labels, parts)))
        if self.dropped and len(tokens) >= parts:
            size = len(tokens) // parts
            pieces = [(tokens[start * size:][:size], labels[start * size:][:size]) for start in range(parts)]
        for some, some_labels in pieces:
            if self.zeroed == "each":
                optimizer.zero_grad()
            sum_of_part = F.cross_entropy(model(some).flatten(0, 1), some_labels.flatten(), reduction="sum")
            here = (some_labels != IGNORED).sum()
            loss = {"all that count": lambda: sum_of_part / counted,
                    "part": lambda: sum_of_part / here,
                    "part and parts": lambda: sum_of_part / here / len(pieces),
                    "part, weighted": lambda: sum_of_part / here * here / counted,
                    "rows": lambda: sum_of_part / here * len(some) / len(tokens),
                    "above 0": lambda: sum_of_part / (labels > 0).sum(),
                    "first part": lambda: sum_of_part / (pieces[0][1] != IGNORED).sum() / len(pieces),
                    "all": lambda: sum_of_part / labels.numel(),
                    "batch": lambda: sum_of_part / len(tokens),
                    "nothing": lambda: sum_of_part,
                    "count and parts": lambda: sum_of_part / counted / len(pieces)}[self.share]()
            if self.backward:
                loss.backward()
            last = loss.detach()
            total += last
            if self.stepped == "each":
                optimizer.step()
        if self.stepped == "last":
            optimizer.step()
        if self.zeroed == "last":
            optimizer.zero_grad()
        return {"mean": total, "last": last, "per part": total / len(pieces), "times": total * len(pieces)}[self.returned]


def _rest_in_the_last(tensor: torch.Tensor, parts: int) -> list[torch.Tensor]:
    parts = max(1, min(parts, len(tensor)))
    size = len(tensor) // parts
    return [*tensor[:size * (parts - 1)].split(max(1, size)), tensor[size * (parts - 1):]] if parts > 1 else [tensor]


def _mistake(why: str, **parts) -> Mistake:
    return Mistake(_InParts(**parts), why)


_MEAN_OF_MEANS = ("That is a mean of the parts' means. It equals the batch's mean only if all parts have equally many "
                  "labels that count. Divide the *sum* of each part's losses (`reduction=\"sum\"`) by the number of "
                  "labels that count in the whole batch.")
ACCUMULATE_MISTAKES = (
    _mistake("You use each part's mean as it is, and `backward` adds the gradients up. So they are too large by the "
             "number of parts.", share="part"),
    _mistake(_MEAN_OF_MEANS, share="part and parts"),
    _mistake(_MEAN_OF_MEANS, share="part and parts", cut=torch.tensor_split),
    _mistake("If no label of a part counts, its mean is 0 / 0, a nan, and a nan times 0 is still nan. Take the *sum* of "
             "each part's losses (`reduction=\"sum\"`), and divide it by the number of labels that count in the whole "
             "batch.", share="part, weighted"),
    _mistake("You weight the parts by their sequences. Weight them by labels: a sequence may have few that are not −100.",
             share="rows"),
    _mistake("You divide the sum by all labels, including those that do not count (−100).", share="all"),
    _mistake("Label 0 counts like any other. Only −100 does not count.", share="above 0"),
    _mistake("You use the first part's number of labels. Others have more or fewer, so count in the whole batch.",
             share="first part"),
    _mistake("You divide the sum by the number of sequences. `cross_entropy` takes the mean over the *labels* that count.",
             share="batch"),
    _mistake("You add up the losses and do not divide. Return the mean over the whole batch.", share="nothing"),
    _mistake("You divide once too often: by the number of labels, and then by the number of parts as well.",
             share="count and parts"),
    _mistake("Each part took its own step. The optimizer takes one step, when the gradients of all parts are there.",
             stepped="each"),
    _mistake("Each part took its own step, with only its own gradients. Add up the gradients, and let the optimizer "
             "take one step with them.", stepped="each", zeroed="each"),
    _mistake("You set the gradients to None before each part, so only the last part's are left. Do it once, before the "
             "first.",
             zeroed="each"),
    _mistake("The gradients of an earlier step were still there. Clear them before the first part, not only at the end.",
             zeroed="last"),
    _mistake("You never clear the gradients, so this step includes an earlier step's.", zeroed="never"),
    _mistake("The optimizer took no step.", stepped="never"),
    _mistake("The weights do not change, because the optimizer finds no gradients. Call `loss.backward()` for each part, "
             "before the step.", backward=False),
    _mistake("Rows are missing: with `len(tokens) // parts` rows in each part, the last few belong to none. `chunk` "
             "includes all rows.", dropped=True),
    _mistake("You cut the sequences apart: each part has some tokens of all of them. Nothing looks at other tokens here, "
             "but with attention it would be another network. Cut along N, as `chunk(parts)` does.",
             cut=lambda tensor, parts: tensor.chunk(parts, 1)),
    _mistake("Some parts are empty, and the network runs on them without effect: `tensor_split` always makes the number "
             "of parts that it gets. If `parts` is larger than N, cut the batch into N.", cut=torch.tensor_split),
    _mistake("`split` takes the *size* of a part, not the number of parts. `chunk(parts)` takes the "
             "number.", cut=torch.split),
    _mistake("With `len(tokens) // parts` sequences in a part, the rest makes more parts than `parts`. `chunk(parts)` "
             "rounds up.", cut=lambda tensor, parts: tensor.split(max(1, len(tensor) // parts))),
    _mistake("The last part has all the sequences that are left, so it can be far larger than the others, and so can the "
             "peak. `chunk` cuts into parts of about equal size.", cut=_rest_in_the_last),
    _mistake("You called `model.eval()`, and the network is still in evaluation mode. The caller's next steps would train "
             "without dropout. Leave the mode alone.", evaluates=True),
    _mistake("Each sequence is its own part, so the host launches a forward and a backward pass for each. `parts` says "
             "how many parts to cut.", cut=lambda tensor, parts: tensor.split(1)),
    _mistake("You return the last part's loss. Return the mean over the batch: add up the parts' losses, scaled as for "
             "`backward`.", returned="last"),
    _mistake("You divide the returned loss by the number of parts once more.", returned="per part"),
    _mistake("You return a sum over the parts, not the batch's mean.", returned="times"),
    _mistake("Do not correct a number of parts below 1: raise ValueError, as in the version that you got.",
             refuses=("empty",)),
    _mistake("An empty batch has no mean: raise ValueError, as in the version that you got.", refuses=("parts",)),
)
