"""Idioms that wait."""

from __future__ import annotations

import io
import warnings
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

from .bag import Bag, Idiom, assign, group

ITEM = "ATen, cuda/CUDAScalar.cu, _local_scalar_dense_cuda"
COPY = "ATen, cuda/Copy.cu, copy_kernel_cuda"
NONZERO = "ATen, cuda/Nonzero.cu, nonzero_cuda_out_impl"
INDEX = "ATen, IndexingUtils.h, expandTensors"
ARGUMENT = "torch/csrc/utils/python_arg_parser.h, a Scalar or int argument"
FACTORY = "torch/csrc/utils/tensor_new.cpp, internal_new_from_data"
RUNTIME = "CUDA runtime API, stream, event and device management"
STAGED = "CUDA driver API, API synchronization behavior: pageable memory is staged"
NCCL_WAIT = "c10d, ProcessGroupNCCL.cpp, WorkNCCL::wait"
LINALG = "ATen, BatchLinearAlgebra.cpp, _linalg_check_errors; documentation of torch.linalg"

NUMBER = "the host needs the number"
SIZE = "the size of the result depends on values"
SMALL_COPY = "the value is made on the host and copied over"


def padded_encoder(t: Bag) -> torch.Tensor:
    """A batch of two sequences, one of them shorter, through the encoder's fast path."""
    encoder = torch.nn.TransformerEncoder(t.encoder.layers[0], 1).eval()
    with torch.no_grad():
        return encoder(t.sequence, src_key_padding_mask=t.padding)


WAITING: tuple[Idiom, ...] = (
    *group(
        "read-backs",
        ("item", 1, lambda t: t.number.item(), NUMBER, ITEM),
        ("bool", 1, lambda t: bool(t.one), NUMBER, ITEM),
        ("if", 1, lambda t: 1 if t.number > 3 else 0, NUMBER, ITEM),
        ("if any", 1, lambda t: 1 if t.mask.any() else 0, NUMBER, ITEM),
        ("and of two flags", 2, lambda t: bool(t.flag and t.flag), "each side is asked by itself", ITEM),
        ("assert", 1, lambda t: _assert((t.x >= 0).all()), NUMBER, ITEM),
        ("is there a NaN", 1, lambda t: bool(t.x.isnan().any()), NUMBER, ITEM),
        ("is_nonzero", 1, lambda t: torch.is_nonzero(t.number), NUMBER,
         "ATen, TensorFactories and ReduceOps, is_nonzero"),
        ("float", 1, lambda t: float(t.number), NUMBER, ITEM),
        ("int", 1, lambda t: int(t.one), NUMBER, ITEM),
        ("as an index of a list", 1, lambda t: [1, 2, 3][t.one], NUMBER, "Tensor.__index__, torch/csrc/autograd"),
        ("range", 1, lambda t: list(range(t.one)), NUMBER, "Tensor.__index__, torch/csrc/autograd"),
        ("in an f-string", 1, lambda t: f"{t.number:.2f}", NUMBER, "torch/_tensor.py, __format__"),
        ("tolist", 1, lambda t: t.x.tolist(), "one copy of all", "torch/csrc/utils/tensor_list.cpp"),
        ("cpu", 1, lambda t: t.x.cpu(), "a blocking copy", COPY),
        ("to cpu", 1, lambda t: t.x.to("cpu"), "a blocking copy", COPY),
        ("cpu then numpy", 1, lambda t: t.x.cpu().numpy(), "a blocking copy", COPY),
        ("numpy, forced", 1, lambda t: t.x.numpy(force=True), "a blocking copy", "torch/csrc/utils/tensor_numpy.cpp"),
        ("save", 1, lambda t: torch.save(t.x, io.BytesIO()), "the values are copied to the host",
         "torch/serialization.py"),
        ("repr", 1, lambda t: repr(t.x), "numbers are formatted one by one: about three waits each on CUDA",
         "torch/_tensor_str.py, _Formatter", True),
        ("str of a number", 1, lambda t: str(t.number), "formatting reads it about eight times on CUDA",
         "torch/_tensor_str.py, _Formatter", True),
        ("equal", 1, lambda t: torch.equal(t.x, t.x.clone()), "answers with a Python bool",
         "ATen, cuda/Equal.cpp, cuda_equal"),
        ("allclose", 1, lambda t: torch.allclose(t.x, t.x), "answers with a Python bool",
         "ATen, TensorCompare.cpp, allclose"),
        ("assert_close", 1, lambda t: torch.testing.assert_close(t.x, t.x), "asks whether all match",
         "torch/testing/_comparison.py"),
        ("a loop over numbers", 2, lambda t: [n.item() for n in t.labels], "one read-back a number", ITEM),
        ("number in tensor", 1, lambda t: 3.0 in t.x, "Tensor.__contains__ asks any().item()", "torch/_tensor.py"),
        ("max of a row, Python's", 2, lambda t: max(t.x[0]), "each comparison is a bool", ITEM),
        ("sorted, Python's", 2, lambda t: sorted(t.x[0]), "each comparison is a bool", ITEM, True),
        ("smaller of two losses, Python's", 1, lambda t: min(t.number, t.x.sum()), "the comparison is a bool", ITEM),
        ("tensor of device numbers", 2, lambda t: torch.tensor([t.number, t.number]), "each number is read", FACTORY),
    ),
    *group(
        "device numbers as Python numbers",
        ("full of a device number", 1, lambda t: torch.full((3,), t.number, device=t.device), "full takes a number",
         ARGUMENT),
        ("zeros, as many as a device number", 1, lambda t: torch.zeros(t.one, device=t.device), "a size is a number",
         ARGUMENT),
        ("arange to a device number", 1, lambda t: torch.arange(t.one, device=t.device), "an end is a number",
         ARGUMENT),
        ("linspace between device numbers", 2, lambda t: torch.linspace(t.number, t.number, 5, device=t.device),
         "both ends are read", "ATen, RangeFactories.cpp, linspace with tensors"),
        ("topk with a device number", 1, lambda t: t.x.topk(t.one), "k is a number", ARGUMENT),
        ("view with a device number", 1, lambda t: t.x.view(-1, t.one), "a size is a number", ARGUMENT),
        ("alpha from the device", 1, lambda t: torch.add(t.x, t.x, alpha=t.number), "alpha is a number", ARGUMENT),
        ("masked_fill with a device number", 1, lambda t: t.x.masked_fill(t.mask, t.number), "the value is read; where "
         "with three arguments does not", "ATen, cuda/Indexing.cu, masked_fill__cuda: value.item()"),
        ("masked_fill_ with a device number", 1, lambda t: t.x.masked_fill_(t.mask, t.number), "the value is read",
         "ATen, cuda/Indexing.cu, masked_fill__cuda: value.item()"),
        ("index_fill_ with a device number", 1, lambda t: t.x.index_fill_(0, t.labels, t.number), "the value is read",
         "ATen, TensorAdvancedIndexing.cpp, index_fill_: source.item()"),
        ("Adam with a rate on the device, one by one", 1, lambda t: torch.optim.Adam(
            t.weights(), lr=t.number, foreach=False).step(), "the rate is read", "torch/optim/adam.py, _to_scalar",
         True),
    ),
    *group(
        "sizes that depend on values",
        ("nonzero", 1, lambda t: t.x.nonzero(), SIZE, NONZERO),
        ("nonzero as a tuple", 1, lambda t: t.x.nonzero(as_tuple=True), SIZE, NONZERO),
        ("argwhere", 1, lambda t: torch.argwhere(t.x), SIZE, NONZERO),
        ("where with one argument", 1, lambda t: torch.where(t.mask), SIZE, NONZERO),
        ("x[mask]", 1, lambda t: t.x[t.mask], "a nonzero of the mask", INDEX),
        ("x[mask], rows", 1, lambda t: t.x[t.labels > 0], "a nonzero of the mask", INDEX),
        ("x[mask, mask]", 2, lambda t: t.x[:, :2][t.labels > -1, t.labels > -1], "a nonzero for each mask", INDEX),
        ("x[mask] += 1", 2, lambda t: assign(t.x, t.mask, t.x[t.mask] + 1), "one to read, one to write", INDEX),
        ("mean over a mask", 1, lambda t: t.x[t.mask].mean(), "a nonzero of the mask", INDEX),
        ("masked_select", 1, lambda t: torch.masked_select(t.x, t.mask), "a nonzero of the mask",
         "ATen, cuda/IndexKernel.cpp, masked_select_out_cuda_impl"),
        ("unique", 1, lambda t: torch.unique(t.x), SIZE, "ATen, cuda/UniqueCub.cu, compute_unique: length.item()"),
        ("unique with counts", 1, lambda t: torch.unique(t.x, return_counts=True), SIZE, "ATen, cuda/UniqueCub.cu"),
        ("unique with inverse", 1, lambda t: torch.unique(t.x, return_inverse=True), SIZE, "ATen, cuda/UniqueCub.cu"),
        ("unique of rows", 2, lambda t: torch.unique(t.x, dim=0), "Thrust's sort and unique each wait",
         "ATen, cuda/Unique.cu, unique_dim_cuda_template", True),
        ("unique_consecutive", 1, lambda t: torch.unique_consecutive(t.x), SIZE, "ATen, cuda/UniqueCub.cu"),
        ("isin, many values", 3, lambda t: torch.isin(t.big_x[:20], t.big_x[:1000]), "a unique of either side, and a copy",
         "counted on an H100, torch 2.11; ATen, TensorCompare.cpp, isin_sorting"),
        ("bincount", 2, lambda t: torch.bincount(t.labels), "smallest value, then largest", "ATen, cuda/SummaryOps.cu"),
        ("bincount with minlength", 2, lambda t: torch.bincount(t.labels, minlength=10), "smallest value, then largest",
         "ATen, cuda/SummaryOps.cu, _bincount_cuda_template"),
        ("bincount of bytes", 1, lambda t: torch.bincount(t.labels.byte()), "largest value: none is negative",
         "ATen, cuda/SummaryOps.cu, _bincount_cuda_template"),
        ("histc without limits", 2, lambda t: torch.histc(t.x), "smallest and largest value",
         "ATen, cuda/SummaryOps.cu, _histc_cuda_template"),
        ("repeat_interleave", 2, lambda t: torch.repeat_interleave(t.x, t.labels, dim=0), "the sum of the repeats, and "
         "whether one is negative", "ATen, Repeat.h, repeat_interleave_common"),
        ("one_hot without classes", 1, lambda t: F.one_hot(t.labels), "the largest label", "ATen, Onehot.cpp"),
        # Not here: torch.combinations, which waits twice in PyTorch 2.11 and never in 2.15.
    ),
    *group(
        "indexing",
        ("x[0-dim index]", 1, lambda t: t.x[t.one], "a select needs the number",
         "ATen, TensorIndexing.h, applySlicing"),
        ("x[:, 0-dim index]", 1, lambda t: t.x[:, t.one], "a select needs the number", "ATen, TensorIndexing.h"),
        ("x[0-dim mask]", 1, lambda t: t.x[t.flag], "whether there is a row", "ATen, TensorIndexing.h"),
        ("x[device:device]", 2, lambda t: t.x[t.one:t.one + 1], "both ends are numbers", "Tensor.__index__"),
        ("x[mask] = device number", 1, lambda t: assign(t.x, t.mask, t.number), "a nonzero: no masked_fill, since its "
         "value would have to be read", "ATen, TensorAdvancedIndexingUtils.h, canDispatchToMaskedFill"),
        ("x[mask] = device values", 1, lambda t: assign(t.x, t.mask, t.x[0].clone()), "a nonzero of the mask", INDEX),
        ("x[cpu index]", 1, lambda t: t.x[torch.tensor([1, 0])], "the index is copied over", INDEX),
        ("x[list]", 1, lambda t: t.x[[1, 0]], "the index is made and copied over", FACTORY),
        ("x[list of bools]", 2, lambda t: t.x[[True, False]], "copied over, then a nonzero", FACTORY),
        ("x[numpy index]", 1, lambda t: t.x[np.array([1, 0])], "the index is copied over", FACTORY),
        ("x[numpy mask]", 2, lambda t: t.x[np.array([True, False])], "copied over, then a nonzero", FACTORY),
        ("x[cpu index] = device number", 1, lambda t: assign(t.x, torch.tensor([1]), t.number),
         "the index is copied over",
         "test/test_torch.py, test_sync_warning"),
        ("x[cpu mask] = 1.0", 1, lambda t: assign(t.x, t.host > 2, 1.0),
         "the number is copied over: a masked_fill needs the "
         "mask on the device", "ATen, TensorAdvancedIndexing.cpp, _index_put_impl_"),
        ("x[index] = 1.0", 1, lambda t: assign(t.x, t.index, 1.0), "the number is copied over",
         "ATen, TensorAdvancedIndexing.cpp, _index_put_impl_"),
        ("x[0] = cpu row", 1, lambda t: assign(t.x, 0, torch.zeros(3)), "a pageable copy", COPY),
        ("x[0, 0] = 1.0", 1, lambda t: assign(t.x, (0, 0), 1.0), "a pageable copy of one number: shapes are equal",
         "ATen, TensorIndexing.h, copy_to"),
        ("where with a tensor on the host", 1, lambda t: torch.where(t.mask, torch.tensor(0.0), t.x),
         "copied over, unlike an operand of arithmetic", "ATen, TensorCompare.cpp, where_self_out"),
        ("where with a condition on the host", 1, lambda t: torch.where(torch.tensor(True), t.x, -t.x),
         "copied over, unlike an operand of arithmetic", "ATen, TensorCompare.cpp, where_self_out"),
    ),
    *group(
        "values made on the host",
        ("tensor of a number", 1, lambda t: torch.tensor(3.14, device=t.device), SMALL_COPY, FACTORY),
        ("tensor of a list", 1, lambda t: torch.tensor([1, 2], device=t.device), SMALL_COPY, FACTORY),
        ("tensor of device numbers, on the device", 3, lambda t: torch.tensor([t.number, t.number], device=t.device),
         "each number is read, the result copied over: use stack", FACTORY),
        ("as_tensor of a number", 1, lambda t: torch.as_tensor(3.14, device=t.device), SMALL_COPY, FACTORY),
        ("as_tensor of an array", 1, lambda t: torch.as_tensor(np.ones(3), device=t.device), SMALL_COPY, FACTORY),
        ("asarray of a list", 1, lambda t: torch.asarray([1.0, 2.0], device=t.device), SMALL_COPY,
         "torch/csrc/utils/tensor_new.cpp, asarray"),
        ("new_tensor", 1, lambda t: t.x.new_tensor([1.0]), SMALL_COPY, FACTORY),
        ("from_numpy", 1, lambda t: torch.from_numpy(np.ones(3)).to(t.device), SMALL_COPY, COPY),
    ),
    *group(
        "copies",
        ("pageable to the device", 1, lambda t: t.big.to(t.device), "a blocking copy", COPY),
        ("pinned to the device", 1, lambda t: t.pinned.to(t.device), "a blocking copy", COPY),
        ("pageable, asked not to block", 1, lambda t: t.big.to(t.device, non_blocking=True), "pageable memory", STAGED),
        ("copy_ in", 1, lambda t: t.big_x.copy_(t.pinned), "a blocking copy", COPY),
        ("copy_ out", 1, lambda t: t.pinned.copy_(t.big_x), "a blocking copy", COPY),
        ("copy_ out to pageable, asked not to block", 1, lambda t: t.big.copy_(t.big_x, non_blocking=True),
         "pageable memory", STAGED),
        ("pinned and converted", 1, lambda t: t.pinned.to(t.device, torch.float64), "converted on the host; it blocks",
         "ATen, cuda/Copy.cu, copy_kernel_cuda, conversion_device"),
        ("a module to the device", 2, lambda t: torch.nn.Linear(3, 2).to(t.device), "a copy for each parameter", COPY),
        ("load_state_dict from the host", 2, lambda t: t.layer.load_state_dict(t.host_state),
         "a copy for each parameter",
         COPY),
    ),
    *group(
        "explicit",
        ("synchronize", 1, lambda t: t.module.synchronize(), "asked for", RUNTIME),
        ("synchronize the accelerator", 1, lambda t: torch.accelerator.synchronize(), "asked for", RUNTIME),
        ("synchronize a stream", 1, lambda t: t.module.current_stream().synchronize(), "asked for", RUNTIME),
        ("synchronize an event", 1, lambda t: t.event.synchronize(), "asked for", RUNTIME),
    ),
    *group(
        "hidden in libraries",
        ("clip_grad_norm_ that refuses nan", 1, lambda t: torch.nn.utils.clip_grad_norm_(
            t.weights(), 1.0, error_if_nonfinite=True), "asks whether the norm is finite",
         "torch/nn/utils/clip_grad.py"),
        ("GradScaler.step", 1, lambda t: t.scaler_step(fused=False), "asks whether a gradient was infinite",
         "torch/amp/grad_scaler.py, _maybe_opt_step"),
        ("BatchNorm with momentum None", 1, lambda t: t.average_norm(t.x), "divides by its count of batches",
         "torch/nn/modules/batchnorm.py, float(self.num_batches_tracked)"),
        ("TransformerEncoder with a mask", 1, lambda t: t.encoder(t.sequence, mask=t.causal),
         "asks whether the mask is "
         "causal: say is_causal", "torch/nn/modules/transformer.py, _detect_is_causal_mask"),
        ("gaussian_nll_loss", 1, lambda t: F.gaussian_nll_loss(t.x, t.x, t.x + 1),
         "asks whether a variance is negative",
         "torch/nn/functional.py"),
        ("ReduceLROnPlateau.step", 1, lambda t: torch.optim.lr_scheduler.ReduceLROnPlateau(
            torch.optim.SGD(t.weights(), lr=0.1)).step(t.number), "compares the loss", "torch/optim/lr_scheduler.py"),
        ("Adafactor", 1, lambda t: torch.optim.Adafactor(t.weights()).step(), "reads norms of update and weights",
         "torch/optim/_adafactor.py", True),
        ("ASGD", 1, lambda t: torch.optim.ASGD(t.weights()).step(), "makes its rates on the host",
         "torch/optim/asgd.py", True),
        ("AveragedModel.update_parameters", 1, lambda t: torch.optim.swa_utils.AveragedModel(
            t.layer, device=t.device).update_parameters(t.layer), "asks whether it is the first",
         "torch/optim/swa_utils.py", True),
        ("anomaly detection", 2, lambda t: _with_anomaly_detection(t.x), "asks of each gradient whether it has a NaN",
         "torch/csrc/autograd/engine.cpp, evaluate of a function"),
        ("normal with deviations on the device", 2, lambda t: torch.normal(t.x, t.x),
         "asks twice whether one is negative",
         "ATen, DistributionTemplates.h, CHECK_NORMAL_TENSOR_STD"),
        ("distributions.Normal", 2, lambda t: torch.distributions.Normal(t.x, t.x + 1, validate_args=True),
         "both parameters "
         "are checked", "torch/distributions/distribution.py"),
        ("distributions.Categorical", 1, lambda t: torch.distributions.Categorical(logits=t.x, validate_args=True),
         "the parameter is checked", "torch/distributions/distribution.py"),
        ("cov", 1, lambda t: torch.cov(t.x), "asks whether the divisor is positive", "ATen, Correlation.cpp, cov"),
        ("istft", 1, lambda t: torch.istft(_stft(t), 64, window=t.window), "asks whether the windows overlap",
         "ATen, SpectralOps.cpp, istft"),
        ("ctc_loss with lengths on the host", 5, lambda t: F.ctc_loss(
            t.signal[:40].view(5, 2, 4), t.labels.expand(2, 2) + 1, (4, 5), (1, 2)),
         "a read-back; both lengths and the targets' places are copied over, and lengths again for the mean",
         "ATen, cuda/LossCTC.cu, ctc_loss_gpu_template; LossCTC.cpp, ctc_loss_impl"),
        ("ctc_loss, forward and backward", 7, lambda t: F.ctc_loss(
            t.signal[:40].view(5, 2, 4).clone().requires_grad_(), t.labels.expand(2, 2) + 1, (4, 5), (1, 2), reduction="sum")
         .backward(), "a read-back; both lengths and the targets' places are copied over, twice",
         "ATen, cuda/LossCTC.cu, ctc_loss_backward_gpu_template"),
        ("ctc_loss with lengths on the device", 8, lambda t: F.ctc_loss(
            t.signal[:40].view(5, 2, 4), t.labels.expand(2, 2) + 1, t.labels + 4, t.labels + 1),
         "lengths go to the host, and back",
         "ATen, LossCTC.cpp, ctc_loss_tensor; cuda/LossCTC.cu, ctc_loss_gpu_template"),
        ("_foreach_copy_ from the host", 2, lambda t: torch._foreach_copy_([t.x, t.number], [t.host, torch.tensor(1.0)]),
         "one copy each", "ATen, cuda/ForeachBinaryOpList.cu, foreach_tensor_copy_list_kernel_cuda_"),
        ("ctc_loss of cuDNN", 6, lambda t: F.ctc_loss(t.signal[:40].view(5, 2, 4), torch.ones(4, dtype=torch.int32), (5, 5),
         (2, 2)), "five inside of cuDNN; lengths go over for the mean", "counted on an H100, torch 2.11"),
        ("mode of a long row", 5, lambda t: t.big_x[:5000].mode(), "Thrust tells the host where and how many",
         "ATen, cuda/TensorModeKernel.cu, calculate_mode", True),
        ("pack_padded_sequence, to be sorted", 1, lambda t: _pack(t), "the order is found on the host and copied over",
         "torch/nn/utils/rnn.py, pack_padded_sequence"),
        ("pad_packed_sequence, sorted back", 2, lambda t: torch.nn.utils.rnn.pad_packed_sequence(_pack(t)),
         "packing is one; the other reads the order back for the lengths", "torch/nn/utils/rnn.py, pad_packed_sequence"),
    ),
    *group(
        "backward passes",
        ("prod, backward", 1, lambda t: _leaf(t).prod().backward(), "where the zeros are",
         "torch/csrc/autograd/FunctionsManual.cpp, prod_backward"),
        ("prod along a dimension, backward", 1, lambda t: _leaf(t).prod(0).sum().backward(), "how many zeros there are",
         "torch/csrc/autograd/FunctionsManual.cpp, prod_backward"),
        ("cumprod, backward", 1, lambda t: (_leaf(t) + 1).cumprod(0).sum().backward(), "whether there is a zero",
         "ATen, ReduceOps.cpp, cumprod_backward"),
        ("cumprod with zeros, backward", 3, lambda t: _leaf(t).cumprod(0).sum().backward(),
         "whether there is a zero, and two masked_selects", "ATen, ReduceOps.cpp, cumprod_backward"),
        ("masked_scatter, backward", 1, lambda t: t.x.masked_scatter(t.mask, _leaf(t)).sum().backward(),
         "a masked_select of the gradient", "ATen, TensorAdvancedIndexing.cpp, masked_scatter_backward"),
        ("masked_fill with a value that learns", 2, lambda t: t.x.masked_fill(t.mask, t.number.clone().requires_grad_())
         .sum().backward(), "the value is read; its gradient is a masked_select",
         "ATen, cuda/Indexing.cu, masked_fill__cuda; torch/csrc/autograd/FunctionsManual.cpp, masked_fill_backward"),
    ),
    *group(
        "checks of arguments",
        ("searchsorted with a sorter", 2, lambda t: torch.searchsorted(t.x[0], t.x[0], sorter=t.x[0].argsort()),
         "smallest and largest index", "ATen, BucketizationUtils.h, searchsorted_pre_check"),
        ("segment_reduce by lengths", 2, lambda t: torch.segment_reduce(t.x[0], "sum", lengths=t.labels + 1),
         "whether one is negative, and whether they add up", "ATen, SegmentReduce.cpp, segment_reduce_kernel"),
        ("fake_quantize_per_channel_affine", 2, lambda t: torch.fake_quantize_per_channel_affine(
            t.x, t.number.expand(2), t.labels.int(), 0, 0, 255), "smallest and largest zero point",
         "ATen, quantized/FakeQuantPerChannelAffine.cpp, fake_quantize_per_channel_affine_cachemask"),
        ("cross_entropy with weights and smoothed labels", 1, lambda t: F.cross_entropy(
            t.x, t.labels, weight=t.x[0], label_smoothing=0.1), "a masked_select of the labels that count",
         "ATen, LossNLL.cpp, cross_entropy_loss_label_smoothing"),
    ),
    *group(
        "linear algebra",
        ("linalg.lstsq", 1, lambda t: torch.linalg.lstsq(t.matrix, t.matrix), "whether it failed",
         "ATen, BatchLinearAlgebra.cpp, linalg_lstsq_out", True),
        ("linalg.inv", 1, lambda t: torch.linalg.inv(t.matrix), "whether it failed", LINALG),
        ("linalg.solve", 1, lambda t: torch.linalg.solve(t.matrix, t.matrix), "whether it failed", LINALG),
        ("linalg.cholesky", 1, lambda t: torch.linalg.cholesky(t.matrix), "whether it failed", LINALG),
        ("linalg.lu_factor", 1, lambda t: torch.linalg.lu_factor(t.matrix), "whether it failed", LINALG),
        ("linalg.eigh", 1, lambda t: torch.linalg.eigh(t.matrix), "whether it failed", LINALG, True),
        ("linalg.svd", 1, lambda t: torch.linalg.svd(t.matrix), "whether it converged", LINALG, True),
        ("linalg.eig", 2, lambda t: torch.linalg.eig(t.matrix), "whether all numbers are finite, and whether it failed",
         "ATen, BatchLinearAlgebra.cpp, linalg_eig_out", True),
        ("linalg.pinv", 1, lambda t: torch.linalg.pinv(t.matrix), "of an svd", LINALG, True),
        ("linalg.matrix_rank", 1, lambda t: torch.linalg.matrix_rank(t.matrix), "of an svd", LINALG, True),
        ("linalg.matrix_exp", 6, lambda t: torch.linalg.matrix_exp(t.matrix), "a nonzero for each degree",
         "ATen, LinearAlgebra.cpp, mexp_impl", True),
    ),
    *group(
        "sparse and nested tensors",
        ("coalesce", 5, lambda t: t.sparse.coalesce(), "strides are copied over; then two copies, a sort and a count of "
         "Thrust", "ATen, sparse/cuda/SparseCUDATensor.cu, _coalesce_sparse_cuda; "
         "SparseTensorUtils.cpp, flatten_indices", True),
        ("to_sparse", 1, lambda t: t.x.to_sparse(), "a nonzero", "ATen, TensorConversions.cpp, dense_to_sparse"),
        ("sparse tensor without a size", 2, lambda t: torch.sparse_coo_tensor(t.sparse._indices(), t.sparse._values()),
         "the least and the largest index", "ATen, sparse/SparseTensor.cpp, sparse_coo_tensor"),
        ("backward of a sparse product", 5, lambda t: (t.adjacency @ t.matrix.requires_grad_()).sum().backward(),
         "the transposed matrix is coalesced", "ATen, sparse/cuda/SparseCUDATensorMath.cu, s_addmm_out_sparse_dense_cuda",
         True),
        ("clip_grad_norm_ of a sparse gradient", 4, lambda t: (t.embedding(t.index.repeat(2)).sum().backward(),
         torch.nn.utils.clip_grad_norm_(t.embedding.parameters(), 1.0)), "its norm is that of the coalesced one",
         "ATen, sparse/SparseTensorMath.cpp, norm_sparse", True),
        ("padded TransformerEncoder in eval mode", 4, padded_encoder, "is the mask aligned; the lengths; and where "
         "sequences begin, for queries and for keys", "ATen, nested/NestedTensorMath.cpp, "
         "NestedTensor_nested_tensor_from_mask; nested/cuda/NestedTensorTransformerUtils.cpp", True),
        ("torch.cond", 1, lambda t: torch.cond(t.flag, torch.sin, torch.cos, (t.x,)), "which branch",
         "torch/_higher_order_ops/cond.py, cond_op_dense"),
    ),
    *group(  # NCCL's first collective in a group may wait for more
        "collectives",
        ("dist.barrier()", 1, lambda t: _in_group(dist.barrier), "the host waits for the current stream", NCCL_WAIT, True),
        ("work.wait(timeout)", 1, lambda t: _in_group(
            lambda: dist.all_reduce(t.x, async_op=True).wait(timedelta(seconds=60))), "the host waits for the work; without "
         "a timeout only the stream does", NCCL_WAIT, True),
        ("all_gather_object", 4, lambda t: _in_group(lambda: dist.all_gather_object([None], 1)), "bytes and their number "
         "go to the device and come back", "torch/distributed/distributed_c10d.py, all_gather_object", True),
    ),
)


def _in_group(use) -> None:
    """``use`` in a process group of this process alone, for the accelerator."""
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    try:
        use()
    finally:
        dist.destroy_process_group()


def _leaf(t) -> torch.Tensor:
    return t.x.clone().requires_grad_()


def _pack(t) -> torch.nn.utils.rnn.PackedSequence:
    return torch.nn.utils.rnn.pack_padded_sequence(t.sequence, torch.tensor([2, 3]), batch_first=True, enforce_sorted=False)


def _assert(condition) -> None:
    assert condition


def _with_anomaly_detection(x: torch.Tensor) -> None:
    weight = x.detach().clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that it is slow
        with torch.autograd.set_detect_anomaly(True):
            (weight * 2).sum().backward()


def _stft(t) -> torch.Tensor:
    return torch.stft(t.signal, 64, window=t.window, return_complex=True)
