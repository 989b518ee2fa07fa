"""Builds the command `mmo` from all its commands."""

from __future__ import annotations

import io
import sys
from typing import Any

import click
import structlog

from mmo_sansio import __version__
from mmo_trio.cli.commands import (
    archive,
    audit,
    brands,
    check_config,
    completion,
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
from mmo_trio.cli.support.output import print_line


class _MainGroup(ErrorReportingGroup):
    """Lists its commands in sections."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sections: dict[str, list[str]] = {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with its commands."""
        for section, names in self.sections.items():
            with formatter.section(section):
                formatter.write_dl([(name, self.commands[name].get_short_help_str()) for name in names])


@click.group(
    cls=_MainGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    no_args_is_help=False,
)
@click.version_option(__version__, prog_name="mmo", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """An open mobile money gateway.

    `mmo demo` shows a whole payment; `mmo sandbox` serves one to build against.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # A terminal may lack a letter of a merchant's text.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    if ctx.invoked_subcommand is None:
        _greet()


_FIRST_STEPS = (
    ("mmo demo", "See a whole first payment, from the request to the callback. It takes some seconds."),
    ("mmo sandbox", "Serve a gateway with money of no value, to build your shop against."),
    ("mmo listen", "Receive the callbacks of that sandbox on this machine, in a second terminal."),
)


def _greet() -> None:
    """Print what this is, and the three commands to begin with."""
    print_line(f"mmo {__version__}, an open mobile money gateway", "bold")
    for number, (command, sentence) in enumerate(_FIRST_STEPS, 1):
        print_line(f"\n{number}. {command}", "bold cyan")
        print_line(f"   {sentence}")
    print_line("\n`mmo --help` lists all commands, and each explains itself with `--help`.")


def _summarise(command: click.Command) -> None:
    """Have lists of commands show the whole first sentence of a command's help, which click would cut."""
    paragraph = " ".join((command.help or "").partition("\n\n")[0].split())
    sentence, dot, _ = paragraph.partition(". ")
    command.short_help = command.short_help or sentence + dot.strip()
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _summarise(each)


for section, commands in (
    ("Build a shop", (
        demo.demo, serve.sandbox, sandbox_clock.sandbox_clock, listen.listen, trigger.trigger, conform.conform,
    )),
    ("Run a gateway", (
        serve.serve, check_config.check_config, db.db, brands.brands, providers.providers, operators.operators,
        master_keys.keys, simulate.simulate,
    )),
    ("Look after payments", (
        explain.explain, tx.tx, suspense.suspense, records.records, archive.archive, audit.audit,
    )),
    ("Use the command", (completion.completion,)),
):  # fmt: skip
    for command in commands:
        main.add_command(command)
    main.sections[section] = [str(each.name) for each in commands]
for command in (reconcile.reconcile, reconcile.digest):
    records.records.add_command(command)
_summarise(main)
