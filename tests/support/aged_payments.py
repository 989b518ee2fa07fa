"""Fills a store with payments of several days that have ended, and reads where each of them is."""

from __future__ import annotations

from pathlib import Path

from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded
from mmo_sansio.values.clock import DAY, MINUTE, Instant, Span, later
from mmo_trio.settings.sections import RetentionSection
from mmo_trio.storage.archive.directory import ArchiveDirectory
from mmo_trio.storage.interface.retention import EMPTY_ARCHIVE
from mmo_trio.storage.interface.store import Store
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import DELIVERED, creation, failed, reference, succeeded

PAYMENTS_A_DAY = 5
NOW = Instant(NOON + 500 * DAY)
"""When all of them are too old."""


def retention_section(archive: Path | None) -> RetentionSection:
    """The settings of a test: the archive has no pauses."""
    return RetentionSection(archive_directory=archive, audit=None if archive is None else Span(DAY), time_share=1)


async def pay(store: Store, first: int, last: int) -> None:
    """Let these payments be created, end and be called back; every third one fails."""
    for number in range(first, last + 1):
        at = later(NOON, Span(number // PAYMENTS_A_DAY * DAY + number * MINUTE))
        await submit_batch(store, (creation(number, merchant_reference=f"order-{number}"), at))
        await submit_batch(store, (BeginSubmission(reference(number)), later(at, Span(1))))
        await submit_batch(store, (failed(number) if number % 3 == 0 else succeeded(number), later(at, Span(2))))
        await submit_batch(store, (CallbackConcluded(reference(number), DELIVERED), later(at, Span(3))))


async def places(store: Store, archive: Path, last: int) -> dict[int, tuple[bool, int]]:
    """Return for each payment whether the store has it, and how many verified parts of the archive do."""
    directory, previous, archived = ArchiveDirectory(archive), EMPTY_ARCHIVE, list[str]()
    for number in directory.numbers():
        part = directory.part(number)
        directory.verify(part, previous)
        previous = part.head
        archived += [each.transaction.reference for each in directory.read(part).payments()]
    return {
        number: (await store.transaction(reference(number)) is not None, archived.count(reference(number)))
        for number in range(1, last + 1)
    }
