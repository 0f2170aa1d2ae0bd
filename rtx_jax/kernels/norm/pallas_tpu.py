"""The backward pass of a norm on TPU: one pass over the rows.

Each block of rows is read once, its statistics are formed again, and the cotangents of weight and bias grow in a core's
memory while the blocks go by in order, so they are the same each time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..target import Target
from .spec import NormSpec

__all__ = ["NAME", "backward", "unsupported"]

NAME = "pallas_tpu"

# Of one block of rows in float32; half a dozen values of that size fit a core's memory beside the blocks on their way.
_BLOCK_BYTES = 1 << 20
_SUBLANES = 8


def unsupported(size: int, dtype: np.dtype, wanted: tuple[bool, ...], target: Target) -> list[str]:
    """Return why a backward pass cannot run here; nothing where it can."""
    reasons = []
    if target.platform != "tpu":
        reasons.append(f"it runs on TPU, not on {target.platform or 'several platforms'}")
    if dtype.itemsize == 8:
        reasons.append("TPU has no float64")
    elif dtype.name not in ("float32", "bfloat16"):
        reasons.append(f"it takes float32 and bfloat16, not {dtype.name}")
    if size * 4 * _SUBLANES > 2 * _BLOCK_BYTES:
        reasons.append(f"{_SUBLANES} rows of {size} elements are more than a block")
    if not wanted[0]:
        reasons.append("it gives the cotangent of x, which is not wanted")
    return reasons


def backward(
    arrays: Sequence[jax.Array],
    cotangents: Sequence[jax.Array],
    wanted: tuple[bool, ...],
    *,
    spec: NormSpec,
    interpret: bool = False,
) -> tuple[jax.Array, ...]:
    """Return the cotangents of those of `x`, the weight and the bias that are wanted; see `xla.backward`."""
    import jax.experimental.pallas as pl
    import jax.experimental.pallas.tpu as pltpu

    x, *vectors = arrays
    size = x.shape[-1]
    count = x.size // size
    # 16 rows are the least of 16-bit floats.
    rows = max(_BLOCK_BYTES // (4 * size) // 16 * 16, 16)
    rows = min(rows, count)
    steps = -(-count // rows)
    sums = sum(wanted[1:])
    of_rows = pl.BlockSpec((rows, size), lambda i: (i, 0))
    of_vector = pl.BlockSpec((1, size), lambda i: (0, 0))
    of_sums = pl.BlockSpec((_SUBLANES, size), lambda i: (0, 0))
    operands = [t.reshape(count, size) for t in (x, *cotangents)]
    inputs = [of_rows] * len(operands)
    if spec.weight:
        operands.append(vectors[0].astype(jnp.float32).reshape(1, size))
        inputs.append(of_vector)
    body = functools.partial(_body, spec=spec, wanted=wanted, count=count, rows=rows, exact=count % rows == 0)
    kernel = pl.pallas_call(
        body,
        out_shape=[
            jax.ShapeDtypeStruct((count, size), x.dtype),
            *[jax.ShapeDtypeStruct((_SUBLANES, size), jnp.float32)] * sums,
        ],
        grid=(steps,),
        in_specs=inputs,
        out_specs=[of_rows, *[of_sums] * sums],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
        cost_estimate=pl.CostEstimate(
            flops=16 * x.size, transcendentals=count, bytes_accessed=(2 + len(cotangents)) * x.nbytes
        ),
        interpret=interpret,
        name="norm_backward",
    )
    slope, *partial = kernel(*operands)
    owners = [v for v, w in zip(vectors, wanted[1:], strict=True) if w]
    totals = (p.sum(0).astype(v.dtype) for p, v in zip(partial, owners, strict=True))
    return (slope.reshape(x.shape), *totals)


def _body(*refs: Any, spec: NormSpec, wanted: tuple[bool, ...], count: int, rows: int, exact: bool) -> None:
    import jax.experimental.pallas as pl

    step = pl.program_id(0)
    given = list(refs)
    x_ref, seed_ref = given.pop(0), given.pop(0)
    passed_ref = given.pop(0) if spec.passing else None
    weight_ref = given.pop(0) if spec.weight else None
    slope_ref, *sum_refs = given

    x, seed = x_ref[...].astype(jnp.float32), seed_ref[...].astype(jnp.float32)
    rest = x - jnp.mean(x, -1, keepdims=True) if spec.centred else x
    if spec.centred:
        rest = rest - jnp.mean(rest, -1, keepdims=True)
    factor = lax.rsqrt(jnp.mean(rest * rest, -1, keepdims=True) + np.float32(spec.eps))
    normal = rest * factor
    pulled = seed if weight_ref is None else seed * weight_ref[...]
    slope = pulled - normal * jnp.mean(pulled * normal, -1, keepdims=True)
    if spec.centred:
        slope = slope - jnp.mean(pulled, -1, keepdims=True)
    slope = slope * factor
    if passed_ref is not None:
        slope = slope + passed_ref[...].astype(jnp.float32)
    slope_ref[...] = slope.astype(slope_ref.dtype)

    terms = [t for t, w in zip([normal * seed] * spec.weight + [seed] * spec.bias, wanted[1:], strict=True) if w]
    if not terms:
        return

    @pl.when(step == 0)
    def _start() -> None:
        for ref in sum_refs:
            ref[...] = jnp.zeros_like(ref)

    inside = lax.broadcasted_iota(jnp.int32, x.shape, 0) < count - step * rows
    for ref, term in zip(sum_refs, terms, strict=True):
        # The last block reaches past the rows, where anything may lie.
        ref[...] += _folded(term if exact else jnp.where(inside, term, 0))


def _folded(x: jax.Array) -> jax.Array:
    """Return sums of rows that lie 8 apart, which needs no sum across a register."""
    left = -x.shape[0] % _SUBLANES
    if left:
        x = jnp.concatenate([x, jnp.zeros((left, x.shape[1]), x.dtype)], 0)
    return x.reshape(-1, _SUBLANES, x.shape[1]).sum(0)
