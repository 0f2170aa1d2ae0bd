"""The loss of language models."""

from __future__ import annotations

from .._array import Array
from .._config import matmul_precision
from ..checks.cross_entropy import parameters
from ..kernels.cross_entropy import cross_entropy as _raw
from ._call import call, optional

__all__ = ["cross_entropy"]

_PARAMS = ("ignore_index", "label_smoothing", "z_loss", "softcap", "reduction", "block", "precision")
_cross_entropy = optional("cross_entropy", _raw, _PARAMS)


def cross_entropy(
    hidden: Array,
    weight: Array,
    labels: Array,
    /,
    *,
    bias: Array | None = None,
    ignore_index: int | None = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    reduction: str = "mean",
    block: int | None = None,
) -> Array:
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
        How many words are taken at once; by default as many as keep T times it below 16 million.

    Returns
    -------
    Array
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
        A parameter is out of range.

    Notes
    -----
    Memory is O(T block) beside the operands and their cotangents, forward and backward. Differentiable in every mode
    and of every order. With logits at hand, take `log_softmax`, or the losses of optax.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> hidden, weight = xp.eye(3), 2 * xp.eye(3)
    >>> round(float(xp.nn.cross_entropy(hidden, weight, xp.asarray([0, 1, -100]))), 4)
    0.2395
    """
    static = parameters(ignore_index, label_smoothing, z_loss, softcap, reduction, block)
    operands: dict[str, Array | None] = {"hidden": hidden, "weight": weight, "labels": labels, "bias": bias}
    return call(_cross_entropy, operands, *static, matmul_precision())  # type: ignore[return-value]
