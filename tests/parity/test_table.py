"""The table has every function of the namespace and every operation of the Backend, and every case can be made."""

from __future__ import annotations

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import OPERATIONS, CpuBackend
from rtx_jax.core.dtypes import DTypeName
from rtx_jax.parity.case import EDGES
from rtx_jax.parity.judge import references
from rtx_jax.parity.modes import calls_of
from rtx_jax.parity.operands import applies, dtype_named, make
from rtx_jax.parity.plan import full_plan, quick_plan
from rtx_jax.parity.points import complex_points, real_pairs, real_points
from rtx_jax.parity.tables import namespace_operations
from rtx_jax.parity.tables.backend import backend_operations

NAMESPACE = namespace_operations()
BACKEND = backend_operations(CpuBackend())
EVERY = (*NAMESPACE, *BACKEND)

# Settings, transforms, files and classes: they take functions or change the process, and have tests of their own.
NOT_OPERATIONS = set(
    """Array __array_namespace_info__ check_bounds checked checkpoint clear_caches cond custom_jvp custom_vjp debug_nans
    donation enable_compilation_cache explain_compiles fori_loop fusion grad hessian inspect jacfwd jacobian jacrev
    jit jvp linearize load save scan set_default_dtype set_matmul_precision shard_map switch value_and_grad vjp vmap
    while_loop""".split()
)


def test_every_function_of_the_namespace_is_in_the_table():
    values = {name: getattr(xp, name) for name in xp.__all__}
    # The names of dtypes are callable only to say that they are no functions.
    functions = {name for name, value in values.items() if callable(value) and not isinstance(value, DTypeName)}
    functions -= NOT_OPERATIONS
    functions |= {
        f"{part}.{name}" for part in ("linalg", "fft") for name in getattr(xp, part).__all__ if name[0].islower()
    }
    assert functions - {operation.name for operation in NAMESPACE} == set()


def test_every_operation_of_the_backend_is_in_the_table():
    named = {operation.name.removeprefix("backend.") for operation in BACKEND}
    assert {"attention" if name == "flash_attention" else name for name in named} >= set(OPERATIONS)


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
def test_cases_can_be_made_and_have_a_reference(operation):
    dtype = dtype_named("float32" if "float32" in operation.dtypes else operation.dtypes[0])
    cases = [case for case in operation.cases if applies(case, dtype)]
    assert cases
    for call in calls_of(operation, dtype, cases):
        assert all(x.shape == o.shape for x, o in zip(call.operands, call.case.operands, strict=True))
        assert references(operation, call.operands, call.params).leaves


def test_every_edge_is_in_the_table():
    assert {case.edge for operation in EVERY for case in operation.cases} == set(EDGES)
    assert {dtype for operation in EVERY for dtype in operation.dtypes} >= {"bool", "int8", "uint64", "bfloat16"}


def test_operands_are_the_same_each_time():
    operation = next(operation for operation in NAMESPACE if operation.name == "matmul")
    for case in operation.cases:
        once, again = (make(case, np.dtype(np.float32), "matmul") for _ in range(2))
        assert all(a.tobytes() == b.tobytes() for a, b in zip(once, again, strict=True))


@pytest.mark.parametrize("edge", ["nan", "inf", "extreme"])
def test_edges_are_in_the_values(edge):
    operation = next(operation for operation in NAMESPACE if operation.name == "exp")
    case = next(case for case in operation.cases if case.edge == edge)
    (x,) = make(case, np.dtype(np.float32), "exp")
    seen = {"nan": np.isnan(x), "inf": np.isinf(x), "extreme": np.abs(x) > 1e30}[edge]
    assert seen.any()
    assert not seen.all()


def test_points_have_what_is_special():
    for dtype in (np.float16, np.float32, np.float64):
        points = real_points(np.dtype(dtype))
        assert points.size == 128
        assert np.isnan(points).any()
        assert np.isinf(points).sum() >= 2
        assert points.max(where=np.isfinite(points), initial=0) == np.finfo(dtype).max
        assert (points.astype(dtype).astype(np.float64) == points)[~np.isnan(points)].all()
    assert all(part.size == 256 for part in real_pairs(np.dtype(np.float32)))
    assert complex_points(np.dtype(np.complex64)).size == 128


def test_the_quick_plan_covers_every_pair():
    plans = quick_plan(EVERY)
    together = {}
    for operation, cells in zip(EVERY, plans, strict=True):
        full = full_plan(operation)
        assert {cell.dtype for cell in cells} == {cell.dtype for cell in full}, operation.name
        assert {cell.mode for cell in cells} == {cell.mode for cell in full}, operation.name
        for cell in cells:
            for edge in cell.edges:
                together.setdefault((cell.dtype, cell.mode), set()).add(edge)
    possible = {(cell.dtype, cell.mode) for operation in EVERY for cell in full_plan(operation)}
    assert set(together) == possible
    modes_and_edges = {(mode, edge) for (_, mode), edges in together.items() for edge in edges}
    assert len(modes_and_edges) >= 3 * len(EDGES) + 4
    small = sum(map(len, plans))
    assert small < sum(len(full_plan(operation)) for operation in EVERY) / 2.5
