"""Where steps end, in programs of several kinds."""

import pytest
import torch
from torch import nn

import gapless
from gapless.audit.steps import BACKWARD, FORWARD, OPTIMIZER, REPLAY, StepEnds
from gapless.evidence.what_if import OPTIMIZER_MARK


@pytest.fixture(autouse=True)
def device():
    return gapless.vgpu.enable("a100")


class Watched(StepEnds):
    """Counts."""

    def __init__(self, **options):
        self.ended = self.anew = 0
        super().__init__(self._count, self._count_anew, **options)

    def _count(self):
        self.ended += 1

    def _count_anew(self):
        self.anew += 1


def network(device="cpu"):
    model = nn.Linear(4, 4).to(device)
    return model, lambda: model(torch.ones(2, 4, device=device)).sum()


def test_each_step_of_an_optimizer():
    with Watched().watching() as ends:
        model, loss = network()
        for kind in (torch.optim.SGD, torch.optim.AdamW):
            optimizer = kind(model.parameters(), lr=0.1)
            for _ in range(3):
                loss().backward()
                optimizer.step()
        assert ends.kind == OPTIMIZER and ends.counts[OPTIMIZER] == ends.counts[BACKWARD] == 6
    optimizer.step()
    assert ends.counts[OPTIMIZER] == 6


def test_of_two_optimizers_the_first():
    with Watched().watching() as ends:
        models = [network(), network()]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model, _ in models]
        for _ in range(10):
            for (_, loss), optimizer in zip(models, optimizers):
                loss().backward()
                optimizer.step()
    assert ends.ended == 10 and not ends.anew


def test_a_closure_is_not_the_optimizer_s_work():
    with Watched().watching() as ends:
        model, loss = network("vgpu:0")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def closure():
            optimizer.zero_grad()
            value = loss()
            value.backward()
            return value

        def step():
            optimizer.step(closure)
            optimizer.step(closure=closure)

        trace = gapless.profile(step, steps=1, warmup=1, device="vgpu:0")
    assert ends.ended == 4
    blocks = [span for span in trace.spans if span.name == OPTIMIZER_MARK]
    inside = [span.name for span in trace.spans if span.category == "op" and any(
        block.start_us <= span.start_us < block.end_us for block in blocks)]
    assert len(blocks) == 4 and "aten::_foreach_add_" in inside and "aten::addmm" not in inside


def test_accumulation_is_one_step():
    with Watched().watching() as ends:
        model, loss = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for number in range(120):
            loss().backward()
            if number % 40 == 39:
                optimizer.step()
    assert ends.ended == 3 and ends.kind == OPTIMIZER


def test_a_first_optimizer_that_steps_no_more():
    with Watched().watching() as ends:
        model, loss = network()
        first, second = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
        for optimizer in (first, *[second] * 10):
            loss().backward()
            optimizer.step()
    assert ends.anew == 1 and ends.ended == 1 + 5


def test_without_an_optimizer_each_backward_pass():
    with Watched().watching() as ends:
        model, loss = network()
        for _ in range(10):
            loss().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
        torch.autograd.grad(loss(), model.parameters())
    assert ends.kind == BACKWARD and ends.ended == 5 and ends.counts[BACKWARD] == 10


def test_a_step_in_a_graph_ends_with_its_replay(device):
    with Watched().watching() as ends:
        model, loss = network(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        side = torch.vgpu.Stream()
        with torch.vgpu.stream(side):
            for _ in range(3):
                loss().backward()
                optimizer.step()
        graph = torch.vgpu.CUDAGraph()
        with torch.vgpu.graph(graph):
            loss().backward()
            optimizer.step()
        for _ in range(10):
            graph.replay()
    assert ends.kind == REPLAY and ends.counts[OPTIMIZER] == 3 and ends.anew == 1


def test_scaled_steps():
    gapless.vgpu.enable("a100")
    with Watched().watching() as ends:
        model, loss = network("vgpu:0")
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("vgpu")
        for _ in range(4):
            scaler.scale(loss()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert ends.ended == 4


def test_forward_passes_where_they_are_asked_for():
    model, criterion = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.MSELoss()

    def evaluate():
        for _ in range(3):
            criterion(model(torch.ones(2, 4)), torch.ones(2, 4))

    with Watched().watching() as ends:
        evaluate()
    assert ends.kind is None and not ends.ended
    with Watched(forward=True).watching() as ends:  # of the whole model: no layer's, and no loss's
        evaluate()
        with pytest.raises(RuntimeError, match="shape"):
            model(torch.ones(2, 5))
        evaluate()
    assert ends.kind == FORWARD and ends.ended == ends.counts[FORWARD] == 6
    evaluate()
    assert ends.ended == 6


def test_a_compiled_model_stays_one_graph_while_its_passes_are_watched():
    torch.compiler.reset()
    graphs = []
    model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend=lambda graph, inputs: graphs.append(graph) or graph)
    with Watched(forward=True).watching() as ends:
        model(torch.ones(2, 4))
    assert len(graphs) == 1 and ends.ended == 1
