"""rtx-jax bench and rtx-jax tune as a person runs them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rtx_jax import cli
from rtx_jax.bench import tuner
from rtx_jax.kernels import tuning

Command = Callable[..., tuple[int, str, str]]
SMALL = ("--heads", 2, "--size", 8, "--device", "cpu", "--rounds", 1)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("RTX_JAX_CACHE_DIR", str(tmp_path / "cache"))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rtx-jax", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


def test_a_table_a_file_and_a_plot(command: Command, tmp_path: Path) -> None:
    data, plot = tmp_path / "attention.json", tmp_path / "attention.png"
    status, out, err = command(
        "bench", "attention", "--length", 32, "--length", 64, "--direction", "forward", "--implementation", "auto",
        "--implementation", "reference", "--fast", "--json", data, "--plot", plot, *SMALL,
    )  # fmt: skip
    assert status == 0, out + err
    for words in ("attention on cpu", "causal forward", "jax.nn", "rtx_jax reference", "rtx_jax fast", "TFLOP/s"):
        assert words in out
    assert "did not run: cuDNN: bench: got cpu, wanted an NVIDIA GPU (causal forward)" in out
    content = json.loads(data.read_text())
    assert content["settings"]["heads"] == content["settings"]["key_heads"] == 2
    ours = [item for item in content["measurements"] if item["contender"] == "rtx_jax"]
    assert [item["length"] for item in ours] == [32, 64]
    assert all(item["error"] < 1e-5 and item["tflops"] > 0 for item in ours)
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_what_is_bound_by_memory_has_bytes(command: Command) -> None:
    status, out, err = command("bench", "norm", "--length", 64, "--width", 32, "--device", "cpu", "--rounds", 1)
    assert status == 0, out + err
    for words in ("rms_norm forward", "rms_norm backward", "GB/s", "of copy", "jax.numpy"):
        assert words in out


def test_no_figure_is_cut_in_a_narrow_output(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    status, out, err = command("bench", "norm", "--length", 16, "--width", 8, "--device", "cpu", "--rounds", 1)
    assert status == 0, out + err
    assert "…" not in out
    assert "rms_norm backward" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sums",), "argument operation: got 'sums', wanted one of attention"),
        (("attention", "--variant", "sideways"), "argument --variant: got 'sideways', wanted one of causal"),
        (("attention", "--key-heads", 3), "argument --key-heads: got 3, wanted a divisor of 8 heads"),
        (("attention", "--dtype", "float31"), "float31"),
        (("attention", "--device", "abacus"), "abacus"),
        (("attention", "--json", "none/report.json"), "argument --json: got none/report.json"),
        (("attention", "--plot", "none/plot.png"), "argument --plot: got none/plot.png"),
        (("attention", "--plot", "plot.pdf"), "argument --plot: got plot.pdf, wanted a file that ends in .png"),
        (("attention", "--json", "."), "argument --json: got ., wanted a file"),
        # What would change nothing.
        (
            ("rope", "--fast"),
            "argument --fast: got it, wanted no such option, which rope does not have. There is --dtype",
        ),
        (("norm", "--heads", 2), "argument --heads: got 2, wanted no such option"),
        (("cross-entropy", "--implementation", "xla"), "argument --implementation: got ['xla'], wanted no such option"),
        (("attention", "--window", 9), "argument --window: got 9, wanted --variant window with it"),
    ],
)
def test_what_cannot_be_measured(command: Command, arguments: tuple[object, ...], message: str) -> None:
    status, out, err = command("bench", *arguments)
    assert (status, out.strip()) == (2, "")
    assert err.startswith("error: rtx-jax bench")
    assert message in err


def test_an_implementation_that_cannot_run_here_says_why(command: Command) -> None:
    status, _, err = command("bench", "attention", "--length", 32, "--implementation", "pallas_tpu", *SMALL)
    assert status == 2
    assert "pallas_tpu" in err


def test_tuning(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "candidates", lambda blocks, direction: [blocks, replace(blocks, query=16)])
    status, out, err = command("tune", "--length", 32, "--direction", "forward", *SMALL)
    assert status == 0, out + err
    assert "attention.xla.forward" in out
    assert "float32 causal queries=32 keys=32" in out


def test_tuning_the_loss(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "candidates", lambda blocks, direction: [blocks])
    options = ("--length", 16, "--width", 8, "--vocabulary", 32, "--device", "cpu", "--rounds", 1)
    status, out, err = command("tune", "cross-entropy", *options)
    assert status == 0, out + err
    assert "cross_entropy.xla.forward" in out and "cross_entropy.xla.backward" in out


def test_what_is_stored(command: Command) -> None:
    status, out, err = command("tune", "--show")
    assert status == 0, err
    assert "Nothing is stored in" in out
    tuning.store(tuning.Entry("attention.xla.forward", "cpu", "float32 causal", {"query": 64}, 900.0, 1200.0))
    status, out, err = command("tune", "--show")
    assert status == 0, err
    for words in ("attention.xla.forward", "float32 causal", "query 64", "1.200", "0.900"):
        assert words in out
    status, out, err = command("tune", "--forget")
    assert (status, out) == (0, "Removed 1 entry: all kernels take their default blocks.\n")
    assert tuning.entries() == []


def test_what_cannot_be_tuned(command: Command) -> None:
    status, _, err = command("tune", "--length", 32, "--implementation", "pallas_triton", *SMALL)
    assert status == 2
    assert "pallas_triton" in err
    status, _, err = command("tune", "rope")
    assert status == 2 and "got 'rope', wanted 'attention', 'decode', 'cross-entropy'" in err
    status, _, err = command("tune", "decode", "--width", 8)
    assert status == 2 and "argument --width: got 8, wanted no such option, which decode does not have" in err


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, out, err = command("bench", "attention", "--plot", tmp_path / "plot.png")
    assert (status, out.strip()) == (2, "")
    assert "got no package matplotlib. pip install matplotlib" in err
