"""xarray and einops on Arrays, in basic use."""

import einops
import numpy as np
import pytest
import xarray as xr
from einops import array_api as einops_xp

import rtx_jax as xp

HOST = np.arange(24.0).reshape(2, 3, 4)


# Without skipna=False xarray calls numpy.nanmean and the like, which convert to NumPy.


def _labelled():
    return xr.DataArray(xp.asarray(HOST), dims=("time", "y", "x"), coords={"time": [10, 20]})


def test_xarray_keeps_the_array():
    array = _labelled()
    assert isinstance(array.data, xp.Array)
    assert array.shape == (2, 3, 4) and array.dtype == xp.float64
    assert "Array" in repr(array)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda a: a + 1, HOST + 1),
        (lambda a: 2.0 * a - a, HOST),
        (lambda a: -abs(a), -HOST),
        (lambda a: a.sum("x"), HOST.sum(2)),
        (lambda a: a.mean(("y", "x"), skipna=False), HOST.mean((1, 2))),
        (lambda a: a.max(skipna=False), HOST.max()),
        (lambda a: a.min("time", skipna=False), HOST.min(0)),
        (lambda a: a.isel(time=1), HOST[1]),
        (lambda a: a.sel(time=20).isel(x=slice(1, 3)), HOST[1, :, 1:3]),
        (lambda a: a.isel(x=[3, 0]), HOST[:, :, [3, 0]]),
        (lambda a: a.transpose("x", "time", "y"), HOST.transpose(2, 0, 1)),
        (lambda a: a.where(a > 5.0, -1.0), np.where(HOST > 5, HOST, -1)),
        (lambda a: a.expand_dims("new"), HOST[None]),
        (lambda a: xr.concat([a, a], "time"), np.concatenate([HOST, HOST])),
        (lambda a: a.stack(z=("y", "x")), HOST.reshape(2, 12)),
        (lambda a: a.astype("float32"), HOST.astype(np.float32)),
        (lambda a: np.sqrt(a), np.sqrt(HOST)),
        (lambda a: a > 3.0, HOST > 3),
    ],
)
def test_xarray_computes_on_arrays(run, expected):
    result = run(_labelled())
    assert isinstance(result.data, xp.Array)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(result.data), expected, rtol=1e-15)


def test_xarray_aligns_by_label():
    a = _labelled()
    b = a.isel(time=[1]) * 10.0
    total = a + b
    assert isinstance(total.data, xp.Array)
    np.testing.assert_allclose(np.asarray(total.data), HOST[1:] * 11)


def test_xarray_to_numpy():
    assert isinstance(_labelled().to_numpy(), np.ndarray)
    assert isinstance(_labelled().values, np.ndarray)


@pytest.mark.parametrize(
    ("pattern", "sizes", "expected"),
    [
        ("a b c -> c a b", {}, HOST.transpose(2, 0, 1)),
        ("a b c -> a (b c)", {}, HOST.reshape(2, 12)),
        ("a b (c d) -> a b c d", {"d": 2}, HOST.reshape(2, 3, 2, 2)),
        ("a b c -> a 1 b c", {}, HOST[:, None]),
    ],
)
def test_einops_rearrange(pattern, sizes, expected):
    result = einops_xp.rearrange(xp.asarray(HOST), pattern, **sizes)
    assert isinstance(result, xp.Array) and np.array_equal(result, expected)


def test_einops_reduce_repeat_and_pack():
    x = xp.asarray(HOST)
    assert np.array_equal(einops_xp.reduce(x, "a b c -> a c", "sum"), HOST.sum(1))
    assert np.array_equal(einops_xp.reduce(x, "a b c -> b", "max"), HOST.max((0, 2)))
    assert np.array_equal(einops_xp.repeat(x, "a b c -> a r b c", r=2), np.repeat(HOST[:, None], 2, 1))
    packed, shapes = einops_xp.pack([x, x[:, :, 0]], "a *")
    assert packed.shape == (2, 15)
    back = einops_xp.unpack(packed, shapes, "a *")
    assert np.array_equal(back[0], HOST) and np.array_equal(back[1], HOST[:, :, 0])


def test_einops_checks_shapes_as_ever():
    with pytest.raises(einops.EinopsError):
        einops_xp.rearrange(xp.asarray(HOST), "a b (c d) -> a b c d", d=3)
