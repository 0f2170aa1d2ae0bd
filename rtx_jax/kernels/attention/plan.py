"""From what a caller gives to the normal form: the specification, and operands of its shapes and dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...checks import attention as _check
from ...checks.elementwise import common_dtype
from ...errors import RtxError, UnsupportedDType
from ..distances import FAR, Distances
from . import batching, extras
from .primitives import attention
from .spec import AttentionSpec, Operands

__all__ = ["Facts", "Parameters", "Run", "plan"]

assert batching.__all__ == []  # it registers rules

Facts: TypeAlias = "tuple[tuple[int, ...], np.dtype] | None"
"""The shape and dtype of an operand, or None for one that is not there."""

_INT32 = np.dtype(np.int32)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one call, as they were given; see `flash_attention`."""

    causal: bool
    q_offset: int | None
    window: object
    softcap: object
    scale: object
    layout: str
    implementation: str
    nan_safe: bool | None
    fast: bool
    precision: str
    return_lse: bool
    return_entropy: bool
    column_scores: int | None


Run: TypeAlias = "Callable[..., jax.Array | tuple[jax.Array, ...]]"
"""A call as a function of its operands."""


def plan(facts: Sequence[Facts], parameters: Parameters) -> tuple[Run, Run]:
    """Check a call, and return it as a function of its operands: to trace, and compiled.

    Parameters
    ----------
    facts
        Of the operands, in the order of `Operands`.
    parameters
        The others.

    Raises
    ------
    InvalidDimension, ShapeMismatch, BroadcastError, UnsupportedDType, InvalidArgument
        As `flash_attention` says.
    """
    named = dict(zip(Operands._fields, facts, strict=True))
    mask = named["mask"]
    if mask is not None and mask[1] != np.bool_:
        raise UnsupportedDType(
            "flash_attention",
            "mask",
            got=mask[1].name,
            wanted="bool (True keeps)",
            remedy="What is added to the scores is a bias.",
            dtype=mask[1],
            op="flash_attention",
        )
    try:
        sizes = _check.attention(
            named,
            layout=parameters.layout,
            window=parameters.window,
            softcap=parameters.softcap,
            scale=parameters.scale,
        )
        dtypes = [fact[1] for fact in facts[:3] if fact is not None]
        dtype = functools.reduce(lambda a, b: common_dtype("attention", a, b), dtypes)
    except RtxError as error:
        raise error.renamed("flash_attention") from None
    spec = AttentionSpec(
        batch=sizes.batch,
        queries=sizes.queries,
        keys=sizes.keys,
        heads=sizes.heads,
        key_heads=sizes.key_heads,
        # Products of no terms are 0, and so are those of a single 0.
        size=max(sizes.size, 1),
        value_size=max(sizes.value_size, 1),
        dtype=dtype,
        layout=parameters.layout,
        scale=sizes.scale,
        softcap=sizes.softcap,
        precision=parameters.precision,
        nan_safe=parameters.nan_safe is not False,
        fast=parameters.fast,
    )
    left, right = sizes.window[0], 0 if parameters.causal else sizes.window[1]
    distances = Distances(left, right, spec.queries, spec.keys)
    spec = _positions(spec, distances, named, parameters.q_offset)
    spec = replace(
        spec,
        mask=_four(named["mask"]),
        bias=_four(named["bias"]),
        bias_dtype=_of_scores(spec, named["bias"]),
        sinks_dtype=_of_scores(spec, named["sinks"]),
        segments=named["segment_ids"] is not None,
        query_lengths=named["query_lengths"] is not None,
        key_lengths=named["key_lengths"] is not None,
    )
    names = tuple(name for name, fact in named.items() if fact is not None)
    of_query = facts[0]
    assert of_query is not None
    run = functools.partial(_run, spec, parameters, distances, names, (of_query[1], sizes.size, sizes.value_size))
    return run, jax.jit(run)


def _four(fact: Facts) -> tuple[int, int, int, int] | None:
    return None if fact is None else (1,) * (4 - len(fact[0])) + fact[0]  # type: ignore[return-value]


def _of_scores(spec: AttentionSpec, fact: Facts) -> np.dtype | None:
    """Return the dtype in which an operand of the scores is taken: none that is wider than they are, nor of 8 bits."""
    if fact is None:
        return None
    return fact[1] if 2 <= fact[1].itemsize <= spec.accumulator.itemsize else spec.accumulator


def _positions(
    spec: AttentionSpec,
    distances: Distances,
    named: dict[str, Facts],
    q_offset: int | None,
) -> AttentionSpec:
    """Return the specification with its window and offset; a side that hides nothing is None."""
    left, right = distances.left, distances.right
    lengths = named["query_lengths"] is not None or named["key_lengths"] is not None
    if left is None and right is None:
        return replace(spec, window=(None, None), q_offset=0)
    if named["q_offset"] is not None or (q_offset is None and lengths):
        return replace(spec, window=distances.sides, q_offset=None)
    offset = spec.keys - spec.queries if q_offset is None else q_offset
    low = None if left is None or spec.queries - 1 + offset - left <= 0 else offset - left
    high = None if right is None or offset + right >= spec.keys - 1 else offset + right
    if low is None and high is None:
        return replace(spec, window=(None, None), q_offset=0)
    # Query t sees the keys from t + low to t + high.
    low, high = (None if end is None else min(max(end, -FAR), FAR) for end in (low, high))
    offset = min(max(offset, -FAR if low is None else low), FAR if high is None else high)
    sides = (None if low is None else offset - low, None if high is None else high - offset)
    return replace(spec, window=sides, q_offset=offset)


def _run(
    spec: AttentionSpec,
    parameters: Parameters,
    distances: Distances,
    names: tuple[str, ...],
    of_query: tuple[np.dtype, int, int],
    *arrays: jax.Array,
) -> jax.Array | tuple[jax.Array, ...]:
    given = dict(zip(names, arrays, strict=True))
    dtype, size, value_size = of_query
    lead = given["query"].shape[:-1]
    rows = (spec.batch, spec.heads, spec.queries)
    more = [parameters.return_lse, parameters.return_entropy, parameters.column_scores is not None]
    work = spec.accumulator
    if 0 in rows or spec.keys == 0:
        found = [
            lax.full((*lead, value_size), 0, dtype),
            lax.full(rows, -np.inf, work),
            lax.full(rows, 0, work),
            lax.full((spec.batch, spec.heads, spec.keys), 0, work),
        ]
    else:
        operands = _operands(spec, distances, given, size, value_size)
        chosen = parameters.implementation, parameters.nan_safe is None
        if parameters.return_entropy:
            out, lse, entropy = extras.attention_with_entropy(spec, operands, *chosen)
        else:
            out, lse = attention(spec, operands, *chosen)
            entropy = lse
        out = out if value_size else lax.slice_in_dim(out, 0, 0, axis=3)
        found = [lax.convert_element_type(out, dtype), lse, entropy]
        if parameters.column_scores is not None:
            found.append(extras.column_scores(spec, operands, lse, parameters.column_scores, *chosen))
    results = tuple(x for x, wanted in zip(found, [True, *more], strict=False) if wanted)
    return results if any(more) else results[0]


def _operands(
    spec: AttentionSpec, distances: Distances, given: dict[str, jax.Array], size: int, value_size: int
) -> Operands:
    """Return the operands in the shapes and dtypes of the specification."""
    found: dict[str, jax.Array] = {}
    for name in ("query", "key", "value"):
        x = lax.convert_element_type(given[name], spec.dtype)
        empty = (value_size if name == "value" else size) == 0
        found[name] = lax.full((*x.shape[:-1], 1), 0, x.dtype) if empty else x
    if spec.mask is not None:
        found["mask"] = given["mask"].reshape(spec.mask)
    if spec.bias is not None and spec.bias_dtype is not None:
        found["bias"] = lax.convert_element_type(given["bias"], spec.bias_dtype).reshape(spec.bias)
    if spec.sinks_dtype is not None:
        found["sinks"] = lax.convert_element_type(given["sinks"], spec.sinks_dtype)
    if spec.segments:
        own = given["segment_ids"]
        found["segment_ids"] = lax.convert_element_type(own, _INT32)
        found["key_segment_ids"] = lax.convert_element_type(given.get("key_segment_ids", own), _INT32)
    for name in ("query_lengths", "key_lengths"):
        if name in given:
            found[name] = _near(given[name])
    if spec.q_offset is None:
        if "q_offset" in given:
            offset = given["q_offset"]
        else:
            queries: jax.Array | np.int32 = found.get("query_lengths", np.int32(spec.queries))
            keys: jax.Array | np.int32 = found.get("key_lengths", np.int32(spec.keys))
            offset = jnp.asarray(keys - queries)
        found["q_offset"] = jnp.broadcast_to(distances.offset(offset), (spec.batch,))
    return Operands(**found)


def _near(x: jax.Array) -> jax.Array:
    """Return integers in 32 bits: what is beyond any position stays so."""
    info = jnp.iinfo(x.dtype)
    if info.max > FAR:
        x = lax.clamp(np.asarray(max(int(info.min), -FAR), x.dtype), x, np.asarray(FAR, x.dtype))
    return lax.convert_element_type(x, _INT32)
