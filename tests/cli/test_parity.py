"""rtx-jax parity as a person runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from rtx_jax import cli

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("RTX_JAX_CACHE_DIR", str(tmp_path / "cache"))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rtx-jax", "parity", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


def test_everything_right(command: Command, tmp_path: Path) -> None:
    page, data = tmp_path / "page.html", tmp_path / "report.json"
    status, out, err = command(
        "--op", "iinfo", "--op", "linalg.outer", "--dtype", "int32", "--html", page, "--json", data
    )
    assert status == 0, out + err
    assert "Every bound is kept: 2 operations, 4 outcomes" in out
    assert "linalg.outer" in out
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(data.read_text())["passed"] is True


def test_a_broken_bound(command: Command) -> None:
    status, out, err = command("--op", "cos", "--dtype", "float32", "--fault", "cos=ulp")
    assert status == 1, err
    assert "cos float32 eager: failed" in out
    assert "ULP away, the bound is" in out
    assert "xp.asarray(" in out
    assert "outcomes are not right" in out


def test_a_stack(command: Command) -> None:
    status, out, err = command("--backend", "quantized<numpy>", "--op", "backend.relu", "--dtype", "float32")
    assert status == 0, out + err
    assert "Parity of quantized<numpy>" in out


def test_an_unknown_stack(command: Command) -> None:
    status, _, err = command("--backend", "quantized<abacus>", "--op", "backend.relu")
    assert status == 2
    assert "'abacus'" in err and "cpu, numpy" in err


def test_a_crash(command: Command) -> None:
    status, out, _ = command("--op", "cos", "--op", "finfo", "--dtype", "float32", "--isolate", "--fault", "cos=crash",
                             "--timeout", 60)  # fmt: skip
    assert status == 1
    assert "cos float32 eager: crashed" in out
    assert "SIGABRT" in out
    assert "passed" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--op", "sine"), "argument op: got 'sine'"),
        (("--dtype", "float3"), "argument dtype: got 'float3'"),
        (("--device", "abacus"), "'abacus'"),
        (("--html", "none/page.html"), "argument --html: got none/page.html"),
        (("--fault", "sin"), "wanted NAME=FAULT"),
    ],
)
def test_bad_input_is_one_line(command: Command, arguments: tuple[str, ...], words: str) -> None:
    status, _, err = command(*arguments)
    assert status == 2
    assert words in err
    assert "Traceback" not in err


@pytest.fixture(autouse=True)
def _no_cache_on_disk():
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs",
             "jax_persistent_cache_min_entry_size_bytes")  # fmt: skip
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
