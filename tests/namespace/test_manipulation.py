from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

X = np.arange(24.0).reshape(2, 3, 4)


def check(x: Any, expected: Any) -> None:
    want = np.asarray(expected)
    assert type(x) is xp.Array
    assert x.dtype == want.dtype and x.shape == want.shape
    np.testing.assert_array_equal(np.asarray(x), want)


def compilations(run: Any) -> int:
    """Number of XLA compilations while `run` runs."""
    count = 0

    def listen(event: str, *args: object, **kwargs: object) -> None:
        nonlocal count
        count += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return count


class TestBroadcast:
    def test_arrays(self) -> None:
        a, b = np.ones((3, 1), np.int8), np.arange(4.0)
        out = xp.broadcast_arrays(xp.asarray(a), xp.asarray(b))
        assert type(out) is tuple
        check(out[0], np.ones((3, 4), np.int8))
        check(out[1], np.broadcast_to(b, (3, 4)))
        assert xp.broadcast_arrays() == ()
        check(xp.broadcast_arrays(xp.asarray(b))[0], b)

    @pytest.mark.parametrize(
        ("shapes", "want"),
        [
            ((), ()),
            (((2, 1), (3,)), (2, 3)),
            (((),), ()),
            (((0,), (1,)), (0,)),
            (((5, 1, 4), (3, 1), ()), (5, 3, 4)),
            (((None, 1), (4,)), (None, 4)),
            (((None,), (1,)), (None,)),
            (((2,), (None,)), (None,)),
        ],
    )
    def test_shapes(self, shapes: Any, want: Any) -> None:
        assert xp.broadcast_shapes(*shapes) == want

    def test_shapes_that_do_not_fit(self) -> None:
        with pytest.raises(errors.BroadcastError) as caught:
            xp.broadcast_shapes((4, 1), (2, 3), (5, 2))
        assert {caught.value.lhs, caught.value.rhs} == {(2, 3), (5, 2)} or caught.value.lhs == (4, 1)
        for shapes in (((2,), (0,)), ((2, 3), (2,))):
            with pytest.raises(errors.BroadcastError):
                xp.broadcast_shapes(*shapes)
        for shape in ((-1,), (2.5,), "ab"):
            with pytest.raises(errors.InvalidArgument):
                xp.broadcast_shapes(shape)

    def test_to(self) -> None:
        check(xp.broadcast_to(xp.asarray(X[:, :1]), (5, 2, 3, 4)), np.broadcast_to(X[:, :1], (5, 2, 3, 4)))
        y = xp.broadcast_to(xp.zeros(()), (2,))
        y[0] = 1.0
        check(y, [1.0, 0.0])
        x = xp.ones(2)
        same = xp.broadcast_to(x, (2,))
        same[0] = 5.0
        check(x, [1.0, 1.0])

    @pytest.mark.parametrize("shape", [(2,), (3, 2), (), (2, 3, 5), (0, 3)])
    def test_to_what_does_not_fit(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(errors.BroadcastError, match="broadcast_to"):
            xp.broadcast_to(xp.ones((2, 3)), shape)
        with pytest.raises(errors.BroadcastError):
            xp.broadcast_arrays(xp.ones((2, 3)), xp.ones((4,)))


class TestJoin:
    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
    def test_concat(self, axis: int) -> None:
        check(xp.concat([xp.asarray(X), xp.asarray(X)], axis=axis), np.concatenate([X, X], axis))
        check(xp.concat((xp.asarray(X),), axis=axis), X)

    def test_concat_flattened(self) -> None:
        check(xp.concat([xp.asarray(X), xp.asarray(5.0)], axis=None), np.append(X.reshape(-1), 5))

    def test_concat_of_numpy_and_jax(self) -> None:
        check(xp.concat([np.ones(2), jnp.ones(2), xp.ones(1)]), np.ones(5))

    @pytest.mark.parametrize(
        ("a", "b", "want"),
        [
            ("int8", "int16", "int16"),
            ("int32", "uint32", "int64"),
            ("float32", "float64", "float64"),
            ("int32", "float32", "float32"),
            ("bool", "int8", "int8"),
            ("float32", "complex64", "complex64"),
        ],
    )
    def test_dtypes_are_promoted(self, a: str, b: str, want: str) -> None:
        parts = [xp.ones(2, dtype=np.dtype(a)), xp.ones(2, dtype=np.dtype(b))]
        assert xp.concat(parts).dtype == np.dtype(want)
        assert xp.concat(parts, axis=None).dtype == np.dtype(want)
        check(xp.stack(parts), np.ones((2, 2), want))

    @pytest.mark.parametrize("axis", [0, 1, 3, -1, -4])
    def test_stack(self, axis: int) -> None:
        check(xp.stack([xp.asarray(X), xp.asarray(-X)], axis=axis), np.stack([X, -X], axis))

    def test_stack_of_scalars(self) -> None:
        check(xp.stack([xp.asarray(1), xp.asarray(2)]), np.array([1, 2]))

    def test_errors(self) -> None:
        x = xp.asarray(X)
        for call in (xp.concat, xp.stack):
            with pytest.raises(errors.InvalidArgument):
                call([])
            with pytest.raises(errors.InvalidArgument):
                call(5)
            with pytest.raises(errors.ShapeMismatch):
                call([x, xp.ones((2, 3))])
            with pytest.raises(errors.InvalidDimension):
                call([x, x], axis=7)
            with pytest.raises(errors.DTypeMismatch):
                call([xp.ones(2, dtype=xp.float8_e5m2), xp.ones(2, dtype=xp.float16)])
        with pytest.raises(errors.ShapeMismatch):
            xp.concat([x, xp.ones((2, 4, 4))], axis=0)
        with pytest.raises(errors.InvalidDimension):
            xp.concat([xp.asarray(1.0), xp.asarray(2.0)])
        with pytest.raises(errors.ShapeMismatch):
            xp.stack([x, x[:1]])

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_unstack(self, axis: int) -> None:
        parts = xp.unstack(xp.asarray(X), axis=axis)
        assert type(parts) is tuple and len(parts) == X.shape[axis]
        for i, part in enumerate(parts):
            check(part, np.take(X, i, axis))
        assert xp.unstack(xp.zeros((0, 2))) == ()
        for bad in (3, -4):
            with pytest.raises(errors.InvalidDimension):
                xp.unstack(xp.asarray(X), axis=bad)
        with pytest.raises(errors.InvalidDimension):
            xp.unstack(xp.asarray(1.0))


class TestAxes:
    @pytest.mark.parametrize("axis", [0, 2, 3, -1, -4, (0, 2), (0, -1), (-1, 0, 2), ()])
    def test_expand_dims(self, axis: Any) -> None:
        check(xp.expand_dims(xp.asarray(X), axis=axis), np.expand_dims(X, axis))

    @pytest.mark.parametrize("axis", [4, -5, (0, 0), (0, -5), (7, 0)])
    def test_expand_dims_out_of_range(self, axis: Any) -> None:
        with pytest.raises(IndexError, match="expand_dims"):
            xp.expand_dims(xp.asarray(X), axis=axis)

    @pytest.mark.parametrize("axis", [1, -1, (1, 3), (-3, -1), ()])
    def test_squeeze(self, axis: Any) -> None:
        x = np.ones((2, 1, 3, 1))
        check(xp.squeeze(xp.asarray(x), axis), np.squeeze(x, axis))

    def test_squeeze_errors(self) -> None:
        x = xp.ones((2, 1))
        with pytest.raises(errors.ShapeMismatch):
            xp.squeeze(x, 0)
        with pytest.raises(errors.ShapeMismatch):
            xp.squeeze(x, (0, 1))
        for axis in (2, -3, (1, 1), (1, -1)):
            with pytest.raises(errors.InvalidDimension):
                xp.squeeze(x, axis)
        with pytest.raises(errors.InvalidArgument):
            xp.squeeze(x, None)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument):
            xp.squeeze(x, 1.5)  # type: ignore[arg-type]

    @pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), (2, -3), ()])
    def test_flip(self, axis: Any) -> None:
        check(xp.flip(xp.asarray(X), axis=axis), np.flip(X, axis))

    def test_flip_of_a_scalar(self) -> None:
        check(xp.flip(xp.asarray(3.0)), np.asarray(3.0))
        with pytest.raises(errors.InvalidDimension):
            xp.flip(xp.asarray(3.0), axis=0)

    @pytest.mark.parametrize("args", [(0, 1), (0, -1), (-1, 0), ((0, 1), (-1, -2)), ((0, 1), (1, 0)), ((), ())])
    def test_moveaxis(self, args: Any) -> None:
        check(xp.moveaxis(xp.asarray(X), *args), np.moveaxis(X, *args))

    def test_moveaxis_errors(self) -> None:
        x = xp.asarray(X)
        for args in ((3, 0), (0, -4), ((0, 0), (0, 1)), ((0, 1), (1, -2))):
            with pytest.raises(errors.InvalidDimension):
                xp.moveaxis(x, *args)
        with pytest.raises(errors.InvalidArgument):
            xp.moveaxis(x, (0, 1), 0)

    @pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (-1, 0, 1), (-1, -2, -3)])
    def test_permute_dims(self, axes: tuple[int, ...]) -> None:
        check(xp.permute_dims(xp.asarray(X), axes), np.transpose(X, axes))

    @pytest.mark.parametrize("axes", [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, -1, 2), (0, 1, -2), ()])
    def test_permute_dims_errors(self, axes: tuple[int, ...]) -> None:
        with pytest.raises(errors.InvalidDimension):
            xp.permute_dims(xp.asarray(X), axes)

    def test_an_axis_that_is_true_is_one(self) -> None:
        x = xp.ones((1, 1))
        assert xp.squeeze(x, 1).shape == xp.squeeze(x, True).shape == (1,)
        check(xp.flip(xp.asarray(X), axis=np.int8(1)), np.flip(X, 1))


class TestRepeat:
    @pytest.mark.parametrize("axis", [None, 0, 1, -1])
    @pytest.mark.parametrize("repeats", [0, 1, 3])
    def test_a_number(self, axis: int | None, repeats: int) -> None:
        check(xp.repeat(xp.asarray(X), repeats, axis=axis), np.repeat(X, repeats, axis))
        check(xp.repeat(xp.asarray(X), xp.asarray(repeats), axis=axis), np.repeat(X, repeats, axis))

    @pytest.mark.parametrize(
        "counts", [[1, 2, 0, 5], [0, 0, 3, 0], [0, 0, 0, 0], [2, 0, 0, 0], [3], [100, 100, 0, 100]]
    )
    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
    def test_counts(self, counts: list[int], dtype: Any) -> None:
        want = np.repeat(X, counts, 2)
        check(xp.repeat(xp.asarray(X), xp.asarray(np.array(counts, dtype)), axis=2), want)
        check(xp.repeat(xp.asarray(X), np.array(counts, dtype), axis=-1), want)

    def test_counts_of_flattened(self) -> None:
        counts = np.arange(24) % 3
        check(xp.repeat(xp.asarray(X), xp.asarray(counts)), np.repeat(X, counts))
        check(xp.repeat(xp.asarray(5.0), xp.asarray([2])), np.full(2, 5.0))
        check(xp.repeat(xp.zeros((0,)), xp.asarray([3])), np.zeros(0))
        check(xp.repeat(xp.zeros((0,)), xp.zeros((0,), dtype=xp.int32)), np.zeros(0))

    def test_errors(self) -> None:
        x = xp.asarray(X)
        for repeats in (-1, xp.asarray([1, -1, 2, 0])):
            with pytest.raises(errors.InvalidArgument):
                xp.repeat(x, repeats, axis=2)
        with pytest.raises(errors.InvalidArgument):
            xp.repeat(x, 1.5)  # type: ignore[arg-type]
        with pytest.raises(errors.BroadcastError):
            xp.repeat(x, xp.asarray([1, 2]), axis=2)
        with pytest.raises(errors.UnsupportedDType):
            xp.repeat(x, xp.asarray([1.0]), axis=2)
        for repeats in (1, xp.asarray([1])):
            with pytest.raises(errors.InvalidDimension):
                xp.repeat(x, repeats, axis=3)

    def test_under_tracing(self) -> None:
        @jax.jit
        def f(v: jax.Array) -> jax.Array:
            return xp.repeat(xp.Array(v), 2).jax

        np.testing.assert_array_equal(f(jnp.arange(2.0)), [0, 0, 1, 1])
        with pytest.raises(errors.DataDependentShape, match="repeats"):
            jax.jit(lambda v, n: xp.repeat(xp.Array(v), xp.Array(n)).jax)(jnp.ones(3), jnp.asarray([1, 2, 3]))


class TestReshape:
    @pytest.mark.parametrize(
        "shape", [(24,), (-1,), (4, 6), (4, -1), (2, 3, 4), (1, 24, 1), (-1, 12, 1), 24, -1, [6, 4]]
    )
    @pytest.mark.parametrize("copy", [None, True])
    def test_values(self, shape: Any, copy: bool | None) -> None:
        check(xp.reshape(xp.asarray(X), shape, copy=copy), X.reshape(shape))

    def test_empty(self) -> None:
        check(xp.reshape(xp.zeros((0, 3)), (3, 0)), np.zeros((3, 0)))
        check(xp.reshape(xp.zeros((0, 3)), (-1, 3)), np.zeros((0, 3)))
        check(xp.reshape(xp.asarray([5.0]), ()), np.asarray(5.0))
        with pytest.raises(errors.ShapeMismatch):
            xp.reshape(xp.zeros((0, 3)), (-1, 0))

    @pytest.mark.parametrize("shape", [(5, 5), (5, -1), (), (2, 3, 5), (0, -1)])
    def test_wrong_size(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(errors.ShapeMismatch):
            xp.reshape(xp.asarray(X), shape)

    @pytest.mark.parametrize("shape", [(-1, -1), (-2, 12), (2.0, 12), "24", None])
    def test_bad_shape(self, shape: Any) -> None:
        with pytest.raises(errors.InvalidArgument):
            xp.reshape(xp.asarray(X), shape)

    @pytest.mark.parametrize("copy", [None, True])
    def test_results_are_independent(self, copy: bool | None) -> None:
        for shape in ((2, 2), (4,)):
            x = xp.arange(4)
            y = xp.reshape(x, shape, copy=copy)
            y[0] = 9
            check(x, np.arange(4))
            x[1] = 7
            assert int(xp.reshape(y, (4,))[3]) == (3 if shape == (4,) else 3)

    def test_no_copy(self) -> None:
        x = xp.arange(4)
        with pytest.raises(ValueError, match="copy"):
            xp.reshape(x, (2, 2), copy=False)
        check(xp.reshape(x, (-1,), copy=False), np.arange(4))


class TestRoll:
    @pytest.mark.parametrize(
        ("shift", "axis"),
        [
            (0, None),
            (5, None),
            (-7, None),
            (10**12, None),
            (1, 0),
            (-1, 2),
            (6, -1),
            (2, (0, 1)),
            ((1, -2), (0, 2)),
            ((1, 2, 3), (0, -1, 0)),
            ((1, 2), 2),
            ((), ()),
        ],
    )
    def test_values(self, shift: Any, axis: Any) -> None:
        want = np.roll(X, shift, axis)
        check(xp.roll(xp.asarray(X), shift, axis=axis), want)
        traced = jax.jit(lambda v: xp.roll(xp.Array(v), shift, axis=axis).jax)
        np.testing.assert_array_equal(traced(jnp.asarray(X)), want.astype(np.float32))

    def test_empty_and_scalar(self) -> None:
        check(xp.roll(xp.zeros((0, 2)), 3, axis=0), np.zeros((0, 2)))
        check(xp.roll(xp.zeros((0, 2)), 3), np.zeros((0, 2)))
        check(xp.roll(xp.asarray(2.0), 3), np.asarray(2.0))

    def test_errors(self) -> None:
        x = xp.asarray(X)
        for axis in (3, -4, (0, 3)):
            with pytest.raises(errors.InvalidDimension):
                xp.roll(x, (1, 1) if isinstance(axis, tuple) else 1, axis=axis)
        with pytest.raises(errors.InvalidArgument):
            xp.roll(x, (1, 2, 3), axis=(0, 1))
        with pytest.raises(errors.InvalidArgument):
            xp.roll(x, 1.5)  # type: ignore[arg-type]

    def test_a_loop_over_shifts_compiles_once(self) -> None:
        x = xp.arange(1003)
        xp.roll(x, 1)
        assert compilations(lambda: [xp.roll(x, s) for s in range(5, 15)]) == 0

    def test_a_static_shift_under_jit_is_what_jax_makes(self) -> None:
        def operations(f: Any) -> list[str]:
            text = jax.jit(f).lower(jax.ShapeDtypeStruct((16,), jnp.float32)).compile().as_text()
            return re.findall(r" = \S+ ([a-z-]+)\(", text)

        ours = operations(lambda v: xp.roll(xp.Array(v), 3).jax)
        assert ours == operations(lambda v: jnp.roll(v, 3))
        assert "dynamic-slice" not in ours


class TestTile:
    @pytest.mark.parametrize("repetitions", [(2,), (2, 1), (1, 2, 3), (2, 1, 1, 2), (0, 1), (), 2])
    def test_values(self, repetitions: Any) -> None:
        check(xp.tile(xp.asarray(X), repetitions), np.tile(X, repetitions))
        check(xp.tile(xp.asarray(3.0), repetitions), np.tile(3.0, repetitions))

    @pytest.mark.parametrize("repetitions", [(-1,), (1.5,), "2"])
    def test_errors(self, repetitions: Any) -> None:
        with pytest.raises(errors.InvalidArgument):
            xp.tile(xp.asarray(X), repetitions)


def test_integers_below_one_byte_do_not_end_the_process() -> None:
    # XLA's CPU compiler aborts on a concatenation of them.
    x = xp.asarray([1, -2, 3], dtype=np.dtype(ml_dtypes.int4))
    check(xp.concat([x, x]), np.array([1, -2, 3] * 2, ml_dtypes.int4))
    check(xp.stack([x, x]), np.array([[1, -2, 3]] * 2, ml_dtypes.int4))
    check(xp.roll(x, 1), np.array([3, 1, -2], ml_dtypes.int4))


DTYPES = [xp.bool, xp.int8, xp.uint64, xp.float16, xp.bfloat16, xp.float64, xp.complex128]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_kept(dtype: np.dtype) -> None:
    x = xp.ones((2, 1), dtype=dtype)
    out = [
        *xp.broadcast_arrays(x, x),
        xp.broadcast_to(x, (2, 2)),
        xp.concat([x, x]),
        xp.expand_dims(x, axis=0),
        xp.flip(x),
        xp.moveaxis(x, 0, 1),
        xp.permute_dims(x, (1, 0)),
        xp.repeat(x, 2),
        xp.repeat(x, xp.asarray([1, 2]), axis=0),
        xp.reshape(x, (2,)),
        xp.roll(x, 1),
        xp.squeeze(x, 1),
        xp.stack([x, x]),
        xp.tile(x, (2, 2)),
        *xp.unstack(x),
    ]
    assert all(y.dtype == dtype for y in out)
    assert all(np.all(np.asarray(y) == np.ones((), dtype)) for y in out)


def test_gradients_pass_through() -> None:
    def f(v: jax.Array) -> jax.Array:
        x = xp.Array(v)
        y = xp.concat([xp.roll(x, 1), xp.flip(x), xp.repeat(x, 2)[:3], xp.tile(x, (2,))[:3]])
        return xp.sum(y * xp.arange(12, dtype=xp.float32)).jax

    def g(v: jax.Array) -> jax.Array:
        y = jnp.concatenate([jnp.roll(v, 1), jnp.flip(v), jnp.repeat(v, 2)[:3], jnp.tile(v, 2)[:3]])
        return jnp.sum(y * jnp.arange(12.0))

    v = jnp.asarray([1.0, 2.0, 3.0])
    # d/dv of sum(y * k): roll gives (1, 2, 0), flip (5, 4, 3), repeat (6 + 7, 8, 0), tile (9, 10, 11).
    np.testing.assert_array_equal(jax.grad(f)(v), [1 + 5 + 13 + 9, 2 + 4 + 8 + 10, 0 + 3 + 0 + 11])
    np.testing.assert_array_equal(jax.grad(g)(v), jax.grad(f)(v))


@pytest.mark.parametrize("owned", [True, False])
def test_operands_keep_their_values(owned: bool) -> None:
    x = xp.asarray(X) + 0.0
    if not owned:
        x.jax
    for result in (xp.reshape(x, (2, 3, 4)), xp.broadcast_to(x, (2, 3, 4)), xp.squeeze(x, ()), xp.concat([x])):
        result[0] = -1.0
        check(x, X)
    kept = xp.reshape(x, (24,))
    x[0] = -1.0
    check(kept, X.reshape(-1))
