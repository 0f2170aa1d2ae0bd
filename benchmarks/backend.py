"""What does a Backend method cost over the bare compiled call, with all of its checks?

    python benchmarks/backend.py [--rounds 41] [--only add] [--output benchmarks/results]

Each method runs eagerly on small float32 tensors beside the cached ``jax.jit`` of the same function with the same
parameters, both in one process. The goal is at most 2 us more. Writes ``backend.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from _common import Comparison, Report, Side, arguments, compare, verdict

from rtx_jax.backend import CpuBackend
from rtx_jax.backend.jax_functions import FUNCTIONS

GOAL_US = 2.0

B = CpuBackend()
X, Y = (B.from_data(np.linspace(-1, 1, 16, dtype=np.float32) + shift, (4, 4)) for shift in (0, 1))
IMAGE, KERNEL = B.ones((1, 2, 8, 8)), B.ones((2, 2, 3, 3))
HEADS, ROW = B.ones((1, 2, 4, 8)), B.ones((4,))
NAMES: dict[str, object] = {
    "B": B,
    "x": X,
    "y": Y,
    "image": IMAGE,
    "kernel": KERNEL,
    "q": HEADS,
    "row": ROW,
    "rows": [0, 2, 1],
    "indices": jnp.asarray([0, 2, 1], jnp.int32),
    "host_rows": np.asarray([0, 2, 1], np.int32),
    "one": jnp.asarray(1.0, jnp.float32),
    "low": jnp.asarray(-0.5, jnp.float32),
    "high": jnp.asarray(0.5, jnp.float32),
}


@dataclass(frozen=True, slots=True)
class Method:
    """One method as the user writes it, and the bare call."""

    statement: str
    bare: str
    function: Callable[..., object]
    goal_us: float = GOAL_US


def _fixed(name: str, **params: object) -> Callable[..., object]:
    function = FUNCTIONS[name]
    return jax.jit(lambda *operands: function(*operands, **params))


_POOL = {"kernel_size": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "ceil_mode": False}
_CONV = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
_ATTENTION = {"causal": True, "window": (None, None), "scale": 0.5, "layout": "BNTH", "precision": "highest"}

METHODS = (
    Method("B.add(x, y)", "f(x, y)", _fixed("add")),
    Method("B.div(x, row)", "f(x, row)", _fixed("div")),
    Method("B.exp(x)", "f(x)", _fixed("exp")),
    Method("B.pow(x, 2.0)", "f(x)", _fixed("pow", exp=2.0)),
    Method("B.clamp(x, -0.5, 0.5)", "f(x, low, high)", _fixed("clamp")),
    Method("B.gt_scalar(x, 1.0)", "f(x, one)", _fixed("gt_scalar")),
    Method("B.relu(x)", "f(x)", _fixed("relu")),
    Method("B.gelu(x)", "f(x)", _fixed("gelu", approximate="none")),
    Method("B.leaky_relu(x, 0.1)", "f(x)", _fixed("leaky_relu", negative_slope=0.1)),
    Method("B.sum(x)", "f(x)", _fixed("sum")),
    Method("B.max_dim(x, 1)", "f(x)", _fixed("max_dim", dim=1)),
    Method("B.var_dim(x, 1)", "f(x)", _fixed("var_dim", dim=1, correction=0.0)),
    Method("B.matmul(x, y)", "f(x, y)", _fixed("matmul", precision="highest")),
    Method("B.reshape(x, (2, 8))", "f(x)", _fixed("reshape", shape=(2, 8))),
    Method("B.permute(x, (1, 0))", "f(x)", _fixed("permute", dims=(1, 0))),
    Method("B.softmax(x, 1)", "f(x)", _fixed("softmax", dim=1)),
    Method("B.layer_norm(x, row, row)", "f(x, row, row)", _fixed("layer_norm", eps=1e-5)),
    Method("B.rms_norm(x, row)", "f(x, row)", _fixed("rms_norm", eps=1e-6)),
    Method("B.linear(x, y, row)", "f(x, y, row)", _fixed("linear", precision="highest")),
    Method("B.rope(q, y, y)", "f(q, y, y)", _fixed("rope", layout="half", seq_axis=-2, rotary_dim=None)),
    Method("B.conv2d(image, kernel, None, 1, 1)", "f(image, kernel)", _fixed("conv2d", precision="highest", **_CONV)),
    Method("B.max_pool2d(image, 2)", "f(image)", _fixed("max_pool2d", **_POOL)),
    Method("B.flash_attention(q, q, q, scale=0.5, causal=True)", "f(q, q, q)", _fixed("attention", **_ATTENTION)),
    # The values are brought to the host, to be checked.
    Method("B.index_select(x, indices)", "f(x, indices)", _fixed("index_select", mode="promise"), 6.0),
    Method("B.index_select(x, rows)", "f(x, host_rows)", _fixed("index_select", mode="promise")),
    Method(
        "B.index_add(x, [0, 2, 1, 1], 3)",
        "f(x, four)",
        _fixed("index_add", num_rows=3, deterministic=False, mode="promise"),
    ),
)


def measure(method: Method, rounds: int) -> Comparison:
    """Time a method against the bare call."""
    names = {**NAMES, "four": np.asarray([0, 2, 1, 1], np.int32)}
    return compare(Side(method.statement, names), Side(method.bare, {**names, "f": method.function}), rounds=rounds)


def main() -> int:
    """Run, print, write; the exit status is 1 where the goal is missed."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="methods that contain this text")
    options = parser.parse_args()
    report = Report("backend", options.output)
    measured: dict[str, Comparison] = {}
    for method in METHODS:
        if options.only in method.statement:
            result = measured[method.statement] = measure(method, options.rounds)
            report.add(method.statement, result)
            print(f"{result.difference_us:6.2f} us over {result.theirs_us:6.2f} us  {method.statement}")
    if not measured:
        parser.error(f"no method contains {options.only!r}")
    met = []
    for goal in sorted({method.goal_us for method in METHODS}):
        names = [method.statement for method in METHODS if method.goal_us == goal and method.statement in measured]
        if names:
            worst = max(names, key=lambda name: measured[name].difference_us)
            met.append(verdict(f"worst method, {worst}", measured[worst].difference_us, goal, unit=" us"))
    report.save()
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
