"""Contraction by Einstein's summation convention, beyond the standard: libraries such as einops rely on it."""

from __future__ import annotations

from typing import Literal

from .._array import Array, calln
from .._config import matmul_precision
from ..core.dispatch import Op
from ..errors import InvalidArgument
from ..raw import einsum as _raw

__all__ = ["einsum"]

_einsum = Op("einsum", _raw.einsum, ("subscripts", "precision"))

_PRECISIONS = ("highest", "high", "default")


def einsum(
    subscripts: str, /, *operands: Array, precision: Literal["highest", "high", "default"] | None = None
) -> Array:
    """Sum products of arrays over axes that are named by letters.

    Parameters
    ----------
    subscripts
        As in NumPy: a term of letters for each operand, joined by commas, then ``->`` and the letters of the result;
        ``...`` stands for axes that broadcast. Without ``->`` the result has the letters that occur once, in order.
    *operands
        One array for each term.
    precision
        Precision of float32; that of `set_matmul_precision` by default.

    Returns
    -------
    Array
        Of the dtype that the operands promote to. Floats below 32 bits are accumulated in float32 and rounded once.

    Raises
    ------
    InvalidArgument
        The subscripts do not fit the operands, or no such precision.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> float(xp.einsum("ii->", x))
    5.0
    """
    if not isinstance(subscripts, str):
        raise InvalidArgument(
            "einsum",
            "subscripts",
            got=f"an object of type {type(subscripts).__name__}",
            wanted="a string such as 'ij,jk->ik'",
            arg="subscripts",
            reason="not a string",
        )
    if precision is None:
        return calln(_einsum, operands, (subscripts, matmul_precision()))  # type: ignore[return-value]
    if precision not in _PRECISIONS:
        raise InvalidArgument(
            "einsum",
            "precision",
            got=repr(precision),
            wanted=", ".join(map(repr, _PRECISIONS)),
            arg="precision",
            reason="unknown precision",
        )
    return calln(_einsum, operands, (subscripts, precision))  # type: ignore[return-value]
