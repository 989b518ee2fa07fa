"""The schemas of the SQL databases: in what they differ, and the migrations that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import TypeAlias

import structlog
from attrs import frozen

from mmo_trio.storage.sql.statements import SqlStatement

logger = structlog.get_logger(__name__)

# Learns the number of the migration that is applied next, and the number of the last one.
ReportMigration: TypeAlias = Callable[[int, int], None]


@frozen
class SqlSchema:
    """In what the schemas of the databases differ."""

    transaction_key: Sequence[str]
    """The columns of other tables that name a transaction; they are its key."""
    held_until: Sequence[tuple[str, str]]
    """The tables and columns of wall times before which nothing new may be dated."""
    reference_suffix: str
    """The indexed expression of a gatewayReference's last twelve characters."""
    host_of_brand: str
    """The expression of a brand's own host, or NULL."""
    breaker_table: str
    """The table that has the breakers of brands."""
    clear_breaker: str
    """The statement that removes a brand's breaker."""
    clock_record_age: str
    """The expression for the microseconds since a clock record was saved, by the database's own
    clock."""
    now: Callable[[], SqlStatement]
    """Returns the expression for the present in microseconds, by the database's own clock where it
    has one, with its values."""
    clock_query: str
    """The query that returns the database's own time and how many recent clock records of another
    start than the bound one agree with it, and how many differ; empty where the database has no
    clock of its own."""
    touch_clock_record: str
    """What a repeated save of a clock record sets besides its columns."""
    takes_arrays: bool
    """Whether one statement can change many rows, each to values of its own."""
    invariant_violations: Mapping[str, str]
    """Rows that only this schema could have and that break an invariant: a description, and what
    follows FROM."""
    is_distributed: bool = False
    """Whether rows of payments are in the shards of their brands, so that each statement names one
    brand."""


def migration_scripts(database: str) -> dict[int, str]:
    """Return the migrations of `sqlite` or `postgres` by number; each brings a database from the
    number before to its own."""
    found = files("mmo_trio.storage").joinpath("schema", database).iterdir()
    named = {int(file.name[:4]): file for file in found if file.name.endswith(".sql")}
    return {number: named[number].read_text("utf-8") for number in sorted(named)}


def report_nothing(number: int, last: int) -> None:
    """Ignore the progress of a migration."""


def log_migration(before: int, after: int, duration_s: float) -> None:
    """Log that the schema of a store that was there before is another one; from there no command
    leads back."""
    # A new store is at 0: it has nothing to go back to.
    if 0 < before < after:
        versions = {"from": before, "to": after}
        logger.warning(
            "store_migrated",
            **versions,
            seconds=round(duration_s, 3),
            way_back="a backup of before",
        )
