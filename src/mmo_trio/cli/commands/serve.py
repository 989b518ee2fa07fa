"""`mmo sandbox` and `mmo serve` run the gateway until it is stopped; `mmo check-config` says
whether it would."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
import structlog
import trio

from mmo_sansio.values.fields import raise_faults
from mmo_trio.cli.support.errors import UsageProblem, exit_on_fault, run_reporting_errors
from mmo_trio.cli.support.options import Command, file_type, json_option
from mmo_trio.cli.support.output import print_json, print_status
from mmo_trio.cli.support.tables import print_table
from mmo_trio.cli.support.target import default_data_directory, find_target, report_readable_secrets
from mmo_trio.settings import Settings, SettingsError, effective_settings, load_settings
from mmo_trio.settings.secret_files import readable_secret_files
from mmo_trio.settings.service import (
    CLOCK_OFFSET_FILE,
    ServiceAddresses,
    ServiceConfig,
    check_plaintext_http,
    check_production,
    sandbox_presets,
)
from mmo_trio.storage.open_store import is_shared_store
from mmo_trio.storage.sqlite.files import ServingLock
from mmo_trio.system.clock import BootClock
from mmo_trio.system.logs import configure_logs, logs_in_background

logger = structlog.get_logger(__name__)

# The number of new objects after which the garbage collector examines the youngest, and how many
# such examinations pass before those of middle age and all are examined, too.
#
# Payments in progress come and go by reference counts. With a smaller first number their mere
# number makes the collector examine them again and again: with 5,000 it took 4 % of the processor
# time of a busy process, with 20,000 it took 1 %. While tens of thousands of payments wait for
# their callbacks, every request waits for an examination: for up to 70 ms with 50,000 objects of
# middle age, which a second number of 4 allows. With 1 there are 20,000 of them.
GC_THRESHOLDS = (10_000, 1, 100)

# Limit on how long a running thread makes the others wait, e.g. while it reads 5,000 records.
#
# A request changes threads a few times, and would wait each time.
THREAD_SWITCH_INTERVAL_S = 0.001

# The files of the store and the hints that wait for it, in the order of their removal: the database
# itself, which carries the lock, comes last.
DATABASE_FILES = ("gateway.db.hints", "gateway.db-wal", "gateway.db-shm", "gateway.db")

brands_option = click.option(
    "--brands", "brands_file", type=file_type, help="brands.toml, applied before serving."
)


def listen_options(command: Command) -> Command:
    """Add `--api`, `--pages` and `--console`; the command receives their settings as `listen`."""

    @wraps(command)
    def run(*, api: str | None, pages: str | None, console: str | None, **arguments: Any) -> None:
        options = {"listen.api": api, "listen.pages": pages, "listen.console": console}
        command(
            listen={key: value for key, value in options.items() if value is not None}, **arguments
        )

    with_options: Command = run
    # From the last to the first, as each decorator puts its option before the others.
    for name in ("console", "pages", "api"):
        listener = name
        if name == "api":
            listener = "API"

        text = f"The address of the {listener} listener; port 0: a free one."
        with_options = click.option(f"--{name}", metavar="HOST:PORT", help=text)(with_options)

    return with_options


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where everything is kept; by default in the user's own data folder.",
)
@click.option("--config", type=file_type, help="Further settings: mmo.toml.")
@brands_option
@click.option(
    "--reset", is_flag=True, help="Begin again, without the payments, brands and keys of before."
)
@listen_options
def sandbox(
    data: Path | None,
    config: Path | None,
    brands_file: Path | None,
    reset: bool,
    listen: Mapping[str, str],
) -> None:
    """Serve a sandbox to build against.

    It has an embedded store, a demo brand, a simulated provider and a virtual phone.
    """
    directory = (data or default_data_directory()).absolute()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings = find_target(directory, config, listen).settings
    check_plaintext_http(settings)
    apply_log_settings(settings)
    # Before anything opens the store.
    if reset:
        _reset_sandbox(directory, settings)

    run(
        ServiceConfig(
            settings,
            data_directory=directory,
            is_sandbox=True,
            has_demo_brand=brands_file is None,
            brands_file=brands_file,
        ),
        on_ready=partial(announce_sandbox, directory),
    )


def _reset_sandbox(directory: Path, settings: Settings) -> None:
    """Remove the payments, brands and keys of the sandbox in this directory, its operator's journal
    and the offset of its clock. Its authority stays, so that certificates stay valid, and so does
    every other file.

    Raises UsageProblem when the sandbox keeps its payments elsewhere, and StoreUnusable while it
    runs."""
    # Imported here, as it is slow to import and only serving needs it.
    from mmo_trio.service.wiring import OPERATOR_JOURNAL_FILE

    # A database that somebody has named may hold more than a sandbox.
    if settings.database.url != sandbox_presets(directory)["database.url"]:
        raise UsageProblem(
            "--reset empties only the store that a sandbox makes itself, not that of database.url."
        )

    database = directory / DATABASE_FILES[-1]
    # The lock is in the database's file: while a sandbox runs, it is held.
    if database.exists():
        lock = ServingLock(database)
        try:
            for name in DATABASE_FILES:
                (directory / name).unlink(missing_ok=True)
        finally:
            lock.release()

    for name in (OPERATOR_JOURNAL_FILE, CLOCK_OFFSET_FILE):
        (directory / name).unlink(missing_ok=True)


@click.command()
@click.option("--config", type=file_type, help="The settings: mmo.toml.")
@brands_option
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that serve side by side; more than one needs PostgreSQL.",
)
@listen_options
def serve(
    config: Path | None, brands_file: Path | None, workers: int, listen: Mapping[str, str]
) -> None:
    """Serve in production.

    The store is SQLite, or PostgreSQL with any number of workers and nodes.
    """

    # Read again by the supervisor when it is told to: a fault then keeps the settings of before.
    def read() -> Settings:
        settings = load_settings(file=config, environment=os.environ, options=listen)
        check_production(settings, workers=workers)
        return settings

    service = ServiceConfig(read(), brands_file=brands_file, workers=workers)
    apply_log_settings(service.settings)
    for file in readable_secret_files(config, brands_file, service.settings.provider_kinds):
        logger.warning("secrets_readable_by_all", file=str(file))

    if is_shared_store(service.settings.database.url):
        # Imported here, as it is slow to import and only serving needs it.
        from mmo_trio.service.supervisor import supervise

        def run_workers() -> None:
            code = supervise(
                service,
                read_settings=read,
                run_reporting_errors=run_reporting_errors,
                on_ready=announce,
                on_serving=tune_interpreter,
            )
            sys.exit(code)

        exit_on_fault(run_workers)

    exit_on_fault(partial(run, service))


@click.command("check-config")
@click.option("--config", type=file_type, help="mmo.toml.")
@json_option
def check_config(config: Path | None, as_json: bool) -> None:
    """Check the settings as `mmo serve` does, and show them.

    Names every fault for which a gateway would not start: listeners, certificates, the master key,
    providers' options and the files that they name. Secrets are masked. The database is not asked:
    `mmo db check` does that."""
    # Imported here, as no other command needs it.
    from mmo_trio.service.configuration_check import account_notes, configuration_faults

    faults: list[SettingsError] = []
    settings = load_settings(file=config, environment=os.environ, found_faults=faults)
    raise_faults([*faults, *configuration_faults(settings, known=faults)])
    report_readable_secrets(config, None, settings)
    for note in account_notes(settings):
        print_status(note)

    rows = effective_settings(settings)
    if as_json:
        print_json({row.key: {"value": row.value, "default": row.is_default} for row in rows})
        return

    # A setting that somebody has chosen is marked, so that it is found among the defaults.
    table = []
    for row in rows:
        mark = "set"
        if row.is_default:
            mark = ""
        table.append((row.key, row.value, mark))

    print_table(("setting", "value", ""), table)


def run(config: ServiceConfig, on_ready: Callable[[ServiceAddresses], None] | None = None) -> None:
    """Serve until stopped; print the READY line to standard output once ready."""
    # Imported here, as it is slow to import and only serving needs it.
    from mmo_trio.service.process import run_service

    def report_ready(ready: ServiceAddresses) -> None:
        # Once ready, as what exists by then stays: see tune_interpreter.
        (on_ready or announce)(ready)
        tune_interpreter()

    # Logs are written by a thread: a disk that is slow must not hold payments up.
    with logs_in_background():
        trio.run(partial(run_service, config, on_ready=report_ready), clock=BootClock())


def apply_log_settings(settings: Settings) -> None:
    configure_logs(log_format=settings.log.format, level=settings.log.level)


def tune_interpreter() -> None:
    """Adjust the garbage collector and thread switches for serving.

    Objects that exist by now stay, so the collector need not examine them again. Those of a request
    are freed by reference counts, so collections can be rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(THREAD_SWITCH_INTERVAL_S)


def announce(ready: ServiceAddresses) -> None:
    """Print the READY line."""
    click.echo(ready.ready_line())


def announce_sandbox(directory: Path, ready: ServiceAddresses) -> None:
    """Print the READY line, the address at which a person begins, and where the data are."""
    announce(ready)
    for brand, api_key in ready.made_keys.items():
        click.echo(f"API key of {brand} (made now, shown this once): {api_key}")
    click.echo(f"Start at {ready.pages}/ with a payment page and a virtual phone.")
    click.echo(
        f"`mmo sandbox --data {shlex.quote(str(directory))} --reset` begins again without its data."
    )
