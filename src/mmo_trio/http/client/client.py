"""Calls the servers of others: merchants' receivers, which are not trusted, and providers.

A delivery goes where the egress rules allow, and nowhere else: the name is looked up once, every
address is checked, the connection goes to a checked one, and the server must prove its name (K7).
One hard deadline covers all of it, the look-up included (K2). Providers' addresses are
configuration, so the same call is exempt from the rules."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import lru_cache, partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final, TypeAlias

import trio
from attrs import Factory, define

from mmo_sansio import __version__
from mmo_sansio.http.egress_rules import (
    EgressRules,
    UrlError,
    UrlTarget,
    delivery_url_error,
    parse_url,
)
from mmo_sansio.http.exchange import (
    DELIVERY_TIMEOUT_S,
    RESPONSE_BODY_BYTES_MAX,
    DeliveryAttempt,
    ExchangeFailure,
    ExchangeResult,
    NoResponseReceived,
    ResponseReceived,
    to_attempt,
)
from mmo_sansio.http.ip_rules import Address, address_error, unmap_ipv4
from mmo_sansio.http.messages import (
    HttpRequest,
    HttpResponse,
    InvalidRequest,
    request_bytes,
    unpack_body,
)
from mmo_sansio.http.response_reader import (
    FinalResponseHead,
    ResponseBodyError,
    ResponseHeadError,
    ResponseHeadReader,
    response_body,
)
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_trio.http.client.kept_connections import (
    KeptConnection,
    KeptConnections,
    ReceiverKey,
    keep_time_s,
)
from mmo_trio.http.client.name_lookup import NameLookups, Resolver, SystemResolver
from mmo_trio.http.client.outside_network import (
    OutsideNetwork,
    SecuredStream,
    SystemNetwork,
    connect,
)
from mmo_trio.http.streams import TransportStream

USER_AGENT = f"mmo-gateway/{__version__}".encode()

# Addresses of one name that are used; any that follow are neither checked nor connected to.
# A name with thousands would cost a check of each; no more than a few are ever tried.
ADDRESSES_MAX = 32

# Addresses that were parsed and checked: merchants' servers have the same again and again.
ADDRESSES_CACHED = 512

# Pieces (chunks, TLS records) of a body that are read: one sent byte by byte is cut early, as each
# piece costs the gateway more than its sender.
BODY_PIECES_MAX = 4096

RECEIVE_BYTES = 16 * 1024

# Errors that an exchange raises when the network, TLS or the other side's HTTP fails.
TRANSPORT_ERRORS = (
    OSError,
    trio.BrokenResourceError,
    ResponseHeadError,
    ResponseBodyError,
    InvalidRequest,
)

# URLs that were parsed and checked by their text: a merchant's is the same again and again.
TARGETS_CACHED: Final = 512

# Bytes of an operator's response, which is parsed: far more than a picture of a QR code has.
PROVIDER_RESPONSE_BYTES_MAX: Final = 256 * 1024

# Called when the only step left is to send: whether the request may still be sent.
MaySend: TypeAlias = Callable[[], bool]


class ForbiddenAddress(Exception):
    """An address of the name is forbidden, so nothing was sent; the message says why."""


class SendForbidden(Exception):
    """The caller forbade sending once the connection was ready; nothing was sent."""


class HttpClient:
    """Calls servers; any number of tasks may share one. Each call has a connection of its own,
    unless a merchant's receiver has announced that it keeps one for the next, or an earlier
    question has left one to the same operator (see `mmo_trio.http.client.kept_connections`)."""

    def __init__(
        self,
        *,
        rules: EgressRules,
        context: ssl.SSLContext | None = None,
        resolver: Resolver | None = None,
        network: OutsideNetwork | None = None,
    ) -> None:
        """Take the rules for deliveries, a `tls_context` (None: a new one) for the system's network
        or another network, and a resolver (None: the system's)."""
        self._allow_private = rules.allow_private
        self._parse_target = lru_cache(maxsize=TARGETS_CACHED)(partial(_allowed_target, rules))
        self._network = network or SystemNetwork(tls_context() if context is None else context)
        self._names = NameLookups(SystemResolver() if resolver is None else resolver)
        self._kept = KeptConnections()
        self._kept_for_questions = KeptConnections()

    async def deliver(
        self,
        request: HttpRequest,
        *,
        brand: str = "",
        may_send: MaySend = lambda: True,
        deadline_s: float = DELIVERY_TIMEOUT_S,
    ) -> DeliveryAttempt:
        """Make the one attempt to deliver this request to a merchant (K2, K3, K7).

        The target is the merchant's URL, the headers are Content-Type and X-API-KEY. The look-up of
        its name takes a place of the `brand`. The attempt records every failure; nothing is raised
        but SendForbidden, when `may_send` forbids sending after the connection is secured."""
        exchange = await self.exchange(
            request,
            skip_egress_rules=False,
            lookup_owner=brand,
            may_send=may_send,
            may_reuse=True,
            deadline_s=deadline_s,
        )
        return to_attempt(exchange, url=request.target.decode("utf-8", "replace"))

    async def call_provider(
        self, request: HttpRequest, *, deadline_s: float = DELIVERY_TIMEOUT_S
    ) -> HttpResponse:
        """Return a provider's response of any status; redirects are not followed. A body that was
        compressed, though no request asks for it, is returned as it was before.

        Raises ExchangeFailed when none arrived in time, or its body broke off or was larger than
        PROVIDER_RESPONSE_BYTES_MAX."""
        exchange = await self.exchange(
            request,
            skip_egress_rules=True,
            deadline_s=deadline_s,
            body_bytes_max=PROVIDER_RESPONSE_BYTES_MAX,
        )
        return _provider_response(exchange)

    async def ask_provider(
        self, request: HttpRequest, *, deadline_s: float = DELIVERY_TIMEOUT_S
    ) -> HttpResponse:
        """Do what `call_provider` does, for a request that moves no money: it may travel on a
        connection that an earlier one has left, and is sent once more where that one breaks."""
        exchange = await self.exchange(
            request,
            skip_egress_rules=True,
            is_question=True,
            deadline_s=deadline_s,
            body_bytes_max=PROVIDER_RESPONSE_BYTES_MAX,
        )
        return _provider_response(exchange)

    async def exchange(
        self,
        request: HttpRequest,
        *,
        skip_egress_rules: bool,
        lookup_owner: str | None = None,
        may_send: MaySend = lambda: True,
        may_reuse: bool = False,
        is_question: bool = False,
        deadline_s: float = DELIVERY_TIMEOUT_S,
        body_bytes_max: int = RESPONSE_BODY_BYTES_MAX,
    ) -> ExchangeResult:
        """Send this request, its target in absolute form, and return how the exchange ended.

        Raises nothing that others cause, and SendForbidden when `may_send` forbids it.
        `skip_egress_rules`: the URL comes from the configuration, so that any address is allowed,
        and http too (K7). The look-up takes a place of the `lookup_owner`, by default of the host
        itself. `may_reuse`: the request may travel on a connection that was kept for this owner.
        `is_question`: it moves no money, so it may travel on one that another question has left,
        and is sent once more where that one breaks."""
        started = trio.current_time()
        try:
            # 1. The target: an operator's is configuration, a merchant's is judged (K7).
            if skip_egress_rules:
                target = parse_url(request.target.decode("utf-8", "surrogateescape"))
            else:
                target = self._parse_target(request.target)
        except UrlError as error:
            return NoResponseReceived(
                ExchangeFailure.FORBIDDEN, str(error), may_have_arrived=False, duration_ms=0
            )

        # 2. The attempt keeps what it learns, as a deadline may end it anywhere.
        attempt = _Exchange(
            target,
            self._allow_private,
            skip_egress_rules,
            lookup_owner=target.host if lookup_owner is None else lookup_owner,
            may_reuse=may_reuse or is_question,
            is_question=is_question,
            may_send=may_send,
            body_bytes_max=body_bytes_max,
            names=self._names,
            network=self._network,
            kept=self._kept_for_questions if is_question else self._kept,
            deadline=min(started + deadline_s, trio.current_effective_deadline()),
        )

        # 3. The one deadline for all of it (K2). Without an error it is the reason.
        failure, detail = ExchangeFailure.TIMEOUT, ""
        with trio.move_on_at(started + deadline_s):
            try:
                await attempt.run(request)
            except ForbiddenAddress as error:
                failure, detail = ExchangeFailure.FORBIDDEN, str(error)
            except ResponseHeadError as error:
                failure, detail = ExchangeFailure.TRANSPORT, str(error)
            except TRANSPORT_ERRORS as error:
                failure = ExchangeFailure.TRANSPORT
                detail = f"{attempt.step} failed: {_failure_reason(error)}."

        duration_ms = round((trio.current_time() - started) * 1000)

        # 4. A head that came in time is the answer, whatever has happened since.
        if attempt.head is not None:
            return ResponseReceived(
                attempt.head, bytes(attempt.body), attempt.is_body_complete, duration_ms
            )

        if failure is ExchangeFailure.TIMEOUT:
            detail = f"{attempt.step} wasn't over after the {deadline_s:g} s that all may take."

        if attempt.has_kept_connection:
            detail += " The connection had served an earlier request."

        return NoResponseReceived(failure, detail, attempt.may_have_arrived, duration_ms)


def tls_context(*extra_ca_files: Path | None) -> ssl.SSLContext:
    """Return the context that verifies servers by the system's authorities and those in these files
    (PEM): name and dates checked, TLS 1.2 or newer, HTTP/1.1 only, without a client certificate.
    None adds none.

    Takes milliseconds, so a client has one. Raises OSError when a file cannot be read or holds no
    certificate."""
    # `PROTOCOL_TLS_CLIENT` checks certificate and name by itself.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    # RFC 9110 section 4.3.4: only names that are said to be names.
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    context.load_default_certs()
    for file in filter(None, extra_ca_files):
        context.load_verify_locations(file)

    return context


def _provider_response(exchange: ExchangeResult) -> HttpResponse:
    """Return the response of an exchange with a provider. Raises ExchangeFailed where there is no
    whole one."""
    if isinstance(exchange, NoResponseReceived):
        raise ExchangeFailed(exchange.detail, may_have_arrived=exchange.may_have_arrived)
    if not exchange.is_complete:
        raise ExchangeFailed("The answer's body wasn't whole.", may_have_arrived=True)
    body = unpack_body(exchange.headers, exchange.body, bytes_max=PROVIDER_RESPONSE_BYTES_MAX)
    return HttpResponse(exchange.status, exchange.headers, body)


def _allowed_target(rules: EgressRules, url: bytes) -> UrlTarget:
    """Return the target of a delivery to this URL. Raises UrlError when the rules forbid it."""
    text = url.decode("utf-8", "surrogateescape")
    error = delivery_url_error(text, rules=rules)
    if error is not None:
        raise UrlError(error)
    return parse_url(text)


def _failure_reason(error: BaseException) -> str:
    """Return what the system or the TLS library reports as the cause, without a final dot."""
    # Trio's BrokenResourceError hides the system's own reason.
    cause = error.__cause__ or error
    match cause:
        case ssl.SSLCertVerificationError(verify_message=reason) if reason:
            return f"the certificate is not accepted ({reason})"
        case ssl.SSLError(reason=reason) if reason:
            return f"TLS says {reason.replace('_', ' ').lower()}"
        case OSError(strerror=reason) if reason:
            return reason
        case _:
            return str(cause) or "the connection broke"


@define(eq=False)
class _Exchange:
    """Runs one request and keeps its response.

    A deadline may end it in any state, so it keeps in itself what it knows: its current step,
    whether the request may have arrived, the head once it is whole, the body so far."""

    target: UrlTarget
    allow_private: bool
    skip_egress_rules: bool
    """Whether the target comes from the configuration, so that its addresses are not checked
    (K7)."""
    lookup_owner: str
    """Whose place the look-up takes."""
    may_reuse: bool
    """Whether a connection of the same owner may be used again."""
    is_question: bool
    """Whether it may be sent once more where such a connection breaks."""
    may_send: MaySend
    body_bytes_max: int
    names: NameLookups
    network: OutsideNetwork
    kept: KeptConnections
    deadline: float
    """Trio's time at which the exchange ends, whatever its state."""
    step: str = "Writing the request"
    """The current step, to begin a sentence: `Connecting failed`."""
    has_kept_connection: bool = False
    """Whether the connection served an earlier request."""
    may_have_arrived: bool = False
    """False only while it is certain that no byte of the request left (S6)."""
    head: FinalResponseHead | None = None
    """The final response's head, once it is whole."""
    body: bytearray = Factory(bytearray)
    """The response's body, as far as it arrived."""
    is_body_complete: bool = False
    """Whether the body arrived to its end."""

    async def run(self, request: HttpRequest) -> None:
        """Send the request and receive the response until it ends, breaks off or is large enough.

        Raises SendForbidden, ForbiddenAddress or one of TRANSPORT_ERRORS. Once there is a head, an
        error cannot undo it: look at `head` first."""
        target = self.target
        data = request_bytes(request, target, user_agent=USER_AGENT)

        # 1. A connection that was kept, where one may be used.
        key: ReceiverKey | None = None
        if self.may_reuse:
            key = (self.lookup_owner, target.scheme, target.host, target.port)

        connection = None
        if key is not None:
            connection = self.kept.take(key)

        # 2. Else a new one.
        self.has_kept_connection = connection is not None
        try:
            await self._send(data, connection or await self._open(), key)
        except TRANSPORT_ERRORS:
            # 3. Once more only for what moves no money: the server may have read it before it
            # closed (S6).
            if not (self.is_question and self.has_kept_connection and self.head is None):
                raise
            self.has_kept_connection = False
            await self._send(data, await self._open(), key)

    async def _send(self, data: bytes, connection: KeptConnection, key: ReceiverKey | None) -> None:
        """Send these bytes on a connection and receive the response; keep the connection by its
        key, or close it."""
        stream, is_kept = connection.stream, False
        try:
            # The last moment at which nothing has left: a lease may have been lost meanwhile.
            if not self.may_send():
                raise SendForbidden

            await self._check_deadline()
            self.step = "Sending the request"
            # Before the first byte: from here on nobody can tell what was read.
            self.may_have_arrived = True
            await stream.send_all_now(data)
            self.step = "Waiting for the answer"
            head = await _receive_head(stream)
            await self._check_deadline()  # An answer that comes later does not count (K2).
            self.head = head
            has_excess = await self._receive_body(stream, self.head)
            # TLS 1.3 sends its tickets behind the handshake, so they are here by now.
            if not self.has_kept_connection and stream is not connection.transport:
                self.network.mark_answered(stream, self.target.host, self.target.port)

            # Only a connection at whose end nothing is left can carry another request.
            if key is not None and self.is_body_complete and not has_excess:
                for_s = keep_time_s(self.head, is_question=self.is_question)
                is_kept = self.kept.keep(key, connection, for_s=for_s)
        finally:
            if not is_kept:
                connection.transport.close()

    async def _open(self) -> KeptConnection:
        """Return a new connection to a checked address; its server has proved itself."""
        target = self.target
        self.step = "Looking up the name"
        addresses = await self._resolve()

        # Connected to what was checked, never to the name, which could lead elsewhere now (K7).
        self.step = "Connecting"
        tcp = await connect(self.network, addresses, target.port)
        try:
            self._check_peer(tcp, addresses)
            stream: SecuredStream = tcp
            if target.scheme == "https":
                self.step = "The TLS handshake"
                stream = await self.network.start_tls(tcp, target.host, target.port)

            return KeptConnection(stream, tcp, trio.current_time())
        except BaseException:
            tcp.close()
            raise

    async def _resolve(self) -> list[Address]:
        if self.target.address is not None:
            addresses = [str(self.target.address)]
        else:
            addresses = await self.names.addresses(
                self.target.host, self.target.port, owner=self.lookup_owner
            )

        addresses = list(dict.fromkeys(addresses))[:ADDRESSES_MAX]
        if not addresses:
            raise OSError("the name has no address")

        # All of them, so that no order of the resolver decides whether a forbidden one is found.
        for address in addresses:
            error = _address_fault_cached(address, allow_private=self.allow_private)
            if error is not None and not self.skip_egress_rules:
                raise ForbiddenAddress(error)

        return [_parse_address_cached(address) for address in addresses]

    def _check_peer(self, tcp: TransportStream, addresses: list[Address]) -> None:
        """Raise ForbiddenAddress unless the connection leads to one of the checked addresses."""
        peer = tcp.peer_address()
        if peer is None:
            raise OSError("the connection is gone")
        if _parse_address_cached(peer) not in addresses and not self.skip_egress_rules:
            raise ForbiddenAddress(f"The connection led to {peer}, which was not checked.")

    async def _check_deadline(self) -> None:
        """End the exchange here when its time is over, though Trio may not have noticed yet: a
        process that was stopped goes on where it stood, and the payment may have been polled
        meanwhile (S6)."""
        if trio.current_time() >= self.deadline:
            await trio.sleep_forever()

    async def _receive_body(self, stream: SecuredStream, head: FinalResponseHead) -> bool:
        """Receive the body, and return whether more arrived than belongs to it."""
        body, count = response_body(head), 0
        while True:
            for piece in body.read_available():
                room = self.body_bytes_max - len(self.body)
                self.body += piece[:room]
                count += 1
                # What is left unread makes the connection useless for another request.
                if len(piece) > room or count == BODY_PIECES_MAX:
                    return True

            if body.is_complete:
                self.is_body_complete = True
                return body.has_excess

            body.receive(await stream.receive_some(RECEIVE_BYTES))


_address_fault_cached = lru_cache(maxsize=ADDRESSES_CACHED)(address_error)


@lru_cache(maxsize=ADDRESSES_CACHED)
def _parse_address_cached(text: str) -> Address:
    return unmap_ipv4(ip_address(text))


async def _receive_head(stream: SecuredStream) -> FinalResponseHead:
    reader = ResponseHeadReader()
    while (final := reader.receive(await stream.receive_some(RECEIVE_BYTES))) is None:
        pass
    return final
