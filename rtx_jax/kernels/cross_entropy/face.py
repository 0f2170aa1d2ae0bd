"""`cross_entropy`: checks, and the loss from statistics of logits that are never held as a whole."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from ..._config import matmul_precision
from ...checks import cross_entropy as _check
from ...checks.linear import precision as _precision
from ...raw._kinds import cast, enter
from ..formula import Arrays, Formula, call
from ..operands import arrays
from . import tuned, xla
from .tuned import default_blocks
from .xla import LossSpec

__all__ = ["cross_entropy"]


def cross_entropy(
    hidden: jax.Array,
    weight: jax.Array,
    labels: jax.Array,
    *,
    bias: jax.Array | None = None,
    ignore_index: int | None = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    reduction: str = "mean",
    block: int | None = None,
    precision: str | None = None,
) -> jax.Array:
    """Return the cross-entropy of ``softmax(hidden @ weight.T + bias)`` and labels, without holding the logits.

    Parameters
    ----------
    hidden
        Real floating, shape (..., D): the states before the last linear layer.
    weight
        Of the dtype of `hidden`, shape (V, D), as an embedding has it.
    labels
        Integers of shape (...): the word that was right. One out of range that is not `ignore_index` gives NaN.
    bias
        Shape (V,); 0 when left out.
    ignore_index
        Tokens of this label have loss 0, count for no mean, pass no gradient, and may hold NaN; None for none.
    label_smoothing
        Weight of the even distribution in the target, 0 to 1.
    z_loss
        Factor of the square of the log-sum-exp that is added (Chowdhery et al. 2022, section 5).
    softcap
        Logits become ``softcap * tanh(logits / softcap)``.
    reduction
        ``"mean"`` over the tokens that count (NaN where there is none), ``"sum"``, or ``"none"``.
    block
        How many words are taken at once; by default what `rtx-jax tune` measured, or as many as keep T times it below
        16 million.
    precision
        Of float32 products: ``"highest"``, ``"high"`` or ``"default"``; that of `set_matmul_precision` when left out.

    Returns
    -------
    jax.Array
        A scalar, or shape (...); float32 (float64 of float64).

    Raises
    ------
    ShapeMismatch, InvalidDimension
        The shapes do not fit; the text says which.
    UnsupportedDType
        An operand is not of the kind that it should be.
    DTypeMismatch
        Hidden states and weights have different dtypes.
    InvalidArgument
        A parameter is out of range, or an operand is no array of JAX or NumPy.

    Notes
    -----
    Memory is O(T block) beside the operands and their cotangents, in forward and backward passes; the backward pass
    forms the logits again, which makes four products of T V D where holding them takes three. Differentiable in every
    mode; derivatives of second and higher order hold no more logits either. Sums are taken in a fixed order.
    """
    arrays("cross_entropy", ("hidden", "weight", "labels"), hidden=hidden, weight=weight, labels=labels, bias=bias)
    given = (None, None) if bias is None else (bias.shape, bias.dtype)
    _check.operands(hidden.shape, hidden.dtype, weight.shape, weight.dtype, labels.shape, labels.dtype, *given)
    ignored, smoothing, penalty, cap, words, rows = _check.parameters(
        ignore_index, label_smoothing, z_loss, softcap, reduction, block
    )
    tokens, size = math.prod(labels.shape), weight.shape[0]
    measured = rows is None
    rows = default_blocks(tokens, size).words if rows is None else rows
    products = matmul_precision() if precision is None else _precision("cross_entropy", precision)
    spec = LossSpec(min(rows, size), bias is not None, cap, products)
    with enter(hidden.dtype):
        loss: jax.Array = _run(hidden, weight, labels, bias, spec, measured, ignored, smoothing, penalty, words)
    return loss


@functools.partial(jax.jit, static_argnums=(4, 5, 6, 7, 8, 9), inline=True)
def _run(
    hidden: jax.Array,
    weight: jax.Array,
    labels: jax.Array,
    bias: jax.Array | None,
    spec: LossSpec,
    measured: bool,
    ignored: int | None,
    smoothing: float,
    penalty: float,
    reduction: str,
) -> jax.Array:
    rows = hidden.reshape(-1, hidden.shape[-1])
    words = labels.reshape(-1)
    inside = (words >= 0) & (words < weight.shape[0])
    counts = jnp.ones_like(inside) if ignored is None else words != ignored
    if ignored is not None:
        rows = jnp.where(counts[:, None], rows, jnp.zeros((), rows.dtype))
    # Out of range or ignored: no word of the vocabulary.
    place = cast(jnp.where(inside, words, -1), np.dtype(np.int32))
    lse, chosen, mean = call(_formula(spec, measured), rows, weight, place, *(() if bias is None else (bias,)))
    chosen = jnp.where(inside, chosen, jnp.nan)
    loss = lse - (1 - smoothing) * chosen
    if smoothing:
        loss = loss - smoothing * mean
    if penalty:
        loss = loss + penalty * lse * lse
    loss = jnp.where(counts, loss, 0)
    if reduction == "none":
        return loss.reshape(labels.shape)
    total = loss.sum()
    return total if reduction == "sum" else total / counts.sum().astype(total.dtype)


@functools.cache
def _formula(spec: LossSpec, measured: bool) -> Formula:
    """Return the statistics of the logits; where the caller chose no block, with the measured one of the device."""
    forward = functools.partial(xla.forward, spec=spec)

    def backward(operands: Arrays, kept: Arrays, cotangents: Arrays, wanted: tuple[bool, ...]) -> Arrays:
        return xla.backward(operands, kept, cotangents, wanted, spec=spec)

    differentiable = (True, True, False, *((True,) if spec.bias else ()))
    if not measured:
        return Formula("cross_entropy", forward, backward, differentiable, 1)
    choose = functools.partial(tuned.choose, spec=spec)
    return Formula("cross_entropy", forward, backward, differentiable, 1, choose)
