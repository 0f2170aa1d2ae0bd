"""The loop of the XLA path at sizes where it would take one step: 32 keys a block."""

from __future__ import annotations

from rtx_jax.kernels.decode import xla
from rtx_jax.kernels.decode.spec import DecodeOperands, DecodeSpec, Partial

NAME = "blocked_xla"


def unsupported(spec: DecodeSpec, target: object) -> list[str]:
    del spec, target
    return []


def partial(spec: DecodeSpec, operands: DecodeOperands) -> Partial:
    return xla.partial(spec, operands, blocks=xla.Blocks(32))
