"""Importing rtx_jax starts no device and changes no setting of JAX."""

from __future__ import annotations

import os
import subprocess
import sys


def run(code: str) -> str:
    """Run `code` in a process with JAX's default settings, and return what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "RTX_JAX_"))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_starts_no_device() -> None:
    assert (
        run("import rtx_jax\nfrom jax._src import xla_bridge\nprint(xla_bridge.backends_are_initialized())") == "False"
    )


def test_import_changes_no_setting() -> None:
    code = """
import jax
before = dict(jax.config.values)
import rtx_jax
after = dict(jax.config.values)
print({name for name in after if name in before and after[name] != before[name]})
"""
    assert run(code) == "set()"


def test_jax_numpy_keeps_its_default_types() -> None:
    code = """
import rtx_jax as xp, jax.numpy as jnp
x = xp.zeros(3) + 1
print(x.dtype, jnp.zeros(3).dtype, jnp.arange(3).dtype)
"""
    assert run(code) in ("float64 float32 int32", "float32 float32 int32")


def test_import_changes_no_environment_variable() -> None:
    assert run("import os\nbefore = dict(os.environ)\nimport rtx_jax\nprint(before == dict(os.environ))") == "True"


def test_import_loads_no_heavy_package() -> None:
    code = """
import sys, jax
before = set(sys.modules)
import rtx_jax
new = {name.partition('.')[0] for name in set(sys.modules) - before}
print(sorted(new & {'typer', 'rich', 'sklearn', 'matplotlib', 'pandas', 'torch', 'xarray', 'safetensors'}))
"""
    assert run(code) == "[]"
