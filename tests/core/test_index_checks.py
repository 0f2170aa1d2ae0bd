"""Bounds of index arrays: a range that was read before is read again only when the indices change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rtx_jax as xp

USES: dict[str, Callable[[xp.Array, xp.Array], object]] = {
    "x[i]": lambda x, i: x[i],
    "take": lambda x, i: xp.take(x, i, axis=0),
    "take, last axis": lambda x, i: xp.take(x, i, axis=-1),
    "take_along_axis": lambda x, i: xp.take_along_axis(x, i, axis=0),
    "x[i] = v": lambda x, i: x.__setitem__(i, 1.0),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_indices_that_fitted_one_array_are_checked_against_another(use: Callable[[xp.Array, xp.Array], object]) -> None:
    indices = xp.asarray([0, 5, -6])
    for _ in range(2):
        use(xp.zeros(6), indices)
        with pytest.raises(IndexError, match="5"):
            use(xp.zeros(5), indices)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_indices_are_checked_again_after_a_write(use: Callable[[xp.Array, xp.Array], object]) -> None:
    x, indices = xp.zeros(6), xp.asarray([0, 5])
    use(x, indices)
    indices[1] = 6
    with pytest.raises(IndexError):
        use(x, indices)
    indices[1] = -6
    use(x, indices)
    indices -= 1
    with pytest.raises(IndexError):
        use(x, indices)


def test_many_index_arrays_one_after_the_other() -> None:
    x = xp.arange(10)
    for k in range(1200):
        assert int(xp.take(x, xp.asarray(np.asarray([k % 10])), axis=0)[0]) == k % 10


def test_no_index_fits_every_array() -> None:
    for shape in ((0,), (3,)):
        empty = xp.asarray([], dtype=xp.int32)
        assert xp.take(xp.zeros(shape), empty, axis=0).shape == (0,)
        assert xp.take(xp.zeros(shape), empty, axis=0).shape == (0,)
