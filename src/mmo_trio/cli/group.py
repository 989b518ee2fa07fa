"""Builds the command `mmo` from all its commands."""

from __future__ import annotations

import io
import sys

import click
import structlog

from mmo_sansio import __version__
from mmo_trio.cli.commands import (
    archive,
    audit,
    brands,
    check_config,
    conform,
    db,
    demo,
    explain,
    listen,
    master_keys,
    operators,
    providers,
    reconcile,
    records,
    sandbox_clock,
    serve,
    simulate,
    suspense,
    trigger,
    tx,
)
from mmo_trio.cli.support.errors import ErrorReportingGroup


@click.group(cls=ErrorReportingGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mmo", message="%(prog)s %(version)s")
def main() -> None:
    """An open mobile money gateway.

    `mmo demo` shows a whole payment; `mmo sandbox` serves one to build against.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # A terminal may lack a letter of a merchant's text.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def _summarise(command: click.Command) -> None:
    """Have lists of commands show the whole first sentence of a command's help, which click would cut."""
    paragraph = " ".join((command.help or "").partition("\n\n")[0].split())
    sentence, dot, _ = paragraph.partition(". ")
    command.short_help = command.short_help or sentence + dot.strip()
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _summarise(each)


for command in (
    demo.demo, serve.sandbox, serve.serve, listen.listen, trigger.trigger, conform.conform,
    brands.brands, tx.tx, explain.explain,
    suspense.suspense, providers.providers, records.records, operators.operators, audit.audit, archive.archive,
    db.db, master_keys.keys, check_config.check_config, sandbox_clock.sandbox_clock, simulate.simulate,
):  # fmt: skip
    main.add_command(command)
for command in (reconcile.reconcile, reconcile.digest):
    records.records.add_command(command)
_summarise(main)
