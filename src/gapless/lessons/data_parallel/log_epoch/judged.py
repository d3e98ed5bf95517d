"""Lesson 09: the epochs that ``log_epoch`` gets, and what it made of them, in words. On the judge's side.

What the device has seen (collectives, waits) and the loss are beyond doubt; what the files hold is the word of the process
that holds the learner's cell.
"""

from __future__ import annotations

import numpy as np
import torch

from ....course.evidence import Case
from ....course.ranks import ANSWER, COLLECTIVES, RANKS, VALUES, WAITS
from ..stage import make_network
from .stage import (
    AS_IT_WAS,
    CHECKPOINT,
    CONTENT,
    ELSEWHERE,
    FILES,
    GONE,
    HOW,
    IN_PLACE,
    KIND,
    LOSS,
    METRICS,
    MODEL,
    MORE,
    OLD,
    RAN,
    RENAMED,
    WROTE,
)

MEAN, SENT, READS, WRITERS, WHOLE, LEFT = ("loss", "collectives in an epoch", "waits of the host", "who writes", "files",
                                           "other files")
EXACT, OF_ROWS, OF_BATCHES, OF_RANKS, OWN, SUMMED, OTHER, OF_RANK_0 = (
    "the mean over all samples of all ranks", "a sum over columns, and a mean over rows", "a mean of the batches' means",
    "a mean of the ranks' means",
    "the mean over the rank's own samples", "a sum", "another number", "right on rank 0, but not on all others")
ONE, NONE = "one", "none"
FEW = "one for the loss, plus those for saving on rank 0"
RANK_0, ALL, NOBODY = "rank 0 alone", "other ranks too", "not all files are new on rank 0"
TOLD, SUMS, NO_SUMS = "what the ranks have sent", "sums over their own samples", "not the sum over their own samples"
THIS_EPOCH, TEXT, ROUNDED = "this epoch's", "text instead of numbers", "rounded"
_WAITS = 2  # for the loss; and to save as many as there are tensors, and one more
_DIGITS = 6  # a mean that has no more has been rounded


def logging_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, sizes: list[list[int]], columns: int = 1, **more: bool) -> Case:
        width, rows = int(rng.integers(3, 7)), sum(map(sum, sizes))
        x = rng.normal(size=(rows, width)).astype(np.float32)
        # Ranks whose losses differ, and batches, the small last ones most of all.
        scale = np.concatenate([np.full(size, 1.0 + rank + (size < max(of_rank)))
                                for rank, of_rank in enumerate(sizes) for size in of_rank])
        y = (0.3 * scale[:, None] + 0.1 * rng.normal(size=(rows, columns))).astype(np.float32)  # three digits do not tell it
        options = {"world": len(sizes), "seed": int(rng.integers(1000)), "width": width, "sizes": sizes, "columns": columns,
                   "epoch": int(rng.integers(1, 50)), "training": True, "again": False, **more}
        words = "; ".join(f"rank {rank}: {len(of_rank)} batches, {sum(of_rank)} samples"
                          for rank, of_rank in enumerate(sizes))
        return Case(f"{name} ({words})", {"x": x, "y": y}, options)

    full, steps = int(rng.integers(5, 8)), int(rng.integers(14, 17))
    whole = [full] * (steps - 1)
    return [case("a short last batch on rank 1", [[*whole, full], [*whole, 2]]),
            case("short batches at other places, targets of two columns", [[*whole, 1], [2, *whole], [*whole, full - 1]], 2,
                 again=True),
            case("a rank without samples, a model in evaluation mode", [[*whole, 3], [], whole], training=False)]


def wanted_logging(case: Case) -> dict:
    """What is found of a right answer."""
    return {MEAN: EXACT, SENT: ONE, TOLD: SUMS, WRITERS: RANK_0, WHOLE: RENAMED, READS: FEW, CHECKPOINT: THIS_EPOCH,
            METRICS: THIS_EPOCH, LEFT: 0, MODEL: AS_IT_WAS}


def seen_logging(case: Case, plain: dict, notes) -> dict:
    """What the check compares, in words."""
    rows = plain[RANKS]
    answers = [row[ANSWER] for row in rows]
    means = [_which(case, rank, answer[LOSS]) for rank, answer in enumerate(answers)]
    found = {MEAN: next((words for words in means if words != EXACT), EXACT)}
    if means[0] == EXACT and found[MEAN] == OTHER:
        found[MEAN] = OF_RANK_0
    names = [[each["name"] for each in row[COLLECTIVES]] for row in rows]
    most = max(map(len, names))
    barriers = max(of_rank.count("barrier") for of_rank in names)
    found[SENT] = f"{most}, of which {barriers} barriers" if barriers else {0: NONE, 1: ONE}.get(most, str(most))
    found[TOLD] = SUMS if all(_tells(row[VALUES], squares, case.options["columns"])
                              for row, squares in zip(rows, _squares(case))) else NO_SUMS
    writers = [rank for rank, answer in enumerate(answers)
               if answer[MORE] or answer[WROTE] or not all(file[OLD] for file in answer[FILES].values())]
    of_first = answers[0][FILES]
    new = not any(file[OLD] or file[CONTENT] is None for file in of_first.values())
    found[WRITERS] = ALL if any(writers[1:]) or writers[:1] not in ([], [0]) else RANK_0 if new else NOBODY
    if new:
        found[WHOLE] = next((file[HOW] for file in of_first.values() if file[HOW] != RENAMED), RENAMED)
    weights = _weights(case)
    # A rank without samples waits as often as the others, which wait in no step.
    limit = min([_WAITS, *(max(1, row[WAITS]) for row, of_rank in zip(rows[1:], case.options["sizes"][1:]) if not of_rank)])
    limits = [limit + (len(weights) + 1 if rank == 0 else 0) for rank in range(len(rows))]
    found[READS] = FEW if all(row[WAITS] <= limit for row, limit in zip(rows, limits)) else ", ".join(
        f"{row[WAITS]} on rank {rank}" for rank, row in enumerate(rows))
    if new:
        found[CHECKPOINT] = _as_wanted(case, of_first[CHECKPOINT][CONTENT], weights)
        found[METRICS] = _as_wanted(case, of_first[METRICS][CONTENT], answers[0][LOSS])
    found[LEFT] = answers[0][MORE]
    found[MODEL] = next((answer[MODEL] for answer in answers if answer[MODEL] != AS_IT_WAS), AS_IT_WAS)
    return found


def _as_wanted(case: Case, content: dict, wanted) -> str:
    if any(isinstance(value, str) for value in content.values()):
        return TEXT
    if content["epoch"] != case.options["epoch"]:
        return "another epoch's"
    if isinstance(wanted, dict):
        named = {name: np.asarray(value, dtype=np.float32) for name, value in content["model"].items()}
        same = named.keys() == wanted.keys() and all(np.array_equal(named[name], wanted[name]) for name in wanted)
        return THIS_EPOCH if same else "other weights"
    return THIS_EPOCH if content["loss"] == wanted else "another loss"


def _weights(case: Case) -> dict[str, np.ndarray]:
    model = make_network(KIND, case.options["seed"], case.options["width"], case.options["columns"])
    return {name: value.numpy() for name, value in model.state_dict().items()}


def _squares(case: Case) -> list[np.ndarray]:
    """Of each rank, the squared error of each of its samples, the mean over their columns."""
    model = make_network(KIND, case.options["seed"], case.options["width"], case.options["columns"])
    x, y = (torch.from_numpy(np.array(case.inputs[name])) for name in ("x", "y"))
    with torch.no_grad():
        squares = (model(x) - y).double().square().mean(1).numpy()
    return np.split(squares, np.cumsum(list(map(sum, case.options["sizes"])))[:-1])


def _tells(values: list[list[float]], squares: np.ndarray, columns: int) -> bool:
    """Whether a collective was given the sum of these squares, or their mean: as a number, or in parts; or such a sum and a
    number of samples or elements, both times the same."""
    total, count = squares.sum(), len(squares)
    if not count:
        return True
    own = (total, total / count, total + count, columns * total, columns * (total + count))
    means = (total / count, columns * total / count)
    for given in map(np.array, filter(None, values)):
        sums = np.concatenate([given, np.convolve(given, np.ones(columns), "valid")])
        ratios = sums[:, None] / np.where(given, given, np.inf)
        if (np.isclose(np.append(sums, given.sum())[:, None], own, rtol=1e-3).any()
                or np.isclose(ratios[..., None], means, rtol=1e-3).any()):
            return True
    return False


def _which(case: Case, rank: int, loss: float) -> str:
    """Whose mean this is."""
    sizes, of_ranks = case.options["sizes"], _squares(case)
    squares = np.concatenate(of_ranks)
    cuts = np.cumsum([size for of_rank in sizes for size in of_rank])[:-1]
    of_batches = [part.mean() for part in np.split(squares, cuts)]
    means = [part.mean() for part in of_ranks if len(part)]
    counts = np.cumsum([0, *map(len, sizes)])
    own = [np.mean(of_batches[start:end]) for start, end in zip(counts, counts[1:]) if end > start]
    columns = case.options["columns"]
    known = ((EXACT, squares.mean()), (OF_ROWS, columns * squares.mean()), (OF_BATCHES, np.mean(of_batches)),
             (OF_BATCHES, np.mean(own)),
             (OF_RANKS, np.mean(means)), (OWN, of_ranks[rank].mean() if len(of_ranks[rank]) else np.inf),
             (SUMMED, columns * squares.sum()), (SUMMED, np.sum(means)), (SUMMED, np.sum(own)))
    words = next((words for words, value in known if np.isclose(loss, value, rtol=1e-4)), OTHER)
    is_near = abs(loss - squares.mean()) < 0.06
    return ROUNDED if words in (EXACT, OTHER) and is_near and round(loss, _DIGITS) == loss else words


_WHY = {
    (MEAN, OF_BATCHES): "Batches have different sizes, so in a mean of their means a sample of the small batch counts "
                        "for more. Add up the sum of squares and the number of samples, and divide once, at the end.",
    (MEAN, OF_ROWS): "`F.mse_loss` takes the mean over all *elements*, and the targets have two columns here. Divide the "
                     "sum by the number of elements (`y.numel()`), not of rows.",
    (MEAN, OF_RANKS): "Ranks have different numbers of samples. In a mean of their means (`ReduceOp.AVG`) a sample of "
                      "the smaller share counts for more. Reduce the sum *and* the count, and divide afterwards.",
    (MEAN, OWN): "That is one rank's own mean. Each rank has to return the mean from the sums and counts of all ranks.",
    (MEAN, ROUNDED): "You round the loss. Round only where you print it, so that two epochs can be compared.",
    (MEAN, OF_RANK_0): "Return the loss on each rank: `all_reduce` gives all of them the sums.",
    (MEAN, SUMMED): "Divide the sum by the number of samples of all ranks: `all_reduce` adds up.",
    (SENT, NONE): "Nothing went from GPU to GPU: reduce the sums with one `all_reduce`.",
    (TOLD, NO_SUMS): "The loss is right, but no device has sent what it needs. Each rank's own sum of squares, from this "
                     "call alone, has to go into the one collective.",
    (MODEL, RAN): "The model ran in another mode than it was in. Compute the loss in the mode that the model is in: call "
                  "neither `eval()` nor `train()`.",
    (MODEL, "in another mode"): "The model, or a part of it, is left in another mode than before. In evaluation mode, the "
                                "next epoch trains without dropout. Call neither `eval()` nor `train()`.",
    (WRITERS, ALL): "Ranks other than 0 write too. On a shared disk they would write into each other's files. Put "
                    "everything about files under `if rank == 0:`.",
    (WRITERS, NOBODY): "After the call rank 0's folder should hold this epoch's `checkpoint.pt` and `metrics.json`, both "
                       "readable. `torch.load(path, weights_only=True)` must read the checkpoint: a dict with a state "
                       "dict and no module in it.",
    (WHOLE, GONE): "You removed or renamed the old file before the new one had its name. A reader in between finds none, "
                   "and if the process ends there, both are lost. `os.replace` takes the old one's place in one step.",
    (WHOLE, ELSEWHERE): "The temporary file was in another folder. That may be on another disk, where a rename fails and "
                        "a move is a copy, so a reader sees half a file. Write it into `folder`.",
    (WHOLE, IN_PLACE): "A reader during the write gets half the file, and if the write breaks off, the old checkpoint is "
                       "lost too. Write to another name in the same folder, close the file, then call "
                       "`os.replace(temporary, path)`.",
}
_WHY_OF = {
    MEAN: "Take the sum of squares and the number of samples, over all batches and ranks. Then divide once.",
    READS: "An `.item()` in a step makes the host wait until the device has caught up. Add up in a tensor on the device, "
           "and read it once, after the epoch.",
    CHECKPOINT: "The checkpoint must hold `{\"epoch\": epoch, \"model\": model.state_dict()}`, with the weights as they "
                "are.",
    METRICS: "The metrics must be `{\"epoch\": epoch, \"loss\": loss}`, with the very loss that you return, not rounded, "
             "and both must be numbers.",
    MODEL: "The next epoch trains the model on. Leave its weights, gradients and hooks, their device and `requires_grad` "
           "as they are. `torch.no_grad()` changes nothing in the model.",
    LEFT: "There is another file beside the two. Rename the temporary file to the file's name.",
}


def explain_logging(case: Case, found, wanted) -> str | None:
    """Why it is wrong, in words."""
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return None
    name = next((name for name in wanted if found.get(name) != wanted[name]), None)
    if name == SENT and "barrier" in found[name]:
        return ("A barrier makes all ranks wait for the slowest. No rank reads what another has written, so nothing here "
                "needs it. Leave it out.")
    if name == SENT and found[name] != NONE:
        return ("Each collective costs its start and the wait for the slowest rank. Put the sum and the count into one "
                "tensor on the device, and reduce it once an epoch.")
    if name == READS and all(each.startswith("1 ") for each in found[READS].split(", ")[1:]):
        return ("Rank 0 waits more often than to read the loss once and each weight once. Read no value in a step, and copy "
                "the weights once, to save them.")
    if name == READS and all(int(each.split()[0]) < max(len(sizes), 2 * _WAITS) for each, sizes in
                             zip(found[READS].split(", ")[1:], case.options["sizes"][1:])):
        return ("The host waits more than once for the loss. Each `.item()`, each comparison and each "
                "`torch.tensor([value, …], device=…)` reads a value that is on the device. `sums[1] = number` copies the "
                "number there, and waits (`+=` and `fill_` do not). Fill a tensor on the device, reduce it, and read it "
                "with one `.tolist()`.")
    return _WHY.get((name, found.get(name)), _WHY_OF.get(name))
