"""Reads the plans of all statements from the log of a PostgreSQL with `auto_explain`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from tests.support.postgres_process import PostgresProcess

EXPLAINING: Mapping[str, str] = {
    "shared_preload_libraries": "auto_explain,pg_stat_statements",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_format": "json",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_triggers": "off",
    "pg_stat_statements.track_utility": "off",
    "pg_stat_statements.max": "10000",
    "log_line_prefix": "%a ",
}
"""Settings of a server that logs the plan of each statement with the rows and the blocks that each
node has read."""

_BLOCKS = (
    "Shared Hit Blocks",
    "Shared Read Blocks",
    "Local Hit Blocks",
    "Local Read Blocks",
    "Temp Read Blocks",
)
_ENTRY = re.compile(r"^(\S*) LOG:  duration: ([0-9.]+) ms  plan:\n((?:\t.*\n)+)", re.MULTILINE)


@frozen
class TableRead:
    """Says how one node of a plan has read a table."""

    table: str
    node: str
    """`Seq Scan`, `Index Scan` and so on."""
    rows: float
    """How many it has read, in all its loops."""


@frozen
class LoggedStatement:
    """Holds one execution of a statement."""

    text: str
    application: str
    plan: Mapping[str, Any]
    is_compiled: bool
    """Whether the server has compiled it just in time."""

    def reads(self) -> Iterator[TableRead]:
        """Yield how its plan reads tables."""
        return _reads(self.plan)

    @property
    def blocks(self) -> int:
        """Return how many blocks of tables and indexes it has touched, whether in memory or on
        disk."""
        return sum(int(self.plan[each]) for each in _BLOCKS)

    @property
    def rows(self) -> float:
        """Return how many rows it has returned or written."""
        nodes = [self.plan, *(child for each in _nodes(self.plan) for child in _written_by(each))]
        return float(sum(each["Actual Rows"] * each["Actual Loops"] for each in nodes))

    @property
    def rows_handled(self) -> float:
        """Return how many rows have gone through the nodes of its plan, or were looked at and left
        out."""
        return sum(_rows_read(each) for each in _nodes(self.plan))


def logged_statements(server: PostgresProcess) -> Iterator[LoggedStatement]:
    """Yield what the server has logged, in order."""
    for found in _ENTRY.finditer(server.log()):
        entry = json.loads(found[3].replace("\n\t", "\n"))
        yield LoggedStatement(entry["Query Text"], found[1], entry["Plan"], "JIT" in entry)


def tables_read_whole(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables that a plan reads from the first row to the last."""
    if node["Node Type"] == "Seq Scan":
        yield node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from tables_read_whole(child)


def _reads(plan: Mapping[str, Any]) -> Iterator[TableRead]:
    for node in _nodes(plan):
        if "Relation Name" in node and "Scan" in node["Node Type"]:
            yield TableRead(node["Relation Name"], node["Node Type"], _rows_read(node))


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _rows_read(node: Mapping[str, Any]) -> float:
    removed = (
        "Rows Removed by Filter",
        "Rows Removed by Index Recheck",
        "Rows Removed by Join Filter",
    )
    return float(
        (node["Actual Rows"] + sum(node.get(each, 0) for each in removed)) * node["Actual Loops"]
    )


def _written_by(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the plan whose rows this node writes, if it writes any."""
    children = node.get("Plans", ()) if node["Node Type"] == "ModifyTable" else ()
    return [each for each in children if each["Parent Relationship"] == "Outer"]
