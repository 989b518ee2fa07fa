"""Failures of commands: one sentence on standard error, and an exit code for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from mmo_trio.cli import installation_advice


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
    """Import packages of an extra in the block. Raises UsageProblem, with what to install, when one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mmo_"):
            raise  # It is ours, so installing helps nobody.
        raise UsageProblem(installation_advice(command, error.name, extra)) from None
