"""Draw the way of a payment through the rooms of the source, as it is traced in a running sandbox.

PYTHONPATH=.:src python docs/make_rooms.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio
from attrs import frozen
from tests.support.call_trace import CallTrace, Entry
from tests.support.sandbox_gateway import Running, serving

HERE = Path(__file__).parent
PICTURE = HERE / "internals" / "rooms.svg"

# Payments that are traced: which task decides a batch depends on who happens to wait, and some show
# what one alone may not.
TRACED = 5

# The rooms of the picture, from the edge inwards: those that merely everything uses are left out.
ROOMS: Final = (
    "mmo_trio.http",
    "mmo_sansio.http",
    "mmo_trio.api",
    "mmo_sansio.api",
    "mmo_trio.brands",
    "mmo_trio.workers",
    "mmo_sansio.resilience",
    "mmo_sansio.providers",
    "mmo_trio.engine",
    "mmo_sansio.payments",
    "mmo_trio.storage",
)


@frozen
class Station:
    """Describes who waits during a part of the way: a task of Trio, or a thread."""

    title: str
    """What the picture says, in up to two lines."""
    is_lookup: bool
    tasks: tuple[str, ...]
    """The ends of the names of its tasks."""


STATIONS: Final = (
    Station("1 connection\nof a create", False, ("ServerConnection.run",)),
    Station("2 task that\nsubmits", False, ("ProviderWorker._handle_reserved",)),
    Station("3 engine, for\nwho waits", False, ("Engine._decide_batches",)),
    Station("4 the store's\nwriter", False, ("SQLite writer",)),
    Station("5 task that\ncalls back", False, ("DeliveryPool._deliver",)),
    Station("connection of\na look-up", True, ("ServerConnection.run",)),
    Station("the store's\nreader", True, ("SQLite reader",)),
)


def room_of(file: str) -> str:
    """Return the room in which a file of the source is: its package and the part of that."""
    return ".".join(file.split("/")[:2])


def trace() -> tuple[frozenset[str], ...]:
    """Return the rooms that each station enters, in a sandbox that this process runs."""
    with TemporaryDirectory() as directory:
        payments, lookup = trio.run(_play, Path(directory))

    return tuple(
        frozenset(
            room_of(file)
            for task, file in (lookup if station.is_lookup else payments)
            if task.endswith(station.tasks) and room_of(file) in ROOMS
        )
        for station in STATIONS
    )


async def _play(directory: Path) -> tuple[Counter[Entry], Counter[Entry]]:
    """Return what payments and a look-up enter."""
    trace = CallTrace()
    with trace.watching():
        async with serving(directory) as sandbox:
            with trace.recording() as payments:
                for number in range(TRACED):
                    reference = await _pay(sandbox, f"order-{number}")

            with trace.recording() as lookup:
                await sandbox.merchant.status(reference)

    return payments, lookup


async def _pay(sandbox: Running, name: str) -> str:
    """Return the reference of a payment whose merchant has been called back."""
    answer = await sandbox.merchant.accepted(merchantReference=name)
    reference = str(answer["gatewayReference"])
    await sandbox.outcome_of(reference)
    return reference


LEFT, COLUMN, TOP, ROW = 168, 92, 52, 30
WIDTH: Final = LEFT + COLUMN * len(STATIONS)
HEIGHT: Final = TOP + ROW * len(ROOMS) + 8

STYLE: Final = """\
text { font: 12px system-ui, sans-serif; fill: #161b24; } .core { font-weight: 600; }
.title { text-anchor: middle; } .ground { fill: #fff; } .row { fill: #eef0f4; }
.way { stroke: #2f4fd0; stroke-width: 1.75; fill: none; } .dot { fill: #2f4fd0; }
@media (prefers-color-scheme: dark) {
text { fill: #e9ecf1; } .ground { fill: #171b22; } .row { fill: #20252e; }
.way { stroke: #a3b5ff; } .dot { fill: #a3b5ff; } }"""


def picture(entered: tuple[frozenset[str], ...]) -> str:
    """Return the picture as SVG: a column for each station, with a dot in the rooms it enters."""
    return "\n".join((*_lines(entered), "</svg>", ""))


def _lines(entered: tuple[frozenset[str], ...]) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">'
    )
    yield "<title>The rooms that a payment's way leads through, by who waits there</title>"
    yield f"<style>\n{STYLE}\n</style>"
    yield f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'

    for row, room in enumerate(ROOMS):
        kind = "core" if room.startswith("mmo_sansio") else "shell"
        y = TOP + ROW * row
        if row % 2 == 0:
            yield f'<rect class="row" y="{y}" width="{WIDTH}" height="{ROW}"/>'
        yield f'<text class="{kind}" x="12" y="{y + 19}">{room}</text>'

    for column, (station, rooms) in enumerate(zip(STATIONS, entered, strict=True)):
        yield from _column(LEFT + COLUMN * column + COLUMN // 2, station, rooms)


def _column(x: int, station: Station, rooms: frozenset[str]) -> Iterator[str]:
    for line, text in enumerate(station.title.split("\n")):
        yield f'<text class="title" x="{x}" y="{20 + 16 * line}">{escape(text)}</text>'

    heights = [TOP + ROW * row + ROW // 2 for row, room in enumerate(ROOMS) if room in rooms]
    if heights:
        yield f'<path class="way" d="M{x} {heights[0]}V{heights[-1]}"/>'
    for y in heights:
        yield f'<circle class="dot" cx="{x}" cy="{y}" r="5"/>'


if __name__ == "__main__":
    PICTURE.write_text(picture(trace()), encoding="utf-8")
