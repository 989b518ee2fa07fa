"""Joins the machines of a simulation in one network: their addresses and names, and the ways
between them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from ipaddress import ip_address
from typing import Protocol

from attrs import Factory, define, field

from mmo_sansio.values.clock import Span
from tests.simulation.clocks.machine_clock import MachineClocks
from tests.simulation.clocks.virtual_clock import VirtualClock
from tests.simulation.network.conditions import Path, PathConditions
from tests.simulation.network.connection_end import ConnectionEnd
from tests.simulation.network.simulated_listener import SimulatedListener
from tests.simulation.network.simulated_names import SimulatedNames


@cache
def _ip_version(address: str) -> int:
    return ip_address(address).version


class EventTrace(Protocol):
    """Records what happens in a simulation."""

    def __call__(self, event: str, /, **details: object) -> None: ...


def ignore_event(event: str, /, **details: object) -> None:
    """Record nothing."""


@define(eq=False)
class SimulatedMachine:
    """Is a machine with its addresses and clocks; the processes on it come and go."""

    name: str
    addresses: Sequence[str]
    network: SimulatedNetwork
    clocks: MachineClocks
    is_on: bool = field(default=True, init=False)
    listeners: dict[int, SimulatedListener] = field(factory=dict, init=False)
    """By port."""
    ends: dict[ConnectionEnd, None] = field(factory=dict, init=False)
    """The open ends of connections."""

    def source_address(self, target: str) -> str:
        """Return the address from which a connection to this one comes."""
        version = _ip_version(target)
        return next(
            (each for each in self.addresses if _ip_version(each) == version), self.addresses[0]
        )

    def lose_power(self) -> None:
        """Stop without a word to anybody: connections are forgotten, and nothing answers any
        more."""
        self.is_on = False
        for end in tuple(self.ends):
            end.forget()
        self.ends.clear()
        for listener in tuple(self.listeners.values()):
            listener.end()
        self.listeners.clear()
        self.network.trace("power_lost", machine=self.name)

    def start(self) -> None:
        """Start again with a new boot clock; who still sends to it learns that its connections are
        forgotten."""
        self.is_on = True
        self.clocks.boot()
        self.network.resume_sending_to(self)
        self.network.trace("machine_started", machine=self.name)

    def step_clock(self, span: Span) -> None:
        """Move the machine's wall clock; a negative span sets it back."""
        self.clocks.step(span)
        self.network.report_fault("clock_step", machine=self.name, span=span)


@define(eq=False)
class SimulatedNetwork:
    """Connects the machines of one simulation."""

    clock: VirtualClock
    generator: random.Random
    trace: EventTrace = ignore_event
    conditions: PathConditions = field(factory=PathConditions, init=False)
    """Those of all paths that have none of their own."""
    names: SimulatedNames = field(
        default=Factory(
            lambda self: SimulatedNames(self.generator, self.report_fault), takes_self=True
        ),
        init=False,
    )
    fault_counts: Counter[str] = field(factory=Counter, init=False)
    """How often each kind of fault has happened."""
    _machines: dict[str, SimulatedMachine] = field(factory=dict, init=False)
    """By address."""
    _paths: dict[tuple[str, str], Path] = field(factory=dict, init=False)
    """By the names of the two machines."""

    def add_machine(self, name: str, *addresses: str) -> SimulatedMachine:
        """Return a new machine with these addresses, which is on."""
        machine = SimulatedMachine(name, addresses, self, MachineClocks(name, self.clock))
        for address in addresses:
            self._machines[str(ip_address(address))] = machine
        return machine

    def machine_at(self, address: str) -> SimulatedMachine | None:
        """Return the machine with this address."""
        return self._machines.get(address)

    def path(self, source: str, target: str) -> Path:
        """Return the way from one machine to another, by their names."""
        found = self._paths.get((source, target))
        if found is None:
            found = self._paths[source, target] = Path(self.generator, self.conditions)
        return found

    def set_conditions(
        self, conditions: PathConditions, one: str | None = None, other: str | None = None
    ) -> None:
        """Let the ways between two machines have these conditions from now on, or all ways when
        none is named."""
        if one is not None and other is not None:
            self.path(one, other).conditions = self.path(other, one).conditions = conditions
            return
        self.conditions = conditions
        for path in self._paths.values():
            path.conditions = conditions

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one machine to the other; what is sent is sent again once the way
        carries again."""
        path = self.path(source, target)
        if not path.is_cut:
            path.is_cut = True
            self.report_fault("cut", source=source, target=target)

    def partition(self, one: str, other: str) -> None:
        """Let nothing pass between two machines."""
        self.cut(one, other)
        self.cut(other, one)

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Let everything pass between two machines again, or between all when none is named."""
        for names, path in self._paths.items():
            if path.is_cut and (one is None or {one, other} == set(names)):
                path.is_cut = False
                self.trace("healed", source=names[0], target=names[1])
                path.send_again_soon()

    def resume_sending_to(self, machine: SimulatedMachine) -> None:
        """Let what waited for this machine be sent again."""
        for names, path in self._paths.items():
            if names[1] == machine.name:
                path.send_again_soon()

    def report_fault(self, kind: str, /, **details: object) -> None:
        """Count and record a fault that happens now."""
        self.fault_counts[kind] += 1
        self.trace("network_fault", kind=kind, **details)
