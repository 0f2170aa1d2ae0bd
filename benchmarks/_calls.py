"""Every function and operator of the array API standard 2025.12, each as one statement that a user would write.

The names in the statements are the operands of `operands` (8 elements, float32 unless the function takes another kind)
and ``xp``, which is rtx_jax on one side and jax.numpy on the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Call:
    """One statement of a chapter; `name` is the function or the operator."""

    chapter: str
    name: str
    statement: str
    setup: str = "pass"


def operands() -> dict[str, np.ndarray]:
    """The operands as NumPy arrays.

    Returns
    -------
    dict
        ``x, y`` in (0, 1); ``v`` above 1; ``one`` of ones; ``w`` ascending; ``z`` complex64; ``i, j`` int32; ``index``
        positions; ``b, c`` bool; ``m`` of shape (2, 4), ``n`` of shape (4, 2); ``s`` two symmetric positive matrices
        and ``g`` two general ones, of shape (2, 2, 2); ``t`` right-hand sides of that shape; ``e`` of shape (2, 3).
    """
    x = np.asarray([0.15, 0.85, 0.3, 0.7, 0.45, 0.6, 0.2, 0.95], np.float32)
    y = x[::-1] * np.float32(0.9) + np.float32(0.05)
    s = np.asarray([[[2.0, 0.5], [0.5, 1.0]], [[3.0, -1.0], [-1.0, 4.0]]], np.float32)
    return {
        "x": x,
        "y": np.ascontiguousarray(y),
        "v": x + np.float32(1.25),
        "one": np.ones(8, np.float32),
        "w": np.sort(x),
        "z": (x + 1j * y).astype(np.complex64),
        "i": np.asarray([5, 3, 12, 9, 6, 10, 7, 1], np.int32),
        "j": np.asarray([1, 2, 0, 3, 1, 2, 3, 1], np.int32),
        "index": np.asarray([3, 0, 7, 2, 5, 1, 6, 4], np.int32),
        "b": x > 0.5,
        "c": y > 0.5,
        "m": x.reshape(2, 4),
        "n": np.ascontiguousarray(y).reshape(4, 2),
        "s": s,
        "g": s + np.asarray([[0.0, 0.25], [0.75, 0.0]], np.float32),
        "t": np.ascontiguousarray(y).reshape(2, 2, 2),
        "e": x[:6].reshape(2, 3),
    }


def _group(chapter: str, *statements: str) -> list[Call]:
    """Calls whose name is the function in the statement: ``xp.linalg.det(s)`` is ``linalg.det``."""
    return [Call(chapter, statement[3 : statement.index("(")], statement) for statement in statements]


def _unary(chapter: str, operand: str, names: str) -> list[Call]:
    return [Call(chapter, name, f"xp.{name}({operand})") for name in names.split()]


def _binary(chapter: str, left: str, right: str, names: str) -> list[Call]:
    return [Call(chapter, name, f"xp.{name}({left}, {right})") for name in names.split()]


ELEMENTWISE = [
    *_unary(
        "elementwise",
        "x",
        "abs acos asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log1p log2 log10"
        " negative positive reciprocal round sign signbit sin sinh sqrt square tan tanh trunc",
    ),
    *_unary("elementwise", "v", "acosh"),
    *_unary("elementwise", "z", "conj imag real"),
    *_unary("elementwise", "i", "bitwise_invert"),
    *_unary("elementwise", "b", "logical_not"),
    *_binary(
        "elementwise",
        "x",
        "y",
        "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp maximum"
        " minimum multiply nextafter not_equal pow remainder subtract",
    ),
    *_binary("elementwise", "b", "c", "logical_and logical_or logical_xor"),
    *_binary("elementwise", "i", "j", "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor"),
    *_group("elementwise", "xp.clip(x, 0.25, 0.75)"),
]

CREATION = _group(
    "creation",
    "xp.arange(8, dtype=xp.float32)",
    "xp.asarray(host)",
    "xp.empty(8, dtype=xp.float32)",
    "xp.empty_like(x)",
    "xp.eye(2, 4, dtype=xp.float32)",
    "xp.from_dlpack(host)",
    "xp.full(8, 1.5, dtype=xp.float32)",
    "xp.full_like(x, 1.5)",
    "xp.linspace(0.0, 1.0, 8, dtype=xp.float32)",
    "xp.meshgrid(x, y)",
    "xp.ones(8, dtype=xp.float32)",
    "xp.ones_like(x)",
    "xp.tril(m)",
    "xp.triu(m)",
    "xp.zeros(8, dtype=xp.float32)",
    "xp.zeros_like(x)",
)

DATA_TYPES = _group(
    "data types",
    "xp.astype(x, xp.int32)",
    "xp.can_cast(x, xp.float64)",
    "xp.finfo(xp.float32)",
    "xp.iinfo(xp.int32)",
    "xp.isdtype(x.dtype, 'real floating')",
    "xp.result_type(x, i)",
)

INDEXING = _group("indexing", "xp.take(x, index, axis=0)", "xp.take_along_axis(x, index, axis=0)")

LINEAR_ALGEBRA = _group(
    "linear algebra",
    "xp.matmul(m, n)",
    "xp.matrix_transpose(m)",
    "xp.tensordot(m, n, axes=1)",
    "xp.vecdot(x, y)",
)

MANIPULATION = _group(
    "manipulation",
    "xp.broadcast_arrays(x, y)",
    "xp.broadcast_shapes((2, 1), (4,))",
    "xp.broadcast_to(x, (2, 8))",
    "xp.concat([x, y])",
    "xp.expand_dims(x, axis=0)",
    "xp.flip(x)",
    "xp.moveaxis(m, 0, 1)",
    "xp.permute_dims(m, (1, 0))",
    "xp.repeat(x, 2)",
    "xp.reshape(x, (2, 4))",
    "xp.roll(x, 3)",
    "xp.squeeze(row, axis=0)",
    "xp.stack([x, y])",
    "xp.tile(x, (2,))",
    "xp.unstack(m)",
)

SEARCHING = _group(
    "searching",
    "xp.argmax(x)",
    "xp.argmin(x)",
    "xp.count_nonzero(x)",
    "xp.nonzero(x)",
    "xp.searchsorted(w, x)",
    "xp.where(b, x, y)",
)

SETS = _group(
    "sets",
    "xp.isin(x, y)",
    "xp.unique_all(x)",
    "xp.unique_counts(x)",
    "xp.unique_inverse(x)",
    "xp.unique_values(x)",
)

SORTING = _group("sorting", "xp.argsort(x)", "xp.sort(x)")

STATISTICS = _unary("statistics", "x", "cumulative_prod cumulative_sum max mean min prod std sum var")

UTILITY = [*_unary("utility", "b", "all any"), *_unary("utility", "x", "diff")]

LINALG = _group(
    "linalg",
    "xp.linalg.cholesky(s)",
    "xp.linalg.cross(e, e)",
    "xp.linalg.det(s)",
    "xp.linalg.diagonal(m)",
    "xp.linalg.eig(g)",
    "xp.linalg.eigh(s)",
    "xp.linalg.eigvals(g)",
    "xp.linalg.eigvalsh(s)",
    "xp.linalg.inv(s)",
    "xp.linalg.matmul(m, n)",
    "xp.linalg.matrix_norm(m)",
    "xp.linalg.matrix_power(s, 3)",
    "xp.linalg.matrix_rank(m)",
    "xp.linalg.matrix_transpose(m)",
    "xp.linalg.outer(x, y)",
    "xp.linalg.pinv(m)",
    "xp.linalg.qr(m)",
    "xp.linalg.slogdet(s)",
    "xp.linalg.solve(s, t)",
    "xp.linalg.svd(m)",
    "xp.linalg.svdvals(m)",
    "xp.linalg.tensordot(m, n, axes=1)",
    "xp.linalg.trace(m)",
    "xp.linalg.vecdot(x, y)",
    "xp.linalg.vector_norm(x)",
)

FFT = _group(
    "fft",
    "xp.fft.fft(z)",
    "xp.fft.ifft(z)",
    "xp.fft.fftn(z)",
    "xp.fft.ifftn(z)",
    "xp.fft.rfft(x)",
    "xp.fft.irfft(z)",
    "xp.fft.rfftn(x)",
    "xp.fft.irfftn(z)",
    "xp.fft.hfft(z)",
    "xp.fft.ihfft(x)",
    "xp.fft.fftfreq(8)",
    "xp.fft.rfftfreq(8)",
    "xp.fft.fftshift(x)",
    "xp.fft.ifftshift(x)",
)

UNARY_OPERATORS = [Call("unary operators", text, text) for text in ("abs(x)", "+x", "-x", "~i")]

FUNCTIONS = [
    *ELEMENTWISE,
    *CREATION,
    *DATA_TYPES,
    *INDEXING,
    *LINEAR_ALGEBRA,
    *MANIPULATION,
    *SEARCHING,
    *SETS,
    *SORTING,
    *STATISTICS,
    *UTILITY,
    *LINALG,
    *FFT,
    *UNARY_OPERATORS,
]

_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
_COMPARISON = ("==", "!=", "<", "<=", ">", ">=")
_BITWISE = ("&", "|", "^", "<<", ">>")

OPERATORS = [
    Call("operators", "m @ n", "m @ n"),
    *(
        Call("operators", text, text)
        for sign in (*_ARITHMETIC, *_COMPARISON)
        for text in (f"x {sign} y", f"x {sign} 2.0")
    ),
    *(Call("operators", text, text) for sign in _ARITHMETIC for text in (f"2.0 {sign} x",)),
    *(Call("operators", text, text) for sign in _BITWISE for text in (f"i {sign} j", f"i {sign} 2", f"2 {sign} j")),
    *(
        Call("in-place operators", text, text, setup)
        for sign in _ARITHMETIC
        for text, setup in (
            (f"r {sign}= one", "r = xp.asarray(x, copy=True)"),
            (f"r {sign}= 1.0", "r = xp.asarray(x, copy=True)"),
        )
    ),
]
