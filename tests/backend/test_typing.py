"""Code for any backend passes the type checker, and a mix of two backends does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")


def check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_programs_for_any_backend_are_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="the type checker is in the extra 'dev'")
    result = check(PROGRAM)
    assert result.returncode == 0, result.stdout
    mixed = tmp_path / "mixed.py"
    mixed.write_text(
        "import numpy as np\nfrom rtx_jax.backend import CpuBackend\n"
        "x = CpuBackend().add(np.ones(2), np.ones(2))\nCpuBackend().addd(x, x)\n",
        encoding="utf-8",
    )
    wrong = check(mixed)
    assert wrong.returncode == 1 and "arg-type" in wrong.stdout and "attr-defined" in wrong.stdout
