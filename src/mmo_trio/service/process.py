"""Runs one gateway process: a tree of nurseries, and the order in which its parts end.

    store ─ engine ─ workers ─ listeners

Each part uses the parts to its left and ends before them: the listeners accept no more requests,
the workers finish what they have begun, the engine records it, and the store is closed."""

from __future__ import annotations

import json
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import Final

import structlog
import trio
from argon2 import PasswordHasher
from attrs import define, frozen

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import Headers
from mmo_sansio.values.clock import Instant
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.console.app import create_console_app
from mmo_trio.console.overview import keep_ready
from mmo_trio.http.asgi.host import AsgiHost, Pacer
from mmo_trio.http.asgi.web_app import BODY_BYTES_MAX, WebApp
from mmo_trio.http.handler import Handler
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.http.server.connection import ListenerContext, OpenConnection, ServerConnection
from mmo_trio.http.server.connection_limits import AcceptRules
from mmo_trio.http.server.listener import serve_http
from mmo_trio.http.streams import ConnectionListener
from mmo_trio.pages.app import create_pages_app
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.service.resources import Resources, build_resources, prepare_store
from mmo_trio.service.sockets import (
    Certificates,
    Inherited,
    open_certificates,
    open_listening_sockets,
    socket_url,
    to_listener,
)
from mmo_trio.service.store_recognition import recognise_store
from mmo_trio.service.wiring import Components, assemble
from mmo_trio.settings import Settings, SettingsError, to_seconds
from mmo_trio.settings.service import RUNNING_FILE, ServiceAddresses, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.descriptors import raise_descriptor_limit, share_descriptors
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.ids import request_id_generator
from mmo_trio.system.logs import sandbox_time_in_logs

# The longest time that a stop leaves idle connections of a trusted proxy: those in use have their
# last request within it, and no request is likely to meet the end of the others.
PROXY_GRACE_S: Final = 2.0

# Seconds after the start before templates are compiled, which takes half a second: requests that
# have waited for the gateway come first.
TEMPLATES_WAIT_S: Final = 2.0

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

logger = structlog.get_logger(__name__)


@define(eq=False)
class Shutdown:
    """Says when a gateway is to end, and how gently."""

    requested: trio.Event
    idle_grace_s: float = 0.0
    """Seconds that idle connections have then for one last request."""


async def run_service(
    config: ServiceConfig,
    *,
    on_ready: Callable[[ServiceAddresses], None],
    drain: trio.Event | None = None,
    inherited: Inherited | None = None,
    password_hasher: PasswordHasher | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `drain`, then drain; SIGHUP reloads the certificates.

    With `drain` given no signal is handled; else a process that was asked to end ignores further
    requests until it ends. A worker process serves on the sockets that it has `inherited`, ends
    also when its supervisor is gone, and ends gently on SIGUSR2. `password_hasher` checks the
    passwords of the console; None is that of production. Raises SettingsError, StoreUnusable or
    StoreUnavailable when the service can't begin."""
    if config.is_sandbox and config.data_directory is not None:
        ensure_authority(config.data_directory)

    # 1. What can fail without a store comes first: certificates, then the store itself.
    settings = config.settings
    certificates = open_certificates(settings.listen)
    handles_signals = drain is None
    if drain is None:
        drain = trio.Event()

    shutdown = Shutdown(drain, _idle_grace_s(settings))
    stops = ignore_repeated_stops(drain) if handles_signals else nullcontext()
    with stops:
        async with (
            open_store(settings.database.url, serving=True) as store,
            trio.open_nursery() as watching,
        ):
            if handles_signals:
                await _watch_stops(watching, shutdown, settings, certificates, inherited)

            # 2. Sockets before resources, as the port that was free is part of the addresses.
            if inherited is None:
                listening_sockets = open_listening_sockets(settings.listen)
            else:
                listening_sockets = inherited.listening_sockets

            try:
                # 3. No engine runs before it is known that the store lacks nothing that was served.
                mark_keeper = await recognise_store(store, config)
                watching.start_soon(mark_keeper.run, drain.set)

                # 4. All parts, then their nurseries, until the shutdown is requested.
                addresses = listener_urls(config, listening_sockets)
                resources = await build_resources(
                    config, store, addresses, password_hasher=password_hasher
                )
                listeners = Listeners(
                    assemble(resources, partial(_expiry, certificates)),
                    settings,
                    {name: to_listener(opened) for name, opened in listening_sockets.items()},
                    certificates,
                    shutdown,
                    compiles_templates=True,
                )
                with _sandbox_logs(resources):
                    await run_components(resources, listeners, on_ready)
            finally:
                for listening_socket in listening_sockets.values():
                    listening_socket.close()

            # 5. Behind the last commit, so that the next start finds the mark of a store at rest.
            await mark_keeper.write_last()
            watching.cancel_scope.cancel()


async def _watch_stops(
    watching: trio.Nursery,
    shutdown: Shutdown,
    settings: Settings,
    certificates: Certificates | None,
    inherited: Inherited | None,
) -> None:
    """Begin to handle signals and, in a worker process, to watch the supervisor."""
    idle_grace_s = None
    if inherited is not None:
        # Half of the drain: the other half is for the requests that come within it.
        idle_grace_s = to_seconds(settings.limits.drain_timeout) / 2
        watching.start_soon(_stop_with_parent, inherited.parent_pipe, shutdown)

    await watching.start(_handle_signals, shutdown, certificates, idle_grace_s)


def _expiry(certificates: Certificates | None) -> Instant | None:
    """Return when the certificate in use expires, which each reload changes."""
    if certificates is None:
        return None
    return certificates.expires_at


def _sandbox_logs(resources: Resources) -> AbstractContextManager[None]:
    if resources.config.is_sandbox:
        return sandbox_time_in_logs(resources.clock)
    return nullcontext()


async def run_components(
    resources: Resources, listeners: Listeners, on_ready: Callable[[ServiceAddresses], None]
) -> None:
    """Run listeners inside workers inside the engine until the listeners' shutdown is requested;
    each level ends before the outer one. Raises SettingsError or StoreUnavailable when the brands
    can't be applied."""
    components, shutdown = listeners.components, listeners.shutdown

    # From the inside out: listeners end, then workers, then the engine that both report to.
    async with trio.open_nursery() as engine:
        await engine.start(components.engine.run)
        # Once the gateway's own time goes on, and before anybody is served.
        ready = await prepare_store(resources)
        drain_workers = trio.Event()
        async with trio.open_nursery() as workers:
            await workers.start(partial(components.workers.run, drain=drain_workers))
            engine.start_soon(components.prometheus_exporter.publish)
            engine.start_soon(components.audit_head_logger.run)
            if components.notices is not None:
                engine.start_soon(components.notices.run)

            engine.start_soon(components.retention.run)
            engine.start_soon(components.refusals.run)
            engine.start_soon(keep_ready, components.console_context)
            async with trio.open_nursery() as serving:
                # READY is said only when all of them accept.
                await listeners.start(serving)
                with _running_file(resources.config, ready):
                    on_ready(ready)
                    await shutdown.requested.wait()
                # Event streams would keep their connections open through the drain.
                components.pages_context.closing.set()
                logger.info("drain_started")

            drain_workers.set()

        await components.refusals.write_last()
        await components.audit_head_logger.log_last_head()
        engine.cancel_scope.cancel()

    logger.info("service_stopped")


async def _compile_templates(apps: Sequence[WebApp], stop: trio.Event) -> None:
    """Compile the templates of these apps, those of payers first, once what has waited for the
    start is done; nothing waits for it at the stop."""
    async with trio.open_nursery() as compiling:

        async def compile_all() -> None:
            await trio.sleep(TEMPLATES_WAIT_S)
            try:
                for app in apps:
                    await app.compile_templates()
            except Exception as error:
                # A page compiles its own with its first view; payments go on without any.
                logger.warning("templates_not_compiled", fault=describe_fault(error))
            compiling.cancel_scope.cancel()

        compiling.start_soon(compile_all)
        await stop.wait()
        compiling.cancel_scope.cancel()


@frozen
class Listeners:
    """Serve merchants, payers and staff until the shutdown is requested."""

    components: Components
    settings: Settings
    connection_listeners: Mapping[str, ConnectionListener]
    """Accept the connections of `api`, `pages` and `console`, and those of `http2` where it is
    set."""
    certificates: Certificates | None
    shutdown: Shutdown
    compiles_templates: bool = False
    """Whether the pages' templates are compiled after the start, and not each with its first
    view."""

    async def start(self, nursery: trio.Nursery) -> None:
        """Return once all listeners accept connections."""
        parts = self.components
        limits = self.settings.limits
        pages = create_pages_app(parts.pages_context, parts.api_docs)
        console = create_console_app(parts.prometheus_exporter, parts.console_context)
        shares = share_descriptors(
            raise_descriptor_limit(), callbacks=limits.callbacks, api_connections=limits.connections
        )
        certificates = self.certificates
        tls = None if certificates is None else certificates.context
        merchant_api: Handler = parts.api
        if (sandbox := parts.pages_context.sandbox) is not None:
            merchant_api = sandbox.request_log  # Which passes them on.

        api = self._context(
            merchant_api,
            limits.listener_limits,
            tls=tls,
            descriptors_max=shares.api,
            metrics=parts.http_metrics,
        )
        await self._serve(nursery, "api", api)
        if "http2" in self.connection_listeners:
            # Imported here, as few gateways need it.
            from mmo_trio.http.asgi.http2_connection import Http2Connection

            # A listener of its own, with connections of its own and the same handler.
            http2 = self._context(
                api.handler,
                limits.listener_limits,
                tls=None if certificates is None else certificates.http2_context,
                descriptors_max=shares.api,
                metrics=parts.http_metrics,
                open_connection=Http2Connection,
            )
            await self._serve(nursery, "http2", http2)

        pages_handler = self._host(pages, limits.pages_share)
        await self._serve(
            nursery,
            "pages",
            self._context(
                pages_handler,
                limits.pages_listener_limits,
                tls=tls,
                descriptors_max=shares.pages,
            ),
        )

        # Staff get half of what payers do, unless nobody is to be paced.
        console_share = limits.pages_share
        if console_share < 1:
            console_share /= 2

        console_handler = self._host(console, console_share)
        await self._serve(
            nursery,
            "console",
            self._context(
                console_handler,
                limits.console_listener_limits,
                tls=None,
                descriptors_max=shares.console,
            ),
        )
        if self.compiles_templates:
            nursery.start_soon(_compile_templates, (pages, console), self.shutdown.requested)

    async def _serve(self, nursery: trio.Nursery, name: str, context: ListenerContext) -> None:
        await nursery.start(serve_http, context, [self.connection_listeners[name]])

    def _host(self, app: WebApp, share: float) -> AsgiHost:
        """Return the handler of a listener for people, who share one event loop with the
        merchants."""
        return AsgiHost(
            app, BODY_BYTES_MAX, Pacer(share), TrustedProxies.of(self.settings.listen).client_of
        )

    def _context(
        self,
        handler: Handler,
        limits: ListenerLimits,
        *,
        tls: Callable[[], ssl.SSLContext] | None,
        descriptors_max: int,
        metrics: HttpMetrics | None = None,
        open_connection: OpenConnection = ServerConnection,
    ) -> ListenerContext:
        """Return what a listener is told: what differs between listeners, and what all have in
        common."""
        listen = self.settings.listen
        is_clear_behind_proxy = tls is None and bool(listen.proxy_trusted)
        rules = AcceptRules(
            TrustedProxies.of(listen).is_trusted,
            only_from_proxies=is_clear_behind_proxy and not listen.allow_clear,
            descriptors_max=descriptors_max,
        )

        return ListenerContext(
            handler,
            limits,
            self.components.api.merchant_api.settings.error_docs_url,
            request_id_generator(),
            self.shutdown.requested,
            metrics or HttpMetrics(log_rejections=False),
            tls=tls,
            extra_fields=() if tls is None else _transport_security(self.settings),
            accept_rules=rules,
            idle_grace_s=lambda: self.shutdown.idle_grace_s,
            open_connection=open_connection,
        )


def _transport_security(settings: Settings) -> Headers:
    """Return the field that tells browsers to use only TLS (RFC 6797); none where it is switched
    off."""
    hsts = settings.listen.hsts
    if hsts is None:
        return ()
    return ((b"strict-transport-security", b"max-age=%d" % to_seconds(hsts)),)


def _idle_grace_s(settings: Settings) -> float:
    """Return the seconds that a stop leaves idle connections: proxies repeat no POST that finds its
    connection closed, and learn by the next response that it was the last one."""
    if settings.listen.proxy_trusted:
        return min(PROXY_GRACE_S, to_seconds(settings.limits.drain_timeout) / 2)
    return 0.0


def listener_urls(
    config: ServiceConfig, listening_sockets: Mapping[str, socket.socket]
) -> ServiceAddresses:
    """Return the addresses of a gateway that listens on these sockets."""
    tls = config.settings.listen.tls_certificate is not None
    return ServiceAddresses(
        api=socket_url(listening_sockets["api"], tls=tls),
        pages=socket_url(listening_sockets["pages"], tls=tls),
        console=socket_url(listening_sockets["console"], tls=False),
        http2=socket_url(listening_sockets["http2"], tls=tls)
        if "http2" in listening_sockets
        else None,
    )


async def _handle_signals(
    shutdown: Shutdown,
    certificates: Certificates | None,
    idle_grace_s: float | None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Handle signals until cancelled. `idle_grace_s` is what SIGUSR2 leaves idle connections; None
    where no other process would serve."""
    with trio.open_signal_receiver(*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR2) as signals:
        task_status.started()
        async for number in signals:
            if number in STOP_SIGNALS:
                shutdown.requested.set()
            elif number == signal.SIGHUP:
                if certificates is not None:
                    _reload(certificates)
            elif idle_grace_s is None:
                logger.warning("rolling_restart_unsupported")
            else:
                shutdown.idle_grace_s = idle_grace_s
                shutdown.requested.set()


def _reload(certificates: Certificates) -> None:
    """Read the certificate again; a bad one is logged, and the old one stays in use."""
    try:
        certificates.reload()
        logger.info("certificate_reloaded")
    except SettingsError as error:
        logger.error("certificate_reload_failed", error=str(error))


async def _stop_with_parent(parent_pipe: int, shutdown: Shutdown) -> None:
    await trio.lowlevel.wait_readable(parent_pipe)
    logger.warning("supervisor_lost")
    shutdown.requested.set()


@contextmanager
def _running_file(config: ServiceConfig, ready: ServiceAddresses) -> Iterator[None]:
    """Keep a sandbox's addresses in `running.json` in its data directory while the block lasts."""
    if not config.is_sandbox or config.data_directory is None:
        yield
        return

    file = config.data_directory / RUNNING_FILE
    addresses = {"api": ready.api, "pages": ready.pages, "console": ready.console}
    file.write_text(json.dumps(addresses), encoding="utf-8")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def ignore_repeated_stops(stop_requested: trio.Event) -> Iterator[None]:
    """Ignore SIGTERM and SIGINT once the stop was requested, and from then on until the process
    ends.

    A receiver of signals (`trio.open_signal_receiver`) within the block takes precedence while it
    is open. Before the request the signals have the effect that they had outside. Must be used in
    the main thread."""
    outside = {number: signal.getsignal(number) or signal.SIG_DFL for number in STOP_SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop_requested.is_set():
            signal.signal(number, outside[signal.Signals(number)])
            signal.raise_signal(number)

    for number in STOP_SIGNALS:
        signal.signal(number, handle)

    try:
        yield
    finally:
        for number, handler in outside.items():
            signal.signal(number, signal.SIG_IGN if stop_requested.is_set() else handler)
