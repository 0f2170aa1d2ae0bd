"""Attention as three primitives, each the transpose or the derivative of another, so that every order exists.

`attention_p` gives the result and the log-sum-exp. Its derivative is `attention_jvp_p`, linear in the tangents, whose
transpose is `attention_vjp_p`, linear in the cotangents, whose transpose is `attention_jvp_p` again. What is kept
between them is the operands, the result and the log-sum-exp. Derivatives of the last two by anything else are those of
sums over pairs (`formulas`). The implementation is chosen when a call is lowered, for the platform that it is lowered
for; `attention_jvp_p` has one for all.

Sinks take part in `attention_p` alone: with the log-sum-exp known, their derivative is one number for each query.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import ad

from ..._compat import Primitive, explicit_axes, is_zero, register_lowering, result_aval, vary_alike, x64
from ..target import target_of
from . import formulas, select
from .spec import AttentionSpec, Operands
from .tuned import tuned_blocks

__all__ = [
    "Call",
    "Facts",
    "attention",
    "attention_jvp_p",
    "attention_p",
    "attention_vjp_p",
    "choose",
    "evaluate",
]

DIFFERENTIABLE = ("query", "key", "value", "bias")


@dataclass(frozen=True, slots=True)
class Call:
    """The parameters of the primitives.

    Attributes
    ----------
    spec
        What is asked for.
    implementation
        Its word, or ``"auto"``.
    names
        The operands that are there, in the order of `Operands`.
    relaxed
        Whether an implementation that is not ``nan_safe`` may be taken in spite of the specification.
    """

    spec: AttentionSpec
    implementation: str
    names: tuple[str, ...]
    relaxed: bool = False

    def operands(self, arrays: Sequence[jax.Array]) -> Operands:
        """Return the arrays by name."""
        return Operands(**dict(zip(self.names, arrays, strict=True)))

    @property
    def results(self) -> tuple[tuple[tuple[int, ...], np.dtype], ...]:
        """Shape and dtype of the result and of the log-sum-exp."""
        spec = self.spec
        lead = (spec.queries, spec.heads) if spec.layout == "BTNH" else (spec.heads, spec.queries)
        return (
            ((spec.batch, *lead, spec.value_size), spec.dtype),
            ((spec.batch, spec.heads, spec.queries), spec.accumulator),
        )


attention_p = Primitive("rtx_jax_attention")
attention_jvp_p = Primitive("rtx_jax_attention_jvp")
attention_vjp_p = Primitive("rtx_jax_attention_vjp")
for _primitive in (attention_p, attention_jvp_p, attention_vjp_p):
    _primitive.multiple_results = True


def attention(
    spec: AttentionSpec, operands: Operands, implementation: str = "auto", relaxed: bool = False
) -> tuple[jax.Array, jax.Array]:
    """Return the attention, in the layout and dtype of the queries, and the log-sum-exp ``(B, N, T)``.

    Parameters
    ----------
    spec
        What is asked for.
    operands
        As the specification says; no axis is empty.
    implementation
        Its word, or ``"auto"``.
    relaxed
        As `Call` says.
    """
    given = {name: x for name, x in operands._asdict().items() if x is not None}
    out, lse = attention_p.bind(*vary_alike(*given.values()), call=Call(spec, implementation, tuple(given), relaxed))
    return out, lse


# Evaluation


@functools.cache
def _compiled(primitive: object, wide: bool, params: tuple[tuple[str, object], ...]) -> Callable[..., list[jax.Array]]:
    del wide
    return jax.jit(lambda *arrays: primitive.bind(*arrays, **dict(params)))  # type: ignore[attr-defined]


def evaluate(primitive: object, *arrays: jax.Array, **params: object) -> list[jax.Array]:
    """Return what a primitive gives for arrays, by a compiled program."""
    wide = any(x.dtype.itemsize == 8 for x in arrays)
    run = _compiled(primitive, wide, tuple(params.items()))
    # Under `jax.disable_jit` the program would call this again, for ever.
    with jax.disable_jit(False), x64() if wide else contextlib.nullcontext():
        return run(*arrays)


for _primitive in (attention_p, attention_jvp_p, attention_vjp_p):
    _primitive.def_impl(functools.partial(evaluate, _primitive))


def _avals(*avals: jax.core.ShapedArray, call: Call) -> list[jax.core.ShapedArray]:
    # Divided among devices as the queries are, where a mesh has explicit axes.
    b, x, y, _ = explicit_axes(avals[0])
    axes = (b, x, y, None), (b, y, x) if call.spec.layout == "BTNH" else (b, x, y)
    return [result_aval(shape, dtype, avals, at) for (shape, dtype), at in zip(call.results, axes, strict=True)]


def _jvp_avals(*avals: jax.core.ShapedArray, call: Call, linear: tuple[str, ...]) -> list[jax.core.ShapedArray]:
    del linear
    return _avals(*avals, call=call)


def _vjp_avals(*avals: jax.core.ShapedArray, call: Call, linear: tuple[str, ...]) -> list[jax.core.ShapedArray]:
    given = [dict(zip(call.names, avals, strict=False))[name] for name in linear]
    return [result_aval(aval.shape, aval.dtype, avals, explicit_axes(aval)) for aval in given]


Facts: TypeAlias = "tuple[str, str, tuple[int, int] | None]"
"""What `target_of` takes."""


def choose(
    call: Call, target: Facts, partitioned: bool, offering: str | None = None
) -> tuple[select.Implementation, AttentionSpec]:
    """Return the implementation of a call, and the call as it is to have it."""
    device = target_of(*target)
    return select.choose(call.spec, device, call.implementation, partitioned, call.relaxed, offering)


def _lower(*arrays: jax.Array, call: Call, target: Facts, partitioned: bool) -> tuple[jax.Array, jax.Array]:
    chosen, spec = choose(call, target, partitioned)
    blocks = tuned_blocks(chosen, spec, target_of(*target), "forward")
    return chosen.forward(spec, call.operands(arrays), blocks=blocks)


def _lower_jvp(
    *arrays: jax.Array, call: Call, linear: tuple[str, ...], **of_target: object
) -> tuple[jax.Array, jax.Array]:
    del of_target
    return _tangents(call, linear, arrays)


def _lower_vjp(
    *arrays: jax.Array,
    call: Call,
    linear: tuple[str, ...],
    target: Facts,
    partitioned: bool,
) -> list[jax.Array]:
    count = len(call.names)
    operands = call.operands(arrays[:count])
    out, lse, d_out, d_lse = arrays[count:]
    chosen, spec = choose(call, target, partitioned)
    blocks = tuned_blocks(chosen, spec, target_of(*target), "backward")
    found = chosen.backward(spec, operands, out, lse, d_out, d_lse, bias="bias" in linear, blocks=blocks)
    return [getattr(found, name) for name in linear]


attention_p.def_abstract_eval(_avals)
attention_jvp_p.def_abstract_eval(_jvp_avals)
attention_vjp_p.def_abstract_eval(_vjp_avals)
register_lowering(attention_p, _lower)
register_lowering(attention_jvp_p, _lower_jvp)
register_lowering(attention_vjp_p, _lower_vjp)


# Derivatives


def _tangents(call: Call, linear: tuple[str, ...], arrays: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
    count = len(call.names)
    out, lse, *moving = arrays[count:]
    return formulas.tangents(call.spec, call.operands(arrays[:count]), out, lse, dict(zip(linear, moving, strict=True)))


def _cotangents(call: Call, linear: tuple[str, ...], arrays: Sequence[jax.Array]) -> list[jax.Array]:
    *fixed, d_out, d_lse = arrays
    given = dict(zip(call.names, fixed, strict=False))

    def run(*moving: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _tangents(call, linear, [*fixed, *moving])

    # The arrays stand for what they are: shapes, dtypes and the mesh axes they vary over.
    return list(jax.linear_transpose(run, *(given[name] for name in linear))((d_out, d_lse)))


def _jvp(primals: Sequence[jax.Array], tangents: Sequence[Any], *, call: Call) -> tuple[list[jax.Array], list[object]]:
    out, lse = attention_p.bind(*primals, call=call)
    moving = {
        name: x
        for name, x in zip(call.names, tangents, strict=True)
        if name in (*DIFFERENTIABLE, "sinks") and not is_zero(x)
    }
    d_sinks = moving.pop("sinks", None)
    d_out: object = ad.Zero(jax.typeof(out))
    d_lse: object = ad.Zero(jax.typeof(lse))
    if moving:
        names = tuple(name for name in call.names if name != "sinks")
        rest = replace(call, spec=replace(call.spec, sinks_dtype=None), names=names)
        arrays = [x for name, x in zip(call.names, primals, strict=True) if name != "sinks"]
        d_out, d_lse = attention_jvp_p.bind(
            *vary_alike(*arrays, out, lse, *moving.values()),
            call=rest,
            linear=tuple(moving),
        )
    if d_sinks is not None:
        sinks = primals[call.names.index("sinks")]
        more_out, more_lse = _along_sinks(call.spec, sinks, d_sinks, out, lse)
        d_out, d_lse = ad.add_tangents(d_out, more_out), ad.add_tangents(d_lse, more_lse)
    return [out, lse], [d_out, d_lse]


def _along_sinks(
    spec: AttentionSpec, sinks: jax.Array, d_sinks: jax.Array, out: jax.Array, lse: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the tangents of the result and of the log-sum-exp along that of the sinks."""
    weights = formulas.sink_weights(spec, sinks, lse)
    along = lax.convert_element_type(d_sinks, spec.accumulator)
    by_position = spec.layout == "BTNH"
    rows = (lax.transpose(weights, (0, 2, 1)) if by_position else weights)[..., None]
    # Where the sink takes nothing, a result of NaN stays out of it.
    share = rows * jnp.where(rows == 0, 0, lax.convert_element_type(out, spec.accumulator))
    d_out = -share * (along[None, None, :, None] if by_position else along[None, :, None, None])
    return lax.convert_element_type(d_out, out.dtype), weights * along[None, :, None]


def _jvp_of_linear(
    primitive: object, formula: Callable[..., Sequence[jax.Array]], parts: int
) -> Callable[..., tuple[Sequence[jax.Array], Sequence[object]]]:
    """Return the derivative of a primitive that is linear in its last operands, `parts` or as many as `linear`."""

    def rule(
        primals: Sequence[jax.Array], tangents: Sequence[Any], *, call: Call, linear: tuple[str, ...]
    ) -> tuple[Sequence[jax.Array], Sequence[object]]:
        moving = [i for i, x in enumerate(tangents) if not is_zero(x)]
        first = len(primals) - (parts or len(linear))
        if all(i >= first for i in moving):
            found = primitive.bind(*primals, call=call, linear=linear)  # type: ignore[attr-defined]
            ways = [ad.instantiate_zeros(x) for x in tangents[first:]]
            arrays = vary_alike(*primals[:first], *ways)
            return found, primitive.bind(*arrays, call=call, linear=linear)  # type: ignore[attr-defined]

        def run(*given: jax.Array) -> Sequence[jax.Array]:
            arrays = list(primals)
            for i, x in zip(moving, given, strict=True):
                arrays[i] = x
            return list(formula(call, linear, arrays))

        return jax.jvp(run, tuple(primals[i] for i in moving), tuple(tangents[i] for i in moving))

    return rule


def _transpose_jvp(cotangents: Sequence[Any], *arrays: Any, call: Call, linear: tuple[str, ...]) -> list[object]:
    count = len(call.names) + 2
    fixed, moving = arrays[:count], arrays[count:]
    wanted = tuple(name for name, x in zip(linear, moving, strict=True) if ad.is_undefined_primal(x))
    d_out, d_lse = (ad.instantiate_zeros(x) for x in cotangents)
    found = iter(attention_vjp_p.bind(*vary_alike(*fixed, d_out, d_lse), call=call, linear=wanted))
    return [*([None] * count), *(next(found) if name in wanted else None for name in linear)]


def _transpose_vjp(cotangents: Sequence[Any], *arrays: Any, call: Call, linear: tuple[str, ...]) -> list[object]:
    count = len(call.names) + 2
    given = {name: x for name, x in zip(linear, cotangents, strict=True) if not is_zero(x)}
    if not given:
        return [None] * len(arrays)
    found = attention_jvp_p.bind(
        *vary_alike(*arrays[:count], *given.values()),
        call=call,
        linear=tuple(given),
    )
    wanted = [x if ad.is_undefined_primal(of) else None for x, of in zip(found, arrays[count:], strict=True)]
    return [*([None] * count), *wanted]


ad.primitive_jvps[attention_p] = _jvp
ad.primitive_jvps[attention_jvp_p] = _jvp_of_linear(attention_jvp_p, _tangents, 0)
ad.primitive_jvps[attention_vjp_p] = _jvp_of_linear(attention_vjp_p, _cotangents, 2)
ad.primitive_transposes[attention_jvp_p] = _transpose_jvp
ad.primitive_transposes[attention_vjp_p] = _transpose_vjp
