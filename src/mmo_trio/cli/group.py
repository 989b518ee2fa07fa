"""The commands of `mmo`, by name."""

from __future__ import annotations

import sys

import click
import structlog

from mmo_sansio import __version__
from mmo_trio.cli import (
    audit,
    brands,
    clock,
    configuration,
    database,
    demonstration,
    explanation,
    listening,
    operators,
    providers,
    records,
    registering,
    serving,
    simulating,
    suspense,
    transactions,
)
from mmo_trio.cli.failures import CarefulGroup


@click.group(cls=CarefulGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mmo", message="%(prog)s %(version)s")
def main() -> None:
    """An open mobile money gateway.

    `mmo demo` shows a whole payment; `mmo sandbox` serves one to build against.
    """
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


providers.providers.add_command(registering.register)
providers.providers.add_command(registering.address)

for command in (
    demonstration.demo,
    serving.sandbox,
    serving.serve,
    listening.listen,
    brands.brands,
    transactions.tx,
    explanation.explain,
    suspense.suspense,
    providers.providers,
    records.records,
    operators.operators,
    audit.audit,
    database.db,
    configuration.check_config,
    clock.sandbox_clock,
    simulating.simulate,
):
    main.add_command(command)
