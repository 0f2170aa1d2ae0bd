"""Run the array API standard's own test suite on rtx_jax, with nothing skipped and nothing expected to fail.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests
    python tests/external/run_array_api_tests.py array-api-tests --max-examples 100 --seeds 1 2 3

The suite is in no package, so the folder of a checkout is given, with its ``array-api`` submodule at the commit that it
pins. JAX keeps its default settings. The exit status is 0 where no seed fails.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from _suite import Outcome, conclude, parser, run


def commit(folder: Path) -> str:
    """The commit of a checkout, or a remark where there is none or where files differ from it."""
    answers = [
        subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
        for words in (("rev-parse", "HEAD"), ("status", "--porcelain"))
    ]
    if any(answer.returncode for answer in answers):
        return "no git checkout"
    return answers[0].stdout.strip() + (", with changes" if answers[1].stdout.strip() else "")


def main() -> int:
    """Run the suite once for each seed; the exit status for the shell."""
    own = parser(__doc__)
    own.add_argument("folder", type=Path, help="a checkout of data-apis/array-api-tests")
    own.add_argument("--max-examples", type=int, default=100, help="examples of Hypothesis for each test")
    own.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="seeds of Hypothesis, a run for each")
    options = own.parse_args()
    folder = options.folder.resolve()
    if not (folder / "array_api_tests").is_dir():
        own.error(f"{folder} is not a checkout of array-api-tests")
    print(f"array-api-tests at {commit(folder)}")
    outcomes: dict[int, Outcome] = {}
    status = 0
    for seed in options.seeds:
        outcomes[seed] = run(
            [
                *("--max-examples", str(options.max_examples), f"--hypothesis-seed={seed}", "--disable-deadline"),
                *("--skips-file", os.devnull, "--xfails-file", os.devnull),
                *options.options,
                "array_api_tests",
            ],
            workers=options.workers,
            cache=options.cache,
            environment={
                "ARRAY_API_TESTS_MODULE": "rtx_jax",
                "ARRAY_API_TESTS_VERSION": "2025.12",
                "HYPOTHESIS_STORAGE_DIRECTORY": tempfile.mkdtemp(prefix="examples-"),
            },
            folder=folder,
        )
    print()
    for seed, outcome in outcomes.items():
        status |= conclude(f"array-api-tests, {options.max_examples} examples, seed {seed}", outcome, options.least)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
