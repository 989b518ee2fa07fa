"""Serves merchants, payers and staff on the listeners of one gateway process."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import partial

import trio
from attrs import define, frozen

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import Headers, RequestHead
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.console.app import create_console_app
from mmo_trio.http.asgi.host import AsgiHost
from mmo_trio.http.asgi.pacer import Pacer
from mmo_trio.http.asgi.web_app import BODY_BYTES_MAX, WebApp
from mmo_trio.http.handler import Handler, RequestContext
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.http.server.accept_rules import AcceptRules
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import OpenConnection, http1_connections, serve_http
from mmo_trio.http.streams import ConnectionListener
from mmo_trio.pages.app import create_pages_app
from mmo_trio.service.components import Components
from mmo_trio.service.sockets import Certificates
from mmo_trio.settings import Settings, to_seconds
from mmo_trio.system.descriptors import raise_descriptor_limit, share_descriptors
from mmo_trio.system.ids import request_id_generator


@define(eq=False)
class Shutdown:
    """Says when a gateway is to end, and how gently."""

    requested: trio.Event
    idle_grace_s: float = 0.0
    """Seconds that idle connections have then for one last request."""


@frozen
class Listeners:
    """Serve merchants, payers and staff until the shutdown is requested."""

    components: Components
    settings: Settings
    connection_listeners: Mapping[str, ConnectionListener]
    """Accept the connections of `api`, `pages` and `console`, and those of `http2` where it is set."""
    certificates: Certificates | None
    shutdown: Shutdown

    async def start(self, nursery: trio.Nursery) -> None:
        """Return once all listeners accept connections."""
        parts = self.components
        limits = self.settings.limits
        pages = create_pages_app(parts.pages_context, api_docs=parts.api_docs, sandbox=parts.sandbox_context)
        console = create_console_app(parts.prometheus_exporter, parts.console_context)
        shares = share_descriptors(
            raise_descriptor_limit(), callbacks=limits.callbacks, api_connections=limits.connections
        )
        certificates = self.certificates
        tls = None if certificates is None else certificates.context
        serve_api = partial(
            self._serve,
            handler=parts.api,
            limits=limits.listener_limits,
            metrics=parts.http_metrics,
            descriptors_max=shares.api,
        )
        await nursery.start(partial(serve_api, "api", tls=tls))
        if "http2" in self.connection_listeners:
            # Imported here, as few gateways need it.
            from mmo_trio.http.asgi.http2_connection import http2_connections

            http2_tls = None if certificates is None else certificates.http2_context
            await nursery.start(partial(serve_api, "http2", tls=http2_tls, connections=http2_connections))
        await nursery.start(
            partial(
                self._serve,
                "pages",
                self._host(pages, limits.pages_share),
                limits=limits.pages_listener_limits,
                tls=tls,
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
        handler: Handler,
        *,
        limits: ListenerLimits,
        descriptors_max: int,
        metrics: HttpMetrics | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        connections: Callable[[ListenerContext], OpenConnection] = http1_connections,
        task_status: trio.TaskStatus[None],
    ) -> None:
        listen = self.settings.listen
        rules = AcceptRules(
            TrustedProxies.of(listen).is_trusted,
            only_from_proxies=tls is None and bool(listen.proxy_trusted) and not listen.allow_clear,
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
            tls=tls,
            accept_rules=rules,
            extra_fields=() if tls is None else _transport_security(self.settings),
            connections=connections,
            task_status=task_status,
        )


def _transport_security(settings: Settings) -> Headers:
    """Return the field that tells browsers to use only TLS (RFC 6797); none where it is switched off."""
    hsts = settings.listen.hsts
    return () if hsts is None else ((b"strict-transport-security", b"max-age=%d" % to_seconds(hsts)),)
