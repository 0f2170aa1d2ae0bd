"""Measurements of a toy operation: who ran, who could not, and what the rates are of."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from rtx_jax.bench import Report, draw
from rtx_jax.bench.contender import Contender, Problem, Ready, compiled, relative_error
from rtx_jax.bench.measure import environment, measure, measure_all
from rtx_jax.errors import BackendLimitation, FeatureRequired, OutOfMemory

CPU = jax.devices("cpu")[0]
X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def problem(length: int = 3, direction: str = "forward") -> Problem:
    return Problem(
        "toy", "plain", direction, length, {"x": X}, 1e6, 1e3, error=lambda results: relative_error(results[0], 2.0 * X)
    )


def doubled(problem: Problem, device: jax.Device) -> Ready:
    return compiled(lambda x: x + x, [problem.operands["x"]], device)


def wrong(problem: Problem, device: jax.Device) -> Ready:
    return compiled(lambda x: 2.2 * x, [problem.operands["x"]], device)


def refused(problem: Problem, device: jax.Device) -> Ready:
    raise FeatureRequired("bench", got="no package toy", feature="toy")


def broken(problem: Problem, device: jax.Device) -> Ready:
    def call() -> object:
        raise ValueError("a fault of the peer\nwith a second line")

    return Ready(call, list)


OURS = Contender("rtx_jax", doubled)


def test_errors_are_relative_to_the_largest_element() -> None:
    first, second, yardstick = measure(problem(), [OURS, Contender("peer", wrong)], CPU, bound="memory", rounds=1)
    assert first.error == 0.0
    assert second.error == pytest.approx(0.1, rel=1e-5)
    assert yardstick.error is None
    assert yardstick.note == "yardstick"


def test_rates_and_shares() -> None:
    ours, yardstick = measure(problem(), [OURS], CPU, bound="memory", rounds=1)
    assert ours.best_ms is not None and yardstick.best_ms is not None
    assert ours.gbytes == pytest.approx(1e3 / (ours.best_ms * 1e-3) / 1e9)
    assert ours.tflops == pytest.approx(1e6 / (ours.best_ms * 1e-3) / 1e12)
    assert ours.slower == 1.0
    # The yardstick passes over as many bytes: 500 read and 500 written.
    assert yardstick.moved_bytes == 1000
    assert ours.gbytes is not None and yardstick.gbytes is not None
    assert ours.share == pytest.approx(ours.gbytes / yardstick.gbytes)


def test_the_yardstick_of_arithmetic_is_a_product() -> None:
    ours, yardstick = measure(problem(), [OURS], CPU, bound="arithmetic", rounds=1)
    assert yardstick.flops == 2.0 * 512**3
    assert ours.tflops is not None and yardstick.tflops is not None
    assert ours.share == pytest.approx(ours.tflops / yardstick.tflops)


def test_a_peer_that_cannot_run_leaves_a_note() -> None:
    contenders = [OURS, Contender("absent", refused), Contender("broken", broken)]
    _, absent, faulty, _ = measure(problem(), contenders, CPU, bound="memory", rounds=1)
    assert (absent.best_ms, absent.error, absent.note) == (None, None, "bench: got no package toy")
    assert faulty.note == "a fault of the peer"


def test_ours_may_not_fail() -> None:
    def limited(problem: Problem, device: jax.Device) -> Ready:
        raise BackendLimitation("toy", got="this", wanted="that")

    with pytest.raises(BackendLimitation):
        measure(problem(), [Contender("rtx_jax", limited)], CPU, bound="memory", rounds=1)


def test_a_program_that_does_not_fit_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtx_jax.bench.contender._free_bytes", lambda device: 10)
    with pytest.raises(OutOfMemory, match="wanted at most 0.0 GiB, which is free") as caught:
        doubled(problem(), CPU)
    assert caught.value.size == X.nbytes


def test_temporary_memory_is_that_of_the_program() -> None:
    def product(x: jax.Array) -> jax.Array:
        return ((x[:, None] * x[None]) @ x).sum()

    x = np.ones(512, np.float32)
    ready = compiled(product, [x], CPU)
    program = jax.jit(product).lower(x).compile()
    assert ready.temp_bytes == program.memory_analysis().temp_size_in_bytes


def report() -> Report:
    problems = [problem(length, direction) for direction in ("forward", "backward") for length in (3, 6)]
    contenders = [OURS, Contender("peer", wrong), Contender("absent", refused)]
    seen: list[str] = []
    made = measure_all("toy", "memory", problems, contenders, CPU, rounds=1, settings={"size": 3}, progress=seen.append)
    assert seen == ["plain forward 3", "plain forward 6", "plain backward 3", "plain backward 6"]
    return made


def test_a_report_is_plain_values() -> None:
    made = report()
    content = json.loads(json.dumps(made.as_dict()))
    assert content["operation"] == "toy"
    assert content["settings"] == {"size": 3}
    assert content["environment"]["jax"] == jax.__version__
    assert len(content["measurements"]) == 4 * 4
    first = content["measurements"][0]
    assert first["contender"] == "rtx_jax"
    assert first["gbytes"] == made.measurements[0].gbytes


def test_a_plot_is_drawn() -> None:
    png = draw(report())
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) > 10_000


def test_the_environment_names_the_device() -> None:
    facts = environment(CPU)
    assert facts["platform"] == "cpu"
    assert facts["device"] == CPU.device_kind
    assert facts["numpy"] == np.__version__
