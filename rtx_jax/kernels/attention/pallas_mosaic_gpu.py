"""Attention on Hopper, by Pallas for Mosaic GPU: asynchronous matrix instructions, copies by the hardware, own roles.

The gradient is two kernels, one for the queries, one for keys and values, each with its sums in registers: seven
products instead of five, but no atomic additions, so that two runs give the same bits.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import JAX_VERSION
from ...errors import BackendLimitation
from ..target import Target
from .pallas_mosaic_gpu_columns import column_sums
from .pallas_mosaic_gpu_forward import forward_kernel
from .pallas_mosaic_gpu_key_gradient import key_gradient, key_tile
from .pallas_mosaic_gpu_operands import (
    hide_queries,
    kernel_operands,
    last_queries,
    pad_rows,
    padded,
    segment_blocks,
    sinks_in_log2,
)
from .pallas_mosaic_gpu_query_gradient import query_gradient
from .pallas_mosaic_gpu_sizes import (
    TILE,
    Blocks,
    default_blocks,
    forward_shape,
    key_gradient_shape,
    query_gradient_shape,
)
from .pallas_mosaic_gpu_tiles import LOG2E, Shape, broadcast_kind
from .spec import AttentionSpec, Gradients, Operands

__all__ = ["ENTROPY", "NAME", "Blocks", "backward", "column_scores", "default_blocks", "forward", "unsupported"]

NAME = "pallas_mosaic_gpu"
ENTROPY = True
_OLDEST_JAX = (0, 12)
_LARGEST_SIZE = 256


def unsupported(spec: AttentionSpec, target: Target) -> list[str]:
    """Return why these kernels cannot run this call on this device, in words; empty where they can, both ways."""
    reasons = _version()
    if target.platform != "cuda":
        reasons.append(f"they are for NVIDIA's Hopper, and the platform is {target.platform!r}")
    elif target.capability is None and not any(name in target.kind for name in ("H100", "H200", "H800", "GH200")):
        reasons.append(f"they are for NVIDIA's Hopper, and the device is {target.kind or 'unknown'!r}")
    elif target.capability is not None and target.capability != (9, 0):
        reasons.append("they need compute capability 9.0, and this is {}.{}".format(*target.capability))
    return reasons + _shapes(spec)


def _version() -> list[str]:
    if JAX_VERSION >= _OLDEST_JAX:
        return []
    wanted, found = (".".join(map(str, version)) for version in (_OLDEST_JAX, JAX_VERSION))
    return [f"Pallas for Mosaic GPU has the form they use from JAX {wanted} on, and this is {found}"]


def _shapes(spec: AttentionSpec) -> list[str]:
    reasons = []
    if spec.dtype not in (np.dtype(jnp.bfloat16), np.dtype(np.float16)):
        reasons.append(f"the matrix instructions take bfloat16 and float16, and the dtype is {spec.dtype}")
    if max(spec.size, spec.value_size) > _LARGEST_SIZE:
        size = max(spec.size, spec.value_size)
        reasons.append(f"heads are at most {_LARGEST_SIZE} wide, and these are {size}")
    if 0 in (spec.batch, spec.queries, spec.keys, spec.heads, spec.key_heads, spec.size, spec.value_size):
        reasons.append("an axis is empty")
    if spec.batch > 65535 or spec.heads > 65535:
        reasons.append("the grid has at most 65535 rows of the batch and heads")
    if spec.nan_safe:
        reasons.append("a NaN or infinity in a value reaches queries of the same block (nan_safe)")
    return reasons


def _refuse(spec: AttentionSpec) -> None:
    reasons = _version() + _shapes(spec)
    if reasons:
        raise BackendLimitation(
            "flash_attention",
            "implementation",
            got=repr(NAME),
            remedy="; ".join(reasons),
            backend=NAME,
            reason="; ".join(reasons),
        )


def forward(
    spec: AttentionSpec,
    operands: Operands,
    *,
    blocks: Blocks | None = None,
    entropy: bool = False,
    interpret: bool = False,
) -> tuple[jax.Array, ...]:
    """Return the attention, in the layout and dtype of the queries, and the log-sum-exp ``(B, N, T)``.

    Parameters
    ----------
    spec, operands
        The call.
    blocks
        Sizes of the steps; None for `default_blocks`.
    entropy
        Whether the entropy ``(B, N, T)`` of each row's weights is a third result, in nats; 0 of an empty row.
    interpret
        Whether Pallas interprets the kernel, on any device, slowly.

    Raises
    ------
    BackendLimitation
        What `unsupported` says of the shapes and the version of JAX.
    """
    _refuse(spec)
    shape = forward_shape(spec, blocks or default_blocks(spec), interpret)
    given = kernel_operands(shape, operands)
    if spec.segments:
        given |= segment_blocks(given["segment_ids"], given["key_segment_ids"], TILE, shape.block_k)
    if operands.sinks is not None:
        given["sinks"] = sinks_in_log2(operands.sinks)
    out, lse, *weighted = forward_kernel(shape, given, entropy=entropy)
    out = _unpadded(spec, out, spec.queries, spec.value_size)
    lse = lse[..., : spec.queries]
    if operands.sinks is not None:
        # The log-sum-exp is at least the sink, but the units of the kernel do not reach as far as natural ones.
        lse = jnp.where(lse == -np.inf, lse, jnp.maximum(lse, _each_row(operands.sinks)))
    if not entropy:
        return out, lse
    empty = lse == -np.inf
    return out, lse, jnp.where(empty, 0, lse - weighted[0][..., : spec.queries])


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
    blocks: Blocks | None = None,
    interpret: bool = False,
) -> Gradients:
    """Return the cotangents of the operands.

    Parameters
    ----------
    spec, operands
        The call.
    out, lse
        What `forward` returned.
    d_out, d_lse
        Their cotangents.
    bias, sinks
        Whether their cotangents are wanted.
    blocks
        Sizes of the steps; None for `default_blocks`.
    interpret
        Whether Pallas interprets the kernels, on any device, slowly.

    Raises
    ------
    BackendLimitation
        What `unsupported` says of the shapes and the version of JAX.

    Notes
    -----
    Memory is O(T + S), but for the gradient of a bias with both axes: that takes ``B * N * T * S`` numbers before it is
    summed over the axes that the bias does not have.
    """
    _refuse(spec)
    blocks = blocks or default_blocks(spec)
    empty = lse == -np.inf
    delta = jnp.sum(d_out.astype(np.float32) * out.astype(np.float32), axis=-1)
    delta = (delta.swapaxes(1, 2) if spec.layout == "BTNH" else delta) - d_lse
    delta = jnp.where(empty, 0, delta).astype(np.float32)
    if operands.query_lengths is not None:
        d_out = hide_queries(spec, d_out, operands.query_lengths)

    def given(shape: Shape, *, transposed: bool) -> dict[str, jax.Array]:
        found = kernel_operands(shape, operands, backward=True, transposed=transposed)
        found["d_out"] = padded(spec.layout, d_out, shape.queries, shape.value_size)
        # An empty row has no weights: 2 to the power of minus infinity.
        found["lse"] = pad_rows(jnp.where(empty, np.inf, lse * np.float32(LOG2E)), shape.queries, np.inf)
        found["delta"] = pad_rows(delta, shape.queries, 0)
        return found

    shape = query_gradient_shape(spec, blocks, interpret)
    wanted = _bias_gradient(shape, bias)
    query_operands = given(shape, transposed=False)
    if spec.segments:
        pair = query_operands["segment_ids"], query_operands["key_segment_ids"]
        query_operands |= segment_blocks(*pair, TILE, shape.block_k)
    d_query, *d_pairs = query_gradient(shape, query_operands, bias=wanted)

    shape = key_gradient_shape(spec, blocks, interpret)
    key_operands = given(shape, transposed=True)
    if spec.segments:
        pair = key_operands["key_segment_ids"], key_operands["segment_ids"]
        key_operands |= segment_blocks(*pair, key_tile(shape), shape.block_q)
    d_key, d_value, *d_columns = key_gradient(shape, key_operands, bias=bias and shape.bias == "column")

    return Gradients(
        _unpadded(spec, d_query, spec.queries, spec.size),
        _unpadded(spec, d_key, spec.keys, spec.size),
        _unpadded(spec, d_value, spec.keys, spec.value_size),
        _of_bias(spec, operands, (*d_pairs, *d_columns)[0]) if bias else None,
        _of_sinks(operands, lse, delta) if sinks else None,
    )


def column_scores(
    spec: AttentionSpec,
    operands: Operands,
    lse: jax.Array,
    last: int,
    *,
    counts: jax.Array | None = None,
    blocks: Blocks | None = None,
    interpret: bool = False,
) -> jax.Array:
    """Return ``sum_t counts[t] * P[t, s]`` over the last queries, ``(B, N, S)``: what eviction ranks the keys by.

    Parameters
    ----------
    spec, operands
        The call.
    lse
        Of the forward pass, ``(B, N, T)``.
    last
        How many queries count, from the end, 1 to T.
    counts
        ``(B, N, last)``; None for 1 each.
    blocks, interpret
        As of `backward`.

    Raises
    ------
    BackendLimitation
        What `unsupported` says of the shapes and the version of JAX.
    """
    _refuse(spec)
    spec, operands = last_queries(spec, operands, last)
    shape = key_gradient_shape(spec, blocks or default_blocks(spec), interpret)
    given = kernel_operands(shape, operands, transposed=True)
    del given["value"]
    lse = lse[..., -last:]
    given["lse"] = pad_rows(jnp.where(lse == -np.inf, np.inf, lse * np.float32(LOG2E)), shape.queries, np.inf)
    counts = jnp.ones_like(lse) if counts is None else counts.astype(np.float32)
    given["counts"] = pad_rows(counts, shape.queries, 0)
    return column_sums(shape, given)[..., : spec.keys]


def _bias_gradient(shape: Shape, bias: bool) -> jax.ShapeDtypeStruct | None:
    """Return what the gradient of the queries is to write for the bias."""
    spec = shape.spec
    if not bias or shape.bias == "column":
        return None
    if shape.bias == "row":
        return jax.ShapeDtypeStruct((spec.batch, spec.heads, shape.queries), np.dtype(np.float32))
    assert spec.bias is not None and spec.bias_dtype is not None
    # Rounded at once where nothing is to be added.
    whole = spec.bias[:2] == (spec.batch, spec.heads) and spec.bias_dtype.itemsize == 2
    dtype = spec.bias_dtype if whole else np.dtype(np.float32)
    return jax.ShapeDtypeStruct((spec.batch, spec.heads, shape.queries, shape.keys), dtype)


def _of_bias(spec: AttentionSpec, operands: Operands, found: jax.Array) -> jax.Array:
    """Return the gradient of the bias from that of pairs, rows or columns."""
    assert spec.bias is not None and operands.bias is not None
    kind = broadcast_kind(spec.bias)
    if kind == "row":
        found = found[:, :, : spec.queries, None]
    elif kind == "column":
        found = found[:, :, None, : spec.keys]
    else:
        found = found[:, :, : spec.queries, : spec.keys]
    over = tuple(i for i in range(4) if spec.bias[i] == 1 and found.shape[i] > 1)
    return (jnp.sum(found, over, keepdims=True) if over else found).astype(operands.bias.dtype)


def _of_sinks(operands: Operands, lse: jax.Array, delta: jax.Array) -> jax.Array:
    """Return the gradient of the sinks: their weights take from the result and give to the log-sum-exp."""
    assert operands.sinks is not None
    weights = jnp.where(lse == -np.inf, 0, jnp.exp(_each_row(operands.sinks) - lse))
    return -jnp.sum(weights * delta, (0, 2)).astype(operands.sinks.dtype)


def _each_row(sinks: jax.Array) -> jax.Array:
    return sinks.astype(np.float32)[None, :, None]


def _unpadded(spec: AttentionSpec, x: jax.Array, positions: int, size: int) -> jax.Array:
    return x[:, :positions, :, :size] if spec.layout == "BTNH" else x[:, :, :positions, :size]
