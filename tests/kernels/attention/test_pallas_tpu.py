"""The TPU kernels in interpret mode, against the formula in float64; one case for each feature."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

from rtx_jax.errors import InvalidArgument
from rtx_jax.kernels.attention import pallas_tpu
from rtx_jax.kernels.attention.pallas_tpu_tiles import HIDDEN, PLAIN, list_tiles, may_be_empty, tile_kinds
from rtx_jax.kernels.attention.spec import AttentionSpec, Gradients, Operands
from rtx_jax.kernels.target import Target
from tests.kernels.attention.dense import attend, seen_keys

BLOCKS = pallas_tpu.Blocks(128, 256, 128)
V5E = Target("tpu", "TPU v5 lite")
# Compiling the interpreted kernels for speed would take longer than running them.
QUICK = {"xla_backend_optimization_level": 0}


@dataclass(frozen=True)
class Case:
    """Sizes, static parameters, and functions that make the operands that are not always there."""

    queries: int = 129
    keys: int = 300
    heads: int = 2
    key_heads: int = 2
    size: int = 64
    value_size: int = 64
    dtype: Any = np.float32
    layout: str = "BNTH"
    static: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Callable[[np.random.Generator], Any]] = field(default_factory=dict)

    def build_spec(self) -> AttentionSpec:
        names = ("queries", "keys", "heads", "key_heads", "size", "value_size")
        return AttentionSpec(2, *(getattr(self, name) for name in names), np.dtype(self.dtype), self.layout)

    def build(self, seed: int = 0) -> tuple[AttentionSpec, Operands]:
        rng = np.random.default_rng(seed)

        def rows(heads: int, length: int, size: int) -> jax.Array:
            shape = (2, heads, length, size) if self.layout == "BNTH" else (2, length, heads, size)
            return jnp.asarray(rng.normal(size=shape), self.dtype)

        operands = Operands(
            rows(self.heads, self.queries, self.size),
            rows(self.key_heads, self.keys, self.size),
            rows(self.key_heads, self.keys, self.value_size),
            **{name: jnp.asarray(make(rng)) for name, make in self.arrays.items()},
        )
        given = {name: getattr(operands, name) is not None for name in ("segment_ids", "query_lengths", "key_lengths")}
        static = {"scale": self.size**-0.5, "q_offset": self.keys - self.queries, **self.static}
        spec = dataclasses.replace(
            self.build_spec(),
            **static,
            mask=getattr(operands.mask, "shape", None),
            bias=getattr(operands.bias, "shape", None),
            bias_dtype=getattr(operands.bias, "dtype", None),
            sinks_dtype=getattr(operands.sinks, "dtype", None),
            segments=given["segment_ids"],
            query_lengths=given["query_lengths"],
            key_lengths=given["key_lengths"],
        )
        if operands.q_offset is not None:
            spec = dataclasses.replace(spec, q_offset=None)
        return spec, operands


def normal(*shape: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.normal(size=shape).astype(np.float32)


def coins(*shape: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.random(shape) < 0.6


def hiding_bias(rng: np.random.Generator) -> Any:
    return np.where(rng.random((2, 2, 129, 300)) < 0.2, -np.inf, rng.normal(size=(2, 2, 129, 300))).astype(np.float32)


def runs(length: int, *, last: int) -> Callable[[np.random.Generator], Any]:
    """Ascending ids, of the two rows different ones; `last` is a part that the other side does not have."""

    def make(rng: np.random.Generator) -> Any:
        ids = np.sort(rng.integers(0, 3, (2, length)), axis=1).astype(np.int32)
        ids[:, -2:] = last
        return ids

    return make


def numbers(*values: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: np.array(values, np.int32)


CAUSAL = {"window": (None, 0)}
CASES = {
    "plain": Case(),
    "seven": Case(7, 7, size=7, value_size=9, static=CAUSAL),
    "causal": Case(static=CAUSAL),
    "causal-more-queries": Case(300, 129, static=CAUSAL),
    "grouped": Case(heads=4, static=CAUSAL),
    "btnh": Case(layout="BTNH", heads=4, size=40, value_size=24, static=CAUSAL),
    "btnh-whole-lanes": Case(layout="BTNH", heads=4, size=128, value_size=128, static=CAUSAL),
    "window": Case(300, 300, static={"window": (70, 20)}),
    "right-window": Case(static={"window": (None, 30), "q_offset": 3}),
    "offset": Case(static={"window": (100, 0)}, arrays={"q_offset": numbers(200, -60)}),
    "lengths": Case(
        300, 300, static=CAUSAL, arrays={
            "query_lengths": numbers(290, 100), "key_lengths": numbers(131, 300), "q_offset": numbers(-159, 200)
        }
    ),
    "segments": Case(
        arrays={"segment_ids": runs(129, last=7), "key_segment_ids": runs(300, last=9)}, static=CAUSAL, heads=4
    ),
    "mask": Case(arrays={"mask": coins(2, 4, 129, 300)}, heads=4),
    "mask-of-keys": Case(arrays={"mask": coins(2, 1, 1, 300)}),
    "mask-of-queries": Case(arrays={"mask": coins(1, 2, 129, 1)}),
    "bias": Case(arrays={"bias": hiding_bias}, static=CAUSAL),
    "bias-of-heads": Case(arrays={"bias": normal(1, 4, 129, 300)}, heads=4),
    "bias-of-keys": Case(arrays={"bias": normal(2, 1, 1, 300)}),
    "bias-of-queries": Case(arrays={"bias": normal(1, 2, 129, 1)}),
    "bias-of-all": Case(arrays={"bias": normal(1, 1, 1, 1)}),
    "softcap": Case(static={"softcap": 2.0, **CAUSAL}),
    "sinks": Case(300, 129, arrays={"sinks": normal(2)}, static=CAUSAL),
    "negative-scale": Case(static={"scale": -0.2}),
    "nan-safe": Case(static={"nan_safe": True, **CAUSAL}),
    "bfloat16": Case(static=CAUSAL, dtype=jnp.bfloat16),
    "float16": Case(static=CAUSAL, dtype=np.float16),
}  # fmt: skip


RARE = [
    "plain",
    "causal-more-queries",
    "grouped",
    "btnh",
    "right-window",
    "offset",
    "mask-of-keys",
    "mask-of-queries",
    "bias-of-heads",
    "bias-of-keys",
    "bias-of-queries",
    "bias-of-all",
    "negative-scale",
    "float16",
]

PROGRAMS: dict[tuple[str, AttentionSpec, pallas_tpu.Blocks | None], Callable[..., Any]] = {}


def run(direction: str, spec: AttentionSpec, blocks: pallas_tpu.Blocks | None, *arrays: Any) -> Any:
    """Run the interpreted kernels of one direction; tests of one specification share what was compiled."""
    if (direction, spec, blocks) not in PROGRAMS:
        wanted = {"bias": spec.bias is not None, "sinks": spec.sinks_dtype is not None}
        function = getattr(pallas_tpu, direction)
        call = functools.partial(function, spec, **(wanted if direction == "backward" else {}), blocks=blocks)
        program = jax.jit(functools.partial(call, interpret=True)).lower(*arrays).compile(QUICK)
        PROGRAMS[direction, spec, blocks] = program
    return PROGRAMS[direction, spec, blocks](*arrays)


def forward(spec: AttentionSpec, operands: Operands, blocks: Any = BLOCKS) -> tuple[jax.Array, jax.Array]:
    found: tuple[jax.Array, jax.Array] = run("forward", spec, blocks, operands)
    return found


def backward(spec: AttentionSpec, operands: Operands, *arrays: jax.Array, blocks: Any = BLOCKS) -> Gradients:
    found: Gradients = run("backward", spec, blocks, operands, *arrays)
    return found


def cotangents(out: jax.Array, lse: jax.Array) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(9)
    d_lse = rng.normal(size=lse.shape).astype(np.float32)
    return jnp.asarray(rng.normal(size=out.shape), out.dtype), jnp.asarray(np.where(np.isinf(lse), 0, d_lse))


def close(got: jax.Array, want: np.ndarray, dtype: Any) -> None:
    # Measured: 3e-6 at float32, and half a unit in the last place of the narrow ones, from their weights.
    bound = {np.dtype(np.float32): 1e-5, np.dtype(np.float16): 2e-3}.get(np.dtype(dtype), 2e-2)
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, rtol=bound, atol=bound)


def compare(spec: AttentionSpec, operands: Operands, blocks: Any = BLOCKS) -> None:
    """Compare results and gradients with those of the formula in float64."""
    out, lse = forward(spec, operands, blocks)
    assert out.dtype == spec.dtype and out.shape == (*operands.query.shape[:-1], spec.value_size)
    assert lse.dtype == np.float32 and lse.shape == (2, spec.heads, spec.queries)
    d_out, d_lse = cotangents(out, lse)
    exact = attend(spec, operands, d_out, d_lse)
    close(out, exact.out, spec.dtype)
    close(lse, exact.lse, np.float32)
    got = backward(spec, operands, out, lse, d_out, d_lse, blocks=blocks)
    for name in Gradients._fields:
        x, y, given = getattr(got, name), getattr(exact, name), getattr(operands, name)
        assert (x is None) == (y is None), name
        if x is not None:
            assert (x.dtype, x.shape) == (given.dtype, given.shape), name
            close(x, y, x.dtype)


# The others are variations of these.
SOME = [name for name in CASES if name not in RARE]


@pytest.mark.parametrize("name", [*SOME, *(pytest.param(name, marks=pytest.mark.slow) for name in RARE)])
def test_feature(name: str) -> None:
    spec, operands = CASES[name].build()
    assert pallas_tpu.unsupported(spec, V5E) == []
    compare(spec, operands)


@pytest.mark.parametrize("name", ["lengths", "segments"])
def test_what_nobody_sees_may_be_nan(name: str) -> None:
    spec, operands = CASES[name].build()
    seen = seen_keys(spec, operands)
    no_query = ~seen.reshape(2, spec.key_heads, -1, spec.keys).any(2)[..., None]
    no_key = ~seen.any(3)[..., None]
    assert no_query.any() and no_key.any()
    out, lse = forward(spec, operands)
    d_out, d_lse = cotangents(out, lse)
    clean = backward(spec, operands, out, lse, d_out, d_lse)
    spoiled = operands._replace(
        query=jnp.where(no_key, np.nan, operands.query),
        key=jnp.where(no_query, np.nan, operands.key),
        value=jnp.where(no_query, np.nan, operands.value),
    )
    again = forward(spec, spoiled)
    np.testing.assert_array_equal(again[0], out)
    np.testing.assert_array_equal(again[1], lse)
    hidden = backward(spec, spoiled, out, lse, jnp.where(no_key, np.nan, d_out), d_lse)
    for x, y in zip(hidden[:3], clean[:3], strict=True):
        np.testing.assert_array_equal(x, y)
    assert np.all(np.asarray(clean.query)[np.broadcast_to(no_key, clean.query.shape)] == 0)
    assert np.all(np.isneginf(np.asarray(lse)[no_key[..., 0]]))


@pytest.mark.parametrize("name", [pytest.param("causal", marks=pytest.mark.slow), "sinks"])
def test_entropy(name: str) -> None:
    """The log-sum-exp less the mean score."""
    spec, operands = CASES[name].build()
    program = functools.partial(pallas_tpu.forward, spec, entropy=True, blocks=BLOCKS, interpret=True)
    _, lse, entropy = jax.jit(program).lower(operands).compile(QUICK)(operands)
    assert entropy.dtype == np.float32
    query, key = (np.asarray(x, np.float64) for x in (operands.query, operands.key))
    scores = np.where(seen_keys(spec, operands), query @ key.swapaxes(2, 3) * spec.scale, -np.inf)
    empty = np.isneginf(lse)
    weights = np.exp(scores - np.where(empty, 0, np.asarray(lse, np.float64))[..., None])
    with np.errstate(invalid="ignore"):
        mean = np.sum(np.where(weights > 0, weights * scores, 0), -1)
    close(entropy, np.where(empty, 0, lse - mean), np.float32)
    assert empty.any() == (name == "sinks")


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_reaches_those_who_see_it(what: float) -> None:
    spec, operands = CASES["nan-safe"].build()
    spoiled = operands._replace(value=operands.value.at[:, :, 200, 3].set(what))
    clean, lse = forward(spec, operands)
    out, again = forward(spec, spoiled)
    sees = seen_keys(spec, operands)[..., 200]
    want = np.array(clean)
    want[..., 3] = np.where(sees, what, want[..., 3])
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(again, lse)


def test_a_key_that_is_nan_reaches_those_who_see_it() -> None:
    spec, operands = CASES["causal"].build()
    spoiled = operands._replace(key=operands.key.at[:, :, 200, 3].set(np.nan))
    out, lse = forward(spec, spoiled)
    clean, _ = forward(spec, operands)
    sees = seen_keys(spec, operands)[..., 200]
    assert np.isnan(np.asarray(lse)[sees]).all() and np.isnan(np.asarray(out)[sees]).all()
    np.testing.assert_array_equal(np.asarray(out)[~sees], np.asarray(clean)[~sees])


@pytest.mark.parametrize("size", [1e4, 3e38])
def test_extreme_scores(size: float) -> None:
    spec, operands = CASES["causal"].build()
    # Scores of `size` or its negative for each key, alike in all queries.
    signs = np.where(np.random.default_rng(1).random((2, 2, 300)) < 0.5, -size, size).astype(np.float32)
    query = jnp.zeros_like(operands.query).at[..., 0].set(1 / spec.scale)
    key = jnp.zeros_like(operands.key).at[..., 0].set(signs)
    if size > 1e38:
        query = query * np.float32(spec.scale)
    spec_operands = operands._replace(query=query, key=key)
    out, lse = forward(spec, spec_operands)
    exact = attend(spec, spec_operands, np.zeros(out.shape), np.zeros(lse.shape))
    close(out, exact.out, np.float32)
    np.testing.assert_allclose(lse, exact.lse, rtol=1e-6)
    d_out, d_lse = cotangents(out, lse)
    got = backward(spec, spec_operands, out, lse, d_out, 0 * d_lse)
    # The gradient of the queries is sums of keys, which overflow at the greater size.
    assert np.isfinite(got.key).all() and np.isfinite(got.value).all()
    assert size > 1e38 or np.isfinite(got.query).all()


def test_minus_infinity_is_no_stand_in() -> None:
    spec, operands = CASES["causal"].build()
    # Every score is minus infinity: what IEEE makes of the softmax of these is NaN, and not the result of no key.
    query = jnp.zeros_like(operands.query).at[..., 0].set(1.0)
    key = jnp.zeros_like(operands.key).at[..., 0].set(-np.inf)
    out, lse = forward(spec, operands._replace(query=query, key=key))
    assert np.isnan(out).all() and np.isnan(lse).all()


def test_equal_scores_share_equally() -> None:
    spec, operands = CASES["causal"].build()
    out, lse = forward(spec, operands._replace(key=jnp.zeros_like(operands.key)))
    count = np.arange(129) + 172
    means = np.cumsum(np.asarray(operands.value, np.float64), 2)[:, :, count - 1] / count[:, None]
    close(out, means, np.float32)
    close(lse, np.broadcast_to(np.log(count), lse.shape), np.float32)


def test_two_runs_are_equal() -> None:
    spec, operands = CASES["causal"].build()
    out, lse = forward(spec, operands)
    np.testing.assert_array_equal(forward(spec, operands)[0], out)
    arrays = (out, lse, *cotangents(out, lse))
    for x, y in zip(*(backward(spec, operands, *arrays)[:3] for _ in range(2)), strict=True):
        np.testing.assert_array_equal(x, y)


LONG = {
    "causal": Case(700, 500, layout="BTNH", size=128, value_size=128, static=CAUSAL),
    "everything": Case(
        600,
        300,
        heads=4,
        static={"window": (200, 10), "softcap": 3.0},
        arrays={
            "mask": coins(1, 4, 600, 300),
            "bias": normal(2, 1, 600, 1),
            "segment_ids": runs(600, last=7),
            "key_segment_ids": runs(300, last=9),
            "query_lengths": numbers(590, 230),
            "q_offset": numbers(-150, 20),
        },
    ),
    "bias-of-keys": Case(600, 300, arrays={"bias": normal(1, 2, 1, 300), "sinks": normal(2)}),
}


@pytest.mark.parametrize("name", ["causal", *(pytest.param(n, marks=pytest.mark.slow) for n in list(LONG)[1:])])
def test_long_sequences_go_by_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, operands = LONG[name].build()
    monkeypatch.setattr(pallas_tpu, "_LIST", 2 * pallas_tpu._groups(spec) * -(-spec.keys // BLOCKS.key))
    monkeypatch.setattr(pallas_tpu, "_QUERY_SUM_BYTES", 256 * 128 * 4 * 3 * spec.group)
    rows = [pallas_tpu._chunk_rows(spec, BLOCKS, backward=direction) for direction in (False, True)]
    assert all(0 < n < spec.queries for n in rows)
    try:
        compare(spec, operands)
    finally:
        for direction in ("forward", "backward"):
            PROGRAMS.pop((direction, spec, BLOCKS), None)


def test_simulated_tpu() -> None:
    """The same in Pallas's simulation of the memories of a TPU, where what was not written is NaN."""
    spec, operands = CASES["causal"].build()
    with pltpu.force_tpu_interpret_mode():
        out, lse = pallas_tpu.forward(spec, operands, blocks=BLOCKS)
    exact = attend(spec, operands, np.zeros(out.shape), np.zeros(lse.shape))
    close(out, exact.out, np.float32)
    close(lse, exact.lse, np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["causal", "segments", "bias-of-heads"])
def test_simulated_tpu_backward(name: str) -> None:
    spec, operands = CASES[name].build()
    out, lse = forward(spec, operands)
    d_out, d_lse = cotangents(out, lse)
    with pltpu.force_tpu_interpret_mode():
        got = pallas_tpu.backward(spec, operands, out, lse, d_out, d_lse, bias=spec.bias is not None, blocks=BLOCKS)
    exact = attend(spec, operands, d_out, d_lse)
    for name in ("query", "key", "value", *(["bias"] if spec.bias else [])):
        close(getattr(got, name), getattr(exact, name), np.float32)


@pytest.mark.parametrize("name", [name for name in CASES if name != "bias-of-all"])
@pytest.mark.parametrize("by_keys", [False, True])
def test_lists_hold_the_tiles_that_are_seen(name: str, by_keys: bool) -> None:
    spec, operands = CASES[name].build()
    seen = seen_keys(spec, operands)
    kinds = np.asarray(tile_kinds(spec, operands, 128, 128))
    blocks = [range(-(-n // 128)) for n in (spec.queries, spec.keys)]
    static = spec.q_offset is not None and not any(x is not None for x in (operands.mask, *operands[5:9]))
    assert isinstance(tile_kinds(spec, operands, 128, 128), np.ndarray) == static
    listed = list_tiles(tile_kinds(spec, operands, 128, 128), by_keys=by_keys)
    codes = np.asarray(listed.codes).reshape(-1, listed.length)
    for b, k in np.ndindex(kinds.shape[:2]):
        rows = slice(None) if kinds.shape[0] == 1 else slice(b, b + 1)
        heads = slice(None) if kinds.shape[1] == 1 else slice(k * spec.group, (k + 1) * spec.group)
        for i in blocks[0]:
            for j in blocks[1]:
                tile = seen[rows, heads, i * 128 : (i + 1) * 128, j * 128 : (j + 1) * 128]
                if tile.any():
                    assert kinds[b, k, i, j] != HIDDEN
                # A tile is whole only where it has no edge, so that the kernels need no mask there.
                if kinds[b, k, i, j] == PLAIN:
                    assert tile.all() and tile.shape[2:] == (128, 128)
                if not tile.any() and not spec.segments and not spec.bias:
                    assert kinds[b, k, i, j] == HIDDEN
        group = b * kinds.shape[1] + k
        found = codes[group, : np.asarray(listed.counts)[group]]
        order = kinds[b, k].T if by_keys else kinds[b, k]
        want = [
            (major, minor, order[major, minor])
            for major in range(order.shape[0])
            for minor in range(order.shape[1])
            if order[major, minor] != HIDDEN or (minor == 0 and not order[major].any())
        ]
        assert [(code >> 16, code >> 2 & 0x3FFF, code & 3) for code in found] == want


def test_a_query_may_see_no_key() -> None:
    spec, _ = CASES["causal"].build()
    assert not may_be_empty(spec)
    for name in ("causal-more-queries", "lengths", "segments", "mask", "bias", "offset"):
        assert may_be_empty(CASES[name].build()[0]), name
    ahead = Case(static={"window": (5, None), "q_offset": 300}).build()[0]
    assert may_be_empty(ahead)


def test_nothing_to_do() -> None:
    spec, operands = Case(129, 0).build()
    out, lse = pallas_tpu.forward(spec, operands)
    assert not out.any() and np.isneginf(lse).all()
    got = pallas_tpu.backward(spec, operands, out, lse, out, lse)
    assert not got.query.any() and got.key.shape == operands.key.shape


def test_reasons() -> None:
    spec, _ = CASES["causal"].build()
    assert pallas_tpu.unsupported(spec, V5E) == []
    assert pallas_tpu.unsupported(spec, Target("cuda", "NVIDIA H200")) == ["it runs on TPU, not on cuda"]
    assert pallas_tpu.unsupported(spec, Target("tpu", "TPU v4")) == ["it needs TPU v5 or newer, not TPU v4"]
    wide = dataclasses.replace(spec, dtype=np.dtype(np.float64))
    assert pallas_tpu.unsupported(wide, V5E) == ["it takes bfloat16, float16 and float32, not float64"]
    none = dataclasses.replace(spec, size=0)
    assert pallas_tpu.unsupported(none, V5E) == ["it takes no head of size 0"]
    huge = dataclasses.replace(spec, size=20_000, value_size=20_000)
    (reason,) = pallas_tpu.unsupported(huge, V5E)
    assert reason == "the smallest tile of head sizes 20000 and 20000 does not fit on the chip"
    many = dataclasses.replace(spec, batch=1 << 15, keys=1 << 13, key_lengths=True)
    (reason,) = pallas_tpu.unsupported(many, V5E)
    assert reason.startswith("lists of 524288 tiles")


@pytest.mark.parametrize("sizes", [(128, 256, 100), (64, 256, 256), (128, 256, 384), (0, 0, 0)])
def test_blocks_are_whole(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidArgument, match="multiples of 128, of which compute divides key"):
        pallas_tpu.Blocks(*sizes)


@pytest.mark.parametrize("queries,keys", [(1, 1), (7, 129), (1000, 1100), (4096, 1 << 20)])
@pytest.mark.parametrize("size,dtype", [(64, jnp.bfloat16), (128, np.float32), (512, np.float32)])
def test_default_blocks(queries: int, keys: int, size: int, dtype: Any) -> None:
    spec = Case(queries, keys, size=size, value_size=size, dtype=dtype).build_spec()
    for direction in ("forward", "backward"):
        blocks = pallas_tpu.default_blocks(spec, direction)
        assert blocks.query % 128 == blocks.key % 128 == blocks.compute % 128 == blocks.key % blocks.compute == 0
        assert blocks.query <= -(-queries // 128) * 128 and blocks.key <= -(-keys // 128) * 128
        assert pallas_tpu._tile_bytes(spec, blocks, direction) <= pallas_tpu._TILE_BYTES[direction]
