"""Stacks of wrappers are judged as the backend that they wrap."""

from __future__ import annotations

import pytest

from rtx_jax import parity, quant
from rtx_jax.backend import CpuBackend, NumpyBackend, Quantized

OPERATIONS = ("backend.add", "backend.gelu", "backend.matmul", "backend.softmax", "backend.layer_norm")


@pytest.mark.parametrize("inner", [CpuBackend(), NumpyBackend()], ids=lambda backend: backend.name())
def test_a_stack_is_within_the_bounds(inner):
    stack = Quantized(inner, quant.QuantScheme("int8"))
    report = parity.run(backend=stack, operations=OPERATIONS, dtypes=["float32"], modes=["eager"])
    assert [(o.operation, o.failure) for o in report.failures] == []
    assert set(report.operations) == set(OPERATIONS)


def test_a_fault_below_a_wrapper_is_caught():
    class Wrong(Quantized):
        def _apply(self, operation, operands, params=()):
            result = super()._apply(operation, operands, params)
            return -result if operation == "add" else result

    report = parity.run(
        backend=Wrong(CpuBackend(), quant.QuantScheme("int8")),
        operations=OPERATIONS,
        dtypes=["float32"],
        modes=["eager"],
    )
    assert {o.operation for o in report.failures} == {"backend.add"}
