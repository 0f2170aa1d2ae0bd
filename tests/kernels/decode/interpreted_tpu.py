"""The kernel for TPUs as ordinary JAX operations, 32 keys a step."""

from __future__ import annotations

from rtx_jax.kernels.decode import pallas_tpu
from rtx_jax.kernels.decode.spec import DecodeOperands, DecodeSpec, Partial

NAME = "interpreted_tpu"


def unsupported(spec: DecodeSpec, target: object) -> list[str]:
    del spec, target
    return []


def partial(spec: DecodeSpec, operands: DecodeOperands) -> Partial:
    return pallas_tpu.partial(spec, operands, blocks=pallas_tpu.Blocks(32), interpret=True)
