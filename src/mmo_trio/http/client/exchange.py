"""Sends one request, on a connection of its own or on one that was kept, and receives as much of its response as
arrives.

A deadline may end an exchange in any state, so it keeps in itself what it knows: its current step, whether the request
may have arrived, the head once it is whole, the body so far."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import TypeAlias

import trio

from mmo_sansio import __version__
from mmo_sansio.http.egress_rules import UrlTarget
from mmo_sansio.http.exchange import RESPONSE_BODY_BYTES_MAX
from mmo_sansio.http.ip_rules import Address, address_error, unmap_ipv4
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.http.request_writer import InvalidRequest, request_bytes
from mmo_sansio.http.response_body import ResponseBodyError, response_body
from mmo_sansio.http.response_head import FinalResponseHead, ResponseHeadError, ResponseHeadReader
from mmo_trio.http.client.connect import connect
from mmo_trio.http.client.kept_connections import KeptConnection, KeptConnections, ReceiverKey, keep_time_s
from mmo_trio.http.client.name_lookup import NameLookups
from mmo_trio.http.client.outside_network import OutsideNetwork, SecuredStream
from mmo_trio.http.streams import TransportStream

USER_AGENT = f"mmo-gateway/{__version__}".encode()
ADDRESSES_MAX = 32
"""Addresses of one name that are used; any that follow are neither checked nor connected to."""
ADDRESSES_CACHED = 512
"""Addresses that were parsed and checked: merchants' servers have the same again and again."""
BODY_PIECES_MAX = 4096
"""Pieces (chunks, TLS records) of a body that are read: one sent byte by byte is cut early, as each piece costs the
gateway more than its sender."""
RECEIVE_BYTES = 16 * 1024


TRANSPORT_ERRORS = (OSError, trio.BrokenResourceError, ResponseHeadError, ResponseBodyError, InvalidRequest)
"""Errors that an exchange raises when the network, TLS or the other side's HTTP fails."""


class ForbiddenAddress(Exception):
    """An address of the name is forbidden, so nothing was sent; the message says why."""


class SendForbidden(Exception):
    """The caller forbade sending once the connection was ready; nothing was sent."""


MaySend: TypeAlias = Callable[[], bool]
"""Called when the only step left is to send: whether the request may still be sent."""


class ClientExchange:
    """Runs one request and keeps its response."""

    def __init__(
        self,
        target: UrlTarget,
        *,
        allow_private: bool,
        skip_egress_rules: bool,
        may_send: MaySend,
        body_bytes_max: int = RESPONSE_BODY_BYTES_MAX,
    ) -> None:
        """Prepare the exchange. `skip_egress_rules`: the target comes from the configuration, so its addresses are not
        checked (K7)."""
        self._body_bytes_max = body_bytes_max
        self._may_send = may_send
        self._target = target
        self._allow_private = allow_private
        self._skip_egress_rules = skip_egress_rules
        self.step = "Writing the request"
        """The current step, to begin a sentence: `Connecting failed`."""
        self.has_kept_connection = False
        """Whether the connection served an earlier request."""
        self.may_have_arrived = False
        """False only while it is certain that no byte of the request left (S6)."""
        self.head: FinalResponseHead | None = None
        """The final response's head, once it is whole."""
        self.body = bytearray()
        """The response's body, as far as it arrived."""
        self.is_body_complete = False
        """Whether the body arrived to its end."""

    async def run(
        self,
        request: HttpRequest,
        names: NameLookups,
        network: OutsideNetwork,
        kept: KeptConnections,
        *,
        lookup_owner: str,
        may_reuse: bool,
    ) -> None:
        """Send the request and receive the response until it ends, breaks off or is large enough. The `lookup_owner`
        is the one whose place the look-up takes. `may_reuse`: a connection of the same owner may be used again.

        Raises SendForbidden, ForbiddenAddress or one of TRANSPORT_ERRORS. Once there is a head, an error cannot undo
        it: look at `head` first."""
        data = request_bytes(request, self._target, user_agent=USER_AGENT)
        target = self._target
        key: ReceiverKey | None = (lookup_owner, target.scheme, target.host, target.port) if may_reuse else None
        connection = None if key is None else kept.take(key)
        self.has_kept_connection = connection is not None
        if connection is None:
            connection = await self._open(names, network, lookup_owner)
        stream, is_kept = connection.stream, False
        try:
            if not self._may_send():
                raise SendForbidden
            await _check_deadline()
            self.step = "Sending the request"
            self.may_have_arrived = True
            await stream.send_all_now(data)
            self.step = "Waiting for the answer"
            self.head = await _receive_head(stream)
            has_excess = await self._receive_body(stream, self.head)
            if not self.has_kept_connection and stream is not connection.transport:
                network.mark_answered(stream, target.host, target.port)
            if key is not None and self.is_body_complete and not has_excess:
                is_kept = kept.keep(key, connection, for_s=keep_time_s(self.head))
        finally:
            if not is_kept:
                connection.transport.close()

    async def _open(self, names: NameLookups, network: OutsideNetwork, lookup_owner: str) -> KeptConnection:
        """Return a new connection to a checked address; its server has proved itself."""
        self.step = "Looking up the name"
        addresses = await self._resolve(names, lookup_owner)
        self.step = "Connecting"
        tcp = await connect(addresses, self._target.port, connect_one=network.connect)
        try:
            self._check_peer(tcp, addresses)
            stream: SecuredStream = tcp
            if self._target.scheme == "https":
                self.step = "The TLS handshake"
                stream = await network.start_tls(tcp, self._target.host, self._target.port)
            return KeptConnection(stream, tcp, trio.current_time())
        except BaseException:
            tcp.close()
            raise

    async def _resolve(self, names: NameLookups, lookup_owner: str) -> list[Address]:
        if self._target.address is not None:
            addresses = [str(self._target.address)]
        else:
            addresses = await names.addresses(self._target.host, self._target.port, owner=lookup_owner)
        addresses = list(dict.fromkeys(addresses))[:ADDRESSES_MAX]
        if not addresses:
            raise OSError("the name has no address")
        for address in addresses:
            error = _address_fault_cached(address, allow_private=self._allow_private)
            if error is not None and not self._skip_egress_rules:
                raise ForbiddenAddress(error)
        return [_parse_address_cached(address) for address in addresses]

    def _check_peer(self, tcp: TransportStream, addresses: list[Address]) -> None:
        """Raise ForbiddenAddress unless the connection leads to one of the checked addresses."""
        peer = tcp.peer_address()
        if peer is None:
            raise OSError("the connection is gone")
        if _parse_address_cached(peer) not in addresses and not self._skip_egress_rules:
            raise ForbiddenAddress(f"The connection led to {peer}, which was not checked.")

    async def _receive_body(self, stream: SecuredStream, head: FinalResponseHead) -> bool:
        """Receive the body, and return whether more arrived than belongs to it."""
        body, count = response_body(head), 0
        while True:
            for piece in body.read_available():
                self.body += piece[: self._body_bytes_max - len(self.body)]
                count += 1
                if len(self.body) == self._body_bytes_max or count == BODY_PIECES_MAX:
                    return True
            if body.is_complete:
                self.is_body_complete = True
                return body.has_excess
            body.receive(await stream.receive_some(RECEIVE_BYTES))


_address_fault_cached = lru_cache(maxsize=ADDRESSES_CACHED)(address_error)


@lru_cache(maxsize=ADDRESSES_CACHED)
def _parse_address_cached(text: str) -> Address:
    return unmap_ipv4(ip_address(text))


async def _check_deadline() -> None:
    """End the exchange here when its time is over, though Trio may not have noticed yet: a process that was stopped
    goes on where it stood, and the payment may have been polled meanwhile (S6)."""
    if trio.current_time() >= trio.current_effective_deadline():
        await trio.sleep_forever()


async def _receive_head(stream: SecuredStream) -> FinalResponseHead:
    reader = ResponseHeadReader()
    while (final := reader.receive(await stream.receive_some(RECEIVE_BYTES))) is None:
        pass
    return final
