"""A graded cell on several ranks: each has a process behind the fence and a device process of its own."""

import pytest

from gapless.grading.grade import grade
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


def test_the_solution_has_all_points(tmp_path):
    verdict = graded(BODY, tmp_path)
    assert verdict.earned == find_lesson(LESSON).exercises["main"].max_points, verdict.message


@pytest.mark.parametrize("cell, says", [
    (BY_FILES, "samples of an epoch"), (ENDS, "its process ended"), (ANOTHER, "rank 1 of 2, and said that it is rank 0"),
])
def test_what_is_no_training_together_has_none(cell, says, tmp_path):
    verdict = graded(cell, tmp_path)
    assert verdict.earned == 0 and says in verdict.message


def test_files_of_an_epoch_are_looked_at_in_the_sandbox(tmp_path):
    verdict = graded(LOGS, tmp_path, "log_epoch")
    assert verdict.earned == find_lesson(LESSON).exercises["log_epoch"].max_points, verdict.message


@pytest.mark.parametrize("cell, says", [
    (SUMS_BY_FILES, "Nothing went from GPU to GPU"),
    (LOGS.replace("os.replace(path + ", "open(path, 'wb').write(open(path + '.tmp', 'rb').read()) or os.remove(path + ")
     .replace('".tmp", path)', '".tmp")'),
     "gets half of it"),
])
def test_sums_that_no_device_has_sent_and_files_in_place_have_none(cell, says, tmp_path):
    verdict = graded(cell, tmp_path, "log_epoch")
    assert verdict.earned == 0 and says in verdict.message
