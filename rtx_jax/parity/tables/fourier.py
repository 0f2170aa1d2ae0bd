"""The extension `fft`."""

from __future__ import annotations

import numpy as np

import rtx_jax as xp

from ..case import MODES, TESTED, Case, Edge, Operand, Operation
from .build import COMPLEX, NO_GRAD, NUMERIC, case, edges, namespace, shapes

__all__ = ["operations"]

_REAL = ("float32", "float64")
_NAN: tuple[Edge, ...] = ("nan", "inf")


def _one() -> tuple[Case, ...]:
    return (
        case("normal", (3, 8), n=None, axis=-1, norm="backward"),
        case("normal", (5, 2), n=6, axis=0, norm="ortho"),
        case("normal", (7,), n=5, axis=0, norm="forward"),
        case("size 1", (1, 2), n=None, axis=1, norm="backward"),
        case("nan", (2, 4), n=None, axis=1, norm="backward"),
    )


def _many() -> tuple[Case, ...]:
    return (
        case("normal", (3, 4), s=None, axes=None, norm="backward"),
        case("normal", (2, 4, 3), s=(4, 4), axes=(1, 2), norm="ortho"),
        case("size 1", (2, 2), s=None, axes=None, norm="forward"),
        case("nan", (2, 4), s=None, axes=None, norm="backward"),
    )


def operations() -> tuple[Operation, ...]:
    """Return the operations of the extension."""
    orders = (*shapes((4,), (3, 5), (0, 3), (1, 1), axes=None), *edges((*_NAN, "extreme"), Operand((2, 3)), axes=(1,)))
    lengths: tuple[tuple[Edge, int, float], ...] = (("normal", 8, 1.0), ("normal", 5, 0.5), ("size 1", 1, 2.0))
    frequencies = tuple(case(edge, n=n, d=d, dtype=TESTED) for edge, n, d in lengths)
    return (
        *(namespace(f"fft.{name}", _one(), COMPLEX, scale="largest", modes=NO_GRAD) for name in ("fft", "ifft")),
        *(namespace(f"fft.{name}", _many(), COMPLEX, scale="largest", modes=NO_GRAD) for name in ("fftn", "ifftn")),
        *(namespace(f"fft.{name}", _one(), _REAL, scale="largest", modes=NO_GRAD) for name in ("rfft", "ihfft")),
        namespace("fft.rfftn", _many(), _REAL, scale="largest", modes=NO_GRAD),
        *(namespace(f"fft.{name}", _one()[:3], COMPLEX, scale="largest", modes=NO_GRAD) for name in ("irfft", "hfft")),
        namespace("fft.irfftn", _many()[:2], COMPLEX, scale="largest", modes=NO_GRAD),
        *(
            namespace(
                f"fft.{name}", frequencies, _REAL, modes=("eager", "jit"),
                call=getattr(_Frequencies, name), expected=getattr(_Expected, name),
            )
            for name in ("fftfreq", "rfftfreq")
        ),
        *(namespace(f"fft.{name}", orders, NUMERIC, modes=MODES) for name in ("fftshift", "ifftshift")),
    )  # fmt: skip


class _Frequencies:
    @staticmethod
    def fftfreq(*, n: int, d: float, dtype: np.dtype) -> object:
        return xp.fft.fftfreq(n, d=d, dtype=dtype)

    @staticmethod
    def rfftfreq(*, n: int, d: float, dtype: np.dtype) -> object:
        return xp.fft.rfftfreq(n, d=d, dtype=dtype)


class _Expected:
    @staticmethod
    def fftfreq(*, n: int, d: float, dtype: np.dtype) -> object:
        return np.fft.fftfreq(n, d)

    @staticmethod
    def rfftfreq(*, n: int, d: float, dtype: np.dtype) -> object:
        return np.fft.rfftfreq(n, d)
