"""Events: marks in the work of a device that can be asked and waited for."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["DoneEvent", "Event"]


class Event(ABC):
    """The work that a device had been given at one moment. `Runtime.record_event` makes one."""

    __slots__ = ()

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether that work is done; asking does not wait."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until that work is done."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'ready' if self.ready else 'not ready'})"


class DoneEvent(Event):
    """The event of a device whose work is done when the call returns."""

    __slots__ = ()

    @property
    def ready(self) -> bool:
        """Always True."""
        return True

    def wait(self) -> None:
        """Return at once."""
