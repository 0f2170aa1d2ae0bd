"""What sums over pairs of queries and keys say of attention: its derivative, row entropy, and scores of the keys.

With the log-sum-exp L of each query known, the weight of a key is P = exp(s - L), and with ds the tangent of a score
(Dao et al. 2022, appendix B.4; the tangents are the same sums before they are transposed)::

    dL   = sum P ds
    dout = sum P (ds v + dv) - dL out
    H    = L - sum P s

The first two are the derivative, by query, key, value and bias, of ``sum P`` and ``sum P v`` at a fixed L, so that is
all that is written down here; derivatives of these follow from it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._compat import vary_alike
from .pairwise import Sum, derivative, pairwise
from .products import finite, product
from .spec import AttentionSpec, Operands
from .walk import Bounds, Piece

__all__ = ["column_scores", "row_entropy", "sink_weights", "tangents"]

# b: batch, k: key heads, g: query heads of one key head, t: queries, s: keys, h: head size.
_SCORES = "bkgth,bksh->bkgts"
_VALUES = "bkgts,bksh->bkgth"


@dataclass(frozen=True, slots=True)
class _Weights:
    """A tile of weights P, summed as `kind` says.

    ``"values"``: P, and P times the values, over the keys. ``"entropy"``: P times the score, over the keys.
    ``"columns"``: P times the weight of its query, over the queries.
    """

    kind: str
    names: tuple[str, ...]
    scale: float
    softcap: float | None
    window: tuple[int | None, int | None]
    offset: int | None
    precision: str

    def __call__(self, slices: Sequence[jax.Array], queries: int, keys: int) -> list[jax.Array]:
        del queries, keys
        x = dict(zip(self.names, slices, strict=True))
        scores = product(_SCORES, self.precision, x["query"], x["key"]) * self.scale
        seen = self._seen(x)
        if self.softcap is not None:
            # The slope at a NaN that is hidden would be NaN.
            scores = self.softcap * lax.tanh(jnp.where(seen, scores, 0) / self.softcap)
        if "bias" in x:
            scores = scores + x["bias"]
        power = scores - x["lse"][..., None]
        # No score is above the log-sum-exp, but large ones that are formed twice may differ by more than 1.
        power = power - lax.stop_gradient(jnp.maximum(power, 0))
        weights = jnp.exp(jnp.where(seen, power, -jnp.inf))
        if self.kind == "columns":
            return [jnp.sum(weights * x["weight"][..., None], 3)]
        if self.kind == "entropy":
            return [jnp.sum(weights * jnp.where(seen, scores, 0), 4)]
        values = jnp.einsum(_VALUES, weights, finite(x["value"]), precision=self.precision)
        return [jnp.sum(weights, 4), values]

    def _seen(self, x: dict[str, jax.Array]) -> jax.Array:
        t, s = x["t"][None, None, None, :, None], x["s"][None, None, None, None]
        # Blocks are filled up with positions of -1.
        seen = [(t >= 0) & (s >= 0)]

        def row(name: str) -> jax.Array:
            return x[name].reshape(-1, 1, 1, 1, 1)

        left, right = self.window
        if left is not None or right is not None:
            diagonal = t + (row("q_offset") if self.offset is None else np.int32(self.offset))
            if left is not None:
                seen.append(s >= diagonal - np.int32(left))
            if right is not None:
                seen.append(s <= diagonal + np.int32(right))
        if "query_lengths" in x:
            seen.append(t < row("query_lengths"))
        if "key_lengths" in x:
            seen.append(s < row("key_lengths"))
        if "segment_ids" in x:
            seen.append(x["segment_ids"][:, None, None, :, None] == x["key_segment_ids"][:, None, None, None, :])
        if "mask" in x:
            seen.append(x["mask"])
        if "bias" in x:
            seen.append(x["bias"] != -jnp.inf)
        return functools.reduce(jnp.logical_and, seen)


def tangents(
    spec: AttentionSpec, operands: Operands, out: jax.Array, lse: jax.Array, moving: dict[str, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Return the tangents of the result and of the log-sum-exp along those of operands; linear in these.

    Parameters
    ----------
    moving
        Tangents of ``query``, ``key``, ``value`` and ``bias``, those that are not 0.
    """
    what, arrays, names = _sum("values", spec, operands, lse)
    along = {names.index(name): _arranged(spec, name, x) for name, x in moving.items()}
    rows, values = derivative(what, *_aligned(arrays, along))
    d_out = values - rows[..., None] * _arranged(spec, "query", out)
    return _queries_back(spec, d_out), rows.reshape(spec.batch, spec.heads, spec.queries)


def sink_weights(spec: AttentionSpec, sinks: jax.Array, lse: jax.Array) -> jax.Array:
    """Return the weight of the sink in each query's softmax, ``(B, N, T)``."""
    sinks = lax.convert_element_type(sinks, spec.accumulator)[None, :, None]
    there = (sinks != -jnp.inf) & (lse != -jnp.inf)
    power = jnp.where(there, sinks - jnp.where(there, lse, 0), -jnp.inf)
    return jnp.exp(power - lax.stop_gradient(jnp.maximum(power, 0)))


def row_entropy(spec: AttentionSpec, operands: Operands, lse: jax.Array) -> jax.Array:
    """Return the log-sum-exp less the mean score of each query, ``(B, N, T)``; 0 for a query that sees no key.

    That is the entropy of its weights in nats, but for the term of a sink.
    """
    what, arrays, _ = _sum("entropy", spec, operands, lse)
    (weighted,) = pairwise(what, vary_alike(*arrays))
    found = lse - weighted.reshape(lse.shape)
    return jnp.where(lse == -jnp.inf, lax.full_like(found, 0), found)


def column_scores(spec: AttentionSpec, operands: Operands, lse: jax.Array, last: int) -> jax.Array:
    """Return the weight that each key gets from the last queries, summed over them: ``(B, N, S)``.

    With query lengths they are the last of those that are there.
    """
    if operands.query_lengths is None and last < spec.queries:
        spec, operands, lse = _last(spec, operands, lse, last)
    t = lax.broadcasted_iota(np.int32, (1, spec.queries), 1)
    queries: jax.Array | int = spec.queries
    if operands.query_lengths is not None:
        queries = jnp.clip(operands.query_lengths, 0, spec.queries)[:, None]
    weight = lax.convert_element_type((t >= queries - last) & (t < queries), spec.accumulator)
    what, arrays, _ = _sum("columns", spec, operands, lse, weight)
    (found,) = pairwise(what, vary_alike(*arrays))
    return found.reshape(spec.batch, spec.heads, spec.keys)


def _last(
    spec: AttentionSpec, operands: Operands, lse: jax.Array, count: int
) -> tuple[AttentionSpec, Operands, jax.Array]:
    """Return the call of the last queries alone."""
    first = spec.queries - count

    def rows(x: jax.Array | None, axis: int) -> jax.Array | None:
        return x if x is None or x.shape[axis] == 1 else lax.slice_in_dim(x, first, first + count, axis=axis)

    query = lax.slice_in_dim(operands.query, first, spec.queries, axis=1 if spec.layout == "BTNH" else 2)
    mask, bias = rows(operands.mask, 2), rows(operands.bias, 2)
    operands = operands._replace(
        query=query,
        mask=mask,
        bias=bias,
        segment_ids=rows(operands.segment_ids, 1),
        q_offset=None if operands.q_offset is None else operands.q_offset + np.int32(first),
    )
    spec = replace(
        spec,
        queries=count,
        q_offset=None if spec.q_offset is None else spec.q_offset + first,
        mask=None if mask is None else _four(mask.shape),
        bias=None if bias is None else _four(bias.shape),
    )
    return spec, operands, lax.slice_in_dim(lse, first, first + count, axis=2)


def _four(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    a, b, c, d = shape
    return a, b, c, d


def _sum(
    kind: str, spec: AttentionSpec, operands: Operands, lse: jax.Array, weight: jax.Array | None = None
) -> tuple[Sum, list[jax.Array], tuple[str, ...]]:
    """Return the sum of such weights, what it is of, and the names of that."""
    work = spec.accumulator
    heads = (spec.batch, spec.key_heads, spec.group)
    rows = (*heads, spec.queries)
    given: dict[str, tuple[jax.Array, int | None, int | None]] = {
        "query": (_arranged(spec, "query", operands.query), 3, None),
        "key": (_arranged(spec, "key", operands.key), None, 2),
        "lse": (lse.reshape(rows), 3, None),
        "t": (lax.iota(np.int32, spec.queries), 0, None),
        "s": (lax.iota(np.int32, spec.keys), None, 0),
    }
    results = [Piece(rows, work, 3)]
    if kind == "values":
        given["value"] = _arranged(spec, "value", operands.value), None, 2
        results.append(Piece((*rows, spec.value_size), work, 3))
    elif kind == "columns":
        assert weight is not None
        given["weight"] = weight[:, None, None, :], 3, None
        results = [Piece((*heads, spec.keys), work, None, 3)]
    for name in ("mask", "bias"):
        x = getattr(operands, name)
        if x is not None:
            x = _arranged(spec, name, x)
            given[name] = x, 3 if x.shape[3] == rows[3] > 1 else None, 4 if x.shape[4] == spec.keys > 1 else None
    if operands.segment_ids is not None and operands.key_segment_ids is not None:
        given["segment_ids"] = operands.segment_ids, 1, None
        given["key_segment_ids"] = operands.key_segment_ids, None, 1
    bounds = Bounds()
    if spec.window != (None, None):
        if operands.q_offset is not None:
            given["q_offset"] = operands.q_offset, None, None
        else:
            bounds = Bounds(spec.q_offset or 0, *spec.window)
    for name in ("query_lengths", "key_lengths"):
        if getattr(operands, name) is not None:
            given[name] = getattr(operands, name), None, None
    names = tuple(given)
    tile = _Weights(kind, names, spec.scale, spec.softcap, spec.window, spec.q_offset, spec.precision)
    pieces = tuple(Piece(x.shape, np.dtype(x.dtype), t, s) for x, t, s in given.values())
    lead = spec.batch * spec.heads
    what = Sum(tile, pieces, tuple(results), spec.queries, spec.keys, bounds, lead)
    return what, [x for x, _, _ in given.values()], names


def _aligned(arrays: list[jax.Array], along: dict[int, jax.Array]) -> tuple[Sequence[jax.Array], dict[int, jax.Array]]:
    every = vary_alike(*arrays, *along.values())
    return every[: len(arrays)], dict(zip(along, every[len(arrays) :], strict=True))


def _arranged(spec: AttentionSpec, name: str, x: jax.Array) -> jax.Array:
    """Return an operand with heads in front of positions, those of queries split, in the accumulator's dtype."""
    if name == "mask":
        return _split(spec, x)
    x = lax.convert_element_type(x, spec.accumulator)
    if name == "bias":
        return _split(spec, x)
    if spec.layout == "BTNH":
        x = lax.transpose(x, (0, 2, 1, 3))
    return x.reshape(spec.batch, spec.key_heads, spec.group, *x.shape[2:]) if name == "query" else x


def _split(spec: AttentionSpec, x: jax.Array) -> jax.Array:
    heads = (1, 1) if x.shape[1] == 1 else (spec.key_heads, spec.group)
    return x.reshape(x.shape[0], *heads, *x.shape[2:])


def _queries_back(spec: AttentionSpec, x: jax.Array) -> jax.Array:
    """Return what is arranged as the queries in the layout and dtype of the result."""
    x = x.reshape(spec.batch, spec.heads, *x.shape[3:])
    if spec.layout == "BTNH":
        x = lax.transpose(x, (0, 2, 1, 3))
    return lax.convert_element_type(x, spec.dtype)
