"""A network on which nothing goes wrong: every connection is made at once, and every byte arrives at once."""

from __future__ import annotations

import errno
import os

import trio
from attrs import Factory, define, field

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.ip_rules import Address
from mmo_sansio.values.clock import Instant
from mmo_trio.http.client.client import HttpClient
from mmo_trio.http.client.outside_network import SecuredStream
from mmo_trio.http.streams import SendBuffer, TransportStream
from mmo_trio.system.clock import GatewayClock
from mmo_trio.testing.machine_clock import MachineClocks, MachineGatewayClock
from mmo_trio.testing.simulated_run import Simulation

CONNECT_S = 0.005


@define(eq=False)
class PlainEnd(TransportStream):
    """Is one end of a connection."""

    network: PlainNetwork
    peer_name: str
    received: bytearray = Factory(bytearray)
    is_closed: bool = False
    changed: trio.Event = Factory(trio.Event)
    peer: PlainEnd = field(init=False)

    @property
    def descriptor(self) -> int:
        return 3

    def peer_address(self) -> str | None:
        return None if self.is_closed else self.peer_name

    def try_send(self, data: SendBuffer) -> SendBuffer:
        if self.is_closed or self.peer.is_closed:
            raise trio.BrokenResourceError
        self.peer.received += data
        self.peer.wake()
        return data[len(data) :]

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.try_send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while not self.received:
            if self.is_closed:
                raise trio.BrokenResourceError
            if self.peer.is_closed:
                return b""
            await self.changed.wait()
        data = bytes(self.received[: max_bytes or len(self.received)])
        del self.received[: len(data)]
        return data

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.network.open_ends -= 1
            self.wake()
            self.peer.wake()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def wake(self) -> None:
        """Let whoever reads look again."""
        self.changed.set()
        self.changed = trio.Event()


@define(eq=False)
class PlainListener(trio.abc.Listener[TransportStream]):
    """Accepts connections at one port of an address."""

    network: PlainNetwork
    at: tuple[str, int]
    waiting: trio.MemorySendChannel[TransportStream] = field(init=False)
    accepting: trio.MemoryReceiveChannel[TransportStream] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.waiting, self.accepting = trio.open_memory_channel[TransportStream](10_000)
        self.network.listeners[self.at] = self

    async def accept(self) -> TransportStream:
        return await self.accepting.receive()

    async def aclose(self) -> None:
        self.network.listeners.pop(self.at, None)
        await trio.lowlevel.checkpoint()


@define(eq=False)
class PlainMachine:
    """Is one machine, and what its clients see of the network."""

    network: PlainNetwork
    name: str
    address: str

    def listen(self, port: int) -> PlainListener:
        return PlainListener(self.network, (self.address, port))

    def clock(self) -> GatewayClock:
        return MachineGatewayClock(self.network.clocks[self.name])

    def http_client(self, rules: EgressRules) -> HttpClient:
        return HttpClient(rules=rules, network=self, resolver=self.network.look_up)

    async def connect(self, address: Address, port: int) -> TransportStream:
        network = self.network
        network.open_ends += 2
        await trio.sleep(CONNECT_S)
        listener = network.listeners.get((str(address), port))
        if listener is None:
            network.open_ends -= 2
            raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        ours, theirs = PlainEnd(network, str(address)), PlainEnd(network, self.address)
        ours.peer, theirs.peer = theirs, ours
        listener.waiting.send_nowait(theirs)
        return ours

    async def start_tls(self, transport: TransportStream, host: str, port: int) -> SecuredStream:
        await trio.lowlevel.checkpoint()
        return transport

    def mark_answered(self, stream: SecuredStream, host: str, port: int) -> None:
        pass


@define(eq=False)
class PlainNetwork:
    """Connects all machines."""

    simulation: Simulation
    names: dict[str, list[str]] = Factory(dict)
    clocks: dict[str, MachineClocks] = Factory(dict)
    listeners: dict[tuple[str, int], PlainListener] = Factory(dict)
    open_ends: int = 0

    def now(self) -> Instant:
        return self.simulation.clock.true_time()

    def machine(self, name: str, address: str, host: str) -> PlainMachine:
        self.names.setdefault(host, []).append(address)
        self.clocks[name] = MachineClocks(name, self.simulation.clock)
        return PlainMachine(self, name, address)

    def has_traffic(self) -> bool:
        return self.open_ends > 0

    async def look_up(self, host: str, port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        if host not in self.names:
            raise OSError("there is no such name")
        return self.names[host]
