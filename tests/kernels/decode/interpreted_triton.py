"""The Triton kernel as ordinary JAX operations: 16 keys a tile, in three parts."""

from __future__ import annotations

from rtx_jax.kernels.decode import pallas_triton
from rtx_jax.kernels.decode.spec import DecodeOperands, DecodeSpec, Partial

NAME = "interpreted_triton"


def unsupported(spec: DecodeSpec, target: object) -> list[str]:
    del spec, target
    return []


def partial(spec: DecodeSpec, operands: DecodeOperands) -> Partial:
    return pallas_triton.partial(spec, operands, blocks=pallas_triton.Blocks(16, spec.splits or 3), interpret=True)
