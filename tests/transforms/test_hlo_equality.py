"""Zero cost under jit: ten programs compile to the same optimized HLO as plain JAX's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp

_spec = importlib.util.spec_from_file_location("hlo_programs", Path(__file__).parent.parent / "hlo_programs.py")
assert _spec is not None and _spec.loader is not None
hlo_programs = importlib.util.module_from_spec(_spec)
import sys  # noqa: E402

sys.modules["hlo_programs"] = hlo_programs
_spec.loader.exec_module(hlo_programs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("program", hlo_programs.PROGRAMS, ids=lambda program: program.name)
def test_the_optimized_hlo_is_that_of_plain_jax(program: object, dtype: str) -> None:
    operands = program.operands(np.dtype(dtype))
    ours = xp.jit(lambda *arrays: program.ours(xp, *arrays))
    text = hlo_programs.optimized(ours.lower(*(xp.asarray(operand) for operand in operands)))
    with jax.enable_x64(dtype == "float64" or program.wide), jax.default_matmul_precision("highest"):
        plain = jax.jit(program.plain, donate_argnums=program.donated)
        want = hlo_programs.optimized(plain.lower(*(jnp.asarray(operand) for operand in operands)))
    assert text == want
    result, expected = ours(*(xp.asarray(operand) for operand in operands)), program.plain
    with jax.enable_x64(dtype == "float64" or program.wide), jax.default_matmul_precision("highest"):
        for got, right in zip(jax.tree.leaves(result), jax.tree.leaves(jax.jit(expected)(*operands)), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(right))
