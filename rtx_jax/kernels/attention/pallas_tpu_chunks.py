"""Calls of the TPU kernels over some of the queries at a time, for sequences that one call cannot take.

A chunk of queries is a call of its own with a later diagonal, so that results of chunks are joined, and gradients of
keys and values added up in float32.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from .spec import AttentionSpec, Operands

if TYPE_CHECKING:
    from .pallas_tpu_tile import Plan

__all__ = ["joined", "scan_chunks"]

Carry = TypeVar("Carry")
Result = TypeVar("Result")


def scan_chunks(
    plan: Plan,
    operands: Operands,
    rows: int,
    extra: Sequence[tuple[jax.Array, int]],
    carry: Carry,
    step: Callable[[Plan, Operands, list[jax.Array], Carry], tuple[Carry, Result]],
) -> tuple[Carry, Result]:
    """Run `step` over chunks of `rows` queries; return the last carry, and the results stacked.

    Parameters
    ----------
    operands
        As the plan lays them out.
    extra
        Arrays of which each step takes its part, each with its axis of queries.
    step
        From the plan of a chunk, its operands, its parts of `extra` and the carry to the next carry and a result.
    """
    spec = plan.spec
    number = -(-spec.queries // rows)
    axis = 1 if plan.flat else 2
    part = dataclasses.replace(plan, spec=_part(spec, rows))
    along = {
        "query": axis,
        "mask": 2 if spec.mask is not None and spec.mask[2] > 1 else None,
        "bias": 2 if spec.bias is not None and spec.bias[2] > 1 else None,
        "segment_ids": 1 if spec.segments else None,
    }
    whole = {name: _padded(getattr(operands, name), at, number * rows) for name, at in along.items() if at is not None}
    parts = [(_padded(x, at, number * rows), at) for x, at in extra]
    offset = operands.q_offset if spec.q_offset is None else jnp.full((spec.batch,), spec.q_offset, jnp.int32)
    lengths = operands.query_lengths if spec.query_lengths else jnp.full((spec.batch,), spec.queries, jnp.int32)

    def run(carry: Carry, chunk: jax.Array) -> tuple[Carry, Result]:
        first = chunk * rows

        def cut(x: jax.Array, at: int) -> jax.Array:
            return lax.dynamic_slice_in_dim(x, first, rows, axis=at)

        taken = operands._replace(
            **{name: cut(x, along[name] or 0) for name, x in whole.items()},
            q_offset=None if offset is None else offset.astype(jnp.int32) + first,
            query_lengths=jnp.clip(lengths.astype(jnp.int32) - first, 0, rows) if lengths is not None else None,
        )
        return step(part, taken, [cut(x, at) for x, at in parts], carry)

    return lax.scan(run, carry, jnp.arange(number, dtype=jnp.int32))


def joined(stacked: jax.Array, axis: int, length: int) -> jax.Array:
    """Join chunks that are stacked on axis 0 along `axis` of the result, of which `length` are wanted."""
    moved = jnp.moveaxis(stacked, 0, axis)
    whole = moved.reshape(*moved.shape[:axis], -1, *moved.shape[axis + 2 :])
    return lax.slice_in_dim(whole, 0, length, axis=axis)


def _part(spec: AttentionSpec, rows: int) -> AttentionSpec:
    def shorter(shape: tuple[int, int, int, int] | None) -> tuple[int, int, int, int] | None:
        return None if shape is None or shape[2] == 1 else (shape[0], shape[1], rows, shape[3])

    return dataclasses.replace(
        spec,
        queries=rows,
        q_offset=None,
        query_lengths=True,
        mask=shorter(spec.mask) or spec.mask,
        bias=shorter(spec.bias) or spec.bias,
    )


def _padded(x: jax.Array, axis: int, length: int) -> jax.Array:
    """Return `x` with whatever after its end, up to `length`."""
    pads = [(0, length - x.shape[at] if at == axis else 0) for at in range(x.ndim)]
    return jnp.pad(x, pads)
