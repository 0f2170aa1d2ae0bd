"""Run scikit-learn's own array API tests, as its wheel ships them, on rtx_jax.

    python tests/external/run_sklearn.py [--workers 2] [--cache FOLDER] [--fusion] [-- pytest options]

With ``--fusion`` each test runs in one `rtx_jax.fusion`, and what share of the recorded operations ran in graphs of two
or more is printed. The exit status is 0 where none fails. The tests listed in deselected_sklearn.txt are left out, each
for a reason in scikit-learn that is given there.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from _suite import conclude, parser, run

# What a test file contains that takes its namespaces from the plugin, directly or through the common checks.
_MARKS = ("yield_namespace", "yield_mixed_namespace", "_array_api", "parametrize_with_checks")


def test_files() -> list[str]:
    """The test files of the installed scikit-learn that test array namespaces."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise SystemExit("scikit-learn is not installed: pip install 'rtx-jax[test]'")
    files = sorted(Path(spec.origin).parent.rglob("test_*.py"))
    return [str(file) for file in files if any(mark in file.read_text(encoding="utf-8") for mark in _MARKS)]


def main() -> int:
    """Run the suite; the exit status for the shell."""
    options_of = parser(__doc__)
    options_of.add_argument("--fusion", action="store_true", help="run every test inside of rtx_jax.fusion")
    options = options_of.parse_args()
    fusion = ["-p", "fusion_plugin"] if options.fusion else []
    outcome = run(
        ["-p", "sklearn_plugin", *fusion, "-k", "rtx_jax", *options.options, *test_files()],
        workers=options.workers,
        cache=options.cache,
        environment={"SCIPY_ARRAY_API": "1", "SKLEARN_SKIP_NETWORK_TESTS": "1"},
    )
    return conclude("scikit-learn", outcome, options.least)


if __name__ == "__main__":
    raise SystemExit(main())
