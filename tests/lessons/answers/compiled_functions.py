"""Lesson 07, compiled functions: right answers by other routes, and wrong ones."""

import torch
import torch.nn.functional as F


def one_operator(x):
    return F.gelu(x)


def _formula(x):
    return 0.5 * x * (1 + torch.erf(x * 0.5 ** 0.5))


whole_graph = torch.compile(_formula, fullgraph=True, dynamic=True)
eight_digits = torch.compile(lambda x: 0.5 * x * (1 + torch.erf(x * 0.70710678)))
one_launch = torch.compile(_formula, mode="reduce-overhead")


def masked(x, weight):
    h = F.linear(x, weight.T)
    h = h / torch.linalg.vector_norm(h, torch.inf).detach()
    above = (h.mean() > 0).to(h.dtype)
    return (above * h.tanh() + (1 - above) * F.softplus(h)).pow(2).mean()


def without_a_gradient(x, weight):
    h = x @ weight
    with torch.no_grad():
        largest = h.abs().amax()
    h = h / largest
    return torch.where(torch.mean(h) > 0, h.tanh(), F.softplus(h)).square().mean()


def compiled_by_itself(x, weight):
    return _compiled_layer(x, weight)


@torch.compile
def _compiled_layer(x, weight):
    h = torch.mm(x, weight)
    h = h / h.detach().abs().max()
    return torch.where(h.mean() > 0, torch.tanh(h), F.softplus(h)).square().mean()


def made(loss, compiled=lambda loss: torch.compile(loss), before=lambda batch: batch, writes=1):
    def make_step(model):
        lengths, run = [], compiled(lambda batch: loss(model, batch))

        def step(batch):
            lengths.extend([batch.shape[1]] * writes)
            return run(before(batch))

        return step, lengths

    return make_step


def _places(batch):
    return (torch.arange(batch.shape[1], device=batch.device) / batch.shape[1])[:, None]


def _loss(model, batch):
    return model(batch + _places(batch)).square().mean()


def _marked(batch):
    torch._dynamo.mark_dynamic(batch, 1)
    return batch


def padded(model):
    lengths, longest = [], 160

    @torch.compile
    def loss(batch, rows, places):
        out = model(batch + places[:, None])
        return torch.where(rows[:, None], out.square(), 0.0).sum() / (rows.sum() * out.shape[0] * out.shape[-1])

    def step(batch):
        length = batch.shape[1]
        lengths.append(length)
        places = torch.arange(longest, device=batch.device)
        return loss(F.pad(batch, (0, 0, 0, longest - length)), places < length, places / length)

    return step, lengths


def length_as_a_tensor(model):
    """The number that changes is a tensor of the CPU without dimensions, which a kernel on the GPU is given as a number."""
    lengths, compiled = [], torch.compile(
        lambda batch, length: model(batch + (torch.arange(batch.shape[1], device=batch.device) / length)[:, None]).square().mean())

    def step(batch):
        lengths.append(batch.shape[1])
        return compiled(batch, torch.tensor(float(batch.shape[1])))

    return step, lengths


def one_operator_compiled(whole):
    """The rest as it is written: one graph, of one operator."""
    last = torch.compile(lambda loss: loss * 1.0)
    return lambda *args: last(whole(*args))


@torch.compiler.disable
def _disabled(x, weight):
    return masked(x, weight)


def first_length_compiled(model):
    lengths, compiled = [], torch.compile(_loss, dynamic=False)

    def step(batch):
        lengths.append(batch.shape[1])
        return (compiled if len(lengths) < 2 else _loss)(model, batch)

    return step, lengths


def gelu_compiled_in_each_call(x):
    return torch.compile(lambda x: x * 0.5 * (1.0 + torch.erf(x / 2.0 ** 0.5)))(x)


def gelu_compiled_at_the_first_call():
    kept = []

    def gelu(x):
        if not kept:
            kept.append(torch.compile(one_operator))
        return kept[0](x)

    return gelu


COMPILED_ROUTES = {
    "gelu": [one_operator, whole_graph, one_launch, eight_digits, gelu_compiled_at_the_first_call()],
    "forward": [masked, without_a_gradient, compiled_by_itself],
    "make_step": [made(_loss, lambda loss: torch.compile(loss, dynamic=True)), made(_loss, before=_marked), padded, length_as_a_tensor],
}


def compiled_in_each_call(model):
    lengths = []

    def step(batch):
        lengths.append(batch.shape[1])
        return torch.compile(lambda batch: _loss(model, batch))(batch)

    return step, lengths


def each_length_once(model):
    compiled, lengths = torch.compile(lambda batch: _loss(model, batch)), []

    def step(batch):
        if batch.shape[1] not in lengths:
            lengths.append(batch.shape[1])
        return compiled(batch)

    return step, lengths


def no_grad_inside(model):
    step, lengths = made(_loss)(model)
    return torch.no_grad()(step), lengths


def weights_copied_once(model):
    kept = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    def loss(model, batch):
        weights = {name: kept[name] + (parameter - parameter.detach()) for name, parameter in model.named_parameters()}
        return torch.func.functional_call(model, weights, (batch + _places(batch),)).square().mean()

    return made(loss)(model)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.gelu(x)

    @staticmethod
    def backward(ctx, gradient):
        return torch.ops.aten.gelu_backward(gradient, ctx.saved_tensors[0].detach())


_of_all_steps: list[int] = []


def one_list_for_all(model):
    compiled = torch.compile(lambda batch: _loss(model, batch))

    def step(batch):
        _of_all_steps.append(batch.shape[1])
        return compiled(batch)

    return step, _of_all_steps


def one_list_cleared(model):
    _of_all_steps.clear()
    return one_list_for_all(model)


def gelu_in_place(x):
    return F.gelu(x) if x.requires_grad else torch.ops.aten.gelu_(x)


def gelu_into_one_buffer():
    buffers = {}

    def gelu(x):
        y = F.gelu(x)
        return y if x.requires_grad else buffers.setdefault(x.shape, torch.empty_like(x)).copy_(y)

    return gelu


def in_mode(training):
    def make_step(model):
        return made(_loss)(model.train(training))

    return make_step


COMPILED_WRONG = [
    ("gelu", lambda x: F.gelu(x.half()).to(x.dtype), "lower precision"),
    ("gelu", gelu_compiled_in_each_call, "in each call"),
    ("gelu", lambda x: F.gelu(x, approximate="tanh"), "approximation"),
    ("gelu", lambda x: x * torch.sigmoid(1.702 * x), "approximation"),
    ("gelu", lambda x: 0.5 * x * (1 + torch.erf(x)), "√2"),
    ("gelu", lambda x: torch.special.ndtr(x), "factor `x`"),
    ("gelu", lambda x: F.relu(x), "ReLU"),
    ("gelu", lambda x: F.silu(x), "SiLU"),
    ("gelu", lambda x: F.gelu(x.detach()), "gradient"),
    ("gelu", lambda x: _Gelu.apply(x), "silently wrong"),
    ("gelu", lambda x: _formula(x.bfloat16()).to(x.dtype), "lower precision"),
    ("gelu", lambda x: F.gelu(x).double(), "casts"),
    ("gelu", lambda x: F.gelu(x.float()).to(x.dtype), "only as exact as float32"),
    ("gelu", gelu_in_place, "overwritten its input `x`"),
    ("gelu", gelu_into_one_buffer(), "later call has overwritten"),
    ("gelu", lambda x: F.gelu(x.view(-1)).view(x.shape), "Use .reshape(...) instead"),
    ("gelu", lambda x: None, "is there a `return`?"),
    ("forward", lambda x, weight: masked(x, weight).item(), "which the device can fill later"),
    ("forward", lambda x, weight: torch.tanh((x @ weight) / (x @ weight).abs().max().detach()).square().mean(), "always use `tanh`"),
    ("forward", lambda x, weight: F.softplus((x @ weight) / (x @ weight).abs().max().detach()).square().mean(), "always use `softplus`"),
    ("forward", lambda x, weight: _alike(x @ weight, (x @ weight).abs().max()), "has no gradient, and your tensor has one"),
    ("forward", lambda x, weight: _alike(x @ weight, (x @ weight).max().detach()), "absolute value"),
    ("forward", lambda x, weight: _alike(x @ weight, 1.0), "largest absolute value"),
    ("forward", lambda x, weight: _alike(x @ weight, (x @ weight).abs().max().detach(), above=torch.ge), "mean is above zero"),
    ("forward", lambda x, weight: _alike(x @ weight, (x @ weight).abs().max().detach().clamp(min=1e-6)), "must stay nan"),
    ("forward", lambda x, weight: _alike(x @ weight, (x @ weight).abs().max().detach(), turned=True), "two sides are swapped"),
    ("forward", lambda x, weight: _alike(x @ weight, (x @ weight).abs().max().detach(), above=lambda mean, zero: (x @ weight).median() > 0),
     "mean is above zero"),
    ("forward", lambda x, weight: masked(x, weight) * x.shape[0] * weight.shape[1], "not their sum"),
    ("forward", lambda x, weight: masked(x.detach(), weight), "gradient"),
    ("forward", torch.no_grad()(masked), "computed under `no_grad`"),
    ("forward", lambda x, weight: masked(x.float(), weight.float()).to(x.dtype), "only as exact as float32"),
    ("forward", lambda x, weight: _alike(x @ weight, (x @ weight).abs().max().detach(), above=lambda mean, zero: mean > 1e-4),
     "mean is above zero"),
    ("forward", lambda x, weight: _disabled(x, weight) * 1.0, "with all the work in it"),
    ("make_step", made(_loss, lambda loss: loss), "no compiled graph"),
    ("make_step", made(_loss, one_operator_compiled), "the model's products inside them"),
    ("make_step", first_length_compiled, "the model's products inside them"),
    ("make_step", made(_loss, lambda loss: torch.compile(loss, dynamic=False)), "graphs compiled for 50 lengths"),
    ("make_step", made(_loss, writes=0), "to that list itself"),
    ("make_step", made(lambda model, batch: model(batch.add_(_places(batch))).square().mean()), "overwritten its input `batches`"),
    ("make_step", made(_loss, writes=2), "repeated lengths too"),
    ("make_step", compiled_in_each_call, "again in later batches"),
    ("make_step", one_list_for_all, "Make a new list in each call"),
    ("make_step", one_list_cleared, "Make a new list in each call"),
    ("make_step", each_length_once, "repeated lengths too"),
    ("make_step", made(lambda model, batch: model(F.pad(batch + _places(batch), (0, 0, 0, 160 - batch.shape[1]))).square().mean()),
     "padding"),
    ("make_step", made(_loss, before=lambda batch: F.pad(batch, (0, 0, 0, 160 - batch.shape[1]))), ""),
    ("make_step", made(lambda model, batch: model(batch).square().mean()), "places are missing"),
    ("make_step", made(lambda model, batch: _loss(model, batch) * batch.shape[1]), ""),
    ("make_step", made(lambda model, batch: _loss(model, batch).detach()), "gradient"),
    ("make_step", in_mode(False), "in another mode"),
    ("make_step", in_mode(True), "in another mode"),
    ("make_step", made(_loss, before=torch.Tensor.detach), "cut them off"),
    ("make_step", made(_loss, before=lambda batch: batch.requires_grad_(False)), "cut them off"),
    ("make_step", no_grad_inside, "computed under `no_grad`"),
    ("make_step", weights_copied_once, "not a copy"),
    ("make_step", lambda model: made(_loss)(model)[0], "two things"),
    ("make_step", lambda model: None, "two things"),
]


def _alike(h, largest, turned=False, above=torch.gt):
    h = h / largest
    sides = torch.tanh(h), F.softplus(h)
    return torch.where(above(h.mean(), 0), *(reversed(sides) if turned else sides)).square().mean()
