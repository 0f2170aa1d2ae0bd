"""Decompositions, norms and solvers of the standard's linalg extension on raw arrays.

Operands are floating: the face casts integers to the default float. LAPACK and its peers know 32 and 64 bits, so
smaller floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..checks.shape import broadcast_shape
from ..core.axes import normalize_axes
from ..core.dtypes import COMPLEX, INEXACT, complex_of, real_of
from ..errors import BroadcastError, InvalidArgument, ShapeMismatch, UnsupportedDType
from ._kinds import accumulator, cast, enter, rank_at_least, square
from .extremes import greatest, least
from .linear_algebra import matmul
from .operands import common_dtype as common

__all__ = [
    "cholesky",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "vector_norm",
]


def _floating(operation: str, x: jax.Array, argument: str = "x") -> jax.Array:
    if x.dtype not in INEXACT:
        raise UnsupportedDType(
            operation, argument, got=x.dtype.name, wanted="a floating dtype", dtype=x.dtype, op=operation
        )
    return cast(x, accumulator(x.dtype))


def _matrices(operation: str, x: jax.Array, argument: str = "x") -> jax.Array:
    rank_at_least(operation, x, 2, argument)
    return _floating(operation, x, argument)


def _squares(operation: str, x: jax.Array, argument: str = "x") -> jax.Array:
    square(operation, x, argument)
    return _floating(operation, x, argument)


def cholesky(x: jax.Array, *, upper: bool) -> jax.Array:
    """Return the triangular factor; NaN for a matrix that is not positive definite."""
    return cast(jnp.linalg.cholesky(_squares("cholesky", x), upper=upper), x.dtype)


def det(x: jax.Array) -> jax.Array:
    """Return the determinants."""
    return cast(jnp.linalg.det(_squares("det", x)), x.dtype)


def slogdet(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the signs and the logarithms of the absolute values of the determinants."""
    sign, log = jnp.linalg.slogdet(_squares("slogdet", x))
    return cast(sign, x.dtype), cast(log, real_of(x.dtype))


def inv(x: jax.Array) -> jax.Array:
    """Return the inverses."""
    return cast(jnp.linalg.inv(_squares("inv", x)), x.dtype)


def solve(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Solve ``x1 @ out == x2``; `x2` is a vector exactly if it has one axis."""
    square("solve", x1, "x1")
    rank_at_least("solve", x2, 1, "x2")
    vector = x2.ndim == 1
    if x2.shape[0 if vector else -2] != x1.shape[-1]:
        raise ShapeMismatch(
            "solve",
            "x2",
            got=f"shape {x2.shape} for x1 of shape {x1.shape}",
            wanted=f"({x1.shape[-1]},) or (..., {x1.shape[-1]}, K)",
            remedy="Write a stack of vectors as x2[..., None].",
            expected=(x1.shape[-1],),
            got_shape=x2.shape,
        )
    broadcast_shape("solve", x1.shape[:-2], x2.shape[:-2])
    out = common("solve", x1, x2)
    with enter(out):
        work = accumulator(out)
        a, b = cast(x1, work), cast(x2, work)
        _floating("solve", a, "x1")
        if vector:
            return cast(jnp.linalg.solve(a, b[:, None])[..., 0], out)
        return cast(jnp.linalg.solve(a, b), out)


def eigh(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return ascending eigenvalues and the eigenvectors of symmetric or Hermitian matrices."""
    values, vectors = jnp.linalg.eigh(_squares("eigh", x))
    return cast(values, real_of(x.dtype)), cast(vectors, x.dtype)


def eigvalsh(x: jax.Array) -> jax.Array:
    """Return the ascending eigenvalues of symmetric or Hermitian matrices."""
    return cast(jnp.linalg.eigvalsh(_squares("eigvalsh", x)), real_of(x.dtype))


def eig(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return complex eigenvalues and eigenvectors of general matrices."""
    values, vectors = jnp.linalg.eig(_squares("eig", x))
    out = complex_of(x.dtype)
    return cast(values, out), cast(vectors, out)


def eigvals(x: jax.Array) -> jax.Array:
    """Return the complex eigenvalues of general matrices."""
    return cast(jnp.linalg.eigvals(_squares("eigvals", x)), complex_of(x.dtype))


def qr(x: jax.Array, *, mode: str) -> tuple[jax.Array, jax.Array]:
    """Return orthonormal and upper triangular factors."""
    if mode not in ("reduced", "complete"):
        raise InvalidArgument(
            "qr", "mode", got=repr(mode), wanted="'reduced' or 'complete'", arg="mode", reason="unknown mode"
        )
    q, r = jnp.linalg.qr(_matrices("qr", x), mode=mode)
    return cast(q, x.dtype), cast(r, x.dtype)


def svd(x: jax.Array, *, full_matrices: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return left singular vectors, descending singular values and the adjoint of the right singular vectors."""
    u, s, vh = jnp.linalg.svd(_matrices("svd", x), full_matrices=full_matrices)
    return cast(u, x.dtype), cast(s, real_of(x.dtype)), cast(vh, x.dtype)


def svdvals(x: jax.Array) -> jax.Array:
    """Return the descending singular values."""
    return cast(jnp.linalg.svd(_matrices("svdvals", x), compute_uv=False), real_of(x.dtype))


def _rtol(operation: str, x: jax.Array, rtol: jax.Array | None) -> jax.Array:
    real = real_of(x.dtype)
    if rtol is None:
        # JAX multiplies this by 10; the standard does not.
        return jnp.asarray(builtins.max(x.shape[-2:]) * float(jnp.finfo(real).eps), real)
    shape = x.shape[:-2]
    if broadcast_shape(operation, shape, rtol.shape) != shape:
        raise BroadcastError(
            operation,
            "rtol",
            got=f"shape {rtol.shape}",
            wanted=f"a shape that broadcasts to that of the stack, {shape}",
            lhs=shape,
            rhs=rtol.shape,
        )
    return cast(lax.real(rtol) if rtol.dtype in COMPLEX else rtol, real)


def matrix_rank(x: jax.Array, rtol: jax.Array | None = None, *, dtype: np.dtype) -> jax.Array:
    """Count the singular values above ``rtol`` times the greatest; `dtype` is that of the result."""
    work = _matrices("matrix_rank", x)
    tolerance = _rtol("matrix_rank", work, rtol)
    s = jnp.linalg.svd(work, compute_uv=False)
    if not s.shape[-1]:
        return jnp.zeros(x.shape[:-2], dtype)
    return jnp.sum(s > tolerance[..., None] * s[..., :1], axis=-1, dtype=dtype)


def pinv(x: jax.Array, rtol: jax.Array | None = None) -> jax.Array:
    """Return the pseudo-inverses, singular values up to ``rtol`` times the greatest taken as zero."""
    work = _matrices("pinv", x)
    if not work.size:
        return jnp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    return cast(_pinv(work, _rtol("pinv", work, rtol)), x.dtype)


# JAX 0.10.2 has a rule for the gradient too, but there the tolerance may not be traced.
@jax.custom_jvp
def _pinv(x: jax.Array, rtol: jax.Array) -> jax.Array:
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    kept = s > rtol[..., None] * s[..., :1]
    inverse = jnp.where(kept, 1 / jnp.where(kept, s, 1), 0)
    return _times(_adjoint(vh) * inverse[..., None, :], _adjoint(u))


@_pinv.defjvp
def _pinv_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    # Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables
    # separate", SIAM J. Numer. Anal. 10 (1973), equation 4.12; the rank is taken as locally constant.
    (a, rtol), da = primals, tangents[0]
    p = _pinv(a, rtol)
    dah, ph = _adjoint(da), _adjoint(p)
    rows = _times(_times(p, ph), dah)
    columns = _times(dah, _times(ph, p))
    change = -_times(_times(p, da), p) + rows - _times(_times(rows, a), p)
    return p, change + columns - _times(p, _times(a, columns))


def _adjoint(x: jax.Array) -> jax.Array:
    return jnp.conj(x).mT


def _times(x1: jax.Array, x2: jax.Array) -> jax.Array:
    return matmul(x1, x2, precision="highest")


def matrix_power(x: jax.Array, *, n: int, precision: str) -> jax.Array:
    """Multiply square matrices with themselves; a negative power inverts them first."""
    square("matrix_power", x)
    if n < 0:
        x, n = inv(x), -n
    if not n:
        return jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    result: jax.Array | None = None
    while True:
        if n & 1:
            result = x if result is None else matmul(result, x, precision=precision)
        n >>= 1
        if not n:
            return result  # type: ignore[return-value]
        x = matmul(x, x, precision=precision)


def vector_norm(x: jax.Array, *, axis: int | tuple[int, ...] | None, keepdims: bool, ord: float) -> jax.Array:
    """Return the norm of vectors along axes; the norm of an empty vector is 0."""
    axes = normalize_axes(axis, x.ndim, "vector_norm")
    work = _floating("vector_norm", x)
    return cast(_vector_norm("vector_norm", work, axes, keepdims, ord), real_of(x.dtype))


def _vector_norm(operation: str, x: jax.Array, axes: tuple[int, ...], keepdims: bool, ord: float) -> jax.Array:
    real = real_of(x.dtype)

    def total(values: jax.Array) -> jax.Array:
        return jnp.sum(values, axis=axes, keepdims=keepdims)

    if ord == 0:
        return jnp.sum(x != 0, axis=axes, dtype=real, keepdims=keepdims)
    if ord == 2:
        return lax.sqrt(total(_squared(x)))
    size = lax.abs(x)
    if ord == 1:
        return total(size)
    if ord == math.inf:
        return greatest(size, axes, keepdims, initial=0)
    if ord == -math.inf:
        if not builtins.all(x.shape[a] for a in axes):
            raise _empty(operation, x, ord)
        return least(size, axes, keepdims)
    power = jnp.asarray(ord, real)
    return total(size**power) ** (1 / power)


def _squared(x: jax.Array) -> jax.Array:
    if x.dtype in COMPLEX:
        return lax.square(lax.real(x)) + lax.square(lax.imag(x))
    return lax.square(x)


def _empty(operation: str, x: jax.Array, ord: object) -> InvalidArgument:
    return InvalidArgument(
        operation,
        "x",
        got=f"shape {x.shape} with ord={ord!r}",
        wanted="at least one element to choose from",
        arg="x",
        reason="empty reduction",
    )


def matrix_norm(x: jax.Array, *, keepdims: bool, ord: float | str | None) -> jax.Array:
    """Return the norm of each matrix; the positive norms of an empty matrix are 0."""
    work = _matrices("matrix_norm", x)
    norm = _matrix_norm(work, ord)
    if keepdims:
        norm = norm[..., None, None]
    return cast(norm, real_of(x.dtype))


def _matrix_norm(x: jax.Array, ord: float | str | None) -> jax.Array:
    if ord is None or ord == "fro":
        return lax.sqrt(jnp.sum(_squared(x), axis=(-2, -1)))
    reduction: Callable[..., jax.Array] = functools.partial(greatest, initial=0)
    if not isinstance(ord, str) and ord < 0:
        reduction = least
        if not x.shape[-1] or not x.shape[-2]:
            raise _empty("matrix_norm", x, ord)
    if ord in (2, -2, "nuc"):
        s = jnp.linalg.svd(x, compute_uv=False)
        return jnp.sum(s, axis=-1) if ord == "nuc" else reduction(s, -1)
    if ord in (1, -1):
        return reduction(jnp.sum(lax.abs(x), axis=-2), -1)
    if ord in (math.inf, -math.inf):
        return reduction(jnp.sum(lax.abs(x), axis=-1), -1)
    raise InvalidArgument(
        "matrix_norm",
        "ord",
        got=repr(ord),
        wanted="'fro', 'nuc', None, 1, -1, 2, -2, inf or -inf",
        arg="ord",
        reason="unknown order",
    )
