"""Statements about rows of brands: one for all where there is one server, one for each brand where
tables are distributed."""

from __future__ import annotations

from mmo_trio.storage.postgres.statements import BrandStatement, InsertStatement, KnownBrands

_SELECT = BrandStatement("""
    SELECT t.brand, id FROM unnest(%s::text[], %s::bigint[]) AS wanted (brand, id)
    JOIN t USING (brand, id)
    [WHERE t.brand = ($1)[1]]
""")
_UPDATE = BrandStatement("""
    UPDATE t SET id = new.id FROM unnest(%s::text[], %s::bigint[]) AS new (brand, id)
    WHERE t.brand = new.brand [AND t.brand = ($1)[1]] AND %s::bigint > 0
""")
_INSERT = InsertStatement(
    "INSERT INTO t (brand, body) SELECT * FROM unnest(%s::text[], %s::bytea[]) ON CONFLICT "
    "DO NOTHING"
)

ROWS = [("acme", 1), ("best", 2), ("acme", 3)]


def test_one_server_gets_all_rows_in_one_statement_without_the_condition() -> None:
    [bound] = _SELECT.bind_on_one_server(ROWS)
    assert b"WHERE" not in bound.statement.text
    assert len(bound.values) == 2


def test_each_brand_gets_a_statement_that_names_it_where_tables_are_distributed() -> None:
    acme, best = _SELECT.bind_on_shards(ROWS)
    assert acme.statement is best.statement
    assert b"WHERE t.brand = ($1)[1]" in acme.statement.text
    assert acme.values[0] is not None
    assert acme.values[0].count(b"acme") == 2
    assert best.values[0] is not None
    assert best.values[0].count(b"best") == 1


def test_the_number_of_rows_is_that_of_each_statement() -> None:
    [whole] = _UPDATE.bind_on_one_server(ROWS, len)
    assert whole.values[2] == (3).to_bytes(8)
    assert b"[AND" not in whole.statement.text
    acme, best = _UPDATE.bind_on_shards(ROWS, len)
    assert (acme.values[2], best.values[2]) == ((2).to_bytes(8), (1).to_bytes(8))
    assert (
        b"WHERE t.brand = new.brand AND t.brand = ($1)[1] AND $3::bigint > 0" in acme.statement.text
    )


def test_rows_are_inserted_as_values_in_numbers_that_recur() -> None:
    rows = [("acme", b"1"), ("best", None), ("acme", b"3")]
    [whole] = _INSERT.bind_on_one_server(rows)
    assert b"SELECT * FROM unnest($1::text[], $2::bytea[])" in whole.statement.text
    two, one = _INSERT.bind_on_shards(rows)
    assert (
        b"VALUES ($1::text, $2::bytea), ($3::text, $4::bytea) ON CONFLICT DO NOTHING"
        in two.statement.text
    )
    assert two.values == [b"acme", b"1", b"best", None]
    assert one.values == [b"acme", b"3"]
    [again] = _INSERT.bind_on_shards(rows[:1])
    assert again.statement is one.statement, "the same text would be prepared again"
    sizes = [len(each.values) // 2 for each in _INSERT.bind_on_shards(rows * 50)]
    assert sizes == [64, 64, 16, 4, 2]


def test_the_brands_of_the_latest_transactions_are_known() -> None:
    brands = KnownBrands(limit=2)
    brands.add("A", "acme")
    brands.add("B", "best")
    brands.add("A", "acme")
    assert (brands.get("A"), brands.get("B"), brands.get("C")) == ("acme", "best", None)
    brands.add("C", "acme")
    assert (brands.get("A"), brands.get("B"), brands.get("C")) == (None, "best", "acme")
