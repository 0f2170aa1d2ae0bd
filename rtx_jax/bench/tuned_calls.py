"""What can be tuned: the calls of each operation, and how one is made with given blocks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import BackendLimitation
from ..kernels import tuning
from ..kernels.attention import select
from ..kernels.attention import tuned as attention_tuned
from ..kernels.attention.spec import AttentionSpec, Operands
from ..kernels.cross_entropy import tuned as loss_tuned
from ..kernels.cross_entropy import xla as loss
from ..kernels.decode import select as decode_select
from ..kernels.decode import tuned as decode_tuned
from ..kernels.decode.spec import DecodeOperands, DecodeSpec
from ..kernels.decode.splits import finish
from ..kernels.target import Target
from . import attention, cross_entropy, decode
from .contender import Array, Problem, Ready, compiled
from .request import Request

__all__ = ["TUNABLE", "Call"]


@dataclass(frozen=True)
class Call:
    """A call of one kernel in one direction.

    Attributes
    ----------
    kernel, shapes
        As in `tuning.Entry`.
    direction
        ``"forward"`` or ``"backward"``.
    default
        The blocks that it takes by itself.
    wide
        Whether it needs 64-bit types.
    ready
        Compiles it with blocks, on a device.
    """

    kernel: str
    shapes: str
    direction: str
    default: tuning.Blocks
    wide: bool
    ready: Callable[[tuning.Blocks, jax.Device], Ready]


def _without_blocks(name: str) -> BackendLimitation:
    return BackendLimitation(
        "rtx-jax tune", "implementation", got=repr(name), wanted="one with block sizes",
        backend=name, reason="it has no block sizes",
    )  # fmt: skip


# --- attention ------------------------------------------------------------------------------------------------------


def _attention(request: Request, target: Target) -> Iterator[Call]:
    for problem in attention.problems(request):
        spec, operands = attention.normal_form(problem)
        for word in request.implementations:
            module, _ = select.choose(spec, target, select.check_word("rtx-jax tune", word))
            default = attention_tuned.default_blocks(module, spec, problem.direction)
            if default is None:
                raise _without_blocks(module.NAME)
            yield Call(
                attention_tuned.kernel_name(module.NAME, problem.direction),
                attention_tuned.shape_class(spec),
                problem.direction,
                default,
                spec.dtype.itemsize == 8,
                functools.partial(_ready_attention, problem, spec, operands, module),
            )


def _ready_attention(
    problem: Problem,
    spec: AttentionSpec,
    operands: Operands,
    module: select.Implementation,
    blocks: tuning.Blocks,
    device: jax.Device,
) -> Ready:
    """Compile one kernel with these blocks; the backward pass alone, on the result of the default forward pass."""
    names = [name for name, array in operands._asdict().items() if array is not None]
    arrays = [array for array in operands if array is not None]
    if problem.direction == "forward":

        def run(*given: jax.Array) -> tuple[jax.Array, jax.Array]:
            return module.forward(spec, Operands(**dict(zip(names, given, strict=True))), blocks=blocks)

        return compiled(run, arrays, device)

    def pull(out: jax.Array, lse: jax.Array, d_out: jax.Array, *given: jax.Array) -> tuple[jax.Array, ...]:
        found = module.backward(
            spec,
            Operands(**dict(zip(names, given, strict=True))),
            out,
            lse,
            d_out,
            jnp.zeros_like(lse),
            bias=operands.bias is not None,
            blocks=blocks,
        )
        return tuple(array for array in found if array is not None)

    out, lse = _forward(module.NAME, spec, tuple(names))(*arrays)
    return compiled(pull, [out, lse, problem.operands["d_out"], *arrays], device)


@functools.lru_cache(maxsize=1)
def _forward(name: str, spec: AttentionSpec, names: tuple[str, ...]) -> Callable[..., tuple[jax.Array, ...]]:
    """The forward pass with its default blocks, compiled once for all candidates of a backward pass."""
    module = select.module(name)
    return jax.jit(lambda *given: module.forward(spec, Operands(**dict(zip(names, given, strict=True)))))


# --- decode ---------------------------------------------------------------------------------------------------------


def _decode(request: Request, target: Target) -> Iterator[Call]:
    for problem in decode.problems(request):
        spec, operands = decode.normal_form(problem)
        for word in request.implementations:
            module = decode_select.choose(spec, decode_select.check("rtx-jax tune", word), target)
            default = decode_tuned.default_blocks(module, spec)
            if default is None:
                raise _without_blocks(module.NAME)
            yield Call(
                decode_tuned.kernel_name(module.NAME),
                decode_tuned.shape_class(spec),
                "forward",
                default,
                spec.accumulator.itemsize == 8,
                functools.partial(_ready_decode, spec, operands, module),
            )


def _ready_decode(
    spec: DecodeSpec,
    operands: DecodeOperands,
    module: decode_select.Implementation,
    blocks: tuning.Blocks,
    device: jax.Device,
) -> Ready:
    names = [name for name, array in operands._asdict().items() if array is not None]

    def run(*given: jax.Array) -> tuple[jax.Array, jax.Array]:
        call = DecodeOperands(**dict(zip(names, given, strict=True)))
        return finish(spec, call, module.partial(spec, call, blocks=blocks))

    return compiled(run, [array for array in operands if array is not None], device)


# --- cross-entropy --------------------------------------------------------------------------------------------------


def _cross_entropy(request: Request, target: Target) -> Iterator[Call]:
    del target
    for problem in cross_entropy.problems(request):
        operands = [problem.operands[name] for name in ("hidden", "weight", "labels")]
        hidden, weight = (jax.core.ShapedArray(x.shape, x.dtype) for x in operands[:2])
        default = loss_tuned.default_blocks(hidden.shape[0], weight.shape[0])
        spec = loss.LossSpec(default.words, False, None, "highest")
        yield Call(
            loss_tuned.kernel_name(problem.direction),
            loss_tuned.shape_class(hidden, weight, spec),
            problem.direction,
            default,
            hidden.dtype.itemsize == 8,
            functools.partial(_ready_loss, spec, problem.direction, operands),
        )


def _ready_loss(
    spec: loss.LossSpec, direction: str, operands: Sequence[Array], blocks: tuning.Blocks, device: jax.Device
) -> Ready:
    """Compile the statistics of the logits, or their backward pass alone."""
    assert isinstance(blocks, loss_tuned.Blocks)
    spec = loss_tuned.with_words(spec, blocks, operands[1].shape[0])
    if direction == "forward":
        return compiled(functools.partial(loss.forward, spec=spec), operands, device)
    tokens = operands[0].shape[0]
    work = np.dtype(np.float64 if operands[0].dtype.itemsize == 8 else np.float32)
    kept, *cotangents = (np.full(tokens, value, work) for value in (np.log(operands[1].shape[0]), 1.0, -1.0, 0.0))

    def pull(*given: jax.Array) -> tuple[jax.Array, ...]:
        return loss.backward(given[:3], given[3:4], given[4:], (True, True, False), spec=spec)

    return compiled(pull, [*operands, kept, *cotangents], device)


TUNABLE: dict[str, Callable[[Request, Target], Iterator[Call]]] = {
    "attention": _attention,
    "decode": _decode,
    "cross-entropy": _cross_entropy,
}
"""The operations whose kernels have block sizes."""
