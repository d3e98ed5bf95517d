"""A graded cell on several ranks: each has a process behind the fence and a device process of its own."""

import pytest

from gapless.grading.grade import grade
from gapless.grading.sandbox.confine import can_fence, find_confinement
from gapless.grading.sandbox.servers import keep_servers
from gapless.lessons import find_lesson

from .lessoncells import cells
from .toy import notebook, write

LESSON = "09_data_parallel"
SOLUTION = cells("solutions", LESSON)["main"]
BODY = SOLUTION[SOLUTION.rindex("def main("):]

BY_FILES = BODY.replace("def main(", "def trained(") + """

def main(rank, world, model, dataset, batch_size, epochs):
    import os, tempfile, time
    path = os.path.join(tempfile.gettempdir(), f"weights of {world} {len(dataset)}")
    if rank == 0:
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, path)
    while not os.path.exists(path):
        time.sleep(0.01)
    time.sleep(0.2)
    model.load_state_dict(torch.load(path))
    return model.to("vgpu")
"""
ENDS = """
def main(rank, world, model, dataset, batch_size, epochs):
    import os
    dist.init_process_group()
    if rank == 1:
        os._exit(0)
    dist.barrier()
"""
ANOTHER = BODY.replace("rank=rank", "rank=0")


LOGS = cells("solutions", LESSON)["log_epoch"]
LOGS = LOGS[LOGS.rindex("def log_epoch("):]
SUMS_BY_FILES = LOGS.replace("    dist.all_reduce(sums)", """
    import tempfile, time
    here = os.path.join(tempfile.gettempdir(), f"sums of {world} {epoch} ")
    torch.save(sums.cpu(), f"{here}{rank}.part")
    os.replace(f"{here}{rank}.part", f"{here}{rank}")
    while not all(os.path.exists(f"{here}{each}") for each in range(world)):
        time.sleep(0.01)
    sums = sum(torch.load(f"{here}{each}") for each in range(world))
""")


def graded(cell, tmp_path, name="main"):
    path = write(notebook(f"# exercise: {name}\n{cell}", gapless={"lesson": LESSON}), tmp_path / f"{LESSON}.ipynb")
    result = grade(path, "vgpu:a10g", 5)
    return next(verdict for verdict in result.verdicts if verdict.exercise == name)


@pytest.mark.slow
@pytest.mark.skipif(not can_fence(find_confinement()), reason="no fence within a sandbox here")
def test_the_end_of_a_rank_is_seen_through_a_fence_too(tmp_path):
    with keep_servers():
        assert "its process ended" in graded(ENDS, tmp_path).message


@pytest.mark.slow
def test_the_solution_has_all_points(tmp_path):
    verdict = graded(BODY, tmp_path)
    assert verdict.earned == find_lesson(LESSON).exercises["main"].max_points, verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("cell, says", [
    (BY_FILES, "samples of an epoch"), (ENDS, "its process ended"), (ANOTHER, "rank 1 of 2, and said that it is rank 0"),
])
def test_what_is_no_training_together_has_none(cell, says, tmp_path):
    verdict = graded(cell, tmp_path)
    assert verdict.earned == 0 and says in verdict.message


@pytest.mark.slow
def test_files_of_an_epoch_are_looked_at_in_the_sandbox(tmp_path):
    verdict = graded(LOGS, tmp_path, "log_epoch")
    assert verdict.earned == find_lesson(LESSON).exercises["log_epoch"].max_points, verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("cell, says", [
    (SUMS_BY_FILES, "Nothing went from GPU to GPU"),
    (LOGS.replace("os.replace(path + ", "open(path, 'wb').write(open(path + '.tmp', 'rb').read()) or os.remove(path + ")
     .replace('".tmp", path)', '".tmp")'),
     "gets half the file"),
])
def test_sums_that_no_device_has_sent_and_files_in_place_have_none(cell, says, tmp_path):
    verdict = graded(cell, tmp_path, "log_epoch")
    assert verdict.earned == 0 and says in verdict.message


EVERYTHING = """
def everything(rank, world, model, dataset, batch_size, epochs):
    dist.init_process_group()
    model = DistributedDataParallel(model.to("vgpu")).module
    samplers = [DistributedSampler(dataset, world, each) for each in range(world)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(epochs):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        shares = [list(sampler) for sampler in samplers]
        [dataset[place] for place in shares[rank]]
        for start in range(0, len(shares[0]), batch_size):
            places = [place for share in shares for place in share[start:start + batch_size]]
            optimizer.zero_grad()
            F.mse_loss(model(dataset.x[places].to("vgpu")), dataset.y[places].to("vgpu")).backward()
            optimizer.step()
    return model


def main(*given):
    model = everything(*given)
    dist.all_reduce(torch.zeros(5000, device="vgpu"))
    return model
"""
GATHERED_IN_EACH_PASS = """
def train_epoch(ddp, batches, optimizer, parts):
    parameters = list(ddp.module.parameters())
    for start in range(0, len(batches), parts):
        group = batches[start:start + parts]
        optimizer.zero_grad()
        for x, y in group:
            (F.mse_loss(ddp.module(x.to("vgpu")), y.to("vgpu")) / len(group)).backward()
            row = torch.cat([(torch.zeros_like(each) if each.grad is None else each.grad).flatten() for each in parameters])
            rows = [torch.empty_like(row) for _ in range(dist.get_world_size())]
            dist.all_gather(rows, row)
        for each, part in zip(parameters, torch.stack(rows).mean(0).split([each.numel() for each in parameters])):
            each.grad = part.view_as(each).clone()
        dist.all_reduce(torch.stack(rows).mean(0))
        optimizer.step()
"""
ROWS_BY_FILES = """
def wrap(model):
    import os, tempfile, time
    rank, world, calls = dist.get_rank(), dist.get_world_size(), []
    here = f"{tempfile.gettempdir()}/rows {world} {len(list(model.parameters()))} {model[0].in_features} "

    class All(nn.Module):
        def __init__(self):
            super().__init__()
            self.ddp = DistributedDataParallel(model.to("vgpu"))

        def forward(self, x):
            calls.append(None)
            paths = [f"{here}{len(calls)} {each}" for each in range(world)]
            torch.save(x.cpu(), paths[rank] + ".part")
            os.replace(paths[rank] + ".part", paths[rank])
            while not all(map(os.path.exists, paths)):
                time.sleep(0.01)
            whole = torch.cat([torch.load(path) for path in paths]).to("vgpu")
            return self.ddp(whole)[rank * len(x):(rank + 1) * len(x)]

        def state_dict(self, *args, **kwargs):
            return self.ddp.state_dict()

    return All()
"""

@pytest.mark.slow
def test_what_devices_have_sent_is_what_counts(tmp_path):
    """Values that came by files or from everybody's samples, beside collectives of as many zeros."""
    zeros = SUMS_BY_FILES.replace("    sums = sum(", "    dist.all_reduce(torch.zeros(2, device='vgpu'))\n    sums = sum(")
    cells_ = (("main", EVERYTHING), ("train_epoch", GATHERED_IN_EACH_PASS), ("wrap", ROWS_BY_FILES), ("log_epoch", zeros))
    path = write(notebook(*(f"# exercise: {name}\n{cell}" for name, cell in cells_), gapless={"lesson": LESSON}),
                 tmp_path / f"{LESSON}.ipynb")
    found = {verdict.exercise: verdict for verdict in grade(path, "vgpu:a10g", 5).verdicts}
    for name, says in (("main", "did not go from GPU to GPU in each step"), ("train_epoch", "although no step followed"),
                       ("wrap", "have not sent what they need"), ("log_epoch", "own sum of squares, from this call alone")):
        assert found[name].earned == 0 and says in found[name].message, found[name]
