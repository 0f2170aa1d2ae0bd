"""`swiglu`: checks, and the unit as a formula that keeps only its operands for the backward pass."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from ...checks.activation import same_shape
from ...checks.elementwise import floating
from ...raw._kinds import enter
from ..formula import Arrays, Formula, call
from ..operands import arrays
from . import xla

__all__ = ["swiglu"]


def swiglu(gate: jax.Array, up: jax.Array) -> jax.Array:
    """Return ``silu(gate) * up`` (Shazeer 2020).

    Parameters
    ----------
    gate, up
        Real floating, of one shape.

    Returns
    -------
    jax.Array
        Shape and dtype of `gate`; computed in float32 (float64 of float64) and rounded once.

    Raises
    ------
    UnsupportedDType
        An operand is not real floating.
    ShapeMismatch
        The shapes differ.
    InvalidArgument
        An operand is no array of JAX or NumPy.

    Notes
    -----
    Differentiable in every mode, any number of times. The operands are all that is kept for the backward pass, which
    forms the sigmoid again: JAX's own derivative keeps it, and the silu, in float32.
    """
    arrays("swiglu", ("gate", "up"), gate=gate, up=up)
    floating("swiglu", gate.dtype, "gate")
    floating("swiglu", up.dtype, "up")
    same_shape("swiglu", gate.shape, up.shape, "up")
    with enter(gate.dtype):
        out: jax.Array = _run(gate, up)
    return out


@functools.partial(jax.jit, inline=True)
def _run(gate: jax.Array, up: jax.Array) -> jax.Array:
    return call(_FORMULA, gate, up)[0]


def _backward(operands: Arrays, kept: Arrays, cotangents: Arrays, wanted: tuple[bool, ...]) -> Arrays:
    del kept
    gate, up = operands
    return xla.backward(gate, up, cotangents[0], wanted)


def _fold(operands: Arrays, batched: tuple[bool, ...]) -> Arrays:
    """Let the batch be one more axis of both."""
    size = operands[batched.index(True)].shape[0]
    return tuple(x if b else jnp.broadcast_to(x, (size, *x.shape)) for x, b in zip(operands, batched, strict=True))


_FORMULA = Formula("swiglu", xla.forward, _backward, (True, True), fold=_fold)
