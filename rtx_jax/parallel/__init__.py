"""Programs on several devices: collectives over the axes of a mesh."""

from .collectives import ReduceOp
from .communicator import Communicator

__all__ = ["Communicator", "ReduceOp"]
