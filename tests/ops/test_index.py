"""Rows by index: values, accumulation in float32, indices out of range, the adjoint identity."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from rtx_jax.ops import index as _index
from tests.ops.checking import DTYPES, array, assert_ulp, under_jit

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def add_rows(x: np.ndarray, indices: np.ndarray, rows: int) -> np.ndarray:
    out = np.zeros((rows, *x.shape[1:]))
    np.add.at(out, indices, x)
    return out


@pytest.mark.parametrize("index_dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_select_and_add(index_dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((5, 2, 3))
    where = np.array([4, 0, 4, 1])
    indices = xp.asarray(where, dtype=getattr(xp, index_dtype))
    np.testing.assert_array_equal(np.asarray(nn.index_select(array(x), indices)), x[where])
    got = nn.index_add(array(x[:4]), indices, 6)
    assert_ulp(got, add_rows(x[:4], where, 6), 1, F64, least=1.0)
    assert got.shape == (6, 2, 3)


def test_under_jit_and_vmap() -> None:
    x = np.random.default_rng(1).standard_normal((3, 4, 2)).astype(np.float32)
    where = np.array([[0, 3, 3], [1, 1, 1], [2, 0, 2]], np.int32)
    got = xp.jit(xp.vmap(nn.index_select))(xp.asarray(x), xp.asarray(where))
    np.testing.assert_array_equal(np.asarray(got), np.stack([a[i] for a, i in zip(x, where, strict=True)]))
    added = xp.jit(xp.vmap(lambda x, i: nn.index_add(x, i, 4)))(xp.asarray(x[:, :3]), xp.asarray(where))
    want = np.stack([add_rows(a, i, 4) for a, i in zip(x[:, :3], where, strict=True)])
    np.testing.assert_allclose(np.asarray(added), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_are_formed_in_float32(dtype: np.dtype) -> None:
    ones, zeros = xp.ones((1000, 1), dtype=dtype), xp.zeros((1000,), dtype=xp.int32)
    for deterministic in (None, True):
        got = nn.index_add(ones, zeros, 2, deterministic=deterministic)
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.asarray(got).astype(np.float64), [[1000], [0]])
    table = xp.ones((2, 1), dtype=dtype)
    for fn in (lambda t: nn.index_select(t, zeros), lambda t: nn.embedding(zeros, t)):
        slope = xp.grad(lambda t: xp.sum(fn(t), dtype=xp.float32))(table)  # noqa: B023
        assert slope.dtype == dtype
        np.testing.assert_array_equal(np.asarray(slope).astype(np.float64), [[1000], [0]])


def test_adding_is_the_adjoint_of_selecting() -> None:
    rng = np.random.default_rng(2)
    x, g, where = rng.standard_normal((4, 3)), rng.standard_normal((6, 3)), xp.asarray([0, 3, 3, 1, 0, 0])
    selected = np.sum(np.asarray(nn.index_select(array(x), where)) * g)
    added = np.sum(x * np.asarray(nn.index_add(array(g), where, 4)))
    assert selected == pytest.approx(added, rel=1e-14)
    slope = xp.grad(lambda x: xp.sum(nn.index_select(x, where) * array(g)))(array(x))
    np.testing.assert_allclose(np.asarray(slope), add_rows(g, np.asarray(where), 4), rtol=1e-14)
    slope = xp.grad(lambda g: xp.sum(nn.index_add(g, where, 4) * array(x)))(array(g))
    np.testing.assert_array_equal(np.asarray(slope), x[np.asarray(where)])


def test_the_order_of_a_device_that_adds_in_parallel() -> None:
    # What runs there with deterministic=True, tried on the CPU: the same bits whatever order the rows come in.
    rng = np.random.default_rng(3)
    x = rng.standard_normal((257, 2)).astype(np.float32)
    where = rng.integers(0, 9, 257).astype(np.int32)
    run = jax.jit(functools.partial(_index._in_order, 12))
    got = np.asarray(run(where, x))
    np.testing.assert_allclose(got, add_rows(x.astype(np.float64), where, 12), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got[9:], 0)
    np.testing.assert_array_equal(got, np.asarray(run(where, x)))


def test_empty_and_whole() -> None:
    x = array(np.ones((3, 2)), F32)
    none = xp.zeros((0,), dtype=xp.int32)
    assert nn.index_select(x, none).shape == (0, 2)
    assert nn.index_add(xp.zeros((0, 2)), none, 0).shape == (0, 2)
    np.testing.assert_array_equal(np.asarray(nn.index_add(xp.zeros((0, 2)), none, 3)), np.zeros((3, 2)))
    np.testing.assert_array_equal(np.asarray(nn.index_select(xp.asarray([7, 8]), xp.asarray([1, 1]))), [8, 8])


@pytest.mark.parametrize("wrong", [-1, 3, 127])
def test_an_index_out_of_range_raises(wrong: int) -> None:
    x, indices = array(np.ones((3, 2)), F32), xp.asarray([0, wrong])
    for call in (
        lambda: nn.index_select(x, indices),
        lambda: nn.index_add(x[:2], indices, 3),
        lambda: nn.embedding(indices, x),
    ):
        with pytest.raises(errors.IndexOutOfBounds, match=f"index {wrong} for 3 rows") as caught:
            call()
        assert (caught.value.index, caught.value.size) == (wrong, 3)  # type: ignore[attr-defined]


def test_an_index_out_of_range_under_jit() -> None:
    x, indices = array([[1.0], [2.0], [3.0]], F32), xp.asarray([-1, 1, 3])
    nan = np.nan

    def every(x: xp.Array, indices: xp.Array) -> list[xp.Array]:
        return [
            *(nn.index_select(x, indices, mode=mode) for mode in ("error", "fill", "clip")),
            *(nn.index_add(x, indices, 3, mode=mode) for mode in ("error", "fill", "clip")),
            nn.embedding(indices, x),
            nn.index_select(xp.astype(x, xp.int32), indices),
        ]

    got = [np.asarray(out)[:, 0].tolist() for out in xp.jit(every)(x, indices)]
    least = float(np.iinfo(np.int32).min)
    want = [[nan, 2, nan], [nan, 2, nan], [1, 2, 3], [0, 2, 0], [0, 2, 0], [1, 2, 3], [nan, 2, nan], [least, 2, least]]
    np.testing.assert_array_equal(got, want)
    for mode, reported in (("error", True), ("fill", False), ("clip", False)):
        for fn in (
            lambda x, i: nn.index_select(x, i, mode=mode),  # noqa: B023
            lambda x, i: nn.index_add(x, i, 3, mode=mode),  # noqa: B023
            lambda x, i: nn.embedding(i, x, mode=mode),  # noqa: B023
        ):
            error, _ = xp.checked(fn)(x, indices)
            assert bool(error) is reported


def test_eager_modes() -> None:
    x, indices = array([[1.0], [2.0]], F32), xp.asarray([5, 1], dtype=xp.uint8)
    np.testing.assert_array_equal(np.asarray(nn.index_select(x, indices, mode="clip")), [[2], [2]])
    np.testing.assert_array_equal(np.asarray(nn.index_select(x, indices, mode="fill")), [[np.nan], [2]])
    np.testing.assert_array_equal(np.asarray(nn.index_add(x, indices, 2, mode="fill")), [[0], [2]])
    # What is left out does not count, NaN included.
    np.testing.assert_array_equal(
        np.asarray(nn.index_add(array([[np.nan], [1.0]]), indices, 2, mode="fill")), [[0], [1]]
    )


def test_a_wide_index_is_not_cut_off() -> None:
    x = array([[1.0], [2.0]], F32)
    got = under_jit(ops.index_select, x, xp.asarray([2**32 + 1, 1]))
    np.testing.assert_array_equal(got, [[np.nan], [2]])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nn.index_select(array(1.0), xp.asarray([0])), errors.InvalidDimension),
        (lambda: nn.index_select(array([1.0]), xp.asarray([0.0])), errors.UnsupportedDType),
        (lambda: nn.index_select(array([1.0]), xp.asarray([[0]])), errors.InvalidDimension),
        (lambda: nn.index_select(array([1.0]), xp.asarray([0]), mode="wrap"), errors.InvalidArgument),
        (lambda: nn.index_select(array([1.0]), xp.asarray([0]), mode="promise"), errors.InvalidArgument),
        (lambda: nn.index_add(array([1.0]), xp.asarray([0, 0]), 2), errors.ShapeMismatch),
        (lambda: nn.index_add(array([1.0]), xp.asarray([0]), -1), errors.InvalidArgument),
        (lambda: nn.index_add(array([1.0]), xp.asarray([0]), 0), errors.IndexOutOfBounds),
        (lambda: nn.embedding(xp.asarray([0.5]), array([[1.0]])), errors.UnsupportedDType),
        (lambda: nn.index_add(xp.asarray([True]), xp.asarray([0]), 1), errors.UnsupportedDType),
        (lambda: nn.embedding(xp.asarray([0]), array([1.0])), errors.InvalidDimension),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[errors.RtxError]) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("count", [600, 601, 997])
@pytest.mark.parametrize("mode", ["error", "fill", "clip"])
def test_adding_block_by_block(count: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As many values as a CPU adds in blocks, made smaller; 601 and 997 leave a rest.
    monkeypatch.setattr(_index, "_BLOCK", 64)
    r = np.random.default_rng(count)
    x = r.integers(-8, 8, (count, 5)).astype(np.float64)
    places = r.integers(-2, 30, count)
    want = np.zeros((28, 5))
    kept = np.ones(count, bool) if mode == "clip" else (places >= 0) & (places < 28)
    np.add.at(want, np.clip(places, 0, 27)[kept], x[kept])
    fn = functools.partial(ops.index_add, num_rows=28, mode=mode)
    bf16 = np.dtype("bfloat16")
    got = jax.jit(fn)(x.astype(bf16), places.astype(np.int32))
    np.testing.assert_array_equal(np.asarray(got), want.astype(bf16))
    grad = jax.jit(jax.grad(lambda v: (fn(v, places.astype(np.int32)) * np.arange(5, dtype=bf16)).sum()))(
        x.astype(bf16)
    )
    np.testing.assert_array_equal(np.asarray(grad).astype(np.float64), np.where(kept[:, None], np.arange(5.0), 0))
    rows = jax.jit(jax.vmap(fn))(np.stack([x, x]).astype(bf16), np.stack([places, places]).astype(np.int32))
    np.testing.assert_array_equal(np.asarray(rows), np.stack([want, want]).astype(bf16))
