"""NumpyBackend: the table, identity, tensors, random streams, and that it does without JAX."""

import ast
import copy
import inspect
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import rtx_jax.backend.reference as reference
from rtx_jax.backend.numpy import NumpyBackend
from rtx_jax.backend.operations import OPERATIONS
from rtx_jax.errors import BackendUnavailable, DTypeMismatch, InvalidArgument, ShapeMismatch
from tests.backend.cases import CASES

B = NumpyBackend()
FOLDER = Path(reference.__file__).parent


def test_every_operation_has_a_function_of_its_operands_and_parameters():
    assert set(reference.FUNCTIONS) >= set(OPERATIONS)
    for name, operation in OPERATIONS.items():
        parameters = inspect.signature(reference.FUNCTIONS[name]).parameters.values()
        positional = [p for p in parameters if p.kind is p.POSITIONAL_ONLY]
        keyword = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        assert len(positional) == len(operation.operands), name
        absent = [p.default is None for p in positional]
        assert absent == [o.endswith("?") for o in operation.operands], name
        assert set(operation.params) <= keyword, name


@pytest.mark.parametrize("path", [*sorted(FOLDER.glob("*.py")), FOLDER.parent / "numpy.py"], ids=lambda path: path.stem)
def test_the_reference_imports_numpy_alone(path):
    allowed = {
        "__future__",
        "builtins",
        "collections.abc",
        "itertools",
        "math",
        "types",
        "typing",
        "ml_dtypes",
        "numpy",
    }
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == 3:  # of the package: errors and checks only
                assert module.split(".")[0] in ("errors", "checks"), module
            elif node.level == 2:  # of numpy.py's folder
                assert path.stem == "numpy"
            elif not node.level:
                assert module in allowed, module


def test_identity():
    assert NumpyBackend() is B
    assert B.name() == "numpy"
    assert hash(B) == hash(NumpyBackend()) and B == NumpyBackend()
    assert pickle.loads(pickle.dumps(B)) is B
    assert copy.copy(B) is B
    assert repr(B) == "<backend numpy>"
    assert B.is_available()


def test_tensors_are_arrays_of_their_own():
    data = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    x = B.from_data(data, (2, 2))
    assert type(x) is np.ndarray and not np.shares_memory(x, data)
    host = B.to_data(x)
    assert host.tolist() == [1, 2, 3, 4] and not np.shares_memory(host, x)
    assert B.to_device(x, "numpy") is x
    B.sync()
    assert str(B.device(x)) == "numpy:0"
    assert [str(d) for d in B.devices()] == ["numpy:0"]
    for y in (B.reshape(x, (4,)), B.transpose(x), B.swap_dims(x, 0, 0), B.clamp(x, 0.0, 9.0), B.neg(x)):
        assert not np.shares_memory(x, y)
    assert x.tolist() == data.tolist()


def test_defaults_are_32_bits():
    assert B.zeros((2,)).dtype == B.ones(()).dtype == B.full((1,), 2.0).dtype == np.float32
    assert B.rand((2,)).dtype == B.randn((2,)).dtype == np.float32
    assert B.from_data([1, 2], (2,)).dtype == np.int32
    assert B.from_data([1.0], (1,)).dtype == np.float32
    assert B.zeros((2,), dtype=np.float64).dtype == np.float64


def test_results_of_scalars_are_arrays():
    x = B.full((), 2.0)
    for y in (B.add(x, x), B.exp(x), B.gelu(x), B.pow(x, 2.0), B.cast(x, np.float16), B.gt_scalar(x, 1.0)):
        assert type(y) is np.ndarray and y.shape == ()


def test_seeds_and_streams():
    B.seed(2**32 + 1)
    first, second = B.rand((4,)), B.rand((4,))
    assert not np.array_equal(first, second)
    B.seed(2**32 + 1)
    assert np.array_equal(B.rand((4,)), first) and np.array_equal(B.rand((4,)), second)
    B.seed(1)
    assert not np.array_equal(B.rand((4,)), first)
    key = np.array([1, 2], np.uint32)
    assert np.array_equal(B.randn((3,), key=key), B.randn((3,), key=key))
    for seed in (-1, 2**64, 1.5):
        with pytest.raises(InvalidArgument):
            B.seed(seed)


def test_one_of_each_group():
    x = B.from_data([1.0, -2.0, 3.0, 4.0], (2, 2))
    assert B.relu(x).tolist() == [[1, 0], [3, 4]]
    assert B.sum(x).tolist() == [6] and B.sum_dim(x, 1).tolist() == [[-1], [7]]
    assert B.matmul(x, x).tolist() == [[-5, -10], [15, 10]]
    assert B.index_select(x, [1, 1]).tolist() == [[3, 4], [3, 4]]
    assert B.index_add(x, [0, 0], 2).tolist() == [[4, 2], [0, 0]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_operands_are_only_read_and_results_are_their_own(case):
    operands = [np.array(x) if x.dtype.kind in "iub" else x.astype(np.float32) for x in case.operands]
    for x in operands:
        x.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = case.call(B, *operands)
    for y in result if isinstance(result, tuple) else (result,):
        assert type(y) is np.ndarray
        assert not any(np.shares_memory(x, y) for x in operands)
        assert y.flags.writeable or not y.size


FLOAT8 = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize("dtype", FLOAT8, ids=lambda d: np.dtype(d).name)
def test_8_bit_floats(dtype):
    x = B.from_data([1.0, 1.125, -2.0, 448.0], (2, 2), dtype=dtype)
    assert B.add(x, x).dtype == dtype
    # 25 lies between 24 and 26, or 28; adding one by one would stop at 4 or 2.
    assert B.sum(B.from_data([0.25] * 100, (100,), dtype=dtype)).astype(float).tolist() == [24]
    product = B.matmul(x, B.ones((2, 1), dtype=dtype))
    assert product.dtype == dtype
    with pytest.raises(DTypeMismatch):
        B.add(x, B.ones((2, 2), dtype=np.float16))


def test_threads_share_a_tensor():
    x = B.rand((50,), key=np.array([0, 1], np.uint32))
    want = B.softmax(x, 0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: B.softmax(x, 0), range(200)))
    assert all(np.array_equal(result, want) for result in results)


def test_what_is_no_tensor():
    for bad in (1.0, [1.0], None):
        with pytest.raises(InvalidArgument):
            B.exp(bad)
    jax = pytest.importorskip("jax")
    with pytest.raises(InvalidArgument, match="from_data"):
        B.exp(jax.numpy.ones(2))
    with pytest.raises(BackendUnavailable):
        B.zeros((1,), device="cuda:0")
    with pytest.raises(ShapeMismatch):
        B.from_data([1.0], (2,))
