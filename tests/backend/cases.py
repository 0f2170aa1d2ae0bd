"""One table of what every backend must do: operands, a call, and the right result by a formula in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special

from rtx_jax.backend.reference import FUNCTIONS as reference

INF, NAN = math.inf, math.nan
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -7.0, 30.0, -30.0, 300.0, -300.0, INF, -INF, NAN])


@dataclass(frozen=True)
class Case:
    """One call.

    `operands` are float64 values (rounded to the tested dtype first; integers and bools stay), `call` takes the
    backend and tensors, and `expected` the rounded operands in float64. `ulp` bounds the error in units of the dtype's
    spacing at the expected value or at `scale`, whichever is more.
    """

    id: str
    operands: Sequence[np.ndarray]
    call: Callable[..., object]
    expected: Callable[..., object]
    ulp: float = 2.0
    scale: float = 1e-6


def _r(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def _quiet(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def call(*args: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return function(*args)

    return call


def _by_reference(name: str, **params: object) -> Callable[..., object]:
    """The reference's function on float64 operands; it is checked against SciPy and torch by its own tests."""

    def call(*operands: np.ndarray) -> object:
        return reference[name](*operands, **params)

    return call


def _where_positive(x: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, below)


def _silu(x: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(x), -0.0, x * scipy.special.expit(x))


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(x), -0.0, np.where(np.isposinf(x), x, x * scipy.special.ndtr(x)))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    y = x * scipy.special.expit(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))
    return np.where(np.isneginf(x), -0.0, np.where(np.isposinf(x), x, y))


def _mish(x: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(x), -0.0, x * np.tanh(np.logaddexp(0, x)))


X = np.concatenate([SPECIAL, _r(6)])
A, BB = _r(3, 4, seed=1), _r(3, 4, seed=2)
PAIRS = np.meshgrid(SPECIAL, SPECIAL)

_UNARY: dict[str, tuple[Callable[..., np.ndarray], float]] = {
    "neg": (lambda x: -x, 0),
    "abs": (np.abs, 0),
    "exp": (np.exp, 2),
    "log": (np.log, 2),
    "sqrt": (np.sqrt, 1),
    "relu": (lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)), 0),
    "sigmoid": (scipy.special.expit, 4),
    "tanh": (np.tanh, 8),
    "silu": (_silu, 6),
    "mish": (_mish, 12),
    "gelu": (_gelu, 12),
    "hard_sigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, 2),
    "selu": (lambda x: 1.0507009873554805 * _where_positive(x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))), 4),
}

ELEMENTWISE = [
    Case(name, [X], lambda B, x, name=name: getattr(B, name)(x), _quiet(fn), ulp) for name, (fn, ulp) in _UNARY.items()
]
ELEMENTWISE += [
    Case("sin", [np.append(_r(20, high=30.0), [0.0, -0.0, NAN])], lambda B, x: B.sin(x), np.sin, 3),
    Case("cos", [np.append(_r(20, high=30.0), [0.0, NAN])], lambda B, x: B.cos(x), np.cos, 3, 0.2),
    *(
        Case(f"{name} of special values", PAIRS, lambda B, x, y, name=name: getattr(B, name)(x, y), _quiet(fn), 1)
        for name, fn in {
            "add": np.add,
            "sub": np.subtract,
            "mul": np.multiply,
            "div": np.divide,
            "maximum": np.maximum,
            "minimum": np.minimum,
        }.items()
    ),
    Case("add broadcasts", [_r(3, 1, 4), _r(2, 1, seed=1)], lambda B, x, y: B.add(x, y), np.add, 1),
    Case("mul of 0-d and matrix", [_r(), A], lambda B, x, y: B.mul(x, y), np.multiply, 1),
    Case("sub of nothing", [_r(0, 3), _r(3)], lambda B, x, y: B.sub(x, y), np.subtract),
    *(
        Case(
            f"pow {p:.3g}",
            [X],
            lambda B, x, p=p: B.pow(x, p),
            _quiet(lambda x, p=p: np.power(x, np.full(x.shape, p))),
            4,
        )
        for p in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 1 / 3)
    ),
    Case("clamp", [X], lambda B, x: B.clamp(x, -1.0, 2.0), lambda x: np.clip(x, -1, 2), 0),
    Case("clamp crossed", [X], lambda B, x: B.clamp(x, 2.0, -1.0), lambda x: np.where(np.isnan(x), x, -1.0), 0),
    Case("clamp to infinity", [X], lambda B, x: B.clamp(x, -INF, 1.0), lambda x: np.minimum(x, 1), 0),
    Case("gt_scalar", [X], lambda B, x: B.gt_scalar(x, 1.0), lambda x: (x > 1).astype(float), 0),
    Case("gt_scalar of NaN", [X], lambda B, x: B.gt_scalar(x, NAN), lambda x: np.zeros(x.shape), 0),
    *(
        Case(
            f"leaky_relu {s}",
            [X],
            lambda B, x, s=s: B.leaky_relu(x, s),
            _quiet(lambda x, s=s: np.maximum(s * x if s else 0 * np.nan_to_num(x, posinf=0, neginf=0), x)),
            1,
        )
        for s in (0.0, 0.01, 1.0, 2.0, -1.0)
    ),
    Case(
        "elu",
        [X],
        lambda B, x: B.elu(x, 0.5),
        _quiet(lambda x: _where_positive(x, 0.5 * np.expm1(np.minimum(x, 0)))),
        4,
    ),
    Case(
        "celu",
        [X],
        lambda B, x: B.celu(x, 0.5),
        _quiet(lambda x: _where_positive(x, 0.5 * np.expm1(np.minimum(x, 0) / 0.5))),
        4,
    ),
    Case(
        "celu of negative alpha",
        [_r(6)],
        lambda B, x: B.celu(x, -0.5),
        lambda x: _where_positive(x, -0.5 * np.expm1(x / -0.5)),
        4,
    ),
    Case("gelu by tanh", [X], lambda B, x: B.gelu(x, approximate="tanh"), _quiet(_gelu_tanh), 12, 1e-3),
    Case("softplus", [X], lambda B, x: B.softplus(x), _quiet(lambda x: np.where(x > 20, x, np.logaddexp(0, x))), 4),
    Case(
        "softplus of beta and threshold",
        [X],
        lambda B, x: B.softplus(x, beta=2.0, threshold=1.0),
        _quiet(lambda x: np.where(2 * x > 1, x, np.logaddexp(0, 2 * x) / 2)),
        4,
    ),
    Case(
        "prelu of channels",
        [_r(2, 3, 4), _r(3, seed=3)],
        lambda B, x, w: B.prelu(x, w),
        lambda x, w: np.where(x > 0, x, w[:, None] * x),
    ),
    Case(
        "prelu of one slope",
        [A, np.array([0.25])],
        lambda B, x, w: B.prelu(x, w),
        lambda x, w: np.where(x > 0, x, w * x),
    ),
    Case("silu_mul", [A, BB], lambda B, x, y: B.silu_mul(x, y), lambda x, y: _silu(x) * y, 8),
    Case("glu", [A], lambda B, x: B.glu(x), lambda x: x[:, :2] * scipy.special.expit(x[:, 2:]), 8),
    Case("swiglu of axis 0", [_r(4, 3)], lambda B, x: B.swiglu(x, 0), lambda x: _silu(x[:2]) * x[2:], 8),
    Case("softmax", [A], lambda B, x: B.softmax(x, 1), lambda x: scipy.special.softmax(x, 1), 8),
    Case("softmax of axis 0", [A], lambda B, x: B.softmax(x, 0), lambda x: scipy.special.softmax(x, 0), 8),
    Case(
        "softmax far out",
        [np.array([[1e4, 0.0, -1e4], [-INF, 0.0, -INF], [-INF, -INF, -INF]])],
        lambda B, x: B.softmax(x, 1),
        lambda x: np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [NAN, NAN, NAN]]),
        0,
    ),
    Case("softmax of nothing", [_r(2, 0)], lambda B, x: B.softmax(x, 1), lambda x: x),
    Case("log_softmax", [4 * A], lambda B, x: B.log_softmax(x, 1), lambda x: scipy.special.log_softmax(x, 1), 8, 1.0),
]

_NAN_ROW = np.array([[1.0, NAN, 2.0], [-0.0, 0.0, -0.0], [INF, 1.0, INF], [-INF, 3.0, 3.0]])


def _var(x: np.ndarray, correction: float, axis: int | None = None) -> np.ndarray:
    n = x.size if axis is None else x.shape[axis]
    if n - correction <= 0:
        return np.full(1, NAN)
    rest = x - x.mean(axis=axis, keepdims=True)
    total = (rest**2).sum(axis=axis, keepdims=True) / (n - correction)
    return total.reshape(1) if axis is None else total


REDUCTIONS = [
    Case("sum", [A], lambda B, x: B.sum(x), lambda x: x.sum(keepdims=True).reshape(1), 4, 4.0),
    Case("sum of nothing", [_r(0, 3)], lambda B, x: B.sum(x), lambda x: np.zeros(1)),
    Case("sum of 0-d", [_r()], lambda B, x: B.sum(x), lambda x: x.reshape(1)),
    Case("sum_dim 0", [A], lambda B, x: B.sum_dim(x, 0), lambda x: x.sum(0, keepdims=True), 4, 4.0),
    Case("sum_dim 1 of nothing", [_r(3, 0)], lambda B, x: B.sum_dim(x, 1), lambda x: np.zeros((3, 1))),
    Case("sum of many", [np.ones(4096)], lambda B, x: B.sum(x), lambda x: np.array([4096.0]), 0),
    Case("mean", [A], lambda B, x: B.mean(x), lambda x: x.mean().reshape(1), 4, 1.0),
    Case("mean of nothing", [_r(0)], lambda B, x: B.mean(x), lambda x: np.array([NAN])),
    Case("mean of large values", [np.full(4, 60000.0)], lambda B, x: B.mean(x), lambda x: x[:1], 0),
    Case("mean_dim", [A], lambda B, x: B.mean_dim(x, 1), lambda x: x.mean(1, keepdims=True), 4, 1.0),
    Case("var", [A], lambda B, x: B.var(x), lambda x: _var(x, 0), 8),
    Case("var of a large mean", [1e4 + 8 * np.arange(8.0)], lambda B, x: B.var(x), lambda x: _var(x, 0), 8),
    Case("var of equal values", [np.full(5, 3.0)], lambda B, x: B.var(x), lambda x: np.zeros(1), 0),
    Case("var of one value corrected", [np.ones(1)], lambda B, x: B.var(x, correction=1), lambda x: np.array([NAN])),
    Case("var_dim corrected", [A], lambda B, x: B.var_dim(x, 1, correction=1.0), lambda x: _var(x, 1, 1), 8),
    Case("max", [A], lambda B, x: B.max(x), lambda x: x.max().reshape(1), 0),
    Case("min", [A], lambda B, x: B.min(x), lambda x: x.min().reshape(1), 0),
    Case("max_dim", [_NAN_ROW], lambda B, x: B.max_dim(x, 1), lambda x: np.array([[NAN], [0.0], [INF], [3.0]]), 0),
    Case("min_dim", [_NAN_ROW], lambda B, x: B.min_dim(x, 1), lambda x: np.array([[NAN], [0.0], [1.0], [-INF]]), 0),
]

SHAPES = [
    Case("reshape", [A], lambda B, x: B.reshape(x, (2, -1)), lambda x: x.reshape(2, 6), 0),
    Case("reshape to 0-d", [_r(1, 1)], lambda B, x: B.reshape(x, ()), lambda x: x.reshape(()), 0),
    Case("reshape of nothing", [_r(0, 3)], lambda B, x: B.reshape(x, (5, 0)), lambda x: x.reshape(5, 0), 0),
    Case("permute", [_r(2, 3, 4)], lambda B, x: B.permute(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1), 0),
    Case("transpose", [_r(2, 3, 4)], lambda B, x: B.transpose(x), lambda x: x.swapaxes(-1, -2), 0),
    Case("swap_dims", [_r(2, 3, 4)], lambda B, x: B.swap_dims(x, 0, 2), lambda x: x.swapaxes(0, 2), 0),
    Case("swap_dims of one", [A], lambda B, x: B.swap_dims(x, 1, 1), lambda x: x, 0),
    Case("matmul", [A, _r(4, 5)], lambda B, x, y: B.matmul(x, y), np.matmul, 2, 4.0),
    Case("matmul of nothing", [_r(3, 0), _r(0, 2)], lambda B, x, y: B.matmul(x, y), lambda x, y: np.zeros((3, 2)), 0),
    Case("matmul of vectors", [_r(1, 4), _r(4, 1)], lambda B, x, y: B.matmul(x, y), np.matmul, 2, 4.0),
    Case("bmm", [_r(2, 3, 4), _r(2, 4, 2)], lambda B, x, y: B.bmm(x, y), np.matmul, 2, 4.0),
    Case("bmm of no matrix", [_r(0, 3, 4), _r(0, 4, 2)], lambda B, x, y: B.bmm(x, y), np.matmul, 0),
    Case("linear", [A, _r(5, 4), _r(5)], lambda B, x, w, b: B.linear(x, w, b), lambda x, w, b: x @ w.T + b, 2, 4.0),
    Case("linear of rank 3", [_r(2, 3, 4), _r(5, 4)], lambda B, x, w: B.linear(x, w), lambda x, w: x @ w.T, 2, 4.0),
]

ROWS = [
    Case("index_select", [A], lambda B, x: B.index_select(x, [2, 0, 2, 2]), lambda x: x[[2, 0, 2, 2]], 0),
    Case("index_select of a range", [A], lambda B, x: B.index_select(x, range(2)), lambda x: x[:2], 0),
    Case("index_select of nothing", [A], lambda B, x: B.index_select(x, []), lambda x: x[:0], 0),
    Case(
        "index_select by tensor",
        [A, np.array([1, 1])],
        lambda B, x, i: B.index_select(x, i),
        lambda x, i: x[i.astype(int)],
        0,
    ),
    Case("index_select clipped", [A], lambda B, x: B.index_select(x, [-1, 7], mode="clip"), lambda x: x[[0, 2]], 0),
    Case(
        "index_select filled",
        [A],
        lambda B, x: B.index_select(x, [1, 7], mode="fill"),
        lambda x: np.stack([x[1], np.full(4, NAN)]),
        0,
    ),
    Case(
        "index_add",
        [A],
        lambda B, x: B.index_add(x, [1, 1, 3], 5),
        lambda x: np.stack([0 * x[0], x[0] + x[1], 0 * x[0], x[2], 0 * x[0]]),
        1,
        2.0,
    ),
    Case(
        "index_add of a thousand ones",
        [np.ones((1000, 1))],
        lambda B, x: B.index_add(x, [0] * 1000, 1),
        lambda x: np.array([[1000.0]]),
        0,
    ),
    Case(
        "index_add in order",
        [A],
        lambda B, x: B.index_add(x, [0, 0, 0], 1, deterministic=True),
        lambda x: x.sum(0, keepdims=True),
        2,
        2.0,
    ),
    Case("index_add of nothing", [_r(0, 2)], lambda B, x: B.index_add(x, [], 2), lambda x: np.zeros((2, 2)), 0),
    Case("index_add to nothing", [_r(0, 2)], lambda B, x: B.index_add(x, [], 0), lambda x: np.zeros((0, 2)), 0),
    Case("index_add dropped", [A], lambda B, x: B.index_add(x, [0, 9, -1], 1, mode="fill"), lambda x: x[:1], 0),
    Case("embedding", [A], lambda B, x: B.embedding(np.array([[0, 2], [1, 1]]), x), lambda x: x[[[0, 2], [1, 1]]], 0),
]

_IMAGE, _KERNEL = _r(2, 4, 7, 6, seed=5), _r(6, 2, 3, 2, seed=6)
_Q, _K, _V = _r(2, 4, 3, 8, seed=7), _r(2, 2, 5, 8, seed=8), _r(2, 2, 5, 6, seed=9)
_MASK = np.random.default_rng(3).random((2, 1, 3, 5)) > 0.4


def _attention(**params: object) -> Callable[..., object]:
    def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, *rest: np.ndarray) -> object:
        return reference["attention"](q, k, v, *rest, layout="BNTH", **params)

    return expected


def _angles(s: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    angles = np.arange(s)[:, None] * 10.0 ** (-np.arange(0, d, 2) / d)
    return np.cos(angles), np.sin(angles)


def _rope_half(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def _rope_interleaved(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * (cos + 1j * sin)
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


NETWORKS = [
    Case(
        "layer_norm",
        [_r(3, 8), _r(8), _r(8, seed=1)],
        lambda B, x, w, b: B.layer_norm(x, w, b),
        lambda x, w, b: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b,
        4,
        2.0,
    ),
    Case(
        "layer_norm of a large mean",
        [1e4 + 8 * np.arange(16.0)[None]],
        lambda B, x: B.layer_norm(x),
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
        8,
        1.0,
    ),
    Case(
        "rms_norm",
        [_r(3, 8), _r(8)],
        lambda B, x, w: B.rms_norm(x, w),
        lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w,
        4,
        1.0,
    ),
    Case(
        "rms_norm of large values",
        [np.full((1, 512), 300.0)],
        lambda B, x: B.rms_norm(x),
        lambda x: x / np.sqrt(9e4 + 1e-6),
        2,
    ),
    Case("rms_norm of zeros", [np.zeros((2, 4))], lambda B, x: B.rms_norm(x), lambda x: x, 0),
    Case(
        "group_norm",
        [_r(2, 4, 5), _r(4), _r(4)],
        lambda B, x, w, b: B.group_norm(x, 2, w, b),
        _by_reference("group_norm", num_groups=2, eps=1e-5),
        4,
        2.0,
    ),
    Case(
        "instance_norm",
        [_r(2, 4, 5)],
        lambda B, x: B.instance_norm(x),
        _by_reference("instance_norm", eps=1e-5),
        4,
        2.0,
    ),
    Case(
        "batch_norm",
        [_r(2, 4, 5), _r(4), _r(4, low=0.5), _r(4), _r(4)],
        lambda B, *xs: B.batch_norm(*xs),
        lambda x, m, v, w, b: (x - m[:, None]) / np.sqrt(v[:, None] + 1e-5) * w[:, None] + b[:, None],
        4,
        2.0,
    ),
    Case("rope", [_r(2, 5, 8), *_angles(5, 8)], lambda B, *xs: B.rope(*xs), _rope_half, 3, 2.0),
    Case(
        "rope interleaved",
        [_r(2, 5, 8), *_angles(5, 8)],
        lambda B, *xs: B.rope(*xs, layout="interleaved"),
        _rope_interleaved,
        3,
        2.0,
    ),
    Case(
        "rope of two channels at positions",
        [_r(2, 2, 6), *_angles(7, 4)],
        lambda B, x, c, s: B.rope(x, c, s, positions=B.from_data([6, 1], (2,)), rotary_dim=4),
        lambda x, c, s: np.concatenate([_rope_half(x[..., :4], c[[6, 1]], s[[6, 1]]), x[..., 4:]], -1),
        3,
        2.0,
    ),
    Case(
        "flash_attention", [_Q, _K, _V], lambda B, *xs: B.flash_attention(*xs, scale=0.3), _attention(scale=0.3), 4, 2.0
    ),
    Case(
        "flash_attention causal",
        [_Q, _K, _V],
        lambda B, *xs: B.flash_attention(*xs, scale=0.3, causal=True),
        _attention(scale=0.3, causal=True),
        4,
        2.0,
    ),
    Case(
        "flash_attention masked",
        [_Q, _K, _V, _MASK],
        lambda B, *xs: B.flash_attention(*xs, scale=0.3),
        _attention(scale=0.3),
        4,
        2.0,
    ),
    Case(
        "flash_attention window and softcap",
        [_Q, _K, _V],
        lambda B, *xs: B.flash_attention(*xs, scale=1.0, window=(1, 1), softcap=2.0, q_offset=1),
        lambda q, k, v: reference["attention"](
            q, k, v, *[None] * 7, np.array(1), layout="BNTH", scale=1.0, window=(1, 1), softcap=2.0
        ),
        4,
        2.0,
    ),
    Case(
        "flash_attention without keys",
        [_Q, _r(2, 2, 0, 8), _r(2, 2, 0, 6)],
        lambda B, *xs: B.flash_attention(*xs, scale=1.0),
        lambda q, k, v: np.zeros((2, 4, 3, 6)),
        0,
    ),
    Case(
        "conv2d",
        [_IMAGE, _KERNEL, _r(6)],
        lambda B, *xs: B.conv2d(*xs, (2, 1), (1, 2), (1, 2), 2),
        _by_reference("conv2d", stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        2,
        8.0,
    ),
    Case(
        "conv2d of one pixel",
        [_r(1, 3, 2, 2), _r(2, 3, 1, 1)],
        lambda B, *xs: B.conv2d(*xs),
        lambda x, w: np.einsum("bchw,oc->bohw", x, w[:, :, 0, 0]),
        2,
        8.0,
    ),
    Case(
        "conv1d",
        [_r(2, 4, 9), _r(6, 2, 3), _r(6)],
        lambda B, *xs: B.conv1d(*xs, 2, "same", 1, 2),
        _by_reference("conv1d", stride=2, padding="same", groups=2),
        2,
        8.0,
    ),
    Case(
        "conv3d",
        [_r(1, 2, 4, 3, 3), _r(2, 2, 2, 2, 1)],
        lambda B, *xs: B.conv3d(*xs, padding=1),
        _by_reference("conv3d", padding=1),
        2,
        8.0,
    ),
    Case(
        "conv_transpose1d",
        [_r(1, 2, 4), _r(2, 3, 3)],
        lambda B, *xs: B.conv_transpose1d(*xs, stride=2),
        _by_reference("conv_transpose1d", stride=2),
        2,
        8.0,
    ),
    Case(
        "conv_transpose2d",
        [_r(1, 4, 3, 3), _r(4, 1, 3, 2), _r(2)],
        lambda B, *xs: B.conv_transpose2d(*xs, stride=2, padding=1, output_padding=1, groups=2),
        _by_reference("conv_transpose2d", stride=2, padding=1, output_padding=1, groups=2),
        2,
        8.0,
    ),
    Case(
        "conv_transpose2d same",
        [_r(1, 1, 3, 3), _r(1, 1, 3, 3)],
        lambda B, *xs: B.conv_transpose2d(*xs, stride=2, padding="same"),
        _by_reference("conv_transpose2d", stride=2, padding="same"),
        2,
        8.0,
    ),
    Case(
        "conv_transpose3d",
        [_r(1, 1, 2, 2, 2), _r(1, 2, 2, 2, 2)],
        lambda B, *xs: B.conv_transpose3d(*xs),
        _by_reference("conv_transpose3d"),
        2,
        8.0,
    ),
    Case(
        "max_pool2d",
        [np.where(_IMAGE > 1.9, NAN, _IMAGE)],
        lambda B, x: B.max_pool2d(x, (3, 2), 2, (1, 1)),
        _by_reference("max_pool2d", kernel_size=(3, 2), stride=2, padding=1),
        0,
    ),
    Case(
        "max_pool2d of -inf",
        [np.full((1, 1, 2, 2), -INF)],
        lambda B, x: B.max_pool2d(x, 2),
        lambda x: x[:, :, :1, :1],
        0,
    ),
    Case(
        "max_pool1d rounded up",
        [_r(2, 3, 6)],
        lambda B, x: B.max_pool1d(x, 3, 2, dilation=1, ceil_mode=True),
        _by_reference("max_pool1d", kernel_size=3, stride=2, ceil_mode=True),
        0,
    ),
    Case(
        "max_pool3d dilated",
        [_r(1, 1, 5, 5, 5)],
        lambda B, x: B.max_pool3d(x, 2, 1, dilation=2),
        _by_reference("max_pool3d", kernel_size=2, stride=1, dilation=2),
        0,
    ),
    Case(
        "avg_pool2d with padding",
        [np.array([[[[1.0, 2.0], [3.0, 4.0]]]])],
        lambda B, x: B.avg_pool2d(x, 2, 1, ((0, 1), (0, 1))),
        lambda x: np.array([[[[2.5, 1.5], [1.75, 1.0]]]]),
        0,
    ),
    Case(
        "avg_pool2d without padding",
        [np.array([[[[1.0, 2.0], [3.0, 4.0]]]])],
        lambda B, x: B.avg_pool2d(x, 2, 1, ((0, 1), (0, 1)), count_include_pad=False),
        lambda x: np.array([[[[2.5, 3.0], [3.5, 4.0]]]]),
        0,
    ),
    Case(
        "avg_pool2d rounded up",
        [np.ones((1, 1, 5, 5))],
        lambda B, x: B.avg_pool2d(x, 3, 3, 1, ceil_mode=True, count_include_pad=False),
        lambda x: np.ones((1, 1, 2, 2)),
        0,
    ),
    Case(
        "avg_pool1d", [_r(2, 3, 6)], lambda B, x: B.avg_pool1d(x, 2), lambda x: x.reshape(2, 3, 3, 2).mean(-1), 2, 1.0
    ),
    Case(
        "avg_pool3d",
        [_r(1, 2, 2, 4, 2)],
        lambda B, x: B.avg_pool3d(x, 2),
        lambda x: x.reshape(1, 2, 1, 2, 2, 2, 1, 2).mean((3, 5, 7)),
        2,
        1.0,
    ),
    *(
        Case(
            f"adaptive_{kind}_pool{n}d",
            [_r(1, 2, *(5, 4, 3)[:n])],
            lambda B, x, name=f"adaptive_{kind}_pool{n}d", n=n: getattr(B, name)(x, (2, None, 1)[:n]),
            _by_reference(f"adaptive_{kind}_pool{n}d", output_size=(2, None, 1)[:n]),
            2,
            1.0,
        )
        for kind in ("avg", "max")
        for n in (1, 2, 3)
    ),
    Case(
        "interpolate",
        [_r(1, 2, 3, 4)],
        lambda B, x: B.interpolate(x, scale_factor=2.0),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        0,
    ),
    Case(
        "interpolate bilinear",
        [_r(1, 2, 3, 4)],
        lambda B, x: B.interpolate(x, (5, 7), mode="bilinear", align_corners=True),
        _by_reference("interpolate", size=(5, 7), mode="bilinear", align_corners=True),
        2,
        1.0,
    ),
    Case(
        "unfold",
        [_r(1, 2, 4, 5)],
        lambda B, x: B.unfold(x, (2, 3), 1, 1, 2),
        _by_reference("unfold", kernel_size=(2, 3), padding=1, stride=2),
        0,
    ),
    Case(
        "fold",
        [_r(1, 8, 4)],
        lambda B, x: B.fold(x, (4, 5), 2, stride=2),
        _by_reference("fold", output_size=(4, 5), kernel_size=2, stride=2),
        2,
        4.0,
    ),
    Case(
        "fold of overlapping blocks",
        [_r(1, 8, 12)],
        lambda B, x: B.fold(x, (3, 4), 2, padding=((0, 1), (0, 1))),
        _by_reference("fold", output_size=(3, 4), kernel_size=2, padding=((0, 1), (0, 1))),
        2,
        4.0,
    ),
]

CASES = ELEMENTWISE + REDUCTIONS + SHAPES + ROWS + NETWORKS
