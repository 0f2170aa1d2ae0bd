"""Sums over all pairs of a query and a key, tile by tile, with derivatives of every order and mode.

A tile is a function of slices: of what belongs to a block of queries, to a block of keys, to both or to neither. What
it returns is summed over the blocks that the result does not have: a result with queries over the blocks of keys, and
so on. The derivative of such a sum is one of the same form with the derivative of the tile, the transpose of a linear
one is the same with the transposed tile, in which operands and results change places, and vmap of it is vmap of the
tile. So one primitive has all of them, to any order, and nothing is ever kept of a tile: memory is that of the
operands and results. (The recomputation is that of Dao et al. 2022, section 3.1, for any order.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from ..._compat import Primitive, is_zero, register_lowering, result_aval
from .walk import Bounds, Piece, walk

__all__ = ["Sum", "Tile", "derivative", "pairwise", "pairwise_p"]

Tile: TypeAlias = "Callable[[Sequence[jax.Array], int, int], list[jax.Array]]"
"""``tile(slices, queries, keys)`` of blocks of so many queries and keys; hashable, and equal where it does the same."""


@dataclass(frozen=True, slots=True)
class Sum:
    """What the primitive sums.

    Attributes
    ----------
    tile
        The function of slices.
    operands, results
        Shapes, dtypes and axes of the wholes.
    queries, keys
        T and S.
    bounds
        Which tiles may be left out, because they give 0.
    lead
        How many scores a pair of a query and a key has: batch times heads.
    """

    tile: Tile
    operands: tuple[Piece, ...]
    results: tuple[Piece, ...]
    queries: int
    keys: int
    bounds: Bounds
    lead: int


pairwise_p = Primitive("rtx_jax_pairwise")
pairwise_p.multiple_results = True


def pairwise(what: Sum, arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Return the sums."""
    found: list[jax.Array] = pairwise_p.bind(*arrays, what=what)
    return found


def derivative(what: Sum, arrays: Sequence[jax.Array], tangents: dict[int, jax.Array]) -> list[jax.Array]:
    """Return the tangents of the sums alone; `tangents` by the number of the operand."""
    moving = tuple(tangents)
    along = replace(
        what,
        tile=_Along(what.tile, len(what.operands), moving),
        operands=(*what.operands, *(what.operands[i] for i in moving)),
    )
    return pairwise(along, [*arrays, *tangents.values()])


@functools.cache
def _compiled(what: Sum) -> Callable[..., list[jax.Array]]:
    return jax.jit(lambda *arrays: pairwise_p.bind(*arrays, what=what))


def _impl(*arrays: jax.Array, what: Sum) -> list[jax.Array]:
    # Under `jax.disable_jit` the program would call this again, for ever.
    with jax.disable_jit(False):
        return _compiled(what)(*arrays)


def _avals(*avals: jax.core.ShapedArray, what: Sum) -> list[jax.core.ShapedArray]:
    return [result_aval(piece.shape, piece.dtype, avals) for piece in what.results]


def _lower(*arrays: jax.Array, what: Sum, **of_target: object) -> list[jax.Array]:
    del of_target
    return walk(what.tile, what.operands, what.results, arrays, (what.queries, what.keys), what.bounds, what.lead)


pairwise_p.def_impl(_impl)
pairwise_p.def_abstract_eval(_avals)
register_lowering(pairwise_p, _lower)


# Derivative


@dataclass(frozen=True, slots=True)
class _Along:
    """The tangents of a tile; linear in the last slices, the tangents of the operands `moving`."""

    tile: Tile
    count: int
    moving: tuple[int, ...]

    def __call__(self, slices: Sequence[jax.Array], queries: int, keys: int) -> list[jax.Array]:
        primals, tangents = slices[: self.count], slices[self.count :]

        def run(*moving: jax.Array) -> list[jax.Array]:
            given = list(primals)
            for i, x in zip(self.moving, moving, strict=True):
                given[i] = x
            return self.tile(given, queries, keys)

        return jax.jvp(run, tuple(primals[i] for i in self.moving), tuple(tangents))[1]  # type: ignore[no-any-return]


def _jvp(
    primals: Sequence[jax.Array], tangents: Sequence[object], *, what: Sum
) -> tuple[list[jax.Array], list[jax.Array]]:
    moving = {i: x for i, x in enumerate(tangents) if not is_zero(x)}
    return pairwise(what, primals), derivative(what, primals, moving)  # type: ignore[arg-type]


ad.primitive_jvps[pairwise_p] = _jvp


# Transpose


@dataclass(frozen=True, slots=True)
class _Transposed:
    """The transpose of a tile by the operands `linear`: of the other slices and the cotangents of results `given`."""

    tile: Tile
    operands: tuple[Piece, ...]
    linear: tuple[int, ...]
    given: tuple[int, ...]

    def __call__(self, slices: Sequence[jax.Array], queries: int, keys: int) -> list[jax.Array]:
        fixed = [i for i in range(len(self.operands)) if i not in self.linear]
        constants, cotangents = slices[: len(fixed)], slices[len(fixed) :]

        def run(*linear: jax.Array) -> list[jax.Array]:
            given = dict(zip((*fixed, *self.linear), (*constants, *linear), strict=True))
            found = self.tile([given[i] for i in range(len(self.operands))], queries, keys)
            return [found[i] for i in self.given]

        blocks = [self.operands[i].block(queries, keys) for i in self.linear]
        return list(jax.linear_transpose(run, *blocks)(list(cotangents)))


def _transpose(cotangents: Sequence[object], *arrays: object, what: Sum) -> list[jax.Array | None]:
    linear = tuple(i for i, x in enumerate(arrays) if ad.is_undefined_primal(x))
    given = tuple(i for i, x in enumerate(cotangents) if not is_zero(x))
    none: list[jax.Array | None] = [None] * len(arrays)
    if not given:
        return none
    fixed = [i for i in range(len(arrays)) if i not in linear]
    turned = replace(
        what,
        tile=_Transposed(what.tile, what.operands, linear, given),
        operands=(*(what.operands[i] for i in fixed), *(what.results[i] for i in given)),
        results=tuple(what.operands[i] for i in linear),
    )
    known: list[Any] = [*(arrays[i] for i in fixed), *(cotangents[i] for i in given)]
    found = pairwise(turned, known)
    for i, x in zip(linear, found, strict=True):
        none[i] = x
    return none


ad.primitive_transposes[pairwise_p] = _transpose


# Batching


@dataclass(frozen=True, slots=True)
class _Batched:
    """A tile over one more leading axis, which the slices `batched` have."""

    tile: Tile
    batched: tuple[bool, ...]

    def __call__(self, slices: Sequence[jax.Array], queries: int, keys: int) -> list[jax.Array]:
        def run(*slices: jax.Array) -> list[jax.Array]:
            return self.tile(slices, queries, keys)

        return jax.vmap(run, in_axes=tuple(0 if x else None for x in self.batched))(*slices)


def _batch(arrays: Sequence[jax.Array], axes: Sequence[int | None], *, what: Sum) -> tuple[list[jax.Array], list[int]]:
    batched = tuple(axis is not None for axis in axes)
    size = next(x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None)
    moved = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(arrays, axes, strict=True)]
    wider = replace(
        what,
        tile=_Batched(what.tile, batched),
        operands=tuple(p.batched(size) if b else p for p, b in zip(what.operands, batched, strict=True)),
        results=tuple(p.batched(size) for p in what.results),
        lead=what.lead * size,
    )
    return pairwise(wider, moved), [0] * len(what.results)


batching.primitive_batchers[pairwise_p] = _batch
