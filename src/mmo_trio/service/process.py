"""Runs one gateway process: a tree of nurseries, and the order in which its parts end.

    store ─ engine ─ workers ─ listeners

Each part uses the parts to its left and ends before them: the listeners accept no more requests, the workers finish
what they have begun, the engine records it, and the store is closed.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import structlog
import trio
from attrs import define, frozen
from quart_trio import QuartTrio

from mmo_trio.console.app import create_console_app
from mmo_trio.http.asgi.app import asgi_app
from mmo_trio.http.asgi.hypercorn_server import serve_app
from mmo_trio.http.server.listener import serve_http
from mmo_trio.pages.app import create_pages_app
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.service.components import Components
from mmo_trio.service.sockets import (
    Certificates,
    Inherited,
    open_certificates,
    open_listening_sockets,
    socket_url,
    to_listener,
)
from mmo_trio.service.wiring import Resources, assemble, build_resources, prepare_store
from mmo_trio.settings import SettingsError, to_seconds
from mmo_trio.settings.service import RUNNING_FILE, ServiceAddresses, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.ids import request_id_generator

logger = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


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


def http2_listener(listener: trio.SocketListener, *, certificate: tuple[str, str] | None = None) -> ExtraListener:
    """Return a further listener that serves the merchant API under Hypercorn, for HTTP/2.

    `certificate` names the files of a chain and its key; None serves clear HTTP.
    """

    async def serve(components: Components, *, drain: trio.Event, task_status: trio.TaskStatus[None]) -> None:
        app = asgi_app(
            components.api,
            error_docs_url=components.api.merchant_api.settings.error_docs_url,
            mint_request_id=request_id_generator(),
            limits=components.listener_limits,
            metrics=components.http_metrics,
        )
        await serve_app(
            app,
            listener,
            limits=components.listener_limits,
            drain=drain,
            certificate=certificate,
            task_status=task_status,
        )

    return serve


async def run_service(
    config: ServiceConfig,
    *,
    on_ready: Callable[[ServiceAddresses], None],
    drain: trio.Event | None = None,
    extra_listeners: Sequence[ExtraListener] = (),
    inherited: Inherited | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `drain`, then drain; SIGHUP reloads the certificate.

    With `drain` given no signal is handled. `extra_listeners` open and close together with the service's own. A worker
    process serves on the sockets that it has `inherited`, ends also when its supervisor is gone, and ends gently on
    SIGUSR2. Raises SettingsError, StoreUnusable or StoreUnavailable when the service can't begin.
    """
    if config.is_sandbox and config.data_directory is not None:
        ensure_authority(config.data_directory)
    shutdown = Shutdown(trio.Event() if drain is None else drain)
    settings = config.settings
    certificates = open_certificates(settings.listen)
    async with (
        open_store(settings.database.url, serving=True, kinds=settings.store_kinds) as store,
        trio.open_nursery() as signals,
    ):
        if drain is None:
            idle_grace_s = None
            if inherited is not None:
                idle_grace_s = to_seconds(settings.limits.drain_timeout) / 2
                signals.start_soon(_stop_with_parent, inherited.parent_pipe, shutdown)
            await signals.start(_handle_signals, shutdown, certificates, idle_grace_s)
        if inherited is None:
            listening_sockets = open_listening_sockets(settings.listen)
        else:
            listening_sockets = inherited.listening_sockets
        try:
            resources = build_resources(config, store, listener_urls(config, listening_sockets))
            listeners = _Listeners(assemble(resources), listening_sockets, certificates, shutdown, extra_listeners)
            await _run_components(resources, listeners, on_ready)
        finally:
            for each in listening_sockets.values():
                each.close()
        signals.cancel_scope.cancel()


async def _run_components(
    resources: Resources, listeners: _Listeners, on_ready: Callable[[ServiceAddresses], None]
) -> None:
    """Run listeners inside workers inside the engine; each level ends before the outer one."""
    components, shutdown = listeners.components, listeners.shutdown
    async with trio.open_nursery() as engine:
        await engine.start(components.engine.run)
        ready = await prepare_store(resources)
        drain_workers = trio.Event()
        async with trio.open_nursery() as workers:
            await workers.start(partial(components.workers.run, drain=drain_workers))
            engine.start_soon(components.prometheus_exporter.publish)
            engine.start_soon(components.audit_head_logger.run)
            async with trio.open_nursery() as serving:
                await listeners.start(serving)
                with _running_file(resources.config, ready):
                    on_ready(ready)
                    await shutdown.requested.wait()
                components.pages_context.closing.set()
                logger.info("drain_started")
            drain_workers.set()
        await components.audit_head_logger.log_last_head()
        engine.cancel_scope.cancel()
    logger.info("service_stopped")


@frozen
class _Listeners:
    """Serve merchants, payers and staff until the shutdown is requested."""

    components: Components
    listening_sockets: Mapping[str, socket.socket]
    certificates: Certificates | None
    shutdown: Shutdown
    extra_listeners: Sequence[ExtraListener]

    async def start(self, nursery: trio.Nursery) -> None:
        """Return once all listeners accept connections."""
        parts = self.components
        pages = create_pages_app(parts.pages_context, api_docs=parts.api_docs, sandbox=parts.sandbox_context)
        console = create_console_app(parts.prometheus_exporter, parts.console_context)
        certificate = None if self.certificates is None else self.certificates.files
        await nursery.start(self._serve_api)
        await nursery.start(self._serve_app, "pages", pages, certificate)
        await nursery.start(self._serve_app, "console", console, None)
        for extra in self.extra_listeners:
            await nursery.start(partial(extra, parts, drain=self.shutdown.requested))

    async def _serve_api(self, *, task_status: trio.TaskStatus[None]) -> None:
        api = self.components.api
        await serve_http(
            api,
            [to_listener(self.listening_sockets["api"])],
            limits=self.components.listener_limits,
            error_docs_url=api.merchant_api.settings.error_docs_url,
            mint_request_id=request_id_generator(),
            drain=self.shutdown.requested,
            idle_grace_s=lambda: self.shutdown.idle_grace_s,
            metrics=self.components.http_metrics,
            tls=None if self.certificates is None else self.certificates.context,
            task_status=task_status,
        )

    async def _serve_app(
        self, name: str, app: QuartTrio, certificate: tuple[str, str] | None, *, task_status: trio.TaskStatus[None]
    ) -> None:
        await serve_app(
            app,
            to_listener(self.listening_sockets[name]),
            limits=self.components.listener_limits,
            drain=self.shutdown.requested,
            certificate=certificate,
            task_status=task_status,
        )


def listener_urls(config: ServiceConfig, listening_sockets: Mapping[str, socket.socket]) -> ServiceAddresses:
    """Return the addresses of a gateway that listens on these sockets."""
    tls = config.settings.listen.tls_certificate is not None
    return ServiceAddresses(
        api=socket_url(listening_sockets["api"], tls=tls),
        pages=socket_url(listening_sockets["pages"], tls=tls),
        console=socket_url(listening_sockets["console"], tls=False),
    )


async def _handle_signals(
    shutdown: Shutdown,
    certificates: Certificates | None,
    idle_grace_s: float | None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Handle signals until cancelled. `idle_grace_s` is what SIGUSR2 leaves idle connections; None where no other
    process would serve."""
    with trio.open_signal_receiver(*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR2) as signals:
        task_status.started()
        async for number in signals:
            if number in STOP_SIGNALS:
                shutdown.requested.set()
            elif number == signal.SIGHUP:
                _reload_certificates(certificates)
            elif idle_grace_s is None:
                logger.warning("rolling_restart_unsupported")
            else:
                shutdown.idle_grace_s = idle_grace_s
                shutdown.requested.set()


def _reload_certificates(certificates: Certificates | None) -> None:
    if certificates is None:
        return
    try:
        certificates.reload()
        logger.info("certificate_reloaded")
    except SettingsError as error:
        logger.error("certificate_reload_failed", error=str(error))


async def _stop_with_parent(parent_pipe: int, shutdown: Shutdown) -> None:
    """Request the shutdown when the supervisor is gone."""
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
