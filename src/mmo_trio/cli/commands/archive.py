"""`mmo archive` reads back what has left the store, and verifies the archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import click

from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import (
    admin_transaction_json,
    format_instant,
    print_json_text,
    print_line,
    print_status,
    print_table,
    progress_bar,
)
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.storage.archive.directory import ArchiveDirectory, ArchivePart
from mmo_trio.storage.interface.retention import EMPTY_ARCHIVE, ArchivedPayment, ArchiveHead
from mmo_trio.storage.interface.store import Store


@click.group()
def archive() -> None:
    """Read and verify the archive of old payments."""


@archive.command()
@click.argument("reference")
@target_options
@json_option
def find(reference: str, target: CommandTarget, as_json: bool) -> None:
    """Print the archived payments with this gatewayReference or merchantReference, and their timelines."""
    directory = _directory(target)
    named = target.with_store(partial(_references, reference))
    found = list(_find(directory, reference, named))
    if not found:
        raise NegativeAnswer(f"No payment in the archive has the reference {reference}.")
    if as_json:
        print_json_text(f"[{','.join(admin_transaction_json(each.transaction) for _, each in found)}]")
        return
    for part, each in found:
        print_line(f"Part {part.head.number}, payments of {part.day}:", "bold")
        print_json_text(admin_transaction_json(each.transaction))
        lines = (
            (format_instant(line.at), line.actor, line.input_name, line.stage_before, line.stage_after, line.detail)
            for _, line in each.journal
        )
        print_table(("at", "actor", "what", "before", "after", "detail"), lines)


@archive.command()
@target_options
def verify(target: CommandTarget) -> None:
    """Check that no part of the archive is missing or was changed, and that it ends where the store says."""
    directory = _directory(target)
    head = target.with_store(_archive_head)
    previous = EMPTY_ARCHIVE
    with progress_bar() as bar:
        for number in bar.track(directory.numbers(), description="verifying"):
            if number != previous.number + 1:
                raise NegativeAnswer(f"Part {previous.number + 1} is missing.")
            part = directory.part(number)
            directory.verify(part, previous)
            if head.number == number and head != part.head:
                raise NegativeAnswer(f"Part {number} is not the one that the store knows.")
            previous = part.head
    if previous.number < head.number:
        raise NegativeAnswer(f"The archive ends with part {previous.number}, and the store knows {head.number} parts.")
    click.echo(f"{previous.number}:{previous.digest}")
    print_status(f"The archive is whole: {previous.number} parts.")


def _directory(target: CommandTarget) -> ArchiveDirectory:
    path = target.settings.retention.archive_directory
    if path is None:
        raise UsageProblem("There is no archive: set retention.archive_directory.")
    return ArchiveDirectory(path)


async def _archive_head(store: Store) -> ArchiveHead:
    return await store.retention.archive_head()


async def _references(reference: str, store: Store) -> Sequence[str]:
    """Return the gatewayReferences of archived payments that used this merchantReference, or were named by it."""
    return (*await store.retention.archived_references(reference), reference.upper())


def _find(
    directory: ArchiveDirectory, reference: str, named: Sequence[str]
) -> Iterator[tuple[ArchivePart, ArchivedPayment]]:
    """Yield the payments from the parts that may hold them."""
    for number in directory.numbers():
        part = directory.part(number)
        if any(part.may_hold(each) for each in named):
            for each in directory.read(part).payments():
                if each.transaction.reference in named or each.transaction.order.merchant_reference == reference:
                    yield part, each
