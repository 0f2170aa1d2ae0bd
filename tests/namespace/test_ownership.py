"""Every function on shared and on uniquely owned operands, eager and compiled: nobody's values change."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import rtx_jax as xp
from tests.namespace import calls

BY_NAME = {call.name: call for call in calls.CALLS}


def test_every_function_is_tried():
    tried = {call.name for call in calls.CALLS}
    assert calls.function_names(xp) - tried == calls.OTHERS


def check(got: object, want: object) -> None:
    for g, w in zip(calls.leaves(got), calls.leaves(want), strict=True):
        w = np.asarray(w)
        assert g.shape == w.shape
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-6 if g.dtype == xp.float32 else 1e-11, atol=1e-13)


def owned(operand: np.ndarray) -> xp.Array:
    """An Array that alone owns the output of a compiled call."""
    return xp.positive(xp.asarray(operand)) if operand.dtype != bool else xp.asarray(operand) | False


@pytest.mark.parametrize("name", BY_NAME)
def test_operands_keep_their_values(name):
    call = BY_NAME[name]
    want = call.want(*call.operands)
    alone = [owned(operand) for operand in call.operands]
    shared = [owned(operand) for operand in call.operands]
    kept = [x.jax for x in shared]
    first = call.run(xp, *alone)
    check(first, want)
    check(call.run(xp, *shared), want)
    # A write to the result reaches neither the operands nor the other outputs, and the other way round.
    outputs = calls.leaves(first)
    for output in outputs:
        if output.size:
            output[...] = xp.ones((), dtype=output.dtype)
    for x, y, array, operand in zip(alone, shared, kept, call.operands, strict=True):
        np.testing.assert_array_equal(np.asarray(x), operand)
        np.testing.assert_array_equal(np.asarray(y), operand)
        np.testing.assert_array_equal(np.asarray(array), operand)
    again = call.run(xp, *alone)
    for x in alone:
        x[...] = xp.ones((), dtype=x.dtype)
    check(again, want)


@pytest.mark.parametrize("name", [call.name for call in calls.CALLS if call.traceable])
def test_compiled_is_eager(name):
    call = BY_NAME[name]
    operands = [owned(operand) for operand in call.operands]
    got = xp.jit(lambda *a: call.run(xp, *a))(*operands)
    assert all(type(leaf) is xp.Array for leaf in calls.leaves(got))
    check(got, call.want(*call.operands))
    for x, operand in zip(operands, call.operands, strict=True):
        np.testing.assert_array_equal(np.asarray(x), operand)


@pytest.mark.parametrize("name", BY_NAME)
def test_results_own_their_buffers(name):
    """A fresh result is written in place: its buffer serves the second write of the same kind too."""
    call = BY_NAME[name]
    outputs = calls.leaves(call.run(xp, *[owned(operand) for operand in call.operands]))
    for x in outputs:
        if not x.size or x.dtype == xp.bool:
            continue
        one = xp.ones((), dtype=x.dtype)
        x += one  # an interned or host-made constant is copied by its first write
        before = x._data.unsafe_buffer_pointer()
        x += one
        assert x._data.unsafe_buffer_pointer() == before


@pytest.mark.parametrize("name", ["zeros_like", "reshape", "getitem", "add", "squeeze", "where"])
def test_fresh_results_are_owned_at_once(name):
    call = BY_NAME[name]
    x = call.run(xp, *[owned(operand) for operand in call.operands])
    if name == "zeros_like":  # a constant, shared by all who ask for it
        assert x._owned is not True
    else:
        assert x._owned is True


def test_plain_jax_sees_the_same_values():
    for name in ("add", "sum", "matmul", "reshape"):
        call = BY_NAME[name]
        operands = [owned(operand) for operand in call.operands]
        with jax.enable_x64(True):
            check(jax.jit(lambda *a, call=call: call.run(xp, *a))(*operands), call.want(*call.operands))
