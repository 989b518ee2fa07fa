"""One gateway process: its parts, the tree of nurseries they live in, and the order in which they end.

    store ─ engine ─ workers ─ doors

Each part uses those to its left and ends before them: the doors stop taking requests, the workers finish what is under
way, the engine records it, the store is closed.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
import trio
from attrs import define

from mmo_trio.console import create_console_app
from mmo_trio.http.asgi.app import asgi_app
from mmo_trio.http.asgi.hypercorn_server import serve_app
from mmo_trio.http.server.listener import serve_http
from mmo_trio.pages.app import create_pages_app
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.service.components import Components
from mmo_trio.service.sockets import (
    Certificates,
    Inherited,
    open_listening_sockets,
    socket_url,
    to_listener,
)
from mmo_trio.service.wiring import assemble
from mmo_trio.settings import Settings, SettingsError, to_seconds
from mmo_trio.settings.service import RUNNING_FILE, ServiceAddresses, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.ids import request_id_generator

logger = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@define(eq=False)
class Shutdown:
    """When a gateway is to end, and how gently."""

    requested: trio.Event
    idle_grace_s: float = 0.0
    """How long idle connections are left then for one last request."""


class ExtraListener(Protocol):
    """Serves something of the gateway until `drain` is set."""

    async def __call__(
        self, components: Components, *, drain: trio.Event, task_status: trio.TaskStatus[None]
    ) -> None: ...


def http2_listener(
    listener: trio.SocketListener, *, certificate: tuple[str, str] | None = None
) -> ExtraListener:
    """The merchant API once more, under Hypercorn, for HTTP/2: serves on this listener.

    `certificate` names the files of a chain and its key; None serves in the clear.
    """

    async def serve(
        components: Components, *, drain: trio.Event, task_status: trio.TaskStatus[None]
    ) -> None:
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
    """Serve until SIGTERM, SIGINT or `drain`, then drain and return; SIGHUP reads the certificate again.

    Raises SettingsError, StoreUnusable or StoreUnavailable when it can't begin. With `drain` given no signal is
    listened to: whoever gives it decides. `further_doors` open and close together with ours. A worker is given what
    it has `inherited`: it serves on those doors, also ends when its supervisor is gone, and gently on SIGUSR2.
    """
    if config.is_sandbox and config.data_directory is not None:
        ensure_authority(config.data_directory)
    ending = Shutdown(trio.Event() if drain is None else drain)
    certificates = _certificates(config.settings)
    async with (
        open_store(
            config.settings.database.url, serving=True, kinds=config.settings.store_kinds
        ) as store,
        trio.open_nursery() as signals,
    ):
        if drain is None:
            retired_after_s = None
            if inherited is not None:
                retired_after_s = to_seconds(config.settings.limits.drain_timeout) / 2
                signals.start_soon(_stop_with_parent, inherited.parent_pipe, ending)
            await signals.start(_handle_signals, ending, certificates, retired_after_s)
        doors = (
            open_listening_sockets(config.settings.listen)
            if inherited is None
            else inherited.listening_sockets
        )
        try:
            gateway = assemble(config, store, listener_urls(config, doors))
            await _run_components(
                gateway, doors, certificates, ending, config, on_ready, extra_listeners
            )
        finally:
            for door in doors.values():
                door.close()
        signals.cancel_scope.cancel()


async def _run_components(
    components: Components,
    listening_sockets: Mapping[str, socket.socket],
    certificates: Certificates | None,
    shutdown: Shutdown,
    config: ServiceConfig,
    on_ready: Callable[[ServiceAddresses], None],
    extra_listeners: Sequence[ExtraListener],
) -> None:
    """The tree: engine outside, workers within, doors inmost; each level ends before the one around it."""
    async with trio.open_nursery() as engine:
        await engine.start(components.engine.run)
        ready = await components.prepare()
        workers_stop = trio.Event()
        async with trio.open_nursery() as workers:
            await components.start_workers(workers, workers_stop)
            with ExitStack() as until_drained:
                async with trio.open_nursery() as opened:
                    await _start_listeners(
                        opened, components, listening_sockets, certificates, shutdown
                    )
                    for door in extra_listeners:
                        await opened.start(partial(door, components, drain=shutdown.requested))
                    if config.is_sandbox and config.data_directory is not None:
                        until_drained.enter_context(_RunningFile(config.data_directory, ready))
                    on_ready(ready)
                    await shutdown.requested.wait()
                    components.pages_context.closing.set()
                    logger.info("drain_started")
            workers_stop.set()
            await components.wait_workers_ended()
            workers.cancel_scope.cancel()
        engine.cancel_scope.cancel()
    logger.info("service_stopped")


async def _start_listeners(
    nursery: trio.Nursery,
    components: Components,
    listening_sockets: Mapping[str, socket.socket],
    certificates: Certificates | None,
    shutdown: Shutdown,
) -> None:
    async def api(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_http(
            components.api,
            [to_listener(listening_sockets["api"])],
            limits=components.listener_limits,
            error_docs_url=components.api.merchant_api.settings.error_docs_url,
            mint_request_id=request_id_generator(),
            drain=shutdown.requested,
            idle_grace_s=lambda: shutdown.idle_grace_s,
            metrics=components.http_metrics,
            tls=None if certificates is None else certificates.context,
            task_status=task_status,
        )

    async def people(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_app(
            create_pages_app(
                components.pages_context,
                api_docs=components.api_docs,
                sandbox=components.sandbox_context,
            ),
            to_listener(listening_sockets["pages"]),
            limits=components.listener_limits,
            drain=shutdown.requested,
            certificate=None if certificates is None else certificates.files,
            task_status=task_status,
        )

    async def operators(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_app(
            create_console_app(components.prometheus_exporter, components.console_context),
            to_listener(listening_sockets["console"]),
            limits=components.listener_limits,
            drain=shutdown.requested,
            task_status=task_status,
        )

    for door in (api, people, operators):
        await nursery.start(door)


def listener_urls(
    config: ServiceConfig, listening_sockets: Mapping[str, socket.socket]
) -> ServiceAddresses:
    """Where a gateway with these doors is reached."""
    tls = config.settings.listen.tls_certificate is not None
    return ServiceAddresses(
        api=socket_url(listening_sockets["api"], tls=tls),
        pages=socket_url(listening_sockets["pages"], tls=tls),
        console=socket_url(listening_sockets["console"], tls=False),
    )


def check_certificates(settings: Settings) -> None:
    """Raise SettingsError when the certificate that is set can't be used."""
    _certificates(settings)


def _certificates(settings: Settings) -> Certificates | None:
    listen = settings.listen
    if listen.tls_certificate is None and listen.tls_key is None:
        return None
    if listen.tls_certificate is None or listen.tls_key is None:
        raise SettingsError(
            "listen.tls_certificate",
            "a certificate and its key are needed together.",
            "Set listen.tls_certificate and listen.tls_key, or neither.",
        )
    return Certificates(listen.tls_certificate, listen.tls_key)


async def _handle_signals(
    shutdown: Shutdown,
    certificates: Certificates | None,
    idle_grace_s: float | None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """`retired_after_s`: how long SIGUSR2 leaves idle connections; None where nobody else would serve."""
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
    """End when the supervisor is gone: nobody else would ever tell."""
    await trio.lowlevel.wait_readable(parent_pipe)
    logger.warning("supervisor_lost")
    shutdown.requested.set()


class _RunningFile:
    """While it lasts, `running.json` in the sandbox's data directory says where the sandbox serves."""

    def __init__(self, directory: Path, ready: ServiceAddresses) -> None:
        self._file = directory / RUNNING_FILE
        self._text = json.dumps({"api": ready.api, "pages": ready.pages, "console": ready.console})

    def __enter__(self) -> None:
        self._file.write_text(self._text, encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        self._file.unlink(missing_ok=True)
