"""Handles that can be given up."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import CpuBackend, TensorHandle
from rtx_jax.errors import InvalidArgument, UseAfterMove

B = CpuBackend()


def handle(*values: float) -> TensorHandle:
    # The memory of a result; that of host data stays NumPy's.
    return TensorHandle(B.neg(B.neg(B.from_data(values, (len(values),)))))


def test_a_handle_is_a_tensor() -> None:
    x = handle(1.0, -2.0)
    assert (x.shape, x.dtype, x.ndim) == ((2,), np.float32, 1) and x.is_alive
    for _ in range(2):  # what is not given up stays
        assert B.to_data(B.add(x, B.ones((2,)))).tolist() == [2.0, -1.0]
        assert B.to_data(B.clamp(x, -1.0, 1.0)).tolist() == [1.0, -1.0]
        assert B.to_data(B.softmax(x, 0)).sum() == pytest.approx(1)
    assert "float32[2]" in repr(x)
    assert len({handle(1.0).id for _ in range(3)}) == 3
    assert B.to_data(TensorHandle(xp.asarray([3.0]))).tolist() == [3.0]


def test_given_up_memory_is_used() -> None:
    x, one = handle(1.0, 2.0), B.ones((2,))
    where = x.jax.unsafe_buffer_pointer()
    y = B.add(x.take(), one)
    assert y.unsafe_buffer_pointer() == where and B.to_data(y).tolist() == [2.0, 3.0]
    assert not x.is_alive and "given up" in repr(x) and not one.is_deleted()
    for use in (lambda: B.add(x, one), lambda: x.take(), lambda: x.clone(), lambda: x.jax, lambda: x.shape):
        with pytest.raises(UseAfterMove, match="take"):
            use()


def test_what_a_result_cannot_use_is_let_go() -> None:
    x = handle(1.0, 2.0)
    assert B.to_data(B.sum(x.take())).tolist() == [3.0]
    assert not x.is_alive


def test_a_taken_handle_serves_once() -> None:
    x = handle(1.0)
    taken = x.take()
    B.exp(taken)
    with pytest.raises(UseAfterMove):
        B.exp(taken)


def test_a_clone_keeps_its_value() -> None:
    x = handle(1.0, 2.0)
    twin = x.clone()
    assert B.to_data(B.neg(x.take())).tolist() == [-1.0, -2.0]
    assert twin.is_alive and B.to_data(twin).tolist() == [1.0, 2.0]
    where = twin.jax.unsafe_buffer_pointer()
    assert B.neg(twin.take()).unsafe_buffer_pointer() == where  # alone by now


def test_under_jit_nothing_is_donated() -> None:
    x = B.ones((2,))
    y = jax.jit(lambda x: B.add(TensorHandle(x).take(), x))(x)
    assert B.to_data(y).tolist() == [2.0, 2.0] and not x.is_deleted()


def test_no_tensor() -> None:
    with pytest.raises(InvalidArgument):
        TensorHandle([1.0])
