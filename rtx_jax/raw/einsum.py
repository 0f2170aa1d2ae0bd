"""Contraction by Einstein's summation convention on raw arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .._compat import guard_dot
from ..errors import InvalidArgument, RtxError
from ._kinds import accumulator, cast, enter
from .operands import common_dtype as common

__all__ = ["einsum"]


def einsum(*operands: jax.Array, subscripts: str, precision: str) -> jax.Array:
    """Contract operands as `subscripts` says; floats below 32 bits are accumulated in float32."""
    if not operands:
        raise InvalidArgument("einsum", "operands", got="none", wanted="one or more", arg="operands", reason="empty")
    dtype = common("einsum", *operands)
    with enter(dtype):
        arrays = [cast(x, dtype) for x in operands]
        try:
            out = jnp.einsum(subscripts, *arrays, precision=precision, preferred_element_type=accumulator(dtype))
        except RtxError:
            raise
        except (ValueError, TypeError, NotImplementedError, KeyError) as error:
            raise InvalidArgument(
                "einsum",
                "subscripts",
                got=f"{subscripts!r} for shapes " + ", ".join(str(x.shape) for x in operands),
                wanted="one term for each operand, with one size for each letter",
                remedy=str(error),
                arg="subscripts",
                reason="does not fit the operands",
            ) from error
        return cast(guard_dot(out), dtype)
