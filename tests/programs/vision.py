"""torchvision's and timm's models: a training step with random weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import add, train

# A side of 64 where the model takes it; others say theirs.
TIMM = {
    "resnet10t": {}, "resnet26d": {}, "mobilenetv3_small_050": {}, "efficientnet_b0": {}, "convnext_atto": {}, "regnetx_002": {},
    "regnety_002": {}, "densenet121": {}, "ghostnet_050": {}, "lcnet_050": {}, "hrnet_w18_small": {}, "poolformer_s12": {},
    "mobilevit_xxs": {}, "edgenext_xx_small": {}, "repvgg_a0": {}, "fbnetc_100": {}, "mixnet_s": {}, "dla34": {},
    "resnest14d": {}, "skresnet18": {}, "vgg11_bn": {"side": 32},
    "vit_tiny_patch16_224": {"img_size": 64}, "deit_tiny_patch16_224": {"img_size": 64}, "pvt_v2_b0": {}, "mixer_s32_224": {"side": 224},
    "resmlp_12_224": {"side": 224}, "xcit_nano_12_p16_224": {}, "levit_128s": {"side": 224}, "swin_tiny_patch4_window7_224": {"img_size": 56, "side": 56},
    "efficientformer_l1": {"side": 224}, "coat_lite_tiny": {"img_size": 64}, "tf_efficientnetv2_b0": {},
}
CLASSIFIERS = ("alexnet resnet18 mobilenet_v2 mobilenet_v3_small squeezenet1_1 shufflenet_v2_x0_5 mnasnet0_5 googlenet densenet121 "
               "efficientnet_b0 regnet_y_400mf convnext_tiny swin_t resnext50_32x4d wide_resnet50_2 vgg11").split()
VIDEO = {"r3d_18": 32, "mc3_18": 32, "r2plus1d_18": 32, "s3d": 224, "swin3d_t": 32}
SEGMENTATION = ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
DETECTION = ("fasterrcnn_mobilenet_v3_large_320_fpn", "ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn", "fcos_resnet50_fpn",
             "maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn")


def cross_entropy(model, x, y):
    output = model(x)
    return F.cross_entropy(getattr(output, "logits", output), y)


def batch(*shape):
    return [(torch.rand(2, 3, *shape), torch.tensor([1, 4]))]


def _timm(name, options):
    def run(device):
        import timm

        side = options.get("side", options.get("img_size", 64))
        made = {key: value for key, value in options.items() if key != "side"}
        return train(timm.create_model(name, num_classes=10, **made), device, batch(side, side), cross_entropy)

    return run


def _classifier(name):
    def run(device):
        import torchvision

        return train(torchvision.models.get_model(name, num_classes=10), device, batch(64, 64), cross_entropy)

    return run


def _video(name, side):
    def run(device):
        import torchvision

        return train(torchvision.models.get_model(name, num_classes=10), device, batch(8 if name != "s3d" else 16, side, side),
                     cross_entropy)

    return run


def _segmentation(name):
    def run(device):
        import torchvision

        model = torchvision.models.get_model(name, num_classes=5, weights=None, weights_backbone=None)
        batches = [(torch.rand(2, 3, 64, 64), torch.randint(0, 5, (2, 64, 64)))]
        return train(model, device, batches, lambda m, x, y: F.cross_entropy(m(x)["out"], y))

    return run


def _detection(name):
    def run(device):
        import torchvision

        model = torchvision.models.get_model(name, num_classes=3, weights=None, weights_backbone=None,
                                             **({} if "320" in name else {"min_size": 64, "max_size": 96})).to(device).train()
        pictures = [torch.rand(3, 64, 64).to(device), torch.rand(3, 48, 64).to(device)]
        boxes = torch.tensor([[5.0, 5.0, 30.0, 30.0], [20.0, 10.0, 40.0, 40.0]])
        target = {"boxes": boxes, "labels": torch.tensor([1, 2])}
        if "mask" in name:
            target["masks"] = (torch.rand(2, 48, 64) < 0.5).to(torch.uint8)
        if "keypoint" in name:
            target["keypoints"] = torch.cat([boxes[:, None, :2] + 3 + torch.arange(17.0)[None, :, None].expand(2, 17, 2) / 2,
                                             torch.ones(2, 17, 1)], 2)
            target["labels"] = torch.ones(2, dtype=torch.int64)
        target = {key: value.to(device) for key, value in target.items()}
        targets = [dict(target), dict(target)]
        if "mask" in name:
            targets[0]["masks"] = F.pad(target["masks"], (0, 0, 0, 16))
        losses = model(pictures, targets)
        sum(losses.values()).backward()
        found = {f"gradient of {key}": value.grad for key, value in model.named_parameters() if value.grad is not None}
        model.eval()
        with torch.no_grad():
            seen = model(pictures[:1])[0]
        return found | {f"loss {key}": value for key, value in losses.items()} | {f"seen {key}": value for key, value in seen.items()}

    return run


def raft(device):
    import torchvision

    first, second = (torch.rand(1, 3, 128, 128) for _ in range(2))
    return train(torchvision.models.optical_flow.raft_small(), device, [(first, second)],
                 lambda m, a, b: sum(flow.abs().mean() for flow in m(a, b, num_flow_updates=2)))


class Head(nn.Module):
    """What torchvision.ops has for detection."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.offset = nn.Conv2d(4, 18, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 3) * 0.1)

    def forward(self, x):
        import torchvision.ops as ops

        x = self.conv(x)
        x = ops.deform_conv2d(x, self.offset(x) * 0.1, self.weight, padding=1)
        boxes = x.new_tensor([[0, 2, 2, 20, 20], [1, 5, 5, 25, 30]])
        parts = [ops.roi_align(x, boxes, 4), ops.roi_pool(x, boxes, 4), ops.ps_roi_align(x, boxes, 2), ops.ps_roi_pool(x, boxes, 2)]
        kept = ops.nms(boxes[:, 1:], x.flatten()[:2], 0.5)
        return sum(part.square().mean() for part in parts) + ops.generalized_box_iou_loss(
            boxes[:, 1:] + x.mean(), boxes[:, 1:] + 1).sum() + ops.sigmoid_focal_loss(x, x.detach().sigmoid(), reduction="mean") + kept.sum()


for name, options in TIMM.items():
    add("timm", name, _timm(name, options), "timm")
for name in CLASSIFIERS:
    add("torchvision", name, _classifier(name), "torchvision")
for name, side in VIDEO.items():
    add("torchvision", name, _video(name, side), "torchvision")
for name in SEGMENTATION:
    add("torchvision", name, _segmentation(name), "torchvision")
for name in DETECTION:
    add("torchvision", name, _detection(name), "torchvision")
add("torchvision", "raft_small", raft, "torchvision")
add("torchvision", "torchvision.ops",
    lambda device: train(Head(), device, [(torch.rand(2, 3, 32, 32),)], lambda m, x: m(x)), "torchvision")
