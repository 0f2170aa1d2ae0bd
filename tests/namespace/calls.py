"""One call of every function of the namespace, with what NumPy says it gives.

Used where every function has to be tried: ownership of buffers, sharded operands, compiled against eager.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

M = np.asarray([[4.0, 1.0, 0.5, 0.2], [1.0, 5.0, 0.3, 0.1], [0.5, 0.3, 6.0, 0.4], [0.2, 0.1, 0.4, 7.0]])  # symmetric
R = np.linspace(0.1, 0.9, 16).reshape(4, 4)  # inside of every domain
S = np.asarray([[1.5, -2.5, 0.5, 3.0], [-1.0, 2.0, -0.5, 1.0], [2.0, 2.0, 7.0, -4.0], [0.0, 1.0, -3.0, 9.0]])
I = np.asarray([[3, 1, 2, 7], [1, 1, 5, 4], [0, 2, 2, 6], [5, 7, 3, 1]])  # noqa: E741
B = S > 0
V = np.asarray([0.5, 1.0, 2.5, 4.0])
C = R + 1j * R.T


@dataclass(frozen=True, slots=True)
class Call:
    """One call: `run` gets the namespace and the operands as arrays; `want` the operands as NumPy has them."""

    name: str
    run: Callable[..., object]
    operands: tuple[np.ndarray, ...]
    want: Callable[..., object]
    # False where the shape of the result depends on the values, so that it cannot be compiled.
    traceable: bool = True


def _same(name: str, *operands: np.ndarray, numpy: str | None = None) -> Call:
    return Call(name, lambda xp, *a: getattr(xp, name)(*a), operands, getattr(np, numpy or name))


_UNARY_R = (
    "acos asin atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt tan tanh asinh reciprocal".split()
)
_UNARY_S = "abs ceil floor negative positive round sign signbit square trunc isfinite isinf isnan real conj".split()
_BINARY_S = "add subtract multiply equal not_equal less less_equal greater greater_equal maximum minimum hypot".split()
_BINARY_R = "divide floor_divide remainder pow atan2 copysign logaddexp nextafter".split()
_INTEGER = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()
_LOGICAL = "logical_and logical_or logical_xor".split()

ELEMENTWISE: list[Call] = [
    *(_same(name, R) for name in _UNARY_R),
    _same("acosh", R + 1),
    *(_same(name, S) for name in _UNARY_S),
    _same("imag", C),
    *(_same(name, S, R) for name in _BINARY_S),
    *(_same(name, R, R.T.copy()) for name in _BINARY_R),
    *(_same(name, I, I.T.copy()) for name in _INTEGER),
    _same("bitwise_invert", I),
    *(_same(name, B, B.T.copy()) for name in _LOGICAL),
    _same("logical_not", B),
    Call("clip", lambda xp, x: xp.clip(x, -1.0, 2.0), (S,), lambda x: np.clip(x, -1.0, 2.0)),
]

STATISTICAL: list[Call] = [
    *(
        Call(f, lambda xp, x, f=f: getattr(xp, f)(x, axis=0), (S,), lambda x, f=f: getattr(np, f)(x, axis=0))
        for f in ("max", "mean", "min", "prod", "std", "sum", "var", "argmax", "argmin", "sort", "all", "any")
    ),
    Call("count_nonzero", lambda xp, x: xp.count_nonzero(x, axis=0), (S,), lambda x: np.count_nonzero(x, axis=0)),
    Call("argsort", lambda xp, x: xp.argsort(x, axis=0), (S,), lambda x: np.argsort(x, axis=0, stable=True)),
    Call("cumulative_sum", lambda xp, x: xp.cumulative_sum(x, axis=0), (S,), lambda x: np.cumsum(x, axis=0)),
    Call("cumulative_prod", lambda xp, x: xp.cumulative_prod(x, axis=0), (S,), lambda x: np.cumprod(x, axis=0)),
    Call("diff", lambda xp, x: xp.diff(x, axis=0), (S,), lambda x: np.diff(x, axis=0)),
    Call("searchsorted", lambda xp, a, v: xp.searchsorted(a, v), (V, R), lambda a, v: np.searchsorted(a, v)),
    Call("where", lambda xp, c, a, b: xp.where(c, a, b), (B, S, R), np.where),
    Call("nonzero", lambda xp, x: xp.nonzero(x), (S,), np.nonzero, traceable=False),
    Call("isin", lambda xp, a, b: xp.isin(a, b), (I, I[0].copy()), np.isin),
    Call("unique_values", lambda xp, x: xp.unique_values(x), (I,), np.unique, traceable=False),
    Call(
        "unique_counts",
        lambda xp, x: tuple(xp.unique_counts(x)),
        (I,),
        lambda x: np.unique(x, return_counts=True),
        traceable=False,
    ),
    Call(
        "unique_inverse",
        lambda xp, x: tuple(xp.unique_inverse(x)),
        (I,),
        lambda x: np.unique(x, return_inverse=True),
        traceable=False,
    ),
]

MANIPULATION: list[Call] = [
    Call("astype", lambda xp, x: xp.astype(x, xp.float32), (S,), lambda x: x.astype("float32")),
    Call("broadcast_to", lambda xp, x: xp.broadcast_to(x, (2, 4, 4)), (S,), lambda x: np.broadcast_to(x, (2, 4, 4))),
    Call("broadcast_arrays", lambda xp, x, y: xp.broadcast_arrays(x, y), (S, V), np.broadcast_arrays),
    Call("concat", lambda xp, x, y: xp.concat([x, y], axis=1), (S, R), lambda x, y: np.concatenate([x, y], axis=1)),
    Call("stack", lambda xp, x, y: xp.stack([x, y]), (S, R), lambda x, y: np.stack([x, y])),
    Call("unstack", lambda xp, x: xp.unstack(x), (S,), tuple),
    Call("expand_dims", lambda xp, x: xp.expand_dims(x, axis=1), (S,), lambda x: x[:, None]),
    Call("squeeze", lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=1), axis=1), (S,), lambda x: x),
    Call("flip", lambda xp, x: xp.flip(x, axis=1), (S,), lambda x: x[:, ::-1]),
    Call("moveaxis", lambda xp, x: xp.moveaxis(x, 0, 1), (S,), lambda x: x.T),
    Call("permute_dims", lambda xp, x: xp.permute_dims(x, (1, 0)), (S,), lambda x: x.T),
    Call("repeat", lambda xp, x: xp.repeat(x, 2, axis=1), (S,), lambda x: np.repeat(x, 2, axis=1)),
    Call("reshape", lambda xp, x: xp.reshape(x, (4, 2, 2)), (S,), lambda x: x.reshape(4, 2, 2)),
    Call("roll", lambda xp, x: xp.roll(x, 1, axis=1), (S,), lambda x: np.roll(x, 1, axis=1)),
    Call("tile", lambda xp, x: xp.tile(x, (1, 2)), (S,), lambda x: np.tile(x, (1, 2))),
    Call("tril", lambda xp, x: xp.tril(x), (S,), np.tril),
    Call("triu", lambda xp, x: xp.triu(x, k=1), (S,), lambda x: np.triu(x, 1)),
    Call("meshgrid", lambda xp, x, y: xp.meshgrid(x, y), (V, V), np.meshgrid),
    Call("zeros_like", lambda xp, x: xp.zeros_like(x), (S,), np.zeros_like),
    Call("ones_like", lambda xp, x: xp.ones_like(x), (S,), np.ones_like),
    Call("full_like", lambda xp, x: xp.full_like(x, 2.5), (S,), lambda x: np.full_like(x, 2.5)),
    Call("asarray", lambda xp, x: xp.asarray(x, copy=True), (S,), np.array),
    Call(
        "take", lambda xp, x, i: xp.take(x, i, axis=1), (S, np.asarray([3, 0, 0])), lambda x, i: np.take(x, i, axis=1)
    ),
    Call(
        "take_along_axis",
        lambda xp, x, i: xp.take_along_axis(x, i, axis=1),
        (S, I % 4),
        lambda x, i: np.take_along_axis(x, i, axis=1),
    ),
    Call("pad", lambda xp, x: xp.pad(x, 1), (S,), lambda x: np.pad(x, 1)),
    Call("isclose", lambda xp, x, y: xp.isclose(x, y), (S, S + 1e-12), np.isclose),
    Call("getitem", lambda xp, x: x[1:3, ::2], (S,), lambda x: x[1:3, ::2]),
    Call("getitem_array", lambda xp, x, i: x[i], (S, np.asarray([3, 0, 0])), lambda x, i: x[i]),
    Call("getitem_mask", lambda xp, x, m: x[m], (S, B), lambda x, m: x[m], traceable=False),
]

LINEAR: list[Call] = [
    Call("matmul", lambda xp, x, y: xp.matmul(x, y), (S, R), np.matmul),
    Call("matrix_transpose", lambda xp, x: xp.matrix_transpose(x), (S,), lambda x: x.T),
    Call("tensordot", lambda xp, x, y: xp.tensordot(x, y, axes=1), (S, R), lambda x, y: np.tensordot(x, y, axes=1)),
    Call("vecdot", lambda xp, x, y: xp.vecdot(x, y), (S, R), lambda x, y: (x * y).sum(-1)),
    Call("einsum", lambda xp, x, y: xp.einsum("ij,kj->ik", x, y), (S, R), lambda x, y: x @ y.T),
    *(
        Call(f"linalg.{f}", lambda xp, x, f=f: getattr(xp.linalg, f)(x), (M,), getattr(np.linalg, f))
        for f in ("cholesky", "det", "eigvalsh", "inv", "svdvals", "matrix_norm", "vector_norm", "matrix_rank")
    ),
    Call("linalg.pinv", lambda xp, x: xp.linalg.pinv(x), (M,), np.linalg.pinv),
    Call("linalg.solve", lambda xp, x, y: xp.linalg.solve(x, y), (M, R), np.linalg.solve),
    Call("linalg.slogdet", lambda xp, x: tuple(xp.linalg.slogdet(x)), (M,), lambda x: tuple(np.linalg.slogdet(x))),
    Call("linalg.trace", lambda xp, x: xp.linalg.trace(x), (M,), np.trace),
    Call("linalg.diagonal", lambda xp, x: xp.linalg.diagonal(x), (M,), np.diagonal),
    Call("linalg.outer", lambda xp, x, y: xp.linalg.outer(x, y), (V, V + 1), np.outer),
    Call("linalg.cross", lambda xp, x, y: xp.linalg.cross(x, y), (V[:3].copy(), R[0, :3].copy()), np.cross),
    Call("linalg.matrix_power", lambda xp, x: xp.linalg.matrix_power(x, 3), (M,), lambda x: x @ x @ x),
    *(
        Call(f"fft.{f}", lambda xp, x, f=f: getattr(xp.fft, f)(x), (operand,), getattr(np.fft, f))
        for f, operand in (
            *((f, C) for f in ("fft", "ifft", "fftn", "ifftn", "hfft", "irfft", "irfftn")),
            *((f, R) for f in ("rfft", "rfftn", "ihfft", "fftshift", "ifftshift")),
        )
    ),
]

CALLS: list[Call] = [*ELEMENTWISE, *STATISTICAL, *MANIPULATION, *LINEAR]

# Functions without an array operand, or that are tried elsewhere by their nature (factorisations are not unique).
OTHERS = frozenset(
    "arange empty empty_like eye from_dlpack full linspace ones zeros "  # nothing to own
    "broadcast_shapes can_cast finfo iinfo isdtype result_type array allclose "  # no array comes out
    "unique_all linalg.eig linalg.eigh linalg.eigvals linalg.qr linalg.svd "
    "fft.fftfreq fft.rfftfreq linalg.matmul linalg.matrix_transpose linalg.tensordot linalg.vecdot".split()
)


def leaves(result: object) -> list[object]:
    """Return the arrays of a result."""
    return list(result) if isinstance(result, tuple | list) else [result]


def function_names(xp: ModuleType) -> set[str]:
    """Return the names of the standard's functions, with those of the extensions behind their module's name."""
    chapters = (
        "creation data_type elementwise indexing_functions linear_algebra manipulation searching set_functions "
        "sorting statistical utility contraction extras"
    ).split()
    names = set()
    for chapter in chapters:
        names.update(importlib.import_module(f"rtx_jax.namespace.{chapter}").__all__)
    for extension in ("linalg", "fft"):
        names.update(f"{extension}.{name}" for name in getattr(xp, extension).__all__)
    return names
