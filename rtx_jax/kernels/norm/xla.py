"""Norms over the last axis in plain XLA, forward and backward.

Statistics are taken and applied in float32 (float64 of float64). The variance is that of the centred values, centred
twice: the mean of large values is off by a rounding, which would be as large as the deviations.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...raw._kinds import accumulator, cast, of_rank
from .spec import NormSpec

__all__ = ["backward", "backward_by_blocks", "forward"]

# Of one block of rows: its float32 values stay in the cache between the passes over them.
_BLOCK_ELEMENTS = 2**18


def _centre(wide: jax.Array) -> jax.Array:
    rest = wide - jnp.mean(wide, -1, keepdims=True)
    # What rounding left of the mean; its derivative is zero.
    return rest - lax.stop_gradient(jnp.mean(rest, -1, keepdims=True))


def _operands(arrays: tuple[jax.Array, ...], spec: NormSpec) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    x, *rest = arrays
    weight = rest.pop(0) if spec.weight else None
    return x, weight, rest[0] if spec.bias else None


def forward(*arrays: jax.Array, spec: NormSpec) -> tuple[jax.Array, ...]:
    """Return the norm of `x`, rounded once; and `x` where it passes.

    Parameters
    ----------
    arrays
        x of shape (..., D), then the weight and the bias of shape (D,), those that there are.
    """
    x, weight, bias = _operands(arrays, spec)
    wide = cast(x, accumulator(x.dtype))
    rest = _centre(wide) if spec.centred else wide
    out = rest * lax.rsqrt(jnp.mean(rest * rest, -1, keepdims=True) + spec.eps)
    if weight is not None:
        out = out * of_rank(cast(weight, out.dtype), out.ndim)
    if bias is not None:
        out = out + of_rank(cast(bias, out.dtype), out.ndim)
    return (cast(out, x.dtype), x) if spec.passing else (cast(out, x.dtype),)


def _rows(
    x: jax.Array, weight: jax.Array | None, cotangents: tuple[jax.Array, ...], spec: NormSpec
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the cotangent of `x`, the cotangent of the result, and the values before the weight, in the work dtype.

    With h the values before the weight, g the cotangent times the weight and r the factor of the row, the cotangent is
    ``r (g - h mean(g h))``, of a layer norm less the mean of g too (Ba et al. 2016).
    """
    work = accumulator(x.dtype)
    wide = cast(x, work)
    rest = _centre(wide) if spec.centred else wide
    factor = lax.rsqrt(jnp.mean(rest * rest, -1, keepdims=True) + spec.eps)
    normal = rest * factor
    seed = cast(cotangents[0], work)
    pulled = seed if weight is None else seed * of_rank(cast(weight, work), seed.ndim)
    slope = pulled - normal * jnp.mean(pulled * normal, -1, keepdims=True)
    if spec.centred:
        slope = slope - jnp.mean(pulled, -1, keepdims=True)
    slope = slope * factor
    if spec.passing:
        slope = slope + cast(cotangents[1], work)
    return cast(slope, x.dtype), seed, normal


def backward(
    arrays: tuple[jax.Array, ...], cotangents: tuple[jax.Array, ...], wanted: tuple[bool, ...], *, spec: NormSpec
) -> tuple[jax.Array, ...]:
    """Return the cotangents of those of `x`, the weight and the bias that are wanted."""
    x, weight, bias = _operands(arrays, spec)
    slope, seed, normal = _rows(x, weight, cotangents, spec)
    ask = dict(zip(_names(spec), wanted, strict=True))
    axes = tuple(range(x.ndim - 1))
    found = [slope] if ask["x"] else []
    if weight is not None and ask["weight"]:
        found.append(cast((seed * normal).sum(axes), weight.dtype))
    if bias is not None and ask["bias"]:
        found.append(cast(seed.sum(axes), bias.dtype))
    return tuple(found)


def _names(spec: NormSpec) -> tuple[str, ...]:
    return ("x", *(["weight"] if spec.weight else ()), *(["bias"] if spec.bias else ()))


def backward_by_blocks(
    arrays: tuple[jax.Array, ...], cotangents: tuple[jax.Array, ...], wanted: tuple[bool, ...], *, spec: NormSpec
) -> tuple[jax.Array, ...]:
    """Return what `backward` does, one block of rows after the other: for CPUs.

    XLA's CPU code writes the float32 values between its passes to memory, and its sums over rows read along columns. A
    block's values stay in the cache, and a product with ones sums its rows.
    """
    x, weight, bias = _operands(arrays, spec)
    size = x.shape[-1]
    count = x.size // size
    block = max(_BLOCK_ELEMENTS // size, 8)
    if count <= block:
        return backward(arrays, cotangents, wanted, spec=spec)
    flat = tuple(_bits(t.reshape(count, size)) for t in (x, *cotangents))
    dtypes = [t.dtype for t in (x, *cotangents)]
    work = accumulator(x.dtype)
    names = _names(spec)
    ask = dict(zip(names, wanted, strict=True))

    def step(
        sums: tuple[jax.Array, ...], part: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, ...], jax.Array | None]:
        own, *seeds = (_floats(t, dtype) for t, dtype in zip(part, dtypes, strict=True))
        slope, seed, normal = _rows(own, weight, tuple(seeds), spec)
        ones = jnp.ones((1, seed.shape[0]), work)
        terms = {"weight": seed * normal, "bias": seed}
        more = tuple(lax.dot(ones, terms[name], precision="highest")[0] for name in names[1:] if ask[name])
        return tuple(a + b for a, b in zip(sums, more, strict=True)), _bits(slope) if ask["x"] else None

    whole = count // block * block
    start = tuple(jnp.zeros(size, work) for name in names[1:] if ask[name])
    sums, slopes = lax.scan(step, start, tuple(t[:whole].reshape(-1, block, size) for t in flat))
    slopes = None if slopes is None else slopes.reshape(whole, size)
    if whole < count:
        sums, last = step(sums, tuple(t[whole:] for t in flat))
        slopes = None if slopes is None or last is None else lax.concatenate([slopes, last], 0)
    found = [] if slopes is None else [_floats(slopes, x.dtype).reshape(x.shape)]
    owners = [t for t, name in ((weight, "weight"), (bias, "bias")) if t is not None and ask[name]]
    return (*found, *(cast(total, t.dtype) for total, t in zip(sums, owners, strict=True)))


def _bits(x: jax.Array) -> jax.Array:
    """Return 16-bit floats as integers: XLA's CPU code moves floats below 32 bits as float32, whole arrays of them."""
    return lax.bitcast_convert_type(x, np.uint16) if x.dtype.itemsize == 2 else x


def _floats(bits: jax.Array, dtype: np.dtype) -> jax.Array:
    return bits if bits.dtype == dtype else lax.bitcast_convert_type(bits, dtype)
