"""Compare the NumPy reference with PyTorch on the CPU, in float64.

``python tests/external/compare_reference_with_torch.py``, by hand, with ``torch`` installed. Prints the greatest
difference of each operation, relative to values above 1, and ends with 1 where one is above its bound: 1e-14, and
1e-11 for the norms of values around 1e4, whose mean PyTorch rounds once more.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F

from rtx_jax.backend.reference import FUNCTIONS as R

BOUND = 1e-14
BOUNDS = dict.fromkeys(("layer_norm", "group_norm", "instance_norm", "batch_norm training"), 1e-11)
Case = tuple[str, np.ndarray, torch.Tensor]

rng = np.random.default_rng(20)


def array(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def t(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))


def activations() -> Iterator[Case]:
    special = np.array([0.0, -0.0, 1e-300, -1e-8, 3.0, -3.0, 20.5, 700.0, -700.0, 1e4, -1e4, np.nan])
    x = np.concatenate([array(200) * 4, special])
    inf = np.concatenate([x, [np.inf]])
    for name in ("relu", "selu", "tanh", "sigmoid", "silu", "mish"):
        yield name, R[name](inf), getattr(F if hasattr(F, name) else torch, name)(t(inf))
    yield "hard_sigmoid", R["hard_sigmoid"](inf), F.hardsigmoid(t(inf))
    for alpha in (1.0, 0.3, 2.0):
        yield "elu", R["elu"](inf, alpha=alpha), F.elu(t(inf), alpha)
        yield "celu", R["celu"](inf, alpha=alpha), F.celu(t(inf), alpha)
    for slope in (0.0, 0.01, 0.5, 1.0):
        yield "leaky_relu", R["leaky_relu"](x, negative_slope=slope), F.leaky_relu(t(x), slope)
    for beta, threshold in ((1.0, 20.0), (0.5, 20.0), (2.0, 3.0)):
        got = R["softplus"](inf, beta=beta, threshold=threshold)
        yield "softplus", got, F.softplus(t(inf), beta, threshold)
    yield "gelu", R["gelu"](x), F.gelu(t(x))
    yield "gelu tanh", R["gelu"](x, approximate="tanh"), F.gelu(t(x), approximate="tanh")
    y, weight = array(2, 4, 6), array(4)
    yield "prelu", R["prelu"](y, weight), F.prelu(t(y), t(weight))
    for dim in (0, 1, 2, -1):
        yield "glu", R["glu"](y, dim=dim), F.glu(t(y), dim)
        yield "softmax", R["softmax"](y * 50, dim=dim), F.softmax(t(y * 50), dim)
        yield "log_softmax", R["log_softmax"](y * 50, dim=dim), F.log_softmax(t(y * 50), dim)
    first, second = t(y).chunk(2, 1)
    yield "swiglu", R["swiglu"](y, dim=1), F.silu(first) * second
    yield "silu_mul", R["silu_mul"](y, y[::-1]), F.silu(t(y)) * t(y[::-1])


def norms() -> Iterator[Case]:
    for shape, offset in (((3, 6), 0.0), ((2, 6, 5), 1e4), ((2, 6, 3, 4), -7.0)):
        x = array(*shape) + offset
        last, weight, bias = shape[-1], array(shape[1]), array(shape[1])
        w, b = array(last), array(last)
        for pair in ((w, b), (w, None), (None, None)):
            torch_pair = [None if p is None else t(p) for p in pair]
            yield "layer_norm", R["layer_norm"](x, *pair), F.layer_norm(t(x), (last,), *torch_pair)
        yield "rms_norm", R["rms_norm"](x, w), F.rms_norm(t(x), (last,), t(w), eps=1e-6)
        for groups in (1, 2, 3, 6):
            got = R["group_norm"](x, weight, bias, num_groups=groups)
            if len(shape) > 2 or groups < 6:  # PyTorch refuses a group of one value
                yield "group_norm", got, F.group_norm(t(x), groups, t(weight), t(bias))
        if len(shape) > 2:
            want = F.instance_norm(t(x), weight=t(weight), bias=t(bias))
            yield "instance_norm", R["instance_norm"](x, weight, bias), want
        mean, var = array(shape[1]), rng.random(shape[1]) + 0.5
        want = F.batch_norm(t(x), t(mean), t(var), t(weight), t(bias))
        yield "batch_norm", R["batch_norm"](x, mean, var, weight, bias), want
        running_mean, running_var = t(mean.copy()), t(var.copy())
        want = F.batch_norm(t(x), running_mean, running_var, t(weight), t(bias), training=True, momentum=0.3)
        got = R["batch_norm"](x, mean, var, weight, bias, training=True, momentum=0.3)
        yield from zip(["batch_norm training"] * 3, got, (want, running_mean, running_var), strict=True)


def linears() -> Iterator[Case]:
    x, weight, bias, table = array(3, 4, 5), array(6, 5), array(6), array(7, 3)
    yield "linear", R["linear"](x, weight, bias), F.linear(t(x), t(weight), t(bias))
    rows = rng.integers(0, 7, (2, 3))
    yield "embedding", R["embedding"](rows, table), F.embedding(t(rows), t(table))


def convolutions() -> Iterator[Case]:
    sizes = {1: (9,), 2: (7, 8), 3: (5, 6, 4)}
    for spatial, stride, padding, dilation, groups in itertools.product((1, 2, 3), (1, 2), (0, 1, 2), (1, 2), (1, 2)):
        x, bias = array(2, 4, *sizes[spatial]), array(6)
        weight = array(6, 4 // groups, *(3, 2, 2)[:spatial])
        got = R[f"conv{spatial}d"](x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
        conv = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
        yield f"conv{spatial}d", got, conv(t(x), t(weight), t(bias), stride, padding, dilation, groups)
        weight = array(4, 6 // groups, *(3, 2, 2)[:spatial])
        for extra in (0, 1) if stride == 2 or dilation == 2 else (0,):
            got = R[f"conv_transpose{spatial}d"](
                x,
                weight,
                bias,
                stride=stride,
                padding=padding,
                output_padding=extra,
                groups=groups,
                dilation=dilation,
            )
            conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[spatial - 1]
            want = conv(t(x), t(weight), t(bias), stride, padding, extra, groups, dilation)
            yield f"conv_transpose{spatial}d", got, want
    x, weight = array(4, 7, 8), array(3, 4, 3, 4)
    yield "conv2d same", R["conv2d"](x, weight, padding="same"), F.conv2d(t(x), t(weight), padding="same")


def pools() -> Iterator[Case]:
    sizes = {1: (11,), 2: (9, 10), 3: (7, 6, 8)}
    for spatial, kernel, stride, padding, ceil in itertools.product(
        (1, 2, 3), (2, 3), (1, 2, 3), (0, 1), (False, True)
    ):
        x = array(2, 3, *sizes[spatial])
        options = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil}
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[spatial - 1]
        for dilation in (1, 2):
            got = R[f"max_pool{spatial}d"](x, dilation=dilation, **options)
            yield f"max_pool{spatial}d", got, pool(t(x), dilation=dilation, **options)
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[spatial - 1]
        for include in (True, False):
            got = R[f"avg_pool{spatial}d"](x, count_include_pad=include, **options)
            yield f"avg_pool{spatial}d", got, pool(t(x), count_include_pad=include, **options)
    for spatial, size in itertools.product((1, 2, 3), (1, 2, 5, 7, 13)):
        x = array(2, 3, *sizes[spatial])
        pool = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[spatial - 1]
        yield f"adaptive_avg_pool{spatial}d", R[f"adaptive_avg_pool{spatial}d"](x, output_size=size), pool(t(x), size)
        pool = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[spatial - 1]
        yield f"adaptive_max_pool{spatial}d", R[f"adaptive_max_pool{spatial}d"](x, output_size=size), pool(t(x), size)


def interpolations() -> Iterator[Case]:
    modes = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}
    have = {1: (7,), 2: (5, 8), 3: (4, 3, 5)}
    for spatial in (1, 2, 3):
        x = array(2, 3, *have[spatial])
        for mode in ("nearest", "nearest-exact", "area", *modes[spatial]):
            aligned = (False, True) if mode in modes[spatial] else (None,)
            for size, align in itertools.product((1, 3, 8, 13), aligned):
                shape = (size, size + 1, size + 2)[:spatial]
                got = R["interpolate"](x, size=shape, mode=mode, align_corners=align)
                yield f"interpolate {mode}", got, F.interpolate(t(x), shape, mode=mode, align_corners=align)
            for factor, align in itertools.product((0.5, 1.0, 2.0, 1.7, 2.3), aligned):
                got = R["interpolate"](x, scale_factor=factor, mode=mode, align_corners=align)
                want = F.interpolate(t(x), scale_factor=factor, mode=mode, align_corners=align)
                yield f"interpolate {mode}", got, want


def folds() -> Iterator[Case]:
    for kernel, dilation, padding, stride in itertools.product(((2, 3), (3, 1)), (1, 2), (0, 1), (1, 2)):
        x = array(2, 3, 8, 9)
        options = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
        columns = R["unfold"](x, **options)
        yield "unfold", columns, F.unfold(t(x), **options)
        grown = array(*columns.shape)
        yield "fold", R["fold"](grown, output_size=(8, 9), **options), F.fold(t(grown), (8, 9), **options)


def attentions() -> Iterator[Case]:
    """PyTorch's causal mask is aligned to the first key, so that of the reference is given to it as a mask."""
    for b, n, k, queries, keys, h, hv in ((2, 4, 4, 5, 5, 8, 8), (1, 4, 2, 3, 7, 4, 6), (2, 3, 1, 1, 9, 5, 5)):
        q, key, value = array(b, n, queries, h), array(b, k, keys, h), array(b, k, keys, hv)
        bias, keep = array(n, queries, keys), rng.random((b, n, queries, keys)) < 0.5
        keep[0, 0, 0] = False
        ours = {"layout": "BNTH"}
        theirs = (t(q), t(key), t(value))
        grouped = {"enable_gqa": n != k}
        attend = F.scaled_dot_product_attention
        yield "attention", R["attention"](q, key, value, **ours), attend(*theirs, **grouped)
        yield "attention", R["attention"](q, key, value, scale=0.3, **ours), attend(*theirs, scale=0.3, **grouped)
        want = attend(*theirs, attn_mask=t(bias), **grouped)
        yield "attention bias", R["attention"](q, key, value, None, bias, **ours), want
        want = attend(*theirs, attn_mask=t(keep), **grouped)
        yield "attention mask", R["attention"](q, key, value, keep, **ours), want
        distance = np.arange(keys)[None, :] - np.arange(queries)[:, None] - (keys - queries)
        want = attend(*theirs, attn_mask=t(distance <= 0), **grouped)
        yield "attention causal", R["attention"](q, key, value, causal=True, **ours), want
        want = attend(*theirs, attn_mask=t((distance >= -2) & (distance <= 1)), **grouped)
        yield "attention window", R["attention"](q, key, value, window=(2, 1), **ours), want


def difference(got: np.ndarray, want: torch.Tensor) -> float:
    """Return the greatest difference, relative to values above 1; infinite where shapes, dtypes or NaN differ."""
    expected = want.numpy()
    if got.shape != expected.shape or got.dtype != expected.dtype or (np.isnan(got) != np.isnan(expected)).any():
        return float("inf")
    infinite = np.isinf(got) | np.isinf(expected)
    if (got[infinite] != expected[infinite]).any():
        return float("inf")
    here = np.isfinite(got)
    if not here.any():
        return 0.0
    return float((np.abs(got[here] - expected[here]) / np.maximum(1.0, np.abs(expected[here]))).max())


SUITES: tuple[Callable[[], Iterator[Case]], ...] = (
    activations,
    norms,
    linears,
    convolutions,
    pools,
    interpolations,
    folds,
    attentions,
)


def main() -> int:
    worst: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    for suite in SUITES:
        for name, got, want in suite():
            worst[name] = max(worst[name], difference(got, want))
            count[name] += 1
    wrong = [name for name, error in worst.items() if error > BOUNDS.get(name, BOUND)]
    for name, error in worst.items():
        print(f"{name:24} {count[name]:4} cases  {error:9.2e}{'  WRONG' if name in wrong else ''}")
    print(f"torch {torch.__version__}: {sum(count.values())} cases of {len(count)} operations, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
