"""Builds the command `mmo` from all its commands."""

from __future__ import annotations

import io
import sys

import click

from mmo_sansio import __version__
from mmo_trio.cli.contents import COMMANDS, help_text
from mmo_trio.cli.support.errors import ErrorReportingGroup
from mmo_trio.cli.support.lazy_group import LazyCommand, LazyGroup


class _MainGroup(ErrorReportingGroup, LazyGroup):
    """Reports failures, and loads the command that is used."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the same text as `mmo --help` before anything is loaded."""
        formatter.write(help_text())


def _print_version(ctx: click.Context, _: click.Parameter, is_asked_for: bool) -> None:
    """Print version and commit, and end."""
    if not is_asked_for:
        return

    # Imported only here, as a checkout has to ask git for its commit.
    from mmo_trio.system.build import describe_build

    click.echo(f"mmo {describe_build()}")
    ctx.exit()


@click.group(
    cls=_MainGroup,
    sections={section: [LazyCommand(*row) for row in rows] for section, rows in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
    # Without a command it greets, instead of printing its whole help.
    invoke_without_command=True,
    no_args_is_help=False,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show version and commit, and exit.",
)
@click.pass_context
def main(ctx: click.Context) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal may lack a letter of a merchant's text.
        sys.stdout.reconfigure(errors="backslashreplace")
    if ctx.invoked_subcommand is None:
        _greet()
    else:
        _log_to_standard_error()


def _log_to_standard_error() -> None:
    """Have the log of what a command uses go to standard error; without the gateway's packages
    nothing writes one."""
    try:
        import structlog
    except ModuleNotFoundError:
        return
    # Standard output belongs to the command's result, which a program may read.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


_FIRST_STEPS = (
    (
        "mmo demo",
        "See a whole first payment, from the request to the callback. It takes some seconds.",
    ),
    ("mmo sandbox", "Serve a gateway with money of no value, to build your shop against."),
    ("mmo listen", "Receive the callbacks of that sandbox on this machine, in a second terminal."),
)


def _greet() -> None:
    """Print what this is, and the three commands to begin with."""
    # Imported here, as `mmo --help` does without.
    from mmo_trio.cli.support.output import print_line

    print_line(f"mmo {__version__}, an open mobile money gateway", "bold")
    for number, (command, sentence) in enumerate(_FIRST_STEPS, 1):
        print_line(f"\n{number}. {command}", "bold cyan")
        print_line(f"   {sentence}")
    print_line("\n`mmo --help` lists all commands, and each explains itself with `--help`.")
