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
    refuses: tuple[str, ...] = ("parts", "empty")

    def __call__(self, model, optimizer, tokens, labels, parts):
        if parts < 1 and "parts" in self.refuses:
            raise ValueError("no parts")
        if not len(tokens) and "empty" in self.refuses:
            raise ValueError("no batch")
        parts = max(parts, 1)
        if self.zeroed == "first":
            optimizer.zero_grad()
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


def _mistake(why: str, **parts) -> Mistake:
    return Mistake(_InParts(**parts), why)


_MEAN_OF_MEANS = ("That is a mean of the parts' means. It is the batch's mean only where all parts have as many labels "
                  "that count: divide the *sum* of each part's losses (`reduction=\"sum\"`) by the number of labels that "
                  "count in the whole batch.")
ACCUMULATE_MISTAKES = (
    _mistake("Each part's mean was taken as it is, and `backward` adds gradients up: they are as many times too large as "
             "there are parts.", share="part"),
    _mistake(_MEAN_OF_MEANS, share="part and parts"),
    _mistake(_MEAN_OF_MEANS, share="part and parts", cut=torch.tensor_split),
    _mistake("The mean of a part in which no label counts is 0 / 0, a nan, and a nan times 0 is one too. Take the *sum* of "
             "each part's losses (`reduction=\"sum\"`), and divide it by the number of labels that count in the whole "
             "batch.", share="part, weighted"),
    _mistake("The parts are weighted by their sequences. What counts is labels: a sequence may have few that are not −100.",
             share="rows"),
    _mistake("The sum was divided by all labels, those that are to be ignored (−100) included.", share="all"),
    _mistake("Label 0 counts like any other: only −100 is to be ignored.", share="above 0"),
    _mistake("The number of labels was taken from the first part. Others have more or fewer: count in the whole batch.",
             share="first part"),
    _mistake("The sum was divided by the number of sequences. `cross_entropy` takes the mean over the *labels* that count.",
             share="batch"),
    _mistake("The losses were added up and divided by nothing: a mean over the whole batch is wanted.", share="nothing"),
    _mistake("That is divided once too often: by the number of labels, and then by the number of parts as well.",
             share="count and parts"),
    _mistake("Each part took a step of its own: the optimizer takes one, when the gradients of all parts are there.",
             stepped="each"),
    _mistake("Each part took a step of its own, on its own gradients alone. The gradients are to be added up, and the "
             "optimizer takes one step with them.", stepped="each", zeroed="each"),
    _mistake("The gradients were set to None before each part: only the last part's are left. Once, before the first.",
             zeroed="each"),
    _mistake("The gradients of an earlier step were still there: clear them before the first part, not only at the end.",
             zeroed="last"),
    _mistake("The gradients were never cleared: those of an earlier step are counted.", zeroed="never"),
    _mistake("The optimizer took no step.", stepped="never"),
    _mistake("The weights stay as they are: the optimizer finds no gradients. Each part goes backward, `loss.backward()`, "
             "before the step.", backward=False),
    _mistake("Rows are missing: with `len(tokens) // parts` rows to a part the last few belong to none. `chunk` divides "
             "without a rest.", dropped=True),
    _mistake("The sequences are cut apart: each part has some tokens of all of them. Here nothing looks at other tokens; "
             "with attention it would be another network. Cut along N, as `chunk(parts)` does.",
             cut=lambda tensor, parts: tensor.chunk(parts, 1)),
    _mistake("Some parts are empty, and the network runs for nothing: `tensor_split` makes as many parts as it is told. "
             "Where `parts` is larger than N, cut the batch into N.", cut=torch.tensor_split),
    _mistake("`split` takes the *size* of a part, not the number of parts: `chunk(parts)` takes that.", cut=torch.split),
    _mistake("Each sequence is a part by itself: the kernels of a forward and a backward pass are launched for each. "
             "`parts` says into how many to cut.", cut=lambda tensor, parts: tensor.split(1)),
    _mistake("The loss that is returned is the last part's. The mean over the batch is wanted: what the parts' losses, "
             "scaled as for `backward`, add up to.", returned="last"),
    _mistake("The loss that is returned was divided by the number of parts once more.", returned="per part"),
    _mistake("The loss that is returned is a sum over the parts, not the batch's mean.", returned="times"),
    _mistake("No parts are no mistake of yours to mend: raise ValueError, as the function did that was handed out.",
             refuses=("empty",)),
    _mistake("An empty batch has no mean: raise ValueError, as the function did that was handed out.", refuses=("parts",)),
)
