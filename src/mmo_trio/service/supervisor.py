"""Runs the gateway as a service of several processes: a supervisor and its workers, each of which
is a complete gateway with engine and store.

The supervisor opens the listening sockets, and from then on only watches: first a child that
prepares the store, then the workers. It has imported everything that a worker needs, and has
neither a connection nor a thread.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
import trio
from attrs import Factory, define, evolve, field, frozen

from mmo_trio.service import supervisor_policy as policy
from mmo_trio.service.process import STOP_SIGNALS, listener_urls, run_service
from mmo_trio.service.resources import build_resources, prepare_store
from mmo_trio.service.sockets import Inherited, open_certificates, open_listening_sockets
from mmo_trio.service.store_recognition import recognise_store
from mmo_trio.settings import Settings, SettingsError, to_seconds
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig, sandbox_provider
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import BootClock
from mmo_trio.system.fault_report import EXIT_SOFTWARE_ERROR, describe_fault
from mmo_trio.system.logs import logs_in_background, name_process

logger = structlog.get_logger(__name__)

# Seconds that active conversations and callbacks have once the listeners are closed.
# A conversation with an operator takes 20 s at most, a callback 15 s by default, and both are
# recorded then.
WORK_DRAIN_TIMEOUT_S = 40.0

# The events that signals cause; the supervisor looks for ended children after each signal.
SIGNAL_EVENTS: Mapping[int, Callable[[], policy.SupervisorEvent]] = {
    signal.SIGTERM: policy.StopRequested,
    signal.SIGINT: policy.StopRequested,
    signal.SIGHUP: policy.ReloadRequested,
    signal.SIGUSR2: policy.RollingRestartRequested,
    signal.SIGCHLD: policy.TimePassed,
}

# Does the work of a process, reports an error to a person, and returns the exit code.
RunReportingErrors = Callable[[Callable[[], None]], int]


def supervise(
    config: ServiceConfig,
    *,
    read_settings: Callable[[], Settings],
    run_reporting_errors: RunReportingErrors,
    on_ready: Callable[[ServiceAddresses], None],
    on_serving: Callable[[], None],
) -> int:
    """Serve with `config.workers` processes until SIGTERM or SIGINT, and return the exit code.

    On SIGHUP every worker reads its certificates again; on SIGUSR2 the supervisor reads the
    settings by `read_settings` and replaces one worker after the other. `on_serving` is called in
    each worker once it serves. Raises SettingsError when the service can't begin."""
    import_module("mmo_trio.storage.postgres")  # Before the first fork: no worker has to load it.

    # What can fail, fails here once, and not in each worker.
    open_certificates(config.settings.listen)
    listening_sockets = open_listening_sockets(config.settings.listen)
    addresses = listener_urls(config, listening_sockets)
    with TemporaryDirectory(prefix="mmo-metrics-") as metrics_directory:
        jobs = _ProcessJobs(
            config,
            addresses,
            listening_sockets,
            read_settings,
            run_reporting_errors,
            on_serving,
            Path(metrics_directory),
        )
        workers = tuple(f"worker-{number}" for number in range(1, config.workers + 1))
        stop_timeout_s = to_seconds(config.settings.limits.drain_timeout) + WORK_DRAIN_TIMEOUT_S
        state = policy.SupervisorState(workers, stop_timeout_s)
        return Supervisor(jobs, state, partial(on_ready, addresses)).run()


async def _prepare_store(
    config: ServiceConfig, addresses: ServiceAddresses, parent_pipe: int
) -> None:
    """Make the store ready for the workers; end at once when the supervisor is gone."""
    async with trio.open_nursery() as preparation:
        preparation.start_soon(_end_with_parent, parent_pipe, preparation.cancel_scope)
        async with open_store(config.settings.database.url, serving=True) as store:
            await recognise_store(store, config)
            await prepare_store(await build_resources(config, store, addresses))
        preparation.cancel_scope.cancel()


async def _end_with_parent(parent_pipe: int, preparation: trio.CancelScope) -> None:
    await trio.lowlevel.wait_readable(parent_pipe)
    logger.warning("supervisor_lost")
    preparation.cancel()


@define(eq=False)
class Supervisor:
    """Keeps a process in every slot until the service shall stop, as `supervisor_policy` decides.

    It runs no event loop and no thread, so it can fork at any time, and children have every
    imported module at once. It waits in one place for signals, for reports of its children, and for
    time."""

    jobs: _ProcessJobs
    state: policy.SupervisorState
    on_ready: Callable[[], None]
    """Called once, when all workers serve."""
    _selector: selectors.BaseSelector = Factory(selectors.DefaultSelector)
    _parent_pipe: tuple[int, int] = Factory(os.pipe)
    _exit: policy.ExitService | None = field(default=None, init=False)

    def run(self) -> int:
        """Supervise until all processes have ended, and return the service's exit code."""
        name_process("supervisor")
        with self._open_signal_pipe() as signal_pipe:
            self._selector.register(signal_pipe, selectors.EVENT_READ, None)
            self._apply(policy.begin(self.state, now=time.monotonic()))
            while self._exit is None:
                self._wait(signal_pipe)
        if self._exit.reason is not None:
            print(f"Error: {self._exit.reason}", file=sys.stderr, flush=True)
        return self._exit.exit_code

    def _wait(self, signal_pipe: int) -> None:
        due = policy.next_due(self.state)
        timeout = None
        if due is not None:
            timeout = max(0.0, due - time.monotonic())

        for key, _ in self._selector.select(timeout):
            if key.fd == signal_pipe:
                # One byte for each signal; several may have come at once.
                for number in os.read(signal_pipe, 4_096):
                    event = SIGNAL_EVENTS[number]()
                    if (
                        not isinstance(event, policy.RollingRestartRequested)
                        or self.jobs.reload_settings()
                    ):
                        self._handle_event(event)
            else:
                self._read_ready_pipe(key.fd, key.data)

        # After each wake: SIGCHLD is not sent once for each child.
        self._reap()
        self._handle_event(policy.TimePassed())

    def _read_ready_pipe(self, pipe: int, pid: int) -> None:
        """Read a report that a process serves; the pipe ends without one when the process ends."""
        report = os.read(pipe, 1)
        self._selector.unregister(pipe)
        os.close(pipe)
        if report and pid in self.state.processes:
            self._handle_event(policy.ProcessServing(pid))

    def _reap(self) -> None:
        for pid in list(self.state.processes):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                self._handle_event(policy.ProcessExited(pid, os.waitstatus_to_exitcode(status)))

    def _handle_event(self, event: policy.SupervisorEvent) -> None:
        self._apply(policy.transition(self.state, event, now=time.monotonic()))

    def _apply(self, result: policy.Transition) -> None:
        self.state, actions = result
        if self.state.is_stopping:
            self.jobs.close_listeners()  # Workers that accept no more must leave nobody waiting.

        for action in actions:
            match action:
                case policy.StartProcess(slot):
                    self._start_process(slot)
                case policy.SendCommand(pid, command):
                    os.kill(pid, command.value)  # Not reaped yet, so the pid is still its own.
                case policy.AnnounceReady():
                    self.on_ready()
                case policy.LogMessage(event, slot, pid, code):
                    facts = {"slot": slot, "pid": pid, "exit_code": code}
                    logger.info(event, **{k: v for k, v in facts.items() if v is not None})
                case policy.ExitService():
                    self._exit = action

    def _start_process(self, slot: str) -> None:
        read_end, write_end = os.pipe()
        try:
            pid = _fork()
        except OSError as error:
            logger.error("process_fork_failed", slot=slot, error=str(error))
            os.close(read_end)
            os.close(write_end)
            self._handle_event(policy.ForkFailed(slot))
            return

        # The child keeps its own ends only: a pipe that others hold open never ends.
        if pid == 0:
            watched = [key.fd for key in self._selector.get_map().values()]
            self._selector.close()
            for descriptor in (read_end, self._parent_pipe[1], *watched):
                os.close(descriptor)

            link = SupervisorLink(slot, self._parent_pipe[0], write_end)
            name_process(slot)
            run_and_exit(lambda: self.jobs.run(link))

        os.close(write_end)
        self._selector.register(read_end, selectors.EVENT_READ, pid)
        self._handle_event(policy.ProcessForked(slot, pid))

    @contextmanager
    def _open_signal_pipe(self) -> Iterator[int]:
        """Open a pipe into which the number of every signal to this process is written.

        Once the service ends, further requests to end are ignored."""
        read_end, write_end = os.pipe()
        for end in (read_end, write_end):
            os.set_blocking(end, False)

        # A handler must exist for the pipe to be written.
        before = {number: signal.signal(number, lambda *_: None) for number in SIGNAL_EVENTS}
        signal.set_wakeup_fd(write_end)
        try:
            yield read_end
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                # An impatient second Ctrl-C must not turn a good end into a failure.
                is_ending = self._exit is not None and number in STOP_SIGNALS
                signal.signal(number, signal.SIG_IGN if is_ending else handler)

            for end in (read_end, write_end):
                os.close(end)


@frozen
class SupervisorLink:
    """Connects a process with its supervisor."""

    slot: str
    """The place that this process fills; its successor gets the same."""
    parent_pipe: int
    """A pipe that ends when the supervisor is gone; nothing is ever written to it."""
    _ready_pipe: int

    def report_serving(self) -> None:
        """Report to the supervisor, once, that this process serves."""
        os.write(self._ready_pipe, b"s")
        os.close(self._ready_pipe)


@define(eq=False)
class _ProcessJobs:
    """Runs as each kind of process, with the settings that were read last."""

    config: ServiceConfig
    addresses: ServiceAddresses
    listening_sockets: Mapping[str, socket.socket]
    read_settings: Callable[[], Settings]
    run_reporting_errors: RunReportingErrors
    on_serving: Callable[[], None]
    metrics_directory: Path
    """The directory in which the workers exchange their metrics."""

    def close_listeners(self) -> None:
        """Close this process's copies of the listening sockets; a second call does nothing."""
        for listening_socket in self.listening_sockets.values():
            listening_socket.close()

    def reload_settings(self) -> bool:
        """Read the settings for the next workers; False, and no change, if they can't be used."""
        try:
            settings = self.read_settings()
            open_certificates(settings.listen)
            if (name := sandbox_provider(settings)) is not None:
                fault = "its simulated operator lives in the one worker, which can't be replaced."
                raise SettingsError(f"provider.{name}", fault, "Restart the service for that.")
        except (SettingsError, OSError) as error:
            logger.error("settings_reload_rejected", error=str(error))
            return False

        self.config = evolve(self.config, settings=settings)
        return True

    def run(self, link: SupervisorLink) -> int:
        """Run as the process of this slot, and return its exit code."""
        if link.slot == policy.PREPARATION:
            self.close_listeners()
            prepare = partial(_prepare_store, self.config, self.addresses, link.parent_pipe)
            return self.run_reporting_errors(partial(trio.run, prepare))
        return self._serve(link)

    def _serve(self, link: SupervisorLink) -> int:
        metrics_files = (self.metrics_directory, link.slot)
        config = evolve(self.config, brands_file=None, metrics_files=metrics_files)
        inherited = Inherited(self.listening_sockets, link.parent_pipe)

        def report_serving(_: ServiceAddresses) -> None:
            link.report_serving()
            self.on_serving()

        async def serve() -> None:
            await run_service(config, on_ready=report_serving, inherited=inherited)

        with logs_in_background():
            return self.run_reporting_errors(partial(trio.run, serve, clock=BootClock()))


def _fork() -> int:
    """Fork while signals are blocked; the child has the default handlers. Return as os.fork."""
    sys.stdout.flush()
    sys.stderr.flush()

    # Between fork and the new handlers a signal would run the parent's handler in the child.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNAL_EVENTS)
    try:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in SIGNAL_EVENTS:
                signal.signal(number, signal.SIG_DFL)

        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNAL_EVENTS)


def run_and_exit(job: Callable[[], int]) -> None:
    """Do the job, then end this process; never returns."""
    code = EXIT_SOFTWARE_ERROR
    try:
        code = job()
    except BaseException as error:
        print(describe_fault(error), file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Not `sys.exit`: the parent's clean-up is none of the child's.
        os._exit(code)
