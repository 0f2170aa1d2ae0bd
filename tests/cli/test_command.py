"""The command as a person runs it: what it prints, the file it writes and its exit status."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rtx_jax import cli
from rtx_jax.cli import demo as demo_module
from rtx_jax.cli import info
from rtx_jax.cli.workload import Workload

Command = Callable[..., tuple[int, str, str]]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("RTX_JAX_CACHE_DIR", str(tmp_path / "cache"))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rtx-jax", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    lines = ["length,width,kind"]
    for name, centre in (("rose", 1.0), ("tulip", 3.0), ("daisy", 6.0)):
        lines += [f"{centre + a:.3f},{2 * centre + b:.3f},{name}" for a, b in rng.normal(size=(20, 2))]
    path = tmp_path / "flowers.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_demo_on_a_file(command: Command, flowers: Path, tmp_path: Path, dtype: str) -> None:
    output = tmp_path / "out.png"
    status, out, err = command(
        "demo", "--input", flowers, "--target", "kind", "--dtype", dtype, "--output", output, "--repeats", 1
    )
    assert status == 0, out + err
    assert output.read_bytes().startswith(PNG)
    assert "60 rows, 2 columns, 3 classes" in out
    assert "LinearDiscriminantAnalysis" in out
    assert "All scores agree" in out


def test_demo_fails_when_scores_disagree(
    command: Command, flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Workload._reduce
    monkeypatch.setattr(Workload, "_reduce", lambda self: right(self) + (self._xp is not np))
    status, out, _ = command(
        "demo", "--input", flowers, "--target", "kind", "--output", tmp_path / "out.png", "--repeats", 1
    )
    assert status == 1
    assert "The scores disagree in: reduce" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "{csv}", "--target", "colour"), "argument --target: got 'colour', wanted a column of"),
        (("--input", "{csv}"), "argument --target: got nothing"),
        (("--target", "kind"), "argument --target: got a target without a file"),
        (("--input", "none.csv", "--target", "kind"), "argument --input: got none.csv (No such file or directory)"),
        (("--input", "{csv}", "--target", "kind", "--device", "abacus"), "argument device: got 'abacus'"),
        (("--input", "{csv}", "--target", "kind", "--device", "cpu:99"), "argument device: got 'cpu:99'"),
        (("--output", "none/out.png"), "argument --output: got none/out.png (No such file or directory)"),
    ],
)
def test_bad_input_is_one_line(
    command: Command,
    flowers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.glob("*.*"))
    status, _, err = command("demo", *(part.format(csv=flowers) for part in arguments))
    assert status == 2
    assert message in err
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.glob("*.*")) == before


def test_text_in_a_column(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,y\n1,0.5\nred,1.5\n")
    status, _, err = command("demo", "--input", path, "--target", "y")
    assert status == 2
    assert "got 'red' in column 'a', line 3" in err


def test_unknown_dtype_is_refused(command: Command) -> None:
    status, _, err = command("demo", "--dtype", "float8")
    assert status == 2
    assert "float32" in err


def test_info(command: Command) -> None:
    status, out, err = command("info")
    assert status == 0, err
    for word in ("Python", "jax", "jaxlib", "numpy", "cpu", "cuda", "rocm", "tpu", "metal", "Default dtypes", "cache"):
        assert word in out
    assert "not here:" in out


def test_the_reason_keeps_its_brackets(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setattr(info, "platforms", lambda: {"rocm": "pip install 'rtx-jax[rocm]'"})
    _, out, _ = command("info")
    assert "rtx-jax[rocm]" in out


def test_help_lists_the_commands(command: Command) -> None:
    status, out, _ = command("--help")
    assert status == 0
    assert "info" in out
    assert "demo" in out


def test_demo_turns_scipy_support_on_by_itself() -> None:
    code = "import os; os.environ.pop('SCIPY_ARRAY_API', None)\nimport sys; sys.argv = ['rtx-jax', '--help']\n"
    code += "from rtx_jax.cli import main\ntry: main()\nexcept SystemExit: pass\nprint(os.environ['SCIPY_ARRAY_API'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "1"


def test_missing_packages_say_how_to_install_them() -> None:
    code = "import sys; sys.modules['typer'] = None\nfrom rtx_jax.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'rtx-jax[demo]'" in done.stderr


def test_the_default_dtype_is_the_widest() -> None:
    assert demo_module.widest("rtx_jax", None) == "float64"


def test_version(command: Command) -> None:
    status, out, _ = command("--version")
    assert status == 0
    assert out.startswith("rtx-jax ")
