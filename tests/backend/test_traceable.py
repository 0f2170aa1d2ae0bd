"""The call that an operation would make, for those who make it later."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import CpuBackend, NumpyBackend, Quantized
from rtx_jax.core.recorder import Recording
from rtx_jax.quant import PerChannel, QuantScheme

B = CpuBackend()
N = NumpyBackend()
Q = Quantized(CpuBackend(), QuantScheme("int8", PerChannel(0)))


def test_the_same_operation_has_the_same_function() -> None:
    x, y = B.ones((2, 3)), B.ones((3, 2))
    assert B._traceable("matmul", (x, y), ("highest",))[0] is B._traceable("matmul", (y, x), ("highest",))[0]
    assert B._traceable("sum_dim", (x,), (0,))[0] is not B._traceable("sum_dim", (x,), (1,))[0]
    assert N._traceable("sum_dim", (N.ones((2,)),), (0,))[0] is N._traceable("sum_dim", (N.ones((3,)),), (0,))[0]


def test_scalars_of_the_host_are_operands() -> None:
    x = B.ones((4,))
    low, high = B._traceable("clamp", (x,), (0.25, 0.5)), B._traceable("clamp", (x,), (0.25, 0.75))
    assert low[0] is high[0]
    assert len(low[2]) == 3
    np.testing.assert_array_equal(low[0](*low[2]), np.full(4, 0.5, np.float32))


def test_zeros_of_either_sign_are_two_functions_of_the_reference() -> None:
    made = [N._traceable("full", (), ((1,), v, np.dtype(np.float32), N.default_device())) for v in (0.0, -0.0)]
    assert [bool(np.signbit(fn(*operands)[0])) for fn, _, operands in made] == [False, True]


def test_absent_operands_at_the_end_are_left_out() -> None:
    fn, wide, operands = B._traceable("layer_norm", (B.ones((2, 4)), None, None), (1e-5,))
    assert len(operands) == 1
    assert not wide
    assert fn(*operands).shape == (2, 4)


def test_64_bit_types_are_told() -> None:
    wide = B.from_data(np.ones(2), (2,))
    assert B._traceable("add", (wide, wide), ())[1]
    assert B._traceable("cast", (B.ones((2,)),), (np.dtype(np.float64),))[1]
    assert not B._traceable("add", (B.ones((2,)), B.ones((2,))), ())[1]


def test_arrays_are_read() -> None:
    fn, _, operands = B._traceable("neg", (xp.asarray(np.float32([1, 2])),), ())
    assert all(isinstance(x, jax.Array) for x in operands)
    np.testing.assert_array_equal(fn(*operands), [-1.0, -2.0])


@pytest.mark.parametrize("backend", [B, N, Q], ids=lambda b: b.name())
def test_a_recording_of_calls_gives_what_the_calls_give(backend: CpuBackend) -> None:
    x = backend.from_data(np.float32([[1, -2, 3], [4, 5, -6]]), (2, 3))
    recording = Recording()

    def record(operation: str, operands: tuple[object, ...], params: tuple[object, ...] = ()) -> int:
        fn, wide, found = backend._traceable(operation, operands, params)
        return recording.add(fn, wide, tuple(None if o is None else recording.leaf(o) for o in found))

    record("relu", (x,))
    record("index_select", (x, np.array([1, 0])), ("error",))
    results = recording.program()(recording.leaves)
    np.testing.assert_array_equal(np.asarray(results[0]), [[1, 0, 3], [4, 5, 0]])
    np.testing.assert_array_equal(np.asarray(results[1]), [[4, 5, -6], [1, -2, 3]])


def test_quantized_operands_are_trees() -> None:
    weight = Q.quantize(Q.from_data(np.float32([[1, -2], [0.5, 0.25]]), (2, 2)))
    x = Q.ones((1, 2))
    fn, wide, operands = Q._traceable("linear", (x, weight, None), ("highest",))
    assert fn is Q._traceable("linear", (x, weight, None), ("highest",))[0]
    np.testing.assert_array_equal(jax.jit(fn)(*operands), np.asarray(Q.linear(x, weight)))
    plain = Q._traceable("neg", (x,), ())
    assert plain[0] is B._traceable("neg", (x,), ())[0]
