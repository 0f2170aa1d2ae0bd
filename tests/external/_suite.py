"""How the runners of other projects' suites start pytest and read its result."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# JAX's own settings may be set in the caller's shell; the suites are to see the defaults.
_SETTINGS = ("JAX_ENABLE_X64", "JAX_DEFAULT_DTYPE_BITS", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_NUMPY_DTYPE_PROMOTION")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of pytest came to, counted from its JUnit report."""

    passed: int
    failed: int
    skipped: int
    status: int

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped or xfailed"


def parser(description: str) -> argparse.ArgumentParser:
    """The options that all runners share."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--workers", type=int, default=2, help="processes of pytest-xdist; 0 runs in one process")
    result.add_argument(
        "--cache",
        type=Path,
        default=os.environ.get("RTX_JAX_TEST_CACHE"),
        help="folder of JAX's compilation cache (default: $RTX_JAX_TEST_CACHE, or none); a second run is much faster",
    )
    result.add_argument("--least", type=int, default=1, help="fail where fewer tests than this pass")
    result.add_argument("options", nargs="*", help="further options of pytest, after --")
    return result


def run(
    arguments: Sequence[str],
    *,
    workers: int,
    cache: Path | None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Outcome:
    """Run pytest in a process of its own.

    Parameters
    ----------
    arguments
        Options and paths for pytest.
    workers
        Processes of pytest-xdist; 0 for none.
    cache
        Folder of JAX's persistent compilation cache, or None.
    environment
        Variables to add.
    folder
        Where to run; by default a temporary one, so that files that tests write do not stay.

    Returns
    -------
    Outcome
        Counts and pytest's exit status.
    """
    variables = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), str(HERE), os.environ.get("PYTHONPATH")]))
    if cache is not None:
        variables["JAX_COMPILATION_CACHE_DIR"] = str(Path(cache).resolve())
    variables |= environment or {}
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        # The suite may be installed inside of this project, whose settings of pytest are not its own.
        settings = Path(scratch) / "pytest.ini"
        settings.write_text("[pytest]\n", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            *(
                "-p",
                "worker_cache_plugin",
                "-p",
                "no:cacheprovider",
                "-q",
                "--tb=short",
                f"--junit-xml={report}",
                "-o",
                "junit_logging=no",
            ),
            *(() if folder else ("-c", str(settings))),
            *(("-n", str(workers), "--dist", "worksteal") if workers else ()),
            *arguments,
        ]
        status = subprocess.run(command, cwd=folder or scratch, env=variables).returncode
        return _read(report, status)


def _read(report: Path, status: int) -> Outcome:
    if not report.exists():
        return Outcome(0, 0, 0, status or 1)
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return Outcome(total - failed - skipped, failed, skipped, status)


def conclude(name: str, outcome: Outcome, least: int) -> int:
    """Print the counts and return the exit status: 0 where nothing failed and enough passed."""
    print(f"{name}: {outcome}")
    if outcome.passed < least:
        print(f"{name}: wanted at least {least} passed tests; was the suite found?")
        return 1
    return 1 if outcome.failed or outcome.status not in (0, 5) else 0
