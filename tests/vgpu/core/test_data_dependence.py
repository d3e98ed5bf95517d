"""Operators whose result tells of values: each is a wait, as on CUDA, and no program reads a value without one."""

import pytest
import torch

from gapless import vgpu

A = torch.ops.aten

# Each tells whether the bool ``x`` is set, by a size or a number.
TELLING = {
    "prims.item": lambda x: torch.ops.prims.item(x),
    "_pack_padded_sequence": lambda x: A._pack_padded_sequence(torch.zeros(4, 1, 1, device=x.device), (x.long() + 1).reshape(1), False)[1].numel() == 2,
    "_ctc_loss": lambda x: A._ctc_loss.Tensor(
        torch.zeros(4, 1, 3, device=x.device), torch.ones(1, 3, dtype=torch.int64, device=x.device),
        torch.full((1,), 4, device=x.device), x.long().reshape(1))[1].shape[2] == 3,
    "_padded_dense_to_jagged_forward": lambda x: A._padded_dense_to_jagged_forward(
        torch.zeros(1, 4, 1, device=x.device), [torch.stack([torch.zeros_like(x).long(), x.long()])]).shape[0] == 1,
    "linalg_lstsq": lambda x: A.linalg_lstsq(torch.stack([x, torch.zeros_like(x)]).float()[:, None], torch.ones(2, 1, device=x.device),
                                             None, driver="gelsd")[1].numel() == 1,
    "_nested_tensor_from_mask_left_aligned": lambda x: not A._nested_tensor_from_mask_left_aligned(
        torch.zeros(1, 2, 1, device=x.device), torch.stack([torch.zeros_like(x), x])[None]),
    "select": lambda x: bool(A.select.int(torch.zeros(2, 3, device=x.device), 0, x.long()).storage_offset()),
    "expand": lambda x: A.expand(torch.zeros(1, device=x.device), [x.long() + 1]).numel() == 2,
    "slice": lambda x: A.slice.Tensor(torch.zeros(2, device=x.device), 0, 0, x.long()).numel() == 1,
    "new_zeros": lambda x: A.new_zeros(torch.zeros(1, device=x.device), [x.long()]).numel() == 1,
}


@pytest.mark.parametrize("name", TELLING)
def test_what_tells_a_value_is_a_wait(device, waits, name):
    for truth in (False, True):
        x = torch.tensor(truth, device=device)
        with waits() as found:
            try:
                told = TELLING[name](x)
            except (NotImplementedError, RuntimeError, TypeError):
                continue  # refused: no leak
        assert found or told != truth, "it told the value, and nobody waited"


@pytest.mark.parametrize("call", [
    lambda x: torch.stack([x, x]), lambda x: x.roll(1), lambda x: torch.nn.functional.embedding_bag(x.long(), torch.ones(5, 3, device=x.device), torch.zeros(1, dtype=torch.long, device=x.device)),
    lambda x: x.sort(), lambda x: torch.cdist(x[None], x[None]), lambda x: x.is_contiguous(), lambda x: A.is_same_size(x, x), lambda x: x.kthvalue(2),
    lambda x: torch.searchsorted(x, x), lambda x: torch._weight_norm(x.reshape(2, 2), x[:2, None]), lambda x: A._to_copy(x), lambda x: A._unsafe_view(x, [4]),
], ids=lambda call: call.__code__.co_names[-1])
def test_what_goes_by_form_is_none(device, waits, call):
    x = torch.arange(4.0, device=device)
    with waits() as found:
        call(x)
    assert not found


@pytest.mark.parametrize("draw", [torch.poisson, torch._standard_gamma, lambda x: torch.binomial(x, 0.5 * torch.ones_like(x)),
                                  lambda x: torch.nn.functional.rrelu(x - 1, training=True)])
def test_the_generators_state_tells_no_value(device, draw):
    states = []
    for values in (torch.zeros(5), torch.full((5,), 30.0)):
        torch.manual_seed(3)
        draw(values.to(device) + 0.5)
        states.append(torch.vgpu.get_rng_state())
    assert torch.equal(*states) and not torch.equal(states[0], torch.vgpu.get_rng_state() * 0)


def test_a_generator_by_its_place(device):
    generator = torch.Generator(device=device).manual_seed(1)
    first = torch.poisson(torch.full((50,), 4.0, device=device), generator)
    assert not torch.equal(first, torch.poisson(torch.full((50,), 4.0, device=device), generator))


def test_operators_for_the_cpu_are_refused(device):
    q = torch.zeros(1, 1, 4, 8, device=device)
    with pytest.raises(NotImplementedError, match="is for the CPU"):
        A._scaled_dot_product_flash_attention_for_cpu(q, q, q)


def test_asking_again_and_again_is_noted_once_an_event(device):
    x = torch.ones(2000, 2000, device=device)
    timeline = vgpu.timeline()
    for _ in range(2):
        y = x @ x
        event = torch.Event(device=device)
        event.record()
        while not event.query():
            pass
    assert timeline.polls == 2
    y = x @ x
    event.record()
    assert not event.query()
    for _ in range(timeline.POLLED_WITHIN):
        x + 1
    assert not event.query() and timeline.polls == 2 and y.shape == x.shape


def test_operators_that_cuda_has_not_are_refused(device):
    with pytest.raises(NotImplementedError, match="histogram.* is for the CPU"):
        torch.histogram(torch.ones(3, device=device), 2)
