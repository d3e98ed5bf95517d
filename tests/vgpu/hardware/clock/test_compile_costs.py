"""How long compiling takes."""

from gapless.vgpu.hardware.clock.compile_costs import TRITON_NS, call_ns, compile_ns


def test_more_takes_longer():
    least = compile_ns(1, 0, 1, cores=8)
    assert least < compile_ns(2, 0, 1, cores=8) < compile_ns(1, 1, 1, cores=8)
    assert compile_ns(10, 10, 1, cores=8, backward=True) < compile_ns(10, 10, 1, cores=8)


def test_kernels_are_compiled_side_by_side():
    none = compile_ns(8, 0, 0, cores=8)
    assert compile_ns(8, 0, 1, cores=8) - none == compile_ns(8, 0, 8, cores=8) - none == TRITON_NS
    assert compile_ns(8, 0, 16, cores=8) - none == 2 * TRITON_NS
    assert compile_ns(8, 0, 3, cores=1) - none == 3 * TRITON_NS


def test_a_call_takes_longer_with_more_inputs_and_in_training():
    assert call_ns(1, trains=False) < call_ns(10, trains=False) < call_ns(10, trains=True)
