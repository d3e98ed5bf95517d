"""Storages of the device: what a program can ask of them and do with them, as on CUDA."""

import itertools

import pytest
import torch

from gapless import vgpu


def taken():
    return torch.vgpu.memory_allocated()


def test_what_a_storage_is(device):
    x = torch.arange(6.0, device=device)
    storage = x.untyped_storage()
    assert isinstance(storage, torch.UntypedStorage) and torch.is_storage(storage)
    assert (storage.device, storage.nbytes(), storage.size(), len(storage)) == (device, 24, 24, 24)
    assert (storage.element_size(), storage.resizable(), storage.is_shared(), storage.is_pinned()) == (1, True, True, False)
    assert storage.tolist() == torch.arange(6.0).untyped_storage().tolist()
    assert storage[7] == storage.tolist()[7]
    assert x._typed_storage()._size() == 6
    assert x[2:].untyped_storage()._cdata == storage._cdata != x.clone().untyped_storage()._cdata
    assert repr(storage).endswith("[torch.storage.UntypedStorage(device=vgpu:0) of size 24]")


def test_addresses(device):
    tensors = [torch.ones(100, device=device) for _ in range(4)]
    vgpu.enable("a100")  # another card's memory: still no two alike
    tensors += [torch.ones(100, device=device) for _ in range(4)]
    spans = sorted((t.data_ptr(), t.data_ptr() + t.untyped_storage().nbytes()) for t in tensors)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    x = tensors[0]
    assert x[3:].data_ptr() == x.data_ptr() + 12 and x[3:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert x.data_ptr() % 512 == 0
    assert torch.empty(0, device=device).data_ptr() == torch.empty(0, device=device).untyped_storage().data_ptr() == 0


def test_memory_is_taken_away_and_given_back(device):
    x = torch.arange(1000.0, device=device)
    view, before = x.view(10, 100), taken()
    x.untyped_storage().resize_(0)
    assert taken() == before - 4096
    assert x.shape == (1000,) and x.data_ptr() == view.data_ptr() == 0
    x.untyped_storage().resize_(4000)
    assert taken() == before
    assert x.data_ptr() == view.data_ptr() != 0
    x.copy_(torch.ones(1000))
    assert view.sum().item() == 1000


def test_what_fits_is_kept(device):
    x = torch.arange(4.0, device=device)
    x.untyped_storage().resize_(8)
    x.untyped_storage().resize_(4000)
    assert x[:2].tolist() == [0, 1]


def test_a_tensor_that_grows_takes_its_views_along(device):
    x = torch.arange(4.0, device=device)
    view = x[1:3]
    before = taken()
    x.resize_(1000)
    assert taken() == before - 512 + 4096
    x[1] = 7
    assert view.tolist() == [7, 2] and view.data_ptr() == x.data_ptr() + 4


def test_more_than_the_card_has(device):
    x = torch.ones(4, device=device)
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        x.untyped_storage().resize_(10**15)
    assert x.tolist() == [1, 1, 1, 1]


def test_without_values(device):
    with vgpu.shape_only():
        x = torch.ones(1000, device=device)
        before = taken()
        x.untyped_storage().resize_(0)
        assert taken() == before - 4096
        x.untyped_storage().resize_(4000)
        assert taken() == before and (x + 1).shape == (1000,)


def test_made_on_the_device(device):
    storage = torch.UntypedStorage([1, 2, 3], device="vgpu:0")
    assert storage.tolist() == [1, 2, 3] and storage.clone().tolist() == [1, 2, 3]
    assert torch.UntypedStorage(8, device=device).nbytes() == torch.TypedStorage(2, dtype=torch.float32, device=device).nbytes() == 8
    storage[1] = 9
    assert storage.cpu().tolist() == [1, 9, 3] and storage.fill_(4).tolist() == [4, 4, 4]
    with pytest.raises(IndexError):
        storage[3]


def test_copies_between_devices(device):
    host, here = torch.UntypedStorage([1, 2, 3, 4]), torch.UntypedStorage(4, device=device)
    assert here.copy_(host).tolist() == [1, 2, 3, 4]
    assert torch.UntypedStorage(4).copy_(here).tolist() == [1, 2, 3, 4]
    assert host.to(device=device).to(device="cpu").tolist() == [1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="size does not match"):
        here.copy_(torch.UntypedStorage(3))


def test_set_(device):
    storage = torch.arange(6.0, device=device).untyped_storage()
    x = torch.empty(0, device=device).set_(storage, 1, (2, 2), (2, 1))
    assert x.tolist() == [[1, 2], [3, 4]]
    x.zero_()
    y = torch.empty(0, device=device).set_(storage)
    assert y.tolist() == [0, 0, 0, 0, 0, 5]
    y.set_(torch.ones(2, device=device))
    assert y.tolist() == [1, 1]
    assert torch.empty(0, device=device).set_(storage, 0, (10,)).shape == (10,) and storage.nbytes() == 40
    for target, source in ((torch.empty(0), storage), (torch.empty(0, device=device), torch.UntypedStorage(8))):
        with pytest.raises(RuntimeError, match="different device"):
            target.set_(source)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_tensor_is_made_of_a_storage(device):
    x = torch.arange(6.0, device=device)
    for place in (device, "cpu"):
        made = torch.tensor(x[2:].storage(), device=place)
        assert made.device == torch.device(place) and made.tolist() == x.tolist()
        assert torch.as_tensor(x.untyped_storage(), dtype=torch.float32, device=place).tolist() == x.tolist()
    torch.tensor(x.untyped_storage(), dtype=torch.float32, device=device).zero_()  # the same memory, as on the CPU
    assert x.tolist() == [0] * 6
    assert torch.tensor(x[:0].clone().untyped_storage(), dtype=torch.float32, device=device).shape == (0,)
    with pytest.raises(RuntimeError, match="Expected a Storage of type Double"):
        torch.tensor(x.storage(), dtype=torch.float64, device=device)


def test_what_only_the_hosts_memory_has(device):
    storage = torch.ones(2, device=device).untyped_storage()
    for name in ("_share_fd_cpu_", "_share_filename_cpu_", "_share_cuda_"):
        with pytest.raises(NotImplementedError, match="not there"):
            getattr(storage, name)()
    assert storage.share_memory_() is storage
    with pytest.raises(TypeError):
        storage.pin_memory()
