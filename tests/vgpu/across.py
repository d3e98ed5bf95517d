"""Programs that run here and, as ``python -m tests.vgpu.across FD``, in a process whose device is at the other end of a socket."""

import gc
import io
import socket
import sys
from contextlib import nullcontext
from functools import partial

import torch
import torch._dynamo.mutation_guard
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

import gapless


def trains(device):
    # As after any torch.compile of the process, which makes modules more of Python's work: alike in both processes.
    torch._dynamo.mutation_guard.install_generation_tagging_init()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(256, 5)).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.arange(6 * 192.0).reshape(6, 3, 8, 8).sin().to(device), torch.arange(6).remainder(5).to(device)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + network[4].bias.tolist()


def compiles(device):
    torch._dynamo.reset()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4)).to(device)
    compiled = torch.compile(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    update = torch.compile(optimizer.step)
    losses = []
    for rows in (4, 4, 6, 8):
        optimizer.zero_grad()
        torch.manual_seed(rows)
        loss = compiled(torch.arange(8.0 * rows).reshape(rows, 8).sin().to(device)).square().mean()
        loss.backward()
        update()
        losses.append(loss.item())
    return losses + network[4].bias.tolist()


def attends(device):
    q = torch.arange(2 * 4 * 8 * 16.0).reshape(2, 4, 8, 16).sin().to(device).requires_grad_()
    F.scaled_dot_product_attention(q, q, q, is_causal=True).square().sum().backward()
    return q.grad.flatten().tolist()


def infers(device):
    rows = torch.arange(12.0).reshape(3, 4).to(device)
    with torch.inference_mode():
        halves = rows[:, :2].t() @ rows.chunk(2, -1)[1]
        rows.view(-1).add_(1)
    return halves.tolist() + rows.tolist()


def recurs(device):
    torch.manual_seed(1)
    lstm = nn.LSTM(4, 6, num_layers=2).to(device)
    out, (h, _) = lstm(torch.arange(60.0).reshape(5, 3, 4).cos().to(device))
    (out.mean() + h.sum()).backward()
    return lstm.weight_ih_l0.grad.flatten().tolist()


def views_and_masks(device):
    x = torch.arange(6, device=device).reshape(2, 3)
    x.t_()
    y = x[:, 1].clone()
    y.unsqueeze_(0)
    x[x > 3] = 9
    z = x.float().requires_grad_()
    (z[x > 1] * 2).sum().backward()
    return [list(x.shape), x.tolist(), list(y.shape), z.grad.tolist(), x.nonzero().tolist(), torch.unique(x).tolist(),
            x.stride(), x.data_ptr() == x.view(-1).data_ptr() if x.is_contiguous() else None]


def parameters_change(device):
    layer = nn.Linear(2, 2).to(device)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    layer.weight.data = torch.full((3, 2), 2.0, device=device)
    layer.bias = None
    again = io.BytesIO()
    torch.save({"w": layer.weight.detach()}, again)
    again.seek(0)
    loaded = torch.load(again)["w"]
    return [layer(torch.ones(1, 2, device=device)).tolist(), loaded.tolist(), loaded.device.type]


def reads_early(device):
    big = torch.ones(4_000_000, device=device)
    for _ in range(5):
        big = big * 1.0
    host = big[:3].to("cpu", non_blocking=True)
    early = host.isnan().tolist()
    event = torch.vgpu.Event()
    event.record()
    asked = 0
    while not event.query():
        asked += 1
    buffer = torch.zeros(3).pin_memory()
    big.mul_(2)
    buffer.copy_(big[:3], non_blocking=True)
    before = buffer.isnan().tolist()
    back = buffer.to(device, non_blocking=True).tolist()  # behind the copy, in the order of the stream
    torch.vgpu.synchronize()
    return [early, host.tolist(), asked, before, back, buffer.tolist()]


def streams(device):
    side, x = torch.vgpu.Stream(), torch.ones(1000, device=device)
    side.wait_stream(torch.vgpu.current_stream())
    start, end = torch.vgpu.Event(enable_timing=True), torch.vgpu.Event(enable_timing=True)
    with torch.vgpu.stream(side):
        start.record()
        y = x @ x
        end.record()
    torch.vgpu.current_stream().wait_event(end)
    z = (y + 1).item()
    end.synchronize()
    return [z, start.elapsed_time(end), side.query(), torch.vgpu.current_stream().stream_id]


def random_numbers(device):
    generator = torch.Generator(device=device)
    generator.manual_seed(3)
    found = [torch.randn(3, device=device, generator=generator).tolist() for _ in range(2)]
    torch.manual_seed(5)
    found.append(torch.rand(2, device=device).tolist())
    state = torch.vgpu.get_rng_state()
    found.append(torch.rand(2, device=device).tolist())
    torch.vgpu.set_rng_state(state)
    return [*found, torch.rand(2, device=device).tolist(), torch.nn.functional.dropout(torch.ones(8, device=device)).tolist()]


def errors(device):
    found = []
    for attempt in (lambda: torch.empty(10**12, device=device), lambda: torch.ones(3, device=device)[:, 2],
                    lambda: torch.ones(3, device=device) @ torch.ones(4, device=device),
                    lambda: torch.ones(3, device=device) + torch.ones(3), lambda: torch.ones(2, device=device).numpy()):
        try:
            attempt()
        except Exception as error:
            found.append(type(error).__name__)
    return found


def lower_precision(device):
    with torch.autocast("vgpu", dtype=torch.bfloat16):
        out = nn.Linear(4, 4).to(device)(torch.ones(2, 4, device=device))
    return [str(out.dtype), torch.vgpu.max_memory_allocated() > 0, torch.vgpu.get_device_name()]


def tunes(device):
    x, layer = torch.ones(2, 3, 8, 8, device=device), nn.Conv2d(3, 4, 3).to(device)
    torch.backends.cudnn.benchmark = True
    try:
        return [layer(x).shape[2], layer(x).shape[3]]
    finally:
        torch.backends.cudnn.benchmark = False


def keeps_random_states(device):
    state = torch.vgpu.get_rng_state()
    for _ in range(3):
        torch.vgpu.set_rng_state(state)
    return torch.rand(2, device=device).shape[0]


def checkpoints(device):
    x = torch.arange(4.0, device=device).requires_grad_()
    torch.utils.checkpoint.checkpoint(lambda t: t.sin().square(), x, use_reentrant=False).sum().backward()
    torch.manual_seed(7)
    y = torch.ones(64, device=device, requires_grad=True)
    dropped = torch.utils.checkpoint.checkpoint(lambda t: nn.functional.dropout(t.exp()).log1p(), y, use_reentrant=False)
    dropped.sum().backward()  # where the mask is another one, the gradient is not 0 in the same places
    return [x.grad.tolist(), y.grad.tolist(), dropped.tolist(), torch.rand(2, device=device).tolist()]


def memory_savers(device):
    """Checkpoints of all kinds with random numbers, what is saved on the host, and a hook of a gradient."""
    found, x = [], torch.arange(4.0, device=device).requires_grad_()
    weight = torch.ones(4, device=device, requires_grad=True)
    weight.register_post_accumulate_grad_hook(lambda each: found.append(each.grad.tolist()))

    def kept(ctx, func, *args, **kwargs):
        return func is torch.ops.aten.sin.default

    def block(t):
        return F.rms_norm(F.dropout(t.sin(), 0.5) * weight, (4,))

    selective = partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, kept)
    for options in ({}, {"use_reentrant": False}, {"use_reentrant": True},
                    {"use_reentrant": False, "context_fn": selective}):
        torch.manual_seed(0)
        x.grad, before = None, torch.vgpu.memory_allocated()
        with nullcontext() if options else torch.autograd.graph.save_on_cpu(pin_memory=True):
            y = torch.utils.checkpoint.checkpoint(block, x, **options) if options else block(x)
        held = torch.vgpu.memory_allocated() - before
        y.square().sum().backward()
        found.append((x.grad.tolist(), held, torch.rand(2, device=device).tolist()))
    return found


def overwrites(device):
    source = torch.ones(1_000_000).pin_memory()
    there = source.to(device, non_blocking=True)
    source.zero_()
    torch.vgpu.synchronize()
    return there.sum().item()


def on_the_host(device):
    """Operands that lie there, and formulas that ask it."""
    x = torch.arange(24.0).reshape(2, 3, 4).sin().to(device).requires_grad_()
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 3]), batch_first=True, enforce_sorted=False)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    value = torch.tensor(0.5, device=device, requires_grad=True)
    loss = padded.sum() + x.prod(2).sum() + x.prod() + x[0].cumprod(0).sum() + x.masked_fill(x.detach() > 0, value).sum()
    loss = loss + F.ctc_loss(x.transpose(0, 1).log_softmax(2), torch.tensor([1, 2], dtype=torch.int32), (3, 3), (1, 1))
    loss = loss + F.ctc_loss(x.transpose(0, 1).log_softmax(2), torch.tensor([[1], [2]], device=device), (3, 3), (1, 1))
    loss.backward()
    kept = [torch.ones(4, device=device)]
    torch._foreach_addcdiv_(kept, [x[0, 0].detach()], [x[0, 1].detach() + 2], torch.tensor([0.5]))
    host = [torch.zeros(4)]
    torch._foreach_copy_(host, kept)
    total = torch.tensor(0.0)
    try:
        total += loss.detach()
    except RuntimeError as error:
        return [x.grad.flatten().tolist(), value.grad.item(), host[0].tolist(), lengths.tolist(), total.item(), str(error)[:60]]


def storages(device):
    x = torch.arange(6.0, device=device)
    storage, view = x.untyped_storage(), x[2:]
    found = [storage.nbytes(), storage.tolist(), x.data_ptr() == storage.data_ptr() == view.data_ptr() - 8, str(storage.device)]
    before = torch.vgpu.memory_allocated()
    storage.resize_(0)
    found += [torch.vgpu.memory_allocated() - before, x.data_ptr()]
    try:
        x + 1
    except RuntimeError as error:
        found.append(str(error))
    storage.resize_(24)
    x.copy_(torch.ones(6))
    placed = torch.empty(0, device=device).set_(storage, 1, (2, 2), (2, 1))
    placed.zero_()
    file = io.BytesIO()
    torch.save([x, view], file)
    file.seek(0)
    whole, part = torch.load(file)
    whole[3] = 7
    made = torch.UntypedStorage([1, 2, 3], device=device)
    return [*found, x.tolist(), part.tolist(), made.clone().tolist(), torch.UntypedStorage(3).copy_(made).tolist()]


def other_dtypes_and_tangents(device):
    x = torch.arange(6.0, device=device)
    half = F.avg_pool3d(torch.arange(64.0, device=device).half().reshape(1, 1, 4, 4, 4), 2)
    rows = torch.masked_select(x, x > 2, out=torch.zeros(0, device=device))
    infinite = torch.where(x > 4, float("inf"), x)
    try:
        refused = (x.long() @ x.long()).tolist()
    except NotImplementedError as error:
        refused = str(error)
    return [half.tolist(), str(half.dtype), torch.fft.rfft(x[:4].half()).cpu().to(torch.complex64).real.tolist(), rows.tolist(),
            refused, torch.func.jvp(torch.nanmean, (infinite,), (torch.ones_like(x),))[1].tolist(),
            torch.func.linearize(lambda t: t.square().sum(), x)[1](x).tolist()]


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, number):
        gapless.host_work(5)
        return torch.full((2, 3), float(number)) + 1


def conjugates(device):
    """Lazy ones are read, written through and given to operators that know of them and that do not."""
    x = torch.tensor([[1 + 2j, 3j], [0.5, 1 - 1j]], device=device)
    lazy = x.conj()
    lazy[0].mul_(1j)
    lazy.imag.add_(1.0)
    return [lazy.is_conj(), lazy.imag.is_neg(), x.tolist(), (x.mH @ lazy).tolist(), (1 - lazy).tolist(), lazy[1].cpu().tolist(),
            torch.cat([lazy, x]).sum().item()]


def loads(device):
    """Worker processes of the program's own, forked where the link to the device is."""
    seen = []
    for pin_memory in (False, True):
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=2, pin_memory=pin_memory)
        for batch in loader:
            seen.append(batch.to(device, non_blocking=pin_memory).sum().item())
    return seen


def graphs(device):
    gc.collect()
    taken = torch.vgpu.memory_reserved()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 4)).to(device)
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    x, q = torch.arange(64.0).reshape(8, 8).sin().to(device), torch.ones(1, 1, 4, 8, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = network(x).square().mean() + F.scaled_dot_product_attention(q * x[:4], q, q).sum()
        loss.backward()
        optimizer.step()
        return loss

    side = torch.vgpu.Stream()
    side.wait_stream(torch.vgpu.current_stream())
    with torch.vgpu.stream(side):
        step()
    torch.vgpu.current_stream().wait_stream(side)
    graph, losses = torch.vgpu.CUDAGraph(), []
    with torch.vgpu.graph(graph):
        assert torch.vgpu.is_current_stream_capturing()
        loss = step()
    for _ in range(3):
        x.add_(0.1)
        graph.replay()
        losses.append(loss.item())
    kept = torch.vgpu.memory_reserved()
    del graph
    try:
        with torch.vgpu.graph(torch.vgpu.CUDAGraph()):
            x.sum().item()
    except torch.AcceleratorError as error:
        losses += [str(error), str(error.__context__)]
    gc.collect()
    return [losses, network[0].bias.tolist(), kept > taken, torch.vgpu.is_current_stream_capturing()]


PROGRAMS = {each.__name__: each for each in (
    trains, attends, infers, recurs, views_and_masks, parameters_change, reads_early, storages, streams, random_numbers, errors,
    compiles, lower_precision, tunes, keeps_random_states, checkpoints, memory_savers, overwrites, on_the_host,
    other_dtypes_and_tangents, conjugates, loads, graphs)}


def group_of_one(device):
    import torch.distributed as dist

    dist.init_process_group("vgpu:gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x = torch.ones(3, device=device)
        dist.all_reduce(x)
        gathered = [torch.zeros(3, device=device)]
        dist.all_gather(gathered, 3 * x)
        try:
            dist.all_reduce(torch.ones(2))
        except RuntimeError as error:
            return [x.tolist(), gathered[0].tolist(), str(error).partition(" ty")[0]]
    finally:
        dist.destroy_process_group()


def clock_back(device):
    from gapless import vgpu

    vgpu.timeline().host_work(-1000)


ONLY_ACROSS = {each.__name__: each for each in (group_of_one, clock_back)}


def serve(number: int) -> None:
    from gapless.vgpu import enable
    from gapless.vgpu.boundary.link import Link
    from gapless.vgpu.boundary.wire import Channel

    torch.set_num_threads(1)
    device = enable("a10g")
    link = Link(Channel(socket.socket(fileno=number)))
    link.install()
    while True:
        try:
            message, _ = link.receive()
        except EOFError:
            return
        try:
            answer = {"return": link.encoder()({**PROGRAMS, **ONLY_ACROSS}[message["do"]](device))}
        except Exception as error:
            answer = {"raise": f"{type(error).__name__}: {error}"}
        gc.collect()  # what is left of it is not the next one's memory
        link.send(answer)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
