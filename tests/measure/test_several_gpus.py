"""A function on several virtual GPUs: values, clocks, errors. Each run forks this process."""

import atexit
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import gapless
from gapless import RankError, vgpu
from gapless.measure import several_gpus


def summed(rank, world, size):
    dist.init_process_group()
    x = torch.full((size,), float(rank + 1), device="vgpu:0")
    if rank == 1:  # the last to come
        for _ in range(5):
            x = x * 1
    before_ns = vgpu.timeline().host_ns
    dist.all_reduce(x)
    dist.destroy_process_group()
    return x, before_ns


def test_values_are_summed_and_the_clocks_meet():
    first, second = gapless.on_gpus(2, summed, 1000, device="a100")
    assert first.rank == 0 and second.rank == 1
    for result in (first, second):
        assert result.value[0].tolist() == [3.0] * 1000 and result.value[0].device.type == "cpu"
    assert first.value[1] < second.value[1] < first.device_ns == second.device_ns
    assert first.host_ns < first.device_ns  # it has not waited
    again = gapless.on_gpus(2, summed, 1000, device="a100")
    assert [(each.host_ns, each.device_ns) for each in again] == [(each.host_ns, each.device_ns) for each in (first, second)]


def environment(rank, world):
    return [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")] + [vgpu.card().key]


def test_the_environment_is_torchruns_and_each_has_the_card():
    found = gapless.on_gpus(4, environment, device="vgpu:h100", machines=2)
    assert [each.value for each in found] == [[str(rank), str(rank % 2), "4", "2", "h100"] for rank in range(4)]


def test_this_process_keeps_its_own_device():
    device = gapless.device("vgpu:t4")
    x = torch.ones(3, device=device)
    before = vgpu.timeline().host_ns, vgpu.memory().allocated_bytes
    gapless.on_gpus(2, lambda rank, world: torch.ones(9, device="vgpu:0").sum().item() + x.sum().item(), device="a100")
    assert (vgpu.timeline().host_ns, vgpu.memory().allocated_bytes) == before and vgpu.card().key == "t4"


def sum_of_ones(rank, world):
    dist.init_process_group()
    x = torch.ones(2, device="vgpu:0")
    dist.all_reduce(x)
    return x, dist.get_world_size()


def test_this_process_keeps_its_own_group(tmp_path):
    gapless.device("vgpu:t4")
    dist.init_process_group(init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        for result in gapless.on_gpus(2, sum_of_ones):
            assert result.value[0].tolist() == [2, 2] and result.value[1] == 2
        assert dist.get_world_size() == 1
    finally:
        dist.destroy_process_group()


def fails(rank, world):
    dist.init_process_group()
    if rank == 1:
        raise KeyError("no such batch")
    dist.barrier(device_ids=[0])


def dies(rank, world):
    dist.init_process_group()
    if rank == 1:
        os.kill(os.getpid(), 9)
    dist.barrier(device_ids=[0])


def one_batch_more(rank, world):
    dist.init_process_group()
    x = torch.ones(4, device="vgpu:0")
    for _ in range(2 + rank):
        dist.all_reduce(x)
    x.sum().item()


def in_another_order(rank, world):
    dist.init_process_group()
    x = torch.ones(4, device="vgpu:0")
    dist.all_reduce(x) if rank else dist.broadcast(x, 0)


def of_another_size(rank, world):
    dist.init_process_group()
    dist.all_reduce(torch.ones(4 + rank, device="vgpu:0"))


@pytest.mark.parametrize("function, rank, parts", [
    (fails, 1, ["KeyError: 'no such batch'", "in fails"]),
    (dies, 1, ["rank 1 of 2 failed", "SIGKILL"]),
    (one_batch_more, 1, ["rank 1 waits in allreduce of 4 float32 at", "for rank 0, which has ended", "as many batches"]),
    (in_another_order, None, ["rank 0 calls broadcast of 4 float32", "rank 1 calls allreduce of 4 float32", "test_several_gpus.py"]),
    (of_another_size, None, ["rank 0 calls allreduce of 4 float32", "rank 1 calls allreduce of 5 float32"]),
], ids=["an error", "killed", "one batch more", "another order", "another size"])
def test_a_failure_is_told_and_nothing_is_left(function, rank, parts):
    with pytest.raises(RankError) as error:
        gapless.on_gpus(2, function)
    if rank is not None:
        assert error.value.rank == rank
    for part in parts:
        assert part in str(error.value)
    assert not multiprocessing.active_children()


def hangs(rank, world, late):
    dist.init_process_group()
    if rank == late:
        time.sleep(60)
    dist.all_reduce(torch.ones(4, device="vgpu:0"))


@pytest.mark.slow
@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_that_keeps_the_others_waiting(late, monkeypatch):
    monkeypatch.setenv("GAPLESS_WAIT_LIMIT_S", "2")
    began = time.monotonic()
    with pytest.raises(RankError, match=f"rank {1 - late} waits in allreduce of 4 float32 at .* for rank {late}, and has for 2 real"):
        gapless.on_gpus(2, hangs, late)
    assert time.monotonic() - began < 30


def late(rank, world, seconds):
    dist.init_process_group()
    x = torch.ones(2, device="vgpu:0")
    time.sleep(seconds * rank)
    dist.all_reduce(x)
    time.sleep(seconds * (1 - rank))
    dist.new_group([0, 1])
    dist.barrier(device_ids=[0])


def test_how_long_ranks_really_wait_is_on_no_clock():
    clocks = [[(result.host_ns, result.device_ns) for result in gapless.on_gpus(2, late, seconds)] for seconds in (0, 0.5)]
    assert clocks[0] == clocks[1]


def comes_to_no_group(rank, world):
    if rank == 0:
        dist.init_process_group()


def both_receive(rank, world):
    dist.init_process_group()
    dist.recv(torch.ones(4, device="vgpu:0"), 1 - rank)


@pytest.mark.slow
@pytest.mark.parametrize("function, says", [(comes_to_no_group, "(?i)timed? ?out"), (both_receive, "Timed out waiting 3000ms for recv")])
def test_what_pytorch_itself_waits_for_has_the_limit_too(function, says, monkeypatch):
    monkeypatch.setenv("GAPLESS_WAIT_LIMIT_S", "3")
    began = time.monotonic()
    with pytest.raises(RankError, match=says):
        gapless.on_gpus(2, function)
    assert time.monotonic() - began < 30


def groups_in_another_order(rank, world):
    dist.init_process_group()
    for ranks in ([[0, 1], [0, 2]] if rank == 0 else [[0, 2], [0, 1]]):
        dist.new_group(ranks)


def test_groups_that_are_made_in_another_order():
    """Else the first groups were of ranks 0 and 2, whatever each of them believes."""
    with pytest.raises(RankError, match="the ranks make different groups in the same place: .* in the same order"):
        gapless.on_gpus(3, groups_in_another_order)


def the_first_ends_first(rank, world):
    """Rank 0 is in no group but that of all, and has nothing to do."""
    dist.init_process_group()
    group, x = dist.new_group([1, 2]), torch.ones(2, device="vgpu:0")
    if rank:
        time.sleep(0.5)
        dist.all_reduce(x, group=group)
    return x


def test_a_group_that_the_first_rank_is_not_in_outlives_it():
    assert [result.value.tolist() for result in gapless.on_gpus(3, the_first_ends_first)] == [[1, 1], [2, 2], [2, 2]]


def three_groups(rank, world):
    for _ in range(3):
        dist.init_process_group()
        x = torch.ones(2, device="vgpu:0")
        dist.all_reduce(x)
        dist.destroy_process_group()
    return x


def test_the_group_of_all_may_be_made_again():
    assert [result.value.tolist() for result in gapless.on_gpus(2, three_groups)] == [[2, 2]] * 2


def leaves_a_file(rank, world, folder):
    """As many programs end: by sys.exit(), a file not closed, what is left to do in atexit."""
    atexit.register((folder / f"exit{rank}").touch)
    file = open(folder / f"log{rank}", "w")  # noqa: SIM115  not closed, as said
    file.write("a line")
    torch.ones(4, device="vgpu:0").sum()
    sys.exit()


def test_a_program_that_ends_by_exit_has_its_trace_and_files(tmp_path):
    at_the_end = []
    atexit.register(at_the_end.append, 1)
    results = gapless.on_gpus(2, leaves_a_file, tmp_path, traces=tmp_path / "traces")
    assert all(result.read_trace().events and result.value is None for result in results)
    assert [(tmp_path / f"log{rank}").read_text() for rank in range(2)] == ["a line"] * 2
    assert sorted(path.name for path in tmp_path.glob("exit*")) == ["exit0", "exit1"] and not at_the_end


@pytest.mark.slow
def test_ranks_end_with_who_started_them(tmp_path):
    code = f"""
import os, time, gapless
def program(rank, world):
    open({str(tmp_path)!r} + f"/{{os.getpid()}}", "w").close()
    time.sleep(60)
gapless.on_gpus(2, program)"""
    process = subprocess.Popen([sys.executable, "-c", code])
    while len(list(tmp_path.iterdir())) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    until = time.monotonic() + 20
    while any(alive(int(path.name)) for path in tmp_path.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.05)


def alive(pid):
    """Whether the process runs; one that nobody has asked for its end runs no more."""
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def in_two_groups(rank, world):
    """Each waits in a group in which the other comes later."""
    dist.init_process_group()
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    x = torch.ones(4, device="vgpu:0")
    dist.all_reduce(x, group=groups[rank])
    dist.all_reduce(x, group=groups[1 - rank])


@pytest.mark.slow
def test_ranks_that_wait_for_one_another():
    with pytest.raises(RankError, match="all ranks wait for each other: rank 0 waits in allreduce .*; rank 1 waits in allreduce"):
        gapless.on_gpus(2, in_two_groups)


def test_what_cannot_leave_its_process_is_an_error():
    with pytest.raises(RankError, match="cannot leave its process"):
        gapless.on_gpus(1, lambda rank, world: (lambda: rank))


@pytest.mark.parametrize("count, options, says", [
    (0, {}, "0 GPUs"), (99, {}, "99 GPUs"), ("2", {}, "'2' GPUs"), (3, {"machines": 2}, "3 GPUs on 2 machines"),
    (2, {"machines": 0}, "on 0 machines"), (2, {"traces": __file__}, "is a file"),
    (2, {"trace_steps": (1, 2)}, "name a folder"), (2, {"traces": "traces", "trace_steps": (3, 2)}, "steps 3 to 2")])
def test_what_cannot_be_asked_for(count, options, says):
    with pytest.raises(ValueError, match=says):
        gapless.on_gpus(count, print, **options)
    with pytest.raises(vgpu.UnknownCard):
        gapless.on_gpus(2, print, device="a1000")


def test_plain_values():
    device = gapless.device("vgpu")
    x = torch.ones(2, device=device, requires_grad=True)
    found = several_gpus.plain({"a": [x * 2, (x, 3)]})
    assert found["a"][0].tolist() == [2, 2] and not found["a"][0].requires_grad and found["a"][1][0].device.type == "cpu"


def test_a_port_is_free_and_none_of_connections(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("", port := several_gpus.free_port()))
        numbers = iter([port - 20_000, 7])
        monkeypatch.setattr(several_gpus.secrets, "randbelow", lambda below: next(numbers))
        assert several_gpus.free_port() == 20_007 and 20_000 <= port < 32_000


def with_a_port_of_its_own(rank, count, port):
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group()


def test_a_port_that_another_program_has_taken():
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RankError, match=f"listens on port {port}.*os.environ.setdefault"):
            gapless.on_gpus(1, with_a_port_of_its_own, port)
    assert several_gpus.taken_port("address is wrong") == ""
