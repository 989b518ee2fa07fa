"""Says by which version of HTTP the merchants of the contract suite talk: `--http=1` or `2`."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from attrs import Factory, define


@define(eq=False)
class HttpVersion:
    """The version of this run, and where each gateway speaks HTTP/2."""

    is_http2: bool = False
    _addresses: dict[str, str] = Factory(dict)
    """The host and port of `listen.http2`, by that of `listen.api`."""

    @property
    def environment(self) -> dict[str, str]:
        """What tells a gateway to speak this version, too."""
        return {"MMO_LISTEN_HTTP2": "127.0.0.1:0"} if self.is_http2 else {}

    def learn(self, ready: Mapping[str, str | None]) -> None:
        """Remember the addresses in a gateway's READY line."""
        api, http2 = ready.get("api"), ready.get("http2")
        if api and http2:
            self._addresses[urlsplit(api).netloc] = urlsplit(http2).netloc

    def http2_address(self, api: str) -> str | None:
        """Where to send a request to the merchant API at this host and port by HTTP/2; None for
        HTTP/1.1."""
        if not self.is_http2:
            return None
        assert api in self._addresses, f"{api} does not speak HTTP/2"
        return self._addresses[api]


http_version = HttpVersion()
"""That of the test session; `conftest.py` chooses it."""
