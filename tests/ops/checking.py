"""What the tests of operations share: dtypes, ULP distances, central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import ml_dtypes
import numpy as np

import rtx_jax as xp

FLOAT64 = np.dtype(np.float64)
DTYPES = (np.dtype(np.float32), FLOAT64, np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def rounded(want: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The float64 value, rounded once to `dtype` and given back as float64."""
    with np.errstate(over="ignore"):
        return np.asarray(want, np.float64).astype(dtype).astype(np.float64)


def spacing(want: np.ndarray, dtype: np.dtype, least: float = 0.0) -> np.ndarray:
    """Distance of neighbouring numbers of `dtype` at each value, at least that at `least`."""
    info = ml_dtypes.finfo(dtype)
    size = np.maximum(np.maximum(np.abs(np.where(np.isfinite(want), want, 0)), least), float(info.tiny))
    return 2.0 ** np.floor(np.log2(size)) * float(info.eps)


def assert_ulp(got: object, want: object, ulp: float, dtype: np.dtype, least: float = 0.0) -> None:
    """Every element within `ulp` spacings of the float64 value; infinities and NaN where it has them.

    `least` is the size below which the error counts as at that size: of sums that cancel.
    """
    host = np.asarray(got)
    wanted = np.asarray(want, np.float64)
    assert host.dtype == dtype
    assert host.shape == wanted.shape
    actual = host.astype(np.float64)
    special = ~np.isfinite(rounded(wanted, dtype))
    np.testing.assert_array_equal(actual[special], rounded(wanted, dtype)[special])
    error = np.abs(actual - wanted)[~special] / spacing(wanted, dtype, least)[~special]
    assert not error.size or error.max() <= ulp, f"{error.max()} ULP at {wanted[~special][error.argmax()]}"


def central(fn: Callable[..., np.ndarray], operands: Sequence[np.ndarray], seed: np.ndarray) -> list[np.ndarray]:
    """Gradients of ``sum(fn(*operands) * seed)`` by central differences in float64."""
    out = []
    for i, x in enumerate(operands):
        grad = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            h = 1e-5 * max(1.0, abs(x[place]))
            sides = []
            for step in (h, -h):
                moved = [np.array(y) for y in operands]
                moved[i][place] += step
                sides.append(np.sum(fn(*moved) * seed))
            grad[place] = (sides[0] - sides[1]) / (2 * h)
        out.append(grad)
    return out


def assert_gradients(
    fn: Callable[..., xp.Array],
    oracle: Callable[..., np.ndarray],
    operands: Sequence[np.ndarray],
    rtol: float = 1e-6,
    atol: float = 1e-8,
) -> None:
    """Reverse-mode gradients in float64 against central differences, and forward mode against reverse mode."""
    operands = [np.asarray(x, np.float64) for x in operands]
    seed = np.random.default_rng(7).standard_normal(oracle(*operands).shape)

    def loss(*arrays: xp.Array) -> xp.Array:
        return xp.sum(fn(*arrays) * xp.asarray(seed))

    arrays = [xp.asarray(x) for x in operands]
    grads = xp.jit(xp.grad(loss, argnums=tuple(range(len(operands)))))(*arrays)
    for got, want in zip(grads, central(oracle, operands, seed), strict=True):
        np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=atol)
    ways = [np.random.default_rng(8).standard_normal(x.shape) for x in operands]
    _, slope = xp.jit(lambda *a: xp.jvp(loss, a[: len(a) // 2], a[len(a) // 2 :]))(
        *arrays, *(xp.asarray(w) for w in ways)
    )
    total = sum(np.sum(np.asarray(g) * w) for g, w in zip(grads, ways, strict=True))
    np.testing.assert_allclose(float(slope), total, rtol=1e-9, atol=1e-9)


def array(x: object, dtype: np.dtype = FLOAT64) -> xp.Array:
    """An Array of host values, rounded to `dtype`."""
    return xp.asarray(np.asarray(x).astype(dtype))


def under_jit(fn: Callable[..., object], *operands: xp.Array) -> object:
    """A raw operation under plain jax.jit, with x64 as its operands need it; its results as NumPy arrays."""
    with jax.enable_x64(any(x.dtype.itemsize == 8 for x in operands)):
        return jax.tree.map(np.asarray, jax.jit(fn)(*(x.jax for x in operands)))
