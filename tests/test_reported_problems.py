"""Problems that users of JAX and of wrappers around it reported in public, as tests: functions, transforms, devices.

Each test covers the kind, not only the input of the report. Expected values are literals or float64 formulas. The
array object has a file of its own, ``test_reported_problems_arrays.py``; what the wheel requires is tested in
``test_packaging.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
import numpy as np
import pytest

import rtx_jax as xp

REAL_DTYPES = ("float32", "float64", "float16", "bfloat16")
INF, NAN = math.inf, math.nan


def same(actual: xp.Array, expected: object) -> None:
    """Equal values and shape; NaN equals NaN."""
    wanted = np.asarray(expected)
    assert tuple(actual.shape) == wanted.shape
    np.testing.assert_array_equal(np.asarray(actual), wanted)


def both_ways(function: Callable[..., xp.Array], *operands: xp.Array) -> Iterator[np.ndarray]:
    """The result of a function, eager and under jit."""
    yield np.asarray(function(*operands))
    yield np.asarray(xp.jit(function)(*operands))


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Collect one entry for each program that JAX compiles in the block."""
    seen: list[str] = []
    active = True

    def listen(event: str, duration_secs: float, **_: object) -> None:
        if active and event.endswith("backend_compile_duration"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        active = False


# Signs of zero in remainder and floor division: jax-ml/jax#40028, #37752, #40170


@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_a_zero_remainder_takes_the_sign_of_the_divisor(dtype: str) -> None:
    x1 = xp.asarray([-1.0, -4.0, 0.0, 4.0, -0.0, 6.0, 0.0], dtype=dtype)
    x2 = xp.asarray([1.0, 2.0, -3.0, -2.0, 5.0, 3.0, -INF], dtype=dtype)
    for result in both_ways(xp.remainder, x1, x2):
        assert result.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(result.astype(np.float64), np.zeros(7))
        np.testing.assert_array_equal(
            np.signbit(result.astype(np.float64)), [False, False, True, True, False, False, True]
        )


@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_floor_division_by_zero_and_of_zero(dtype: str) -> None:
    x1 = xp.asarray([1.0, -1.0, 1.0, -1.0, 0.0, -0.0, 0.0, -0.0, INF, 1.0, -1.0], dtype=dtype)
    x2 = xp.asarray([0.0, 0.0, -0.0, -0.0, 3.0, 3.0, -3.0, -3.0, 2.0, INF, INF], dtype=dtype)
    wanted = np.asarray([INF, -INF, -INF, INF, 0.0, -0.0, -0.0, 0.0, INF, 0.0, -0.0])
    for result in both_ways(xp.floor_divide, x1, x2):
        np.testing.assert_array_equal(result.astype(np.float64), wanted)
        np.testing.assert_array_equal(np.signbit(result.astype(np.float64)), np.signbit(wanted))
    assert math.isnan(float(xp.floor_divide(xp.asarray(0.0, dtype=dtype), xp.asarray(0.0, dtype=dtype))))


# Variance without degrees of freedom: jax-ml/jax#21330, scipy/scipy#23177


@pytest.mark.parametrize("function", [xp.var, xp.std])
@pytest.mark.parametrize("dtype", REAL_DTYPES)
@pytest.mark.parametrize(
    ("values", "correction"), [([1.0], 1), ([1.0, 2.0], 2), ([1.0, 2.0], 3), ([], 0), ([], 1), ([1.0], 1.5)]
)
def test_spread_without_degrees_of_freedom_is_nan(
    values: list[float], correction: float, dtype: str, function: Callable[..., xp.Array]
) -> None:
    x = xp.asarray(values, dtype=dtype)
    for result in both_ways(lambda a: function(a, correction=correction), x):
        assert np.isnan(result)
    rows = xp.reshape(x, (1, -1)) if values else xp.zeros((1, 0), dtype=dtype)
    assert np.isnan(np.asarray(function(rows, axis=1, correction=correction))).all()


# What came with 2025.12 was missing or half done: data-apis/array-api-compat#105, data-apis/array-api-tests#401


def test_functions_and_signatures_of_2025_12() -> None:
    assert xp.expand_dims(xp.ones(3), axis=(0, 2)).shape == (1, 3, 1)
    assert xp.expand_dims(xp.ones(3), axis=(-1, 0)).shape == (1, 3, 1)
    assert tuple(xp.broadcast_shapes((2, 1), (3,))) == (2, 3)
    assert tuple(xp.broadcast_shapes((0, 1), (1, 4), ())) == (0, 4)
    same(xp.isin(xp.asarray([1, 2, 3]), xp.asarray([2, 9])), [False, True, False])
    same(xp.isin(xp.asarray([1, 2, 3]), 2, invert=True), [True, False, True])
    same(xp.isin(2, xp.asarray([2, 9])), True)
    assert int(xp.searchsorted(xp.asarray([1.0, 2.0, 3.0]), 2.5)) == 2
    assert xp.searchsorted(xp.asarray([1.0, 2.0, 3.0]), 2.5).shape == ()
    assert xp.permute_dims(xp.ones((2, 3)), (-1, 0)).shape == (3, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_general_eigenvalues_are_complex_even_of_real_input(dtype: str) -> None:
    rotation = xp.asarray([[0.0, 1.0], [-1.0, 0.0]], dtype=dtype)
    values = np.asarray(xp.linalg.eigvals(rotation))
    np.testing.assert_allclose(np.sort(values.imag), [-1.0, 1.0], rtol=1e-6)
    diagonal = xp.linalg.eig(xp.asarray([[2.0, 0.0], [0.0, 3.0]], dtype=dtype))
    assert xp.isdtype(diagonal.eigenvalues.dtype, "complex floating")
    assert xp.isdtype(diagonal.eigenvectors.dtype, "complex floating")


# Wide host integers were cut: jax-ml/jax#18385


@pytest.mark.parametrize("value", [2**32, -(2**40), 2**63 - 1, -(2**63)])
def test_wide_integers_are_kept(value: int) -> None:
    assert np.asarray(xp.asarray(np.asarray([value]))).tolist() == [value]
    assert np.asarray(xp.asarray([value])).tolist() == [value]
    assert int(xp.asarray(value)) == value
    assert int(xp.full((), value)) == value
    assert int(xp.asarray(0, dtype=xp.int64) + value) == value


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**70])
def test_integers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(OverflowError):
        xp.asarray(value)
    with pytest.raises(OverflowError):
        xp.asarray([value], dtype=xp.int64)


def test_a_wide_unsigned_integer_is_kept() -> None:
    assert int(xp.asarray(np.uint64(2**64 - 1))) == 2**64 - 1
    assert int(xp.asarray(2**64 - 1, dtype=xp.uint64)) == 2**64 - 1


# Casts from float to integer differed between paths: jax-ml/jax#13101, IntelPython/dpnp#3033


def saturated(value: float, dtype: str) -> int:
    """Toward zero, to the nearest end of the range, NaN to 0."""
    limits = np.iinfo(dtype)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(limits.max if value > 0 else limits.min)
    return max(int(limits.min), min(int(limits.max), math.trunc(value)))


@pytest.mark.parametrize("target", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("source", REAL_DTYPES)
def test_casts_saturate_on_every_path(source: str, target: str) -> None:
    x = xp.asarray([-20.0, 300.0, 3e9, NAN, INF, -INF, -0.75, 1e30, -1e30, 2.9], dtype=source)
    exact = np.asarray(x).astype(np.float64).tolist()
    wanted = [saturated(value, target) for value in exact]
    for result in both_ways(lambda a: xp.astype(a, target), x):
        assert result.dtype == np.dtype(target)
        assert result.tolist() == wanted
    assert np.asarray(xp.asarray(x, dtype=target)).tolist() == wanted


# Half-precision reductions stalled: jax-ml/jax#17792, jax-ml/ml_dtypes#63


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_reductions_accumulate_wider(dtype: str) -> None:
    ones = xp.ones(1000, dtype=dtype)
    for result in both_ways(xp.sum, ones):
        assert result.dtype == np.dtype(dtype)
        assert float(result) == 1000.0
    for result in both_ways(lambda a: xp.vecdot(a, a), ones):
        assert float(result) == 1000.0
    for result in both_ways(lambda a: xp.matmul(a, a), ones):
        assert float(result) == 1000.0
    for result in both_ways(lambda a: xp.linalg.vector_norm(a, ord=1), ones):
        assert float(result) == 1000.0
    for result in both_ways(lambda a: xp.cumulative_sum(a)[-1], ones):
        assert float(result) == 1000.0


def test_mean_and_spread_of_many_small_halves() -> None:
    small = xp.full(2**20, 1e-5, dtype=xp.float16)
    assert float(xp.mean(small)) == pytest.approx(1e-5, rel=5e-3)
    alternating = xp.tile(xp.asarray([1.0, 3.0], dtype=xp.bfloat16), (5000,))
    assert float(xp.mean(alternating)) == 2.0
    assert float(xp.var(alternating)) == 1.0
    assert float(xp.std(alternating)) == 1.0


# DLPack of read-only memory, and a second export: jax-ml/jax#40789, #4636, scverse/anndata#2561


def test_an_import_of_read_only_memory_can_be_written_and_leaves_its_owner_alone() -> None:
    owner = np.arange(3.0, dtype=np.float32)
    owner.flags.writeable = False
    for array in (xp.from_dlpack(owner), xp.asarray(owner), xp.from_dlpack(owner, copy=True)):
        same(array, [0.0, 1.0, 2.0])
        array[0] = 5.0
        same(array, [5.0, 1.0, 2.0])
        np.testing.assert_array_equal(owner, [0.0, 1.0, 2.0])


def test_an_array_is_exported_any_number_of_times() -> None:
    array = xp.asarray([1.0, 1.0])
    array.__dlpack__()
    exports = [np.from_dlpack(array) for _ in range(3)]
    array[0] = 9.0
    for export in exports:
        np.testing.assert_array_equal(export, [1.0, 1.0])
    np.testing.assert_array_equal(np.from_dlpack(array), [9.0, 1.0])


# The unused branch of a where made the gradient NaN: jax-ml/jax#5798


def test_gradient_of_a_guarded_branch() -> None:
    def guarded(x: xp.Array) -> xp.Array:
        small = x < 1.0
        return xp.where(small, x, xp.sqrt(xp.where(small, xp.ones_like(x), x)))

    gradient = xp.grad(guarded)
    assert float(gradient(xp.asarray(0.0))) == 1.0
    assert float(gradient(xp.asarray(4.0))) == 0.25


POINTS_WITH_A_FINITE_GRADIENT: dict[str, tuple[Callable[[xp.Array], xp.Array], float, float]] = {
    "abs at 0": (xp.abs, 0.0, 0.0),
    "sign at 0": (xp.sign, 0.0, 0.0),
    "square at 0": (xp.square, 0.0, 0.0),
    "x**2 at 0": (lambda x: x**2, 0.0, 0.0),
    "x**2.0 at 0": (lambda x: x**2.0, 0.0, 0.0),
    "pow(x, 2) at 0": (lambda x: xp.pow(x, xp.asarray(2.0)), 0.0, 0.0),
    "maximum at a tie": (lambda x: xp.maximum(x, xp.zeros_like(x)), 0.0, 0.5),
    "clip at a bound": (lambda x: xp.clip(x, 0.0, 1.0), 1.0, 1.0),
    "logaddexp of -inf": (lambda x: xp.logaddexp(x, xp.asarray(-INF)), 1.0, 1.0),
    "floor_divide": (lambda x: xp.floor_divide(x, xp.asarray(2.0)), 3.0, 0.0),
    "remainder": (lambda x: xp.remainder(x, xp.asarray(2.0)), 3.0, 1.0),
}


@pytest.mark.parametrize("name", POINTS_WITH_A_FINITE_GRADIENT)
def test_no_operation_of_ours_differentiates_an_unused_branch(name: str) -> None:
    function, point, wanted = POINTS_WITH_A_FINITE_GRADIENT[name]
    for dtype in (xp.float32, xp.float64):
        assert float(xp.grad(function)(xp.asarray(point, dtype=dtype))) == wanted


# A weak type made the second step trace again: jax-ml/jax#3163, #4274, google-deepmind/optax#1440


STARTS: dict[str, Callable[[], xp.Array]] = {
    "asarray": lambda: xp.asarray(0.0),
    "zeros": lambda: xp.zeros(()),
    "full": lambda: xp.full((), 0.0),
    "scalar product": lambda: xp.asarray(1.0) * 0.0,
    "ones_like": lambda: xp.ones_like(xp.asarray(0.0)),
    "sum": lambda: xp.sum(xp.zeros(2)),
    "index": lambda: xp.zeros(2)[0],
    "linspace": lambda: xp.linspace(0.0, 1.0, 2)[0],
    "where": lambda: xp.where(xp.asarray(True), xp.asarray(0.0), 1.0),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_loop_traces_its_step_once(name: str) -> None:
    traces = []

    def step(state: xp.Array, rate: xp.Array) -> xp.Array:
        traces.append(state)
        return state * 0.9 + rate * xp.ones((), dtype=state.dtype)

    compiled = xp.jit(step)
    state = start = STARTS[name]()
    assert not start.jax.weak_type
    for _ in range(4):
        state = compiled(state, xp.asarray(0.1))
    assert len(traces) == 1


# Each new length of a slice compiled: jax-ml/jax#12999, #12198, #12763


GROWING: dict[str, Callable[[xp.Array, int], xp.Array]] = {
    "prefix": lambda x, n: x[:n],
    "suffix": lambda x, n: x[n:],
    "window": lambda x, n: x[n : 2 * n],
    "step": lambda x, n: x[: 3 * n : 3],
    "reversed": lambda x, n: x[n::-1],
}


@pytest.mark.parametrize("name", GROWING)
def test_growing_slices_do_not_compile_each_time(name: str) -> None:
    x = xp.arange(5003)
    host = np.arange(5003)
    pick = GROWING[name]
    same(pick(x, 9), pick(host, 9))
    with compilations() as seen:
        for n in range(10, 50):
            same(pick(x, n), pick(host, n))
    assert len(seen) <= 2


def test_positions_do_not_compile_each_time() -> None:
    x = xp.arange(5003)

    def use(i: int) -> None:
        assert int(x[i]) == i
        same(x[i : i + 12], np.arange(i, i + 12))
        x[i - 5] = -1
        x[i - 17 : i - 5] = -1

    use(20)
    with compilations() as seen:
        for i in range(21, 101):
            use(i)
    assert len(seen) <= 8  # each of the four kinds once it recurs, for an owned and for a shared buffer


# One release compiled a batched product wrongly: jax-ml/jax#39103, jax-md/jax-md#412


@pytest.mark.parametrize("length", [17, 16385, 32769])
def test_eager_and_jit_agree_at_awkward_sizes(length: int) -> None:
    ramp = xp.arange(length, dtype=xp.float32)
    rows = xp.stack([ramp, xp.zeros_like(ramp), xp.zeros_like(ramp)], axis=1)
    identity = xp.eye(3, dtype=xp.float32)
    for result in both_ways(lambda a: xp.sum((a @ identity) ** 2, axis=1), rows):
        assert result.shape == (length,)
        np.testing.assert_allclose(result[-1], (length - 1) ** 2, rtol=1e-6)


# float32 products ran in lower precision on newer devices: jax-ml/jax#12008, #14157, #19444


PRODUCTS: dict[str, Callable[[xp.Array], xp.Array]] = {
    "matmul": lambda a: xp.matmul(a, xp.matrix_transpose(a)),
    "@": lambda a: a @ a.T,
    "tensordot": lambda a: xp.tensordot(a, a, axes=([1], [1])),
    "linalg.matmul": lambda a: xp.linalg.matmul(a, a.mT),
    "vecdot": lambda a: xp.vecdot(xp.expand_dims(a, axis=1), xp.expand_dims(a, axis=0)),
    "einsum": lambda a: xp.einsum("ij,kj->ik", a, a),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_float32_are_float32(name: str) -> None:
    a = np.asarray([[1.1111111, 2.2222222], [3.3333333, 4.4444444]], np.float32)
    wanted = a.astype(np.float64) @ a.T.astype(np.float64)
    for result in both_ways(PRODUCTS[name], xp.asarray(a)):
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, wanted, rtol=2e-6)


# Corner cases that device plugins got wrong: tillahoffmann/jax-mps#123, #231, jax-ml/jax#21393


def test_elementwise_corner_cases() -> None:
    for result in both_ways(xp.sign, xp.asarray([NAN, -0.0, 2.0])):
        np.testing.assert_array_equal(result, [NAN, 0.0, 1.0])
    big = xp.asarray([16777217, -7], dtype=xp.int32)  # the first is not a float32
    for result in both_ways(xp.floor_divide, big, xp.asarray([1, 2], dtype=xp.int32)):
        np.testing.assert_array_equal(result, [16777217, -4])
    for result in both_ways(
        lambda a: xp.astype(xp.astype(a, xp.int32), xp.float32), xp.asarray([40000], dtype=xp.uint16)
    ):
        np.testing.assert_array_equal(result, [40000.0])
    for result in both_ways(lambda a: a / math.pi, xp.asarray([math.pi])):
        np.testing.assert_array_equal(result, [1.0])
    ends_in_nan = xp.asarray([0.0, 1.0, NAN])
    for result in both_ways(xp.searchsorted, ends_in_nan, xp.asarray([0.5, 2.0, NAN])):
        np.testing.assert_array_equal(result, [1, 2, 2])


# Mixing devices failed with an opaque error: jax-ml/jax#1914, Physical-Intelligence/openpi#261


def test_placement_is_kept() -> None:
    device = jax.devices()[-1]
    x = xp.ones(2, device=device)
    assert x.device == device
    for made in (
        xp.zeros(2, device=x.device),
        xp.zeros_like(x),
        x + 1.0,
        x + np.ones(2, np.float32),
        np.ones(2) + x,
        x[:1],
        xp.sum(x),
        xp.asarray([1.0], device=device),
    ):
        assert made.device == device
    x[0] = 3.0
    assert x.device == device
    same(x + np.ones(2), [4.0, 2.0])


def test_mixing_devices_names_both() -> None:
    first, second = jax.devices()[:2]
    a, b = xp.ones(2, device=first), xp.ones(2, device=second)
    mixed: list[Callable[[], object]] = [
        lambda: a + b,
        lambda: xp.add(a, b),
        lambda: xp.concat([a, b]),
        lambda: xp.where(a > 0, a, b),
        lambda: xp.matmul(a, b),
        lambda: a.__iadd__(b),
        lambda: a.__setitem__(0, b[0]),
        lambda: xp.take(a, xp.asarray([0], device=second), axis=0),
    ]
    for attempt in mixed:
        with pytest.raises(xp.errors.DeviceMismatch) as caught:
            attempt()
        assert str(first) in str(caught.value)
        assert str(second) in str(caught.value)
    same(a, [1.0, 1.0])
