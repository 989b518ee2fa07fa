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

from mmo_trio.console import console_app
from mmo_trio.http.asgi.app import asgi_app
from mmo_trio.http.asgi.hypercorn_server import serve_app
from mmo_trio.http.server.listener import serve_http
from mmo_trio.pages.app import pages_app
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.service.components import Gateway
from mmo_trio.service.sockets import Certificates, Inherited, address_of, listener_on, open_doors
from mmo_trio.service.wiring import assemble
from mmo_trio.settings import Settings, SettingsError, seconds
from mmo_trio.settings.service import RUNNING_FILE, Ready, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.ids import request_ids

logger = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@define(eq=False)
class Ending:
    """When a gateway is to end, and how gently."""

    stop: trio.Event
    patience_s: float = 0.0
    """How long idle connections are left then for one last request."""


class FurtherDoor(Protocol):
    """Serves something of the gateway until `drain` is set."""

    async def __call__(
        self, gateway: Gateway, *, drain: trio.Event, task_status: trio.TaskStatus[None]
    ) -> None: ...


def second_door(
    listener: trio.SocketListener, *, certificate: tuple[str, str] | None = None
) -> FurtherDoor:
    """The merchant API once more, under Hypercorn, for HTTP/2: serves on this listener.

    `certificate` names the files of a chain and its key; None serves in the clear.
    """

    async def serve(
        gateway: Gateway, *, drain: trio.Event, task_status: trio.TaskStatus[None]
    ) -> None:
        app = asgi_app(
            gateway.api,
            error_docs_url=gateway.api.settings.error_docs_url,
            mint_request_id=request_ids(),
            limits=gateway.listener_limits,
            traffic=gateway.traffic,
        )
        await serve_app(
            app,
            listener,
            limits=gateway.listener_limits,
            drain=drain,
            certificate=certificate,
            task_status=task_status,
        )

    return serve


async def run_service(
    config: ServiceConfig,
    *,
    on_ready: Callable[[Ready], None],
    drain: trio.Event | None = None,
    further_doors: Sequence[FurtherDoor] = (),
    inherited: Inherited | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `drain`, then drain and return; SIGHUP reads the certificate again.

    Raises SettingsError, StoreRefused or StoreUnavailable when it can't begin. With `drain` given no signal is
    listened to: whoever gives it decides. `further_doors` open and close together with ours. A worker is given what
    it has `inherited`: it serves on those doors, also ends when its supervisor is gone, and gently on SIGUSR2.
    """
    if config.is_sandbox and config.data_directory is not None:
        ensure_authority(config.data_directory)
    ending = Ending(trio.Event() if drain is None else drain)
    certificates = _certificates(config.settings)
    async with (
        open_store(config.settings.database.url, serving=True) as store,
        trio.open_nursery() as signals,
    ):
        if drain is None:
            retired_after_s = None
            if inherited is not None:
                retired_after_s = seconds(config.settings.limits.drain_timeout) / 2
                signals.start_soon(_watch, inherited.lifeline, ending)
            await signals.start(_listen_to_signals, ending, certificates, retired_after_s)
        doors = open_doors(config.settings.listen) if inherited is None else inherited.doors
        try:
            gateway = assemble(config, store, addresses(config, doors))
            await _run(gateway, doors, certificates, ending, config, on_ready, further_doors)
        finally:
            for door in doors.values():
                door.close()
        signals.cancel_scope.cancel()


async def _run(
    gateway: Gateway,
    doors: Mapping[str, socket.socket],
    certificates: Certificates | None,
    ending: Ending,
    config: ServiceConfig,
    on_ready: Callable[[Ready], None],
    further_doors: Sequence[FurtherDoor],
) -> None:
    """The tree: engine outside, workers within, doors inmost; each level ends before the one around it."""
    async with trio.open_nursery() as engine:
        await engine.start(gateway.engine.run)
        ready = await gateway.prepare()
        workers_stop = trio.Event()
        async with trio.open_nursery() as workers:
            await gateway.start_workers(workers, workers_stop)
            with ExitStack() as until_drained:
                async with trio.open_nursery() as opened:
                    await _serve(opened, gateway, doors, certificates, ending)
                    for door in further_doors:
                        await opened.start(partial(door, gateway, drain=ending.stop))
                    if config.is_sandbox and config.data_directory is not None:
                        until_drained.enter_context(_Running(config.data_directory, ready))
                    on_ready(ready)
                    await ending.stop.wait()
                    gateway.desk.closing.set()
                    logger.info("draining")
            workers_stop.set()
            await gateway.workers_ended()
            workers.cancel_scope.cancel()
        engine.cancel_scope.cancel()
    logger.info("stopped")


async def _serve(
    opened: trio.Nursery,
    gateway: Gateway,
    doors: Mapping[str, socket.socket],
    certificates: Certificates | None,
    ending: Ending,
) -> None:
    async def api(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_http(
            gateway.api,
            [listener_on(doors["api"])],
            limits=gateway.listener_limits,
            error_docs_url=gateway.api.settings.error_docs_url,
            mint_request_id=request_ids(),
            drain=ending.stop,
            patience_s=lambda: ending.patience_s,
            traffic=gateway.traffic,
            tls=None if certificates is None else certificates.context,
            task_status=task_status,
        )

    async def people(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_app(
            pages_app(gateway.desk, papers=gateway.papers, sandbox=gateway.sandbox_desk),
            listener_on(doors["pages"]),
            limits=gateway.listener_limits,
            drain=ending.stop,
            certificate=None if certificates is None else certificates.files,
            task_status=task_status,
        )

    async def operators(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_app(
            console_app(gateway.figures, gateway.console_desk),
            listener_on(doors["console"]),
            limits=gateway.listener_limits,
            drain=ending.stop,
            task_status=task_status,
        )

    for door in (api, people, operators):
        await opened.start(door)


def addresses(config: ServiceConfig, doors: Mapping[str, socket.socket]) -> Ready:
    """Where a gateway with these doors is reached."""
    tls = config.settings.listen.tls_certificate is not None
    return Ready(
        api=address_of(doors["api"], tls=tls),
        pages=address_of(doors["pages"], tls=tls),
        console=address_of(doors["console"], tls=False),
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


async def _listen_to_signals(
    ending: Ending,
    certificates: Certificates | None,
    retired_after_s: float | None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """`retired_after_s`: how long SIGUSR2 leaves idle connections; None where nobody else would serve."""
    with trio.open_signal_receiver(*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR2) as signals:
        task_status.started()
        async for number in signals:
            if number in STOP_SIGNALS:
                ending.stop.set()
            elif number == signal.SIGHUP:
                _reload(certificates)
            elif retired_after_s is None:
                logger.warning("one process can't be replaced while it serves: restart it")
            else:
                ending.patience_s = retired_after_s
                ending.stop.set()


def _reload(certificates: Certificates | None) -> None:
    if certificates is None:
        return
    try:
        certificates.reload()
        logger.info("certificate reloaded")
    except SettingsError as error:
        logger.error("certificate kept", error=str(error))


async def _watch(lifeline: int, ending: Ending) -> None:
    """End when the supervisor is gone: nobody else would ever tell."""
    await trio.lowlevel.wait_readable(lifeline)
    logger.warning("the supervisor is gone")
    ending.stop.set()


class _Running:
    """While it lasts, `running.json` in the sandbox's data directory says where the sandbox serves."""

    def __init__(self, directory: Path, ready: Ready) -> None:
        self._file = directory / RUNNING_FILE
        self._text = json.dumps({"api": ready.api, "pages": ready.pages, "console": ready.console})

    def __enter__(self) -> None:
        self._file.write_text(self._text, encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        self._file.unlink(missing_ok=True)
