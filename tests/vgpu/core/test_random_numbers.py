"""Random numbers: with the same seed, the CPU's."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

MAKERS = {
    "rand": lambda d, g: torch.rand(4, device=d, generator=g),
    "randn": lambda d, g: torch.randn(4, device=d, generator=g),
    "randint": lambda d, g: torch.randint(100, (4,), device=d, generator=g),
    "randperm": lambda d, g: torch.randperm(9, device=d, generator=g),
    "normal_": lambda d, g: torch.empty(4, device=d).normal_(generator=g),
    "uniform_": lambda d, g: torch.empty(4, device=d).uniform_(generator=g),
    "exponential_": lambda d, g: torch.empty(4, device=d).exponential_(generator=g),
    "bernoulli": lambda d, g: torch.bernoulli(torch.full((9,), 0.5, device=d), generator=g),
    "multinomial": lambda d, g: torch.multinomial(torch.ones(9, device=d), 4, generator=g),
    "trunc_normal_": lambda d, g: nn.init.trunc_normal_(torch.empty(4, device=d), generator=g),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_generator_of_the_device_gives_the_cpus_values(name, device):
    found = MAKERS[name](device, torch.Generator(device=device).manual_seed(3))
    expected = MAKERS[name]("cpu", torch.Generator().manual_seed(3))
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("seed", [torch.manual_seed, lambda s: torch.vgpu.manual_seed(s), lambda s: torch.random.manual_seed(s)],
                         ids=["torch", "vgpu", "random"])
def test_the_default_generator_gives_the_cpus_values(seed, device):
    def values(device):
        seed(5)
        x = torch.ones(50, device=device)
        return torch.stack([F.dropout(x), torch.rand_like(x), F.feature_alpha_dropout(x[None, :, None])[0, :, 0],
                            F.gumbel_softmax(x)]).cpu()

    torch.testing.assert_close(values(device), values("cpu"))


def test_networks_start_alike(device):
    torch.manual_seed(0)
    expected = nn.Linear(3, 3).weight
    torch.manual_seed(0)
    assert torch.equal(nn.Linear(3, 3, device=device).weight.cpu(), expected)


def test_the_state_of_a_generator(device):
    generator = torch.Generator(device="vgpu").manual_seed(1)
    state = generator.get_state()
    first = torch.rand(3, device=device, generator=generator)
    for again in (generator, copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)), generator.clone_state()):
        again.set_state(state)
        assert again.device == device
        assert torch.equal(torch.rand(3, device=device, generator=again), first)


def test_a_generator_has_no_offset(device):
    generator = torch.Generator(device="vgpu")
    for ask in (generator.get_offset, lambda: generator.set_offset(4)):
        with pytest.raises(RuntimeError, match="has no offset: keep its state"):
            ask()


def test_which_generators_are_generators(device):
    assert isinstance(torch.Generator(device="vgpu"), torch.Generator)
    assert isinstance(torch.Generator(), torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert not isinstance(3, torch.Generator)
    assert torch.Generator().device.type == "cpu"
    with pytest.raises(RuntimeError, match="there is one virtual GPU"):
        torch.Generator(device="vgpu:1")


def test_the_generator_of_another_device_is_refused(device):
    with pytest.raises(RuntimeError, match="Expected a 'vgpu' device type for generator but found 'cpu'"):
        torch.rand(3, device=device, generator=torch.Generator())


def test_a_fork_of_the_random_numbers_is_undone(device):
    torch.manual_seed(0)
    expected = torch.rand(3, device=device)
    torch.manual_seed(0)
    with torch.random.fork_rng(device_type="vgpu"):
        torch.rand(3, device=device)
    assert torch.equal(torch.rand(3, device=device), expected)


def test_seeds_of_the_device_module(device):
    torch.vgpu.manual_seed(11)
    assert torch.vgpu.initial_seed() == 11 == torch.vgpu.default_generators[0].initial_seed()
    assert torch.vgpu.seed() == torch.initial_seed() != 11
    states = torch.vgpu.get_rng_state_all()
    first = torch.rand(2, device=device)
    torch.vgpu.set_rng_state_all(states)
    assert torch.equal(torch.rand(2, device=device), first)
