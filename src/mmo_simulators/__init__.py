"""Simulates mobile money operators, to test a gateway against: ours or another.

`open_simulator` opens M-Pesa, MTN MoMo, Airtel Money, pawaPay or Wave, and `serve` puts it on a
socket. It needs `mmo-gateway[simulators]`."""

# The rooms, from the bottom up. A room imports only from rooms above it in this list, and from the
# core:
#
#   common      faults, controls and what a simulator is
#   operators   the operators, without I/O; server: a simulator on sockets or other streams

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmo_simulators.common.faults import (
        DroppedConnection,
        FaultScript,
        PlannedFault,
        parse_planned_fault,
    )
    from mmo_simulators.common.simulator import Simulator
    from mmo_simulators.operators.registry import open_simulator
    from mmo_simulators.server.callbacks import SendCallback
    from mmo_simulators.server.serving import serve, serve_on_listeners

__all__ = [
    "DroppedConnection",
    "FaultScript",
    "PlannedFault",
    "SendCallback",
    "Simulator",
    "open_simulator",
    "parse_planned_fault",
    "serve",
    "serve_on_listeners",
]

_MODULES = {
    "DroppedConnection": "common.faults",
    "FaultScript": "common.faults",
    "PlannedFault": "common.faults",
    "SendCallback": "server.callbacks",
    "Simulator": "common.simulator",
    "open_simulator": "operators.registry",
    "parse_planned_fault": "common.faults",
    "serve": "server.serving",
    "serve_on_listeners": "server.serving",
}


def __getattr__(name: str) -> object:
    """Import an export at its first use, so that each needs only its own packages."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
