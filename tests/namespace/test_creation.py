from __future__ import annotations

import array
import enum
import gc
import math
import weakref
from collections import deque
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

FLOATS = [xp.float16, xp.bfloat16, xp.float32, xp.float64]
INTEGERS = [xp.int8, xp.int16, xp.int32, xp.int64, xp.uint8, xp.uint16, xp.uint32, xp.uint64]


def check(x: Any, expected: Any, dtype: Any = None) -> None:
    """Compare type, shape, dtype and values; zeros with their signs."""
    want = np.asarray(expected, dtype)
    assert type(x) is xp.Array
    assert x.dtype == want.dtype and x.shape == want.shape
    got = np.asarray(x)
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


class TestConstants:
    @pytest.mark.parametrize("shape", [(), 3, (0,), (2, 3), [2, 1], np.int64(4), (np.int8(2),)])
    def test_shapes(self, shape: Any) -> None:
        for make, value in ((xp.zeros, 0.0), (xp.ones, 1.0), (xp.empty, 0.0)):
            check(make(shape), np.full(shape, value))
        check(xp.full(shape, 7), np.full(shape, 7))

    @pytest.mark.parametrize("dtype", [xp.bool, *INTEGERS, *FLOATS, xp.complex64, xp.complex128])
    def test_dtypes(self, dtype: np.dtype) -> None:
        check(xp.zeros((2,), dtype=dtype), np.zeros(2, dtype))
        check(xp.ones((2,), dtype=dtype), np.ones(2, dtype))
        check(xp.full((2,), 1, dtype=dtype), np.ones(2, dtype))
        check(xp.eye(2, 3, k=1, dtype=dtype), np.eye(2, 3, 1, dtype))
        check(xp.zeros_like(xp.ones(2, dtype=dtype)), np.zeros(2, dtype))
        check(xp.ones_like(xp.zeros(2), dtype=dtype), np.ones(2, dtype))

    def test_defaults_follow_the_kind_of_the_value(self) -> None:
        assert xp.full(2, True).dtype == xp.bool
        assert xp.full(2, 1).dtype == xp.int64
        assert xp.full(2, 1.0).dtype == xp.float64
        assert xp.full(2, 1j).dtype == xp.complex128
        with xp.set_default_dtype(xp.float32):
            assert xp.zeros(2).dtype == xp.full(2, 1.0).dtype == xp.float32
            assert xp.full(2, 1j).dtype == xp.complex64

    def test_equal_keys_of_other_types_do_not_meet(self) -> None:
        values = [True, 1, 1.0, 1 + 0j]
        assert [xp.full(3, v).dtype.kind for v in values] == ["b", "i", "f", "c"]
        assert [xp.asarray(v).dtype.kind for v in values] == ["b", "i", "f", "c"]
        assert [xp.arange(0, 2, v).dtype.kind for v in (1, 1.0)] == ["i", "f"]

    def test_zeros_keep_their_sign(self) -> None:
        for value in (0.0, -0.0, 0.0):
            check(xp.full(3, value), np.full(3, value))
            check(xp.asarray(value), np.asarray(value))
        got = np.asarray(xp.full(1, complex(-0.0, 0.0)))
        assert np.signbit(got.real).all() and not np.signbit(got.imag).any()

    def test_nan_does_not_fill_the_table(self) -> None:
        for _ in range(3):
            assert math.isnan(float(xp.full((), math.nan)))
            assert math.isnan(float(xp.asarray(math.nan)))

    def test_interned_constants_are_independent(self) -> None:
        a, b = xp.zeros(3), xp.zeros(3)
        a[0] = 5.0
        check(b, np.zeros(3))
        check(xp.zeros(3), np.zeros(3))
        a += 1
        check(xp.zeros(3), np.zeros(3))

    def test_a_donated_constant_is_made_again(self) -> None:
        jitted = jax.jit(lambda x: x + 1, donate_argnums=0)
        with jax.enable_x64(True):
            jitted(xp.zeros(8).jax)
        check(xp.zeros(8), np.zeros(8))

    def test_large_constants_are_made_anew(self) -> None:
        a, b = xp.zeros(10_000), xp.zeros(10_000)
        before = a.jax.unsafe_buffer_pointer()
        assert before != b.jax.unsafe_buffer_pointer()
        check(xp.full((100, 100), 2.5), np.full((100, 100), 2.5))

    def test_the_fill_value_is_an_operand(self) -> None:
        shape = (321, 33)
        xp.full(shape, 1.5)
        count = _compilations(lambda: [xp.full(shape, v + 0.25) for v in range(5)])
        assert count == 0

    def test_full_of_an_array(self) -> None:
        check(xp.full((2, 3), xp.asarray([1, 2, 3], dtype=xp.int8)), np.full((2, 3), [1, 2, 3], np.int8))
        check(xp.full((2,), np.float32(3)), np.full(2, 3, np.float32))
        with pytest.raises(errors.BroadcastError):
            xp.full((2, 3), xp.ones(2))

    def test_values_that_do_not_fit(self) -> None:
        with pytest.raises(OverflowError):
            xp.full(2, 300, dtype=xp.uint8)
        with pytest.raises(OverflowError):
            xp.full(2, 2**63)
        with pytest.raises(errors.DTypeMismatch):
            xp.full(2, 1j, dtype=xp.float32)
        with pytest.raises(errors.DTypeMismatch, match="full_like"):
            xp.full_like(xp.zeros(2, dtype=xp.int32), 1.5)
        with pytest.raises(errors.DTypeMismatch):
            xp.full_like(xp.zeros(2, dtype=xp.int32), math.nan)
        check(xp.full_like(xp.zeros(2, dtype=xp.int32), 2.0), np.full(2, 2, np.int32))
        check(xp.full(4, math.nan, dtype=xp.int32), np.zeros(4, np.int32))

    @pytest.mark.parametrize("shape", [-1, (2, -1), (2.5,), 2.5, "3", None, (None,)])
    def test_bad_shapes(self, shape: Any) -> None:
        xp.zeros((2, 2))
        for make in (xp.zeros, xp.ones, xp.empty, lambda s: xp.full(s, 1)):
            with pytest.raises(errors.InvalidArgument, match="shape"):
                make(shape)

    def test_a_float_size_is_refused_even_if_an_equal_int_was_seen(self) -> None:
        xp.zeros((3,))
        with pytest.raises(errors.InvalidArgument):
            xp.zeros((3.0,))  # type: ignore[arg-type]

    def test_bad_dtype(self) -> None:
        for dtype in ("U3", object, "no such dtype", np.dtype("datetime64[s]")):
            with pytest.raises(errors.UnsupportedDType):
                xp.zeros(3, dtype=dtype)

    def test_like_takes_any_array(self) -> None:
        check(xp.zeros_like(np.ones((2, 3), np.float32)), np.zeros((2, 3), np.float32))
        check(xp.full_like(jnp.ones(3), 2), np.full(3, 2, np.float32))
        check(xp.empty_like(xp.ones((2, 0), dtype=xp.int8)), np.zeros((2, 0), np.int8))


def _compilations(run: Any) -> int:
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


class TestDevices:
    def test_named_device(self) -> None:
        device = jax.devices("cpu")[1]
        x = xp.ones(3)
        for made in (
            xp.zeros(3, device=device),
            xp.full(3, 2.0, device="cpu:1"),
            xp.arange(3, device=device),
            xp.linspace(0, 1, 3, device=device),
            xp.eye(3, device=device),
            xp.asarray([1, 2], device=device),
            xp.asarray(5, device=device),
            xp.asarray(np.ones(3), device=device),
            xp.asarray(x, device=device),
            xp.zeros_like(x, device=device),
            xp.full_like(x, 1, device=device),
            xp.full(3, xp.asarray(2.0), device=device),
            xp.linspace(xp.asarray(0.0), 1, 3, device=device),
        ):
            assert made.device == device
            assert made.jax.committed
        assert x.device == jax.devices("cpu")[0]

    def test_like_stays_on_the_device(self) -> None:
        device = jax.devices("cpu")[2]
        x = xp.ones(3, device=device)
        assert xp.zeros_like(x).device == device
        assert xp.ones_like(x).device == device
        assert xp.empty_like(x).device == device
        assert xp.full_like(x, 3.0).device == device
        assert xp.asarray(x) is x
        assert xp.asarray(x, device=device) is x

    def test_sharding(self) -> None:
        mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
        for made in (
            xp.zeros(16, device=sharding),
            xp.full(16, 1.5, device=sharding),
            xp.arange(16, device=sharding),
            xp.asarray(np.arange(16), device=sharding),
            xp.zeros_like(xp.ones(16, device=sharding)),
        ):
            assert made.device == sharding
            assert len(made.jax.addressable_shards) == 8
        check(xp.arange(16, device=sharding), np.arange(16))
        with pytest.raises(errors.InvalidArgument, match="sharding"):
            xp.zeros(15, device=sharding)

    def test_default_device_of_jax(self) -> None:
        xp.zeros(5)
        device = jax.devices("cpu")[3]
        with jax.default_device(device):
            assert xp.zeros(5).device == device
            assert xp.asarray(1.25).device == device
        assert xp.zeros(5).device == jax.devices("cpu")[0]

    def test_unknown_device(self) -> None:
        for make in (xp.zeros, xp.asarray, xp.arange, xp.eye):
            with pytest.raises(errors.InvalidArgument):
                make(3, device="nowhere")
        with pytest.raises(errors.BackendUnavailable):
            xp.zeros(3, device="cpu:99")


class TestArange:
    @pytest.mark.parametrize(
        "args",
        [(5,), (0,), (-3,), (2, 9), (9, 2), (9, 2, -2), (0, 10, 3), (-5, 5, 4), (2**40, 2**40 + 5), (5, 5, 1)],
    )
    def test_integers(self, args: tuple[int, ...]) -> None:
        check(xp.arange(*args), np.arange(*args, dtype=np.int64))

    @pytest.mark.parametrize("args", [(5.0,), (0.5, 3), (0, 1, 0.1), (1, 0, -0.25), (2.5, 2.5), (0, -1.0), (-0.0, 2)])
    def test_floats(self, args: tuple[float, ...]) -> None:
        x = xp.arange(*args)
        want = np.arange(*args, dtype=np.float64)
        assert x.dtype == xp.float64 and x.shape == want.shape
        np.testing.assert_allclose(np.asarray(x), want, rtol=1e-15, atol=1e-15)

    @pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, xp.complex64])
    def test_dtype(self, dtype: np.dtype) -> None:
        check(xp.arange(2, 12, 3, dtype=dtype), np.arange(2, 12, 3).astype(dtype))

    def test_the_distance_may_leave_the_range(self) -> None:
        check(xp.arange(-128, 128, 200, dtype=xp.int8), np.array([-128, 72], np.int8))
        check(xp.arange(250, 0, -100, dtype=xp.uint8), np.array([250, 150, 50], np.uint8))
        check(xp.arange(-(2**63), 2**63, 2**63, dtype=xp.int64), np.array([-(2**63), 0], np.int64))
        check(xp.arange(2**64 - 2, 2**64, dtype=xp.uint64), np.array([2**64 - 2, 2**64 - 1], np.uint64))

    def test_overflow(self) -> None:
        for args, dtype in (((300,), xp.uint8), ((-1, 3), xp.uint8), ((2**63 - 1, 2**63 + 3), None), ((129,), xp.int8)):
            with pytest.raises(OverflowError):
                xp.arange(*args, dtype=dtype)

    def test_a_range_that_ends_at_the_largest_value(self) -> None:
        check(xp.arange(253, 256, dtype=xp.uint8), np.array([253, 254, 255], np.uint8))

    def test_float_steps_in_an_integer_dtype_are_cut(self) -> None:
        check(xp.arange(0.0, 2.0, 0.5, dtype=xp.int32), np.array([0, 0, 1, 1], np.int32))

    def test_accuracy_in_float32(self) -> None:
        x = np.asarray(xp.arange(0, 1000, 0.1, dtype=xp.float32), np.float64)
        want = 0.1 * np.arange(10_000)
        assert np.max(np.abs(x - want)) <= 2 * np.spacing(np.float32(1000))

    def test_arrays_and_numpy_scalars_as_arguments(self) -> None:
        check(xp.arange(xp.asarray(3)), np.arange(3))
        check(xp.arange(np.int8(3), jnp.asarray(5)), np.arange(3, 5))
        check(xp.arange(np.float32(0.5), 3), np.arange(0.5, 3))

    def test_bad_arguments(self) -> None:
        with pytest.raises(errors.InvalidArgument, match="step"):
            xp.arange(0, 5, 0)
        with pytest.raises(errors.InvalidArgument, match="step"):
            xp.arange(0, 5, 0.0)
        for bad in (math.inf, math.nan):
            with pytest.raises(errors.InvalidArgument):
                xp.arange(bad)
        with pytest.raises(errors.UnsupportedDType):
            xp.arange(3, dtype=xp.bool)
        with pytest.raises(errors.UnsupportedDType):
            xp.arange(3j)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument):
            xp.arange("3")  # type: ignore[arg-type]


class TestLinspace:
    @pytest.mark.parametrize("num", [0, 1, 2, 3, 7, 50, 1001])
    @pytest.mark.parametrize("ends", [(0, 1), (-3.7, 11.1), (5, 5), (1, -1), (1e300, -1e300), (0.1, 0.7)])
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_values(self, num: int, ends: tuple[float, float], dtype: np.dtype) -> None:
        if abs(ends[0]) > float(ml_dtypes.finfo(dtype).max):
            ends = (float(ml_dtypes.finfo(dtype).max), -float(ml_dtypes.finfo(dtype).max))
        x = xp.linspace(*ends, num, dtype=dtype)
        assert x.dtype == dtype and x.shape == (num,)
        got = np.asarray(x).astype(np.float64)
        want = [ends[0] * (1 - i / (num - 1)) + ends[1] * (i / (num - 1)) if num > 1 else ends[0] for i in range(num)]
        limit = 2 * float(ml_dtypes.finfo(dtype).eps) * max(map(abs, ends))
        assert np.all(np.abs(got - want) <= limit)
        if num:
            assert got[0] == float(np.asarray(ends[0], dtype))
        if num > 1:
            assert got[-1] == float(np.asarray(ends[1], dtype))

    @pytest.mark.parametrize("num", [0, 1, 2, 9, 100])
    def test_without_endpoint(self, num: int) -> None:
        whole = np.asarray(xp.linspace(-1.1, 3.3, num + 1))
        check(xp.linspace(-1.1, 3.3, num, endpoint=False), whole[:num])

    def test_equal_ends_stay_equal(self) -> None:
        check(xp.linspace(0.3, 0.3, 9), np.full(9, 0.3))

    def test_it_is_symmetric(self) -> None:
        x = np.asarray(xp.linspace(-0.7, 0.7, 11))
        np.testing.assert_array_equal(x, -x[::-1])

    def test_complex(self) -> None:
        x = xp.linspace(1j, 1 - 3j, 5)
        check(x, np.array([1j, 0.25, 0.5 - 1j, 0.75 - 2j, 1 - 3j]))
        assert xp.linspace(0, 1, 3, dtype=xp.complex64).dtype == xp.complex64

    def test_infinite_ends_are_kept(self) -> None:
        x = np.asarray(xp.linspace(0, math.inf, 3))
        assert x[0] == 0 and x[-1] == math.inf

    def test_integer_dtype_takes_the_floor(self) -> None:
        check(xp.linspace(0, 10, 5, dtype=xp.int32), np.array([0, 2, 5, 7, 10], np.int32))
        check(xp.linspace(0, -10, 5, dtype=xp.int64), np.array([0, -3, -5, -8, -10]))

    def test_ends_may_be_arrays(self) -> None:
        check(xp.linspace(xp.asarray(0.0), np.float64(1), 3), np.array([0, 0.5, 1]))
        slope = jax.grad(lambda stop: xp.sum(xp.linspace(0.0, xp.Array(stop), 3, dtype=xp.float32)).jax)(jnp.float32(2))
        assert float(slope) == 1.5

    def test_bad_arguments(self) -> None:
        with pytest.raises(errors.InvalidArgument, match="num"):
            xp.linspace(0, 1, -1)
        with pytest.raises(errors.InvalidArgument, match="num"):
            xp.linspace(0, 1, 2.5)  # type: ignore[arg-type]
        with pytest.raises(errors.DTypeMismatch):
            xp.linspace(0, 1j, 3, dtype=xp.float32)
        with pytest.raises(errors.UnsupportedDType):
            xp.linspace(0, 1, 3, dtype=xp.bool)
        with pytest.raises(errors.InvalidDimension):
            xp.linspace(xp.ones(2), 1, 3)


class TestMatrices:
    @pytest.mark.parametrize("k", [-100, -2, 0, 1, 3, 2**70])
    def test_eye(self, k: int) -> None:
        want = [[float(j - i == k) for j in range(4)] for i in range(3)]
        check(xp.eye(3, 4, k=k), want)
        check(xp.eye(3), np.eye(3))
        check(xp.eye(0, 2), np.zeros((0, 2)))

    @pytest.mark.parametrize("k", [-(2**70), -2, 0, 1, 3, 2**70])
    def test_triangles(self, k: int) -> None:
        x = np.arange(24.0).reshape(2, 3, 4) - 5
        column, row = np.arange(4), np.arange(3)[:, None]
        check(xp.tril(xp.asarray(x), k=k), np.where(column - row <= k, x, 0.0))
        check(xp.triu(xp.asarray(x), k=k), np.where(column - row >= k, x, 0.0))
        bools = xp.ones((2, 2), dtype=xp.bool)
        check(xp.tril(bools), np.array([[True, False], [True, True]]))

    def test_triangles_drop_nan(self) -> None:
        x = xp.full((2, 2), math.nan)
        check(xp.tril(x), np.array([[math.nan, 0], [math.nan, math.nan]]))

    def test_triangle_of_a_vector(self) -> None:
        for call in (xp.tril, xp.triu):
            with pytest.raises(errors.InvalidDimension):
                call(xp.ones(3))

    @pytest.mark.parametrize("indexing", ["xy", "ij"])
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_meshgrid(self, indexing: Any, n: int) -> None:
        vectors = [np.arange(2), np.arange(3.0), np.arange(4, dtype=np.int8)][:n]
        out = xp.meshgrid(*map(xp.asarray, vectors), indexing=indexing)
        want = np.meshgrid(*vectors, indexing=indexing)
        assert type(out) is tuple
        for a, b in zip(out, want, strict=True):
            check(a, b)

    def test_meshgrid_corners(self) -> None:
        assert xp.meshgrid() == ()
        check(xp.meshgrid(xp.asarray(5))[0], np.array([5]))
        with pytest.raises(errors.InvalidDimension):
            xp.meshgrid(xp.ones((2, 2)))
        with pytest.raises(errors.InvalidArgument):
            xp.meshgrid(xp.ones(2), indexing="yx")  # type: ignore[arg-type]


class Colour(enum.IntEnum):
    RED = 3


class TestAsarray:
    def test_scalars_take_the_default_dtype(self) -> None:
        for value, dtype in ((True, xp.bool), (1, xp.int64), (1.5, xp.float64), (1j, xp.complex128)):
            check(xp.asarray(value), np.asarray(value, dtype))
        check(xp.asarray(Colour.RED), np.asarray(3))

    def test_scalars_are_not_weak(self) -> None:
        assert not xp.asarray(0.0).jax.weak_type
        assert not xp.asarray(jnp.asarray(0.0)).jax.weak_type

    def test_nested_sequences(self) -> None:
        check(xp.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
        check(xp.asarray([True, False]), np.array([True, False]))
        check(xp.asarray([True, 2]), np.array([1, 2]))
        check(xp.asarray([1, 2.5]), np.array([1, 2.5]))
        check(xp.asarray([1, 2.5, 3j]), np.array([1, 2.5, 3j]))
        check(xp.asarray([]), np.zeros(0))
        check(xp.asarray([[], []]), np.zeros((2, 0)))
        check(xp.asarray(((1,), [2])), np.array([[1], [2]]))
        check(xp.asarray(range(3)), np.arange(3))
        check(xp.asarray(deque([1, 2])), np.array([1, 2]))
        check(xp.asarray([range(2), [5, 6]]), np.array([[0, 1], [5, 6]]))

    def test_exact_integers(self) -> None:
        big = 2**63
        check(xp.asarray([2**62 + 1]), np.array([2**62 + 1]))
        for obj in (big, -big - 1, [big], [-1, big], [2**70], [1, [big]][1:], [True, big]):
            with pytest.raises(OverflowError):
                xp.asarray(obj)
        check(xp.asarray([big], dtype=xp.uint64), np.array([big], np.uint64))
        check(xp.asarray(big, dtype=xp.uint64), np.array(big, np.uint64))
        check(xp.asarray([2**70, 0.5]), np.array([2.0**70, 0.5]))
        check(xp.asarray([2**70], dtype=xp.float32), np.array([2.0**70], np.float32))
        for obj, dtype in (([300], xp.uint8), ([-1], xp.uint64), ([-1, big], xp.uint64), (-1, xp.uint8)):
            with pytest.raises(OverflowError):
                xp.asarray(obj, dtype=dtype)

    @pytest.mark.parametrize("value", [2**32, -(2**40)])
    def test_wide_host_integers_are_kept(self, value: int) -> None:
        check(xp.asarray(np.array([value])), np.array([value]))

    def test_casts_saturate(self) -> None:
        source = [-20.0, 300.0, 3e9, math.nan, math.inf, -math.inf, 1.9, -1.9]
        want = {
            "uint8": [0, 255, 255, 0, 255, 0, 1, 0],
            "int8": [-20, 127, 127, 0, 127, -128, 1, -1],
            "uint32": [0, 300, 3_000_000_000, 0, 2**32 - 1, 0, 1, 0],
            "int32": [-20, 300, 2**31 - 1, 0, 2**31 - 1, -(2**31), 1, -1],
            "int64": [-20, 300, 3_000_000_000, 0, 2**63 - 1, -(2**63), 1, -1],
            "uint64": [0, 300, 3_000_000_000, 0, 2**64 - 1, 0, 1, 0],
        }
        for name, values in want.items():
            dtype = np.dtype(name)
            for obj in (source, np.array(source), np.array(source, np.float32), xp.asarray(source)):
                check(xp.asarray(obj, dtype=dtype), np.array(values, dtype))
            for value, expected in zip(source, values, strict=True):
                check(xp.asarray(value, dtype=dtype), np.array(expected, dtype))

    def test_half_precision(self) -> None:
        check(xp.asarray([1.5, 1e9], dtype=xp.float16), np.array([1.5, math.inf], np.float16))
        check(xp.asarray(1.0078125, dtype=xp.bfloat16), np.array(1.0078125, ml_dtypes.bfloat16))
        check(xp.asarray(np.array([1, 2], ml_dtypes.bfloat16)), np.array([1, 2], ml_dtypes.bfloat16))
        check(xp.asarray([0.5, 448], dtype=xp.float8_e4m3fn), np.array([0.5, 448], ml_dtypes.float8_e4m3fn))

    def test_complex_into_real(self) -> None:
        for obj in (1j, [1j], np.array([1j]), xp.asarray([1j])):
            with pytest.raises(errors.DTypeMismatch):
                xp.asarray(obj, dtype=xp.float64)
        check(xp.asarray([0j, 1j], dtype=xp.bool), np.array([False, True]))

    def test_sequences_of_arrays(self) -> None:
        a, b = xp.asarray([1, 2], dtype=xp.float32), jnp.asarray([3, 4], dtype=jnp.float32)
        check(xp.asarray([a, b]), np.array([[1, 2], [3, 4]], np.float32))
        check(xp.asarray([a, [5, 6.5]]), np.array([[1, 2], [5, 6.5]], np.float32))
        check(xp.asarray([a[0], 2.5]), np.array([1, 2.5], np.float32))
        check(xp.asarray([np.float32(1), 2.5]), np.array([1, 2.5], np.float32))
        check(xp.asarray([np.int8(1), np.int16(2)]), np.array([1, 2], np.int16))
        check(xp.asarray([np.ones(2), np.zeros(2)]), np.array([[1.0, 1], [0, 0]]))
        check(xp.asarray([[xp.asarray(1), 2], [3, xp.asarray(4)]]), np.array([[1, 2], [3, 4]]))
        check(xp.asarray([a, a], dtype=xp.int64), np.array([[1, 2], [1, 2]]))
        out = jax.jit(lambda v: xp.asarray([xp.Array(v), 2.0]).jax)(jnp.float32(1))
        np.testing.assert_array_equal(out, np.array([1, 2], np.float32))

    def test_ragged(self) -> None:
        for obj in ([[1], [2, 3]], [1, [2]], [[1.0], 2], [xp.ones(2), xp.ones(3)]):
            with pytest.raises(errors.ShapeMismatch):
                xp.asarray(obj)

    @pytest.mark.parametrize(
        "obj", [None, "text", ["a"], [None], {1: 2}, {1}, object(), np.array(["a"]), np.array([{}])]
    )
    def test_what_is_no_array(self, obj: Any) -> None:
        with pytest.raises(errors.UnsupportedDType):
            xp.asarray(obj)

    def test_identity(self) -> None:
        x = xp.asarray([1.0, 2.0])
        assert xp.asarray(x) is x
        assert xp.asarray(x, copy=False) is x
        assert xp.asarray(x, dtype=xp.float64) is x
        assert xp.asarray(x, device=x.device) is x
        assert xp.asarray(x, dtype=xp.float32) is not x

    def test_copy(self) -> None:
        x = xp.asarray([1.0, 2.0])
        y = xp.asarray(x, copy=True)
        x[0] = 5.0
        check(y, [1.0, 2.0])
        z = xp.asarray(x, copy=False)
        x[1] = 7.0
        check(z, [5.0, 7.0])

    @pytest.mark.parametrize("obj", [1.0, [1.0], np.ones(2), np.float32(1), memoryview(b"ab"), array.array("d", [1.0])])
    def test_no_copy_of_host_memory(self, obj: Any) -> None:
        with pytest.raises(ValueError, match="copy"):
            xp.asarray(obj, copy=False)
        assert xp.asarray(obj, copy=True).dtype == xp.asarray(obj).dtype

    def test_no_copy_where_something_changes(self) -> None:
        x = xp.ones(2)
        for options in ({"dtype": xp.float32}, {"device": jax.devices("cpu")[1]}):
            with pytest.raises(errors.InvalidArgument):
                xp.asarray(x, copy=False, **options)

    @pytest.mark.parametrize("size", [100, 1_000_000])
    def test_host_memory_is_copied(self, size: int) -> None:
        raw = np.empty(4 * size + 64, np.uint8)
        offset = -raw.ctypes.data % 64
        host = raw[offset : offset + 4 * size].view(np.float32)
        host[:] = np.arange(size)
        for copy in (None, True):
            x = xp.asarray(host, copy=copy)
            host[0] = -1.0
            assert float(x[0]) == 0.0
            x[1] = 77.0
            assert host[1] == 1.0
            host[0] = 0.0

    def test_layouts_of_numpy(self) -> None:
        host = np.arange(12.0).reshape(3, 4)
        check(xp.asarray(host.T), host.T)
        check(xp.asarray(host[::-1, ::2]), host[::-1, ::2])
        check(xp.asarray(host.astype(">f8")), host)
        check(xp.asarray(np.array([1, 2], ">i4")), np.array([1, 2], np.int32))
        check(xp.asarray(np.broadcast_to(1.0, (2, 3))), np.ones((2, 3)))

    def test_jax_arrays_are_shared_and_never_written(self) -> None:
        j = jnp.arange(3.0)
        x = xp.asarray(j)
        x[0] = 9.0
        np.testing.assert_array_equal(j, [0, 1, 2])
        y = xp.asarray(j, copy=True)
        jax.jit(lambda v: v + 1, donate_argnums=0)(j)
        check(y, np.array([0, 1, 2], np.float32))

    def test_buffers(self) -> None:
        check(xp.asarray(b"ab"), np.array([97, 98], np.uint8))
        check(xp.asarray(bytearray(b"ab")), np.array([97, 98], np.uint8))
        check(xp.asarray(memoryview(np.arange(4.0).reshape(2, 2))), np.arange(4.0).reshape(2, 2))
        check(xp.asarray(array.array("i", [1, 2])), np.array([1, 2], np.int32))

    def test_protocols(self) -> None:
        class HasArray:
            def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
                return np.array([1, 2], np.int16)

        class HasDLPack:
            held = np.array([3.0, 4.0])

            def __dlpack__(self, **options: Any) -> Any:
                return self.held.__dlpack__(**options)

            def __dlpack_device__(self) -> tuple[int, int]:
                return self.held.__dlpack_device__()

        check(xp.asarray(HasArray()), np.array([1, 2], np.int16))
        check(xp.asarray(HasArray(), dtype=xp.float32), np.array([1, 2], np.float32))
        check(xp.asarray(HasDLPack()), np.array([3.0, 4.0]))
        check(xp.asarray(HasDLPack(), dtype=xp.int8, copy=True), np.array([3, 4], np.int8))
        HasDLPack.held[0] = 0.0

    def test_host_memory_is_released(self) -> None:
        host = np.ones(10)
        gone = weakref.ref(host)
        x = xp.asarray(host)
        del host
        gc.collect()
        assert gone() is None
        check(x, np.ones(10))


class TestFromDLPack:
    def test_read_only_source(self) -> None:
        host = np.arange(3.0, dtype=np.float32)
        host.flags.writeable = False
        x = xp.from_dlpack(host)
        check(x, np.arange(3, dtype=np.float32))
        x[0] = 5.0
        assert host[0] == 0.0

    def test_later_writes_do_not_travel(self) -> None:
        host = np.arange(3.0)
        x = xp.from_dlpack(host)
        host[0] = -1.0
        check(x, [0.0, 1.0, 2.0])

    @pytest.mark.parametrize("copy", [None, True, False])
    def test_own_arrays(self, copy: bool | None) -> None:
        x = xp.asarray([1.0, 2.0])
        y = xp.from_dlpack(x, copy=copy)
        check(y, [1.0, 2.0])
        y[0] = 9.0
        check(x, [1.0, 2.0])

    def test_repeated_export(self) -> None:
        x = xp.asarray([1.0, 1.0])
        x.__dlpack__()
        np.testing.assert_array_equal(np.from_dlpack(x), [1, 1])
        np.testing.assert_array_equal(np.from_dlpack(x), [1, 1])

    def test_no_copy_of_host_memory(self) -> None:
        with pytest.raises(ValueError, match="copy"):
            xp.from_dlpack(np.ones(2), copy=False)

    def test_not_exportable(self) -> None:
        with pytest.raises(AttributeError):
            xp.from_dlpack([1, 2])  # type: ignore[arg-type]


class TestTracing:
    def test_creation_inside_a_plain_jit(self) -> None:
        @jax.jit
        def f(v: jax.Array) -> jax.Array:
            x = xp.Array(v)
            y = xp.zeros(3, dtype=xp.float32) + xp.ones_like(x) + xp.full_like(x, 2) + xp.full(3, 0.5, dtype=xp.float32)
            y[0] = 10.0
            return (y + x).jax

        np.testing.assert_array_equal(f(jnp.zeros(3)), np.array([10, 3.5, 3.5], np.float32))
        check(xp.zeros(3, dtype=xp.float32), np.zeros(3, np.float32))
        check(xp.full(3, 0.5, dtype=xp.float32), np.full(3, 0.5, np.float32))

    def test_new_constants_of_a_trace_do_not_leak(self) -> None:
        @jax.jit
        def f(v: jax.Array) -> jax.Array:
            return (xp.full(3, 0.625, dtype=xp.float32) + xp.arange(3, dtype=xp.float32) + xp.Array(v)).jax

        f(jnp.zeros(3))
        check(xp.full(3, 0.625, dtype=xp.float32), np.full(3, 0.625, np.float32))
        check(xp.arange(3, dtype=xp.float32), np.arange(3, dtype=np.float32))
