"""The device in several processes: forked and spawned. (Training together: test_ddp.py.)"""

import multiprocessing
import os
import textwrap

import pytest
import torch

from gapless import vgpu

from ... import forked


def program(text, tmp_path, imports=forked.COURSE):
    """The output of a Python program in a file of its own, which a spawned process can import."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(text))
    done = forked.run(file, imports=imports)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- forks ------------------------------------------------------------------------------------------


USES = {"arithmetic": lambda x: x + 1, "the host": lambda x: x.cpu(), "a view": lambda x: x[0], "printing": repr,
        "in place": lambda x: x.add_(1), "backward": lambda x: x.requires_grad_().sum().backward(), "item": lambda x: x[0].item(),
        "a list": lambda x: torch.cat([torch.ones(2, device=x.device), x])}


def in_child(function):
    """What ``function`` returned in a forked process."""
    receive, send = multiprocessing.Pipe()
    pid = os.fork()
    if pid == 0:
        try:
            send.send(function())
        except BaseException as error:
            send.send(f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return receive.recv()


REFUSED = r"Cannot re-initialize vgpu in forked subprocess. To use vgpu with multiprocessing, you must use the 'spawn' start method"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("use", USES)
def test_a_tensor_of_the_parent_is_refused(use, device):
    x = torch.ones(2, device=device)
    found = in_child(lambda: str(USES[use](x)))
    assert found.startswith(f"RuntimeError: {REFUSED}"), found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("use", [lambda: torch.ones(3, device="vgpu:0"), vgpu.enable, lambda: torch.vgpu.synchronize(),
                                 lambda: torch.UntypedStorage(8, device="vgpu:0")])
def test_so_is_the_device(use, device):
    assert in_child(lambda: str(use())).startswith(f"RuntimeError: {REFUSED}")
    assert in_child(lambda: (torch.manual_seed(0), torch.ones(3).tolist())[1]) == [1, 1, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_who_only_prepares_may_fork_who_use_it(tmp_path):
    assert program("""
        import os
        import torch
        from gapless import vgpu
        from gapless.vgpu.process.forks import only_prepares

        device = vgpu.enable()
        only_prepares()
        for _ in range(2):
            if os.fork() == 0:
                print(torch.ones(2, device=device).tolist(), flush=True)
                if os.fork() == 0:
                    try:
                        torch.ones(2, device=device)
                    except RuntimeError as error:
                        print("refused", flush=True)
                else:
                    os.wait()
                os._exit(0)
            os.wait()
    """, tmp_path) == 2 * "[1.0, 1.0]\nrefused\n"


class Held(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]


def test_a_loaders_worker_refuses_the_parents_tensors(device):
    data = Held(torch.ones(4, device=device))
    loader = torch.utils.data.DataLoader(data, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match=REFUSED):
        next(iter(loader))


LOADER = """
    import sys
    import torch
    from torch.utils.data import DataLoader, Dataset
    from gapless import vgpu

    device = vgpu.enable()

    class Made(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return torch.ones(2, device=device) * i

    if __name__ == "__main__":
        for method in ("fork", "spawn"):
            try:
                batches = list(DataLoader(Made(), batch_size=2, num_workers=1, multiprocessing_context=method))
                print([(str(batch.device), batch.tolist()) for batch in batches])
            except RuntimeError as error:
                print(next(line for line in str(error).splitlines() if line.startswith("RuntimeError")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_loaders_worker_makes_tensors_of_the_device_where_it_is_spawned(tmp_path):
    forked, spawned = program(LOADER, tmp_path).splitlines()
    assert forked.startswith(f"RuntimeError: {REFUSED}")
    assert spawned == "[('vgpu:0', [[0.0, 0.0], [1.0, 1.0]]), ('vgpu:0', [[2.0, 2.0], [3.0, 3.0]])]"


# -- sending ----------------------------------------------------------------------------------------

SENT = """
    import torch
    import torch.multiprocessing as mp
    from gapless import vgpu

    def child(queue, back, enabled):
        if enabled:
            vgpu.enable()
        try:
            tensors = queue.get()
            storage = tensors.pop()
            back.put([(str(t.device), t.tolist(), t.requires_grad, isinstance(t, torch.nn.Parameter)) for t in tensors]
                     + [(str(storage.device), storage.nbytes())])
        except RuntimeError as error:
            back.put(str(error))

    if __name__ == "__main__":
        device = vgpu.enable()
        context = mp.get_context("spawn")
        for enabled in (True, False):
            queue, back = context.Queue(), context.Queue()
            process = context.Process(target=child, args=(queue, back, enabled))
            process.start()
            storage = torch.ones(2, device=device).untyped_storage() if enabled else torch.ones(2)
            queue.put([torch.arange(3, device=device), torch.nn.Parameter(torch.ones(1, device=device)), storage])
            print(back.get(timeout=60))
            process.join()
"""


GIVEN = """
    import torch
    import torch.multiprocessing as mp
    from gapless import vgpu

    device = vgpu.enable()

    def child(tensor, layer, back):
        back.put((str(tensor.device), tensor.tolist(), str(layer.weight.device), layer.weight.tolist()))

    if __name__ == "__main__":
        for method in ("spawn", "forkserver"):
            context = mp.get_context(method)
            back = context.Queue()
            layer = torch.nn.Linear(2, 1, bias=False).to(device)
            torch.nn.init.ones_(layer.weight)
            process = context.Process(target=child, args=(torch.arange(4, device=device).view(2, 2).t(), layer, back))
            process.start()
            process.join()
            print(process.exitcode, back.get(timeout=60))
"""


@pytest.mark.slow
def test_tensors_are_arguments_of_a_new_process(tmp_path):
    given = "0 ('vgpu:0', [[0, 2], [1, 3]], 'vgpu:0', [[1.0, 1.0]])"
    assert program(GIVEN, tmp_path).splitlines() == [given, given]


@pytest.mark.slow
def test_tensors_are_sent_by_value_to_a_process_that_has_the_device(tmp_path):
    received, refused = program(SENT, tmp_path).splitlines()
    assert received == "[('vgpu:0', [0, 1, 2], False, False), ('vgpu:0', [1.0], True, True), ('vgpu:0', 8)]"
    assert "came to a process without that device: call gapless.vgpu.enable() there first" in refused


# -- other backends ---------------------------------------------------------------------------------


def test_another_backend_in_the_process(tmp_path):
    out = program("""
        import torch
        torch.utils.rename_privateuse1_backend("other")
        from gapless import vgpu
        for _ in range(2):
            try:
                vgpu.enable()
            except RuntimeError as error:
                print(error)
    """, tmp_path, imports=forked.PYTORCH)
    assert out == 2 * "PyTorch allows one extra backend a process and 'other' is it: start a new process\n"


def test_another_backend_afterwards(tmp_path):
    out = program("""
        import torch
        from gapless import vgpu
        device = vgpu.enable()
        try:
            torch.utils.rename_privateuse1_backend("other")
        except RuntimeError as error:
            print("refused")
        print(torch.ones(2, device=device))
    """, tmp_path)
    assert out == "refused\ntensor([1., 1.], device='vgpu:0')\n"


# -- mixed devices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("use", [
    lambda x, y: x + y, lambda x, y: y + x, lambda x, y: x @ y, lambda x, y: torch.cat([x, y]), lambda x, y: x.add_(y),
    lambda x, y: y.add_(x), lambda x, y: torch.nn.functional.linear(x, y), lambda x, y: torch.stack([y, x]),
    lambda x, y: torch.add(x, x, out=y),
], ids=["add", "add to the CPU", "matmul", "cat", "in place", "in place on the CPU", "linear", "stack", "out"])
def test_mixed_devices(use, device):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device.*vgpu:0"):
        use(torch.ones(2, 2, device=device), torch.ones(2, 2))
