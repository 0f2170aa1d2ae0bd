"""Affine maps and tables of vectors on raw arrays."""

from __future__ import annotations

import jax
from jax import lax

from .._compat import guard_dot
from ..checks import linear as _check
from ..raw._kinds import accumulator, cast, of_rank
from .index import raw_mode, rows

__all__ = ["embedding", "linear"]


def linear(
    x: jax.Array, weight: jax.Array, bias: jax.Array | None = None, *, precision: str | None = None
) -> jax.Array:
    """Return ``x @ weight.T + bias``; `weight` is (outputs, inputs).

    Floats below 32 bits are multiplied and added in float32 and rounded once; `precision` is that of float32
    products, ``"highest"`` when None.
    """
    _, dtype = _check.linear(
        x.shape,
        x.dtype,
        weight.shape,
        weight.dtype,
        None if bias is None else bias.shape,
        None if bias is None else bias.dtype,
    )
    out = guard_dot(
        lax.dot_general(
            cast(x, dtype),
            cast(weight, dtype),
            (((x.ndim - 1,), (1,)), ((), ())),
            precision=_check.precision("linear", precision),
            preferred_element_type=accumulator(dtype),
        )
    )
    return cast(out if bias is None else out + of_rank(cast(bias, out.dtype), out.ndim), dtype)


def embedding(indices: jax.Array, weight: jax.Array, *, mode: str = "error") -> jax.Array:
    """Return the rows of `weight` at `indices`, of any shape; the gradient adds up in float32.

    Indices are not negative. Out of range, ``"clip"`` takes the nearest row; ``"fill"`` and ``"error"`` give NaN,
    the latter reported by `rtx_jax.checked` and, where the indices are known, raised by the face.
    """
    _check.embedding(indices.dtype, weight.shape)
    return rows(weight, indices, raw_mode("embedding", mode))
