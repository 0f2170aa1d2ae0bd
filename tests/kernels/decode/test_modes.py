"""Every transformation of JAX: derivatives of all orders, batches, shards; and memory that does not grow."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rtx_jax.kernels.decode import decode_attention, paged_attention

LENGTHS = np.array([9, 4], np.int32)


def operands(seed: int = 0) -> tuple[jax.Array, jax.Array, jax.Array]:
    draw = np.random.default_rng(seed)
    shapes = ((2, 2, 4, 8), (2, 13, 2, 8), (2, 13, 2, 6))
    return tuple(jnp.asarray(draw.normal(size=s), jnp.float32) for s in shapes)  # type: ignore[return-value]


def definition(
    query: jax.Array, key: jax.Array, value: jax.Array, sinks: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """All scores at once in float64, a second formulation: heads repeated, hidden keys cut by weight."""
    query, key, value = (x.astype(jnp.float64) for x in (query, key, value))
    key, value = (jnp.repeat(x, 2, axis=2) for x in (key, value))
    scores = jnp.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(8)
    last = LENGTHS[:, None, None, None] - 2 + np.arange(2)[:, None]
    powers = jnp.where(np.arange(13) <= last, jnp.exp(scores), 0)
    total = powers.sum(-1)
    if sinks is not None:
        total = total + jnp.exp(sinks.astype(jnp.float64))[:, None]
    return jnp.einsum("bnts,bsnh,bnt->btnh", powers, value, 1 / total), jnp.log(total)


def loss(run: object, *arrays: jax.Array) -> jax.Array:
    out, lse = run(*arrays)  # type: ignore[operator]
    return jnp.sum(jnp.sin(out)) + jnp.sum(jnp.cos(lse))


def ours(query: jax.Array, key: jax.Array, value: jax.Array, sinks: jax.Array | None = None) -> object:
    return decode_attention(query, key, value, LENGTHS, sinks=sinks, return_lse=True, implementation="blocked_xla")


def test_gradients_of_every_operand() -> None:
    arrays = (*operands(), jnp.asarray([0.5, -1.0, 0.0, 2.0], jnp.float32))
    with jax.enable_x64(True):
        expected = jax.grad(functools.partial(loss, definition), argnums=(0, 1, 2, 3))(*arrays)
    got = jax.jit(jax.grad(functools.partial(loss, ours), argnums=(0, 1, 2, 3)))(*arrays)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)


def test_forward_mode_and_second_order() -> None:
    arrays = operands()
    with jax.enable_x64(True):
        first = jax.jvp(functools.partial(loss, definition), arrays, arrays)[1]

        def turned(*xs: jax.Array) -> jax.Array:
            return jnp.vdot(jax.grad(functools.partial(loss, definition))(*xs), xs[0])

        second = jax.grad(turned, argnums=1)(*arrays)
    np.testing.assert_allclose(jax.jvp(functools.partial(loss, ours), arrays, arrays)[1], first, rtol=1e-5)

    def ours_turned(*xs: jax.Array) -> jax.Array:
        return jnp.vdot(jax.grad(functools.partial(loss, ours))(*xs), xs[0])

    got = jax.jit(jax.grad(ours_turned, argnums=1))(*arrays)
    np.testing.assert_allclose(got, second, rtol=1e-4, atol=1e-5)


def test_hidden_nan_reaches_no_gradient() -> None:
    query, key, value = operands()
    hidden = np.arange(13) >= LENGTHS[:, None]
    spoiled = [jnp.where(hidden[..., None, None], jnp.nan, x) for x in (key, value)]
    clean = jax.grad(functools.partial(loss, ours), argnums=(0, 1, 2))(query, key, value)
    got = jax.grad(functools.partial(loss, ours), argnums=(0, 1, 2))(query, *spoiled)
    for a, b in zip(got, clean, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mapped", [(True, True, True), (True, False, False), (False, True, True), (True, False, True)])
def test_vmap_over_any_argument(mapped: tuple[bool, ...]) -> None:
    calls = [operands(seed) for seed in range(3)]
    arrays = [jnp.stack([c[i] for c in calls]) if m else calls[0][i] for i, m in enumerate(mapped)]
    axes = tuple(0 if m else None for m in mapped)
    got = jax.vmap(ours, axes)(*arrays)
    for i in range(3):
        one = ours(*(x[i] if m else x for x, m in zip(arrays, mapped, strict=True)))
        for a, b in zip(got, one, strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-6, atol=1e-6)


def test_vmap_of_a_gradient() -> None:
    query, key, value = operands()
    queries = jnp.stack([query, query + 1])
    got = jax.vmap(jax.grad(functools.partial(loss, ours)), (0, None, None))(queries, key, value)
    for i in range(2):
        one = jax.grad(functools.partial(loss, ours))(queries[i], key, value)
        np.testing.assert_allclose(got[i], one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("which", ["query", "table", "pages", "lengths"])
def test_vmap_of_pages(which: str) -> None:
    draw = np.random.default_rng(0)
    arrays = {
        "query": draw.normal(size=(2, 1, 4, 8)).astype(np.float32),
        "pages": draw.normal(size=(7, 4, 2, 8)).astype(np.float32),
        "table": draw.integers(0, 7, (2, 3)).astype(np.int32),
        "lengths": np.array([11, 5], np.int32),
    }
    other = {
        "query": arrays["query"] + 1,
        "pages": arrays["pages"] - 1,
        "table": (arrays["table"] + 3) % 7,
        "lengths": np.array([2, 12], np.int32),
    }

    def run(query: jax.Array, pages: jax.Array, table: jax.Array, lengths: jax.Array) -> jax.Array:
        return paged_attention(query, pages, pages, table, lengths, implementation="blocked_xla")  # type: ignore[return-value]

    both = {n: np.stack([x, other[n]]) if n == which else x for n, x in arrays.items()}
    got = jax.vmap(run, tuple(0 if n == which else None for n in arrays))(*both.values())
    for i, change in enumerate(({}, {which: other[which]})):
        np.testing.assert_allclose(got[i], run(**{**arrays, **change}), rtol=1e-6, atol=1e-6)


def test_scan_grows_a_cache() -> None:
    query, key, value = operands()

    def step(length: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        return length + 1, decode_attention(query[:, :1], key, value, length, implementation="blocked_xla")  # type: ignore[return-value]

    _, found = jax.lax.scan(step, jnp.array([1, 3]), None, length=4)
    for i in range(4):
        one = decode_attention(query[:, :1], key, value, np.array([1 + i, 3 + i]))
        np.testing.assert_allclose(found[i], one, rtol=1e-6, atol=1e-6)


def test_remat_and_disabled_jit() -> None:
    arrays = operands()
    expected = jax.grad(functools.partial(loss, ours))(*arrays)
    got = jax.grad(jax.checkpoint(functools.partial(loss, ours)))(*arrays)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    with jax.disable_jit():
        np.testing.assert_allclose(ours(*arrays)[0], jax.jit(ours)(*arrays)[0], rtol=1e-6, atol=1e-6)  # type: ignore[index]


def long(s: int) -> list[jax.ShapeDtypeStruct]:
    cache = jax.ShapeDtypeStruct((1, s, 8, 64), jnp.int8)
    return [jax.ShapeDtypeStruct((1, 1, 16, 64), jnp.float32), cache, cache, jax.ShapeDtypeStruct((1,), jnp.int32)]


def test_memory_does_not_grow_with_the_cache() -> None:
    sizes = [
        jax.jit(functools.partial(decode_attention, implementation="xla"))
        .lower(*long(s))
        .compile()
        .memory_analysis()
        .temp_size_in_bytes
        for s in (4096, 65536)
    ]
    # One block of keys and one of values as float32; the cache of the last has 64 MiB.
    assert max(sizes) <= 4 << 20
    assert max(sizes) - min(sizes) <= 1 << 16


@pytest.mark.parametrize("page", [0, 64])
def test_sharded_over_batch_and_heads(page: int) -> None:
    draw = np.random.default_rng(0)
    query = draw.normal(size=(4, 1, 8, 16)).astype(np.float32)
    key, value = (draw.normal(size=(4, 2048, 4, 16)).astype(np.float32) for _ in range(2))
    lengths = np.array([2048, 3, 600, 0], np.int32)
    call = functools.partial(decode_attention, implementation="xla")
    expected = call(query, key, value, lengths)
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("rows", "heads"))
    by_head, by_row = PartitionSpec("rows", None, "heads"), PartitionSpec("rows")
    pool, arrays = by_head, [query, key, value, lengths]
    if page:
        # All devices of a head have its pages.
        pool = PartitionSpec(None, None, "heads")
        pages = [x.reshape(-1, page, *x.shape[2:]) for x in (key, value)]
        arrays = [query, *pages, np.arange(4 * 2048 // page, dtype=np.int32).reshape(4, -1), lengths]
        call = functools.partial(paged_attention, implementation="xla")
    specs = (by_head, pool, pool, *[by_row] * (len(arrays) - 3))
    placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(arrays, specs, strict=True)]
    program = jax.jit(call).lower(*placed).compile()
    np.testing.assert_allclose(program(*placed), expected, rtol=2e-6, atol=2e-6)
    # No device sees the cache of another.
    assert "all-gather" not in program.as_text()
    if not page:
        mapped = jax.shard_map(call, mesh=mesh, in_specs=specs, out_specs=by_head)
        np.testing.assert_allclose(jax.jit(mapped)(*arrays), expected, rtol=2e-6, atol=2e-6)
