"""The linalg extension of the array API standard: decompositions, norms, solvers and products of matrices.

Every function takes stacks of matrices. Integers are computed in the default float; float16 and bfloat16 in float32,
rounded once. Matrices for which there is no result (a singular one to invert, one that is not positive definite to
factor) give NaN or infinity instead of an error, as the values are not known when the call is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ._array import Array, call1, call2, calln
from ._config import matmul_precision
from .core.axes import as_axis, as_int
from .core.dispatch import Op
from .core.dtypes import INEXACT, DTypeLike, as_dtype
from .errors import BackendLimitation, InvalidArgument
from .namespace._results import dtype_of, floating, index_dtype, sum_dtype
from .namespace.linear_algebra import matmul, matrix_transpose, tensordot, vecdot
from .raw import linalg as _raw
from .raw import linear_algebra as _products

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

if not TYPE_CHECKING:

    def __getattr__(name: str, /) -> object:
        from ._numpy_names import LINALG, missing

        raise missing(__name__, name, LINALG, __all__)


_cholesky = Op("linalg.cholesky", _raw.cholesky, ("upper",))
_cross = Op("linalg.cross", _products.cross, ("axis",))
_det = Op("linalg.det", _raw.det)
_diagonal = Op("linalg.diagonal", _products.diagonal, ("offset",))
_eig = Op("linalg.eig", _raw.eig)
_eigh = Op("linalg.eigh", _raw.eigh)
_eigvals = Op("linalg.eigvals", _raw.eigvals)
_eigvalsh = Op("linalg.eigvalsh", _raw.eigvalsh)
_inv = Op("linalg.inv", _raw.inv)
_matrix_norm = Op("linalg.matrix_norm", _raw.matrix_norm, ("keepdims", "ord"))
_matrix_power = Op("linalg.matrix_power", _raw.matrix_power, ("n", "precision"))
_matrix_rank = Op("linalg.matrix_rank", _raw.matrix_rank, ("dtype",))
_outer = Op("linalg.outer", _products.outer)
_pinv = Op("linalg.pinv", _raw.pinv)
_qr = Op("linalg.qr", _raw.qr, ("mode",))
_slogdet = Op("linalg.slogdet", _raw.slogdet)
_solve = Op("linalg.solve", _raw.solve)
_svd = Op("linalg.svd", _raw.svd, ("full_matrices",))
_svdvals = Op("linalg.svdvals", _raw.svdvals)
_trace = Op("linalg.trace", _products.trace, ("offset", "dtype"))
_vector_norm = Op("linalg.vector_norm", _raw.vector_norm, ("axis", "keepdims", "ord"))


class EigResult(NamedTuple):
    """Result of `eig`."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Result of `eigh`."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Result of `qr`."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """Result of `slogdet`."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Result of `svd`."""

    U: Array
    S: Array
    Vh: Array


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """Factor symmetric or Hermitian positive definite matrices into a triangular matrix and its adjoint.

    Parameters
    ----------
    x
        Array of shape (..., M, M). The mean of each matrix and its adjoint is factored.
    upper
        Return the upper factor U of ``x == U.H @ U`` instead of the lower factor L of ``x == L @ L.H``.

    Returns
    -------
    Array
        Of the shape of `x`; NaN for a matrix that is not positive definite.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    """
    return call1(_cholesky, floating(x, "cholesky"), bool(upper))


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Return cross products of vectors of three elements.

    Parameters
    ----------
    x1, x2
        Arrays with 3 elements along the axis; their other axes broadcast.
    axis
        The axis of the vectors; negative, as it counts from the last axis of each.

    Returns
    -------
    Array

    Raises
    ------
    ShapeMismatch
        There are not 3 elements along the axis of both.
    InvalidDimension
        An array has no such axis.
    """
    return call2(_cross, x1, x2, as_int(axis, "cross", "axis"))


def det(x: Array, /) -> Array:
    """Return determinants of square matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, M).

    Returns
    -------
    Array
        Of shape (...).

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    """
    return call1(_det, floating(x, "det"))


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """Return a diagonal of each matrix.

    Parameters
    ----------
    x
        Array of shape (..., M, N).
    offset
        Which one: above the main diagonal if positive, below if negative; empty if it lies outside.

    Returns
    -------
    Array
        Of shape (..., K), a copy.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    """
    return call1(_diagonal, x, as_int(offset, "diagonal", "offset"))


def _general(operation: str, op: Op, x: Array) -> Array:
    try:
        return call1(op, floating(x, operation))
    except NotImplementedError as error:
        if isinstance(error, BackendLimitation):
            raise
        platform = getattr(x.device, "platform", "this device")
        raise BackendLimitation(
            operation,
            got=f"an Array on {platform}",
            wanted="a device with an implementation of general eigenvalues, such as the CPU",
            remedy='Use x.to_device("cpu"), or eigh if the matrix is symmetric.',
            backend=str(platform),
            reason=str(error),
        ) from error


def eig(x: Array, /) -> EigResult:
    """Return eigenvalues and eigenvectors of general square matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, M).

    Returns
    -------
    EigResult
        ``eigenvalues`` of shape (..., M) in no particular order; ``eigenvectors`` of shape (..., M, M), in columns.
        Complex, also for real `x`.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    BackendLimitation
        XLA has no implementation for the device of `x`.
    """
    return EigResult(*_general("eig", _eig, x))


def eigvals(x: Array, /) -> Array:
    """Return the eigenvalues of general square matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, M).

    Returns
    -------
    Array
        Of shape (..., M) and a complex dtype, in no particular order.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    BackendLimitation
        XLA has no implementation for the device of `x`.
    """
    return _general("eigvals", _eigvals, x)


def eigh(x: Array, /) -> EighResult:
    """Return eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, M). The mean of each matrix and its adjoint is decomposed.

    Returns
    -------
    EighResult
        ``eigenvalues`` of shape (..., M), real and ascending; ``eigenvectors`` of shape (..., M, M), in columns.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    """
    return EighResult(*call1(_eigh, floating(x, "eigh")))


def eigvalsh(x: Array, /) -> Array:
    """Return the eigenvalues of symmetric or Hermitian matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, M). The mean of each matrix and its adjoint is decomposed.

    Returns
    -------
    Array
        Of shape (..., M), real and ascending.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    """
    return call1(_eigvalsh, floating(x, "eigvalsh"))


def inv(x: Array, /) -> Array:
    """Invert square matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, M).

    Returns
    -------
    Array
        Of the shape of `x`; infinite or NaN for a singular matrix.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    """
    return call1(_inv, floating(x, "inv"))


def matrix_norm(
    x: Array, /, *, keepdims: bool = False, ord: int | float | Literal["fro", "nuc"] | None = "fro"
) -> Array:
    """Return the norms of matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, N).
    keepdims
        Keep the last two axes, with size 1.
    ord
        ``"fro"`` or None: root of the sum of squares; ``"nuc"``: sum of the singular values; 2 and -2: the greatest
        and the least of them; 1 and -1: the greatest and the least column sum of absolute values; infinity and its
        negative: the same of rows.

    Returns
    -------
    Array
        Real. The positive norms of an empty matrix are 0.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    InvalidArgument
        Any other `ord`, or a negative one for an empty matrix.
    """
    return call1(_matrix_norm, floating(x, "matrix_norm"), (keepdims, ord))


def matrix_power(x: Array, n: int, /) -> Array:
    """Multiply square matrices with themselves.

    Parameters
    ----------
    x
        Array of shape (..., M, M). Integers stay integers unless `n` is negative.
    n
        The power; 0 gives the identity, a negative one the power of the inverse.

    Returns
    -------
    Array
        Of the shape of `x`. Precision is that of `matmul`.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    """
    n = as_int(n, "matrix_power", "n")
    return call1(_matrix_power, floating(x, "matrix_power") if n < 0 else x, (n, matmul_precision()))


def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """Count the singular values of matrices that are not zero.

    Parameters
    ----------
    x
        Array of shape (..., M, N).
    rtol
        Singular values up to this times the greatest one count as zero; a number, or an array that broadcasts to
        shape (...). By default ``max(M, N)`` times the machine epsilon of `x`.

    Returns
    -------
    Array
        Of shape (...) and the default integer dtype.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    BroadcastError
        `rtol` does not broadcast to the stack.
    """
    x = floating(x, "matrix_rank")
    return calln(_matrix_rank, (x,) if rtol is None else (x, rtol), index_dtype(x))  # type: ignore[return-value]


def outer(x1: Array, x2: Array, /) -> Array:
    """Multiply each element of one vector with each of another.

    Parameters
    ----------
    x1, x2
        Vectors of sizes N and M.

    Returns
    -------
    Array
        Of shape (N, M).

    Raises
    ------
    InvalidDimension
        An operand is not a vector.
    """
    return call2(_outer, x1, x2)


def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """Return the Moore-Penrose pseudo-inverses of matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, N).
    rtol
        Singular values up to this times the greatest one count as zero; a number, or an array that broadcasts to
        shape (...). By default ``max(M, N)`` times the machine epsilon of `x`.

    Returns
    -------
    Array
        Of shape (..., N, M).

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    BroadcastError
        `rtol` does not broadcast to the stack.
    """
    x = floating(x, "pinv")
    return calln(_pinv, (x,) if rtol is None else (x, rtol))  # type: ignore[return-value]


def qr(x: Array, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Factor matrices into orthonormal columns and an upper triangle.

    Parameters
    ----------
    x
        Array of shape (..., M, N); K is the smaller of M and N.
    mode
        ``"reduced"``: Q has shape (..., M, K) and R (..., K, N); ``"complete"``: (..., M, M) and (..., M, N).

    Returns
    -------
    QRResult
        ``Q`` and ``R``.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    InvalidArgument
        Any other `mode`.
    """
    return QRResult(*call1(_qr, floating(x, "qr"), mode))


def slogdet(x: Array, /) -> SlogdetResult:
    """Return signs and logarithms of absolute values of determinants, where these would overflow.

    Parameters
    ----------
    x
        Array of shape (..., M, M).

    Returns
    -------
    SlogdetResult
        ``sign`` of the dtype of `x` and ``logabsdet``, real, of shape (...); 0 and minus infinity for a singular
        matrix.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    """
    return SlogdetResult(*call1(_slogdet, floating(x, "slogdet")))


def solve(x1: Array, x2: Array, /) -> Array:
    """Solve systems of linear equations ``x1 @ out == x2``.

    Parameters
    ----------
    x1
        Coefficients, of shape (..., M, M).
    x2
        Right-hand sides: one vector of shape (M,), or matrices of shape (..., M, K). The leading axes broadcast.

    Returns
    -------
    Array
        Of shape (..., M) for a vector, else (..., M, K). Infinite or NaN for a singular matrix.

    Raises
    ------
    InvalidDimension
        The matrices are not square.
    ShapeMismatch
        `x2` has another number of rows.
    BroadcastError
        The leading axes do not broadcast.
    """
    if dtype_of(x1, "solve") not in INEXACT and dtype_of(x2, "solve") not in INEXACT:
        x1 = floating(x1, "solve")
    return call2(_solve, x1, x2)


def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """Decompose matrices into singular vectors and values.

    Parameters
    ----------
    x
        Array of shape (..., M, N); K is the smaller of M and N.
    full_matrices
        Return all of the orthonormal vectors, (..., M, M) and (..., N, N), instead of (..., M, K) and (..., K, N).

    Returns
    -------
    SVDResult
        ``U``; ``S`` of shape (..., K), real and descending; ``Vh``.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    """
    return SVDResult(*call1(_svd, floating(x, "svd"), bool(full_matrices)))


def svdvals(x: Array, /) -> Array:
    """Return the singular values of matrices.

    Parameters
    ----------
    x
        Array of shape (..., M, N).

    Returns
    -------
    Array
        Of shape (..., min(M, N)), real and descending.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    """
    return call1(_svdvals, floating(x, "svdvals"))


def trace(x: Array, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Sum a diagonal of each matrix.

    Parameters
    ----------
    x
        Array of shape (..., M, N).
    offset
        Which diagonal: above the main one if positive, below if negative.
    dtype
        As for `rtx_jax.sum`.

    Returns
    -------
    Array
        Of shape (...).

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    """
    resolved = sum_dtype(x, "trace") if dtype is None else as_dtype(dtype, "trace")
    return call1(_trace, x, (as_int(offset, "trace", "offset"), resolved))


def vector_norm(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: int | float = 2
) -> Array:
    """Return the norms of vectors.

    Parameters
    ----------
    x
        Array of any shape.
    axis
        Axis or axes of the vectors; by default all of `x` is one vector.
    keepdims
        Keep these axes, with size 1.
    ord
        2: root of the sum of squares; 0: number of nonzero elements; infinity and its negative: the greatest and the
        least absolute value; any other p: ``sum(abs(x)**p)**(1/p)``.

    Returns
    -------
    Array
        Real. The norm of no elements is 0.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    InvalidArgument
        `ord` is no number, or is minus infinity and there are no elements.
    """
    if not isinstance(ord, (int, float)) or math.isnan(ord):
        raise InvalidArgument(
            "vector_norm",
            "ord",
            got=repr(ord),
            wanted="a number",
            remedy="The norms of matrices are in matrix_norm.",
            arg="ord",
            reason="not a number",
        )
    if isinstance(axis, Sequence) or (axis is not None and type(axis) is not int):
        axis = as_axis(axis, "vector_norm")
    return call1(_vector_norm, floating(x, "vector_norm"), (axis, keepdims, ord))
