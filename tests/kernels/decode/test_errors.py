"""Every refusal is typed, and says what it got and what it wanted, before anything runs."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

import rtx_jax as xp
from rtx_jax.errors import (
    BackendLimitation,
    BroadcastError,
    FallbackWarning,
    IndexOutOfBounds,
    InvalidArgument,
    InvalidDimension,
    RtxError,
    ShapeMismatch,
    UnsupportedDType,
)
from rtx_jax.kernels.decode import decode_attention, paged_attention, select
from rtx_jax.kernels.decode.spec import DecodeSpec
from rtx_jax.kernels.target import Target

QUERY, CACHE = jnp.ones((2, 1, 4, 8)), jnp.ones((2, 16, 2, 8))
PAGES, TABLE = jnp.ones((5, 4, 2, 8)), jnp.zeros((2, 3), jnp.int32)

WRONG = {
    "query of three axes": (InvalidDimension, "query", {"query": QUERY[0]}),
    "integer queries": (UnsupportedDType, "query", {"query": QUERY.astype(jnp.int8)}),
    "float8 queries": (UnsupportedDType, "query", {"query": QUERY.astype(jnp.float8_e4m3fn)}),
    "integer keys": (UnsupportedDType, "key", {"key": CACHE.astype(jnp.int32)}),
    "keys of another batch": (ShapeMismatch, "key", {"key": CACHE[:1]}),
    "keys of another size": (ShapeMismatch, "key", {"key": CACHE[..., :4]}),
    "fewer values": (ShapeMismatch, "value", {"value": CACHE[:, :8]}),
    "heads that do not divide": (ShapeMismatch, "key", {"query": QUERY[:, :, :3]}),
    "lengths of another batch": (ShapeMismatch, "key_lengths", {"key_lengths": jnp.ones(3, jnp.int32)}),
    "floating lengths": (UnsupportedDType, "key_lengths", {"key_lengths": jnp.ones(2)}),
    "lengths of queries by head": (ShapeMismatch, "query_lengths", {"query_lengths": jnp.ones((2, 2), jnp.int32)}),
    "offsets of other heads": (ShapeMismatch, "q_offset", {"q_offset": jnp.ones((2, 4), jnp.int32)}),
    "a scale of another cache": (BroadcastError, "key_scale", {"key_scale": jnp.ones((2, 8, 2))}),
    "an integer scale": (UnsupportedDType, "value_scale", {"value_scale": jnp.ones((), jnp.int32)}),
    "sinks of key heads": (ShapeMismatch, "sinks", {"sinks": jnp.ones(2)}),
    "a negative window": (InvalidArgument, "window", {"window": -1}),
    "three sides of a window": (InvalidArgument, "window", {"window": [1, 2, 3]}),
    "a softcap of 0": (InvalidArgument, "softcap", {"softcap": 0.0}),
    "an infinite scale": (InvalidArgument, "scale", {"scale": float("inf")}),
    "a layout": (InvalidArgument, "layout", {"layout": "THBN"}),
    "a precision": (InvalidArgument, "precision", {"precision": "best"}),
    "no parts": (InvalidArgument, "splits", {"splits": 0}),
    "causal by an array": (InvalidArgument, "causal", {"causal": jnp.ones(2)}),
    "an implementation": (InvalidArgument, "implementation", {"implementation": "cudnn"}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_refusal(what: str) -> None:
    error, argument, given = WRONG[what]
    with pytest.raises(error, match=f"decode_attention: argument {argument}: got ") as caught:
        decode_attention(**{"query": QUERY, "key": CACHE, "value": CACHE, **given})
    assert isinstance(caught.value, RtxError) and caught.value.argument == argument


@pytest.mark.parametrize(
    ("error", "argument", "given"),
    [
        (InvalidDimension, "key_pages", {"key_pages": PAGES[0]}),
        (ShapeMismatch, "value_pages", {"value_pages": PAGES[1:]}),
        (ShapeMismatch, "key_pages", {"key_pages": PAGES[:, :0], "value_pages": PAGES[:, :0]}),
        (ShapeMismatch, "key_pages", {"key_pages": PAGES[:0], "value_pages": PAGES[:0]}),
        (InvalidDimension, "block_table", {"block_table": TABLE[0]}),
        (ShapeMismatch, "block_table", {"block_table": TABLE[:1]}),
        (UnsupportedDType, "block_table", {"block_table": TABLE.astype(float)}),
        (BroadcastError, "key_scale", {"key_scale": jnp.ones((2, 4, 2))}),
    ],
)
def test_a_refusal_of_pages(error: type[RtxError], argument: str, given: dict[str, jax.Array]) -> None:
    with pytest.raises(error, match=f"paged_attention: argument {argument}: got "):
        paged_attention(**{"query": QUERY, "key_pages": PAGES, "value_pages": PAGES, "block_table": TABLE, **given})


def test_a_forced_implementation_gives_all_its_reasons() -> None:
    query, cache = jnp.ones((1, 3, 64, 8)), jnp.ones((1, 16, 1, 8), jnp.float8_e4m3b11fnuz)
    for name, reasons in (("pallas_triton", 3), ("pallas_tpu", 2)):
        with pytest.raises(BackendLimitation, match=re.escape("this is cpu")) as caught:
            decode_attention(query, cache, cache, implementation=name)
        assert len(caught.value.reason.split("; ")) == reasons
        with pytest.raises(BackendLimitation):
            jax.jit(lambda q, c, name=name: decode_attention(q, c, c, implementation=name))(query, cache)


def spec(**changes: object) -> DecodeSpec:
    import numpy as np

    half = np.dtype(jnp.bfloat16)
    sizes = {"batch": 1, "queries": 1, "keys": 64, "heads": 8, "key_heads": 8, "size": 64, "value_size": 64}
    return DecodeSpec(**{**sizes, "dtype": half, "key_dtype": half, "value_dtype": half, **changes})  # type: ignore[arg-type]


def test_each_platform_has_its_kernel() -> None:
    for platform, name in (("cuda", "pallas_triton"), ("rocm", "pallas_triton"), ("tpu", "pallas_tpu"), ("cpu", "xla")):
        assert select.choose(spec(), "auto", Target(platform)).NAME == name


def test_a_kernel_that_cannot_is_passed_over_with_one_notice() -> None:
    wide = spec(queries=1000)
    with pytest.warns(FallbackWarning, match="runs as plain XLA.*pallas_triton: 1000 rows of queries"):
        assert select.choose(wide, "auto", Target("cuda")).NAME == "xla"
    assert select.choose(wide, "auto", Target("cuda")).NAME == "xla"
    # Where no kernel is made for the platform, there is nothing to say.
    assert select.choose(wide, "auto", Target("METAL")).NAME == "xla"


def test_a_program_that_xla_divides_has_no_kernel() -> None:
    with pytest.raises(BackendLimitation, match=re.escape("use jax.shard_map")):
        select.choose(spec(), "pallas_tpu", Target("tpu"), partitioned=True)


def test_float8_needs_a_device_that_converts_it() -> None:
    import numpy as np

    cache = spec(key_dtype=np.dtype(jnp.float8_e4m3fn))
    with pytest.raises(BackendLimitation, match="does not convert float8_e4m3fn"):
        select.choose(cache, "pallas_triton", Target("cuda", "NVIDIA A100", (8, 0)))
    assert select.choose(cache, "pallas_triton", Target("cuda", "NVIDIA L4", (8, 9))).NAME == "pallas_triton"


def test_a_window_in_a_list_makes_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = decode_attention(QUERY, CACHE, CACHE, window=(2, 1))
    monkeypatch.setattr(jax, "jit", None)
    assert (decode_attention(QUERY, CACHE, CACHE, window=[2, 1]) == expected).all()


@pytest.mark.parametrize("name", ["attention", "decode_attention", "paged_attention"])
@pytest.mark.parametrize("argument", ["layout", "implementation"])
def test_nn_refuses_a_word_that_cannot_be_a_key(name: str, argument: str) -> None:
    arrays = [xp.zeros((1, 1, 1, 1), dtype=xp.float32)] * 3
    if name == "paged_attention":
        arrays.append(xp.zeros((1, 1), dtype=xp.int32))
    with pytest.raises(InvalidArgument, match=f"{name}: argument {argument}: got "):
        getattr(xp.nn, name)(*arrays, **{argument: ["BTNH"]})


@pytest.mark.parametrize("name", ["attention", "decode_attention"])
@pytest.mark.parametrize("offset", [2**40, -(2**40)])
def test_nn_takes_an_offset_beyond_32_bits(name: str, offset: int) -> None:
    x = xp.ones((1, 1, 1, 1), dtype=xp.float32)
    assert float(getattr(xp.nn, name)(x, x, x, causal=True, q_offset=offset)[0, 0, 0, 0]) == (offset > 0)


LENGTHS = {
    "key_lengths": ([3, 17], 17, "0 to 16, the positions of the cache"),
    "query_lengths": ([2, 1], 2, "0 to 1, the queries"),
    "negative": ([-1, 3], -1, "0 to 16, the positions of the cache"),
}


@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("face", [False, True])
def test_lengths_that_there_is_no_room_for(case: str, face: bool) -> None:
    numbers, wrong, room = LENGTHS[case]
    name = "key_lengths" if case == "negative" else case
    lengths = {name: jnp.asarray(numbers, jnp.int32)}
    operands = [QUERY, CACHE, CACHE]
    pages = [QUERY, PAGES, PAGES, jnp.zeros((2, 4), jnp.int32)]
    calls = (xp.nn.decode_attention, xp.nn.paged_attention) if face else (decode_attention, paged_attention)
    for call, arrays in zip(calls, (operands, pages), strict=True):
        given = {key: xp.asarray(x) if face else x for key, x in lengths.items()}
        arrays = [xp.asarray(x) for x in arrays] if face else arrays
        with pytest.raises(IndexOutOfBounds, match=f"{name}: got {wrong}, wanted {room}") as caught:
            call(*arrays, **given)
        assert caught.value.index == wrong
        with xp.check_bounds(False):
            call(*arrays, **given)


def test_traced_lengths_beyond_the_cache_raise_nothing() -> None:
    found = jax.jit(decode_attention)(QUERY, CACHE, CACHE, jnp.asarray([99, 16], jnp.int32))
    assert (found == decode_attention(QUERY, CACHE, CACHE)).all()


def test_parts_are_refused_where_nothing_takes_them() -> None:
    with pytest.raises(BackendLimitation, match="xla: it does not split the keys, and splits=4 is for GPUs"):
        decode_attention(QUERY, CACHE, CACHE, splits=4)
    for name in ("reference", "xla", "pallas_tpu"):
        assert select.load(name).unsupported(spec(splits=4), Target("tpu"))
    assert select.choose(spec(splits=4), "auto", Target("cuda")).NAME == "pallas_triton"
    assert select.choose(spec(splits=1), "auto", Target("cpu")).NAME == "xla"
