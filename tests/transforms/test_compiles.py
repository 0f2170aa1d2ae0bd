"""explain_compiles: what was traced and compiled, and why."""

from __future__ import annotations

import rtx_jax as xp


def test_reasons() -> None:
    def scale(x: xp.Array, n: int, tree: dict[str, xp.Array]) -> xp.Array:
        return x * n + tree["a"]

    f = xp.jit(scale, static_argnums=1)
    x, y = xp.ones(3), xp.ones(4)
    narrow = xp.ones(3, dtype=xp.float32)
    with xp.explain_compiles() as report:
        f(x, 1, {"a": x})
        f(x, 1, {"a": x})
        f(y, 1, {"a": y})
        f(x, 1, {"a": narrow})
        f(x, 2, {"a": x})
        f(x, 1, {"a": x, "b": x})
    reasons = [event.reason for event in report.traces]
    assert reasons[0] == "first call"
    assert reasons[1] == "x: shape (3,) -> (4,); tree['a']: shape (3,) -> (4,)"
    assert reasons[2] == "tree['a']: dtype float64 -> float32"
    assert reasons[3] == "n: static 1 -> 2"
    assert reasons[4].startswith("structure of the arguments")
    assert len(reasons) == 5
    assert all(event.name == "scale" for event in report.traces)
    compiled = [event for event in report.compiles if "scale" in event.name]
    assert len(compiled) == 5
    assert all(event.duration_s > 0 and event.at_s > 0 for event in compiled)
    assert "scale" in str(report)


def test_a_captured_array_with_another_shape() -> None:
    box = xp.ones(2)
    f = xp.jit(lambda: box * 2.0)
    f()
    box = xp.ones(3)
    with xp.explain_compiles() as report:
        f()
    assert "captured Array" in report.traces[0].reason


def test_nothing_to_report() -> None:
    with xp.explain_compiles() as report:
        pass
    assert report.events == []
    assert str(report) == "nothing was compiled"
