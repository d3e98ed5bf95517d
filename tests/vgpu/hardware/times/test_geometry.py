"""Launch geometry by hand calculation, on an A100 (108 SMs of 2048 threads) unless said otherwise."""

import pytest
import torch

from gapless import vgpu
from gapless.evidence.traces.trace import Trace
from gapless.measure.profile import profile
from gapless.vgpu import CARDS
from gapless.vgpu.hardware.times import geometry

A100, T4, A10G = CARDS["a100"], CARDS["t4"], CARDS["a10g"]


@pytest.mark.parametrize("kind, work, expected", [
    ("pointwise", (512,), (1, 128)),
    ("pointwise", (513,), (2, 128)),
    ("pointwise", (65_536,), (128, 128)),  # as an A100's profile of `torch.ones` of that size shows
    ("gather", (0,), (1, 128)),
    ("scan", (4096 * 3,), (3, 256)),
    ("sort", (4097,), (2, 256)),
    ("optimizer", (7,), (7, 512)),
    ("normalization", (64, 512), (64, 512)),
    ("attention", (129, 1, 8), (16, 128)),
    ("matmul", (4096, 4096, 1), (32 * 32, 256)),
    ("matmul", (4096, 4096, 2), (2 * 32 * 32, 256)),
    ("matmul", (512, 512, 1), (8 * 8, 128)),  # tiles of 128×128 would leave SMs without a block
    ("matmul", (1, 10, 1), (1, 128)),
    ("convolution", (256 * 256 * 256, 10, 1), (131_072, 256)),
    ("convolution", (64, 576, 1, 1_000_000), (9 * 12, 128)),  # nine tiles; the sum is split until all 108 SMs work
    ("convolution", (64, 576, 1, 100), (9 * 2, 128)),  # a sum of 100 is two tiles deep
])
def test_blocks_and_threads(kind, work, expected):
    assert geometry.launch(kind, work, A100.sm_count) == expected


@pytest.mark.parametrize("results, elements, expected", [
    (1, 1, (1, 1)),
    (1, 100, (1, 64)),
    (1, 8192, (1, 512)),  # 16 elements a thread: one block is enough
    (1, 10_000_000, (432, 512)),  # four blocks of 512 threads for each SM, 46 elements a thread
    (1, 200_000_000, (1526, 512)),  # at most 256 elements a thread
    (100_000, 64, (6250, 512)),  # 32 threads along the sum, 16 sums a block
    (10_000, 10_000, (10_000, 512)),
])
def test_reductions_as_aten_configures_them(results, elements, expected):
    assert geometry.launch("reduction", (results, elements), A100.sm_count) == expected


@pytest.mark.parametrize("card, kind, work, expected", [
    # 128 blocks of 4 warps on 108 SMs; an A100's own profile says 1.185185, 4.740741 and 7 %.
    (A100, "pointwise", (65_536,), (128 / 108, 4 * 128 / 108, 7)),
    (A100, "pointwise", (10**8,), (195_313 / 108, 4 * 195_313 / 108, 100)),
    (T4, "pointwise", (10**8,), (195_313 / 40, 4 * 195_313 / 40, 100)),  # 8 blocks of 128 are its 1024 threads
    (A10G, "pointwise", (10**8,), (195_313 / 80, 4 * 195_313 / 80, 100)),  # 12 of 128 are its 1536
    (A100, "matmul", (4096, 4096, 1), (1024 / 108, 8 * 1024 / 108, 25)),  # 512 threads' registers of 2048
    (A10G, "matmul", (4096, 4096, 1), (1024 / 80, 8 * 1024 / 80, 33)),
    (A100, "optimizer", (3,), (3 / 108, 16 * 3 / 108, 1)),
])
def test_what_kineto_would_say(card, kind, work, expected):
    args = geometry.event_args(kind, work, card)
    found = args["blocks per SM"], args["warps per SM"], args["est. achieved occupancy %"]
    assert found == pytest.approx(expected)
    assert isinstance(found[2], int)
    blocks, threads = geometry.launch(kind, work, card.sm_count)
    assert (args["grid"], args["block"]) == ([blocks, 1, 1], [threads, 1, 1])
    assert not {"registers per thread", "shared memory"} & set(args)


def test_a_compute_capability_that_is_not_in_the_table_takes_the_one_before():
    assert geometry._limits((9, 5)) == geometry.LIMITS[9, 0]
    assert geometry._limits((6, 1)) == geometry.LIMITS[7, 0]
    assert {card.compute_capability for card in CARDS.values()} <= set(geometry.LIMITS)


# -- in a trace -------------------------------------------------------------------------------------


@pytest.fixture
def device():
    here = vgpu.enable("a100")
    vgpu.timeline().reset()
    return here


def grids(step, device) -> dict[str, list[tuple[int, int]]]:
    """Kernel → (blocks, threads) of its launches in one step."""
    found = {}
    for event in profile(step, steps=1, warmup=0, device=device).events:
        if event.get("cat") == "kernel":
            found.setdefault(_plain(event["name"]), []).append((event["args"]["grid"][0], event["args"]["block"][0]))
    return found


def _plain(name: str) -> str:
    """``forward`` of ``convolution_forward_tf32(implicit_gemm 128x64)``; other names as they are."""
    return name.split("_")[1] if name.startswith("convolution") else name


def test_each_kernel_has_its_own(device):
    x = torch.ones(64, 3, 32, 32, device=device)
    conv = torch.nn.Conv2d(3, 16, 3, padding=1).to(device)
    x.requires_grad_()

    def step():
        conv(x).sum().backward()

    found = grids(step, device)
    positions = 64 * 32 * 32
    assert found["forward"] == [(positions // 128, 256)]
    assert found["dgrad"] == [(positions // 128, 256)]
    assert found["wgrad"] == [(108, 128)]
    assert found["elementwise_kernel(add bias)"] == [(positions * 16 // 512, 128)]
    assert found["reduce_kernel(bias gradient)"] == [geometry.launch("reduction", (16, positions), 108)]
    assert found["reduction_kernel(sum)"] == [geometry.launch("reduction", (1, positions * 16), 108)]


@pytest.mark.parametrize("call, kernel, expected", [
    (lambda x: x.softmax(-1), "reduction_kernel(_softmax)", ("reduction", (64, 1000))),
    (lambda x: x.softmax(0), "reduction_kernel(_softmax)", ("reduction", (1000, 64))),
    (lambda x: torch._log_softmax_backward_data(x, x, 0, x.dtype), "reduction_kernel(_log_softmax_backward_data)", ("reduction", (1000, 64))),
    (lambda x: x.sum(0), "reduction_kernel(sum)", ("reduction", (1000, 64))),
    (lambda x: x @ x.T, "gemm_tf32(mm)", ("matmul", (64, 64, 1))),
    (lambda x: torch.nn.functional.layer_norm(x, (1000,)), "layer_norm_forward_kernel", ("normalization", (64, 128))),
    (lambda x: torch.nn.functional.group_norm(x, 10), "norm_forward_kernel", ("normalization", (640, 512))),
    (lambda x: torch.nn.functional.batch_norm(x, None, None, training=True), "norm_forward_kernel", ("normalization", (1000, 512))),
    (lambda x: x[:, 0].sort(), "radixSortKVInPlace", ("sort", (64,))),
    (lambda x: x.view(-1).sort(), "DeviceRadixSortHistogramKernel", ("sort", (64_000,))),
    (lambda x: (x > 0).nonzero(), "DeviceReduceKernel(count nonzero)", ("reduction", (1, 64_000))),
    (lambda x: (x > 0).nonzero(), "DeviceSelectSweepKernel(nonzero)", ("scan", (128_000,))),
    (lambda x: x[torch.zeros(3, dtype=torch.int64, device=x.device)], "index_kernel(gather)", ("gather", (3000,))),
    (lambda x: x.index_put_((torch.zeros(3, dtype=torch.int64, device=x.device),), x[:3].clone()), "index_put_kernel", ("scatter", (3000,))),
    (lambda x: torch._foreach_add([x, x[0]], 1), "multi_tensor_apply_kernel(_foreach_add)", ("optimizer", (2,))),
    (lambda x: torch.equal(x, x + 1), "reduce_kernel(all)", ("reduction", (1, 64_000))),
    (lambda x: torch.equal(x[0, 0], x[0, 1]), "reduce_kernel(all)", ("reduction", (1, 1))),
    (lambda x: torch.linalg.vector_norm(x[:, :1], 2, dim=1), "reduction_kernel(linalg_vector_norm)", ("reduction", (64, 1))),
    (lambda x: torch.renorm(x, 2, 0, 1.0), "normalization_kernel(renorm)", ("normalization", (125, 512))),
])
def test_operators(call, kernel, expected, device):
    x = torch.ones(64, 1000, device=device)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        found = grids(lambda: call(x), device)
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"
    assert found[kernel] == [geometry.launch(*expected, 108)]


def test_backward_of_the_norms(device):
    x = torch.randn(4, 6, 8, 8, device=device, requires_grad=True)
    for norm, blocks in [(torch.nn.GroupNorm(3, 6), (12, 512)), (torch.nn.BatchNorm2d(6), (6, 512)),
                         (torch.nn.LayerNorm([8, 8]), (24, 128))]:
        norm.to(device)
        assert grids(lambda: norm(x).sum().backward(), device)["norm_backward_kernel"] == [blocks], norm


def test_kernels_that_are_launched_without_arguments_have_one_too(device):
    lstm = torch.nn.LSTM(16, 32).to(device)
    attention = torch.nn.functional.scaled_dot_product_attention
    q = torch.ones(2, 4, 256, 32, device=device, requires_grad=True)

    def step():
        lstm(torch.ones(5, 3, 16, device=device))[0].sum().backward()
        attention(q, q, q).sum().backward()

    trace = profile(step, steps=1, warmup=0, device=device)
    kernels = [event for event in trace.events if event.get("cat") == "kernel"]
    assert all(event["args"]["grid"][0] >= 1 and "work" not in event["args"] for event in kernels)
    assert [e["args"]["grid"] for e in kernels if e["name"] == "fmha_forward_kernel"] == [[2 * 2 * 4, 1, 1]]
    assert "grid" not in str([event for event in trace.events if event.get("cat") in ("gpu_memset", "gpu_memcpy")])


def test_times_do_not_depend_on_it(device, monkeypatch):
    x = torch.ones(1000, 1000, device=device)

    def times():
        vgpu.timeline().reset()
        trace = profile(lambda: (x @ x).softmax(0), steps=2, device=device)
        return [(event["name"], event["ts"], event["dur"]) for event in trace.events if event.get("cat") == "kernel"]

    before = times()
    monkeypatch.setattr(geometry, "work_of", lambda *_: (10**9, 10**9))
    assert times() == before and len(before) == 4


def test_the_trace_names_the_cards_limits_as_kineto_does(device, tmp_path):
    trace = profile(lambda: torch.ones(3, device=device), steps=1, device=device)
    trace.write(tmp_path / "trace.json")
    found, = Trace.read(tmp_path / "trace.json").metadata["deviceProperties"]
    # As the profile of an A100 has them.
    assert found == {
        "id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 40 * 2**30, "computeMajor": 8, "computeMinor": 0,
        "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536,
        "regsPerMultiprocessor": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 167936,
        "numSms": 108}


def test_the_clock_follows_from_the_float32_peak():
    for key in ("t4", "v100_pcie", "a100", "l4", "h100", "rtx4090"):
        assert geometry.clock_hz(CARDS[key]) == pytest.approx(CARDS[key].clock_hz, rel=0.02), key
