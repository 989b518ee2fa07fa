"""Failures of commands that a person can fix: one sentence on standard error, and an exit code for
each kind."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from mmo_trio.cli import installation_advice
from mmo_trio.system.fault_report import EXIT_SOFTWARE_ERROR, describe_fault


# The codes are documented: a script tells by them what to do.
class NegativeAnswer(click.ClickException):
    """The answer is negative: not found, not allowed, or no match."""

    exit_code = 1


class UsageProblem(click.ClickException):
    """The arguments, settings or files can't be understood or used."""

    exit_code = 2


class StoreProblem(click.ClickException):
    """The store can't be reached or used."""

    exit_code = 3


class NotYetInForce(click.ClickException):
    """The change is stored, and a process that serves has not said that it uses it."""

    exit_code = 4


@contextmanager
def needs_extra(command: str, extra: str) -> Iterator[None]:
    """Import packages of an extra in the block. Raises UsageProblem, with what to install, when one
    is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        # What is missing is ours, so installing helps nobody.
        if (error.name or "").startswith("mmo_"):
            raise
        raise UsageProblem(installation_advice(command, error.name, extra)) from None


class ErrorReportingGroup(click.Group):
    """A command group that reports failures a person can fix; our own faults are raised."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises ClickException with the exit code of the failure."""
        with _as_click_exceptions():
            try:
                return super().invoke(ctx)
            finally:
                # A full disk shows only when what waits is written.
                _flush_output()


def run_reporting_errors(work: Callable[[], None]) -> int:
    """Run the work of a process without a command, report a failure, and return an exit code."""
    try:
        with _as_click_exceptions():
            work()
    except click.ClickException as failure:
        failure.show()
        return failure.exit_code
    return 0


def exit_on_fault(work: Callable[[], None]) -> None:
    """Run the work of a process that serves. A fault of our own ends it with its type and place in
    the log, and without its message, which may hold a customer's number. Other failures are
    raised."""
    try:
        work()
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as error:
        # What a person can mend is reported with its text by whoever called.
        if _to_click_exception(error) is not None:
            raise
        print(describe_fault(error), file=sys.stderr)
        sys.exit(EXIT_SOFTWARE_ERROR)


@contextmanager
def _as_click_exceptions() -> Iterator[None]:
    try:
        yield
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as error:
        failure = _to_click_exception(error)
        if failure is None:
            raise
        raise failure from None


def _flush_output() -> None:
    """Write what waits for standard output. Raises UsageProblem when that fails; a pipe that nobody
    reads any more is left to click."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # `mmo ... | head` ends so, which is no failure.
        if error.errno == errno.EPIPE:
            raise

        # Else the interpreter would fail on it again at its end.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise UsageProblem(f"The output can't be written: {error.strerror}.") from None


# Errors of a disk that takes nothing, which the system reports without the file's name.
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)


def _to_click_exception(error: Exception) -> click.ClickException | None:
    # A nursery's failures count as one where all of them are of this kind.
    if isinstance(error, ExceptionGroup):
        failures = [_to_click_exception(exception) for exception in error.exceptions]
        if all(failures):
            return failures[0]
        return None

    if (failure := _gateway_failure(error)) is not None:
        return failure

    match error:
        case OSError() if error.filename is not None:
            return UsageProblem(f"{error.filename}: {error.strerror}.")
        case OSError() if error.errno in _UNWRITABLE:
            return UsageProblem(f"A file can't be written: {error.strerror}.")
        case _:
            return None


def _gateway_failure(error: Exception) -> click.ClickException | None:
    """Return the failure that an error of the gateway is; None for another one."""
    # Imported here, as the commands for merchants run without the packages of the gateway.
    try:
        from mmo_trio.brands.apply import BrandRemoved
        from mmo_trio.brands.keyring import SealError
        from mmo_trio.settings import SettingsError
        from mmo_trio.storage.interface.store import (
            OutcomeUnknown,
            StoreCorrupt,
            StoreUnavailable,
            StoreUnusable,
        )
        from mmo_trio.system.damaged_file import DamagedFile
    except ModuleNotFoundError:
        return None

    match error:
        case SettingsError() | DamagedFile():
            return UsageProblem(str(error))
        case BrandRemoved():
            return NegativeAnswer(str(error))
        case SealError():
            return UsageProblem(f"keys.master_key_file: {error}.")
        case StoreUnavailable():
            return StoreProblem(
                f"The store can't be reached: {error}. Check --data, --config or database.url "
                f"(MMO_DATABASE_URL)."
            )
        case StoreUnusable() | StoreCorrupt():
            return StoreProblem(f"The store can't be used: {error}.")
        case OutcomeUnknown():
            return StoreProblem(
                f"It can't be learnt whether this was stored: {error}. Look before trying again."
            )
        case _:
            return None
