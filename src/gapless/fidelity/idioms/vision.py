"""Idioms of torchvision, where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

from .bag import Idiom, group


def _ops():
    import torchvision.ops  # takes a while, and needs PyTorch with CUDA where it is PyPI's

    return torchvision.ops


VISION: tuple[Idiom, ...] = () if find_spec("torchvision") is None else (
    *group(
        "detection",
        ("nms", 1, lambda t: _ops().nms(t.boxes, t.boxes[:, 3], 0.5), "a masked_select of the boxes that stay",
         "torchvision/csrc/ops/cuda/nms_kernel.cu, nms_kernel"),
        ("nms of no boxes", 0, lambda t: _ops().nms(t.boxes[:0], t.boxes[:0, 3], 0.5), "known to the host",
         "torchvision/csrc/ops/cuda/nms_kernel.cu, nms_kernel"),
        ("batched_nms", 2, lambda t: _ops().batched_nms(t.boxes, t.boxes[:, 3], t.labels, 0.5),
         "a one is made on the host and copied over; then nms", "torchvision/ops/boxes.py, _batched_nms_coordinate_trick"),
        ("remove_small_boxes", 1, lambda t: _ops().remove_small_boxes(t.boxes, 1.0), "where with one argument",
         "torchvision/ops/boxes.py, remove_small_boxes"),
        ("box_iou", 0, lambda t: _ops().box_iou(t.boxes, t.boxes), "only kernels", "torchvision/ops/boxes.py, box_iou"),
        ("clip_boxes_to_image", 0, lambda t: _ops().clip_boxes_to_image(t.boxes, (4, 4)), "limits are Python numbers",
         "torchvision/ops/boxes.py, clip_boxes_to_image"),
        ("roi_align of one tensor of boxes", 0, lambda t: _ops().roi_align(t.image, t.boxes[:, :1].new_zeros(2, 5), 2),
         "only kernels", "torchvision/csrc/ops/cuda/roi_align_kernel.cu"),
        ("sigmoid_focal_loss", 0, lambda t: _ops().sigmoid_focal_loss(t.x, t.mask.float()), "only kernels",
         "torchvision/ops/focal_loss.py"),
    ),
)
