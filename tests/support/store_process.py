"""Creates payments in a SQLite file and prints the answered ones until a test kills this
process."""

from __future__ import annotations

import sys

import trio

from mmo_sansio.values.clock import Span, later
from mmo_trio.storage.sqlite import open_sqlite
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import creation


async def main(path: str) -> None:
    """Batches of seven, for ever; one line with the last number of each batch once it was
    answered."""
    async with open_sqlite(path, serving=True) as store:
        for begin in range(0, 1_000_000, 7):
            await submit_batch(
                store, *((creation(n), later(NOON, Span(n))) for n in range(begin, begin + 7))
            )
            print(begin + 6, flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
