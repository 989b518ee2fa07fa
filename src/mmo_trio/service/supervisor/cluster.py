"""Runs the gateway as a service of several processes.

    supervisor ─┬─ worker-1, worker-2, ...    complete gateways, each with engine and store
                └─ sandbox-operator           only with a provider of kind `sandbox`

The supervisor opens the listening sockets, lets a child prepare the store, and from then on only watches. It has
imported everything that a worker needs, and has neither a connection nor a thread.
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
from mmo_trio.service.process import listener_urls, run_service
from mmo_trio.service.sockets import Inherited, open_certificates, open_listening_sockets
from mmo_trio.service.stop_signals import STOP_SIGNALS
from mmo_trio.service.store_recognition import recognise_store
from mmo_trio.service.supervisor.policy import SupervisorState
from mmo_trio.service.supervisor.processes import ProcessJob, Supervisor, SupervisorLink, run_in_child
from mmo_trio.service.wiring import build_resources, operator_journal_file, prepare_store
from mmo_trio.settings import Settings, SettingsError, to_seconds
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import BootClock, GatewayClock
from mmo_trio.system.logs import logs_in_background

logger = structlog.get_logger(__name__)

SANDBOX_OPERATOR_SLOT = "sandbox-operator"

WORK_DRAIN_TIMEOUT_S = 40.0
"""Seconds that active conversations and callbacks have once the listeners are closed."""

RunReportingErrors = Callable[[Callable[[], None]], int]
"""Does the work of a process, reports an error to a person, and returns the exit code."""


def supervise(
    config: ServiceConfig,
    *,
    read_settings: Callable[[], Settings],
    run_reporting_errors: RunReportingErrors,
    on_ready: Callable[[ServiceAddresses], None],
    on_serving: Callable[[], None],
) -> int:
    """Serve with `config.workers` processes until SIGTERM or SIGINT, and return the exit code.

    On SIGHUP every worker reads its certificates again; on SIGUSR2 the supervisor reads the settings by `read_settings`
    and replaces one worker after the other. `on_serving` is called in each worker once it serves. Raises SettingsError
    when the service can't begin.
    """
    import_module("mmo_trio.storage.postgres")  # Before the first fork: no worker has to load it.
    open_certificates(config.settings.listen)
    listening_sockets = open_listening_sockets(config.settings.listen)
    addresses = listener_urls(config, listening_sockets)
    prepare = partial(_prepare_store, config, addresses)
    exit_code = run_in_child(partial(run_reporting_errors, prepare))
    if exit_code != 0:
        return exit_code
    with TemporaryDirectory(prefix="mmo-metrics-") as metrics_directory:
        has_operator = _has_sandbox(config.settings)
        processes = _ProcessJobs(
            config,
            listening_sockets,
            read_settings,
            run_reporting_errors,
            on_serving,
            Path(metrics_directory),
            has_operator,
        )
        workers = tuple(f"worker-{number}" for number in range(1, config.workers + 1))
        jobs: dict[str, ProcessJob] = dict.fromkeys(workers, processes.run_worker)
        helpers = (SANDBOX_OPERATOR_SLOT,) if has_operator else ()
        jobs |= dict.fromkeys(helpers, processes.run_sandbox_operator)
        stop_timeout_s = to_seconds(config.settings.limits.drain_timeout) + WORK_DRAIN_TIMEOUT_S
        state = SupervisorState(workers, helpers, stop_timeout_s)
        on_all_serving = partial(on_ready, addresses)
        return Supervisor(jobs, state, on_all_serving, processes.reload_settings, processes.close_listeners).run()


@define(eq=False)
class _ProcessJobs:
    """Runs as each kind of process, with the settings that were read last."""

    config: ServiceConfig
    listening_sockets: Mapping[str, socket.socket]
    read_settings: Callable[[], Settings]
    run_reporting_errors: RunReportingErrors
    on_serving: Callable[[], None]
    metrics_directory: Path
    """The directory in which the workers exchange their metrics."""
    has_sandbox_operator: bool
    """Whether one of the processes is the simulated operator's."""

    @property
    def journal_path(self) -> Path:
        return operator_journal_file(self.config).absolute()

    def close_listeners(self) -> None:
        """Close this process's copies of the listening sockets; a second call does nothing."""
        for each in self.listening_sockets.values():
            each.close()

    def reload_settings(self) -> bool:
        """Read the settings for the next workers; False, and no change, if they can't be used."""
        try:
            settings = self.read_settings()
            open_certificates(settings.listen)
            if _has_sandbox(settings) != self.has_sandbox_operator:
                remedy = "Restart the service for that."
                raise SettingsError("provider", "the sandbox has come or gone.", remedy)
        except (SettingsError, OSError) as error:
            logger.error("settings_reload_rejected", error=str(error))
            return False
        self.config = evolve(self.config, settings=settings)
        return True

    def run_worker(self, link: SupervisorLink) -> int:
        """Run as a worker, and return its exit code."""
        socket_path = operator_socket_path(self.journal_path) if self.has_sandbox_operator else None
        metrics_files = (self.metrics_directory, link.slot)
        config = evolve(self.config, brands_file=None, operator_socket=socket_path, metrics_files=metrics_files)
        inherited = Inherited(self.listening_sockets, link.parent_pipe)

        def report_serving(_: ServiceAddresses) -> None:
            link.report_serving()
            self.on_serving()

        async def serve() -> None:
            await run_service(config, on_ready=report_serving, inherited=inherited)

        with logs_in_background():
            return self.run_reporting_errors(partial(trio.run, serve, clock=BootClock()))

    def run_sandbox_operator(self, link: SupervisorLink) -> int:
        """Run as the simulated operator, and return its exit code."""
        self.close_listeners()
        os.umask(0o077)
        operator = OperatorProcess(self.journal_path, GatewayClock().now)

        async def serve() -> None:
            with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(operator.run)
                    nursery.start_soon(_stop_after_workers, link.parent_pipe, operator, nursery)
                    link.report_serving()
                    async for number in signals:
                        # Ctrl-C reaches all processes at once, and the workers have to end first.
                        if number == signal.SIGTERM:
                            nursery.cancel_scope.cancel()

        with logs_in_background():
            return self.run_reporting_errors(partial(trio.run, serve))


def _has_sandbox(settings: Settings) -> bool:
    return any(each.kind == "sandbox" for each in settings.providers.values())


def _prepare_store(config: ServiceConfig, addresses: ServiceAddresses) -> None:
    async def prepare() -> None:
        async with open_store(config.settings.database.url, serving=True) as store:
            await recognise_store(store, config)
            await prepare_store(await build_resources(config, store, addresses))

    trio.run(prepare)


async def _stop_after_workers(parent_pipe: int, operator: OperatorProcess, nursery: trio.Nursery) -> None:
    """Stop the operator once the supervisor and the workers are gone."""
    await trio.lowlevel.wait_readable(parent_pipe)
    with trio.move_on_after(WORK_DRAIN_TIMEOUT_S):
        await operator.wait_no_workers()
    nursery.cancel_scope.cancel()
