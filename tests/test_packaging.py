"""What the installed package asks for: lower bounds only, no jaxlib, no device plugin, no ceiling."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXTRAS = {"cuda12", "cuda13", "rocm", "tpu", "metal", "mps", "demo", "test", "dev", "notebooks"}


def requirements() -> list[str]:
    return metadata.requires("rtx-jax") or []


def core_requirements() -> list[str]:
    return [line for line in requirements() if "extra ==" not in line]


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match.group().lower()


def test_core_requirements_are_few() -> None:
    assert {name_of(line) for line in core_requirements()} == {"jax", "numpy", "array-api-compat"}


def test_every_requirement_is_a_lower_bound() -> None:
    for line in requirements():
        versions = line.partition(";")[0]
        assert not re.search(r"==|<|~=|!=", versions), line


def test_no_jaxlib_and_no_plugin_in_the_core() -> None:
    for line in core_requirements():
        assert not re.match(r"jaxlib|libtpu|jax[-_](cuda|rocm|metal|mps)|jax\[", line), line


def test_lowest_jax() -> None:
    assert "jax>=0.10.2" in core_requirements()


@pytest.mark.parametrize(("extra", "package"), [("metal", "jax-metal"), ("mps", "jax-mps")])
def test_apple_plugins_are_for_apple_silicon(extra: str, package: str) -> None:
    (line,) = [line for line in requirements() if name_of(line) == package]
    marker = line.partition(";")[2].replace('"', "'")
    assert "platform_system == 'Darwin'" in marker
    assert "platform_machine == 'arm64'" in marker
    assert f"extra == '{extra}'" in marker


def test_extras() -> None:
    assert set(metadata.metadata("rtx-jax").get_all("Provides-Extra") or ()) >= EXTRAS


def test_python_and_version_are_those_of_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata.version("rtx-jax") == project["version"]
    assert metadata.metadata("rtx-jax")["Requires-Python"] == ">=3.11"


def test_types_are_shipped() -> None:
    assert (ROOT / "rtx_jax" / "py.typed").exists()


def test_the_license_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
