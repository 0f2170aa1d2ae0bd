"""The process in which isolated operations run: ``python -m rtx_jax.parity.worker CACHE``, spoken to in lines of JSON.

It imports everything once and starts no device; each operation then runs in a fork of it, where the platform has fork.
It says that it is ready; then a line with a job gives a line for each outcome and a last one with the exit status.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import warnings
from typing import TextIO, cast

from .._cache import enable_compilation_cache
from .faults import Fault
from .plan import Cell
from .results import plain
from .runner import run_operation
from .session import suites

__all__ = ["main"]


def main() -> None:
    """Answer jobs until the input ends."""
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    if len(sys.argv) > 1 and sys.argv[1]:
        enable_compilation_cache(sys.argv[1])
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        status = _in_fork(job, answers) if hasattr(os, "fork") else _here(job, answers)
        print(json.dumps({"end": status}), file=answers, flush=True)


def _in_fork(job: dict[str, object], answers: TextIO) -> int:
    with warnings.catch_warnings():
        # JAX warns of forks after a device was started, which has not happened here.
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _here(job, answers)
            answers.flush()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _here(job: dict[str, object], answers: TextIO) -> int:
    backend = job["backend"]
    # The text comes from the process that started this one, of its own backend.
    found = suites(
        cast("str | None", job["device"]),
        None if backend is None else pickle.loads(base64.b64decode(cast(str, backend))),
    )
    face, table = found[cast(int, job["suite"])]
    operation = table[cast(int, job["place"])]
    cells = [Cell(*cell) for cell in cast(list[list[object]], job["cells"])]  # type: ignore[arg-type]
    for outcome in run_operation(face, operation, cells, cast("Fault | None", job["fault"])):
        print(json.dumps({"outcome": plain(outcome)}), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    main()
