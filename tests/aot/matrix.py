"""Compile every program for every device that this environment has the tool for, and write the table of the docs.

    python -m tests.aot.matrix [--python ENVIRONMENT/bin/python ...] [--output docs/aot.md] [--only attention]

With ``--python`` each of those interpreters compiles for the devices that its own environment has the tool for, and the
results are joined: one has libtpu, another the CUDA plugin. Exits with 1 where a program does not compile, has no
kernel in its text, spills registers or takes more memory than it may.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Row", "main", "table"]

HEAD = """# Compiled for devices that are not here

Every kernel is compiled on a CPU for the devices below, forward and backward, so that one that no longer compiles fails
a test before it reaches such a device. The compilers are the real ones: libtpu for TPUs, XLA's CUDA plugin and ptxas
with a description of the card for the H200. For AMD's `gfx942` and for Metal, programs are lowered to StableHLO, which
their plugins compile on the machine itself.

Figures are MiB of temporary memory, from the compiler's own analysis: what a program takes beside its arguments and
results. `lowered` means that no memory is known, `-` that the implementation is not for that device. Shapes are in
`tests/aot/programs.py`. They are small, and so libtpu keeps most temporaries of a v5e and a v6e in the chip's vector
memory, which it does not count; the column of the v5p shows them. Where ptxas had to put registers of a kernel into
memory, the cell says how many bytes of each thread; anywhere else there is none.

"""
FOOT = """
## How to repeat it

Two environments, since libtpu and the CUDA plugin are each large:

```
python -m venv tpu && tpu/bin/pip install -e '.[test]' libtpu
python -m venv cuda && cuda/bin/pip install -e '.[test]'
cuda/bin/pip install --no-deps jax-cuda13-plugin jax-cuda13-pjrt nvidia-cuda-nvcc   # of the version of jax
JAX_PLATFORMS=cpu tpu/bin/python -m pytest tests/aot
JAX_PLATFORMS=cpu cuda/bin/python -m pytest tests/aot
JAX_PLATFORMS=cpu cuda/bin/python -m tests.aot.matrix --python tpu/bin/python --output docs/aot.md
```

In any other environment the tests of `tests/aot` skip what they have no compiler for, and say which one is missing.
"""


@dataclass(frozen=True)
class Row:
    """What one program gave on one device.

    Attributes
    ----------
    operation, implementation, direction, device
        Which.
    temp_bytes
        None where it was lowered alone.
    spilled_bytes
        Of each thread, where it may.
    fault
        What is wrong; empty where nothing is.
    """

    operation: str
    implementation: str
    direction: str
    device: str
    temp_bytes: int | None
    spilled_bytes: int
    fault: str


def here(only: str) -> list[Row]:
    """Compile what this environment can."""
    # The tests' process sets this up in conftest.py; both imports start JAX.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from tests.aot.check import fault_of
    from tests.aot.programs import PROGRAMS

    rows = []
    for case in PROGRAMS:
        for device in case.devices:
            if device.missing or only not in case.name:
                continue
            program, fault = fault_of(case, device)
            found = (None, 0) if program is None else (program.temp_bytes, program.spilled_bytes)
            rows.append(Row(case.operation, case.implementation, case.direction, device.name, *found, fault))
            print(f"{case.name} on {device.name}: {fault or 'compiled'}", file=sys.stderr)
    return rows


def there(python: str, only: str) -> list[Row]:
    """Compile what another environment can."""
    command = [python, "-m", "tests.aot.matrix", "--rows", "--only", only]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [Row(**json.loads(line)) for line in result.stdout.splitlines() if line.startswith('{"operation"')]


def table(rows: list[Row], devices: list[str]) -> str:
    """Write the rows as a table, one line for each program."""
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        line = cells.setdefault((row.operation, row.implementation, row.direction), {})
        if row.fault:
            line[row.device] = f"**{row.fault}**"
        elif row.temp_bytes is None:
            line[row.device] = "lowered"
        else:
            spills = f" (spills {row.spilled_bytes} bytes)" if row.spilled_bytes else ""
            line[row.device] = f"{row.temp_bytes / 2**20:.2f}{spills}"
    lines = [
        f"| operation | implementation | direction | {' | '.join(devices)} |",
        f"| --- | --- | --- |{' ---: |' * len(devices)}",
    ]
    lines += [
        f"| {operation} | `{implementation}` | {direction} | {' | '.join(line.get(name, '-') for name in devices)} |"
        for (operation, implementation, direction), line in cells.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run; the exit status is 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], help="the interpreter of another environment")
    parser.add_argument("--output", type=Path, help="the page to write")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--rows", action="store_true", help="print what this environment gives as JSON lines")
    options = parser.parse_args()
    rows = here(options.only)
    if options.rows:
        for row in rows:
            print(json.dumps(asdict(row)))
        return 0
    for python in options.python:
        rows += there(python, options.only)
    from tests.aot.programs import PROGRAMS
    from tests.aot.targets import DEVICES

    # Lowering needs no tool, so several environments have done it: one result of each is enough.
    found = {(row.operation, row.implementation, row.direction, row.device): row for row in rows}
    order = [(case.operation, case.implementation, case.direction, d.name) for case in PROGRAMS for d in case.devices]
    rows = [found[key] for key in order if key in found]
    have = {row.device for row in rows}
    text = table(rows, [device.name for device in DEVICES if device.name in have])
    print(text)
    if options.output is not None:
        import jax

        versions = f"Compiled with JAX {jax.__version__}.\n\n"
        options.output.write_text(HEAD + versions + text + FOOT, encoding="utf-8")
    wrong = [row for row in rows if row.fault]
    print(f"{len(rows)} programs, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
