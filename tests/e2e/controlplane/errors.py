"""What can go wrong with the control plane, one class for each thing a caller would do differently.

ControlPlaneError
├── BuildFailed        a binary cannot be had: install Go, or read what the compiler said
├── PortInUse          somebody listens on a port that was asked for by number
└── ComponentFailed    a component died or was not ready in time; its last log lines are quoted
"""

from __future__ import annotations


class ControlPlaneError(RuntimeError):
    """The control plane cannot do what was asked; the message names the object, the fact and the remedy."""


class BuildFailed(ControlPlaneError):
    """A binary is missing and cannot be built here."""


class PortInUse(ControlPlaneError):
    """A port that was asked for by number belongs to somebody else."""


class ComponentFailed(ControlPlaneError):
    """A component ended by itself, or did not become ready within its limit."""
