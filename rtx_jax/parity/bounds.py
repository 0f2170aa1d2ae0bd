"""The bounds: how far a result may be from the exact value, in units in the last place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .case import Mode
from .ulp import is_inexact

__all__ = ["Bound", "bound_for"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound and what it rests on.

    Attributes
    ----------
    limit
        The largest distance that passes.
    measured
        The largest distance seen on a CPU.
    """

    limit: float
    measured: float


Pair = tuple[float, float] | None

# Rounded correctly: a little more than a half, as float64 has the exact value only to 53 bits.
_ROUNDED = Bound(0.51, 0.5)
# Gradients: a few roundings; in float64 what central differences are good for.
_SLOPE, _SLOPE_64 = Bound(4.0, 2.0), Bound(2.0**22, 2.3e6)

# Bound and measured maximum on a CPU, over eager, jit and vmap, for dtypes of 8 and 16 bits, for float32 and complex64,
# and for float64 and complex128. An operation that is not here rounds correctly.
_VALUES: dict[str, tuple[Pair, Pair, Pair]] = {
    "abs": ((1, 0), (2, 0.73), (3, 2)),
    "acos": ((2, 1.02), (2, 1.03), (2, 1)),
    "acosh": ((2, 1.17), (2, 1.18), (2, 1)),
    "asin": ((2, 1.1), (2, 1.55), (3, 2)),
    "asinh": ((2, 1.08), (2, 1.59), (3, 2)),
    "atan": ((1, 0.5), (3, 2.17), (3, 2)),
    "atan2": ((1, 0.5), (2, 0.89), (2, 0)),
    "atanh": ((2, 1.02), (2, 1.28), (2, 1)),
    "backend.adaptive_avg_pool1d": ((1, 0.34), (2, 0.67), (2, 1)),
    "backend.adaptive_avg_pool2d": ((1, 0.34), (2, 0.34), (2, 0.5)),
    "backend.adaptive_avg_pool3d": ((1, 0.05), (2, 0.09), (2, 0.13)),
    "backend.avg_pool1d": ((1, 0.34), (2, 0.67), (2, 1)),
    "backend.avg_pool2d": ((1, 0.34), (2, 0.67), (2, 1)),
    "backend.avg_pool3d": ((1, 0.34), (2, 0.67), (2, 1)),
    "backend.batch_norm": ((1, 0.47), (2, 1.37), (2, 1.5)),
    "backend.batch_norm_training": ((1, 0.5), (2, 0.66), (2, 0.5)),
    "backend.bmm": ((1, 0.49), (2, 0.6), (2, 1)),
    "backend.celu": ((1, 0.5), (6, 2.96), (2, 1)),
    "backend.conv1d": ((1, 0.5), (2, 0.63), (2, 1)),
    "backend.conv2d": ((1, 0.49), (2, 1.27), (3, 2)),
    "backend.conv3d": ((1, 0.49), (2, 0.98), (2, 1)),
    "backend.conv_transpose1d": ((1, 0.49), (2, 1.02), (2, 1)),
    "backend.conv_transpose2d": ((1, 0.5), (2, 1.26), (3, 2)),
    "backend.conv_transpose3d": ((1, 0.5), (2, 1.2), (3, 2)),
    "backend.cos": ((1, 0.5), (2, 0.53), (2, 1)),
    "backend.div": ((2, 1.14), (2, 1.19), (2, 1)),
    "backend.elu": ((1, 0.5), (6, 2.96), (2, 1)),
    "backend.exp": ((1, 0.5), (2, 0.87), (2, 1)),
    "backend.flash_attention": ((1, 0.48), (2, 1.4), (2, 1)),
    "backend.fold": ((1, 0.5), (2, 0.5), (2, 1)),
    "backend.gelu": ((1, 0.5), (8, 6.28), (15, 12)),
    "backend.glu": ((1, 0.5), (2, 0.83), (2, 1)),
    "backend.group_norm": ((1, 0.48), (3, 2), (2, 1)),
    "backend.hard_sigmoid": ((1, 0.5), (2, 1.33), (2, 1)),
    "backend.index_add": ((1, 0.5), (3, 2.04), (3, 2)),
    "backend.instance_norm": ((1, 0.5), (2, 0.89), (3, 2)),
    "backend.interpolate": ((1, 0.41), (3, 1.67), (12, 9)),
    "backend.layer_norm": ((1, 0.49), (2, 1.01), (2, 1)),
    "backend.leaky_relu": ((1, 0.48), (2, 0.8), (2, 0)),
    "backend.linear": ((1, 0.36), (2, 1.19), (2, 1)),
    "backend.log": ((1, 0.5), (2, 0.88), (2, 0)),
    "backend.log_softmax": ((1, 0.5), (2, 0.87), (2, 1)),
    "backend.matmul": ((1, 0.5), (4, 2.15), (3, 2)),
    "backend.mean": ((1, 0.25), (2, 0.6), (2, 1)),
    "backend.mean_dim": ((1, 0.35), (2, 1.16), (4, 3)),
    "backend.mish": ((1, 0.5), (4, 2.54), (4, 3)),
    "backend.pow": ((1, 0.5), (15, 12.1), (2, 1)),
    "backend.rms_norm": ((1, 0.49), (3, 1.85), (3, 2)),
    "backend.rope": ((1, 0.49), (2, 0.59), (2, 1)),
    "backend.selu": ((1, 0.5), (6, 2.66), (2, 1)),
    "backend.sigmoid": ((1, 0.5), (2, 1.43), (3, 2)),
    "backend.silu": ((1, 0.5), (2, 1.4), (2, 1)),
    "backend.silu_mul": ((1, 0.5), (2, 1.38), (2, 1)),
    "backend.sin": ((1, 0.5), (2, 0.53), (2, 0)),
    "backend.softmax": ((1, 0.5), (2, 0.98), (3, 2)),
    "backend.softplus": ((1, 0.5), (2, 1.58), (3, 2)),
    "backend.sum": ((1, 0.49), (3, 2.21), (3, 2)),
    "backend.sum_dim": ((1, 0.49), (3, 1.66), (2, 1)),
    "backend.swiglu": ((1, 0.5), (2, 1.06), (3, 2)),
    "backend.tanh": ((1, 0.5), (6, 3.61), (8, 6)),
    "backend.var": ((1, 0.48), (2, 1.35), (2, 1)),
    "backend.var_dim": ((1, 0.48), (2, 1.26), (3, 2)),
    "cos": ((1, 0.5), (3, 1.72), (3, 2)),
    "cosh": ((1, 0.5), (12, 8.18), (15, 14)),
    "cumulative_prod": ((1, 0.5), (2, 1.5), (3, 2)),
    "cumulative_sum": ((1, 0.5), (2, 1), (2, 0)),
    "diff": ((2, 0.75), (2, 0.75), (2, 0)),
    "divide": ((2, 1.1), (2, 1.19), (3, 2)),
    "einsum": ((1, 0.44), (2, 0.82), (3, 2)),
    "exp": ((1, 0.5), (2, 1.13), (2, 1)),
    "expm1": ((2, 1.22), (6, 3.8), (3, 2)),
    "fft.fft": (None, (2, 1.22), (2, 0.5)),
    "fft.fftn": (None, (2, 0.61), (2, 0)),
    "fft.hfft": (None, (2, 1.41), (2, 1)),
    "fft.ifft": (None, (3, 1.73), (3, 2)),
    "fft.ifftn": (None, (2, 1.21), (2, 1)),
    "fft.ihfft": (None, (2, 1.53), (3, 2)),
    "fft.irfft": (None, (3, 1.64), (2, 1.16)),
    "fft.irfftn": (None, (2, 1.06), (2, 1)),
    "fft.rfft": (None, (2, 0.79), (2, 1)),
    "fft.rfftn": (None, (2, 0.94), (2, 0)),
    "floor_divide": ((2, 1), (0.51, 0.29), (0.51, 0)),
    "hypot": ((2, 0.89), (2, 0.92), (2, 1)),
    "linalg.cholesky": (None, (2, 0.55), (2, 0)),
    "linalg.cross": ((2, 1.1), (4, 2.92), (2, 1)),
    "linalg.det": (None, (2, 1), (4, 3)),
    "linalg.eig": (None, (8, 5.08), (16, 10.1)),
    "linalg.eigh": (None, (12, 8.09), (3, 2)),
    "linalg.eigvals": (None, (10, 6.44), (15, 10)),
    "linalg.eigvalsh": (None, (4, 2.48), (4, 3)),
    "linalg.inv": (None, (2, 1.45), (2, 0)),
    "linalg.matmul": ((1, 0.5), (2, 1), (2, 1)),
    "linalg.matrix_norm": (None, (2, 1.43), (2, 1)),
    "linalg.matrix_power": (None, (2, 1.58), (2, 1)),
    "linalg.outer": ((1, 0.5), (2, 0.65), (2, 1)),
    "linalg.pinv": (None, (6, 4.24), (6, 4)),
    "linalg.qr": (None, (4, 2.65), (2, 0.25)),
    "linalg.slogdet": (None, (2, 0.81), (2, 1)),
    "linalg.solve": (None, (3, 1.72), (2, 0.5)),
    "linalg.svd": (None, (15, 12.2), (15, 14.2)),
    "linalg.svdvals": (None, (2, 1.46), (2, 0.5)),
    "linalg.tensordot": (None, (2, 1.05), None),
    "linalg.vecdot": (None, (2, 0.62), None),
    "linalg.vector_norm": ((1, 0.45), (2, 0.79), (2, 1)),
    "linspace": ((1, 0.43), (2, 0.58), (2, 1)),
    "log": ((1, 0.5), (2, 1.04), (2, 1)),
    "log10": ((2, 1.26), (3, 2.23), (4, 3)),
    "log1p": ((1, 0.5), (3, 1.91), (6, 4)),
    "log2": ((2, 1.56), (3, 1.9), (3, 2)),
    "logaddexp": ((8, 5.28), (6, 3.34), (2, 1)),
    "matmul": ((1, 0.49), (3, 1.61), (2, 1)),
    "mean": ((1, 0.34), (2, 1.33), (3, 2)),
    "multiply": ((1, 0.5), (2, 0.75), (2, 1)),
    "pow": ((1, 0.5), (12, 8.06), (10, 7.5)),
    "prod": ((1, 0.48), (3, 1.73), (3, 2)),
    "reciprocal": ((1, 0.5), (2, 1.32), (3, 2)),
    "sign": ((1, 0), (4, 2.18), (3, 2)),
    "sin": ((1, 0.5), (4, 2.51), (3, 2)),
    "sinh": ((1, 0.5), (12, 8.18), (15, 14)),
    "sqrt": ((1, 0.5), (2, 1.04), (2, 1)),
    "square": ((1, 0.5), (2, 0.89), (2, 1)),
    "std": ((1, 0.5), (2, 1.13), (2, 1)),
    "sum": ((1, 0.5), (2, 0.71), (2, 1)),
    "tan": ((1, 0.5), (3, 1.74), (3, 2)),
    "tanh": ((1, 0.5), (10, 6.83), (8, 6)),
    "tensordot": ((1, 0.47), (2, 0.73), (2, 1)),
    "var": ((1, 0.49), (3, 1.65), (3, 2)),
    "vecdot": ((1, 0.44), (2, 0.49), (2, 0.5)),
}

# The same for gradients in 16 bits and in float32, where they need more than `_SLOPE`.
_SLOPES: dict[str, tuple[Pair, Pair]] = {
    "backend.batch_norm": ((4, 0.5), (4, 2.99)),
    "backend.conv3d": ((4, 0.5), (6, 3.84)),
    "backend.conv_transpose2d": ((4, 0.71), (4, 2.33)),
    "backend.conv_transpose3d": ((4, 0.97), (4, 2.8)),
    "backend.flash_attention": ((4, 0.55), (4, 2.78)),
    "backend.group_norm": ((4, 0.42), (4, 2.81)),
    "backend.layer_norm": ((4, 0.47), (12, 7.23)),
    "backend.silu": ((4, 0.46), (6, 3.51)),
    "backend.softmax": ((4, 0.53), (4, 2.6)),
    "backend.tanh": ((4, 0.5), (24, 16.4)),
    "linalg.svdvals": ((4, 0), (12, 8.06)),
    "linalg.vector_norm": ((4, 0.46), (4, 2.1)),
    "tanh": ((8, 5.71), (12, 8.31)),
}


def bound_for(operation: str, dtype: np.dtype, mode: Mode, /) -> Bound:
    """Return the bound of an operation for a dtype under test and a mode."""
    if not is_inexact(dtype):
        # What integers become as floating-point numbers still has to round.
        return _of(_VALUES.get(operation), 2, _ROUNDED)
    real = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    width = 2 if real == 8 else 1 if real == 4 else 0
    if mode != "grad":
        return _of(_VALUES.get(operation), width, _ROUNDED)
    return _SLOPE_64 if width == 2 else _of(_SLOPES.get(operation), width, _SLOPE)


def _of(row: tuple[Pair, ...] | None, width: int, default: Bound) -> Bound:
    pair = None if row is None else row[width]
    return default if pair is None else Bound(*pair)
