"""Runs each operation in a process of its own, and goes on where one crashes or hangs."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, cast

import jax

from ..backend import Backend
from ..backend.core import Tensor
from ..errors import Internal
from .faults import Fault
from .plan import Cell
from .results import Failure, Outcome, Status, outcome_from
from .session import Progress, Task

__all__ = ["run_isolated"]

# Before its first job a worker imports everything.
_START_S = 300.0


def run_isolated(
    todo: Sequence[Task],
    device: str | None,
    backend: Backend[Tensor] | None,
    faults: Mapping[str, Fault],
    timeout_s: float,
    jobs: int,
    progress: Progress | None,
) -> Iterator[Outcome]:
    """Run the tasks, each in a fork of one of `jobs` workers, which are replaced when they die.

    The outcomes come in the order of the tasks.
    """
    pickled = None if backend is None else base64.b64encode(pickle.dumps(backend)).decode()
    workers: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    every = [_Worker() for _ in range(min(jobs, max(len(todo), 1)))]
    for worker in every:
        workers.put(worker)

    def one(task: Task) -> list[Outcome]:
        worker = workers.get()
        try:
            return list(_one(worker, task, device, pickled, faults.get(task.operation.name), timeout_s))
        finally:
            workers.put(worker)

    pool = ThreadPoolExecutor(len(every))
    try:
        running = [pool.submit(one, task) for task in todo]
        for done, (task, result) in enumerate(zip(todo, running, strict=True)):
            if progress:
                progress(done, len(todo), task.operation.name)
            yield from result.result()
        if progress:
            progress(len(todo), len(todo), "")
    finally:
        # Where the caller stops early: no new task begins, and the end of its process ends a running one.
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in every:
            worker.close()


def _one(
    worker: _Worker,
    task: Task,
    device: str | None,
    backend: str | None,
    fault: Fault | None,
    timeout_s: float,
) -> Iterator[Outcome]:
    job: dict[str, object] = {
        "suite": task.suite, "place": task.place, "device": device, "backend": backend, "fault": fault,
        "cells": [[cell.dtype, cell.mode, cell.edges] for cell in task.cells],
    }  # fmt: skip
    left = list(task.cells)
    worker.send(job)
    while True:
        answer = worker.receive(timeout_s)
        if answer is None:
            worker.stop()
            yield from _lost(task, left, "hung", f"gave no result for {timeout_s:g} s and was stopped")
            return
        if "outcome" in answer:
            left.pop(0)
            yield outcome_from(cast("dict[str, object]", answer["outcome"]))
            continue
        status = cast(int, answer["end"])
        if status != 0 or left:
            yield from _lost(task, left or task.cells[-1:], "crashed", _death(status, worker.last_words()))
        return


def _lost(task: Task, left: Sequence[Cell], status: Status, what: str) -> Iterator[Outcome]:
    """Report the cell in which the process ended, and those that it did not come to."""
    for number, cell in enumerate(left):
        first = f"{left[0].dtype} {left[0].mode}"
        text = f"its process {what}" if number == 0 else f"not run: its process {what} in {first}"
        edge = (cell.edges or (task.operation.cases[0].edge,))[0]
        code = f"rtx-jax parity --isolate --op {task.operation.name} --dtype {cell.dtype}"
        yield Outcome(task.operation.name, cell.dtype, cell.mode, status, failure=Failure(edge, text, code))


def _death(status: int, words: str) -> str:
    if status < 0:
        try:
            reason = f"died of {signal.Signals(-status).name}"
        except ValueError:
            reason = f"died of signal {-status}"
    else:
        reason = f"ended with status {status}"
    return f"{reason}: {words}" if words else reason


class _Worker:
    """A worker process, started when there is something to do."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[dict[str, object]] = queue.Queue()
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._mark = 0

    def send(self, job: dict[str, object]) -> None:
        """Give it a job."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        self._mark = self._errors.seek(0, os.SEEK_END)
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def receive(self, seconds: float) -> dict[str, object] | None:
        """Return the next answer, or None when there is none in time; a death is the end with its status."""
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            return None

    def last_words(self) -> str:
        """Return the last line that the process wrote to its standard error during the job."""
        self._errors.seek(self._mark)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

    def stop(self) -> None:
        """End the process and its forks."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
            self._process = None

    def close(self) -> None:
        """End it for good."""
        self.stop()
        self._errors.close()

    def _start(self) -> None:
        self.stop()
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self._answers = queue.Queue()
        cache = getattr(jax.config, "jax_compilation_cache_dir", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rtx_jax.parity.worker", str(cache or "")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=_listen, args=(self._process, self._answers), daemon=True).start()
        first = self.receive(_START_S)
        if first is None or "ready" not in first:
            words = self.last_words()
            self.stop()
            raise Internal(
                "parity", got=f"a worker that does not start: {words}", wanted="a process to run operations in"
            )


def _listen(process: subprocess.Popen[str], answers: queue.Queue[dict[str, object]]) -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError):
        for line in process.stdout:
            with contextlib.suppress(json.JSONDecodeError):
                answers.put(json.loads(line))
    answers.put({"end": process.wait()})
