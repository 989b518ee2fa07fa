"""Forwards callbacks to a merchant's server on this machine, which may speak plain HTTP (`mmo listen --forward-to`)."""

from __future__ import annotations

import ssl
from typing import Final
from urllib.parse import urlsplit

from attrs import define

from mmo_sansio.http.egress_rules import EgressRules, UrlError, parse_url
from mmo_sansio.http.exchange import ExchangeFailure, NoResponseReceived, ResponseReceived
from mmo_sansio.http.messages import HttpRequest
from mmo_trio.http.client.client import HttpClient
from mmo_trio.sandbox.callback_receiver import ReceiverAnswer

NO_RESPONSE_STATUS: Final = 502
"""The status for the sender when the local server gave no response (RFC 9110 section 15.6.3)."""
TIMEOUT_STATUS: Final = 504
"""The status for the sender when the local server took too long (RFC 9110 section 15.6.5)."""
FORWARD_TIMEOUT_S: Final = 14.5
"""Seconds for the local server: a little less than the 15 s of the sender (K2), so that it learns the reason."""

_NOT_FORWARDED: Final = frozenset(
    (
        b"host", b"user-agent", b"accept-encoding", b"content-length",  # The client writes these itself.
        b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect",
        b"proxy-authorization", b"proxy-connection",
    )
)  # fmt: skip
"""Fields that belong to one connection (RFC 9110 section 7.6.1), or that the client adds."""


@define(eq=False)
class CallbackForwarder:
    """Sends requests to one URL, with their headers and their bodies as they came."""

    url: str
    """Where to; with `/` or nothing as its path, each request keeps its own path."""
    _client: HttpClient

    async def forward(self, request: HttpRequest) -> ReceiverAnswer:
        """Return the local server's status, or 502 or 504 with the reason when there is none."""
        target = forward_target(self.url, request.target.decode("ascii", "backslashreplace"))
        headers = tuple([each for each in request.headers if each[0] not in _NOT_FORWARDED])
        sent = HttpRequest(request.method, target.encode(), headers, request.body)
        result = await self._client.exchange(sent, skip_egress_rules=True, deadline_s=FORWARD_TIMEOUT_S)
        match result:
            case ResponseReceived(status=status):
                return ReceiverAnswer(status)
            case NoResponseReceived(failure=ExchangeFailure.TIMEOUT, detail=detail):
                return ReceiverAnswer(TIMEOUT_STATUS, detail)
            case NoResponseReceived(detail=detail):
                return ReceiverAnswer(NO_RESPONSE_STATUS, detail)


def callback_forwarder(url: str, context: ssl.SSLContext) -> CallbackForwarder:
    """Return a forwarder to this http or https URL; the context verifies the server of the latter.

    Raises ValueError, with a sentence, for a URL that cannot be called."""
    try:
        parse_url(url)
    except UrlError as error:
        raise ValueError(str(error)) from None
    return CallbackForwarder(url, HttpClient(rules=EgressRules(), context=context))


def forward_target(url: str, path: str) -> str:
    """Return where a request to this path of the receiver goes: to the URL, with the request's path where the URL has
    none, and with the request's query where the URL has none."""
    to, came = urlsplit(url), urlsplit(path)
    if to.path in ("", "/"):
        to = to._replace(path=came.path)
    return to._replace(query=to.query or came.query).geturl()
