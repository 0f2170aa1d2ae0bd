"""Threefry2x32 with 20 rounds (Salmon et al. 2011), and the draws that are made of its bits.

Keys are ``uint32[2]``, the high and the low half of a seed. Element n of a draw uses the counter n, as
``jax.random`` numbers its bits when they are "partitionable", so the bits are the same.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from ...checks import linear as check
from ...checks.shape import as_shape
from ...errors import InvalidArgument, UnsupportedDType
from .giles import erfinv_approximation
from .rounding import exact, narrow, wide

__all__ = ["bits", "dropout", "fold_in", "key_of", "rand", "randn", "threefry2x32"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_FLOATS = tuple(np.dtype(t) for t in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16))


def threefry2x32(key: np.ndarray, high: np.ndarray, low: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt counters, given as two uint32 words each: 5 times 4 rounds, a part of the key added after each four."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x, y = high + keys[0], low + keys[1]
        for group in range(1, 6):
            for rotation in _ROTATIONS[(group - 1) % 2]:
                x = x + y
                y = ((y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))) ^ x
            x = x + keys[group % 3]
            y = y + keys[(group + 1) % 3] + np.uint32(group)
    return x, y


def key_of(seed: int, /, operation: str = "seed") -> np.ndarray:
    """Return the key of a seed.

    Raises
    ------
    InvalidArgument
        It is not an integer from 0 to 2**64 - 1.
    """
    try:
        value = seed.__index__()
    except AttributeError:
        value = -1
    if not 0 <= value < 2**64 or isinstance(seed, bool | np.bool_):
        raise InvalidArgument(
            operation, "seed", got=repr(seed), wanted="an integer from 0 to 2**64 - 1", arg="seed", reason="not a seed"
        )
    return np.array([value >> 32, value & 0xFFFFFFFF], np.uint32)


def fold_in(key: np.ndarray, step: int, /) -> np.ndarray:
    """Return the key that depends on `key` and a step from 0 to 2**32 - 1."""
    high, low = threefry2x32(key, np.zeros(1, np.uint32), np.array([step], np.uint32))
    return np.concatenate([high, low])


def _words(key: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    counter = np.arange(count, dtype=np.uint64)
    return threefry2x32(key, (counter >> np.uint64(32)).astype(np.uint32), counter.astype(np.uint32))


def bits(key: np.ndarray, shape: tuple[int, ...], width: int, /) -> np.ndarray:
    """Return random unsigned integers of 8, 16, 32 or 64 bits.

    Up to 32 bits they are the low bits of the two words of each counter, combined by exclusive or; 64 bits are made
    of two draws of 32, the first of which is the high half.
    """
    if width == 64:
        halves: np.ndarray = bits(key, (*shape, 2), 32).astype(np.uint64)
        pairs: np.ndarray = (halves[..., 0] << np.uint64(32)) | halves[..., 1]
        return pairs
    high, low = _words(key, math.prod(shape))
    words: np.ndarray = (high ^ low).astype(f"u{width // 8}").reshape(shape)
    return words


def _unit(key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return float64 multiples of the spacing of `dtype` below 1 (float64: 2**-53) of [0, 1)."""
    unit: np.ndarray
    if dtype == np.float64:
        unit = (bits(key, shape, 64) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return unit
    mantissa = ml_dtypes.finfo(dtype).nmant
    width = 8 if mantissa < 8 else 8 * dtype.itemsize  # as many bits as the mantissa needs
    drawn = bits(key, shape, width)
    unit = (drawn >> drawn.dtype.type(width - mantissa)).astype(np.float64) * 2.0**-mantissa
    return unit


def _checked(name: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    if dtype not in _FLOATS:
        raise UnsupportedDType(
            name,
            "dtype",
            got=dtype.name,
            wanted="float64, float32, float16 or bfloat16",
            remedy="Cast the result.",
            dtype=dtype,
            op=name,
        )
    return as_shape(name, shape, dtype.itemsize)


def rand(key: np.ndarray, /, *, shape: tuple[int, ...], dtype: np.dtype, device: object = None) -> np.ndarray:
    """Return values of [0, 1), uniformly distributed."""
    return narrow(_unit(key, _checked("rand", shape, dtype), dtype), dtype)


def randn(key: np.ndarray, /, *, shape: tuple[int, ...], dtype: np.dtype, device: object = None) -> np.ndarray:
    """Return normal values of mean 0 and variance 1: ``sqrt(2) * erfinv(u)``, u uniform on (-1, 1).

    Below 64 bits everything is float32, rounded at the end, and u is ``low + v * (1 - low)`` for v of `rand` and
    the float32 `low` next to -1. In float64 u is an odd multiple of 2**-52.
    """
    shape = _checked("randn", shape, dtype)
    if dtype == np.float64:
        odd = ((bits(key, shape, 64) >> np.uint64(12)) << np.uint64(1)) | np.uint64(1)
        u = odd.astype(np.float64) * 2.0**-52 - 1
    else:
        low = np.nextafter(np.float32(-1), np.float32(0))
        v = _unit(key, shape, np.dtype(np.float32)).astype(np.float32)
        u = np.maximum(low, v * (np.float32(1) - low) + low)
    return narrow(exact(erfinv_approximation(u) * np.sqrt(u.dtype.type(2))), dtype)


def dropout(x: np.ndarray, key: np.ndarray, /, *, p: float = 0.5) -> np.ndarray:
    """Return `x` over ``1 - p`` where a float32 of `rand` is at least `p`, and 0 elsewhere, whatever `x` is there."""
    rate = check.dropout(x.dtype, p)
    kept = rand(key, shape=x.shape, dtype=np.dtype(np.float32)) >= np.float32(rate)
    with np.errstate(all="ignore"):
        return narrow(np.where(kept, wide(x) / (1 - rate), 0), x.dtype)
