"""Lesson 09, log_epoch: right answers that are not what the reference solution does, and wrong ones."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F


def gathered(rank, world, model, batches, folder, epoch):
    """The sums are gathered, not reduced; files by other means."""
    parts = [F.mse_loss(model(x), y).detach() * len(x) for x, y in batches]
    count = float(sum(len(x) for x, _ in batches))
    own = torch.stack([sum(parts, torch.zeros((), device="vgpu")), torch.tensor(count, device="vgpu")])
    table = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(table, own)
    total, count = torch.stack(table).sum(0).cpu().numpy()
    if rank == 0:
        state = {name: value.cpu() for name, value in model.state_dict().items()}
        torch.save({"model": state, "epoch": epoch, "loss": float(total / count)}, Path(folder) / "next")
        os.rename(Path(folder) / "next", Path(folder) / "checkpoint.pt")
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            json.dump({"loss": float(total / count), "epoch": epoch}, file)
        Path(file.name).replace(Path(folder) / "metrics.json")
    return float(total / count)


def not_awaited(rank, world, model, batches, folder, epoch):
    """The reduction goes on while the checkpoint is written."""
    sums = torch.zeros(2, device="vgpu", dtype=torch.float64)
    with torch.inference_mode():
        for x, y in batches:
            sums += torch.stack([(model(x) - y).square().sum(), torch.full((), y.numel(), device="vgpu")])
    work = dist.all_reduce(sums, async_op=True)
    if rank == 0:
        torch.save({"epoch": epoch, "model": model.state_dict()}, f"{folder}/checkpoint.next")
        os.replace(f"{folder}/checkpoint.next", f"{folder}/checkpoint.pt")
    work.wait()
    loss = (sums[0] / sums[1]).item()
    if rank == 0:
        Path(f"{folder}/metrics.next").write_text(json.dumps({"epoch": epoch, "loss": loss}))
        os.replace(f"{folder}/metrics.next", f"{folder}/metrics.json")
    return loss


def with_gradients(rank, world, model, batches, folder, epoch):
    """Nobody has said `no_grad`, and the two numbers are read one by one."""
    total, count = torch.zeros((), device="vgpu"), 0
    for x, y in batches:
        total = total + (model(x) - y).square().sum()
        count += y.numel()
    sums = torch.zeros(2, device="vgpu")
    sums[0] = total.detach()
    sums[1].fill_(count)
    dist.all_reduce(sums)
    loss = sums[0].item() / sums[1].item()
    if rank == 0:
        for name, save in (("checkpoint.pt", lambda path: torch.save({"epoch": epoch, "model": model.state_dict()}, path)),
                           ("metrics.json", lambda path: Path(path).write_text(json.dumps({"epoch": epoch, "loss": loss})))):
            save(f"{folder}/.{name}")
            Path(f"{folder}/.{name}").rename(f"{folder}/{name}")
    return loss


def scaled_sums_of_columns(rank, world, model, batches, folder, epoch):
    """A sum for each column, and the rows, all divided by the world. The files are renamed by their names in the folder."""
    columns = list(model.parameters())[-1].numel()
    sums = torch.zeros(columns + 1, device="vgpu")
    with torch.no_grad():
        for x, y in batches:
            sums[:-1] += (model(x) - y).square().sum(0) / world
            sums[-1] += len(y) / world
    dist.all_reduce(sums)
    *totals, rows = sums.tolist()
    loss = sum(totals) / (rows * columns)
    if rank == 0:
        torch.save({"epoch": epoch, "model": model.state_dict()}, f"{folder}/next")
        here = os.open(folder, os.O_RDONLY)
        os.rename("next", "checkpoint.pt", src_dir_fd=here, dst_dir_fd=here)
        Path(folder, "next").write_text(json.dumps({"epoch": epoch, "loss": loss}))
        os.replace("next", "metrics.json", src_dir_fd=here, dst_dir_fd=here)
        os.close(here)
    return loss


def _version(*, mean="exact", read="once", barrier=None, ranks=(0,), write="renamed", keep=False, of="this", own=False,
             returned=True, digits=None, evaluates=False, as_text=False):
    """Right as it stands."""

    def written(path, save):
        if write == "in place":
            return save(path)
        if write == "anew":
            os.remove(path)
            return save(path)
        if write == "from elsewhere":
            with tempfile.NamedTemporaryFile(delete=False) as file:
                pass
            save(file.name)
            return os.replace(file.name, path)
        save(path + ".tmp")
        if write == "removed first":
            os.remove(path)
        elif write == "backed up":
            os.rename(path, path + ".old")
        os.replace(path + ".tmp", path)

    def dumped(value, path):
        with open(path, "w") as file:
            json.dump(value, file)

    def log_epoch(rank, world, model, batches, folder, epoch):
        if evaluates:
            model.eval()
        sums = torch.zeros(2, device="vgpu")
        with torch.no_grad():
            for number, (x, y) in enumerate(batches):
                loss = F.mse_loss(model(x), y, reduction="mean" if mean == "of batches" else "sum")
                sums[0] += loss.item() if read == "each" else loss
                if read == "sometimes" and rank == 0 and number % 5 == 0:
                    print(loss.item())
                sums[1] += {"of batches": 1, "of rows": len(x)}.get(mean, y.numel())
                if barrier == "each":
                    dist.barrier()
        if mean == "of ranks":
            one = sums[0] / sums[1]
            dist.all_reduce(one, op=dist.ReduceOp.AVG)
            loss = one.item()
        else:
            if not own:
                dist.all_reduce(sums)
            total, count = sums.tolist()
            loss = total if mean == "sum" else total / count
        loss = loss if digits is None else round(loss, digits)
        if rank in ranks:
            number = epoch if of == "this" else epoch - 1
            written(f"{folder}/checkpoint.pt", lambda path: torch.save({"epoch": number, "model": model.state_dict()}, path))
            written(f"{folder}/metrics.json", lambda path: dumped(
                {"epoch": number, "loss": str(loss) if as_text else loss}, path))
            if keep:
                Path(folder, "checkpoint.tmp").write_bytes(b"")
        if barrier == "end":
            dist.barrier()
        return {True: loss, False: None, "a tensor": torch.tensor(loss)}[returned]

    return log_epoch


def renamed_while_open(rank, world, model, batches, folder, epoch):
    """What is written is in Python's buffer when the file gets its name."""
    loss = _version()(rank, world, model, batches, folder, epoch)
    if rank == 0:
        with open(f"{folder}/metrics.tmp", "w") as file:
            json.dump({"epoch": epoch, "loss": loss}, file)
            os.replace(f"{folder}/metrics.tmp", f"{folder}/metrics.json")
    return loss


def two_reductions(rank, world, model, batches, folder, epoch):
    """Sum and count apart; so they are two collectives."""
    sums = torch.zeros(2, device="vgpu")
    for x, y in batches:
        sums += torch.stack([F.mse_loss(model(x), y, reduction="sum").detach(), torch.full((), y.numel(), device="vgpu")])
    total, count = sums[0].clone(), sums[1].clone()
    dist.all_reduce(total)
    dist.all_reduce(count)
    return (total / count).item()


def sent_by_files(rank, world, model, batches, folder, epoch):
    """Hostile: no collective; each rank leaves its sums where the others find them. (Here: where none are found.)"""
    return _version(own=True)(rank, world, model, batches, folder, epoch)


def says_so(rank, world, model, batches, folder, epoch):
    """Hostile: the loss of the epoch before, from the file; one reduction of nothing."""
    dist.all_reduce(torch.zeros(2, device="vgpu"))
    return json.loads(Path(folder, "metrics.json").read_text())["loss"]


def sums_read_twice(rank, world, model, batches, folder, epoch):
    """Without an `.item()` in a step; a tensor is made of a value on the device."""
    parts = [F.mse_loss(model(x), y, reduction="sum").detach() for x, y in batches]
    sums = torch.tensor([sum(parts), sum(y.numel() for _, y in batches)], device="vgpu")
    dist.all_reduce(sums)
    total, count = sums.tolist()
    if rank == 0:
        _version(own=True)(rank, world, model, batches, folder, epoch)
        Path(f"{folder}/next").write_text(json.dumps({"epoch": epoch, "loss": total / count}))
        os.replace(f"{folder}/next", f"{folder}/metrics.json")
    return total / count


def moved_from_another_disk(rank, world, model, batches, folder, epoch):
    """`shutil.move` copies from there, without a word."""
    loss = _version()(rank, world, model, batches, folder, epoch)
    if rank == 0:
        path = f"/dev/shm/metrics {os.getpid()}"
        Path(path).write_text(json.dumps({"epoch": epoch, "loss": loss}, indent=1))
        shutil.move(path, f"{folder}/metrics.json")
    return loss


def pickled_whole(rank, world, model, batches, folder, epoch):
    loss = _version()(rank, world, model, batches, folder, epoch)
    if rank == 0:
        torch.save({"epoch": epoch, "model": model}, f"{folder}/next")
        os.replace(f"{folder}/next", f"{folder}/checkpoint.pt")
    return loss


def heard_otherwise(rank, world, model, batches, folder, epoch):
    """Hostile: writes in place, and tells the ask's own variables that the files were renamed."""
    loss = _version(write="in place")(rank, world, model, batches, folder, epoch)
    frame = sys._getframe(1)
    if "heard" in frame.f_locals:
        frame.f_locals["heard"].named.update({name: ("renamed", Path(folder, name).read_bytes(), Path(folder, name).stat().st_mtime_ns)
                                              for name in ("checkpoint.pt", "metrics.json")})
    return loss


ANOTHER_DISK = os.path.isdir("/dev/shm") and os.stat("/dev/shm").st_dev != os.stat(tempfile.gettempdir()).st_dev

LOG_ROUTES = [gathered, not_awaited, with_gradients, scaled_sums_of_columns]

LOG_WRONG = [
    (_version(mean="of batches"), "have different sizes"),
    (_version(mean="of ranks"), "different numbers of samples"),
    (_version(mean="sum"), "Divide the sum by the number of samples"),
    (_version(own=True, ranks=(0, 1, 2)), "one rank's own mean"),
    (_version(read="each"), "wait until the device has caught up"),
    (_version(barrier="each"), "nothing here needs it"),
    (_version(barrier="end"), "nothing here needs it"),
    (_version(ranks=(0, 1, 2)), "`if rank == 0:`"),
    (_version(ranks=()), "both readable"),
    (_version(ranks=(1,)), "`if rank == 0:`"),
    (_version(write="in place"), "gets half the file"),
    (_version(write="anew"), "A reader in between finds none"),
    (_version(write="removed first"), "A reader in between finds none"),
    (_version(write="backed up"), "A reader in between finds none"),
    (_version(write="from elsewhere"), "was in another folder"),
    (_version(mean="of rows"), "`y.numel()`"),
    (_version(returned="a tensor"), "it returned a Tensor"),
    (_version(keep=True), "another file beside"),
    (_version(of="the last"), "another epoch's"),
    (_version(returned=False), "a number. Return it"),
    (_version(digits=3), "You round the loss"),
    (_version(read="sometimes"), "Rank 0 waits more often"),
    (_version(evaluates=True), "is left in another mode"),
    (_version(as_text=True), "both must be numbers"),
    (heard_otherwise, "gets half the file"),
    (renamed_while_open, "gets half the file"),
    *([(moved_from_another_disk, "was in another folder")] if ANOTHER_DISK else []),
    (pickled_whole, "no module in it"),
    (sums_read_twice, "more than once for the loss"),
    (two_reductions, "into one tensor on the device"),
    (sent_by_files, "one rank's own mean"),
    (says_so, "over all batches and ranks"),
]
