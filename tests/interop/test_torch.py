"""torch on the CPU: values go both ways, writes do not."""

import copy

import numpy as np
import pytest

import rtx_jax as xp

torch = pytest.importorskip("torch", reason="needs the torch package")

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
NAMES += ["complex64", "complex128"]


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_goes_both_ways(name):
    x = xp.astype(xp.asarray([[0, 1, 2], [3, 4, 5]]), getattr(xp, name))
    t = torch.from_dlpack(x)
    assert t.dtype == getattr(torch, name) and tuple(t.shape) == (2, 3)
    assert t.to(torch.complex128).tolist() == np.asarray(x).astype(np.complex128).tolist()
    back = xp.from_dlpack(t)
    assert isinstance(back, xp.Array) and back.dtype == x.dtype
    assert np.array_equal(np.asarray(back), np.asarray(x))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_torch_writes_stays_with_torch(dtype):
    dtype = getattr(xp, dtype)
    for x in (xp.zeros(3, dtype=dtype), xp.zeros(3, dtype=dtype) * 1, xp.asarray(np.zeros(3), dtype=dtype)):
        t = torch.from_dlpack(x)
        t += 7
        assert np.asarray(x, np.float64).tolist() == [0, 0, 0]
        t = torch.asarray(x)
        t += 7
        assert np.asarray(x, np.float64).tolist() == [0, 0, 0]
    assert np.asarray(xp.zeros(3, dtype=dtype), np.float64).tolist() == [0, 0, 0]


def test_what_we_write_stays_with_us():
    x = xp.zeros(3) + 0.0
    t = torch.from_dlpack(x)
    x[0] = 5.0
    x += 1.0
    assert t.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("make", "dtype"), [(xp.from_dlpack, "float32"), (xp.from_dlpack, "bfloat16"), (xp.asarray, "float32")]
)
def test_memory_of_torch_is_copied(make, dtype):
    t = torch.zeros(1_000_000, dtype=getattr(torch, dtype))
    x = make(t)
    t += 7
    assert float(x[0]) == 0.0 and float(xp.max(xp.abs(x))) == 0.0
    x[1] = 3.0
    assert t[1] == 7.0


def test_strides_and_small_shapes():
    t = torch.arange(24).reshape(4, 6)
    for view in (t.T, t[::2], t[:, 1::2], t[0].expand(3, 6)):
        assert np.array_equal(np.asarray(xp.from_dlpack(view)), view.numpy())
    for shape in ((), (0,), (0, 3)):
        assert xp.from_dlpack(torch.zeros(shape)).shape == shape
        assert tuple(torch.from_dlpack(xp.zeros(shape)).shape) == shape


def test_a_tensor_that_needs_gradients_is_refused_by_torch():
    with pytest.raises(BufferError, match="grad"):
        xp.from_dlpack(torch.zeros(3, requires_grad=True))


def test_many_exports_of_one_array():
    x = xp.arange(3)
    tensors = [torch.from_dlpack(x) for _ in range(3)]
    tensors[0] += 1
    assert tensors[1].tolist() == [0, 1, 2] and copy.copy(x).tolist() == [0, 1, 2]
