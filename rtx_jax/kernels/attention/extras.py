"""Row entropy and column scores, by the kernels of an implementation where it has any.

Two primitives that are shortcuts: each is lowered to what the chosen implementation offers, and is differentiated,
batched and, without an offer, lowered as what it is short for: sums over pairs of blocks (`formulas`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching

from ..._compat import Primitive, is_zero, register_lowering, result_aval, vary_alike
from . import formulas
from .primitives import Call, Facts, attention, choose, evaluate
from .spec import AttentionSpec, Operands

__all__ = ["attention_with_entropy", "column_scores"]

attention_entropy_p = Primitive("rtx_jax_attention_entropy")
column_scores_p = Primitive("rtx_jax_attention_columns")


def attention_with_entropy(
    spec: AttentionSpec, operands: Operands, implementation: str, relaxed: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the attention, the log-sum-exp, and the entropy ``(B, N, T)`` of each query's weights in nats.

    A sink's weight is one of them; a query that sees no key has entropy 0.
    """
    given = {name: x for name, x in operands._asdict().items() if x is not None}
    call = Call(spec, implementation, tuple(given), relaxed)
    out, lse, found = attention_entropy_p.bind(*vary_alike(*given.values()), call=call)
    if operands.sinks is not None:
        sinks = lax.convert_element_type(operands.sinks, spec.accumulator)[None, :, None]
        weights = formulas.sink_weights(spec, operands.sinks, lse)
        # A sink without weight adds nothing, be it infinite or NaN.
        found = found - weights * jnp.where(weights == 0, 0, sinks)
    return out, lse, found


def column_scores(
    spec: AttentionSpec, operands: Operands, lse: jax.Array, last: int, implementation: str, relaxed: bool
) -> jax.Array:
    """Return the weight that each key gets from the last queries, summed over them: ``(B, N, S)``.

    With query lengths they are the last of those that are there.
    """
    # The sinks are in the log-sum-exp.
    given = {name: x for name, x in operands._asdict().items() if x is not None and name != "sinks"}
    call = Call(spec, implementation, tuple(given), relaxed)
    (found,) = column_scores_p.bind(*vary_alike(*given.values(), lse), call=call, last=min(last, spec.queries))
    return found  # type: ignore[no-any-return]


# What the primitives are short for.


def _with_entropy(*arrays: jax.Array, call: Call) -> list[jax.Array]:
    operands = call.operands(arrays)
    out, lse = attention(call.spec, operands, call.implementation, call.relaxed)
    return [out, lse, formulas.row_entropy(call.spec, operands, lse)]


def _columns(*arrays: jax.Array, call: Call, last: int) -> list[jax.Array]:
    *given, lse = arrays
    return [formulas.column_scores(call.spec, call.operands(given), lse, last)]


# What an implementation offers.


def _lower_with_entropy(*arrays: jax.Array, call: Call, target: Facts, partitioned: bool) -> Sequence[jax.Array]:
    chosen, spec = choose(call, target, partitioned, "ENTROPY")
    operands = call.operands(arrays)
    if getattr(chosen, "ENTROPY", False):
        fused: Any = chosen.forward
        found: Sequence[jax.Array] = fused(spec, operands, entropy=True)
        return found
    out, lse = chosen.forward(spec, operands)
    return [out, lse, formulas.row_entropy(spec, operands, lse)]


def _lower_columns(*arrays: jax.Array, call: Call, last: int, target: Facts, partitioned: bool) -> Sequence[jax.Array]:
    chosen, spec = choose(call, target, partitioned, "column_scores")
    offer = getattr(chosen, "column_scores", None)
    if offer is None or spec.query_lengths:
        return _columns(*arrays, call=call, last=last)
    *given, lse = arrays
    return [offer(spec, call.operands(given), lse, last)]


def _avals(*avals: jax.core.ShapedArray, call: Call, last: int | None = None) -> list[jax.core.ShapedArray]:
    spec = call.spec
    rows = (spec.batch, spec.heads, spec.queries), spec.accumulator
    if last is not None:
        return [result_aval((spec.batch, spec.heads, spec.keys), spec.accumulator, avals)]
    return [result_aval(shape, dtype, avals) for shape, dtype in (*call.results, rows)]


def _register(
    primitive: Any, plain: Callable[..., list[jax.Array]], lowering: Callable[..., Sequence[jax.Array]]
) -> None:
    def jvp(primals: Sequence[jax.Array], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        moving = [i for i, x in enumerate(tangents) if not is_zero(x)]

        def run(*given: jax.Array) -> list[jax.Array]:
            arrays = list(primals)
            for i, x in zip(moving, given, strict=True):
                arrays[i] = x
            return plain(*arrays, **params)

        return jax.jvp(run, tuple(primals[i] for i in moving), tuple(tangents[i] for i in moving))

    def batch(arrays: Sequence[jax.Array], axes: Sequence[int | None], **params: Any) -> tuple[Any, list[int]]:
        found = jax.vmap(functools.partial(plain, **params), in_axes=tuple(axes))(*arrays)
        return found, [0] * len(found)

    primitive.multiple_results = True
    primitive.def_impl(functools.partial(evaluate, primitive))
    primitive.def_abstract_eval(_avals)
    register_lowering(primitive, lowering)
    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = batch


_register(attention_entropy_p, _with_entropy, _lower_with_entropy)
_register(column_scores_p, _columns, _lower_columns)
