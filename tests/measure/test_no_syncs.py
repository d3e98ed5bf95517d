"""no_syncs on the virtual GPU, and the pytest plugin in a pytest of its own."""

import pytest
import torch

import gapless
from gapless import SyncError, no_syncs

pytest_plugins = ["pytester"]


@pytest.fixture
def x():
    return torch.arange(6.0).to(gapless.device("vgpu"))


def test_passes_what_does_not_wait(x):
    with no_syncs():
        y = torch.where(x > 2, 0.0, x)
        y[y > 1] = 1.0
    assert y.tolist() == [0, 1, 1, 0, 0, 0]


def test_raises_when_the_host_waits_with_operator_and_line(x):
    with pytest.raises(SyncError, match=r"aten::nonzero made the host wait for the device, at .*test_no_syncs\.py, line \d+") as caught:
        with no_syncs():
            x[x > 2]
    assert caught.value.op == "aten::nonzero" and "test_no_syncs.py" in caught.value.location


@pytest.mark.parametrize("wait", [
    lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: torch.ones(100_000).to(x.device), lambda x: torch.unique(x),
    lambda x: torch.vgpu.synchronize(), lambda x: bool(x[0] > 0), lambda x: print(x),
])
def test_raises_when_anything_waits(x, wait):
    with pytest.raises(SyncError):
        with no_syncs():
            wait(x)


def test_raises_when_the_backward_pass_waits(x):
    leaf = x.clone().requires_grad_()
    loss = leaf[leaf > 1].sum()
    with pytest.raises(SyncError, match="nonzero"):
        with no_syncs():
            loss.backward()


def test_leaves_no_trace_behind(x):
    for _ in range(2):
        with pytest.raises(SyncError), no_syncs(), no_syncs():
            x.sum().item()
    assert x.sum().item() == 15
    assert gapless.vgpu.timeline().wait_hooks == []


def test_decorates_a_function_that_may_be_called_again(x):
    @no_syncs()
    def step(read):
        return x.sum().item() if read else x.sum()

    assert step(False).device.type == "vgpu"
    with pytest.raises(SyncError):
        step(True)
    assert step(False).tolist() == 15


def in_a_project(pytester, source):
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider", "-W", "error",
                                         *([] if _installed() else ["-p", "gapless.pytest_plugin"]))


@pytest.mark.slow
def test_plugin_fails_a_marked_test_at_its_wait(pytester):
    result = in_a_project(pytester, """
        import pytest, torch

        @pytest.mark.no_syncs
        def test_good(vgpu):
            assert torch.ones(3, device=vgpu).sum().device == vgpu

        @pytest.mark.no_syncs
        def test_waits(vgpu):
            torch.ones(3, device=vgpu).sum().item()

        def test_unmarked_may_wait(vgpu):
            assert torch.ones(3, device=vgpu).sum().item() == 3

        @pytest.mark.no_syncs
        def test_wrong_otherwise(vgpu):
            assert False
    """)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["SyncError: aten::_local_scalar_dense made the host wait*line 9*",
                                 "*torch.ones(3, device=vgpu).sum().item()"])


@pytest.mark.slow
def test_the_readme_s_example_in_a_project_of_its_own(pytester):
    pytester.makepyfile(myproject="""
        import torch

        def make_step(device, reads=False):
            model = torch.nn.Linear(8, 8).to(device)
            optimizer = torch.optim.Adam(model.parameters())
            x = torch.randn(4, 8).to(device)

            def step():
                loss = model(x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return loss.item() if reads else loss

            return step
    """)
    result = in_a_project(pytester, """
        import gapless
        import pytest
        from myproject import make_step

        @pytest.mark.parametrize("reads", [False, True])
        def test_training_step_never_waits(vgpu, reads):
            step = make_step(vgpu, reads)
            step()
            with gapless.no_syncs():
                step()
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["SyncError: aten::_local_scalar_dense made the host wait*myproject.py, line 13, in step",
                                 "    return loss.item() if reads else loss", "Why: The program asks for a number*",
                                 "What to do: Add up on the GPU*"])
    assert "measure/no_syncs.py" not in result.stdout.str() and "Traceback" not in result.stdout.str()


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(point.value == "gapless.pytest_plugin" for point in entry_points(group="pytest11"))
