"""Activations: values against float64 formulas of SciPy, limits, kinks and gradients."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.checking import DTYPES, array, assert_gradients, assert_ulp, under_jit

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
INF, NAN = math.inf, math.nan
LAMBDA, ALPHA = 1.0507009873554805, 1.6732632423543772


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x * sp.expit(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))


def _elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _celu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _softplus(x: np.ndarray, beta: float = 1.0) -> np.ndarray:
    return np.where(beta * x > 20, x, np.logaddexp(beta * x, 0) / beta)


# name, parameters, float64 formula, ULP allowed in float32 and float64, limits and their derivatives at -infinity and
# infinity. Measured at most: leaky_relu 0.8, elu, selu and celu 1, tanh 2.6, sigmoid 1.3, silu 1.4, mish 4, softplus 2,
# hard_sigmoid 1; gelu 27 and its form by tanh 22, whose tails magnify the rounding of their argument.
TABLE: dict[str, tuple[str, dict[str, object], Callable[[np.ndarray], np.ndarray], float, tuple[float, ...]]] = {
    "relu": ("relu", {}, lambda x: np.maximum(x, 0), 0, (0, INF, 0, 1)),
    "leaky_relu": ("leaky_relu", {}, lambda x: np.maximum(0.01 * x, x), 1, (-INF, INF, 0.01, 1)),
    "leaky_relu0": ("leaky_relu", {"negative_slope": 0.0}, lambda x: np.maximum(x, 0), 0, (0, INF, 0, 1)),
    "leaky_relu1": ("leaky_relu", {"negative_slope": 1.0}, lambda x: x, 0, (-INF, INF, 1, 1)),
    "leaky_relu2": ("leaky_relu", {"negative_slope": 2.0}, lambda x: np.maximum(2 * x, x), 0, (-INF, INF, 1, 2)),
    "leaky_relu-1": ("leaky_relu", {"negative_slope": -1.0}, np.abs, 0, (INF, INF, -1, 1)),
    "elu": ("elu", {}, _elu, 2, (-1, INF, 0, 1)),
    "elu2": ("elu", {"alpha": 2.0}, lambda x: _elu(x, 2.0), 2, (-2, INF, 0, 1)),
    "selu": ("selu", {}, lambda x: LAMBDA * _elu(x, ALPHA), 3, (-LAMBDA * ALPHA, INF, 0, LAMBDA)),
    "celu": ("celu", {"alpha": 0.5}, lambda x: _celu(x, 0.5), 2, (-0.5, INF, 0, 1)),
    "gelu": ("gelu", {}, lambda x: x * sp.ndtr(x), 30, (-0.0, INF, 0, 1)),
    "gelu_tanh": ("gelu", {"approximate": "tanh"}, _gelu_tanh, 60, (-0.0, INF, 0, 1)),
    "tanh": ("tanh", {}, np.tanh, 8, (-1, 1, 0, 0)),
    "sigmoid": ("sigmoid", {}, sp.expit, 4, (0, 1, 0, 0)),
    "silu": ("silu", {}, lambda x: x * sp.expit(x), 4, (-0.0, INF, 0, 1)),
    "mish": ("mish", {}, lambda x: x * np.tanh(np.logaddexp(x, 0)), 10, (-0.0, INF, 0, 1)),
    "softplus": ("softplus", {}, _softplus, 4, (0, INF, 0, 1)),
    "softplus_beta": ("softplus", {"beta": 0.5}, lambda x: _softplus(x, 0.5), 4, (0, INF, 0, 1)),
    "hard_sigmoid": ("hard_sigmoid", {}, lambda x: np.clip(x + 3, 0, 6) / 6, 2, (0, 1, 0, 0)),
}
POINTS = np.concatenate([np.linspace(-6, 6, 97), [-3, 3, 1e-3, -1e-3, 30, 700]])


def _every(x: jax.Array) -> list[jax.Array]:
    return [getattr(ops, name)(x, **params) for name, params, *_ in TABLE.values()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(dtype: np.dtype) -> None:
    x = array(POINTS, dtype)
    compiled = under_jit(_every, x)
    for (name, params, formula, ulp, _), other in zip(TABLE.values(), compiled, strict=True):
        want = formula(np.asarray(x).astype(np.float64))
        # 16-bit floats are computed in float32 and rounded once.
        allowed = max(ulp if dtype.itemsize > 2 else 0.501 if ulp <= 4 else 0.6, 0.501)
        assert_ulp(getattr(nn, name)(x, **params), want, allowed, dtype)
        assert_ulp(other, want, allowed, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_limits_and_nan(dtype: np.dtype) -> None:
    big = 1e4 if dtype == np.float16 else 1e30
    x = array([-INF, INF, NAN, -big, big], dtype)
    for case, out in zip(TABLE, under_jit(_every, x), strict=True):
        low, high, *_ = TABLE[case][-1]
        got = np.asarray(out).astype(np.float64)
        assert got[0] == np.asarray(low, dtype) and got[1] == np.asarray(high, dtype), case
        if low == 0:
            assert np.signbit(got[0]) == np.signbit(low), case
        assert np.isnan(got[2]), case
        assert not np.isnan(got[3:]).any(), case


def _slopes(x: xp.Array) -> list[xp.Array]:
    """The derivative of each activation at each point, in reverse mode."""

    def loss(x: xp.Array, name: str, params: dict[str, object]) -> xp.Array:
        return xp.sum(getattr(nn, name)(x, **params))

    return xp.jit(lambda x: [xp.grad(loss)(x, name, params) for name, params, *_ in TABLE.values()])(x)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_derivatives(dtype: np.dtype) -> None:
    inside = np.linspace(-4.05, 4.05, 24)
    x = array([-INF, -1e20, 1e20, INF, *inside], dtype)
    for case, got in zip(TABLE, _slopes(x), strict=True):
        _, _, formula, _, (_, _, low, high) = TABLE[case]
        assert got.dtype == dtype
        np.testing.assert_allclose(np.asarray(got)[:4], [low, low, high, high], rtol=1e-6, err_msg=case)
        points = np.asarray(x)[4:].astype(np.float64)
        h = 1e-6
        want = (formula(points + h) - formula(points - h)) / (2 * h)
        tolerance = 1e-8 if dtype == F64 else 2e-6
        np.testing.assert_allclose(
            np.asarray(got)[4:], want, rtol=1e-7 if dtype == F64 else 1e-5, atol=tolerance, err_msg=case
        )


def test_forward_and_second_derivatives() -> None:
    x = array(np.linspace(-3.55, 3.55, 8))
    one = xp.ones_like(x)

    def twice(x: xp.Array, name: str, params: dict[str, object]) -> tuple[xp.Array, xp.Array]:
        fn = functools.partial(getattr(nn, name), **params)
        slope = lambda x: xp.jvp(fn, (x,), (one,))[1]  # noqa: E731
        return slope(x), xp.grad(lambda x: xp.sum(slope(x)))(x)

    found = xp.jit(lambda x: [twice(x, name, params) for name, params, *_ in TABLE.values()])(x)
    for case, (first, second), reverse in zip(TABLE, found, _slopes(x), strict=True):
        formula = TABLE[case][2]
        np.testing.assert_allclose(np.asarray(first), np.asarray(reverse), rtol=1e-12, err_msg=case)
        points, h = np.asarray(x), 1e-4
        want = (formula(points + h) - 2 * formula(points) + formula(points - h)) / h**2
        np.testing.assert_allclose(np.asarray(second), want, atol=1e-6, err_msg=case)


@pytest.mark.parametrize(
    ("name", "params", "at", "want"),
    [
        ("relu", {}, 0.0, 0.0),
        ("leaky_relu", {}, 0.0, 0.505),  # the greater of two equals shares its gradient
        ("leaky_relu", {"negative_slope": 0.0}, 0.0, 0.5),
        ("elu", {"alpha": 2.0}, 0.0, 2.0),
        ("selu", {}, 0.0, LAMBDA * ALPHA),
        ("celu", {"alpha": 2.0}, 0.0, 1.0),
        ("gelu", {}, 0.0, 0.5),
        ("gelu", {"approximate": "tanh"}, 0.0, 0.5),
        ("silu", {}, 0.0, 0.5),
        ("mish", {}, 0.0, 0.6),
        ("softplus", {}, 0.0, 0.5),
        ("hard_sigmoid", {}, -3.0, 1 / 6),  # 1 at the bounds of clamp
        ("hard_sigmoid", {}, 3.0, 1 / 6),
        ("elu", {}, 1e5, 1.0),
        ("softplus", {}, 1e5, 1.0),
    ],
)
def test_derivatives_at_kinks(name: str, params: dict[str, object], at: float, want: float) -> None:
    for x in (array(at, F32), array(at, F64)):
        got = xp.grad(lambda x: getattr(nn, name)(x, **params))(x)
        assert float(got) == pytest.approx(want, rel=1e-6)
        assert got.dtype == x.dtype


def test_the_two_forms_of_gelu_differ() -> None:
    # The normal distribution function of 1 is 0.8413447460685429.
    assert float(nn.gelu(array(1.0))) == pytest.approx(0.8413447460685429, rel=1e-14)
    assert float(nn.gelu(array(1.0), approximate="tanh")) == pytest.approx(0.8411919906082768, rel=1e-12)


def test_sigmoid_is_symmetric_and_saturates() -> None:
    x = array(np.linspace(0, 20, 41), F32)
    np.testing.assert_allclose(np.asarray(nn.sigmoid(-x)), 1 - np.asarray(nn.sigmoid(x)), atol=1.2e-7)
    np.testing.assert_array_equal(np.asarray(nn.sigmoid(array([-1e4, 1e4], F32))), [0, 1])
    np.testing.assert_array_equal(np.asarray(nn.tanh(array([-1e4, 1e4], F32))), [-1, 1])


def test_softplus_is_linear_above_its_threshold() -> None:
    assert float(nn.softplus(array(3.0), threshold=2.0)) == 3.0
    assert float(nn.softplus(array(3.0), threshold=4.0)) == pytest.approx(math.log1p(math.exp(3)), rel=1e-14)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits(dtype: str) -> None:
    x = array([-2, -0.5, 0, 1.5], np.dtype(getattr(xp, dtype).dtype if hasattr(xp, dtype) else dtype))
    got = nn.silu(x)
    assert got.dtype == x.dtype
    want = (lambda v: v * sp.expit(v))(np.array([-2, -0.5, 0, 1.5])).astype(x.dtype)
    np.testing.assert_array_equal(np.asarray(got), want)


# Gates


def test_glu_and_swiglu_split_an_axis() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6))
    for axis in (0, 1, -1):
        a, b = np.split(x, 2, axis)
        assert_ulp(nn.glu(array(x), axis=axis), a * sp.expit(b), 8, F64)
        assert_ulp(nn.swiglu(array(x), axis=axis), a * sp.expit(a) * b, 8, F64)
    assert_gradients(lambda x: nn.glu(x), lambda x: x[:, :3] * sp.expit(x[:, 3:]), [x])
    assert_gradients(lambda x: nn.swiglu(x), lambda x: x[:, :3] * sp.expit(x[:, :3]) * x[:, 3:], [x])


def test_silu_mul_rounds_once() -> None:
    rng = np.random.default_rng(1)
    for dtype in DTYPES:
        a, b = array(rng.standard_normal(50), dtype), array(rng.standard_normal(50), dtype)
        a64, b64 = (np.asarray(v).astype(np.float64) for v in (a, b))
        assert_ulp(nn.silu_mul(a, b), a64 * sp.expit(a64) * b64, 5 if dtype.itemsize > 2 else 0.51, dtype)


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_prelu(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    x, weight = rng.standard_normal((2, 3, 4)), rng.uniform(0.1, 0.5, shape)
    slope = weight.reshape(1, 3, 1) if shape == (3,) else weight.reshape(())

    def formula(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.where(x > 0, x, (w.reshape(1, 3, 1) if w.shape == (3,) else w.reshape(())) * x)

    assert_ulp(nn.prelu(array(x), array(weight)), np.where(x > 0, x, slope * x), 1, F64)
    assert_gradients(nn.prelu, formula, [x, weight])


def test_an_infinity_that_prelu_keeps_leaves_the_gradient_of_the_weight_finite() -> None:
    got = xp.grad(lambda w: xp.sum(nn.prelu(array([INF, -2.0]), w)))(array(0.25))
    assert float(got) == -2.0


# Softmax


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_and_its_logarithm(dtype: np.dtype) -> None:
    x = array(np.random.default_rng(3).standard_normal((3, 5, 7)) * 4, dtype)
    wide = np.asarray(x).astype(np.float64)
    for axis in (0, 1, -1):
        ulp = 20 if dtype.itemsize > 2 else 0.51  # 14.3: the distance from the greatest is rounded
        assert_ulp(nn.softmax(x, axis=axis), sp.softmax(wide, axis), ulp, dtype)
        assert_ulp(under_jit(functools.partial(ops.softmax, dim=axis), x), sp.softmax(wide, axis), ulp, dtype)
        want = sp.log_softmax(wide, axis)
        assert_ulp(nn.log_softmax(x, axis=axis), want, ulp, dtype, least=1.0)
        assert_ulp(under_jit(functools.partial(ops.log_softmax, dim=axis), x), want, ulp, dtype, least=1.0)


def test_softmax_of_large_and_shifted_values() -> None:
    x = array([-1e4, 0.0, 1e4], F32)
    np.testing.assert_array_equal(np.asarray(nn.softmax(x)), [0, 0, 1])
    np.testing.assert_array_equal(np.asarray(nn.log_softmax(x)), [-2e4, -1e4, 0])
    base = np.array([1.0, 2.0, 4.0])
    np.testing.assert_array_equal(
        np.asarray(nn.softmax(array(base, F32))), np.asarray(nn.softmax(array(base + 512, F32)))
    )


def test_softmax_without_a_finite_value_is_nan() -> None:
    got = np.asarray(nn.softmax(array([[-INF, -INF], [INF, 0], [NAN, 0], [-INF, 0]], F32)))
    np.testing.assert_array_equal(np.isnan(got), [[True, True], [True, True], [True, True], [False, False]])
    np.testing.assert_array_equal(got[3], [0, 1])


def test_softmax_of_many_halves_adds_up() -> None:
    for dtype in DTYPES[2:]:
        got = np.asarray(nn.softmax(array(np.zeros(4096), dtype))).astype(np.float64)
        np.testing.assert_array_equal(got, 2.0**-12)


def test_softmax_of_nothing() -> None:
    assert nn.softmax(xp.zeros((2, 0), dtype=xp.float32)).shape == (2, 0)
    assert nn.log_softmax(xp.zeros((0, 3), dtype=xp.float32)).shape == (0, 3)


def test_gradients_of_softmax() -> None:
    x = np.random.default_rng(4).standard_normal((2, 4))
    assert_gradients(nn.softmax, lambda x: sp.softmax(x, -1), [x])
    assert_gradients(nn.log_softmax, lambda x: sp.log_softmax(x, -1), [x])


# Everything else


def test_the_compiled_program_is_that_of_jax() -> None:
    x = jnp.ones((64,), jnp.float32)
    pairs = [
        (ops.relu, jax.nn.relu),
        (ops.tanh, jnp.tanh),
        (ops.sigmoid, jax.nn.sigmoid),
        (ops.elu, jax.nn.elu),
        (lambda x: ops.softmax(x, dim=-1), jax.nn.softmax),
    ]
    for ours, theirs in pairs:
        texts = []
        for fn in (ours, theirs):

            def program(x: jax.Array, fn: Callable[[jax.Array], jax.Array] = fn) -> jax.Array:
                return fn(x)

            text = jax.jit(program).lower(x).compile().as_text()
            lines = [line.split(", metadata=")[0] for line in text.splitlines() if " = " in line]
            texts.append([re.sub(r"\.\d+", "", line) for line in lines])
        assert texts[0] == texts[1]


def test_vmap_and_weak_types() -> None:
    x = xp.asarray(np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4))
    np.testing.assert_array_equal(np.asarray(xp.vmap(nn.mish)(x)), np.asarray(nn.mish(x)))
    assert not jax.jit(ops.gelu)(x.jax).weak_type


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nn.relu(xp.asarray([1, 2])), errors.UnsupportedDType),
        (lambda: nn.gelu(xp.asarray([1j])), errors.UnsupportedDType),
        (lambda: nn.silu(xp.asarray([True])), errors.UnsupportedDType),
        (lambda: nn.gelu(array(1.0), approximate="fast"), errors.InvalidArgument),
        (lambda: nn.celu(array(1.0), alpha=0), errors.InvalidArgument),
        (lambda: nn.elu(array(1.0), alpha=NAN), errors.InvalidArgument),
        (lambda: nn.leaky_relu(array(1.0), negative_slope="0.1"), errors.InvalidArgument),  # type: ignore[arg-type]
        (lambda: nn.softplus(array(1.0), beta=0.0), errors.InvalidArgument),
        (lambda: nn.softplus(array(1.0), threshold=INF), errors.InvalidArgument),
        (lambda: nn.glu(array(np.ones(3))), errors.ShapeMismatch),
        (lambda: nn.glu(array(1.0)), errors.InvalidDimension),
        (lambda: nn.swiglu(array(np.ones((2, 4))), axis=2), errors.InvalidDimension),
        (lambda: nn.softmax(array(np.ones(3)), axis=1), errors.InvalidDimension),
        (lambda: nn.softmax(array(np.ones(3)), axis=0.5), errors.InvalidArgument),  # type: ignore[arg-type]
        (lambda: nn.log_softmax(array(1.0)), errors.InvalidDimension),
        (lambda: nn.prelu(array(np.ones((2, 3))), array(np.ones(2))), errors.ShapeMismatch),
        (lambda: nn.silu_mul(array(np.ones(3)), array(np.ones(1))), errors.ShapeMismatch),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[errors.RtxError]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert caught.value.wanted
