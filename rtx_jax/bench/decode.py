"""Attention of one query to a long cache: problems and contenders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..core.dtypes import as_dtype
from ..kernels.decode import decode_attention, paged_attention
from ..kernels.decode.spec import DecodeOperands, DecodeSpec
from .contender import (
    OURS,
    Array,
    Contender,
    Problem,
    Ready,
    compiled,
    relative_error,
    torch_device,
    torch_ready,
    torch_tensor,
)
from .request import Request

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

BOUND = "memory"
CHOICES = ("implementations",)
DIRECTIONS = ("forward",)
LENGTHS = (1024, 4096, 16384, 65536)
PARAMETERS = ("batch", "heads", "key_heads", "size")
VARIANTS = ("contiguous", "paged", "int8")
_PAGE = 64
_SEED = 0


def problems(request: Request, /) -> Iterator[Problem]:
    """Yield one problem for each variant and length; the cache is full."""
    for variant in request.variants:
        for length in request.lengths:
            operands = _operands(request, variant, length)
            right = functools.partial(_exact, operands, request.group)
            yield Problem(
                "decode",
                variant,
                "forward",
                length,
                operands,
                4.0 * request.batch * request.heads * length * request.size,
                float(operands["key"].nbytes + operands["value"].nbytes),
                error=functools.partial(_error, right, request.group),
            )


def _operands(request: Request, variant: str, length: int) -> dict[str, Array]:
    rng = np.random.default_rng(_SEED)
    dtype = as_dtype(request.dtype, "bench")
    query = rng.standard_normal((request.batch, 1, request.heads, request.size), np.float32).astype(dtype)
    shape = (request.batch, length, request.key_heads, request.size)
    operands: dict[str, Array] = {"query": query}
    if variant == "int8":
        for name in ("key", "value"):
            operands[name] = rng.integers(-127, 128, shape, np.int8)
            operands[f"{name}_scale"] = rng.uniform(0.01, 0.02, shape[:-1]).astype(np.float32)
        return operands
    key, value = (rng.standard_normal(shape, np.float32).astype(dtype) for _ in range(2))
    if variant == "contiguous":
        return {**operands, "key": key, "value": value}
    # A multiple of the page for each row, in an order that no sequence would have by itself.
    runs = -(-length // _PAGE)
    table = rng.permutation(request.batch * runs).reshape(request.batch, runs).astype(np.int32)
    padded = [np.zeros((request.batch, runs * _PAGE, *shape[2:]), dtype) for _ in range(2)]
    pages = [np.empty((request.batch * runs, _PAGE, *shape[2:]), dtype) for _ in range(2)]
    for source, whole, paged in zip((key, value), padded, pages, strict=True):
        whole[:, :length] = source
        paged[table.ravel()] = whole.reshape(-1, _PAGE, *shape[2:])
    lengths = np.full(request.batch, length, np.int32)
    return {**operands, "key": pages[0], "value": pages[1], "table": table, "lengths": lengths}


def _exact(operands: Mapping[str, Array], group: int) -> NDArray[np.float64]:
    """The result of the first row of the batch and the query heads of the first key head, ``(G, H)``."""
    query = np.asarray(operands["query"][0, 0, :group], np.float64)
    key, value = (_first(operands, name) for name in ("key", "value"))
    scores = query @ key.T * query.shape[-1] ** -0.5
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True) @ value
    return result


def _first(operands: Mapping[str, Array], name: str) -> NDArray[np.float64]:
    """Keys or values ``(S, H)`` of the first row and key head."""
    cache = operands[name]
    if "table" in operands:
        pages = cache[operands["table"][0], :, 0]
        return np.asarray(pages.reshape(-1, cache.shape[-1])[: operands["lengths"][0]], np.float64)
    rows = np.asarray(cache[0, :, 0], np.float64)
    if f"{name}_scale" in operands:
        rows = rows * np.asarray(operands[f"{name}_scale"][0, :, 0, None], np.float64)
    return rows


def _error(right: Callable[[], NDArray[np.float64]], group: int, results: Sequence[Array]) -> float:
    return relative_error(results[0][0, 0, :group], right())


def normal_form(problem: Problem, /) -> tuple[DecodeSpec, DecodeOperands]:
    """Return what `decode_attention` or `paged_attention` makes of a problem, for the implementations."""
    operands = problem.operands
    query, key, table = operands["query"], operands["key"], operands.get("table")
    batch, _, heads, size = query.shape
    key_heads = key.shape[2]
    paged = table is not None
    spec = DecodeSpec(
        batch=batch,
        queries=1,
        keys=key.shape[1] if table is None else table.shape[1] * key.shape[1],
        heads=heads,
        key_heads=key_heads,
        size=size,
        value_size=size,
        dtype=query.dtype,
        key_dtype=key.dtype,
        value_dtype=key.dtype,
        scale=size**-0.5,
        window=(None, 0),
        page=key.shape[1] if paged else 0,
        pages=key.shape[0] if paged else 0,
    )
    lengths = np.full((batch, key_heads), problem.length, np.int32)
    arrays = {name: operands.get(name) for name in ("key", "value", "table", "key_scale", "value_scale")}
    rows = query.reshape(batch, key_heads, heads // key_heads, size)
    return spec, DecodeOperands(query=rows, lengths=lengths, offsets=lengths - 1, **arrays)  # type: ignore[arg-type]


# --- contenders -----------------------------------------------------------------------------------------------------


def contenders(request: Request, /) -> list[Contender]:
    """Return ours, once for each implementation, and the peers, which widen and gather the cache first."""
    ours = [
        Contender(
            OURS if word == "auto" else f"{OURS} {word}", functools.partial(_prepare, functools.partial(_ours, word))
        )
        for word in request.implementations
    ]
    return [*ours, Contender("jax.nn", functools.partial(_prepare, _jax_nn)), Contender("torch", _prepare_torch)]


def _prepare(attend: Callable[..., jax.Array], problem: Problem, device: jax.Device) -> Ready:
    names = tuple(problem.operands)

    def run(*arrays: jax.Array) -> jax.Array:
        return attend(dict(zip(names, arrays, strict=True)))

    return compiled(run, list(problem.operands.values()), device)


def _ours(implementation: str, arrays: Mapping[str, jax.Array]) -> jax.Array:
    if "table" in arrays:
        result = paged_attention(
            arrays["query"],
            arrays["key"],
            arrays["value"],
            arrays["table"],
            arrays["lengths"],
            implementation=implementation,
        )
    else:
        result = decode_attention(
            arrays["query"],
            arrays["key"],
            arrays["value"],
            key_scale=arrays.get("key_scale"),
            value_scale=arrays.get("value_scale"),
            implementation=implementation,
        )
    assert isinstance(result, jax.Array)
    return result


def _jax_nn(arrays: Mapping[str, jax.Array]) -> jax.Array:
    query = arrays["query"]
    key, value = arrays["key"], arrays["value"]
    if "table" in arrays:
        rows = (query.shape[0], -1, *key.shape[2:])
        key, value = (pages[arrays["table"]].reshape(rows) for pages in (key, value))
    elif "key_scale" in arrays:
        key, value = (
            (cache * scale[..., None]).astype(query.dtype)
            for cache, scale in ((key, arrays["key_scale"]), (value, arrays["value_scale"]))
        )
    lengths = arrays.get("lengths", jnp.full(query.shape[0], key.shape[1], jnp.int32))
    return jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths)


def _prepare_torch(problem: Problem, device: jax.Device) -> Ready:
    place = torch_device(device)
    import torch

    tensors = {name: torch_tensor(array, place) for name, array in problem.operands.items()}
    query = tensors["query"].transpose(1, 2)
    rows = query.shape[0]

    def cache(name: str) -> torch.Tensor:
        whole = tensors[name]
        if "table" in tensors:
            whole = whole[tensors["table"].long()].reshape(rows, -1, *whole.shape[2:])[:, : problem.length]
        elif f"{name}_scale" in tensors:
            whole = (whole * tensors[f"{name}_scale"][..., None]).to(query.dtype)
        return whole.transpose(1, 2)

    def run() -> list[torch.Tensor]:
        with torch.no_grad():
            key, value = cache("key"), cache("value")
            gqa = query.shape[1] != key.shape[1]
            return [torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=gqa).transpose(1, 2)]

    return torch_ready(run, place)
