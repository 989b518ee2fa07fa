"""Gives many rows of a table new values, in as few statements as the database allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import Row, SqlQuery, execute


@frozen
class RowUpdate:
    """Says which columns of a table an update changes, and by which keys it finds the rows."""

    table: str
    keys: Mapping[str, str]
    """PostgreSQL's types of the keys, by their expressions; `brand` is the first where the table is distributed, and
    `at` is one of them where it is partitioned."""
    changes: Mapping[str, str]
    """PostgreSQL's types of the columns that change, by their names."""
    returned: str = "1"
    """What is returned of each row that has changed."""
    constants: str = ""
    """Further assignments, the same for all rows."""

    def run(self, schema: SqlSchema, rows: Iterable[Sequence[object]]) -> SqlQuery[Sequence[Row]]:
        """Change the rows with these keys, each to these values, and return those that have changed."""
        found: list[Row] = []
        if not schema.takes_arrays:
            for row in rows:
                found += yield from execute(self._single_text(), *row[len(self.keys) :], *row[: len(self.keys)])
            return found
        groups: dict[object, list[Sequence[object]]] = {}
        for row in rows:
            groups.setdefault(row[0] if schema.is_distributed else None, []).append(row)
        for brand, some in groups.items():
            columns = [list(column) for column in zip(*some, strict=True)]
            bounds = [bound(columns[list(self.keys).index("at")]) for bound in (min, max)] if "at" in self.keys else []
            brands = [brand] if schema.is_distributed else []
            text = self._joined_text(with_brand=schema.is_distributed)
            found += yield from execute(text, *columns, *bounds, *brands)
        return found

    def _single_text(self) -> str:
        changed = [f"{each} = ?" for each in self.changes]
        found = " AND ".join(f"{each} = ?" for each in self.keys)
        return f"UPDATE {self.table} SET {self._assignments(changed)} WHERE {found} RETURNING {self.returned}"

    def _joined_text(self, *, with_brand: bool) -> str:
        """Return the statement for arrays of keys and of new values. The bounds of `at` are there for the planner: it
        looks into few partitions."""
        types = [*self.keys.values(), *self.changes.values()]
        keys, changes = (
            [f"{prefix}{nth}" for nth in range(len(of))] for prefix, of in (("key", self.keys), ("new", self.changes))
        )
        found = [f"{each} = given.{name}" for each, name in zip(self.keys, keys, strict=True)]
        found += ["at >= ?", "at <= ?"] if "at" in self.keys else []
        found += ["brand = ?"] if with_brand else []
        changed = [f"{each} = given.{name}" for each, name in zip(self.changes, changes, strict=True)]
        return (
            f"UPDATE {self.table} SET {self._assignments(changed)}"
            f" FROM unnest({', '.join(f'?::{each}[]' for each in types)}) AS given ({', '.join(keys + changes)})"
            f" WHERE {' AND '.join(found)} RETURNING {self.returned}"
        )

    def _assignments(self, changed: Sequence[str]) -> str:
        return ", ".join([*changed, self.constants] if self.constants else changed)
