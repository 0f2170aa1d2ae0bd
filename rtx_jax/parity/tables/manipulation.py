"""Shapes, joining, repeating and padding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import rtx_jax as xp

from ..case import MODES, Case, Mode, Operand, Operation
from .build import EAGER, case, edges, namespace, shapes

__all__ = ["operations"]

# Moving data does not depend on the numbers: a dtype of each kind and width, and those of NumPy's extensions.
_MOVED = ("bool", "int8", "uint16", "int32", "uint64", *("float16", "bfloat16", "float32", "float64"), "complex64",
          "complex128", "float8_e4m3fn")  # fmt: skip


def _each(*cases: Case, edged: tuple[int, ...] = (2, 3), **params: object) -> tuple[Case, ...]:
    """Return the cases, and the edges of values with the same parameters."""
    return (*cases, *edges(("nan", "inf", "extreme"), Operand(edged), **params))


def _moved(
    name: str,
    cases: tuple[Case, ...],
    *,
    packs: bool = False,
    modes: tuple[Mode, ...] = MODES,
    expected: Callable[..., object] | None = None,
    call: Callable[..., object] | None = None,
) -> Operation:
    return namespace(name, cases, _MOVED, packs=packs, modes=modes, expected=expected, call=call, signed_zeros=True)


def operations() -> tuple[Operation, ...]:
    """Return the operations of the chapter on manipulation, and `pad`."""
    several = (
        case("normal", (2, 3), (2, 1), (2, 2), axis=1),
        case("normal", (2, 3), (1, 3), axis=0),
        case("normal", (2, 3), (4,), axis=None),
        case("empty", (0, 3), (2, 3), axis=0),
        case("size 1", (1, 1), (1, 1), axis=-1),
        *edges(("nan", "inf", "extreme"), (2, 3), (2, 2), axis=1),
    )
    alike = (
        case("normal", (2, 3), (2, 3), axis=1),
        case("normal", (2, 3), (2, 3), (2, 3), axis=-1),
        case("empty", (0, 3), (0, 3), axis=0),
        case("0-d", (), (), axis=0),
        case("size 1", (1,), (1,), axis=0),
        *edges(("nan", "inf", "extreme"), (2, 3), (2, 3), axis=0),
    )
    return (
        _moved(
            "broadcast_arrays",
            (
                case("normal", (3, 1), (1, 4)),
                case("empty", (0, 1), (1, 2)),
                case("0-d", (), (2,)),
                case("size 1", (1,), (1, 1)),
                *edges(("nan", "inf", "extreme"), (2, 1), (3,)),
            ),
        ),
        _moved(
            "broadcast_to",
            (
                *_each(case("normal", (3, 1), shape=(2, 3, 4)), shape=(4, 2, 3)),
                case("empty", (0, 1), shape=(0, 3)),
                case("0-d", (), shape=(2, 2)),
                case("size 1", (1,), shape=(3,)),
            ),
            call=lambda x, *, shape: xp.broadcast_to(x, shape),
            expected=lambda x, *, shape: np.broadcast_to(x, shape),
        ),
        namespace(
            "broadcast_shapes",
            (case("normal", (3, 1), (1, 4)), case("0-d", (), (2,)), case("empty", (0, 1), (1, 3))),
            ("float32",),
            call=lambda *x: xp.broadcast_shapes(*(v.shape for v in x)),
            expected=lambda *x: np.broadcast_shapes(*(v.shape for v in x)),
            modes=EAGER,
        ),
        _moved("concat", several, packs=True),
        _moved("stack", alike, packs=True),
        _moved("expand_dims", (*_each(*shapes((2, 3), (0, 3), (1, 1), axis=1), axis=-1), *shapes((), (3,), axis=0))),
        _moved(
            "flip",
            _each(*shapes((2, 3), (0, 3), (), (1, 1), axis=None), *shapes((2, 3, 2), axis=(0, 2)), axis=1),
        ),
        _moved(
            "moveaxis",
            _each(
                case("normal", (2, 3, 4), source=0, destination=2),
                case("normal", (2, 3, 4), source=(0, 1), destination=(-1, 0)),
                case("empty", (0, 3), source=0, destination=1),
                case("size 1", (1, 1), source=1, destination=0),
                source=0,
                destination=1,
            ),
            call=lambda x, *, source, destination: xp.moveaxis(x, source, destination),
            expected=lambda x, *, source, destination: np.moveaxis(x, source, destination),
        ),
        _moved(
            "permute_dims",
            (
                *_each(case("normal", (2, 3, 4), axes=(2, 0, 1)), axes=(1, 0)),
                case("empty", (0, 3), axes=(1, 0)),
                case("0-d", (), axes=()),
                case("size 1", (1, 1), axes=(1, 0)),
            ),
        ),
        _moved(
            "repeat",
            (
                *_each(*shapes((2, 3), repeats=2, axis=1), repeats=3, axis=0),
                *shapes((2, 3), (1, 1), repeats=2, axis=None),
                *shapes((0, 3), repeats=2, axis=0),
                *shapes((2, 3), repeats=0, axis=0),
            ),
            call=lambda x, *, repeats, axis: xp.repeat(x, repeats, axis=axis),
        ),
        _moved(
            "reshape",
            (
                *_each(case("normal", (2, 3, 4), shape=(4, -1)), shape=(3, 2)),
                case("empty", (0, 3), shape=(3, 0)),
                case("0-d", (), shape=(1, 1)),
                case("size 1", (1, 1), shape=()),
            ),
        ),
        _moved(
            "roll",
            (
                *_each(*shapes((2, 3), (0, 3), (1, 1), shift=1, axis=None), shift=-1, axis=1),
                *shapes((3, 4), shift=(1, 2), axis=(0, 1)),
                *shapes((), shift=1, axis=None),
            ),
        ),
        _moved(
            "squeeze",
            (
                *_each(*shapes((1, 3, 1), (1, 1, 0), axis=0), edged=(2, 1, 3), axis=1),
                *shapes((1, 3, 1), (1, 1, 1), axis=(0, 2)),
            ),
        ),
        _moved(
            "tile",
            (
                *_each(*shapes((2, 3), (0, 3), (1, 1), repetitions=(2, 2)), repetitions=(1, 2)),
                *shapes((), repetitions=(3,)),
                *shapes((3,), repetitions=(2, 1, 2)),
            ),
            call=lambda x, *, repetitions: xp.tile(x, repetitions),
            expected=lambda x, *, repetitions: np.tile(x, repetitions),
        ),
        _moved("unstack", _each(*shapes((2, 3), (1, 1), (2, 0), axis=0), *shapes((2, 3, 2), axis=-1), axis=1)),
        _moved(
            "pad",
            (
                *_each(
                    *shapes((2, 3), (1, 1), (0, 3), pad_width=((1, 2), (0, 1)), mode="constant"),
                    pad_width=1,
                    mode="constant",
                ),
                *(
                    c
                    for mode in ("edge", "reflect", "symmetric", "wrap")
                    for c in shapes((3, 4), pad_width=((1, 2), (2, 0)), mode=mode)
                ),
                *shapes((), pad_width=0, mode="constant"),
            ),
        ),
    )
