"""Serves merchants, payers and staff on the listeners of one gateway process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import trio
from attrs import define, frozen

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import RequestHead
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.console.app import create_console_app
from mmo_trio.http.asgi.app import asgi_app
from mmo_trio.http.asgi.host import AsgiHost
from mmo_trio.http.asgi.hypercorn_server import serve_app
from mmo_trio.http.asgi.pacer import Pacer
from mmo_trio.http.asgi.web_app import BODY_BYTES_MAX, WebApp
from mmo_trio.http.handler import RequestContext, StreamingHandler
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.http.server.accept_rules import AcceptRules
from mmo_trio.http.server.listener import serve_http
from mmo_trio.http.streams import ConnectionListener
from mmo_trio.pages.app import create_pages_app
from mmo_trio.service.components import Components
from mmo_trio.service.sockets import Certificates
from mmo_trio.settings import Settings, to_seconds
from mmo_trio.system.descriptors import raise_descriptor_limit, share_descriptors
from mmo_trio.system.ids import request_id_generator

HTTP2_PROTOCOLS: Final = ("h2", "http/1.1")
"""What the HTTP/2 listener offers under TLS (ALPN)."""


@define(eq=False)
class Shutdown:
    """Says when a gateway is to end, and how gently."""

    requested: trio.Event
    idle_grace_s: float = 0.0
    """Seconds that idle connections have then for one last request."""


class ExtraListener(Protocol):
    """Serves something of the gateway until `drain` is set."""

    async def __call__(
        self, components: Components, *, drain: trio.Event, task_status: trio.TaskStatus[None]
    ) -> None: ...


@frozen
class Http2Listener:
    """Serves the merchant API under Hypercorn, for HTTP/2."""

    listener: trio.SocketListener
    certificates: Certificates | None
    """Read again on SIGHUP with those of the other listeners; None for clear HTTP."""

    async def __call__(self, components: Components, *, drain: trio.Event, task_status: trio.TaskStatus[None]) -> None:
        """Serve until `drain` is set."""
        app = asgi_app(
            components.api,
            error_docs_url=components.api.merchant_api.settings.error_docs_url,
            mint_request_id=request_id_generator(),
            limits=components.listener_limits,
            metrics=components.http_metrics,
        )
        await serve_app(
            app,
            self.listener,
            limits=components.listener_limits,
            drain=drain,
            tls=None if self.certificates is None else self.certificates.context,
            task_status=task_status,
        )


def http2_listener(listener: trio.SocketListener, *, certificate: tuple[str, str] | None = None) -> Http2Listener:
    """Return a further listener that serves the merchant API under Hypercorn, for HTTP/2.

    `certificate` names the files of a chain and its key; None serves clear HTTP. Raises SettingsError for files that
    can't be used.
    """
    return Http2Listener(listener, certificate and Certificates(*certificate, protocols=HTTP2_PROTOCOLS))


@frozen
class Listeners:
    """Serve merchants, payers and staff until the shutdown is requested."""

    components: Components
    settings: Settings
    connection_listeners: Mapping[str, ConnectionListener]
    """Accept the connections of `api`, `pages` and `console`."""
    certificates: Certificates | None
    shutdown: Shutdown
    extra_listeners: Sequence[ExtraListener]

    async def start(self, nursery: trio.Nursery) -> None:
        """Return once all listeners accept connections."""
        parts = self.components
        limits = self.settings.limits
        pages = create_pages_app(parts.pages_context, api_docs=parts.api_docs, sandbox=parts.sandbox_context)
        console = create_console_app(parts.prometheus_exporter, parts.console_context)
        shares = share_descriptors(
            raise_descriptor_limit(), callbacks=limits.callbacks, api_connections=limits.connections
        )
        await nursery.start(
            partial(
                self._serve,
                "api",
                parts.api,
                limits=limits.listener_limits,
                metrics=parts.http_metrics,
                certificates=self.certificates,
                descriptors_max=shares.api,
            )
        )
        await nursery.start(
            partial(
                self._serve,
                "pages",
                self._host(pages, limits.pages_share),
                limits=limits.pages_listener_limits,
                certificates=self.certificates,
                descriptors_max=shares.pages,
            )
        )
        await nursery.start(
            partial(
                self._serve,
                "console",
                self._host(console, limits.pages_share / 2 if limits.pages_share < 1 else 1.0),
                limits=limits.console_listener_limits,
                descriptors_max=shares.console,
            )
        )
        for extra in self.extra_listeners:
            await nursery.start(partial(extra, parts, drain=self.shutdown.requested))

    def _host(self, app: WebApp, share: float) -> AsgiHost:
        """Return the handler of a listener for people, who share one event loop with the merchants."""
        proxies = TrustedProxies.of(self.settings.listen)

        def find_client(head: RequestHead, context: RequestContext) -> str:
            forwarded = [each.decode("latin-1") for each in head.values(b"x-forwarded-for")]
            return str(proxies.client_address(context.client, forwarded) or context.client)

        return AsgiHost(app, BODY_BYTES_MAX, Pacer(share), find_client)

    async def _serve(
        self,
        name: str,
        handler: StreamingHandler,
        *,
        limits: ListenerLimits,
        descriptors_max: int,
        metrics: HttpMetrics | None = None,
        certificates: Certificates | None = None,
        task_status: trio.TaskStatus[None],
    ) -> None:
        listen = self.settings.listen
        rules = AcceptRules(
            TrustedProxies.of(listen).is_trusted,
            only_from_proxies=certificates is None and bool(listen.proxy_trusted) and not listen.allow_clear,
            descriptors_max=descriptors_max,
        )
        await serve_http(
            handler,
            [self.connection_listeners[name]],
            limits=limits,
            error_docs_url=self.components.api.merchant_api.settings.error_docs_url,
            mint_request_id=request_id_generator(),
            drain=self.shutdown.requested,
            idle_grace_s=lambda: self.shutdown.idle_grace_s,
            metrics=metrics,
            tls=None if certificates is None else certificates.context,
            accept_rules=rules,
            extra_fields=_transport_security(self.settings) if certificates is not None else b"",
            task_status=task_status,
        )


def _transport_security(settings: Settings) -> bytes:
    """Return the field that tells browsers to use only TLS (RFC 6797); empty where it is switched off."""
    hsts = settings.listen.hsts
    return b"" if hsts is None else b"Strict-Transport-Security: max-age=%d\r\n" % to_seconds(hsts)
