"""What once ended the process, and its like: each gives a result or an error of Python's. Those of one test run one after the other
in a process of their own, whose exit status is looked at."""

import textwrap

import pytest

from .. import forked

BEFORE = """
    import copy, gc, io, os, threading, warnings
    import numpy as np
    import torch
    from torch import nn
    from gapless import vgpu

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    device = vgpu.enable()
    x = torch.arange(6.0, device=device).view(2, 3)
    memory = x.untyped_storage()

    def tried(case):
        try:
            case()
        except Exception as error:  # of Python's: the process lives
            assert not isinstance(error, (RecursionError, MemoryError)), error
"""

CASES = {
    "storages": """
        C, host = torch._C.StorageBase, torch.ones(6).untyped_storage()
        for case in (lambda: torch.UntypedStorage(8, device="vgpu:0").clone(), lambda: memory.clone().tolist(), lambda: x.storage().clone(),
                     lambda: torch.UntypedStorage._new_shared(8, device=device), lambda: memory.__delitem__(0), lambda: memory[100],
                     lambda: memory[2:9].tolist(), lambda: memory.resize_(-1), lambda: memory._byteswap(4), lambda: C.resize_(memory, 99),
                     lambda: C.copy_(memory, host), lambda: C.copy_(host, memory), lambda: C.fill_(memory, 1), lambda: C.data_ptr(memory),
                     lambda: C.__getitem__(memory, 0), lambda: C.__setitem__(memory, 0, 1), lambda: C._byteswap(memory, 4),
                     lambda: torch.empty(0).set_(memory), lambda: torch.TypedStorage(4, dtype=torch.float32, device=device)[0],
                     lambda: copy.deepcopy(memory), lambda: memory.float(), lambda: torch.FloatStorage(4).to(device=device),
                     lambda: torch._C.TensorBase.untyped_storage(x).clone(), lambda: torch._C.TensorBase.untyped_storage(x).resize_(9),
                     lambda: torch._C.TensorBase.untyped_storage(x)[0], lambda: torch.empty(0).set_(torch._C.TensorBase.untyped_storage(x))):
            tried(case)
    """,
    "freed memory": """
        memory.resize_(0)
        for case in (lambda: x + 1, lambda: x.cpu(), lambda: x.fill_(3), lambda: print(x), lambda: x.tolist(), lambda: x.sum().item(),
                     lambda: nn.Linear(3, 2).to(device)(x), lambda: torch._foreach_mul_([x], 2), lambda: torch.save(x, io.BytesIO()),
                     lambda: copy.deepcopy(x), lambda: x.T @ x, lambda: x[x > 0], lambda: x.view(6)[torch.ones(6, device=device) > 0],
                     lambda: torch.stack([x, x]), lambda: nn.functional.scaled_dot_product_attention(x, x, x), lambda: memory.tolist(),
                     lambda: nn.LSTM(3, 4).to(device)(x), lambda: torch.nn.functional.layer_norm(x, (3,))):
            tried(case)
    """,
    "other libraries' memory": """
        for case in (lambda: torch.from_dlpack(x), lambda: torch._C._to_dlpack(x), lambda: torch.Tensor.__dlpack__(x), x.__dlpack__,
                     x.__dlpack_device__, lambda: torch.utils.dlpack.to_dlpack(x), lambda: x.__cuda_array_interface__, x.numpy,
                     lambda: torch._C.TensorBase.numpy(x), lambda: np.asarray(x), lambda: memoryview(x), lambda: np.from_dlpack(x),
                     lambda: torch.from_numpy(x), lambda: torch.FloatTensor(x), lambda: torch._C.TensorBase.tolist(x),
                     lambda: torch.frombuffer(x), lambda: torch.ones(2, 3).map_(x, lambda a, b: a)):
            tried(case)
    """,
    "scripts and traces": """
        script, file = torch.jit.script(nn.Linear(3, 2)), io.BytesIO()
        torch.jit.save(script, file)
        file.seek(0)
        for case in (lambda: torch.jit.trace(nn.Linear(3, 2).to(device), x)(x), lambda: torch.jit.load(file, map_location=device)(x),
                     lambda: torch.jit.freeze(script.eval().to(device))(x), lambda: torch.jit.save(script.to(device), io.BytesIO()),
                     lambda: torch.export.export(nn.Linear(3, 2).to(device), (x,)), lambda: torch.jit.wait(torch.jit.fork(torch.sin, x))):
            tried(case)
    """,
    "quantized": """
        for case in (lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), lambda: torch.empty(3, dtype=torch.quint8, device=device),
                     lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8).to(device),
                     lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 2)).to(device))(x)):
            tried(case)
    """,
    "hooks that raise or return nonsense": """
        for hook in (lambda g: 1 / 0, lambda g: g.cpu(), lambda g: 5):
            y = x.clone().requires_grad_()
            y.register_hook(hook)
            tried(lambda: (y * 2).sum().backward())

        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a.cpu()

            @staticmethod
            def backward(ctx, gradient):
                raise KeyError("broken")

        tried(lambda: Broken.apply(x.clone().requires_grad_()).sum().backward())
    """,
    "threads, and an end with everything alive": """
        def work(times):
            for _ in range(times):
                a = torch.randn(8, 8, device=device, requires_grad=True)
                (a @ a).sum().backward()
                torch.save(copy.deepcopy(a), io.BytesIO())

        threads = [threading.Thread(target=work, args=(20,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stream, event = torch.vgpu.Stream(), torch.vgpu.Event(enable_timing=True)
        event.record(stream)
        kept = [x, x.clone().requires_grad_().exp(), stream, event, memory]
    """,
    "cycles and forks": """
        y = torch.ones(3, device=device, requires_grad=True)
        y.me, z = [y], y * 2
        z.register_hook(lambda g, z=z: None)
        del y, z
        gc.collect()
        if hasattr(os, "fork"):
            child = os.fork()
            if child == 0:
                tried(lambda: x + 1)
                del x, memory
                gc.collect()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_the_process_lives(name, tmp_path):
    file = tmp_path / "cases.py"
    file.write_text(textwrap.dedent(BEFORE) + textwrap.dedent(CASES[name]))
    done = forked.run(file)
    assert done.returncode == 0, done.stderr
