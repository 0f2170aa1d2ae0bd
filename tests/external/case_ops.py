"""Names of rtx_jax for a table of reported problems that is written against an adapter class ``cases.Ops``.

Only what the namespace has is wired: an operation that is missing here does not exist yet, and its case is reported as
not run rather than as passed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType

import numpy as np

import rtx_jax
from rtx_jax import nn, quant


def _table() -> ModuleType:
    """The module of the cases: the main program where it was started itself, so that its exceptions are the same."""
    main = sys.modules["__main__"]
    return main if hasattr(main, "CASES") and hasattr(main, "Ops") else importlib.import_module("cases")


class RtxOps(_table().Ops):
    """The transforms and operations of rtx_jax under the adapter's names."""

    def grad(self, namespace: ModuleType, function: Callable[..., object], argnums: int = 0) -> Callable[..., object]:
        """Gradient of a function of Arrays."""
        return rtx_jax.grad(function, argnums=argnums)

    def jit(self, namespace: ModuleType, function: Callable[..., object], **options: object) -> Callable[..., object]:
        """Compiled function of Arrays."""
        return rtx_jax.jit(function, **options)

    def index_add(
        self, namespace: ModuleType, x: rtx_jax.Array, positions: rtx_jax.Array, values: rtx_jax.Array
    ) -> rtx_jax.Array:
        """Sum of values at positions, of which each counts."""
        return x.at[positions].add(values)

    def conv2d(
        self,
        namespace: ModuleType,
        x: rtx_jax.Array,
        w: rtx_jax.Array,
        stride: tuple[int, int],
        padding: str | tuple[tuple[int, int], tuple[int, int]],
        dilation: tuple[int, int] = (1, 1),
        out_dtype: object = None,
    ) -> rtx_jax.Array:
        """Convolution of images."""
        return nn.conv2d(x, w, stride=stride, padding=padding, dilation=dilation, dtype=out_dtype)

    def conv2d_transpose(
        self,
        namespace: ModuleType,
        x: rtx_jax.Array,
        w: rtx_jax.Array,
        stride: tuple[int, int],
        padding: str | tuple[tuple[int, int], tuple[int, int]],
    ) -> rtx_jax.Array:
        """Transpose of a convolution of images."""
        return nn.conv_transpose2d(x, w, stride=stride, padding=padding)

    def max_pool2d(
        self,
        namespace: ModuleType,
        x: rtx_jax.Array,
        window: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[tuple[int, int], tuple[int, int]],
        ceil_mode: bool = False,
    ) -> rtx_jax.Array:
        """Greatest elements of windows."""
        return nn.max_pool2d(x, window, stride=stride, padding=padding, ceil_mode=ceil_mode)

    def avg_pool2d(
        self,
        namespace: ModuleType,
        x: rtx_jax.Array,
        window: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[tuple[int, int], tuple[int, int]],
        count_include_pad: bool = True,
        ceil_mode: bool = False,
    ) -> rtx_jax.Array:
        """Means of windows."""
        return nn.avg_pool2d(
            x, window, stride=stride, padding=padding, count_include_pad=count_include_pad, ceil_mode=ceil_mode
        )

    def softmax(self, namespace: ModuleType, x: rtx_jax.Array, where: rtx_jax.Array, axis: int = -1) -> rtx_jax.Array:
        """Softmax of some elements along an axis."""
        return nn.softmax(rtx_jax.where(where, x, -rtx_jax.inf), axis=axis)

    def log_softmax(
        self, namespace: ModuleType, x: rtx_jax.Array, where: rtx_jax.Array, axis: int = -1
    ) -> rtx_jax.Array:
        """Logarithm of the softmax of some elements along an axis."""
        return nn.log_softmax(rtx_jax.where(where, x, -rtx_jax.inf), axis=axis)

    def attention(
        self,
        namespace: ModuleType,
        query: rtx_jax.Array,
        key: rtx_jax.Array,
        value: rtx_jax.Array,
        *,
        kv_lengths: rtx_jax.Array | None = None,
        **params: object,
    ) -> object:
        """Attention of (B, T, N, H)."""
        return nn.attention(query, key, value, key_lengths=kv_lengths, **params)

    def attention_lse(self, namespace: ModuleType, *operands: rtx_jax.Array, **params: object) -> object:
        """Attention and the logarithms of its sums."""
        return self.attention(namespace, *operands, return_lse=True, **params)

    def rope(
        self,
        namespace: ModuleType,
        x: rtx_jax.Array,
        positions: rtx_jax.Array,
        *,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: str = "half",
    ) -> rtx_jax.Array:
        """Rotary embedding at positions."""
        width = x.shape[-1] if rotary_dim is None else rotary_dim
        cos, sin = nn.rope_tables(int(rtx_jax.max(positions)) + 1, width, base=base)
        return nn.rope(x, cos, sin, positions=positions, layout=layout, rotary_dim=rotary_dim)

    def layer_norm(self, namespace: ModuleType, x: rtx_jax.Array, eps: float) -> rtx_jax.Array:
        """Layer norm without parameters."""
        return nn.layer_norm(x, eps=eps)

    def rms_norm(self, namespace: ModuleType, x: rtx_jax.Array, eps: float) -> rtx_jax.Array:
        """RMS norm without a weight."""
        return nn.rms_norm(x, eps=eps)

    def quantize(
        self, namespace: ModuleType, x: rtx_jax.Array, bits: int = 8, block: int = 32
    ) -> tuple[rtx_jax.Array, rtx_jax.Array]:
        """Symmetric integers, and the scale of each block along the last axis."""
        q = quant.quantize(x, _symmetric(bits, block))
        return q.data, q.scale

    def dequantize(
        self, namespace: ModuleType, q: rtx_jax.Array, scale: rtx_jax.Array, block: int = 32
    ) -> rtx_jax.Array:
        """The numbers of int8 codes."""
        tensor = quant.QTensor(
            q, scale, None, None, shape=q.shape, scheme=_symmetric(8, block), dtype=np.dtype(np.float32)
        )
        return quant.dequantize(tensor)

    def quantize_with_scale(self, namespace: ModuleType, x: rtx_jax.Array, scale: float) -> rtx_jax.Array:
        """Codes of int8 for a scale that is given."""
        return quant.quantize(x, quant.QuantScheme("int8"), scale=scale).data

    def cast_fp8(self, namespace: ModuleType, x: rtx_jax.Array, kind: str) -> rtx_jax.Array:
        """The nearest 8-bit floats."""
        return quant.quantize(x, quant.QuantScheme(f"fp8_{kind}"), scale=1.0).data

    def quant_matmul(self, namespace: ModuleType, a: rtx_jax.Array, b: rtx_jax.Array) -> rtx_jax.Array:
        """Product of int8 matrices."""
        return quant.integer_matmul(a, b)


def _symmetric(bits: int, block: int) -> quant.QuantScheme:
    return quant.QuantScheme(f"int{bits}", quant.PerBlock((block,)))


def ops() -> RtxOps:
    """The adapter that the table asks for."""
    return RtxOps()
