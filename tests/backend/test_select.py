"""Choosing a backend."""

from __future__ import annotations

import pytest

from rtx_jax.backend import CpuBackend, CudaBackend, NumpyBackend, auto_select, backend_of, explain
from rtx_jax.core import devices
from rtx_jax.errors import BackendUnavailable, InvalidArgument


@pytest.mark.parametrize("name", ["numpy", "cpu", "quantized<numpy>", "quantized<cpu>"])
def test_a_name_gives_the_backend_of_that_name(name: str) -> None:
    assert backend_of(name).name() == name


@pytest.mark.parametrize("name", ["quantized", "quantized<>", "quantized<cpu", "<cpu>", None])
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(InvalidArgument, match="wanted one of cuda.*a stack such as autodiff<cpu>"):
        backend_of(name)


@pytest.fixture
def platforms(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A table of platforms that the test fills."""
    monkeypatch.delenv("RTX_JAX_BACKEND", raising=False)
    table: dict[str, object] = {
        "cpu": [object()],
        "cuda": [object(), object()],
        "rocm": "no plugin installed",
        "tpu": "no plugin installed",
        "metal": "no device found",
    }
    monkeypatch.setattr(devices, "platforms", lambda: table)
    return table


def test_order(platforms: dict[str, object]) -> None:
    assert auto_select() is CudaBackend()
    platforms["cuda"] = "driver missing"
    assert auto_select() is CpuBackend()
    assert auto_select("numpy") is NumpyBackend()
    assert auto_select(["tpu", "numpy"]) is NumpyBackend()
    assert auto_select("mps") is CpuBackend()  # a preference falls back


def test_environment_overrules(platforms: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTX_JAX_BACKEND", "cpu")
    assert auto_select("cuda") is CpuBackend()
    monkeypatch.setenv("RTX_JAX_BACKEND", "metal,cpu")
    assert auto_select() is CpuBackend()
    monkeypatch.setenv("RTX_JAX_BACKEND", "metal")
    with pytest.raises(BackendUnavailable, match="no device found") as caught:
        auto_select("cpu")
    assert "RTX_JAX_BACKEND" in str(caught.value)
    monkeypatch.setenv("RTX_JAX_BACKEND", "mettal")
    with pytest.raises(InvalidArgument, match="RTX_JAX_BACKEND"):
        auto_select()


def test_requirements(platforms: dict[str, object]) -> None:
    platforms["metal"] = [object()]
    assert auto_select("metal", require=["float64"]).name() == "cuda"
    assert auto_select("numpy", require=["jit"]).name() == "cuda"
    assert auto_select("numpy", require=["flash_attention", "bfloat16"]).name() == "numpy"
    assert auto_select("cpu", n_devices=2).name() == "cuda"
    with pytest.raises(BackendUnavailable, match="has 2 devices, 3 wanted"):
        auto_select(n_devices=3)


def test_explanation(platforms: dict[str, object]) -> None:
    found = explain("tpu")
    assert found.chosen == "cuda"
    assert [(c.name, c.chosen) for c in found.candidates] == [
        ("tpu", False),
        ("cuda", True),
        ("rocm", False),
        ("metal", False),
        ("cpu", False),
        ("numpy", False),
    ]
    text = str(found)
    assert "-> cuda" in text and "no plugin installed" in text and "would do, comes later" in text


@pytest.mark.parametrize(
    "arguments",
    [{"prefer": "gpuu"}, {"prefer": [3]}, {"require": ["fast"]}, {"n_devices": 0}, {"n_devices": 1.5}],
    ids=str,
)
def test_unknown_words(platforms: dict[str, object], arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        auto_select(**arguments)


def test_by_name() -> None:
    for name in ("cpu", "cuda", "rocm", "tpu", "metal", "webgpu", "numpy"):
        assert backend_of(name).name() == name
    assert backend_of("MPS").name() == "metal"
    with pytest.raises(InvalidArgument, match="one of cuda"):
        backend_of("cpp")
