"""Runs one gateway process: a tree of nurseries, and the order in which its parts end.

    store ─ engine ─ workers ─ listeners

Each part uses the parts to its left and ends before them: the listeners accept no more requests, the workers finish
what they have begun, the engine records it, and the store is closed.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Final

import structlog
import trio
from argon2 import PasswordHasher

from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.service.listeners import Listeners, Shutdown
from mmo_trio.service.sockets import (
    Certificates,
    Inherited,
    open_certificates,
    open_listening_sockets,
    socket_url,
    to_listener,
)
from mmo_trio.service.stop_signals import STOP_SIGNALS, ignore_repeated_stops
from mmo_trio.service.store_recognition import recognise_store
from mmo_trio.service.wiring import Resources, assemble, build_resources, prepare_store
from mmo_trio.settings import Settings, SettingsError, to_seconds
from mmo_trio.settings.service import RUNNING_FILE, ServiceAddresses, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.logs import sandbox_time_in_logs

PROXY_GRACE_S: Final = 2.0
"""The longest time that a stop leaves idle connections of a trusted proxy: those in use have their last request within
it, and no request is likely to meet the end of the others."""

logger = structlog.get_logger(__name__)


async def run_service(
    config: ServiceConfig,
    *,
    on_ready: Callable[[ServiceAddresses], None],
    drain: trio.Event | None = None,
    inherited: Inherited | None = None,
    password_hasher: PasswordHasher | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `drain`, then drain; SIGHUP reloads the certificates.

    With `drain` given no signal is handled; else a process that was asked to end ignores further requests until it
    ends. A worker process serves on the sockets that it has `inherited`, ends also when its supervisor is gone, and
    ends gently on SIGUSR2. `password_hasher` checks the passwords of the console; None is that of production. Raises
    SettingsError, StoreUnusable or StoreUnavailable when the service can't begin.
    """
    if config.is_sandbox and config.data_directory is not None:
        ensure_authority(config.data_directory)
    settings = config.settings
    shutdown = Shutdown(trio.Event() if drain is None else drain, _idle_grace_s(settings))
    certificates = open_certificates(settings.listen)
    with ignore_repeated_stops(shutdown.requested) if drain is None else nullcontext():
        async with open_store(settings.database.url, serving=True) as store, trio.open_nursery() as signals:
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
                mark_keeper = await recognise_store(store, config)
                signals.start_soon(mark_keeper.run, shutdown.requested.set)
                addresses = listener_urls(config, listening_sockets)
                resources = await build_resources(config, store, addresses, password_hasher=password_hasher)
                listeners = Listeners(
                    assemble(resources),
                    settings,
                    {name: to_listener(each) for name, each in listening_sockets.items()},
                    certificates,
                    shutdown,
                )
                with sandbox_time_in_logs(resources.clock) if config.is_sandbox else nullcontext():
                    await run_components(resources, listeners, on_ready)
            finally:
                for each in listening_sockets.values():
                    each.close()
            await mark_keeper.write()
            signals.cancel_scope.cancel()


async def run_components(
    resources: Resources, listeners: Listeners, on_ready: Callable[[ServiceAddresses], None]
) -> None:
    """Run listeners inside workers inside the engine until the listeners' shutdown is requested; each level ends before
    the outer one. Raises SettingsError or StoreUnavailable when the brands can't be applied."""
    components, shutdown = listeners.components, listeners.shutdown
    async with trio.open_nursery() as engine:
        await engine.start(components.engine.run)
        ready = await prepare_store(resources)
        drain_workers = trio.Event()
        async with trio.open_nursery() as workers:
            await workers.start(partial(components.workers.run, drain=drain_workers))
            engine.start_soon(components.prometheus_exporter.publish)
            engine.start_soon(components.audit_head_logger.run)
            engine.start_soon(components.retention.run)
            engine.start_soon(components.refusals.run)
            async with trio.open_nursery() as serving:
                await listeners.start(serving)
                with _running_file(resources.config, ready):
                    on_ready(ready)
                    await shutdown.requested.wait()
                components.pages_context.closing.set()
                logger.info("drain_started")
            drain_workers.set()
        await components.refusals.write_last()
        await components.audit_head_logger.log_last_head()
        engine.cancel_scope.cancel()
    logger.info("service_stopped")


def _idle_grace_s(settings: Settings) -> float:
    """Return the seconds that a stop leaves idle connections: proxies repeat no POST that finds its connection closed,
    and learn by the next response that it was the last one."""
    return min(PROXY_GRACE_S, to_seconds(settings.limits.drain_timeout) / 2) if settings.listen.proxy_trusted else 0.0


def listener_urls(config: ServiceConfig, listening_sockets: Mapping[str, socket.socket]) -> ServiceAddresses:
    """Return the addresses of a gateway that listens on these sockets."""
    tls = config.settings.listen.tls_certificate is not None
    return ServiceAddresses(
        api=socket_url(listening_sockets["api"], tls=tls),
        pages=socket_url(listening_sockets["pages"], tls=tls),
        console=socket_url(listening_sockets["console"], tls=False),
        http2=socket_url(listening_sockets["http2"], tls=tls) if "http2" in listening_sockets else None,
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
