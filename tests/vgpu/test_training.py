"""ResNet-18 with TorchMetrics, trained on the virtual GPU and on the CPU: the same to the last digit that matters."""

import gc
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gapless import vgpu
from gapless.measure.profile import profile

CLASSES = 10

torchvision = pytest.importorskip("torchvision")
torchmetrics = pytest.importorskip("torchmetrics")


def make_metrics(device):
    options = {"task": "multiclass", "num_classes": CLASSES}
    return torchmetrics.MeanMetric().to(device), torchmetrics.MetricCollection({
        "accuracy": torchmetrics.Accuracy(**options),
        "precision": torchmetrics.Precision(average="macro", **options),
        "recall": torchmetrics.Recall(average="macro", **options),
        "f1": torchmetrics.F1Score(average="macro", **options),
    }).to(device)


def train(device, steps=3):
    """(losses, gradients of the last step, buffers, metrics) of a few steps."""
    torch.manual_seed(0)
    network = torchvision.models.resnet18(num_classes=CLASSES).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    mean_loss, metrics = make_metrics(device)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        images = torch.randn(4, 3, 32, 32, generator=generator).to(device)
        labels = torch.randint(CLASSES, (4,), generator=generator).to(device)
        optimizer.zero_grad()
        scores = network(images)
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        mean_loss.update(loss.detach())
        metrics.update(scores.detach(), labels)
        losses.append(loss.item())
    return {
        "losses": torch.tensor(losses),
        "gradients": [p.grad.cpu() for p in network.parameters()],
        "weights": [p.detach().cpu() for p in network.parameters()],
        "buffers": [b.cpu() for b in network.buffers()],
        "metrics": {"loss": mean_loss.compute().cpu(), **{k: v.cpu() for k, v in metrics.compute().items()}},
    }


def test_resnet18_with_metrics_equals_the_cpu(device):
    expected, found = train("cpu"), train(device)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_two_runs_take_the_same_time_and_leave_the_same_trace(device):
    def run():
        gc.collect()  # what other tests left on the card shows in the totals
        vgpu.timeline().reset()
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).to(device)
        optimizer = torch.optim.Adam(network.parameters())
        side = torch.vgpu.Stream()
        images = torch.randn(2, 3, 16, 16).pin_memory()

        def step():
            with torch.vgpu.stream(side):
                x = images.to(device, non_blocking=True)
            torch.vgpu.current_stream().wait_stream(side)
            x.record_stream(torch.vgpu.current_stream())
            with torch.profiler.record_function("forward"):
                y = network(x)
            optimizer.zero_grad()
            y[y > 0].mean().backward()
            optimizer.step()

        trace = profile(step, steps=3, warmup=1, device=device)
        return vgpu.timeline().host_ns, json.dumps([trace.events, trace.metadata])

    assert len({run() for _ in range(5)}) == 1


def test_a_step_at_full_size_leaves_nothing_behind(device):
    """Host memory and the card's stay as they are however many steps run."""
    from gapless.vgpu.hardware.memory import memory
    from gapless.vgpu.process import location

    with vgpu.shape_only():
        layer = torch.nn.Linear(1000, 1000).to(device)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
        x = torch.empty(10_000, 1000, device=device)

        def step():
            optimizer.zero_grad()
            y = layer(x)
            y[y > 0].sum().backward()
            optimizer.step()
            with torch.vgpu.stream(torch.vgpu.Stream()):
                torch.vgpu.Event().record()

        def sizes():
            timeline = vgpu.timeline()
            return (vgpu.memory().allocated_bytes, len(memory._blocks), len(timeline._op_stack()),
                    len(timeline.wait_hooks), len(timeline.current.pending) <= timeline.host.queue_length)

        step()
        before = sizes()
        for _ in range(50):
            step()
        assert sizes() == before
    assert len(location._forward.lines) <= location._MOST_LINES


@pytest.mark.filterwarnings("ignore")
def test_quantisation_aware_training_has_the_cpus_losses(device):
    from torch.ao import quantization

    def train(device):
        torch.manual_seed(0)
        network = nn.Sequential(quantization.QuantStub(), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2),
                                quantization.DeQuantStub())
        network.qconfig = quantization.get_default_qat_qconfig("x86")
        network = quantization.prepare_qat(network.train()).to(device)
        optimizer = torch.optim.SGD(network.parameters(), 0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = network(torch.randn(4, 3, 4, 4).to(device)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, quantization.convert(network.cpu().eval())(torch.ones(1, 3, 4, 4))

    torch.testing.assert_close(train(device), train("cpu"))
