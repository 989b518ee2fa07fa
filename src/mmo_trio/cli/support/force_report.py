"""Waits at the end of a command until every process uses what the command has changed."""

from __future__ import annotations

from mmo_trio.brands.in_force import wait_until_in_force
from mmo_trio.cli.support.errors import NotYetInForce
from mmo_trio.cli.support.output import print_status
from mmo_trio.cli.support.target import CommandTarget

WAIT_S = 15.0
"""Seconds for which a command waits for the processes: longer than the lease of one that was killed runs on."""


def report_in_force(target: CommandTarget) -> None:
    """Wait until every process that serves uses what the store holds now, and say on how many that is. Raises
    NotYetInForce, with the names of those that have not said so in time."""
    found = target.with_store(lambda store: wait_until_in_force(store, timeout_s=WAIT_S))
    if found.waiting:
        raise NotYetInForce(
            f"It is stored, but not known to be in force on: {', '.join(found.waiting)} (waited {WAIT_S:g} s)."
            " A process that can't reach the database takes it over within limits.api_key_cache (a minute);"
            " restart one that hangs. Run the command again to see."
        )
    count = len(found.processes)
    if not count:
        print_status("No process serves now: it is in force from the next start on.")
        return
    print_status(f"In force on {count} {'process' if count == 1 else 'processes'}.")
