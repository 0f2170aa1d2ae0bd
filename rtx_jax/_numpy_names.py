"""What to write for names that NumPy has and the array API standard does not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["LINALG", "MAIN", "METHODS", "missing", "missing_attribute"]

MAIN = {
    "absolute": "abs(x)",
    "amax": "max(x)",
    "amin": "min(x)",
    "append": "concat(arrays)",
    "arccos": "acos(x)",
    "arccosh": "acosh(x)",
    "arcsin": "asin(x)",
    "arcsinh": "asinh(x)",
    "arctan": "atan(x)",
    "arctan2": "atan2(x1, x2)",
    "arctanh": "atanh(x)",
    "argwhere": "stack(nonzero(x), axis=1)",
    "array_equal": "all(x1 == x2) for equal shapes",
    "ascontiguousarray": "asarray(x)",
    "average": "sum(weights * x) / sum(weights)",
    "bitwise_not": "bitwise_invert(x)",
    "bool_": "bool",
    "concatenate": "concat(arrays)",
    "conjugate": "conj(x)",
    "copy": "asarray(x, copy=True)",
    "cross": "linalg.cross(x1, x2)",
    "cumprod": "cumulative_prod(x)",
    "cumsum": "cumulative_sum(x)",
    "deg2rad": "x * (pi / 180)",
    "diag": "linalg.diagonal(x) to read one, or x * eye(n) to make one",
    "diagonal": "linalg.diagonal(x)",
    "dot": "matmul(x1, x2), which is x1 @ x2",
    "fabs": "abs(x)",
    "flatnonzero": "nonzero(reshape(x, (-1,)))[0]",
    "fliplr": "flip(x, axis=1)",
    "flipud": "flip(x, axis=0)",
    "fmod": "x - y * trunc(x / y)",
    "hstack": "concat(arrays, axis=1)",
    "identity": "eye(n)",
    "inner": "vecdot(x1, x2)",
    "invert": "bitwise_invert(x)",
    "issubdtype": "isdtype(dtype, kind)",
    "left_shift": "bitwise_left_shift(x1, x2)",
    "mod": "remainder(x1, x2)",
    "nan_to_num": "where(isfinite(x), x, 0)",
    "ndim": "x.ndim",
    "outer": "linalg.outer(x1, x2)",
    "power": "pow(x1, x2)",
    "product": "prod(x)",
    "promote_types": "result_type(x1, x2)",
    "ravel": "reshape(x, (-1,))",
    "right_shift": "bitwise_right_shift(x1, x2)",
    "rint": "round(x)",
    "shape": "x.shape",
    "size": "x.size",
    "swapaxes": "moveaxis(x, source, destination) or permute_dims(x, axes)",
    "trace": "linalg.trace(x)",
    "transpose": "permute_dims(x, axes) or x.T",
    "true_divide": "divide(x1, x2)",
    "unique": "unique_values(x)",
    "vstack": "concat(arrays, axis=0)",
}
"""By NumPy's name, what does the same here."""

LINALG = {
    "cond": "svdvals(x), the first by the last",
    "lstsq": "pinv(x1) @ x2",
    "norm": "vector_norm(x) or matrix_norm(x)",
}
"""The same for `rtx_jax.linalg`."""

METHODS = {
    "argpartition": "argsort(x)",
    "byteswap": "numpy.asarray(x).byteswap()",
    "compress": "x[condition]",
    "data": "numpy.asarray(x).data",
    "fill": "x[...] = value",
    "itemset": "x[key] = value",
    "partition": "x[...] = sort(x)",
    "put": "x[indices] = values",
    "resize": "reshape(x, shape)",
    "sort": "x[...] = sort(x), or sort(x) for a new array",
    "tofile": "save(file, x)",
    "trace": "linalg.trace(x)",
    "view": "x.astype(dtype) for other values, or numpy.asarray(x).view(dtype) for the same bits",
}
"""By the name of NumPy's method or attribute that `Array` does not have, what to write instead."""


def missing(module: str, name: str, instead: dict[str, str], known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module does not have, with what to write instead."""
    return _missing(f"module {module!r}", name, instead, known)


def missing_attribute(name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for an attribute that `Array` does not have, with what to write instead."""
    return _missing("'Array' object", name, METHODS, known)


def _missing(where: str, name: str, instead: dict[str, str], known: Iterable[str]) -> AttributeError:
    text = f"{where} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    if name in instead:
        return AttributeError(f"{text}. Write {instead[name]}.", name=name)
    near = difflib.get_close_matches(name, list(known), 1, 0.8)
    return AttributeError(f"{text}. Did you mean {near[0]}?" if near else text)
