"""array-api-compat's and array-api-extra's view of Arrays."""

import array_api_compat as aac
import array_api_extra as xpx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp

CPUS = jax.devices("cpu")


def test_predicates_of_an_eager_array():
    for x in (xp.asarray([0.0, 1.0, 2.0]), xp.asarray(1), xp.zeros((0, 3)), xp.ones(2, dtype=xp.bfloat16)):
        assert aac.is_array_api_obj(x)
        assert aac.is_writeable_array(x)
        assert not aac.is_lazy_array(x)


@pytest.mark.parametrize("kind", ["numpy", "cupy", "torch", "dask", "jax", "pydata_sparse", "ndonnx"])
def test_no_other_library_claims_it(kind):
    assert not getattr(aac, f"is_{kind}_array")(xp.zeros(3))
    if hasattr(aac, f"is_{kind}_namespace"):
        assert not getattr(aac, f"is_{kind}_namespace")(xp)


def test_namespace():
    x = xp.zeros(3)
    assert aac.array_namespace(x) is xp
    assert aac.array_namespace(x, xp.ones(2), 3.0, None) is xp
    assert aac.array_namespace(x, api_version="2024.12") is xp
    assert aac.get_namespace(x) is xp
    for other in (np.zeros(3), jnp.zeros(3)):
        with pytest.raises(TypeError, match="namespace"):
            aac.array_namespace(x, other)
    with pytest.raises(ValueError, match=r"2019\.12"):
        x.__array_namespace__(api_version="2019.12")


def test_device_to_device_and_size():
    x = xp.zeros((2, 3))
    assert aac.device(x) == CPUS[0]
    moved = aac.to_device(x, CPUS[2])
    assert isinstance(moved, xp.Array) and aac.device(moved) == CPUS[2]
    assert aac.to_device(moved, "cpu:1").device == CPUS[1]
    assert aac.size(x) == 6
    assert xp.zeros(3, device=aac.device(moved)).device == CPUS[2]


def test_under_a_trace_it_is_lazy_and_still_ours():
    seen = {}

    def f(x):
        seen.update(
            lazy=aac.is_lazy_array(x),
            array=aac.is_array_api_obj(x),
            writeable=aac.is_writeable_array(x),
            namespace=aac.array_namespace(x),
            size=aac.size(x),
            device=xp.zeros(2, device=aac.device(x)).shape,
        )
        return x

    xp.jit(f)(xp.zeros(3))
    assert seen == {"lazy": True, "array": True, "writeable": True, "namespace": xp, "size": 3, "device": (2,)}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("set", [9.0, 9.0, 2.0]),
        ("add", [9.0, 10.0, 2.0]),
        ("multiply", [0.0, 9.0, 2.0]),
        ("subtract", [-9.0, -8.0, 2.0]),
        ("min", [0.0, 1.0, 2.0]),
        ("max", [9.0, 9.0, 2.0]),
    ],
)
@pytest.mark.parametrize("copy", [None, True, False])
def test_at(method, expected, copy):
    x = xp.asarray([0.0, 1.0, 2.0])
    y = getattr(xpx.at(x, x < 1.5), method)(9.0, copy=copy)
    assert isinstance(y, xp.Array) and y.tolist() == expected
    assert x.tolist() == ([0.0, 1.0, 2.0] if copy in (None, True) and y is not x else expected)


def test_at_under_a_trace():
    f = xp.jit(lambda x: xpx.at(x)[0].set(9.0))
    x = xp.asarray([0.0, 1.0])
    assert f(x).tolist() == [9.0, 1.0]


def test_functions_of_array_api_extra():
    x = xp.asarray([[1.0, 2.0], [3.0, 5.0]])
    np.testing.assert_allclose(xpx.cov(x), np.cov(np.asarray(x)))
    assert xpx.atleast_nd(xp.asarray(1.0), ndim=2).shape == (1, 1)
    assert int(xpx.nunique(xp.asarray([1, 1, 2]))) == 2
    np.testing.assert_allclose(xpx.kron(x, x), np.kron(np.asarray(x), np.asarray(x)))
    assert xpx.create_diagonal(xp.asarray([1, 2])).tolist() == [[1, 0], [0, 2]]
    assert xpx.pad(xp.asarray([1, 2]), 1).tolist() == [0, 1, 2, 0]
    assert xpx.setdiff1d(xp.asarray([1, 2, 3]), xp.asarray([2])).tolist() == [1, 3]
    assert xpx.sinc(xp.asarray([0.0, 1.0])).tolist()[0] == 1.0
    assert xpx.isclose(x, x + 1e-12).tolist() == [[True, True], [True, True]]
    assert xpx.default_dtype(xp) == xp.float64
    assert xpx.apply_where(x > 2.0, x, lambda v: v * 10.0, fill_value=0.0).tolist() == [[0.0, 0.0], [30.0, 50.0]]


def test_the_namespace_information_lists_devices():
    info = xp.__array_namespace_info__()
    assert list(info.devices()) == CPUS
    assert info.default_device() == CPUS[0]
    for device in info.devices():
        assert xp.zeros(1, device=device).device == device
