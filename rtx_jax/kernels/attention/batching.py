"""vmap of attention: the new axis becomes part of the batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import batching

from ..._compat import vary_alike
from .primitives import Call, attention_jvp_p, attention_p, attention_vjp_p

__all__: list[str] = []

_PAIRS = ("mask", "bias")


def _size(arrays: Sequence[jax.Array], axes: Sequence[int | None]) -> int:
    return next(x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None)


def _fold(
    call: Call, arrays: Sequence[jax.Array], axes: Sequence[int | None], own: tuple[str, ...]
) -> tuple[Call, list[jax.Array], int]:
    """Return the call, and its operands, with the mapped axis in the batch; and the size of that axis.

    Parameters
    ----------
    own
        Names of operands that are to have the whole batch, as their tangents or cotangents do.
    """
    size = _size(arrays, axes)
    batch = call.spec.batch
    names = (*call.names, *([""] * (len(arrays) - len(call.names))))
    folded = []
    for name, x, axis in zip(names, arrays, axes, strict=True):
        if name == "sinks" or (name in _PAIRS and axis is None and x.shape[0] == 1 and name not in own):
            folded.append(x)
            continue
        x = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        if x.shape[1] != batch:
            x = jnp.broadcast_to(x, (size, batch, *x.shape[2:]))
        folded.append(x.reshape(size * batch, *x.shape[2:]))
    spec = replace(call.spec, batch=size * batch)
    for name, x in zip(call.names, folded, strict=False):
        if name in _PAIRS:
            b, n, t, s = x.shape
            spec = replace(spec, mask=(b, n, t, s)) if name == "mask" else replace(spec, bias=(b, n, t, s))
    return replace(call, spec=spec), folded, size


def _unfold(found: Sequence[jax.Array], size: int) -> list[jax.Array]:
    return [x.reshape(size, x.shape[0] // size, *x.shape[1:]) for x in found]


def _none(results: Iterable[tuple[tuple[int, ...], np.dtype]]) -> tuple[list[jax.Array], list[int]]:
    """Return the results of a mapped axis that is empty, which no implementation runs on."""
    found = [lax.full((0, *shape), 0, dtype) for shape, dtype in results]
    return found, [0] * len(found)


def _batch(arrays: Sequence[jax.Array], axes: Sequence[int | None], *, call: Call) -> tuple[list[jax.Array], list[int]]:
    if _size(arrays, axes) == 0:
        return _none(call.results)
    if "sinks" in call.names and axes[call.names.index("sinks")] is not None:
        return _batch_sinks(arrays, axes, call)
    wider, folded, size = _fold(call, arrays, axes, ())
    return _unfold(attention_p.bind(*vary_alike(*folded), call=wider), size), [0, 0]


def _batch_sinks(
    arrays: Sequence[jax.Array], axes: Sequence[int | None], call: Call
) -> tuple[list[jax.Array], list[int]]:
    """Add sinks that are mapped over to an attention without them: they are one more term of each sum."""
    at = call.names.index("sinks")
    spec = call.spec
    rest = replace(call, spec=replace(spec, sinks_dtype=None), names=(*call.names[:at], *call.names[at + 1 :]))
    others = [*arrays[:at], *arrays[at + 1 :]]
    sinks = jnp.moveaxis(arrays[at], axes[at], 0)  # type: ignore[arg-type]

    def add(out: jax.Array, lse: jax.Array, sinks: jax.Array) -> tuple[jax.Array, jax.Array]:
        # A query that sees no key has no sink either.
        empty = lse == -jnp.inf
        total = jnp.where(empty, lse, jnp.logaddexp(lse, lax.convert_element_type(sinks, lse.dtype)[None, :, None]))
        left = jnp.where(empty, 0, jnp.exp(lse - total))
        rows = (lax.transpose(left, (0, 2, 1)) if spec.layout == "BTNH" else left)[..., None]
        return lax.convert_element_type(lax.convert_element_type(out, lse.dtype) * rows, out.dtype), total

    other_axes = [*axes[:at], *axes[at + 1 :]]
    if any(axis is not None for axis in other_axes):
        (out, lse), _ = _batch(others, other_axes, call=rest)
        return list(jax.vmap(add)(out, lse, sinks)), [0, 0]
    out, lse = attention_p.bind(*others, call=rest)
    return list(jax.vmap(add, in_axes=(None, None, 0))(out, lse, sinks)), [0, 0]


def _batch_jvp(
    arrays: Sequence[jax.Array], axes: Sequence[int | None], *, call: Call, linear: tuple[str, ...]
) -> tuple[list[jax.Array], list[int]]:
    if _size(arrays, axes) == 0:
        return _none(call.results)
    wider, folded, size = _fold(call, arrays, axes, linear)
    return _unfold(attention_jvp_p.bind(*vary_alike(*folded), call=wider, linear=linear), size), [0, 0]


def _batch_vjp(
    arrays: Sequence[jax.Array], axes: Sequence[int | None], *, call: Call, linear: tuple[str, ...]
) -> tuple[list[jax.Array], list[int]]:
    if _size(arrays, axes) == 0:
        of = {
            name: (x.shape if axis is None else (*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)
            for name, x, axis in zip(call.names, arrays, axes, strict=False)
        }
        return _none(of[name] for name in linear)
    wider, folded, size = _fold(call, arrays, axes, linear)
    found = _unfold(attention_vjp_p.bind(*vary_alike(*folded), call=wider, linear=linear), size)
    if "bias" in linear and call.spec.bias is not None and call.spec.bias[0] != call.spec.batch:
        at = linear.index("bias")
        found[at] = jnp.sum(found[at], 1, keepdims=True)
    return found, [0] * len(found)


batching.primitive_batchers[attention_p] = _batch
batching.primitive_batchers[attention_jvp_p] = _batch_jvp
batching.primitive_batchers[attention_vjp_p] = _batch_vjp
