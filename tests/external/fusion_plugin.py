"""A pytest plugin that runs every test inside of one `rtx_jax.fusion`, and tells what share of operations ran together.

With pytest-xdist each process has a context of its own; the figures are added up.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rtx_jax

_FIELDS = ("recorded", "runs", "grouped", "fused", "compiled")
_totals = dict.fromkeys(_FIELDS, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    statistics = None
    try:
        with rtx_jax.fusion() as statistics:
            return (yield)
    finally:
        assert statistics is not None
        for field in _FIELDS:
            _totals[field] += getattr(statistics, field)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["fusion"] = dict(_totals)


class _Controller:
    def pytest_testnodedown(self, node: object) -> None:
        for field, value in getattr(node, "workeroutput", {}).get("fusion", {}).items():
            _totals[field] += value


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("dsession") or config.getoption("dist", "no") != "no":
        config.pluginmanager.register(_Controller())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    recorded = _totals["recorded"]
    if recorded:
        share = _totals["grouped"] / recorded
        terminalreporter.write_line(
            f"fusion: {recorded} operations recorded, {share:.0%} ran in graphs of two or more; {_totals['runs']} runs,"
            f" {_totals['compiled']} programs compiled, {_totals['fused']} operations in them"
        )
