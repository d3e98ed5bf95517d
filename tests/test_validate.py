"""Workloads, their predictions, and the comparison with what was measured."""

import argparse
import json

import pytest
import torch

from gapless import vgpu
from gapless.evidence.trace import Trace
from gapless.fidelity import validate
from gapless.fidelity.validate import Figures, ValidationError, error_share, kernel_times, kind_of
from gapless.fidelity.workloads import DTYPES, WORKLOADS
from gapless.measure.device import UnknownDevice
from gapless.vgpu.hardware import costs


def command(*arguments):
    parser = argparse.ArgumentParser()
    validate.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["validate", *arguments])
    return parsed.run(parsed)


# -- the workloads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_small_step_learns_and_has_the_cpus_values(name):
    losses = {}
    for device in (torch.device("cpu"), vgpu.enable("a10g")):
        step = WORKLOADS[name].step(device, torch.float32, small=True)
        losses[device.type] = [step().item() for _ in range(3)]
    assert losses["vgpu"] == pytest.approx(losses["cpu"], rel=1e-4)
    assert losses["cpu"][2] < losses["cpu"][0]


# Parameters of the published networks: torchvision's resnet50 and vit_b_16, GPT-2 small with its words padded to 50,304.
@pytest.mark.parametrize("name, parameters", [("resnet50", 25_557_032), ("vit", 86_567_656), ("gpt", 124_475_904)])
def test_networks_have_the_published_size(name, parameters):
    with torch.device("meta"):
        network = WORKLOADS[name].network(False)
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


@pytest.mark.parametrize("name, floor", [("resnet50", 64 * 3 * 2 * 4.0e9), ("vit", 32 * 3 * 2 * 17.0e9)])
def test_a_steps_arithmetic_is_that_of_the_published_networks(name, floor, monkeypatch):
    """Forward 4.1 and 17.6 billion multiply-adds an image (torchvision's tables); a step is three times a forward pass."""
    seen = []
    duration = costs.Kernel.duration_ns
    monkeypatch.setattr(costs.Kernel, "duration_ns", lambda kernel,
                        card: seen.append(kernel.flops) or duration(kernel, card))
    with vgpu.shape_only():
        step = WORKLOADS[name].step(vgpu.enable("a100"), torch.bfloat16)
        seen.clear()
        step()
    assert floor <= sum(seen) <= 1.5 * floor


# -- kernels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel, kind", [
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", "matmul"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", "matmul"),
    ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", "matmul"),
    ("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_32x3_nhwc_align4>",
     "convolution"),
    ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc", "convolution"),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", "normalization"),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>", "normalization"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>>",
     "pointwise"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>", "reduction"),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>", "reduction"),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>>",
     "optimizer"),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", "attention"),
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", "attention"),
    ("void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<Policy>", "sort"),
    ("void at_cuda_detail::cub::DeviceScanKernel<Policy>", "scan"),
    ("void at::native::vectorized_gather_kernel<16, long>", "gather"),
    ("void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float, float, long>", "scatter"),
    ("gemm_bfloat16(mm)", "matmul"), ("convolution_dgrad_tf32", "convolution"), ("norm_backward_kernel", "normalization"),
    ("pointwise_kernel(gelu)", "pointwise"), ("reduction_kernel(sum)", "reduction"),
    ("fmha_backward_kernel", "attention"),
])
def test_kernels_are_told_apart_by_name(kernel, kind):
    assert kind_of(kernel) == kind


def test_times_of_kernels_are_those_of_a_step():
    def event(category, name, start, duration, **args):
        return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration, "args": args}

    events = []
    for number, start in enumerate((0, 1000)):
        events += [event("user_annotation", f"ProfilerStep#{number}", start, 900),
                   event("cuda_runtime", "cudaLaunchKernel", start + 1, 2, correlation=3 * number),
                   event("kernel", "gemm", start + 100, 200, correlation=3 * number),
                   event("cuda_runtime", "cudaLaunchKernel", start + 5, 2, correlation=3 * number + 1),
                   event("kernel", "vectorized_elementwise_kernel", start + 250, 100, correlation=3 * number + 1),
                   event("cuda_runtime", "cudaMemcpyAsync", start + 9, 2, correlation=3 * number + 2),
                   event("gpu_memcpy", "Memcpy HtoD", start + 400, 50, correlation=3 * number + 2)]
    kinds, busy_ms, kernels = kernel_times(Trace(events))
    assert kinds == pytest.approx({"matmul": 0.2, "pointwise": 0.1, "copy": 0.05})
    assert (busy_ms, kernels) == pytest.approx((0.3, 2))


# -- the command ----------------------------------------------------------------------------------------


def test_predictions_are_labelled_and_repeat(capsys, tmp_path):
    chosen = ("--predict-only", "--card", "h100", "--workload", "unet", "--dtype", "bf16")
    assert command(*chosen, "--out", str(tmp_path / "new" / "v.json")) == 0
    text = capsys.readouterr().out
    assert "Predicted with NVIDIA H100 80GB HBM3" in text and "simulated, compared with nothing" in text
    record = json.loads((tmp_path / "new" / "v.json").read_text())
    assert record["simulated"] is True and record["gpu"] is None and record["median_step_error"] is None
    case, = record["cases"]
    assert (case["workload"], case["dtype"]) == ("unet", "bf16") and "measured" not in case
    assert command(*chosen, "--json") == 0
    assert json.loads(capsys.readouterr().out)["cases"] == record["cases"]


def test_a_faster_card_and_a_smaller_dtype_are_predicted_faster():
    cases = [("vit", "fp32"), ("vit", "bf16")]
    slow, fast = (validate.predict(card, cases) for card in ("a10g", "h200"))
    for case in cases:
        assert fast[case].step_ms < slow[case].step_ms
    assert slow[cases[1]].step_ms < slow[cases[0]].step_ms
    assert fast[cases[0]].peak_bytes == slow[cases[0]].peak_bytes


def test_errors_are_shares_of_what_was_measured():
    assert error_share(11.0, 10.0) == pytest.approx(0.1)
    assert error_share(8.0, 10.0) == pytest.approx(-0.2)
    assert error_share(8.0, 0.0) is None and error_share(1.0, float("nan")) is None


def test_what_was_measured_is_set_beside_the_prediction(capsys, monkeypatch):
    """The comparison with made-up measurements, since a GPU may not be there."""
    def figures(ms):
        return Figures(ms, ms, {"matmul": ms}, 10, 2**30)

    predicted = {("vit", "fp32"): figures(9.0), ("vit", "bf16"): figures(6.0)}
    measured = {("vit", "fp32"): 10.0, ("vit", "bf16"): 5.0}
    monkeypatch.setattr(validate, "choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(validate, "device_name", lambda device: "NVIDIA A100-SXM4-40GB")
    monkeypatch.setattr(validate, "_predict_in_a_process_of_its_own", lambda card, cases: predicted)
    monkeypatch.setattr(validate, "measure", lambda device, *case: figures(measured[case]))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *a: "NVIDIA A100-SXM4-40GB")
    assert command("--workload", "vit") == 0
    text = capsys.readouterr().out
    assert "-10%" in text and "+20%" in text and "median 15%, worst 20%" in text
    assert "matmul 9.0 (10.0)" in text


def test_the_prediction_in_a_process_of_its_own_is_the_same():
    cases = [("unet", "bf16")]
    assert validate._predict_in_a_process_of_its_own("t4", cases) == validate.predict("t4", cases)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(UnknownDevice, match="PyTorch sees none"):
        command()


def test_a_simulated_device_is_not_measured():
    with pytest.raises(ValidationError, match="--predict-only"):
        command("--device", "vgpu")


def test_dtypes():
    assert list(DTYPES) == ["fp32", "bf16"]
