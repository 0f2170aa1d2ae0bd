"""Keys of every kind for an array of shape (4, 3, 5), in NumPy's terms."""

from __future__ import annotations

import numpy as np

SHAPE = (4, 3, 5)

_MASK = np.array([[True, False, True], [False, False, True], [True, True, False], [False, False, False]])

KEYS: dict[str, object] = {
    "integer": 2,
    "negative integer": -1,
    "numpy integer": np.int8(-4),
    "integers": (1, -1, 3),
    "slice": slice(1, 3),
    "open slice": (slice(None), slice(1, None)),
    "strided": (slice(None), slice(None), slice(1, None, 2)),
    "reversed": (slice(None, None, -1), Ellipsis, slice(4, 0, -3)),
    "empty slice": (slice(3, 1), slice(None)),
    "integer and slice": (slice(0, 2), 1, slice(-3, -1)),
    "ellipsis": (Ellipsis, 2),
    "everything": Ellipsis,
    "nothing": (),
    "new axes": (None, 1, None, Ellipsis, None),
    "list": [3, 0, 3],
    "empty list": [],
    "array": np.array([[1, -1], [-4, 3]], np.int8),
    "unsigned array": np.array([3, 0], np.uint64),
    "array and whole axes": (slice(None), np.array([2, -1, 0], np.int16)),
    "array and slice": (slice(1, 3), np.array([2, 0]), slice(None, None, -2)),
    "two arrays": (np.array([0, 3]), np.array([[1], [2]])),
    "separated arrays": (np.array([0, 3, 1]), slice(None), np.array([4, 4, 0])),
    "array after integer": (1, slice(None), np.array([0, -1])),
    "array, new axis, array": (np.array([1, 2]), None, np.array([0, 2])),
    "mask": _MASK,
    "mask of one axis": np.array([True, False, False, True]),
    "mask of all axes": np.arange(60).reshape(SHAPE) % 7 == 0,
    "mask in the middle": (slice(1, 3), np.array([True, False, True])),
    "mask and integer": (np.array([True, False, True, True]), 1),
    "mask and array": (np.array([True, False, False, True]), np.array([2, 0])),
    "empty mask": np.zeros((0,), bool),
    "true": True,
    "false": (False, slice(1, 2)),
    "true in the middle": (1, True, slice(None)),
}
