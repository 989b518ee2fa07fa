"""How a command ends when it doesn't end well: one sentence to standard error, and an exit code that tells why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from mmo_trio.brands.keyring import SealError
from mmo_trio.settings import SettingsError
from mmo_trio.storage.interface.store import (
    OutcomeUnknown,
    StoreCorrupt,
    StoreUnavailable,
    StoreUnusable,
)


class NegativeAnswer(click.ClickException):
    """The answer is no: not found, not allowed, doesn't match."""

    exit_code = 1


class UsageProblem(click.ClickException):
    """What was asked for can't be understood or used: usage, settings, files."""

    exit_code = 2


class StoreProblem(click.ClickException):
    """The store can't be reached."""

    exit_code = 3


class ErrorReportingGroup(click.Group):
    """A group that turns the failures that a person can mend into sentences; faults of ours stay what they are."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raises ClickException with the right exit code."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            failure = _to_click_exception(error)
            if failure is None:
                raise
            raise failure from None


def run_reporting_errors(work: Callable[[], None]) -> int:
    """Do this in a process without a command of its own: its exit code, once a failure was said to a person."""
    try:
        work()
    except Exception as error:
        failure = _to_click_exception(error)
        if failure is None:
            raise
        failure.show()
        return failure.exit_code
    return 0


def _to_click_exception(error: Exception) -> click.ClickException | None:
    if isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        return _to_click_exception(error.exceptions[0])
    match error:
        case SettingsError():
            return UsageProblem(str(error))
        case SealError():
            return UsageProblem(f"keys.master_key_file: {error}.")
        case StoreUnavailable():
            return StoreProblem(
                f"The store can't be reached: {error}."
                " Check --data, --config or database.url (MMO_DATABASE_URL)."
            )
        case StoreUnusable() | StoreCorrupt():
            return StoreProblem(f"The store can't be used: {error}.")
        case OutcomeUnknown():
            return StoreProblem(
                f"It can't be learnt whether this was stored: {error}. Look before trying again."
            )
        case PermissionError() | FileNotFoundError() | NotADirectoryError() | FileExistsError():
            return UsageProblem(f"{error.filename}: {error.strerror}.")
        case _:
            return None
