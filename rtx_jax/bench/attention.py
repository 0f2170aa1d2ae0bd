"""Attention: problems and contenders."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..core.dtypes import as_dtype
from ..errors import BackendLimitation
from ..kernels.attention import flash_attention
from ..kernels.attention.spec import AttentionSpec, Operands
from .attention_exact import Exact, exact
from .contender import (
    OURS,
    Array,
    Contender,
    Problem,
    Ready,
    compiled,
    relative_error,
    require,
    torch_device,
    torch_ready,
    torch_tensor,
)
from .request import Request

if TYPE_CHECKING:
    import torch

__all__ = [
    "BOUND",
    "CHOICES",
    "DIRECTIONS",
    "LENGTHS",
    "PARAMETERS",
    "VARIANTS",
    "contenders",
    "normal_form",
    "problems",
]

BOUND = "arithmetic"
CHOICES = ("implementations", "fast")
DIRECTIONS = ("forward", "backward")
LENGTHS = (1024, 2048, 4096, 8192)
PARAMETERS = ("batch", "heads", "key_heads", "size", "window")
VARIANTS = ("causal", "full", "window", "segments", "bias")
# The error is computed in float64 on one core; above, it takes minutes.
_EXACT_LENGTH = 8192
_SEED = 0
# A backward pass takes five products where the forward pass takes two.
_PASSES = {"forward": 1.0, "backward": 3.5}


def problems(request: Request, /) -> Iterator[Problem]:
    """Yield one problem for each variant, length and direction; ``"backward"`` is forward and backward together."""
    for variant in request.variants:
        for length in request.lengths:
            operands = _operands(request, variant, length)
            visible = _visible(request, variant, length)
            reference = functools.cache(functools.partial(_reference, operands, visible, request.group))
            pairs = request.batch * request.heads * _visible_pairs(request, variant, length)
            moved = sum(array.nbytes for array in operands.values())  # the cotangent's bytes stand for the result's
            for direction in request.directions:
                yield Problem(
                    "attention",
                    variant,
                    direction,
                    length,
                    operands,
                    4.0 * request.size * pairs * _PASSES[direction],
                    float(moved),
                    {"window": request.window},
                    functools.partial(_error, reference, length, direction),
                )


def _visible_pairs(request: Request, variant: str, length: int) -> int:
    """How many pairs of a query and a key one head has to compute."""
    match variant:
        case "causal":
            return length * (length + 1) // 2
        case "window":
            return int(np.minimum(np.arange(length), request.window).sum()) + length
        case "segments":
            return int((np.bincount(_segments(length)).astype(np.int64) ** 2).sum())
        case _:
            return length * length


def _operands(request: Request, variant: str, length: int) -> dict[str, Array]:
    rng = np.random.default_rng(_SEED)
    dtype = as_dtype(request.dtype, "bench")

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32).astype(dtype)

    key_shape = (request.batch, length, request.key_heads, request.size)
    query_shape = (request.batch, length, request.heads, request.size)
    operands = {
        "query": normal(*query_shape),
        "key": normal(*key_shape),
        "value": normal(*key_shape),
        "d_out": normal(*query_shape),
    }
    if variant == "bias":
        operands["bias"] = normal(1, request.heads, length, length)
    if variant == "segments":
        operands["segment_ids"] = np.broadcast_to(_segments(length), (request.batch, length)).copy()
    return operands


def _segments(length: int) -> NDArray[np.int32]:
    """Four documents in one row."""
    return np.minimum(4 * np.arange(length, dtype=np.int32) // max(length, 1), 3).astype(np.int32)


def _visible(request: Request, variant: str, length: int) -> Callable[[int, int], NDArray[np.bool_]]:
    columns = np.arange(length)
    segments = _segments(length)

    def visible(start: int, stop: int) -> NDArray[np.bool_]:
        rows = np.arange(start, stop)[:, None]
        seen = np.ones((stop - start, length), np.bool_)
        if variant in ("causal", "window"):
            seen &= rows >= columns
        if variant == "window":
            seen &= rows - columns <= request.window
        if variant == "segments":
            seen &= segments[start:stop, None] == segments
        return seen

    return visible


def _reference(operands: Mapping[str, Array], visible: Callable[[int, int], NDArray[np.bool_]], group: int) -> Exact:
    """The exact results of the first row of the batch and the first key head."""
    query, d_out = (operands[name][0, :, :group].astype(np.float64) for name in ("query", "d_out"))
    key, value = (operands[name][0, :, 0].astype(np.float64) for name in ("key", "value"))
    bias = operands["bias"][0, :group].astype(np.float64) if "bias" in operands else None
    return exact(query, key, value, d_out, visible=visible, bias=bias)


def _error(reference: Callable[[], Exact], length: int, direction: str, results: Sequence[Array]) -> float | None:
    """The largest error of the result, or of the gradients to query, key and value."""
    if length > _EXACT_LENGTH:
        return None
    right = reference()
    group = right.out.shape[1]
    if direction == "forward":
        return relative_error(results[0][0, :, :group], right.out)
    d_query, d_key, d_value = (np.asarray(array[0], np.float64) for array in results)
    return max(
        relative_error(d_query[:, :group], right.d_query),
        relative_error(d_key[:, 0], right.d_key),
        relative_error(d_value[:, 0], right.d_value),
    )


def normal_form(problem: Problem, /) -> tuple[AttentionSpec, Operands]:
    """Return what `flash_attention` makes of a problem, for the implementations."""
    operands = problem.operands
    query, key = operands["query"], operands["key"]
    batch, length, heads, size = query.shape
    right = 0 if problem.variant in ("causal", "window") else None
    left = _window(problem) if problem.variant == "window" else None
    bias, ids = operands.get("bias"), operands.get("segment_ids")
    spec = AttentionSpec(
        batch,
        length,
        length,
        heads,
        key.shape[2],
        size,
        size,
        query.dtype,
        scale=size**-0.5,
        window=(left, right),
        bias=None if bias is None else bias.shape,
        bias_dtype=None if bias is None else bias.dtype,
        segments=ids is not None,
    )
    arrays = {"query": query, "key": key, "value": operands["value"], "bias": bias}
    return spec, Operands(**arrays, segment_ids=ids, key_segment_ids=ids)  # type: ignore[arg-type]


# --- contenders -----------------------------------------------------------------------------------------------------

Attention = Callable[..., jax.Array]


def contenders(request: Request, /) -> list[Contender]:
    """Return ours, once for each implementation, and the peers."""
    ours = [
        Contender(
            OURS if implementation == "auto" else f"{OURS} {implementation}",
            functools.partial(_prepare, functools.partial(_ours, implementation=implementation)),
        )
        for implementation in request.implementations
    ]
    if request.fast:
        ours.append(Contender(f"{OURS} fast", functools.partial(_prepare, functools.partial(_ours, fast=True))))
    return [
        *ours,
        Contender("jax.nn", functools.partial(_prepare, functools.partial(_jax_nn, implementation="xla"))),
        Contender("cuDNN", _prepare_cudnn),
        Contender("tokamax", _prepare_tokamax),
        Contender("torch", _prepare_torch),
    ]


def _prepare(attention: Attention, problem: Problem, device: jax.Device) -> Ready:
    """Compile the result, or the gradients to query, key and value together with it."""
    extra = {name: problem.operands[name] for name in ("bias", "segment_ids") if name in problem.operands}
    names = tuple(extra)

    def run(query: jax.Array, key: jax.Array, value: jax.Array, *others: jax.Array) -> jax.Array:
        return attention(problem, query, key, value, **dict(zip(names, others, strict=True)))

    def both(
        query: jax.Array, key: jax.Array, value: jax.Array, d_out: jax.Array, *others: jax.Array
    ) -> tuple[jax.Array, ...]:
        _, pullback = jax.vjp(lambda *linear: run(*linear, *others), query, key, value)
        gradients: tuple[jax.Array, ...] = pullback(d_out)
        return gradients

    main = [problem.operands[name] for name in ("query", "key", "value")]
    if problem.direction == "forward":
        return compiled(run, [*main, *extra.values()], device)
    return compiled(both, [*main, problem.operands["d_out"], *extra.values()], device)


def _ours(
    problem: Problem,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    bias: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    implementation: str = "auto",
    fast: bool = False,
) -> jax.Array:
    result = flash_attention(
        query,
        key,
        value,
        bias=bias,
        segment_ids=segment_ids,
        causal=problem.variant in ("causal", "window"),
        window=(_window(problem), 0) if problem.variant == "window" else None,
        implementation=implementation,
        fast=fast,
    )
    assert isinstance(result, jax.Array)
    return result


def _jax_nn(
    problem: Problem,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    bias: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    implementation: Literal["xla", "cudnn"],
) -> jax.Array:
    return jax.nn.dot_product_attention(
        query,
        key,
        value,
        bias=bias,
        mask=None if segment_ids is None else _same_segment(segment_ids),
        is_causal=problem.variant in ("causal", "window"),
        local_window_size=(_window(problem), 0) if problem.variant == "window" else None,
        implementation=implementation,
    )


def _same_segment(segment_ids: jax.Array) -> jax.Array:
    return jnp.equal(segment_ids[:, None, :, None], segment_ids[:, None, None, :])


def _window(problem: Problem) -> int:
    window = problem.facts["window"]
    assert isinstance(window, int)
    return window


def _prepare_cudnn(problem: Problem, device: jax.Device) -> Ready:
    if device.platform != "gpu":
        raise BackendLimitation(
            "bench", "", got=device.device_kind, wanted="an NVIDIA GPU", backend="cudnn", reason="no CUDA"
        )
    return _prepare(functools.partial(_jax_nn, implementation="cudnn"), problem, device)


def _prepare_tokamax(problem: Problem, device: jax.Device) -> Ready:
    require("tokamax")
    tokamax = importlib.import_module("tokamax")

    def attention(
        problem: Problem,
        query: jax.Array,
        key: jax.Array,
        value: jax.Array,
        *,
        bias: jax.Array | None = None,
        segment_ids: jax.Array | None = None,
    ) -> jax.Array:
        result: jax.Array = tokamax.dot_product_attention(
            query,
            key,
            value,
            bias=bias,
            mask=None if segment_ids is None else _same_segment(segment_ids),
            is_causal=problem.variant in ("causal", "window"),
            local_window_size=(_window(problem), 0) if problem.variant == "window" else None,
        )
        return result

    return _prepare(attention, problem, device)


def _prepare_torch(problem: Problem, device: jax.Device) -> Ready:
    place = torch_device(device)
    import torch

    def heads_first(name: str) -> torch.Tensor:
        return torch_tensor(problem.operands[name], place).transpose(1, 2).contiguous()

    query, key, value, d_out = (heads_first(name) for name in ("query", "key", "value", "d_out"))
    mask: torch.Tensor | None = None
    if problem.variant == "bias":
        mask = torch_tensor(problem.operands["bias"], place)
    elif problem.variant == "segments":
        ids = torch_tensor(problem.operands["segment_ids"], place)
        mask = ids[:, None, :, None] == ids[:, None, None, :]
    elif problem.variant == "window":
        rows = torch.arange(problem.length, device=place)
        behind = rows[:, None] - rows
        mask = (behind >= 0) & (behind <= _window(problem))
    attention = functools.partial(
        torch.nn.functional.scaled_dot_product_attention,
        attn_mask=mask,
        is_causal=problem.variant == "causal",
        enable_gqa=query.shape[1] != key.shape[1],
    )

    def forward() -> list[torch.Tensor]:
        with torch.no_grad():
            return [attention(query, key, value).transpose(1, 2)]

    def both() -> list[torch.Tensor]:
        leaves = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
        gradients = torch.autograd.grad(attention(*leaves), leaves, d_out)
        return [gradient.transpose(1, 2) for gradient in gradients]

    return torch_ready(forward if problem.direction == "forward" else both, place)
