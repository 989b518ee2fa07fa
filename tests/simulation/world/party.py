"""Puts merchants and operators of a simulated world on machines of their own, which are never
killed."""

from __future__ import annotations

from ipaddress import ip_address
from random import Random

import trio
from attrs import define, field

from mmo_sansio.http.egress_rules import EgressRules, UrlTarget
from mmo_trio.http.client.client import HttpClient
from mmo_trio.http.client.outside_network import connect
from tests.simulation.network.identities import ServerIdentity
from tests.simulation.network.simulated_listener import SimulatedListener
from tests.simulation.world.process import SimulatedProcess


@define(eq=False)
class WorldParty:
    """Is a merchant's or an operator's place in the network."""

    host: str
    """The name of its server."""
    process: SimulatedProcess
    random: Random
    """Decides which address of a name it tries first."""
    _listeners: list[SimulatedListener] = field(factory=list, init=False)

    def listen(self, port: int) -> SimulatedListener:
        """Listen with TLS at this port."""
        listener = self.process.listen(port, identity=self._identity(self.host))
        self._listeners.append(listener)
        return listener

    def show_certificate(self, *, is_right: bool) -> None:
        """Show a certificate for this host to new connections from now on, or for another host."""
        for each in self._listeners:
            each.identity = self._identity(self.host if is_right else f"not-{self.host}")

    def http_client(self) -> HttpClient:
        """Return a client to call a gateway with, which tries the addresses of a name in any
        order."""
        return HttpClient(rules=EgressRules(), network=self.process.network, resolver=self._look_up)

    async def open_stream(self, target: UrlTarget) -> trio.abc.Stream:
        """Connect to the server of a URL, by TLS for https, at the first of its addresses in any
        order. Raises OSError or BrokenResourceError."""
        addresses = [ip_address(each) for each in await self._look_up(target.host, target.port)]
        stream = await connect(self.process.network, addresses, target.port)
        if target.scheme == "https":
            try:
                await self.process.network.start_tls(stream, target.host, target.port)
            except BaseException:
                stream.close()
                raise
        return stream

    async def _look_up(self, host: str, port: int) -> list[str]:
        found = await self.process.network.look_up(host, port)
        self.random.shuffle(found)
        return found

    @staticmethod
    def _identity(host: str) -> ServerIdentity:
        return ServerIdentity(frozenset({host}))
