"""Compare `flash_attention` with PyTorch's on the CPU, in float32, for each feature that both have.

``python tests/external/compare_attention_with_torch.py``, by hand, with ``torch`` installed. Prints the greatest
difference of results and of gradients, and ends with 1 where one is above its bound: 2e-5 of the greatest value.
PyTorch aligns causal attention to the first key, so lengths that differ are compared with ``q_offset=0`` there, and
with a mask for the alignment to the last key. Rows that see no key are 0 in both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from rtx_jax.kernels.attention import flash_attention

BOUND = 2e-5
Case = tuple[str, dict[str, tuple[int, ...]], dict[str, object], dict[str, object]]

rng = np.random.default_rng(7)


def cases() -> Iterator[Case]:
    """Name, shapes in the layout (B, N, T, H), and the parameters of ours and of theirs."""
    b, n, t, h = 2, 4, 129, 16

    def shapes(keys: int = t, key_heads: int = n, value_size: int = h) -> dict[str, tuple[int, ...]]:
        return {"query": (b, n, t, h), "key": (b, key_heads, keys, h), "value": (b, key_heads, keys, value_size)}

    def offset_mask(keys: int) -> np.ndarray:
        return np.arange(keys) <= np.arange(t)[:, None] + keys - t

    yield "full", shapes(), {}, {}
    yield "causal", shapes(), {"causal": True}, {"is_causal": True}
    yield "long causal", dict.fromkeys(shapes(), (1, 2, 700, h)), {"causal": True}, {"is_causal": True}
    yield "more keys", shapes(200), {}, {}
    yield "more keys, causal from the first", shapes(200), {"causal": True, "q_offset": 0}, {"is_causal": True}
    yield "more keys, causal to the last", shapes(200), {"causal": True}, {"attn_mask": offset_mask(200)}
    yield "fewer keys, causal to the last", shapes(70), {"causal": True}, {"attn_mask": offset_mask(70)}
    yield "grouped heads", shapes(key_heads=2), {"causal": True}, {"is_causal": True, "enable_gqa": True}
    yield "one key head", shapes(key_heads=1), {}, {"enable_gqa": True}
    yield "other value size", shapes(value_size=24), {"causal": True}, {"is_causal": True}
    yield "scale", shapes(), {"scale": 0.7}, {"scale": 0.7}
    mask = rng.random((b, 1, t, t)) > 0.4
    mask[0, 0, 5] = False
    yield "mask", shapes(), {"mask": mask}, {"attn_mask": mask}
    bias = rng.standard_normal((1, n, t, t)).astype(np.float32)
    bias[0, 1, 9] = -np.inf
    yield "bias", shapes(), {"bias": bias}, {"attn_mask": bias}
    band = np.abs(np.arange(t) - np.arange(t)[:, None]) <= 20
    yield "window", shapes(), {"window": (20, 20)}, {"attn_mask": band}
    segments = np.sort(rng.integers(0, 4, (b, t)), 1).astype(np.int32)
    same = (segments[:, :, None] == segments[:, None, :])[:, None]
    yield "segments", shapes(), {"segment_ids": segments}, {"attn_mask": same}
    lengths = np.array([100, 7], np.int32)
    padded = (np.arange(t) < lengths[:, None])[:, None, None, :]
    yield "key lengths", shapes(), {"key_lengths": lengths}, {"attn_mask": padded}


def ours(
    operands: dict[str, np.ndarray], cotangent: np.ndarray, parameters: dict[str, object]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The result and the gradients of the operands, of the bias too."""
    arrays = {name: jnp.asarray(x) for name, x in parameters.items() if isinstance(x, np.ndarray)}
    static = {name: x for name, x in parameters.items() if name not in arrays}
    slopes = {name: jnp.asarray(x) for name, x in operands.items()}
    if "bias" in arrays:
        slopes["bias"] = arrays.pop("bias")

    def run(given: dict[str, jax.Array]) -> jax.Array:
        return flash_attention(**given, **arrays, **static, layout="BNTH", implementation="xla")  # type: ignore[arg-type,return-value]

    out, pull = jax.vjp(jax.jit(run), slopes)
    return np.asarray(out), {name: np.asarray(x) for name, x in pull(jnp.asarray(cotangent))[0].items()}


def theirs(
    operands: dict[str, np.ndarray], cotangent: np.ndarray, parameters: dict[str, object]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The same in PyTorch."""
    leaves = {name: torch.from_numpy(x.copy()).requires_grad_() for name, x in operands.items()}
    static = dict(parameters)
    mask = static.get("attn_mask")
    if isinstance(mask, np.ndarray):
        tensor = torch.from_numpy(mask.copy())
        if mask.dtype != bool:
            leaves["bias"] = tensor.requires_grad_()
        static["attn_mask"] = tensor
    out = scaled_dot_product_attention(leaves["query"], leaves["key"], leaves["value"], **static)  # type: ignore[arg-type]
    (out * torch.from_numpy(cotangent)).sum().backward()
    return out.detach().numpy(), {name: x.grad.numpy() for name, x in leaves.items() if x.grad is not None}


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The greatest difference, of the greatest value."""
    if a.shape != b.shape or not np.isfinite(a).all() or not np.isfinite(b).all():
        return np.inf
    return float(np.abs(a - b).max() / max(1.0, np.abs(b).max()))


def main() -> int:
    """Print the differences; the exit status is 1 where one is too large."""
    wrong = 0
    for name, shapes, mine, other in cases():
        operands = {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
        cotangent = rng.standard_normal((*shapes["query"][:-1], shapes["value"][-1])).astype(np.float32)
        out, slopes = ours(operands, cotangent, mine)
        want, wanted = theirs(operands, cotangent, other)
        found = {"result": difference(out, want), **{key: difference(x, wanted[key]) for key, x in slopes.items()}}
        bad = max(found.values()) > BOUND
        wrong += bad
        text = ", ".join(f"{key} {value:.1e}" for key, value in found.items())
        print(f"{'MISS' if bad else 'ok  '} {name:34} {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
