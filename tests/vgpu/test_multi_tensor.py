"""Multi-tensor operators that leave their fast path."""

import torch

from gapless import vgpu


def test_copies_from_and_to_the_host(device, waits):
    targets, sources = [torch.zeros(2, 3, device=device), torch.zeros((), device=device)], [torch.ones(2, 3), torch.tensor(4.0)]
    with waits() as found:
        torch._foreach_copy_(targets, sources)
    assert len(found) == 2 and targets[0].tolist() == [[1.0] * 3] * 2 and targets[1].item() == 4
    back = [torch.zeros(2, 3), torch.zeros(())]
    with waits() as found:
        torch._foreach_copy_(back, targets)
    assert len(found) == 2 and torch.equal(back[0], sources[0]) and back[1] == 4


def test_copies_on_the_device_are_one_operator(device, waits):
    targets = [torch.zeros(3, device=device), torch.zeros(2, device=device)]
    with waits() as found:
        torch._foreach_copy_(targets, [torch.ones(3, device=device), torch.ones(2, device=device)])
    assert not found and targets[1].tolist() == [1, 1]


def test_numbers_of_their_own_have_a_kernel_each(device):
    """A list of tensors by a list of numbers on the device leaves the fast path; equal shapes keep it."""
    for shapes, kernels in (([(), ()], 2), ([(3,), (2,)], 1)):
        targets = [torch.ones(3, device=device), torch.ones(2, device=device)]
        others = [torch.full(shape, 2.0, device=device) for shape in shapes]
        before = vgpu.timeline().kernel_count
        torch._foreach_mul_(targets, others)
        sums = torch._foreach_add(targets, others, alpha=3)
        assert vgpu.timeline().kernel_count - before == 2 * kernels
        assert [each.tolist() for each in (*targets, *sums)] == [[2.0] * 3, [2.0] * 2, [8.0] * 3, [8.0] * 2]
