"""Calls the servers of others: merchants' receivers, which are not trusted, and providers.

A delivery goes where the egress rules allow, and nowhere else: the name is looked up once, every address is checked,
the connection goes to a checked one, and the server must prove its name (K7). One hard deadline covers all of it, the
look-up included (K2). Providers' addresses are configuration, so the same call is exempt from the rules."""

from __future__ import annotations

import ssl
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import trio

from mmo_sansio.http.egress_rules import EgressRules, UrlError, UrlTarget, delivery_url_error, parse_url
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
from mmo_sansio.http.message_fields import unpack_body
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.http.response_head import ResponseHeadError
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_trio.http.client.exchange import TRANSPORT_ERRORS, ClientExchange, ForbiddenAddress, MaySend
from mmo_trio.http.client.kept_connections import KeptConnections
from mmo_trio.http.client.name_lookup import NameLookups, Resolver, SystemResolver
from mmo_trio.http.client.outside_network import OutsideNetwork, SystemNetwork

TARGETS_CACHED: Final = 512
"""URLs that were parsed and checked by their text: a merchant's is the same again and again."""
PROVIDER_RESPONSE_BYTES_MAX: Final = 256 * 1024
"""Bytes of an operator's response, which is parsed: far more than a picture of a QR code has."""


def tls_context(*extra_ca_files: Path | None) -> ssl.SSLContext:
    """Return the context that verifies servers by the system's authorities and those in these files (PEM): name and
    dates checked, TLS 1.2 or newer, HTTP/1.1 only, without a client certificate. None adds none.

    Takes milliseconds, so a client has one. Raises OSError when a file cannot be read or holds no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False  # RFC 9110 section 4.3.4: only names that are said to be names.
    context.set_alpn_protocols(["http/1.1"])
    context.load_default_certs()
    for each in filter(None, extra_ca_files):
        context.load_verify_locations(each)
    return context


class HttpClient:
    """Calls servers; any number of tasks may share one. Each call has a connection of its own, unless a merchant's
    receiver has announced that it keeps one for the next (see `mmo_trio.http.client.kept_connections`)."""

    def __init__(
        self,
        *,
        rules: EgressRules,
        context: ssl.SSLContext | None = None,
        resolver: Resolver | None = None,
        network: OutsideNetwork | None = None,
    ) -> None:
        """Take the rules for deliveries, a `tls_context` (None: a new one) for the system's network or another network,
        and a resolver (None: the system's)."""
        self._allow_private = rules.allow_private
        self._parse_target = lru_cache(maxsize=TARGETS_CACHED)(partial(_allowed_target, rules))
        self._network = network or SystemNetwork(tls_context() if context is None else context)
        self._names = NameLookups(SystemResolver() if resolver is None else resolver)
        self._kept = KeptConnections()

    async def deliver(
        self,
        request: HttpRequest,
        *,
        brand: str = "",
        may_send: MaySend = lambda: True,
        deadline_s: float = DELIVERY_TIMEOUT_S,
    ) -> DeliveryAttempt:
        """Make the one attempt to deliver this request to a merchant (K2, K3, K7).

        The target is the merchant's URL, the headers are Content-Type and X-API-KEY. The look-up of its name takes a
        place of the `brand`. The attempt records every failure; nothing is raised but SendForbidden, when `may_send`
        forbids sending after the connection is secured."""
        exchange = await self.exchange(
            request,
            skip_egress_rules=False,
            lookup_owner=brand,
            may_send=may_send,
            may_reuse=True,
            deadline_s=deadline_s,
        )
        return to_attempt(exchange, url=request.target.decode("utf-8", "replace"))

    async def call_provider(self, request: HttpRequest, *, deadline_s: float = DELIVERY_TIMEOUT_S) -> HttpResponse:
        """Return a provider's response of any status; redirects are not followed. A body that was compressed, though
        no request asks for it, is returned as it was before.

        Raises ExchangeFailed when none arrived in time, or its body broke off or was larger than
        PROVIDER_RESPONSE_BYTES_MAX."""
        exchange = await self.exchange(
            request, skip_egress_rules=True, deadline_s=deadline_s, body_bytes_max=PROVIDER_RESPONSE_BYTES_MAX
        )
        if isinstance(exchange, NoResponseReceived):
            raise ExchangeFailed(exchange.detail, may_have_arrived=exchange.may_have_arrived)
        if not exchange.is_complete:
            raise ExchangeFailed("The answer's body wasn't whole.", may_have_arrived=True)
        body = unpack_body(exchange.headers, exchange.body, bytes_max=PROVIDER_RESPONSE_BYTES_MAX)
        return HttpResponse(exchange.status, exchange.headers, body)

    async def exchange(
        self,
        request: HttpRequest,
        *,
        skip_egress_rules: bool,
        lookup_owner: str | None = None,
        may_send: MaySend = lambda: True,
        may_reuse: bool = False,
        deadline_s: float = DELIVERY_TIMEOUT_S,
        body_bytes_max: int = RESPONSE_BODY_BYTES_MAX,
    ) -> ExchangeResult:
        """Send this request, its target in absolute form, and return how the exchange ended.

        Raises nothing that others cause, and SendForbidden when `may_send` forbids it. `skip_egress_rules`: the URL
        comes from the configuration, so that any address is allowed, and http too (K7). The look-up takes a place of
        the `lookup_owner`, by default of the host itself. `may_reuse`: the request may travel on a connection that was
        kept for this owner."""
        started = trio.current_time()
        try:
            target = self._parse_target(request.target, skip_egress_rules=skip_egress_rules)
        except UrlError as error:
            return NoResponseReceived(ExchangeFailure.FORBIDDEN, str(error), may_have_arrived=False, duration_ms=0)
        attempt = ClientExchange(
            target,
            allow_private=self._allow_private,
            skip_egress_rules=skip_egress_rules,
            may_send=may_send,
            body_bytes_max=body_bytes_max,
        )
        failure, detail = ExchangeFailure.TIMEOUT, ""
        with trio.move_on_after(deadline_s):
            try:
                owner = target.host if lookup_owner is None else lookup_owner
                await attempt.run(
                    request, self._names, self._network, self._kept, lookup_owner=owner, may_reuse=may_reuse
                )
            except ForbiddenAddress as error:
                failure, detail = ExchangeFailure.FORBIDDEN, str(error)
            except ResponseHeadError as error:
                failure, detail = ExchangeFailure.TRANSPORT, str(error)
            except TRANSPORT_ERRORS as error:
                failure = ExchangeFailure.TRANSPORT
                detail = f"{attempt.step} failed: {_failure_reason(error)}."
        duration_ms = round((trio.current_time() - started) * 1000)
        if attempt.head is not None:
            return ResponseReceived(attempt.head, bytes(attempt.body), attempt.is_body_complete, duration_ms)
        if failure is ExchangeFailure.TIMEOUT:
            detail = f"{attempt.step} wasn't over after the {deadline_s:g} s that all may take."
        if attempt.has_kept_connection:
            detail += " The connection had served an earlier request."
        return NoResponseReceived(failure, detail, attempt.may_have_arrived, duration_ms)


def _allowed_target(rules: EgressRules, url: bytes, *, skip_egress_rules: bool) -> UrlTarget:
    """Return the target of a request to this URL. Raises UrlError when the rules forbid it."""
    text = url.decode("utf-8", "surrogateescape")
    error = None if skip_egress_rules else delivery_url_error(text, rules=rules)
    if error is not None:
        raise UrlError(error)
    return parse_url(text)


def _failure_reason(error: BaseException) -> str:
    """Return what the system or the TLS library reports as the cause, without a final dot."""
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
