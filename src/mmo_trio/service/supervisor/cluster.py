"""The gateway as a service of several processes: what is done once, and what each process does.

    supervisor ─┬─ worker-1, worker-2, ...    each a whole gateway with its own engine and store
                └─ sandbox-operator           only when the sandbox is a provider

The supervisor opens the doors, has the store prepared, and from then on only watches. It has imported everything that
a worker needs, and holds neither a connection nor a thread.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
import trio
from attrs import define, evolve

from mmo_trio.sandbox.operator_process import OperatorProcess, operator_socket_path
from mmo_trio.service.process import STOP_SIGNALS, listener_urls, run_service
from mmo_trio.service.sockets import Inherited, open_certificates, open_listening_sockets
from mmo_trio.service.supervisor.policy import SupervisorState
from mmo_trio.service.supervisor.processes import (
    ProcessJob,
    Supervisor,
    SupervisorLink,
    run_in_child,
)
from mmo_trio.service.wiring import build_resources, operator_journal_file, prepare_store
from mmo_trio.settings import Settings, SettingsError, to_seconds
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import BootClock, WallClock

logger = structlog.get_logger(__name__)

SANDBOX_OPERATOR_SLOT = "sandbox-operator"

WORK_DRAIN_TIMEOUT_S = 40.0
"""How long conversations and callbacks under way may take at most once the doors are closed."""

RunReportingErrors = Callable[[Callable[[], None]], int]
"""Does the work of a process, says to a person what went wrong, and makes an exit code of it."""


def supervise(
    config: ServiceConfig,
    *,
    read_settings: Callable[[], Settings],
    run_reporting_errors: RunReportingErrors,
    on_ready: Callable[[ServiceAddresses], None],
    on_serving: Callable[[], None],
) -> int:
    """Serve with `config.workers` processes until SIGTERM or SIGINT; the service's exit code.

    SIGHUP has every worker read its certificates again; SIGUSR2 reads the settings by `read` and replaces one worker
    after the other. `on_serving` is called in each worker once it serves. Raises SettingsError when it can't begin.
    """
    import_module("mmo_trio.storage.postgres")  # Before the first fork: no worker has to load it.
    open_certificates(config.settings.listen)
    doors = open_listening_sockets(config.settings.listen)
    ready = listener_urls(config, doors)
    code = run_in_child(partial(run_reporting_errors, partial(_prepare_store, config, ready)))
    if code != 0:
        return code
    with TemporaryDirectory(prefix="mmo-figures-") as board:
        has_operator = _has_sandbox(config.settings)
        crew = _ProcessJobs(
            config,
            doors,
            read_settings,
            run_reporting_errors,
            on_serving,
            Path(board),
            has_operator,
        )
        workers = tuple(f"worker-{number}" for number in range(1, config.workers + 1))
        jobs: dict[str, ProcessJob] = dict.fromkeys(workers, crew.run_worker)
        if crew.has_sandbox_operator:
            jobs[SANDBOX_OPERATOR_SLOT] = crew.run_sandbox_operator
        state = SupervisorState(
            workers,
            helpers=(SANDBOX_OPERATOR_SLOT,) if crew.has_sandbox_operator else (),
            stop_timeout_s=to_seconds(config.settings.limits.drain_timeout) + WORK_DRAIN_TIMEOUT_S,
        )
        return Supervisor(jobs, state, lambda: on_ready(ready), crew.reload_settings).run()


@define(eq=False)
class _ProcessJobs:
    """What the processes do, by the settings as they were read last."""

    config: ServiceConfig
    listening_sockets: Mapping[str, socket.socket]
    read_settings: Callable[[], Settings]
    run_reporting_errors: RunReportingErrors
    on_serving: Callable[[], None]
    metrics_directory: Path
    """The directory in which the workers leave their figures to each other."""
    has_sandbox_operator: bool
    """Whether one of the processes is the sandbox operator's."""

    @property
    def journal_path(self) -> Path:
        return operator_journal_file(self.config).absolute()

    def reload_settings(self) -> bool:
        """Read the settings for the workers to come; where to listen stays as it is."""
        try:
            settings = self.read_settings()
            open_certificates(settings.listen)
            if _has_sandbox(settings) != self.has_sandbox_operator:
                raise SettingsError(
                    "provider", "the sandbox has come or gone.", "Restart the service for that."
                )
        except (SettingsError, OSError) as error:
            logger.error("settings_reload_rejected", error=str(error))
            return False
        self.config = evolve(self.config, settings=settings)
        return True

    def run_worker(self, link: SupervisorLink) -> int:
        """A worker's whole life."""
        line = operator_socket_path(self.journal_path) if self.has_sandbox_operator else None
        config = evolve(
            self.config,
            brands_file=None,
            operator_socket=line,
            metrics_files=(self.metrics_directory, link.slot),
        )
        inherited = Inherited(self.listening_sockets, link.parent_pipe)

        def serves(_: ServiceAddresses) -> None:
            link.report_serving()
            self.on_serving()

        async def serve() -> None:
            await run_service(config, on_ready=serves, inherited=inherited)

        return self.run_reporting_errors(partial(trio.run, serve, clock=BootClock()))

    def run_sandbox_operator(self, link: SupervisorLink) -> int:
        """The sandbox operator's whole life."""
        for door in self.listening_sockets.values():
            door.close()
        os.umask(0o077)
        operator = OperatorProcess(self.journal_path, WallClock().now)

        async def serve() -> None:
            with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(operator.run)
                    nursery.start_soon(_stop_after_workers, link.parent_pipe, operator, nursery)
                    link.report_serving()
                    async for number in signals:
                        if (
                            number == signal.SIGTERM
                        ):  # Ctrl-C is for all at once: workers come first.
                            nursery.cancel_scope.cancel()

        return self.run_reporting_errors(partial(trio.run, serve))


def _has_sandbox(settings: Settings) -> bool:
    return any(each.kind == "sandbox" for each in settings.providers.values())


def _prepare_store(config: ServiceConfig, ready: ServiceAddresses) -> None:
    async def prepare() -> None:
        settings = config.settings
        url, kinds = settings.database.url, settings.store_kinds
        async with open_store(url, serving=True, kinds=kinds) as store:
            await prepare_store(build_resources(config, store, ready))

    trio.run(prepare)


async def _stop_after_workers(
    parent_pipe: int, operator: OperatorProcess, nursery: trio.Nursery
) -> None:
    """End without the supervisor's word when it is gone, and the workers are, too."""
    await trio.lowlevel.wait_readable(parent_pipe)
    with trio.move_on_after(WORK_DRAIN_TIMEOUT_S):
        await operator.wait_no_workers()
    nursery.cancel_scope.cancel()
