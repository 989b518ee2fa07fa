"""Connects the clients of a simulated process to the servers of others, and looks up their
names."""

from __future__ import annotations

import errno
import os
import ssl
from functools import partial
from typing import Final, Protocol

import outcome
import trio
from attrs import Factory, define, frozen

from mmo_sansio.http.ip_rules import Address
from mmo_trio.http.client.outside_network import SecuredStream
from mmo_trio.http.streams import TransportStream
from mmo_trio.system.waiting import ParkingSpot
from tests.simulation.network.conditions import WINDOW_BYTES, Path
from tests.simulation.network.connection_end import ConnectionEnd
from tests.simulation.network.identities import ServerIdentity, handshake_error
from tests.simulation.network.machines import SimulatedMachine
from tests.simulation.network.simulated_listener import FIRST_DESCRIPTOR, ConnectionOwner
from tests.simulation.network.simulated_stream import SimulatedStream

ATTEMPT_TIMES_S: Final = (0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0)
"""When a machine asks for a connection that is not answered, in seconds since the first time
(Linux)."""
CONNECT_TIMEOUT_S: Final = 127.0
UNREACHABLE_AFTER_S: Final = 3.0


class ConnectingProcess(ConnectionOwner, Protocol):
    """Is a process that connects to others."""

    @property
    def machine(self) -> SimulatedMachine:
        """The machine on which it runs."""
        ...

    def require_alive(self) -> None:
        """Raise OSError unless it is alive."""
        ...


@define(eq=False)
class _Attempt:
    """Is an attempt to connect, until the server's machine answers."""

    process: ConnectingProcess
    target: SimulatedMachine
    address: str
    port: int
    is_over: bool = False
    client_end: ConnectionEnd | None = None
    spot: ParkingSpot[None] = Factory(ParkingSpot)
    error: int = 0

    @property
    def path(self) -> Path:
        return self.process.machine.network.path(self.process.machine.name, self.target.name)

    @property
    def back(self) -> Path:
        return self.process.machine.network.path(self.target.name, self.process.machine.name)

    def begin(self) -> None:
        """Ask until the machine answers or it has taken too long."""
        clock, conditions = self.process.machine.network.clock, self.path.conditions
        drawn = self.path.generator.random() if conditions.refusal or conditions.silence else 1.0
        if drawn < conditions.refusal:
            self.process.machine.network.report_fault("refusal")
            clock.call_after(2 * self.path.draw_delay(), partial(self.end, errno.ECONNREFUSED))
            return
        clock.call_after(CONNECT_TIMEOUT_S, partial(self.end, errno.ETIMEDOUT))
        if drawn < conditions.refusal + conditions.silence:
            self.process.machine.network.report_fault("silence")
            return
        self._ask(0)

    def end(self, error: int) -> None:
        """Let the client know how it ended, unless it has given up."""
        if not self.is_over:
            self.is_over, self.error = True, error
            self.spot.unpark(outcome.Value(None))

    def _ask(self, nth: int) -> None:
        clock = self.process.machine.network.clock
        if self.is_over or self.client_end is not None:
            return
        clock.call_after(self.path.draw_delay(), self._reach_server)
        if nth + 1 < len(ATTEMPT_TIMES_S):
            pause_s = ATTEMPT_TIMES_S[nth + 1] - ATTEMPT_TIMES_S[nth]
            clock.call_after(pause_s, partial(self._ask, nth + 1))

    def _reach_server(self) -> None:
        if self.is_over or self.client_end is not None or self.path.is_cut or not self.target.is_on:
            return
        listener = self.target.listeners.get(self.port)
        clock = self.process.machine.network.clock
        if listener is None:
            clock.call_after(self.back.draw_delay(), partial(self._answer, errno.ECONNREFUSED))
        elif listener.has_room:
            client, server = self._connect(listener.process, listener.identity)
            listener.add(server, client.address)
            clock.call_after(self.back.draw_delay(), partial(self._answer, 0))

    def _answer(self, error: int) -> None:
        if not self.back.is_cut and self.process.machine.is_on:
            self.end(error)
        elif not self.is_over:  # It is sent again.
            self.process.machine.network.clock.call_after(1.0, partial(self._answer, error))

    def _connect(
        self, server_process: ConnectionOwner, identity: ServerIdentity | None
    ) -> tuple[ConnectionEnd, ConnectionEnd]:
        """Return the two ends of a new connection."""
        source, network = self.process.machine, self.process.machine.network
        fault, conditions = self.path.draw_fault(), self.path.conditions
        drips = bool(conditions.dripping) and self.path.generator.random() < conditions.dripping
        if drips:
            network.report_fault("dripping")
        window_bytes = self.path.draw_window()
        if window_bytes < WINDOW_BYTES:
            network.report_fault("slow_reading")
        client = ConnectionEnd(
            network.clock,
            source,
            source.source_address(self.address),
            self.path,
            True,
            fault,
            drips,
            window_bytes,
            network.report_fault,
        )
        server = ConnectionEnd(
            network.clock,
            self.target,
            self.address,
            self.back,
            False,
            fault,
            drips,
            window_bytes,
            network.report_fault,
        )
        client.peer, server.peer = server, client
        server.identity = identity
        self.client_end = client
        self.process.own(client)
        server_process.own(server)
        return client, server


@frozen
class ProcessNetwork:
    """Is the network as one process reaches it: connects, secures, looks up names."""

    process: ConnectingProcess

    async def connect(self, address: Address, port: int) -> TransportStream:
        """Return a connection to this address. Raises OSError, at the latest when Linux would."""
        process = self.process
        process.require_alive()
        process.require_descriptor()
        network, peer = process.machine.network, str(address)
        target = network.machine_at(peer)
        if target is None:
            await trio.sleep(UNREACHABLE_AFTER_S)
            raise _system_error(errno.EHOSTUNREACH)
        attempt = _Attempt(process, target, peer, port)
        attempt.begin()
        try:
            while not attempt.is_over:
                await attempt.spot.park()
        except BaseException:
            attempt.is_over = True
            if attempt.client_end is not None:
                attempt.client_end.close()
            raise
        process.require_alive()
        if attempt.client_end is None:
            raise _system_error(attempt.error)
        if attempt.error:  # The server has accepted, but its answer was lost.
            attempt.client_end.close()
            raise _system_error(attempt.error)
        descriptor = FIRST_DESCRIPTOR + len(process.ends)
        return SimulatedStream(
            attempt.client_end,
            peer,
            is_alive=process.is_alive,
            descriptor=descriptor,
            lingers=False,
        )

    async def start_tls(self, transport: TransportStream, host: str, port: int) -> SecuredStream:
        """Return the connection once the server has proved that it is this host. Raises
        ssl.SSLError or BrokenResourceError."""
        assert isinstance(transport, SimulatedStream)
        self.process.require_alive()
        identity = await self._shake_hands(transport.end)
        if transport.end.is_closed or transport.end.error is not None:
            raise trio.BrokenResourceError("the connection broke in the handshake")
        if isinstance(identity, ssl.SSLError):
            raise identity
        identity.check(host, wall=self.process.machine.clocks.wall())
        return transport

    def mark_answered(self, stream: SecuredStream, host: str, port: int) -> None:
        """Do nothing: each handshake of a simulation is a full one."""

    async def look_up(self, host: str, port: int) -> list[str]:
        """Return the addresses of this host name, best first; raises OSError when there are none.
        It is a resolver for `HttpClient`."""
        self.process.require_alive()
        return await self.process.machine.network.names.look_up(host)

    async def _shake_hands(self, end: ConnectionEnd) -> ServerIdentity | ssl.SSLError:
        """Return what the server shows, after a round trip that its process takes part in."""
        found: list[ServerIdentity | ssl.SSLError] = []
        network, conditions = self.process.machine.network, end.path.conditions
        fails = (
            bool(conditions.failed_handshake)
            and end.path.generator.random() < conditions.failed_handshake
        )

        def show() -> None:
            if server.is_closed or server.error is not None:
                server.transmit(partial(end.receive_error, errno.ECONNRESET))
                return
            identity = server.identity
            if fails:
                network.report_fault("failed_handshake")
                shown: ServerIdentity | ssl.SSLError = handshake_error(
                    "SSLV3_ALERT_HANDSHAKE_FAILURE"
                )
            else:
                shown = handshake_error("WRONG_VERSION_NUMBER") if identity is None else identity
            server.transmit(partial(receive, shown))

        def receive(shown: ServerIdentity | ssl.SSLError) -> None:
            found.append(shown)
            end.reader.unpark(outcome.Value(None))

        assert end.peer is not None
        server = end.peer
        end.transmit(lambda: server.when_running(show))
        while not (found or end.is_readable):
            await end.reader.park()
        return found[0] if found else handshake_error("UNEXPECTED_EOF_WHILE_READING")


def _system_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
