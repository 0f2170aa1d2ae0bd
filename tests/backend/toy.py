"""A third party's backend: a name and the primitives, nothing else."""

from __future__ import annotations

import numpy as np

from rtx_jax.backend import Backend, Device


class ToyTensor:
    """A tensor that has nothing but its shape and its dtype."""

    __slots__ = ("values",)

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.asarray(values)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return self.values.ndim


def _quiet(function):
    """Make a function of arrays one of tensors, silent about infinities."""

    def primitive(*operands: ToyTensor, **params: object) -> ToyTensor:
        with np.errstate(all="ignore"):
            return ToyTensor(function(*(x.values if isinstance(x, ToyTensor) else x for x in operands), **params))

    return primitive


def _single(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype.kind not in "iu" and x.dtype.itemsize < 4 else x


def _index_select(x: np.ndarray, indices: np.ndarray, *, mode: str) -> np.ndarray:
    if mode == "error":
        return x[indices]
    inside = (indices >= 0) & (indices < len(x))
    rows = x[np.clip(indices, 0, len(x) - 1)]
    if mode == "fill":
        missing = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else np.nan
        rows = np.where(inside.reshape(-1, *(1,) * (x.ndim - 1)), rows, np.asarray(missing, x.dtype))
    return rows


def _index_add(x: np.ndarray, indices: np.ndarray, *, num_rows: int, deterministic: bool, mode: str) -> np.ndarray:
    if mode == "clip":
        indices = np.clip(indices, 0, num_rows - 1)
    elif mode == "fill":
        inside = (indices >= 0) & (indices < num_rows)
        x, indices = x[inside], indices[inside]
    out = np.zeros((num_rows, *x.shape[1:]), _single(x).dtype)
    np.add.at(out, indices, _single(x))
    return out.astype(x.dtype)


def _conv2d(x, weight, bias=None, *, stride, padding, dilation, groups, dtype, precision):
    image = x if x.ndim == 4 else x[None]
    common = np.promote_types(image.dtype, weight.dtype) if dtype is None else np.dtype(dtype)
    image, kernel = _single(image.astype(common)), _single(weight.astype(common))
    image = np.pad(image, ((0, 0), (0, 0), *padding))
    kh, kw = ((k - 1) * d + 1 for k, d in zip(kernel.shape[2:], dilation, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(image, (kh, kw), axis=(2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    b, c, oh, ow = windows.shape[:4]
    windows = windows.reshape(b, groups, c // groups, oh, ow, *kernel.shape[2:])
    kernel = kernel.reshape(groups, -1, *kernel.shape[1:])
    out = np.einsum("bgchwij,gocij->bgohw", windows, kernel).reshape(b, -1, oh, ow)
    if bias is not None:
        out = out + bias.astype(out.dtype)[:, None, None]
    return (out if x.ndim == 4 else out[0]).astype(common)


def _pow(x: np.ndarray, *, exp: float) -> np.ndarray:
    return np.power(_single(x), np.full(x.shape, exp, _single(x).dtype)).astype(x.dtype)


class ToyBackend(Backend[ToyTensor]):
    """The primitives of `rtx_jax.backend.PRIMITIVES`, in NumPy."""

    functions = {
        "from_data": lambda array, device: ToyTensor(array),
        "to_data": lambda x: x.values,
        "device": lambda x: Device("toy", 0),
        "to_device": lambda x, device: x,
        "sync": lambda device: None,
        "full": lambda *, shape, value, dtype, device: ToyTensor(np.full(shape, value, dtype)),
        "add": _quiet(np.add),
        "mul": _quiet(np.multiply),
        "div": _quiet(np.divide),
        "exp": _quiet(lambda x: np.exp(_single(x)).astype(x.dtype)),
        "log": _quiet(lambda x: np.log(_single(x)).astype(x.dtype)),
        "sin": _quiet(lambda x: np.sin(_single(x)).astype(x.dtype)),
        "pow": _quiet(_pow),
        "maximum": _quiet(np.maximum),
        "gt_scalar": _quiet(
            lambda x, *, v: (x > np.asarray(v, None if x.dtype.kind in "iu" else x.dtype)).astype(x.dtype)
        ),
        "sum_dim": _quiet(lambda x, *, dim: np.sum(x, axis=dim, keepdims=True, dtype=_single(x).dtype).astype(x.dtype)),
        "max_dim": _quiet(lambda x, *, dim: np.max(x, axis=dim, keepdims=True)),
        "matmul": _quiet(lambda lhs, rhs, *, precision: _product(lhs, rhs)),
        "reshape": _quiet(lambda x, *, shape: np.reshape(x, shape)),
        "permute": _quiet(lambda x, *, dims: np.transpose(x, dims)),
        "index_select": _quiet(_index_select),
        "index_add": _quiet(_index_add),
        "conv2d": _quiet(_conv2d),
    }

    def name(self) -> str:
        return "toy"


def _product(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return (_single(lhs) @ _single(rhs)).astype(np.promote_types(lhs.dtype, rhs.dtype))
