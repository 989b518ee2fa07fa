"""One gateway process: its parts, the tree of nurseries they live in, and the order in which they end.

    store ─ engine ─ workers ─ doors

Each part uses those to its left and ends before them: the doors stop taking requests, the workers finish what is under
way, the engine records it, the store is closed.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
import trio

from mmo_trio.assembly import Gateway, assemble
from mmo_trio.certificates import ensure_authority
from mmo_trio.console import console_app
from mmo_trio.doors import Certificates, address_of, open_listener
from mmo_trio.http.asgi import asgi_app
from mmo_trio.http.hosting import serve_app
from mmo_trio.http.server import serve_http
from mmo_trio.ids import request_ids
from mmo_trio.pages.app import pages_app
from mmo_trio.service_config import RUNNING_FILE, Ready, ServiceConfig
from mmo_trio.settings import Settings, SettingsError
from mmo_trio.storage.opening import open_store

logger = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


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
) -> None:
    """Serve until SIGTERM, SIGINT or `drain`, then drain and return; SIGHUP reads the certificate again.

    Raises SettingsError, StoreRefused or StoreUnavailable when it can't begin. With `drain` given no signal is
    listened to: whoever gives it decides. `further_doors` open and close together with ours.
    """
    if config.is_sandbox and config.data_directory is not None:
        ensure_authority(config.data_directory)
    stop = trio.Event() if drain is None else drain
    certificates = _certificates(config.settings)
    async with (
        open_store(config.settings.database.url, serving=True) as store,
        trio.open_nursery() as signals,
    ):
        if drain is None:
            await signals.start(_listen_to_signals, stop, certificates)
        doors = await _open_doors(config.settings)
        try:
            gateway = assemble(config, store, _addresses(doors, certificates is not None))
            await _run(gateway, doors, certificates, stop, config, on_ready, further_doors)
        finally:
            for listener in doors.values():
                listener.socket.close()
        signals.cancel_scope.cancel()


async def _run(
    gateway: Gateway,
    doors: dict[str, trio.SocketListener],
    certificates: Certificates | None,
    stop: trio.Event,
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
                async with trio.open_nursery() as open_doors:
                    await _serve(open_doors, gateway, doors, certificates, stop)
                    for door in further_doors:
                        await open_doors.start(partial(door, gateway, drain=stop))
                    if config.is_sandbox and config.data_directory is not None:
                        until_drained.enter_context(_Running(config.data_directory, ready))
                    on_ready(ready)
                    await stop.wait()
                    logger.info("draining")
            workers_stop.set()
            await gateway.workers_ended()
            workers.cancel_scope.cancel()
        engine.cancel_scope.cancel()
    logger.info("stopped")


async def _serve(
    open_doors: trio.Nursery,
    gateway: Gateway,
    doors: dict[str, trio.SocketListener],
    certificates: Certificates | None,
    stop: trio.Event,
) -> None:
    async def api(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_http(
            gateway.api,
            [doors["api"]],
            limits=gateway.listener_limits,
            error_docs_url=gateway.api.settings.error_docs_url,
            mint_request_id=request_ids(),
            drain=stop,
            tls=None if certificates is None else certificates.context,
            task_status=task_status,
        )

    async def people(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_app(
            pages_app(gateway.desk, sandbox=gateway.sandbox_desk),
            doors["pages"],
            limits=gateway.listener_limits,
            drain=stop,
            certificate=None if certificates is None else certificates.files,
            task_status=task_status,
        )

    async def operators(*, task_status: trio.TaskStatus[None]) -> None:
        await serve_app(
            console_app(gateway.figures),
            doors["console"],
            limits=gateway.listener_limits,
            drain=stop,
            task_status=task_status,
        )

    for door in (api, people, operators):
        await open_doors.start(door)


async def _open_doors(settings: Settings) -> dict[str, trio.SocketListener]:
    listen = settings.listen
    wanted = {"api": listen.api, "pages": listen.pages, "console": listen.console}
    doors: dict[str, trio.SocketListener] = {}
    try:
        for name, endpoint in wanted.items():
            doors[name] = await open_listener(name, endpoint)
    except SettingsError:
        for listener in doors.values():
            listener.socket.close()
        raise
    return doors


def _addresses(doors: dict[str, trio.SocketListener], tls: bool) -> Ready:
    return Ready(
        api=address_of(doors["api"], tls=tls),
        pages=address_of(doors["pages"], tls=tls),
        console=address_of(doors["console"], tls=False),
    )


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
    stop: trio.Event,
    certificates: Certificates | None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.open_signal_receiver(*STOP_SIGNALS, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if number in STOP_SIGNALS:
                stop.set()
            elif certificates is not None:
                try:
                    certificates.reload()
                    logger.info("certificate reloaded")
                except SettingsError as error:
                    logger.error("certificate kept", error=str(error))


class _Running:
    """While it lasts, `running.json` in the sandbox's data directory says where the sandbox serves."""

    def __init__(self, directory: Path, ready: Ready) -> None:
        self._file = directory / RUNNING_FILE
        self._text = json.dumps({"api": ready.api, "pages": ready.pages, "console": ready.console})

    def __enter__(self) -> None:
        self._file.write_text(self._text, encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        self._file.unlink(missing_ok=True)
