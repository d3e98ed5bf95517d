from collections import Counter
from pathlib import Path

import pytest

from gapless.evidence.traces.kinds import OPTIMIZER_MARK, kind_of_name, kinds_of, readable_name
from gapless.evidence.traces.steps import DEVICE_WORK
from gapless.evidence.traces.trace import Trace

from ..kineto_events import call, kernel, memcpy, span

REAL = Path(__file__).parents[1] / "real"
NAMES = {
    "matrix products": [
        "ampere_sgemm_128x64_nn", "gemm_float32(mm)", "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align1>(cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align1::Params)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float, false>"],
    "convolutions": [
        "convolution_dgrad_float32(implicit_gemm 128x32)", "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc",
        "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_128x64>", "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>"],
    "attention": ["pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4>>", "fmha_cutlassF_f32_aligned_64x64_rf_sm80"],
    "elementwise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::masked_fill_kernel(at::TensorIterator&)>",
        "void at::native::elementwise_kernel<128, 2, at::native::BinaryFunctor<float, float, float, at::native::softmax_reduce>>",
        "pointwise_kernel(relu)", "triton_poi_fused_add_0", "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>>"],
    "reductions and losses": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>", "reduction_kernel(_log_softmax)",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 1, false, false>", "triton_per_fused_sum_1"],
    "normalisation": [
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>", "layer_norm_forward_kernel",
        "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float, float>(long, float, float const*, float*, float*)"],
    "indexing and sorting": [
        "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, false, long, int>",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<>>", "index_put_kernel"],
    "other": ["my_kernel"],
}


@pytest.mark.parametrize("kind, name", [(kind, name) for kind, names in NAMES.items() for name in names])
def test_a_name_tells_what_a_kernel_computes(kind, name):
    assert kind_of_name(name) == kind


@pytest.mark.parametrize("mark", ["Optimizer.step#Adam.step", OPTIMIZER_MARK])
def test_what_an_optimizers_step_launches_is_the_optimizers(mark):
    events = [span("user_annotation", mark, 100, 50), call("cudaLaunchKernel", 90, 5, 1),
              call("cudaLaunchKernel", 110, 5, 2), call("cudaLaunchKernel", 110, 5, 3, tid=7), kernel(120, 5, 1),
              kernel(130, 5, 2), kernel(140, 5, 3), memcpy("HtoD (Pinned -> Device)", 150, 5, 4)]
    spans = Trace(events, {}).spans
    work = [each for each in spans if each.category in DEVICE_WORK]
    assert kinds_of(work, spans) == ["matrix products", "optimizer", "matrix products", "copies"]


@pytest.mark.parametrize("name", ["ddp_rank1", "nccl_rank0"])
def test_hardly_anything_of_a_real_gpu_is_other(name):
    trace = Trace.read(REAL / f"{name}.json.gz")
    work = [each for each in trace.spans if each.category in DEVICE_WORK]
    times = Counter()
    for each, kind in zip(work, kinds_of(work, trace.spans)):
        times[kind] += each.duration_ms
    assert times["other"] < 0.01 * times.total()
    assert times["communication"] > 0.2 * times.total() and times["optimizer"] and times["matrix products"]


@pytest.mark.parametrize("kernel, expected", [
    ("vectorized_elementwise_kernel (add)", "vectorized_elementwise_kernel (add)"),
    ("ampere_sgemm_32x128_tn", "ampere_sgemm_32x128_tn"),
    ("sm90_xmma_wgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x32_warpgroupsize1x1x1_execute_kernel",
     "sm90_xmma_wgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::"
     "MulFunctor<float> >, std::array<char*, 3ul> >(int, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::"
     "MulFunctor<float> >, std::array<char*, 3ul>)", "vectorized_elementwise_kernel (MulFunctor)"),
    ("void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::(anonymous namespace)::where_kernel_impl("
     "at::TensorIterator&)::{lambda()#1}::operator()() const::{lambda(bool, float, float)#1}>(at::TensorIteratorBase&)",
     "elementwise_kernel (where)"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float, float, float>, unsigned int, "
     "float, 4> >(at::native::ReduceOp<float>)", "reduce_kernel (NormTwoOps)"),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(cutlass_80_simt_sgemm_64x64_8x5_nn_align1::Params)",
     "Kernel2 (cutlass_80_simt_sgemm_64x64_8x5_nn_align1)"),
    ("at::cuda::(anonymous namespace)::spin_kernel(long)", "spin_kernel"),
    ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float, false>", "kernel"),
    ("void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::Policy<128, 15>, int*>(int*)", "DeviceScanKernel"),
])
def test_a_cuda_kernel_is_called_by_its_function_and_what_it_computes(kernel, expected):
    assert readable_name(kernel) == expected
