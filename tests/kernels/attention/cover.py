"""Calls of attention in which every pair of features meets, at lengths 7 and 129."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from rtx_jax.kernels.attention.spec import AttentionSpec

__all__ = ["FEATURES", "pairwise", "spec_of"]

FEATURES: dict[str, Sequence[object]] = {
    "lengths": [(7, 7), (129, 129), (7, 129), (129, 7)],
    "dtype": ["float32", "float64"],
    "layout": ["BTNH", "BNTH"],
    "heads": [(4, 4), (4, 1), (6, 2)],
    "sizes": [(8, 8), (5, 3)],
    "window": [(None, None), (None, 0), (3, 2), (40, None)],
    "offset": ["default", "given", "operand"],
    "mask": ["no", "whole", "of keys"],
    "bias": ["no", "whole", "of heads"],
    "segments": [False, True],
    "query_lengths": [False, True],
    "key_lengths": [False, True],
    "softcap": [None, 1.5],
    "sinks": [False, True],
    "nan_safe": [False, True],
    "fast": [False, True],
    "tiles": ["one", "many"],
}


def pairwise(features: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Return cases that have every pair of values of two features, each chosen for the most pairs that are missing."""
    names = list(features)
    missing = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(names, 2)
        for x, y in itertools.product(range(len(features[a])), range(len(features[b])))
    }
    cases = []
    while missing:
        case = dict(min(missing))
        for name in sorted(set(names) - set(case), key=names.index):
            gains = [_gain(missing, names, case, name, value) for value in range(len(features[name]))]
            case[name] = gains.index(max(gains))
        chosen = [(name, case[name]) for name in names]
        missing -= set(itertools.combinations(chosen, 2))
        cases.append({name: features[name][value] for name, value in chosen})
    return cases


def _gain(missing: Collection[object], names: list[str], case: Mapping[str, int], name: str, value: int) -> int:
    """Return how many missing pairs a value of one more feature gives a case."""
    at = names.index(name)
    pairs = (((a, x), (name, value)) if names.index(a) < at else ((name, value), (a, x)) for a, x in case.items())
    return sum(pair in missing for pair in pairs)


def spec_of(case: Mapping[str, object]) -> AttentionSpec:
    """Return the call of a case; all have 2 rows in the batch."""
    batch, (queries, keys), (heads, key_heads), (size, value_size) = (
        2,
        *(case[x] for x in ("lengths", "heads", "sizes")),
    )  # type: ignore[misc]
    dtype = np.dtype(str(case["dtype"]))
    shapes = {"no": None, "whole": (batch, heads, queries, keys), "of keys": (batch, 1, 1, keys)}
    shapes["of heads"] = (1, heads, queries, 1) if queries < keys else (1, heads, 1, keys)
    return AttentionSpec(
        batch,
        queries,
        keys,
        heads,
        key_heads,
        size,
        value_size,
        dtype,
        layout=str(case["layout"]),
        scale=0.4,
        softcap=case["softcap"],  # type: ignore[arg-type]
        window=case["window"],  # type: ignore[arg-type]
        q_offset={"default": keys - queries, "given": 1, "operand": None}[str(case["offset"])],
        mask=shapes[str(case["mask"])],
        bias=shapes[str(case["bias"])],
        bias_dtype=None if case["bias"] == "no" else dtype,
        sinks_dtype=dtype if case["sinks"] else None,
        segments=bool(case["segments"]),
        query_lengths=bool(case["query_lengths"]),
        key_lengths=bool(case["key_lengths"]),
        nan_safe=bool(case["nan_safe"]),
        fast=bool(case["fast"]),
    )
