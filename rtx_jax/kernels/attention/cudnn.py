"""Attention by cuDNN: what of a call it can say, and what it leaves undone.

It is the fastest for plain and causal attention on NVIDIA's cards. cuDNN adds a mask to the scores as a large negative
number and says nothing of rows without a key, so hidden positions are cleared here, before and after. Its gradient of
the log-sum-exp is always 0: a call that needs another is run by another implementation.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._compat import CudnnCall, cudnn_attention, cudnn_attention_gradients
from ..target import Target
from . import pallas_triton, reference, xla
from .spec import AttentionSpec, Gradients, Operands

__all__ = ["NAME", "backward", "forward", "unsupported"]

NAME = "cudnn"

# What hides a key: far below every score, and yet of a finite difference to itself.
_HIDDEN = {"bfloat16": -float(2 << 40), "float16": -float(2 << 14)}


def unsupported(spec: AttentionSpec, target: Target) -> list[str]:
    """Return why cuDNN cannot run this call on this device; nothing where it can, forward and backward."""
    reasons = []
    if target.platform != "cuda":
        reasons.append(f"cuDNN is for cuda, not for {target.platform}")
    if target.capability is not None and target.capability < (8, 0):
        have = ".".join(map(str, target.capability))
        reasons.append(f"cuDNN's attention needs compute capability 8.0 or newer, this device has {have}")
    if spec.dtype.name not in _HIDDEN:
        reasons.append(f"dtype {spec.dtype.name}: float16 and bfloat16 are taken")
    if 0 in (spec.batch, spec.queries, spec.keys, spec.heads, spec.key_heads, spec.size, spec.value_size):
        reasons.append("an axis has no elements")
    hopper = target.capability is not None and target.capability >= (9, 0)
    most = 256 if hopper else 128
    for name, size in (("size", spec.size), ("value size", spec.value_size)):
        if size > most or size % 8:
            reasons.append(f"head {name} {size}: multiples of 8 up to {most} are taken")
    if spec.size != spec.value_size and not hopper:
        reasons.append("value heads of another size need compute capability 9.0 or newer")
    return [*reasons, *_visibility(spec), *_scores(spec)]


def _visibility(spec: AttentionSpec) -> list[str]:
    reasons = []
    left, right = spec.window
    if spec.segments:
        reasons.append("segment_ids")
    if right not in (None, 0) or (left is not None and right is None):
        reasons.append(f"window {spec.window}: only one to the left of a causal call is taken")
    elif right == 0 and spec.q_offset != 0:
        offset = "traced" if spec.q_offset is None else spec.q_offset
        reasons.append(f"causal with q_offset {offset}: the diagonal must begin at the first query and key")
    elif left is not None and (spec.query_lengths or spec.key_lengths or spec.queries > spec.keys):
        reasons.append("window with lengths, or with more queries than keys")
    if spec.mask is not None and (spec.query_lengths or spec.key_lengths):
        reasons.append("mask with lengths")
    return reasons


def _scores(spec: AttentionSpec) -> list[str]:
    reasons = []
    if spec.softcap is not None:
        reasons.append("softcap")
    if spec.sinks_dtype is not None:
        reasons.append("sinks")
    if spec.bias is not None and spec.bias_dtype != spec.dtype:
        reasons.append(f"bias of dtype {spec.bias_dtype}: it must be {spec.dtype.name} as the queries")
    if spec.bias is not None and (spec.query_lengths or spec.key_lengths):
        reasons.append("bias with lengths")
    if (spec.bias is not None or spec.mask is not None) and (spec.queries % 2 or spec.keys % 2):
        reasons.append("mask or bias of an odd length, which has no backward pass")
    if spec.nan_safe:
        reasons.append("nan_safe: NaN in a value may reach other queries")
    return reasons


def forward(
    spec: AttentionSpec, operands: Operands, *, blocks: None = None, interpret: bool = False
) -> tuple[jax.Array, jax.Array]:
    """Return the attention, in the layout and dtype of the queries, and the log-sum-exp ``(B, N, T)`` in float32.

    `blocks` and `interpret` are those of other implementations, and mean nothing here.
    """
    del blocks, interpret
    rows, columns = _seen(spec, operands)
    cleared = _cleared(spec, operands, rows, columns)
    out, lse = cudnn_attention(
        cleared.query, cleared.key, cleared.value, _added(spec, operands), _lengths(spec, operands), _call(spec)
    )
    if rows is None:
        return out, lse
    return jnp.where(_as_heads(spec, rows), out, jnp.zeros_like(out)), jnp.where(rows, lse, -jnp.inf)


def backward(
    spec: AttentionSpec,
    operands: Operands,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    d_lse: jax.Array,
    *,
    bias: bool = False,
    sinks: bool = False,
    blocks: None = None,
    interpret: bool = False,
) -> Gradients:
    """Return the cotangents of the operands, and of the bias where asked for.

    Notes
    -----
    Where `d_lse` is not 0, `pallas_triton` or `xla` computes them: the program holds both, unless XLA sees that it is.
    """
    del blocks, interpret, sinks
    other = xla if pallas_triton.unsupported(spec, Target("cuda")) else pallas_triton
    found: Gradients = lax.cond(
        jnp.any(d_lse != 0),
        functools.partial(other.backward, spec, bias=bias),
        functools.partial(_backward, spec, bias=bias),
        operands,
        out,
        lse,
        d_out,
        d_lse,
    )
    return found


def _backward(
    spec: AttentionSpec,
    operands: Operands,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    d_lse: jax.Array,
    *,
    bias: bool,
) -> Gradients:
    del d_lse
    rows, columns = _seen(spec, operands)
    cleared = _cleared(spec, operands, rows, columns)
    if rows is not None:
        # Plus infinity makes every weight of the row 0.
        lse = jnp.where(rows, lse, jnp.inf)
        d_out = jnp.where(_as_heads(spec, rows), d_out, jnp.zeros_like(d_out))
    added = _added(spec, operands)
    d_query, d_key, d_value, *rest = cudnn_attention_gradients(
        cleared.query,
        cleared.key,
        cleared.value,
        added,
        _lengths(spec, operands),
        out,
        lse,
        d_out,
        _call(spec),
        bias_gradient=bias,
    )
    if rows is not None:
        d_query = jnp.where(_as_heads(spec, rows), d_query, jnp.zeros_like(d_query))
    if columns is not None:
        seen = _as_heads(spec, columns)
        d_key = jnp.where(seen, d_key, jnp.zeros_like(d_key))
        d_value = jnp.where(seen, d_value, jnp.zeros_like(d_value))
    return Gradients(d_query, d_key, d_value, _like_bias(spec, rest[0]) if bias else None)


def _call(spec: AttentionSpec) -> CudnnCall:
    left, right = spec.window
    return CudnnCall(spec.scale, right == 0, None if left is None else left + 1, spec.layout)


def _lengths(spec: AttentionSpec, operands: Operands) -> tuple[jax.Array, jax.Array] | None:
    if not (spec.query_lengths or spec.key_lengths):
        return None

    def within(x: jax.Array | None, size: int) -> jax.Array:
        return lax.full((spec.batch,), size, np.int32) if x is None else lax.clamp(np.int32(0), x, np.int32(size))

    return within(operands.query_lengths, spec.queries), within(operands.key_lengths, spec.keys)


def _seen(spec: AttentionSpec, operands: Operands) -> tuple[jax.Array | None, jax.Array | None]:
    """Return which queries see a key, ``(B, N, T)``, and which keys a query sees, ``(B, K, S)``; None for all."""
    if spec.mask is not None or spec.bias is not None:
        keep = reference.keep(spec, operands)
        assert keep is not None
        # One pass over the table for each; XLA does not form what is compared with it.
        keep = jnp.broadcast_to(keep, (spec.batch, spec.key_heads, spec.group, spec.queries, spec.keys))
        return jnp.any(keep, 4).reshape(spec.batch, spec.heads, spec.queries), jnp.any(keep, (2, 3))
    lengths = _lengths(spec, operands)
    causal = spec.window[1] == 0
    if lengths is None:
        # A query always sees its own diagonal, and with a window the keys beside it.
        last = spec.queries if causal else spec.keys
        if last >= spec.keys:
            return None, None
        columns = lax.iota(np.int32, spec.keys)[None, None, :] < last
        return None, jnp.broadcast_to(columns, (spec.batch, spec.key_heads, spec.keys))
    queries, keys = (n[:, None, None] for n in lengths)
    rows = (lax.iota(np.int32, spec.queries)[None, None, :] < queries) & (keys > 0)
    ends = lax.min(queries, keys) if causal else jnp.where(queries > 0, keys, 0)
    columns = lax.iota(np.int32, spec.keys)[None, None, :] < ends
    return (
        jnp.broadcast_to(rows, (spec.batch, spec.heads, spec.queries)),
        jnp.broadcast_to(columns, (spec.batch, spec.key_heads, spec.keys)),
    )


def _as_heads(spec: AttentionSpec, seen: jax.Array) -> jax.Array:
    """Return what is ``(B, heads, length)`` beside arrays of the layout."""
    return (jnp.transpose(seen, (0, 2, 1)) if spec.layout == "BTNH" else seen)[..., None]


def _cleared(spec: AttentionSpec, operands: Operands, rows: jax.Array | None, columns: jax.Array | None) -> Operands:
    """Return the operands with 0 for what nobody sees: a weight of 0 would not undo a NaN."""
    if rows is not None:
        operands = operands._replace(query=jnp.where(_as_heads(spec, rows), operands.query, 0))
    if columns is not None:
        seen = _as_heads(spec, columns)
        operands = operands._replace(key=jnp.where(seen, operands.key, 0), value=jnp.where(seen, operands.value, 0))
    return operands


def _added(spec: AttentionSpec, operands: Operands) -> jax.Array | None:
    """Return mask and bias as one term of the scores, of the queries' dtype and of all their length."""
    if operands.mask is None and operands.bias is None:
        return None
    hidden = jnp.asarray(_HIDDEN[spec.dtype.name], spec.dtype)
    added = jnp.asarray(0, spec.dtype) if operands.bias is None else operands.bias
    keep = added != -jnp.inf
    if operands.mask is not None:
        keep = keep & operands.mask
    added = jnp.where(keep, added, hidden)
    return jnp.broadcast_to(added, (*added.shape[:2], spec.queries, spec.keys))


def _like_bias(spec: AttentionSpec, gradient: jax.Array) -> jax.Array:
    """Return the gradient of the bias, summed over what it is shared by."""
    assert spec.bias is not None
    over = tuple(i for i, (have, want) in enumerate(zip(gradient.shape, spec.bias, strict=True)) if have != want)
    summed = jnp.sum(gradient, over, dtype=np.float32, keepdims=True) if over else gradient
    return summed.astype(gradient.dtype)
