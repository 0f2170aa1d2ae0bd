"""A formula as JAX primitives: its kernels are chosen per platform when it is lowered, its derivatives are complete.

A `Formula` is a plain function of arrays, which JAX could differentiate by itself, and its backward pass. `call` binds
three primitives for them: the function, its derivative (linear in the tangents), and the transpose of that (linear in
the cotangents). Where a platform has a kernel for the function or for the backward pass, the lowering takes it; all
other derivatives, and those of any order, are JAX's own of the plain functions. So each mode of differentiation works
on every platform, kernels are traced only where they run, and nothing but the operands is kept for the backward pass.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from .._compat import Primitive, register_lowering, result_avals, vary_alike, x64
from ..errors import AutogradError
from .target import Target, target_of

__all__ = ["Arrays", "Formula", "Implementation", "Request", "call"]

Arrays = tuple[jax.Array, ...]
Implementation = Callable[..., Arrays]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """What a kernel is looked for at lowering.

    Attributes
    ----------
    backward
        Whether it is the backward pass.
    target
        The device.
    operands
        Shapes and dtypes of the operands, and for the backward pass behind them of the kept results and the
        cotangents.
    wanted
        The operands of which the backward pass gives cotangents.
    partitioned
        Whether XLA divides the arrays among devices by itself, which it cannot do around a kernel.
    """

    backward: bool
    target: Target
    operands: tuple[jax.core.ShapedArray, ...]
    wanted: tuple[bool, ...]
    partitioned: bool


def _plain(request: Request) -> None:
    """Choose no kernel."""
    del request


def _cannot_fold(operands: Arrays, batched: tuple[bool, ...]) -> None:
    """Find no way to take a batch of operands as one larger call."""
    del operands, batched


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """A function of arrays with its backward pass; make one per set of static parameters and keep it.

    Attributes
    ----------
    name
        For the text of programs.
    forward
        Function of the operands that returns a tuple of arrays; JAX can differentiate it.
    backward
        Function of the operands, the kept results, the cotangents of all results, and which operands a cotangent is
        wanted of; it returns the cotangents of these alone. JAX can differentiate it.
    differentiable
        Which operands have derivatives.
    kept
        How many of the results, from the first on, the backward pass is given; it may take them instead of computing
        them again.
    choose
        Function that returns a kernel for a request, as a function of the same arrays (those of the backward pass in
        one row), or None for the plain function. It raises BackendLimitation where a kernel was demanded that cannot
        do it.
    fold
        Function of operands and of which of them have a leading batch axis, that returns operands for one call of the
        same formula, of which the results have that axis in front, or None. A cotangent of an operand that it took
        without the axis is the sum over the batch.
    linear
        The operands, by number, in each of which the function is linear by itself; it can be transposed in one.
    """

    name: str
    forward: Implementation
    backward: Callable[[Arrays, Arrays, Arrays, tuple[bool, ...]], Arrays]
    differentiable: tuple[bool, ...]
    kept: int = 0
    choose: Callable[[Request], Implementation | None] = _plain
    fold: Callable[[Arrays, tuple[bool, ...]], Arrays | None] = _cannot_fold
    linear: tuple[int, ...] = ()

    def parts(self, arrays: Sequence[T]) -> tuple[tuple[T, ...], tuple[T, ...], tuple[T, ...]]:
        """Return what a derivative takes as operands, kept results, and tangents or cotangents."""
        n = len(self.differentiable)
        return tuple(arrays[:n]), tuple(arrays[n : n + self.kept]), tuple(arrays[n + self.kept :])


def call(formula: Formula, *operands: jax.Array) -> Arrays:
    """Return the results of a formula; traceable, and differentiable in every mode."""
    return tuple(_forward_p.bind(*vary_alike(*operands), formula=formula))


# What the three primitives compute.


def _forward(*operands: jax.Array, formula: Formula) -> Arrays:
    return formula.forward(*operands)


def _filled(all_of: Sequence[T], active: tuple[bool, ...], moving: Sequence[T]) -> tuple[T, ...]:
    """Return a sequence with its active members replaced."""
    rest = iter(moving)
    return tuple(next(rest) if a else x for a, x in zip(active, all_of, strict=True))


def _only(all_of: Sequence[T], active: tuple[bool, ...]) -> tuple[T, ...]:
    """Return the active members of a sequence."""
    return tuple(x for a, x in zip(active, all_of, strict=True) if a)


def _tangent(*arrays: jax.Array, formula: Formula, active: tuple[bool, ...]) -> Arrays:
    operands, _, tangents = formula.parts(arrays)

    def function(*moving: jax.Array) -> Arrays:
        return formula.forward(*_filled(operands, active, moving))

    out: Arrays = jax.jvp(function, _only(operands, active), tangents)[1]
    return out


def _backward(*arrays: jax.Array, formula: Formula, active: tuple[bool, ...]) -> Arrays:
    return formula.backward(*formula.parts(arrays), active)


_BODIES: dict[Primitive, Callable[..., Arrays]] = {}


def _primitive(name: str, body: Callable[..., Arrays]) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    _BODIES[primitive] = body
    primitive.def_impl(functools.partial(_evaluate, primitive))
    primitive.def_abstract_eval(lambda *avals, **params: _avals(primitive, tuple(params.items()), avals))
    register_lowering(primitive, functools.partial(_chosen, primitive))
    return primitive


def _evaluate(primitive: Primitive, *arrays: jax.Array, **params: object) -> list[jax.Array]:
    # Under `jax.disable_jit` the program would call this again, for ever.
    with jax.disable_jit(False):
        return _compiled(primitive, tuple(params.items()))(*arrays)


@functools.lru_cache(maxsize=1024)
def _compiled(primitive: Primitive, params: tuple[tuple[str, object], ...]) -> Callable[..., list[jax.Array]]:
    return jax.jit(functools.partial(primitive.bind, **dict(params)))


def _avals(
    primitive: Primitive, params: tuple[tuple[str, object], ...], avals: Sequence[jax.core.ShapedArray]
) -> list[jax.core.ShapedArray]:
    with _as_wide_as(avals):
        return result_avals(functools.partial(_BODIES[primitive], **dict(params)), avals)


def _as_wide_as(avals: Sequence[jax.core.ShapedArray]) -> contextlib.AbstractContextManager[None]:
    """Trace the body with 64-bit types if there are any among the operands."""
    return x64() if any(aval.dtype.itemsize >= 8 for aval in avals) else contextlib.nullcontext()


def _chosen(
    primitive: Primitive,
    *arrays: jax.Array,
    target: tuple[str, str, tuple[int, int] | None],
    partitioned: bool,
    formula: Formula,
    **params: tuple[bool, ...],
) -> Arrays:
    """Compute what a primitive does with the kernel that is chosen for a platform."""
    kernel = None
    if primitive is not _tangent_p:
        avals = tuple(jax.core.ShapedArray(x.shape, x.dtype) for x in arrays)
        wanted = params.get("active", ())
        request = Request(primitive is _backward_p, target_of(*target), avals, wanted, partitioned)
        kernel = formula.choose(request)
    return _BODIES[primitive](*arrays, formula=formula, **params) if kernel is None else kernel(*arrays)


_forward_p = _primitive("rtx_jax_formula", _forward)
_tangent_p = _primitive("rtx_jax_formula_tangent", _tangent)
_backward_p = _primitive("rtx_jax_formula_backward", _backward)


# Derivatives


def _given(tangents: Sequence[object]) -> tuple[bool, ...]:
    return tuple(type(t) is not ad.Zero for t in tangents)


def _jvp(primals: Sequence[jax.Array], tangents: Sequence[object], *, formula: Formula) -> tuple[object, object]:
    out = _forward_p.bind(*primals, formula=formula)
    active = tuple(g and d for g, d in zip(_given(tangents), formula.differentiable, strict=True))
    if not any(active):
        return out, [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in out]
    if sum(active) == 1 and active.index(True) in formula.linear:
        # The function of the tangent: the operand itself need not be kept.
        moving = [t if a else x for t, a, x in zip(tangents, active, primals, strict=True)]
        return out, _forward_p.bind(*vary_alike(*moving), formula=formula)  # type: ignore[arg-type]
    arrays = vary_alike(*primals, *out[: formula.kept], *_only(tangents, active))  # type: ignore[arg-type]
    return out, _tangent_p.bind(*arrays, formula=formula, active=active)


def _plain_jvp(
    primitive: Primitive, primals: Sequence[jax.Array], tangents: Sequence[object], **params: object
) -> tuple[object, object]:
    """Differentiate what a primitive computes as JAX does it."""
    out = primitive.bind(*primals, **params)
    given = _given(tangents)

    def function(*moving: jax.Array) -> Arrays:
        return _BODIES[primitive](*_filled(primals, given, moving), **params)

    return out, list(jax.jvp(function, _only(primals, given), _only(tangents, given))[1])


def _instantiated(cotangents: Sequence[object]) -> list[jax.Array]:
    return [ad.instantiate_zeros(ct) if type(ct) is ad.Zero else ct for ct in cotangents]  # type: ignore[misc]


def _tangent_transpose(
    cotangents: Sequence[object], *arrays: jax.Array, formula: Formula, active: tuple[bool, ...]
) -> list[object]:
    operands, kept, tangents = formula.parts(arrays)
    assert not any(ad.is_undefined_primal(x) for x in (*operands, *kept)), "linear in the tangents alone"
    # A tangent that is known belongs to a part that was computed before.
    unknown = [ad.is_undefined_primal(x) for x in tangents]
    wanted = _filled([False] * len(active), active, unknown)
    given = vary_alike(*operands, *kept, *_instantiated(cotangents))
    found = iter(_backward_p.bind(*given, formula=formula, active=wanted))
    return [None] * (len(operands) + len(kept)) + [next(found) if u else None for u in unknown]


def _forward_transpose(cotangents: Sequence[object], *arrays: jax.Array, formula: Formula) -> list[object]:
    unknown = tuple(ad.is_undefined_primal(x) for x in arrays)
    if sum(unknown) != 1 or unknown.index(True) not in formula.linear:
        raise AutogradError(
            formula.name, "", got="a transpose", wanted="an operand in which it is linear", remedy="Take its vjp."
        )
    # Of a linear function the backward pass does not read the operand.
    known = [jnp.zeros(x.aval.shape, x.aval.dtype) if u else x for u, x in zip(unknown, arrays, strict=True)]
    out = iter(_backward_p.bind(*vary_alike(*known, *_instantiated(cotangents)), formula=formula, active=unknown))
    return [next(out) if u else None for u in unknown]


def _backward_transpose(
    cotangents: Sequence[object], *arrays: jax.Array, formula: Formula, active: tuple[bool, ...]
) -> list[object]:
    operands, kept, seeds = formula.parts(arrays)
    assert not any(ad.is_undefined_primal(x) for x in (*operands, *kept)), "linear in the cotangents alone"
    given = vary_alike(*operands, *kept, *_instantiated(cotangents))
    out = _tangent_p.bind(*given, formula=formula, active=active)
    found = [ct if ad.is_undefined_primal(x) else None for ct, x in zip(out, seeds, strict=True)]
    return [None] * (len(operands) + len(kept)) + found


ad.primitive_jvps[_forward_p] = _jvp
ad.primitive_jvps[_tangent_p] = functools.partial(_plain_jvp, _tangent_p)
ad.primitive_jvps[_backward_p] = functools.partial(_plain_jvp, _backward_p)
ad.primitive_transposes[_forward_p] = _forward_transpose
ad.primitive_transposes[_tangent_p] = _tangent_transpose
ad.primitive_transposes[_backward_p] = _backward_transpose


# Batches


def _in_front(x: jax.Array, axis: object, size: int) -> jax.Array:
    """Return `x` with the batch axis in front, a new one where it has none."""
    return jnp.moveaxis(x, axis, 0) if isinstance(axis, int) else jnp.broadcast_to(x, (size, *x.shape))


def _size(arrays: Sequence[jax.Array], axes: Sequence[object]) -> int:
    return next(x.shape[a] for x, a in zip(arrays, axes, strict=True) if isinstance(a, int))


@functools.lru_cache(maxsize=256)
def _mapped(formula: Formula, batched: tuple[bool, ...]) -> Formula:
    """Return the formula of a batch, of which some operands are shared."""
    axes = tuple(0 if b else None for b in batched)

    def backward(operands: Arrays, kept: Arrays, cotangents: Arrays, wanted: tuple[bool, ...]) -> Arrays:
        def one(operands: Arrays, kept: Arrays, cotangents: Arrays) -> Arrays:
            return formula.backward(operands, kept, cotangents, wanted)

        found = jax.vmap(one, in_axes=(axes, 0, 0))(operands, kept, cotangents)
        return tuple(x if b else x.sum(0, dtype=x.dtype) for x, b in zip(found, _only(batched, wanted), strict=True))

    forward = jax.vmap(formula.forward, in_axes=axes)
    return Formula(formula.name, forward, backward, formula.differentiable, formula.kept)


def _batch(
    primitive: Primitive, arrays: Sequence[jax.Array], axes: Sequence[object], *, formula: Formula, **params: object
) -> tuple[object, object]:
    """Batch the function or its derivative; an operand and its tangent are both batched or neither is."""
    n = len(formula.differentiable)
    active = params.get("active", (False,) * n)
    assert isinstance(active, tuple)
    mapped, _, moves = formula.parts([isinstance(axis, int) for axis in axes])
    batched = tuple(m or t for m, t in zip(mapped, _filled([False] * n, active, moves), strict=True))
    size = _size(arrays, axes)
    every = (
        *batched,
        *(True for _ in arrays[n : len(arrays) - len(moves)]),
        *(_only(batched, active) if moves else ()),
    )
    moved = [_in_front(x, axis, size) if b else x for x, axis, b in zip(arrays, axes, every, strict=True)]
    operands, kept, tangents = formula.parts(moved)
    folded = formula.fold(operands, batched)
    if folded is None:
        out = primitive.bind(*vary_alike(*moved), formula=_mapped(formula, batched), **params)
    else:
        if tangents:  # of the form of their operands
            as_operands = formula.fold(_filled(operands, active, tangents), batched)
            assert as_operands is not None
            tangents = _only(as_operands, active)
        out = primitive.bind(*vary_alike(*folded, *kept, *tangents), formula=formula, **params)
    return out, [0] * len(out)


def _batch_backward(
    arrays: Sequence[jax.Array], axes: Sequence[object], *, formula: Formula, active: tuple[bool, ...]
) -> tuple[object, object]:
    n, size = len(active), _size(arrays, axes)
    # Each element of the batch has a cotangent of its own, so what it is wanted of cannot be shared.
    batched = tuple(isinstance(axis, int) or a for axis, a in zip(axes[:n], active, strict=True))
    every = (*batched, *(True for _ in axes[n:]))
    moved = [_in_front(x, axis, size) if b else x for x, axis, b in zip(arrays, axes, every, strict=True)]
    operands, kept, cotangents = formula.parts(moved)
    folded = formula.fold(operands, batched)
    if folded is None:
        one = functools.partial(_backward, formula=formula, active=active)
        out = jax.vmap(one, in_axes=tuple(0 if b else None for b in every))(*moved)
    else:
        out = _backward_p.bind(*vary_alike(*folded, *kept, *cotangents), formula=formula, active=active)
    return out, [0] * len(out)


batching.primitive_batchers[_forward_p] = functools.partial(_batch, _forward_p)
batching.primitive_batchers[_tangent_p] = functools.partial(_batch, _tangent_p)
batching.primitive_batchers[_backward_p] = _batch_backward
