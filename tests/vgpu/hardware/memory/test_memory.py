import gc

import pytest
import torch

from gapless import vgpu
from gapless.vgpu.hardware.memory.memory import CUDA_MALLOC_NS, Memory, OutOfMemory, PrivatePool
from gapless.vgpu.hardware.memory.memory import block as living

KIB = 1024
MIB = 1024 * KIB


@pytest.fixture(autouse=True)
def without_collector():
    """What frees memory here is Python's reference counting, as on CUDA."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def used():
    """Bytes taken since the test began."""
    before = vgpu.memory().allocated_bytes
    return lambda: vgpu.memory().allocated_bytes - before


# -- the counter ------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes, taken", [(0, 0), (1, 512), (512, 512), (513, 1024), (10**6, 1_000_448)])
def test_sizes_are_rounded_up_to_512_bytes(nbytes, taken):
    memory = Memory(2**30)
    block = memory.allocate(nbytes)
    assert memory.allocated_bytes == block.nbytes == taken
    del block
    assert memory.allocated_bytes == 0


def test_a_block_is_found_by_its_key_until_it_dies():
    memory, key = Memory(2**30), -1  # no address of the host's
    first = memory.allocate(10, key)
    assert living(key) is first
    second = memory.allocate(10, key)
    del first  # its death forgets nothing but itself
    assert living(key) is second
    del second
    assert living(key) is None


def test_a_block_in_a_cycle_is_forgotten_too():
    memory, key = Memory(2**30), -1
    block = memory.allocate(10, key)
    block.uses = {}
    block.kept_for = [block]
    del block
    gc.collect()
    assert living(key) is None
    assert memory.allocated_bytes == 0


def test_the_peak_stays_when_memory_is_given_back():
    memory = Memory(2**30)
    first, second = memory.allocate(1024), memory.allocate(2048)
    del first, second
    memory.reserve_briefly(512)
    assert (memory.allocated_bytes, memory.peak_bytes) == (0, 3072)


def test_running_out_says_what_was_asked_and_what_is_left():
    memory = Memory(50 * MIB)
    block = memory.allocate(21 * MIB)
    with pytest.raises(OutOfMemory) as raised:
        memory.allocate(29 * MIB)
    assert str(raised.value).startswith(
        "CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 (simulated) has a total capacity of 50.00 MiB of which "
        "28.00 MiB is free. Of the allocated memory 22.00 MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
        "unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=")
    assert memory.allocated_bytes == block.nbytes


def test_changes_are_reported_while_somebody_listens():
    memory, changes = Memory(2**30), []
    memory.listeners = (lambda nbytes, address: changes.append((nbytes, address)),)
    first = memory.allocate(100)
    second = memory.allocate(1000)
    below, above = first.address, second.address
    assert above == below + 512
    del first, second
    assert changes == [(512, below), (1024, above), (-512, below), (-1024, above)]


# -- the cache --------------------------------------------------------------------------------------


def test_a_block_that_another_stream_uses_is_free_when_that_has_done_its_work(device):
    memory, other = vgpu.memory(), torch.vgpu.Stream()
    x = torch.ones(KIB, device=device)
    address = x.data_ptr()
    with other:
        vgpu.timeline().launch("long work", 10_000_000)
    x.record_stream(other)
    del x
    stats = memory.stats()
    assert stats["active_bytes"]["all"]["current"] == stats["allocated_bytes"]["all"]["current"] + 4 * KIB
    assert torch.empty(KIB, device=device).data_ptr() != address
    other.synchronize()
    assert torch.empty(KIB, device=device).data_ptr() == address


def test_each_stream_has_blocks_of_its_own(device):
    torch.empty(KIB, device=device)
    reserved = torch.vgpu.memory_reserved()
    with torch.vgpu.Stream():
        torch.empty(KIB, device=device)
    assert torch.vgpu.memory_reserved() == reserved + 2 * MIB


def test_what_is_cached_waits_for_the_next_and_goes_back_when_told(device):
    reserved = torch.vgpu.memory_reserved()
    x = torch.empty(40 * MIB, dtype=torch.uint8, device=device)
    address = x.data_ptr()
    del x
    assert torch.vgpu.memory_reserved() == reserved + 40 * MIB
    assert torch.empty(40 * MIB, dtype=torch.uint8, device=device).data_ptr() == address
    torch.vgpu.empty_cache()
    assert torch.vgpu.memory_reserved() <= reserved


def test_giving_back_waits_for_the_device_and_taking_anew_takes_time(device):
    timeline, waits = vgpu.timeline(), []
    timeline.wait_hooks.append(lambda wait: waits.append(wait.name))

    def take():
        start_ns = timeline.host_ns
        torch.empty(40 * MIB, dtype=torch.uint8, device=device)
        return timeline.host_ns - start_ns

    try:
        first_ns, again_ns = take(), take()
        torch.vgpu.empty_cache()
        assert waits == ["cudaFree"] and timeline.host_ns >= timeline.device_ready_ns
        assert take() == first_ns + CUDA_MALLOC_NS == again_ns + CUDA_MALLOC_NS
        timeline.reset()
        assert take() == first_ns  # as in a process that begins
    finally:
        timeline.wait_hooks.clear()


def test_a_card_may_have_the_bytes_and_no_block_for_them():
    """Each segment of 20 MiB has a block of 5 MiB in use and 15 MiB that nobody can have."""
    memory = Memory(100 * MIB)
    blocks = [memory.allocate(5 * MIB) for _ in range(20)]
    del blocks[0::4], blocks[0::3], blocks[0::2]
    assert (memory.allocated_bytes, memory.reserved_bytes) == (25 * MIB, 100 * MIB)
    with pytest.raises(OutOfMemory, match="25.00 MiB is allocated by PyTorch, and 75.00 MiB is reserved by PyTorch but unall"):
        memory.allocate(16 * MIB)
    memory.empty_cache()
    assert memory.reserved_bytes == 100 * MIB  # no segment is wholly free
    assert memory.allocate(15 * MIB).nbytes == 15 * MIB
    blocks.clear()
    assert memory.allocate(90 * MIB).nbytes == 90 * MIB  # the cache goes back, and it is tried again
    assert memory.counts["num_alloc_retries"] == 2 and memory.counts["num_ooms"] == 1


def test_a_program_may_allow_itself_less():
    memory = Memory(100 * MIB)
    memory.allow(50 * MIB)
    with pytest.raises(OutOfMemory, match="50.00 MiB allowed; Of the allocated memory 0 bytes"):
        memory.allocate(60 * MIB)
    assert memory.allocate(50 * MIB).nbytes == 50 * MIB


def test_a_snapshot_has_every_block(device):
    vgpu.timeline().reset()
    kept = torch.empty(3 * MIB + 1, dtype=torch.uint8, device=device)
    segment = next(each for each in torch.vgpu.memory_snapshot() if each["blocks"][0]["address"] == kept.data_ptr())
    assert (segment["total_size"], segment["segment_type"], segment["allocated_size"]) == (20 * MIB, "large", 3 * MIB + 512)
    assert [(block["size"], block["requested_size"], block["state"]) for block in segment["blocks"]] == [
        (3 * MIB + 512, 3 * MIB + 1, "active_allocated"), (17 * MIB - 512, 0, "inactive")]


# -- tensors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["exact", "shape only"])
def test_a_tensor_takes_its_bytes_and_gives_them_back(device, used, mode):
    def use():
        x = torch.empty(KIB, device=device)
        assert used() == 4 * KIB
        y = x + 1
        assert used() == 8 * KIB
        del x, y
        assert used() == 0

    if mode == "exact":
        use()
    else:
        with vgpu.shape_only():
            use()


def test_views_share_their_storage_and_keep_it(device, used):
    x = torch.empty(4, KIB, device=device)
    views = [x[0], x.t(), x.view(-1), x.detach(), x[1][2:5], x.data]
    assert used() == 16 * KIB
    del x
    assert used() == 16 * KIB
    del views
    assert used() == 0


def test_in_place_operators_take_nothing(device, used):
    x = torch.zeros(KIB, device=device)
    x += 1
    x.mul_(2)[3] = 7
    assert used() == 4 * KIB


def test_storage_grown_by_resize_is_counted(device, used):
    x = torch.zeros(2, device=device)
    x.resize_(KIB)
    assert used() == 4 * KIB


def test_a_training_step_leaves_only_what_stays(device, used):
    layer = torch.nn.Linear(256, 256, bias=False).to(device)
    x = torch.randn(8, 256, device=device)
    steady = 256 * 256 * 4 * 2 + 8 * 256 * 4  # weight, gradient, input
    for _ in range(3):
        layer.zero_grad()
        layer(x).relu().sum().backward()
        assert used() == steady


def test_activations_are_freed_with_the_graph(device, used):
    x = torch.randn(KIB, device=device, requires_grad=True)
    y = x.exp().sin()
    assert used() == 3 * 4 * KIB
    y.sum().backward()
    del y
    assert used() == 2 * 4 * KIB  # x and its gradient


def test_peak_and_its_reset(device):
    torch.vgpu.reset_peak_memory_stats()
    before = torch.vgpu.memory_allocated()
    x = torch.empty(100 * KIB, device=device)
    del x
    assert torch.vgpu.max_memory_allocated() == before + 400 * KIB
    torch.vgpu.reset_peak_memory_stats()
    assert torch.vgpu.max_memory_allocated() == before


# -- the peak of a training step, by hand -----------------------------------------------------------


def rounded(*shape):
    """Bytes of a float32 tensor as the allocator rounds them."""
    nbytes = 4
    for size in shape:
        nbytes *= size
    return (nbytes + 511) // 512 * 512


NUMBER = 512  # a tensor of one number


def peak_of_a_step(device, network, x, used):
    """Bytes above those before the network was made."""
    torch.vgpu.reset_peak_memory_stats()
    before = vgpu.memory().allocated_bytes - used()
    network(x).sum().backward()
    return torch.vgpu.max_memory_allocated() - before


@pytest.mark.parametrize("mode", ["exact", "shape only"])
@pytest.mark.parametrize("batch, wide, hidden, out", [(64, 100, 300, 10), (7, 500, 33, 1000), (1000, 3, 200, 5),
                                                      (1, 1, 1, 1)])
def test_peak_of_a_perceptrons_step(device, used, mode, batch, wide, hidden, out):
    def check():
        network = torch.nn.Sequential(torch.nn.Linear(wide, hidden, bias=False), torch.nn.ReLU(),
                                      torch.nn.Linear(hidden, out, bias=False)).to(device)
        x = torch.randn(batch, wide, device=device)
        first, second, values = rounded(wide, hidden), rounded(hidden, out), rounded(batch, hidden)
        stays = rounded(batch, wide) + first + second
        expected = max(
            stays + 2 * values,  # ReLU: before and after
            stays + values + rounded(batch, out) + NUMBER,  # the sum: what it adds up is still there
            stays + 2 * NUMBER + second + 3 * values,  # ReLU backwards: its result, the gradients after and before it
            stays + 2 * NUMBER + second + values + first,  # the first layer backwards: both weights' gradients
        )
        assert peak_of_a_step(device, network, x, used) == expected

    if mode == "exact":
        check()
    else:
        with vgpu.shape_only():
            check()


@pytest.mark.parametrize("batch, channels, width, side", [(4, 3, 8, 16), (2, 16, 32, 20), (1, 64, 64, 3)])
def test_peak_of_a_convolution_nets_step(device, used, batch, channels, width, side, monkeypatch):
    monkeypatch.setenv("CUDNN_CONV_WSCAP_DBG", "0")  # no workspaces (tests/vgpu/core/test_tuning.py has these)
    vgpu.forget_plans()
    network = torch.nn.Sequential(torch.nn.Conv2d(channels, width, 3, padding=1, bias=False), torch.nn.ReLU(),
                                  torch.nn.Conv2d(width, channels, 3, padding=1, bias=False)).to(device)
    x = torch.randn(batch, channels, side, side, device=device)
    weight, values = rounded(channels, width, 9), rounded(batch, width, side, side)
    outside = rounded(batch, channels, side, side)
    stays = outside + 2 * weight
    assert peak_of_a_step(device, network, x, used) == max(
        stays + 2 * values, stays + values + outside + NUMBER, stays + 2 * NUMBER + weight + 3 * values,
        stays + 2 * NUMBER + weight + values + weight)


@pytest.mark.parametrize("make, kept", [(lambda p: torch.optim.SGD(p, lr=0.1), 0),
                                        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 1),
                                        (torch.optim.Adam, 2), (torch.optim.Adagrad, 1)])
def test_what_an_optimizer_keeps(device, used, make, kept):
    weight = torch.nn.Parameter(torch.zeros(KIB, device=device))
    weight.grad = torch.zeros(KIB, device=device)
    optimizer = make([weight])
    optimizer.step()
    assert used() == (2 + kept) * 4 * KIB
    optimizer.zero_grad()
    assert used() == (1 + kept) * 4 * KIB


# -- out of memory ----------------------------------------------------------------------------------


def test_more_than_the_card_is_pytorchs_own_error(device, used):
    with vgpu.shape_only():
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 37.25 GiB.*24.00 GiB"):
            torch.empty(10**10, device=device)
    assert used() == 0


def test_a_tensor_larger_than_card_and_host_is_the_cards_error(device):
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(10**13, device=device)


def test_out_of_memory_forward_frees_what_the_step_held(device, used):
    def step():
        x = torch.empty(2**30, device=device)
        return [x * n for n in range(10)]

    with vgpu.shape_only():
        with pytest.raises(torch.OutOfMemoryError):
            step()
    assert used() == 0


def test_out_of_memory_inside_backward_reaches_the_program(device, used):
    with vgpu.shape_only():
        x = torch.empty(2**31, device=device, requires_grad=True)  # 8 of 24 GiB
        y = x * 2
        with pytest.raises(torch.OutOfMemoryError):
            (y * y).sum().backward()
        del x, y
    assert used() == 0


def test_training_goes_on_after_it_ran_out(device):
    with vgpu.shape_only():
        x = torch.empty(2**31, device=device, requires_grad=True)
        for _ in range(3):
            with pytest.raises(torch.OutOfMemoryError):
                (x * 2 * x).sum().backward()
    small = torch.ones(3, device=device, requires_grad=True)
    small.sum().backward()
    assert small.grad.tolist() == [1, 1, 1]


def test_a_private_pool_keeps_its_memory_as_long_as_a_graph_needs_it():
    memory = Memory(100 * MIB)
    pool = PrivatePool(memory)
    pool.users = 2
    memory.private = pool
    address = memory.allocate(30 * MIB).address
    memory.private = None
    assert memory.allocate(30 * MIB).address != address
    memory.empty_cache()
    assert (memory.allocated_bytes, memory.reserved_bytes) == (0, 30 * MIB)
    with pytest.raises(OutOfMemory, match=r"with 30.00 MiB allocated in private pools \(e.g., CUDA Graphs\)"):
        memory.allocate(80 * MIB)
    memory.private = pool
    assert memory.allocate(30 * MIB).address == address
    memory.private = None
    pool.release()
    with pytest.raises(OutOfMemory):
        memory.allocate(80 * MIB)
    pool.release()
    assert memory.allocate(80 * MIB).nbytes == 80 * MIB
    assert not memory.private_pools


def test_a_capture_cannot_wait_for_the_cache_to_go_back():
    memory = Memory(100 * MIB)
    memory.allocate(80 * MIB)
    memory.private = pool = PrivatePool(memory)
    pool.users = 1
    with pytest.raises(OutOfMemory):
        memory.allocate(30 * MIB)
    memory.private = None
    assert memory.allocate(30 * MIB).nbytes == 30 * MIB
