"""Cross-entropy of a softmax over a large vocabulary, from the hidden states: problems and contenders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..core.dtypes import as_dtype
from ..kernels.cross_entropy import cross_entropy
from .contender import (
    OURS,
    Array,
    Contender,
    Problem,
    Ready,
    compiled,
    relative_error,
    torch_device,
    torch_ready,
    torch_tensor,
)
from .request import Request

__all__ = ["BOUND", "CHOICES", "DIRECTIONS", "LENGTHS", "PARAMETERS", "VARIANTS", "contenders", "problems"]

BOUND = "arithmetic"
CHOICES: tuple[str, ...] = ()
DIRECTIONS = ("forward", "backward")
LENGTHS = (512, 1024, 2048)
PARAMETERS = ("width", "vocabulary")
VARIANTS = ("mean",)
_SEED = 0
# Rows of the float64 result that are computed at once.
_ROWS = 256


def problems(request: Request, /) -> Iterator[Problem]:
    """Yield one problem for each number of tokens and direction; ``"backward"`` is forward and backward together."""
    for variant in request.variants:
        for length in request.lengths:
            operands = _operands(request, length)
            exact = functools.cache(functools.partial(_exact, operands))
            product = 2.0 * length * request.width * request.vocabulary
            moved = float(operands["hidden"].nbytes + operands["weight"].nbytes)
            for direction in request.directions:
                forward = direction == "forward"
                yield Problem(
                    "cross-entropy",
                    variant,
                    direction,
                    length,
                    operands,
                    product if forward else 3 * product,
                    moved if forward else 2 * moved,
                    error=functools.partial(_error, exact, direction),
                )


def _operands(request: Request, length: int) -> dict[str, Array]:
    rng = np.random.default_rng(_SEED)
    dtype = as_dtype(request.dtype, "bench")
    weight = rng.standard_normal((request.vocabulary, request.width), np.float32) * request.width**-0.5
    return {
        "hidden": rng.standard_normal((length, request.width), np.float32).astype(dtype),
        "weight": weight.astype(dtype),
        "labels": rng.integers(0, request.vocabulary, length, np.int32),
    }


def _exact(operands: Mapping[str, Array]) -> list[NDArray[np.float64]]:
    """The mean loss ``()``, and its gradients to the hidden states and the weight."""
    hidden, weight = (np.asarray(operands[name], np.float64) for name in ("hidden", "weight"))
    labels = operands["labels"]
    loss, d_hidden, d_weight = 0.0, np.empty_like(hidden), np.zeros_like(weight)
    for start in range(0, len(hidden), _ROWS):
        rows = slice(start, start + _ROWS)
        logits = hidden[rows] @ weight.T
        logits -= logits.max(axis=1, keepdims=True)
        places = (np.arange(len(logits)), labels[rows])
        weights = np.exp(logits)
        total = weights.sum(axis=1, keepdims=True)
        loss += float((np.log(total[:, 0]) - logits[places]).sum())
        weights /= total
        weights[places] -= 1.0
        d_hidden[rows] = weights @ weight / len(hidden)
        d_weight += weights.T @ hidden[rows] / len(hidden)
    return [np.asarray(loss / len(hidden)), d_hidden, d_weight]


def _error(exact: Callable[[], list[NDArray[np.float64]]], direction: str, results: Sequence[Array]) -> float:
    right = exact()
    return max(
        relative_error(got, want)
        for got, want in zip(results, right[:1] if direction == "forward" else right[1:], strict=True)
    )


# --- contenders -----------------------------------------------------------------------------------------------------


def contenders(request: Request, /) -> list[Contender]:
    """Return ours, the loss of whole logits on ``jax.numpy``, and torch's."""
    del request
    return [
        Contender(OURS, functools.partial(_prepare, cross_entropy)),
        Contender("jax.numpy", functools.partial(_prepare, _usual)),
        Contender("torch", _prepare_torch),
    ]


def _prepare(loss: Callable[..., jax.Array], problem: Problem, device: jax.Device) -> Ready:
    function = loss if problem.direction == "forward" else jax.grad(loss, argnums=(0, 1))
    return compiled(function, [problem.operands[name] for name in ("hidden", "weight", "labels")], device)


def _usual(hidden: jax.Array, weight: jax.Array, labels: jax.Array) -> jax.Array:
    """As model code has it: all logits, in float32."""
    logits = jnp.matmul(hidden, weight.T, preferred_element_type=jnp.promote_types(hidden.dtype, jnp.float32))
    chosen = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return (jax.nn.logsumexp(logits, axis=1) - chosen).mean()


def _prepare_torch(problem: Problem, device: jax.Device) -> Ready:
    place = torch_device(device)
    import torch

    hidden, weight, labels = (torch_tensor(problem.operands[name], place) for name in ("hidden", "weight", "labels"))
    labels = labels.long()

    def loss(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(
            (hidden @ weight.T).to(torch.promote_types(hidden.dtype, torch.float32)), labels
        )

    def forward() -> list[torch.Tensor]:
        with torch.no_grad():
            return [loss(hidden, weight)]

    def both() -> list[torch.Tensor]:
        leaves = [tensor.detach().requires_grad_() for tensor in (hidden, weight)]
        return list(torch.autograd.grad(loss(*leaves), leaves))

    return torch_ready(forward if problem.direction == "forward" else both, place)
