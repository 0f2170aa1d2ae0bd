"""scan, cond, while_loop, fori_loop, switch on Arrays, eager and compiled."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import DTypeMismatch, IndexOutOfBounds, InvalidArgument


def values(x: object) -> list[object]:
    return np.asarray(x).tolist()


def step(carry: xp.Array, x: xp.Array) -> tuple[xp.Array, xp.Array]:
    return carry + x, carry * x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("compiled", [False, True])
def test_scan(dtype: str, compiled: bool) -> None:
    def f(x: xp.Array) -> object:
        return xp.scan(step, xp.asarray(0.0, dtype=x.dtype), x)

    x = xp.asarray([1.0, 2.0, 3.0], dtype=getattr(xp, dtype))
    last, ys = (xp.jit(f) if compiled else f)(x)
    assert last.dtype == ys.dtype == dtype
    assert float(last) == 6.0
    assert values(ys) == [0.0, 2.0, 9.0]


def test_scan_options_trees_and_numbers() -> None:
    last, ys = xp.scan(lambda c, _: (c * 2.0, c), 1.0, length=3)
    assert float(last) == 8.0
    assert values(ys) == [1.0, 2.0, 4.0]
    last, _ = xp.scan(lambda c, x: (c + x["a"] * x["b"], None), xp.asarray(0.0), {"a": xp.ones(2), "b": xp.ones(2)})
    assert float(last) == 2.0
    last, ys = xp.scan(step, xp.asarray(0.0), xp.asarray([1.0, 2.0, 3.0]), reverse=True, unroll=2)
    assert values(ys) == [5.0, 6.0, 0.0]


def test_a_carry_is_written_in_place_inside() -> None:
    def body(carry: xp.Array, i: xp.Array) -> tuple[xp.Array, xp.Array]:
        carry[i] = 1.0
        carry *= 2.0
        return carry, xp.sum(carry)

    start = xp.zeros(3)
    last, sums = xp.scan(body, start, xp.asarray([0, 1, 2]))
    assert values(last) == [8.0, 4.0, 2.0]
    assert values(sums) == [2.0, 6.0, 14.0]
    assert values(start) == [0.0, 0.0, 0.0]


def test_eager_loops_trace_once_and_read_captured_arrays_anew() -> None:
    traces = [0]
    weight = xp.asarray(1.0)

    def body(carry: xp.Array, x: xp.Array) -> tuple[xp.Array, None]:
        traces[0] += 1
        return carry + x * weight, None

    x = xp.asarray([1.0, 2.0])
    assert float(xp.scan(body, xp.asarray(0.0), x)[0]) == 3.0
    first = traces[0]
    weight[...] = 10.0
    assert float(xp.scan(body, xp.asarray(0.0), x)[0]) == 30.0
    assert traces[0] == first


def test_while_and_fori() -> None:
    assert float(xp.while_loop(lambda c: c < 10.0, lambda c: c * 2.0, xp.asarray(1.0))) == 16.0
    assert float(xp.fori_loop(0, 5, lambda i, c: c + i, xp.asarray(0.0))) == 10.0
    assert float(xp.fori_loop(xp.asarray(1), 4, lambda i, c: c * i, xp.asarray(1.0))) == 6.0
    gradient = xp.grad(lambda x: xp.fori_loop(0, 3, lambda i, c: c * x, xp.asarray(1.0)))(xp.asarray(2.0))
    assert float(gradient) == 12.0
    assert float(xp.jit(lambda n: xp.fori_loop(0, n, lambda i, c: c + 1.0, xp.asarray(0.0)))(4)) == 4.0


@pytest.mark.parametrize("compiled", [False, True])
def test_cond_and_switch(compiled: bool) -> None:
    def f(x: xp.Array, i: xp.Array) -> tuple[xp.Array, xp.Array]:
        first = xp.cond(xp.sum(x) > 0, lambda v: v * 2.0, lambda v: v - 1.0, x)
        return first, xp.switch(i, [lambda v: v, lambda v: v + 1.0], x)

    run = xp.jit(f) if compiled else f
    first, second = run(xp.asarray([1.0]), xp.asarray(1))
    assert values(first) == values(second) == [2.0]
    first, second = run(xp.asarray([-1.0]), xp.asarray(0))
    assert values(first) == [-2.0]
    assert values(second) == [-1.0]
    assert values(xp.cond(True, lambda: xp.ones(1), lambda: xp.zeros(1))) == [1.0]


def test_a_branch_may_write_to_its_operands() -> None:
    def negate(v: xp.Array) -> xp.Array:
        v[0] = -v[0]
        return v

    x = xp.asarray([1.0])
    assert values(xp.cond(True, negate, lambda v: v, x)) == [-1.0]
    assert values(x) == [1.0]


def test_gradients_go_through() -> None:
    x = xp.asarray([2.0, 3.0])
    product = xp.grad(lambda v: xp.scan(lambda c, t: (c * t, None), xp.asarray(1.0), v)[0])
    assert values(product(x)) == [3.0, 2.0]
    chosen = xp.grad(lambda v: xp.sum(xp.cond(v[0] > 0, lambda t: t * t, lambda t: t, v)))
    assert values(chosen(x)) == [4.0, 6.0]


def test_carries_and_branches_that_do_not_match() -> None:
    x = xp.asarray([1.0, 2.0])
    with pytest.raises(DTypeMismatch, match=r"(?s)scan: argument init: .*astype"):
        xp.scan(step, xp.asarray(0), x)
    with pytest.raises(DTypeMismatch, match="while_loop: argument init_val"):
        xp.while_loop(lambda c: c < 10, lambda c: c * 2.0, xp.asarray(1))
    with pytest.raises(DTypeMismatch, match="cond: argument true_fun and false_fun"):
        xp.cond(True, lambda v: v, xp.sum, x)
    with pytest.raises(InvalidArgument, match=r"scan: argument f: .*pair"):
        xp.scan(lambda c, v: c, xp.asarray(0.0), x)
    with pytest.raises(InvalidArgument, match="wanted a function"):
        xp.cond(True, 1, 2, x)
    with pytest.raises(IndexOutOfBounds, match="switch: argument index: got 2, wanted 0 to 1"):
        xp.switch(2, [xp.sum, xp.sum], x)


def test_a_body_and_what_it_captures_are_not_kept_alive() -> None:
    def run() -> weakref.ref[object]:
        big = xp.ones(1000)
        result = xp.cond(True, lambda: xp.sum(big), lambda: xp.sum(big) * 2.0)
        assert float(result) == 1000.0
        return weakref.ref(big)

    held = run()
    gc.collect()
    assert held() is None
