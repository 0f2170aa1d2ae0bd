"""Fourier transforms of the standard's fft extension on raw arrays.

The face casts integers to the default float. float32 and complex64 give 32-bit parts, float64 and complex128 64-bit
parts; smaller floats are transformed in float32.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ..core.axes import normalize_axes, normalize_axis
from ..errors import InvalidArgument
from ._kinds import accumulator, cast, no_complex

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn"]
__all__ += ["rfft", "rfftfreq", "rfftn"]

_NORMS = ("backward", "ortho", "forward")
_REAL_INPUT = frozenset(("rfft", "rfftn", "ihfft"))
_HERMITIAN_INPUT = frozenset(("irfft", "irfftn", "hfft"))


def _check(operation: str, x: jax.Array, norm: str) -> jax.Array:
    if norm not in _NORMS:
        raise InvalidArgument(
            operation, "norm", got=repr(norm), wanted=", ".join(map(repr, _NORMS)), arg="norm", reason="unknown norm"
        )
    if operation in _REAL_INPUT:
        no_complex(operation, x, "real input; fft takes complex input")
    return cast(x, accumulator(x.dtype))


def _positive(operation: str, argument: str, sizes: tuple[int, ...]) -> None:
    if any(n < 1 for n in sizes):
        raise InvalidArgument(
            operation,
            argument,
            got=f"{sizes[0] if argument == 'n' else sizes} points",
            wanted="at least 1 along each axis",
            arg=argument,
            reason="invalid number of data points",
        )


def _one(operation: str, x: jax.Array, n: int | None, axis: int, norm: str) -> jax.Array:
    x = _check(operation, x, norm)
    dimension = normalize_axis(axis, x.ndim, operation)
    if n is None:
        size = x.shape[dimension]
        n = 2 * (size - 1) if operation in _HERMITIAN_INPUT else size
    _positive(operation, "n", (n,))
    transform: Callable[..., jax.Array] = getattr(jnp.fft, operation)
    return transform(x, n=n, axis=dimension, norm=norm)


def _many(
    operation: str, x: jax.Array, s: tuple[int, ...] | None, axes: tuple[int, ...] | None, norm: str
) -> jax.Array:
    x = _check(operation, x, norm)
    if axes is None and s is not None:
        axes = tuple(range(-len(s), 0))  # as in NumPy; the standard asks for axes
    places = normalize_axes(axes, x.ndim, operation, "axes")
    if s is not None and len(s) != len(places):
        raise InvalidArgument(
            operation, "s", got=s, wanted=f"{len(places)} sizes, one for each axis", arg="s", reason="lengths differ"
        )
    sizes = [-1] * len(places) if s is None else list(s)
    for i, (n, place) in enumerate(zip(sizes, places, strict=True)):
        if n == -1:
            last = i == len(places) - 1
            sizes[i] = 2 * (x.shape[place] - 1) if last and operation in _HERMITIAN_INPUT else x.shape[place]
    _positive(operation, "s", tuple(sizes))
    transform: Callable[..., jax.Array] = getattr(jnp.fft, operation)
    return transform(x, s=sizes, axes=places, norm=norm)


def fft(x: jax.Array, *, n: int | None, axis: int, norm: str) -> jax.Array:
    """Transform one axis."""
    return _one("fft", x, n, axis, norm)


def ifft(x: jax.Array, *, n: int | None, axis: int, norm: str) -> jax.Array:
    """Invert `fft`."""
    return _one("ifft", x, n, axis, norm)


def rfft(x: jax.Array, *, n: int | None, axis: int, norm: str) -> jax.Array:
    """Transform one axis of real input, the half of the spectrum that determines it."""
    return _one("rfft", x, n, axis, norm)


def irfft(x: jax.Array, *, n: int | None, axis: int, norm: str) -> jax.Array:
    """Invert `rfft`."""
    return _one("irfft", x, n, axis, norm)


def hfft(x: jax.Array, *, n: int | None, axis: int, norm: str) -> jax.Array:
    """Transform a signal with Hermitian symmetry, given by its first half."""
    return _one("hfft", x, n, axis, norm)


def ihfft(x: jax.Array, *, n: int | None, axis: int, norm: str) -> jax.Array:
    """Invert `hfft`."""
    return _one("ihfft", x, n, axis, norm)


def fftn(x: jax.Array, *, s: tuple[int, ...] | None, axes: tuple[int, ...] | None, norm: str) -> jax.Array:
    """Transform several axes."""
    return _many("fftn", x, s, axes, norm)


def ifftn(x: jax.Array, *, s: tuple[int, ...] | None, axes: tuple[int, ...] | None, norm: str) -> jax.Array:
    """Invert `fftn`."""
    return _many("ifftn", x, s, axes, norm)


def rfftn(x: jax.Array, *, s: tuple[int, ...] | None, axes: tuple[int, ...] | None, norm: str) -> jax.Array:
    """Transform several axes of real input, half of the spectrum along the last."""
    return _many("rfftn", x, s, axes, norm)


def irfftn(x: jax.Array, *, s: tuple[int, ...] | None, axes: tuple[int, ...] | None, norm: str) -> jax.Array:
    """Invert `rfftn`."""
    return _many("irfftn", x, s, axes, norm)


def fftfreq(spacing: jax.Array, *, n: int) -> jax.Array:
    """Return the sample frequencies of `fft`, in the dtype of `spacing`."""
    places = jnp.arange(n, dtype=spacing.dtype)
    places = jnp.where(places < (n + 1) // 2, places, places - n)
    return places / (spacing * n)


def rfftfreq(spacing: jax.Array, *, n: int) -> jax.Array:
    """Return the sample frequencies of `rfft`, in the dtype of `spacing`."""
    return jnp.arange(n // 2 + 1, dtype=spacing.dtype) / (spacing * n)


def _shift(operation: str, x: jax.Array, axes: int | tuple[int, ...] | None, sign: int) -> jax.Array:
    places = normalize_axes(axes, x.ndim, operation, "axes")
    if not places:
        return x
    half = [x.shape[a] // 2 if sign > 0 else -(x.shape[a] // 2) for a in places]
    return jnp.roll(x, half, places)


def fftshift(x: jax.Array, *, axes: int | tuple[int, ...] | None) -> jax.Array:
    """Move the zero frequency to the middle."""
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: jax.Array, *, axes: int | tuple[int, ...] | None) -> jax.Array:
    """Move the zero frequency back to the front."""
    return _shift("ifftshift", x, axes, -1)
