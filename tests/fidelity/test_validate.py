"""Predictions, and the comparison with what was measured."""

import pytest

from gapless.evidence.traces.trace import Trace
from gapless.fidelity import validate
from gapless.fidelity.validate import error_share, kernel_times, kind_of


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


@pytest.mark.slow
def test_a_faster_card_and_a_smaller_dtype_are_predicted_faster():
    cases = [("vit", "fp32"), ("vit", "bf16")]
    slow, fast = (validate.predict(card, cases) for card in ("a10g", "h200"))
    for case in cases:
        assert fast[case].step_ms < slow[case].step_ms
    assert slow[cases[1]].step_ms < slow[cases[0]].step_ms
    # The cards' kernels take other workspaces, so that other blocks are free; a rest of up to 1 MiB is not cut off one.
    assert fast[cases[0]].peak_bytes == pytest.approx(slow[cases[0]].peak_bytes, abs=2**20)


def test_errors_are_shares_of_what_was_measured():
    assert error_share(11.0, 10.0) == pytest.approx(0.1)
    assert error_share(8.0, 10.0) == pytest.approx(-0.2)
    assert error_share(8.0, 0.0) is None and error_share(1.0, float("nan")) is None
