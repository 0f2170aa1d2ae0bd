"""Run SciPy's own array API tests, as its wheel ships them, on rtx_jax.

    python tests/external/run_scipy.py --packages fft special cluster [--workers 2] [--cache FOLDER] [-- pytest options]
    python tests/external/run_scipy.py

The tests listed in deselected_scipy.txt are left out, each for a reason in SciPy that is given there.
"""

from __future__ import annotations

from _suite import conclude, parser, run

PACKAGES = (
    "cluster",
    "fft",
    "special",
    "differentiate",
    "integrate",
    "linalg",
    "optimize",
    "signal",
    "spatial",
    "stats",
    "ndimage",
)


def main() -> int:
    """Run the sub-packages; the exit status for the shell."""
    own = parser(__doc__)
    own.add_argument("--packages", nargs="+", default=["all"], choices=[*PACKAGES, "all"], help="sub-packages of SciPy")
    options = own.parse_args()
    packages = PACKAGES if "all" in options.packages else options.packages
    status = 0
    for package in packages:
        outcome = run(
            ["-p", "scipy_plugin", "-m", "array_api_backends", *options.options, "--pyargs", f"scipy.{package}"],
            workers=options.workers,
            cache=options.cache,
            environment={"SCIPY_ARRAY_API": "1"},
        )
        status |= conclude(f"scipy.{package}", outcome, options.least)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
