"""Inspection of the namespace, as the array API standard has it."""

from __future__ import annotations

import jax

from ..core import devices as _devices
from ..core.devices import DeviceLike, Placement
from ..core.dtypes import (
    STANDARD,
    DType,
    complex128,
    default_complex,
    default_float,
    default_int,
    float64,
    has_wide_floats,
    isdtype,
)

__all__ = ["__array_namespace_info__"]


class Info:
    """What `__array_namespace_info__` returns."""

    __slots__ = ()

    def capabilities(self) -> dict[str, bool | int | None]:
        """Return what the namespace can do.

        Returns
        -------
        dict
            ``"boolean indexing"`` and ``"data-dependent shapes"``: True, outside of traced functions.
            ``"max dimensions"``: the number of axes that an array may have, which is NumPy's limit.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> jax.Device:
        """Return the device on which arrays are created when none is named."""
        return _devices.default_device()

    def default_dtypes(self, *, device: DeviceLike | None = None) -> dict[str, DType]:
        """Return the dtypes that creation takes when none is named.

        Parameters
        ----------
        device
            A device; by default the default device.

        Returns
        -------
        dict
            The dtypes for ``"real floating"``, ``"complex floating"``, ``"integral"`` and ``"indexing"``.
        """
        placement = _placement(device, "default_dtypes")
        return {
            "real floating": default_float(placement),
            "complex floating": default_complex(placement),
            "integral": default_int(placement),
            "indexing": default_int(placement),
        }

    def devices(self) -> tuple[jax.Device, ...]:
        """Return the devices that are there."""
        return tuple(_devices.devices())

    def dtypes(
        self, *, device: DeviceLike | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the standard's dtypes that a device supports.

        Parameters
        ----------
        device
            A device; by default the default device.
        kind
            The name of a kind, as for `isdtype`, a tuple of them, or None for all.

        Returns
        -------
        dict
            The dtypes by their names.

        Raises
        ------
        InvalidArgument
            There is no such kind.
        """
        names = STANDARD
        if not has_wide_floats(_placement(device, "dtypes")):
            names = {name: dtype for name, dtype in names.items() if dtype not in (float64, complex128)}
        return {name: dtype for name, dtype in names.items() if kind is None or isdtype(dtype, kind)}


def _placement(device: DeviceLike | None, operation: str) -> Placement | None:
    return None if device is None else _devices.resolve(device, operation)


def __array_namespace_info__() -> Info:
    """Return an object that tells what the namespace supports: capabilities, devices, dtypes and their defaults."""
    return Info()
