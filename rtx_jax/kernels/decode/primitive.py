"""Decode attention as one primitive: the implementation is chosen when a call is lowered, for that platform.

The derivative is JAX's own of the plain form, so that every mode and order exists on every implementation. A batch of
calls is one larger call: of more heads where they share their cache, else of more rows.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from ..._compat import Primitive, is_partitioned, lowering_target, result_avals, vary_alike, x64
from ..target import target_of
from . import plain, select, xla
from .spec import DecodeOperands, DecodeSpec
from .splits import finish
from .tuned import tuned_blocks

__all__ = ["decode", "decode_p"]

_DIFFERENTIABLE = frozenset(("query", "key", "value", "factor", "key_scale", "value_scale", "sinks"))
_OF_ROWS = frozenset(("query", "factor", "sinks"))
_CACHE = frozenset(("key", "value", "key_scale", "value_scale"))

Names = tuple[str, ...]

decode_p = Primitive("rtx_jax_decode")
decode_p.multiple_results = True


def decode(spec: DecodeSpec, operands: DecodeOperands, implementation: str) -> tuple[jax.Array, jax.Array]:
    """Return the result (B, K, R, Hv) and the log-sum-exp (B, K, R), in the accumulator's dtype."""
    names = tuple(name for name, x in operands._asdict().items() if x is not None)
    arrays = vary_alike(*(x for x in operands if x is not None))
    out, lse = decode_p.bind(*arrays, spec=spec, names=names, implementation=implementation)
    return out, lse


def _operands(names: Names, arrays: Sequence[jax.Array]) -> DecodeOperands:
    return DecodeOperands(**dict(zip(names, arrays, strict=True)))


def _plain(*arrays: jax.Array, spec: DecodeSpec, names: Names) -> tuple[jax.Array, jax.Array]:
    return plain.forward(spec, _operands(names, arrays))


def _wide(spec: DecodeSpec) -> contextlib.AbstractContextManager[None]:
    return x64() if spec.accumulator.itemsize == 8 else contextlib.nullcontext()


@functools.lru_cache(maxsize=1024)
def _compiled(spec: DecodeSpec, names: Names, implementation: str) -> object:
    return jax.jit(functools.partial(decode_p.bind, spec=spec, names=names, implementation=implementation))


def _impl(*arrays: jax.Array, spec: DecodeSpec, names: Names, implementation: str) -> object:
    # Under `jax.disable_jit` this would call itself for ever.
    with jax.disable_jit(False), _wide(spec):
        return _compiled(spec, names, implementation)(*arrays)  # type: ignore[operator]


def _avals(
    *avals: jax.core.ShapedArray, spec: DecodeSpec, names: Names, implementation: str
) -> list[jax.core.ShapedArray]:
    del implementation
    with _wide(spec):
        return result_avals(functools.partial(_plain, spec=spec, names=names), avals)


def _lower(
    ctx: mlir.LoweringRuleContext, *values: object, spec: DecodeSpec, names: Names, implementation: str
) -> object:
    target = target_of(*lowering_target(ctx))
    partitioned = is_partitioned(ctx)
    chosen = select.choose(spec, implementation, target, partitioned=partitioned)
    partial = (
        functools.partial(xla.partial, together=True) if partitioned and chosen.NAME == xla.NAME else chosen.partial
    )
    blocks = tuned_blocks(chosen, spec, target)
    partial = partial if blocks is None else functools.partial(partial, blocks=blocks)

    def run(*arrays: jax.Array) -> tuple[jax.Array, jax.Array]:
        operands = _operands(names, arrays)
        return finish(spec, operands, partial(spec, operands))

    # Inside of a `shard_map` the arrays are one device's, and no loop must say over which axes its results vary.
    avals = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in ctx.avals_in]  # type: ignore[attr-defined]
    with _wide(spec):
        return mlir.lower_fun(run, multiple_results=True)(ctx.replace(avals_in=avals), *values)


decode_p.def_impl(_impl)
decode_p.def_abstract_eval(_avals)
mlir.register_lowering(decode_p, _lower)  # type: ignore[arg-type]


def _jvp(
    primals: Sequence[jax.Array],
    tangents: Sequence[object],
    *,
    spec: DecodeSpec,
    names: Names,
    implementation: str,
) -> tuple[object, object]:
    out = decode_p.bind(*primals, spec=spec, names=names, implementation=implementation)
    active = [type(t) is not ad.Zero and n in _DIFFERENTIABLE for n, t in zip(names, tangents, strict=True)]
    if not any(active):
        return out, [jnp.zeros_like(x) for x in out]

    def function(*moving: jax.Array) -> tuple[jax.Array, jax.Array]:
        rest = iter(moving)
        arrays = [next(rest) if a else x for a, x in zip(active, primals, strict=True)]
        return _plain(*arrays, spec=spec, names=names)

    def chosen(xs: Sequence[object]) -> list[object]:
        return [x for a, x in zip(active, xs, strict=True) if a]

    with _wide(spec):
        return out, list(jax.jvp(function, chosen(primals), chosen(tangents))[1])


ad.primitive_jvps[decode_p] = _jvp


def _batch(
    arrays: Sequence[jax.Array],
    axes: Sequence[object],
    *,
    spec: DecodeSpec,
    names: Names,
    implementation: str,
) -> tuple[list[jax.Array], list[int]]:
    mapped = {n: isinstance(a, int) for n, a in zip(names, axes, strict=True)}
    count = next(x.shape[a] for x, a in zip(arrays, axes, strict=True) if isinstance(a, int))
    front = {n: jnp.moveaxis(x, a, 0) if isinstance(a, int) else x for n, x, a in zip(names, arrays, axes, strict=True)}
    bind = functools.partial(decode_p.bind, names=names, implementation=implementation)
    if not any(mapped[n] for n in names if n not in _OF_ROWS):
        heads = (spec.key_heads, spec.queries, count, spec.group)
        folded = []
        for n in names:
            x = front[n]
            if n in _OF_ROWS:
                x = x if mapped[n] else jnp.broadcast_to(x, (count, *x.shape))
                x = x.reshape(count, spec.batch, spec.key_heads, spec.queries, spec.group, *x.shape[4:])
                x = jnp.moveaxis(x, 0, 3).reshape(spec.batch, spec.key_heads, count * spec.rows, *x.shape[5:])
            folded.append(x)
        out = bind(*folded, spec=replace(spec, heads=spec.heads * count))
        parts = [jnp.moveaxis(x.reshape(spec.batch, *heads, *x.shape[3:]), 3, 0) for x in out]
        return [x.reshape(count, spec.batch, spec.key_heads, spec.rows, *x.shape[5:]) for x in parts], [0, 0]
    shares_pages = bool(spec.page) and not any(mapped[n] for n in names if n in _CACHE)
    if spec.page and not shares_pages:
        table = front["table"] if mapped["table"] else jnp.broadcast_to(front["table"], (count, *front["table"].shape))
        first = jnp.arange(count, dtype=table.dtype) * spec.pages
        front["table"], mapped["table"] = table + first[:, None, None], True
    folded = []
    for n in names:
        x = front[n]
        if not (shares_pages and n in _CACHE):
            x = x if mapped[n] else jnp.broadcast_to(x, (count, *x.shape))
            x = x.reshape(count * x.shape[1], *x.shape[2:])
        folded.append(x)
    pages = spec.pages if shares_pages else spec.pages * count
    out = bind(*folded, spec=replace(spec, batch=spec.batch * count, pages=pages))
    return [x.reshape(count, spec.batch, *x.shape[1:]) for x in out], [0, 0]


batching.primitive_batchers[decode_p] = _batch
