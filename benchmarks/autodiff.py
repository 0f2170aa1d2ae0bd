"""What does a training step cost through `Autodiff`, beside eager and compiled `jax.grad`?

    python benchmarks/autodiff.py [--rounds 41] [--output benchmarks/results]

A step of a perceptron of three layers on a batch of 32: forward, backward and plain gradient descent, all of it calls
of one backend, ``Autodiff(CpuBackend())`` or ``Autodiff(Fusion(CpuBackend()))``. Beside it the same step in
`jax.numpy`, with ``jax.grad`` without `jax.jit`, and with everything in one ``jax.jit``. The goals are at most a tenth
of the former and, for the fused stack, at most four times the latter; the second step must compile nothing. Without
fusion a step is 20 calls of compiled functions and one of the gradient, so it cannot come near one call. Writes
``autodiff.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from _common import Report, Side, arguments, compare, verdict

from rtx_jax.backend import Autodiff, CpuBackend, Fusion, Tensor

SIZES = (64, 64, 64, 10)
BATCH = 32
RATE = 0.01
GOAL_EAGER = 0.1
GOAL_COMPILED = 4.0


def initial() -> list[np.ndarray]:
    """Return weights and biases, by layer."""
    rng = np.random.default_rng(0)
    made: list[np.ndarray] = []
    for inputs, outputs in zip(SIZES, SIZES[1:], strict=False):
        made.append((rng.normal(size=(outputs, inputs)) / inputs**0.5).astype(np.float32))
        made.append(np.zeros(outputs, np.float32))
    return made


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(BATCH, SIZES[0])).astype(np.float32), rng.normal(size=(BATCH, SIZES[-1])).astype(np.float32)


class Ours:
    """The step through a backend."""

    def __init__(self, backend: Autodiff) -> None:
        self.B = B = backend
        self.parameters: list[Tensor] = [B.from_data(p, p.shape) for p in initial()]
        self.x, self.y = (B.from_data(a, a.shape) for a in data())
        self.rate = B.from_data([RATE], ())

    def step(self) -> None:
        """Take one step."""
        B, rate = self.B, self.rate
        parameters = [B.require_grad(p) for p in self.parameters]
        w1, b1, w2, b2, w3, b3 = parameters
        hidden = B.relu(B.linear(self.x, w1, b1))
        hidden = B.relu(B.linear(hidden, w2, b2))
        error = B.sub(B.linear(hidden, w3, b3), self.y)
        grads = B.backward(B.mean(B.mul(error, error)))
        self.parameters = [B.sub(B.detach(p), B.mul(grads[p], rate)) for p in parameters]


def loss(parameters: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the mean squared error."""
    w1, b1, w2, b2, w3, b3 = parameters
    hidden = jax.nn.relu(x @ w1.T + b1)
    hidden = jax.nn.relu(hidden @ w2.T + b2)
    error = hidden @ w3.T + b3 - y
    return jnp.mean(error * error)


def update(parameters: list[jax.Array], x: jax.Array, y: jax.Array) -> list[jax.Array]:
    """Return the parameters after one step."""
    return [p - RATE * g for p, g in zip(parameters, jax.grad(loss)(parameters, x, y), strict=True)]


class Theirs:
    """The step in `jax.numpy`."""

    def __init__(self, update: Callable[..., list[jax.Array]]) -> None:
        self.update = update
        self.parameters = [jnp.asarray(p) for p in initial()]
        self.x, self.y = map(jnp.asarray, data())

    def step(self) -> None:
        """Take one step."""
        self.parameters = self.update(self.parameters, self.x, self.y)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: a stack of ours, a side of theirs, and the most that ours may take of it."""

    name: str
    stack: str
    update: Callable[..., list[jax.Array]]
    goal: float | None


STACKS: dict[str, Callable[[], Autodiff]] = {
    "autodiff<cpu>": lambda: Autodiff(CpuBackend()),
    "autodiff<fusion<cpu>>": lambda: Autodiff(Fusion(CpuBackend())),
}
COMPILED = jax.jit(update)
ROWS = (
    Row("over eager jax.grad", "autodiff<cpu>", update, GOAL_EAGER),
    Row("over the compiled step", "autodiff<cpu>", COMPILED, None),
    Row("over eager jax.grad", "autodiff<fusion<cpu>>", update, GOAL_EAGER),
    Row("over the compiled step", "autodiff<fusion<cpu>>", COMPILED, GOAL_COMPILED),
)
STEPS = 10  # of one timed call, so that work that is under way at its end counts little


def run(side: Ours | Theirs) -> None:
    """Take some steps and wait for the last."""
    for _ in range(STEPS):
        side.step()
    if isinstance(side, Ours):
        side.B.to_data(side.parameters[-1])
    else:
        side.parameters[-1].block_until_ready()


def check_result(stack: str) -> None:
    """Check that some steps give the parameters that `jax.grad` gives.

    Raises
    ------
    AssertionError
        They do not.
    """
    ours, theirs = Ours(STACKS[stack]()), Theirs(COMPILED)
    for _ in range(20):
        ours.step()
        theirs.step()
    for a, b in zip(ours.parameters, theirs.parameters, strict=True):
        np.testing.assert_allclose(ours.B.to_data(a).reshape(a.shape), np.asarray(b), rtol=1e-3, atol=1e-5)


def compilations(step: Callable[[], None]) -> int:
    """Return how many programs a call compiles."""
    compiled: list[str] = []

    def count(event: str, duration: float, **fields: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        step()
        return len(compiled)
    finally:
        jax.monitoring.unregister_event_duration_listener(count)


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    options = arguments(__doc__.splitlines()[0]).parse_args()
    report = Report("autodiff", options.output)
    met = []
    for stack, make in STACKS.items():
        check_result(stack)
        if stack == "autodiff<cpu>":
            fresh = Ours(make())
            fresh.step()
            again = compilations(fresh.step)
            report.add("programs compiled by the second step", stack=stack, count=again)
            met.append(verdict(f"{stack}: programs that the second step compiles", again, 0))
    for row in ROWS:
        names = {"run": run, "side": Ours(STACKS[row.stack]())}
        run(names["side"])
        found = compare(
            Side("run(side)", names),
            Side("run(side)", {"run": run, "side": Theirs(row.update)}),
            rounds=options.rounds,
            round_ms=1.0,
        )
        report.add(f"{row.stack} {row.name}", found, steps=STEPS, goal=row.goal)
        label = f"{row.stack} {row.name} ({found.ours_us / STEPS:.0f} and {found.theirs_us / STEPS:.0f} us a step)"
        if row.goal is None:
            print(f"     {label}: {found.ratio:.3g}")
        else:
            met.append(verdict(label, found.ratio, row.goal))
    report.save()
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
