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

from mmo_trio.sandbox.operator_process import OperatorProcess, line_beside
from mmo_trio.service.process import STOP_SIGNALS, addresses, check_certificates, run_service
from mmo_trio.service.sockets import Inherited, open_doors
from mmo_trio.service.supervisor.policy import State
from mmo_trio.service.supervisor.processes import Job, Link, Supervisor, run_once
from mmo_trio.service.wiring import book_file, prepare_store
from mmo_trio.settings import Settings, SettingsError, seconds
from mmo_trio.settings.service import Ready, ServiceConfig
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import BootClock, WallClock

logger = structlog.get_logger(__name__)

OPERATOR = "sandbox-operator"

WORK_S = 40.0
"""How long conversations and callbacks under way may take at most once the doors are closed."""

ExitCodeOf = Callable[[Callable[[], None]], int]
"""Does the work of a process, says to a person what went wrong, and makes an exit code of it."""


def supervise(
    config: ServiceConfig,
    *,
    read: Callable[[], Settings],
    exit_code_of: ExitCodeOf,
    on_ready: Callable[[Ready], None],
    on_serving: Callable[[], None],
) -> int:
    """Serve with `config.workers` processes until SIGTERM or SIGINT; the service's exit code.

    SIGHUP has every worker read its certificates again; SIGUSR2 reads the settings by `read` and replaces one worker
    after the other. `on_serving` is called in each worker once it serves. Raises SettingsError when it can't begin.
    """
    import_module("mmo_trio.storage.postgres")  # Before the first fork: no worker has to load it.
    check_certificates(config.settings)
    doors = open_doors(config.settings.listen)
    ready = addresses(config, doors)
    code = run_once(partial(exit_code_of, partial(_prepare, config, ready)))
    if code != 0:
        return code
    with TemporaryDirectory(prefix="mmo-figures-") as board:
        has_operator = _has_sandbox(config.settings)
        crew = _Crew(config, doors, read, exit_code_of, on_serving, Path(board), has_operator)
        workers = tuple(f"worker-{number}" for number in range(1, config.workers + 1))
        jobs: dict[str, Job] = dict.fromkeys(workers, crew.work)
        if crew.has_operator:
            jobs[OPERATOR] = crew.operate
        state = State(
            workers,
            helpers=(OPERATOR,) if crew.has_operator else (),
            leave_s=seconds(config.settings.limits.drain_timeout) + WORK_S,
        )
        return Supervisor(jobs, state, lambda: on_ready(ready), crew.renew).run()


@define(eq=False)
class _Crew:
    """What the processes do, by the settings as they were read last."""

    config: ServiceConfig
    doors: Mapping[str, socket.socket]
    read: Callable[[], Settings]
    exit_code_of: ExitCodeOf
    on_serving: Callable[[], None]
    board: Path
    """The directory in which the workers leave their figures to each other."""
    has_operator: bool
    """Whether one of the processes is the sandbox operator's."""

    @property
    def book(self) -> Path:
        return book_file(self.config).absolute()

    def renew(self) -> bool:
        """Read the settings for the workers to come; where to listen stays as it is."""
        try:
            settings = self.read()
            check_certificates(settings)
            if _has_sandbox(settings) != self.has_operator:
                raise SettingsError(
                    "provider", "the sandbox has come or gone.", "Restart the service for that."
                )
        except (SettingsError, OSError) as error:
            logger.error("the workers stay as they are", error=str(error))
            return False
        self.config = evolve(self.config, settings=settings)
        return True

    def work(self, link: Link) -> int:
        """A worker's whole life."""
        line = line_beside(self.book) if self.has_operator else None
        config = evolve(
            self.config,
            brands_file=None,
            operator_line=line,
            figures_board=(self.board, link.post),
        )
        inherited = Inherited(self.doors, link.lifeline)

        def serves(_: Ready) -> None:
            link.serves()
            self.on_serving()

        async def serve() -> None:
            await run_service(config, on_ready=serves, inherited=inherited)

        return self.exit_code_of(partial(trio.run, serve, clock=BootClock()))

    def operate(self, link: Link) -> int:
        """The sandbox operator's whole life."""
        for door in self.doors.values():
            door.close()
        os.umask(0o077)
        operator = OperatorProcess(self.book, WallClock().now)

        async def serve() -> None:
            with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(operator.run)
                    nursery.start_soon(_outlive_workers, link.lifeline, operator, nursery)
                    link.serves()
                    async for number in signals:
                        if (
                            number == signal.SIGTERM
                        ):  # Ctrl-C is for all at once: workers come first.
                            nursery.cancel_scope.cancel()

        return self.exit_code_of(partial(trio.run, serve))


def _has_sandbox(settings: Settings) -> bool:
    return any(each.kind == "sandbox" for each in settings.providers.values())


def _prepare(config: ServiceConfig, ready: Ready) -> None:
    async def prepare() -> None:
        async with open_store(config.settings.database.url, serving=True) as store:
            await prepare_store(config, store, ready)

    trio.run(prepare)


async def _outlive_workers(lifeline: int, operator: OperatorProcess, serving: trio.Nursery) -> None:
    """End without the supervisor's word when it is gone, and the workers are, too."""
    await trio.lowlevel.wait_readable(lifeline)
    with trio.move_on_after(WORK_S):
        await operator.wait_deserted()
    serving.cancel_scope.cancel()
