"""Bad input of `flash_attention`: each refusal is typed, says which argument, and comes before anything runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.errors import (
    BroadcastError,
    InvalidArgument,
    InvalidDimension,
    RtxError,
    ShapeMismatch,
    UnsupportedDType,
)
from rtx_jax.kernels.attention import flash_attention

B, T, S, N, K, H, V = 2, 5, 7, 4, 2, 6, 3


def ones(*shape: int, dtype: object = np.float32) -> jax.Array:
    return jnp.ones(shape, dtype)


Q, KEY, VALUE = ones(B, T, N, H), ones(B, S, K, H), ones(B, S, K, V)
BAD: dict[str, tuple[dict[str, object], type[RtxError], str, str]] = {
    # What is given, the error, the argument, and a word of the text.
    "rank of query": ({"query": ones(T, N, H)}, InvalidDimension, "query", "4"),
    "batch of key": ({"key": ones(3, S, K, H)}, ShapeMismatch, "key", "batch size 2"),
    "head size of key": ({"key": ones(B, S, K, H + 1)}, ShapeMismatch, "key", "head size 6"),
    "positions of value": ({"value": ones(B, S + 1, K, V)}, ShapeMismatch, "value", "7 positions"),
    "heads of value": ({"value": ones(B, S, 1, V)}, ShapeMismatch, "value", "2 heads"),
    "heads that do not divide": (
        {"key": ones(B, S, 3, H), "value": ones(B, S, 3, V)},
        ShapeMismatch,
        "key",
        "divides the 4",
    ),
    "complex": ({"query": ones(B, T, N, H, dtype=np.complex64)}, UnsupportedDType, "query", "complex64"),
    "integers": ({"value": ones(B, S, K, V, dtype=np.int32)}, UnsupportedDType, "value", "int32"),
    "floating mask": ({"mask": ones(T, S)}, UnsupportedDType, "mask", "bias"),
    "integer mask": ({"mask": ones(T, S, dtype=np.int32)}, UnsupportedDType, "mask", "bool"),
    "keys of mask": ({"mask": ones(T, S + 1, dtype=bool)}, BroadcastError, "mask", "(2, 4, 5, 7)"),
    "axes of mask": ({"mask": ones(1, B, 1, T, S, dtype=bool)}, BroadcastError, "mask", "(2, 4, 5, 7)"),
    "heads of bias": ({"bias": ones(K, T, S)}, BroadcastError, "bias", "(2, 4, 5, 7)"),
    "bool bias": ({"bias": ones(T, S, dtype=bool)}, UnsupportedDType, "bias", "floating"),
    "size of sinks": ({"sinks": ones(K)}, ShapeMismatch, "sinks", "(4,)"),
    "lengths in floats": ({"key_lengths": ones(B)}, UnsupportedDType, "key_lengths", "integer"),
    "lengths of another batch": ({"query_lengths": ones(3, dtype=np.int32)}, ShapeMismatch, "query_lengths", "(2,)"),
    "offsets of another batch": ({"q_offset": ones(3, dtype=np.int32)}, ShapeMismatch, "q_offset", "(2,)"),
    "offset in floats": ({"q_offset": 1.5}, InvalidArgument, "q_offset", "1.5"),
    "one segment array": ({"segment_ids": ones(B, T, dtype=np.int32)}, InvalidArgument, "segment_ids", "keys"),
    "segments of another length": (
        {"segment_ids": (ones(B, T, dtype=np.int32), ones(B, T, dtype=np.int32))},
        ShapeMismatch,
        "key_segment_ids",
        "(2, 7)",
    ),
    "three segment arrays": ({"segment_ids": (None, None, None)}, InvalidArgument, "segment_ids", "3"),
    "segments of the keys alone": (
        {"segment_ids": (None, ones(B, S, dtype=np.int32))},
        InvalidArgument,
        "segment_ids",
        "queries",
    ),
    "negative window": ({"window": (-1, 0)}, InvalidArgument, "window", "0"),
    "window of an array": ({"window": ones(2)}, InvalidArgument, "window", ""),
    "window of three": ({"window": (1, 2, 3)}, InvalidArgument, "window", "two"),
    "softcap of zero": ({"softcap": 0.0}, InvalidArgument, "softcap", "more than 0"),
    "infinite scale": ({"scale": float("inf")}, InvalidArgument, "scale", "inf"),
    "layout": ({"layout": "BHSD"}, InvalidArgument, "layout", "'BTNH'"),
    "layout of another kind": ({"layout": ["BTNH"]}, InvalidArgument, "layout", "'BTNH'"),
    "causal of an array": ({"causal": ones(2)}, InvalidArgument, "causal", "True or False"),
    "return_lse of 2": ({"return_lse": 2}, InvalidArgument, "return_lse", "2"),
    "return_entropy of a word": ({"return_entropy": "yes"}, InvalidArgument, "return_entropy", "yes"),
    "column scores of none": ({"column_scores": 0}, InvalidArgument, "column_scores", "1"),
    "nan_safe": ({"nan_safe": "maybe"}, InvalidArgument, "nan_safe", "maybe"),
    "fast": ({"fast": 3}, InvalidArgument, "fast", "3"),
    "precision": ({"precision": "low"}, InvalidArgument, "precision", "'highest'"),
    "a list": ({"query": [[1.0]]}, InvalidArgument, "query", "list"),
    "no key": ({"key": None}, InvalidArgument, "key", "NoneType"),
    "a mask in a list": ({"mask": [True]}, InvalidArgument, "mask", "list"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, error, argument, word = BAD[name]

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("something ran")

    monkeypatch.setattr("rtx_jax.kernels.attention.primitives.select.choose", never)
    call = {"query": Q, "key": KEY, "value": VALUE, **given}
    with pytest.raises(error) as caught:
        flash_attention(call.pop("query"), call.pop("key"), call.pop("value"), **call)  # type: ignore[arg-type]
    assert caught.value.argument == argument
    assert caught.value.operation == "flash_attention"
    assert word in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "traced",
    [
        lambda x: flash_attention(Q, KEY, VALUE, window=(x, 0)),
        lambda x: flash_attention(Q, KEY, VALUE, causal=x > 0),
        lambda x: flash_attention(Q, KEY, VALUE, softcap=x * 1.0),
        lambda x: flash_attention(Q, KEY, VALUE, scale=x * 1.0),
        lambda x: flash_attention(Q, KEY, VALUE, column_scores=x),
    ],
    ids=["window", "causal", "softcap", "scale", "column_scores"],
)
def test_parameters_that_are_not_known_when_the_program_is_made(traced: Callable[[jax.Array], object]) -> None:
    with pytest.raises(InvalidArgument):
        jax.jit(traced)(2)


def test_the_layout_with_heads_first_names_the_same_axes() -> None:
    with pytest.raises(ShapeMismatch, match="2 heads"):
        flash_attention(ones(B, N, T, H), ones(B, K, S, H), ones(B, 1, S, V), layout="BNTH")
