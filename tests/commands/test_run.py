"""``gapless run``: a script on several virtual GPUs."""

import pytest
import torch

from gapless.commands.cli import main

SCRIPT = """
import sys
import torch, torch.distributed as dist
import gapless
from helper import word

device = gapless.device()
dist.init_process_group()
x = torch.ones(2, device=device) * dist.get_rank()
dist.all_reduce(x)
if dist.get_rank() == 1:
    open(sys.argv[1], "w").write(f"{word} {x.tolist()} {gapless.device_name(device)} {__name__}")
dist.destroy_process_group()
"""

# As for torchrun: it knows of no virtual GPU.
CUDA_SCRIPT = """
import os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

number = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(number)
device = torch.device("cuda", number)
dist.init_process_group("nccl", device_id=device)
torch.manual_seed(number)
model = DistributedDataParallel(torch.nn.Linear(3, 2).to(device), device_ids=[number], output_device=number)
x = torch.full((1, 3), float(number + 1))
model(x.cuda(number)).sum().backward()
dist.barrier(device_ids=[number])
if number == 1:
    open(sys.argv[1], "w").write(f"{x.to(device).device} {torch.cuda.device_count()} {model.module.weight.grad.tolist()}")
dist.destroy_process_group()
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "helper.py").write_text("word = 'sum'")
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"


def test_a_script_and_what_is_said_of_its_clocks(script, tmp_path, capfd):
    assert main(["run", "--gpus", "4", "--machines", "2", "--device", "h100", str(script), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == "sum [6.0, 6.0] NVIDIA H100 80GB HBM3 __main__"
    said = capfd.readouterr().err
    assert "Simulated: 4 × NVIDIA H100 80GB HBM3, machine dgx_h100, 2 of them" in said and "rank 3: host " in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="there cuda is a real GPU")
def test_a_script_that_says_cuda(tmp_path):
    (tmp_path / "train.py").write_text(CUDA_SCRIPT)
    assert main(["run", "--gpus", "2", str(tmp_path / "train.py"), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == f"cuda:1 2 {[[1.5] * 3] * 2}"


def test_a_script_that_fails(tmp_path, capsys):
    (tmp_path / "bad.py").write_text("import os\nif os.environ['RANK'] == '1':\n    raise SystemExit(3)\n")
    assert main(["run", "--gpus", "2", str(tmp_path / "bad.py")]) == 1
    said = capsys.readouterr().err
    assert "rank 1 of 2 failed" in said and "SystemExit: 3" in said


@pytest.mark.parametrize("arguments, says", [
    (["nowhere.py"], "there is no file nowhere.py"), (["--device", "a1000", __file__], "a1000"), (["--device", "cuda", __file__], "torchrun"),
    (["--gpus", "0", __file__], "0 GPUs"), (["--trace-steps", "2", __file__], "--traces FOLDER")])
def test_what_cannot_be_run(arguments, says, capsys):
    assert main(["run", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_steps_that_are_none(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--traces", "x", "--trace-steps", "3-2", __file__])
    assert "'3-2' is not a range of steps" in capsys.readouterr().err
