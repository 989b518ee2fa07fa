"""Builds the command `mmo` from all its commands."""

from __future__ import annotations

import io
import sys

import click

from mmo_sansio import __version__
from mmo_trio.cli.support.errors import ErrorReportingGroup
from mmo_trio.cli.support.lazy_group import LazyCommand, LazyGroup

_SECTIONS = {
    "Build a shop": (
        LazyCommand("demo", "demo", "Show a whole first payment."),
        LazyCommand("sandbox", "serve", "Serve a sandbox to build against."),
        LazyCommand("sandbox-clock", "sandbox_clock", "Set the sandbox's clock forward."),
        LazyCommand("listen", "listen", "Receive callbacks on this machine; forward them to a local server."),
        LazyCommand("trigger", "trigger", "Play a whole scenario against a running sandbox."),
        LazyCommand("conform", "conform", "Test a merchant's endpoint for callbacks.", extra="merchant,tools"),
    ),
    "Run a gateway": (
        LazyCommand("serve", "serve", "Serve in production."),
        LazyCommand("check-config", "serve", "Check the settings as `mmo serve` does, and show them."),
        LazyCommand("db", "db", "Migrate, check, correct and restore the store."),
        LazyCommand("brands", "brands", "Show and change brands, their methods and keys."),
        LazyCommand("providers", "providers", "Show, close and open providers of mobile money."),
        LazyCommand("users", "users", "Show and change the users of the console."),
        LazyCommand(
            "keys", "master_keys", "Show and replace the master key, with which the store's secrets are sealed."
        ),
        LazyCommand(
            "simulate", "simulate", "Simulate a mobile money operator, with money of no value.", extra="simulators"
        ),
    ),
    "Look after payments": (
        LazyCommand("explain", "payments", "Explain the outcome of a payment."),
        LazyCommand("tx", "payments", "Show transactions, and resolve one by hand."),
        LazyCommand("suspense", "payments", "Show and close entries of the suspense book."),
        LazyCommand("records", "records", "Write transactions for reconciliation, and compare them with statements."),
        LazyCommand("audit", "audit", "Show the audit log: sign-ins, and all actions of users and of commands."),
    ),
    "Use the command": (LazyCommand("completion", "completion", "Print the completion script of a shell."),),
}


class _MainGroup(ErrorReportingGroup, LazyGroup):
    """Reports failures, and loads the command that is used."""


@click.group(
    cls=_MainGroup,
    sections=_SECTIONS,
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
    if ctx.invoked_subcommand is None:
        _greet()
    else:
        _log_to_standard_error()


def _log_to_standard_error() -> None:
    """Have the log of what a command uses go to standard error; without the gateway's packages nothing writes one."""
    try:
        import structlog
    except ModuleNotFoundError:
        return
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


_FIRST_STEPS = (
    ("mmo demo", "See a whole first payment, from the request to the callback. It takes some seconds."),
    ("mmo sandbox", "Serve a gateway with money of no value, to build your shop against."),
    ("mmo listen", "Receive the callbacks of that sandbox on this machine, in a second terminal."),
)


def _greet() -> None:
    """Print what this is, and the three commands to begin with."""
    from mmo_trio.cli.support.output import print_line  # Imported here, as `mmo --help` does without.

    print_line(f"mmo {__version__}, an open mobile money gateway", "bold")
    for number, (command, sentence) in enumerate(_FIRST_STEPS, 1):
        print_line(f"\n{number}. {command}", "bold cyan")
        print_line(f"   {sentence}")
    print_line("\n`mmo --help` lists all commands, and each explains itself with `--help`.")
