"""PostgreSQL as its users configure it: each row of the table in docs/postgresql.md works, or is
refused with a sentence that says what to set."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.queries import ListRecords
from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable
from mmo_trio.storage.postgres import open_postgres, server_checks
from tests.conformance import queries
from tests.conformance.driver import NOON, after_noon, create_payments, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.support.configured_database import (
    as_role,
    database_name,
    live_through_payments,
    role_of,
    session_setting,
    with_parameters,
)
from tests.support.postgres_process import execute
from tests.support.postgres_server import PostgresServer

# isort: split
import psycopg

HOSTILE = """
    CREATE SCHEMA hostile;
    CREATE TABLE hostile.transactions (brand text, gateway_reference text);
    CREATE TABLE hostile.horizon (at bigint);
    INSERT INTO hostile.horizon VALUES (9000000000000000000);
    CREATE FUNCTION hostile.still_so(is_so boolean) RETURNS void LANGUAGE sql AS 'SELECT';
    CREATE FUNCTION hostile.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT NULL::text';
"""


async def refusal(url: str, *, serving: bool = True) -> str:
    """Return why a store can't be opened as it is."""
    with pytest.raises(StoreUnusable) as refused:
        async with open_postgres(url, serving=serving):
            pass
    return str(refused.value)


def set_for_database(url: str, **settings: str) -> None:
    """Let every session of the database begin with these settings, as far as the server knows
    them."""
    known = {name for (name,) in execute(url, "SELECT name FROM pg_settings")}
    for name, value in settings.items():
        if name in known:
            execute(url, f"ALTER DATABASE {database_name(url)} SET {name} = {value}")


@pytest.mark.parametrize("is_in_address", [False, True])
async def test_the_tables_are_where_the_search_path_says(
    database: str, is_in_address: bool
) -> None:
    execute(database, "CREATE SCHEMA mine")
    if is_in_address:
        url = with_parameters(database, options="-csearch_path=mine")
    else:
        url = database
        set_for_database(url, search_path="mine, public")
    await live_through_payments(url)
    assert execute(
        database,
        "SELECT nspname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE relname = "
        "'transactions'",
    ) == [("mine",)]


async def test_a_schema_in_front_changes_nothing(database: str) -> None:
    async with open_postgres(database, serving=True):
        pass
    execute(database, HOSTILE)
    set_for_database(database, search_path="hostile, public")
    await live_through_payments(database)
    set_for_database(database, search_path="hostile, public, pg_catalog")
    async with open_postgres(database, serving=True) as store:
        await store.check()


async def test_a_path_to_nowhere_is_refused(database: str) -> None:
    set_for_database(database, search_path="nowhere")
    assert "ALTER ROLE" in await refusal(database)


async def test_the_tables_of_another_program_are_left_alone(database: str) -> None:
    execute(database, "CREATE TABLE transactions (amount numeric)")
    assert "a database, or a schema (search_path), of its own" in await refusal(database)
    assert execute(
        database, "SELECT count(*) FROM pg_class WHERE relname IN ('mmo_schema', 'journal')"
    ) == [(0,)]


def rights_in_tables(role: str) -> str:
    """The statement that gives a role every right in our tables that serving may need."""
    return f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"


def all_rights(role: str) -> tuple[str, str]:
    """The statements that give a role all that serving needs."""
    return rights_in_tables(role), f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"


async def test_no_superuser_is_needed(database: str) -> None:
    with role_of(database) as role:
        execute(
            database,
            f"ALTER DATABASE {database_name(database)} OWNER TO {role}",
            f"GRANT ALL ON SCHEMA public TO {role}",
        )
        try:
            await live_through_payments(as_role(database, role))
        finally:
            execute(database, f"ALTER DATABASE {database_name(database)} OWNER TO CURRENT_USER")


async def test_without_create_there_is_no_first_start(database: str) -> None:
    execute(database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with role_of(database) as role:
        found = await refusal(as_role(database, role))
        assert "permission denied for schema public" in found
        assert "grant the role what it lacks" in found


async def test_rights_are_enough_to_serve(database: str) -> None:
    async with open_postgres(database, serving=True):
        pass
    with role_of(database) as role:
        execute(database, *all_rights(role), f"REVOKE UPDATE, DELETE ON audit, journal FROM {role}")
        await live_through_payments(as_role(database, role))


async def test_a_missing_right_is_named(database: str) -> None:
    async with open_postgres(database, serving=True):
        pass
    with role_of(database) as role:
        execute(
            database,
            rights_in_tables(role),
            f"REVOKE SELECT ON suspense FROM {role}",
            f"REVOKE INSERT, DELETE ON intents FROM {role}",
        )
        url = as_role(database, role)
        expected = [
            f"the role lacks rights: GRANT DELETE, INSERT ON intents TO {role}",
            f"the role lacks rights: GRANT SELECT ON suspense TO {role}",
            f"the role lacks rights: GRANT USAGE ON SEQUENCE callback_ids TO {role}",
            f"the role lacks rights: GRANT USAGE ON SEQUENCE journal_ids TO {role}",
        ]
        assert await refusal(url) == "; ".join(expected)
        async with open_postgres(url, serving=False) as store:
            assert await store.integrity_errors() == expected


async def test_rows_that_may_be_hidden_are_refused(database: str) -> None:
    async with open_postgres(database, serving=True):
        pass
    with role_of(database) as role:
        execute(database, *all_rights(role), "ALTER TABLE transactions ENABLE ROW LEVEL SECURITY")
        assert "row security may hide rows of transactions" in await refusal(
            as_role(database, role)
        )


async def test_deadlines_of_a_role_end_nothing(database: str) -> None:
    """A session that rests longer than all of them is still the same afterwards."""
    names = (
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
        "transaction_timeout",
    )
    pids = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'mmo-gateway' AND datname = "
        "current_database()"
    )
    async with open_postgres(database, serving=True):
        pass
    with psycopg.connect(database, autocommit=True) as observer:
        set_for_database(database, **dict.fromkeys(names, "'50ms'"))
        await live_through_payments(database)
        async with open_postgres(database, serving=False) as store:
            await store.check()
            before = observer.execute(pids).fetchall()
            observer.execute("SET statement_timeout = 0; SELECT pg_sleep(0.5)")
            await store.check()
            assert {*before} <= {*observer.execute(pids).fetchall()}


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_every_session_reads_what_is_committed(database: str, level: str) -> None:
    set_for_database(database, default_transaction_isolation=f"'{level}'")
    await live_through_payments(database)
    assert await session_setting(database, "default_transaction_isolation") == "read committed"


@pytest.mark.parametrize("parameters", [{}, {"target_session_attrs": "any"}])
async def test_sessions_that_cannot_write_are_refused(
    database: str, parameters: dict[str, str]
) -> None:
    set_for_database(database, default_transaction_read_only="on")
    with pytest.raises((StoreUnusable, StoreUnavailable), match="default_transaction_read_only"):
        async with open_postgres(
            with_parameters(database, **parameters), serving=True, timeout_s=1
        ):
            pass


@pytest.mark.parametrize("value", ["off", "local"])
async def test_commits_wait_for_the_disk_and_the_standby(database: str, value: str) -> None:
    set_for_database(database, synchronous_commit=value)
    await live_through_payments(database)
    assert await session_setting(database, "synchronous_commit") == "on"


@pytest.mark.parametrize("is_in_address", [False, True])
async def test_forms_of_text_change_nothing(database: str, is_in_address: bool) -> None:
    settings = {
        "client_encoding": "LATIN1",
        "datestyle": "'German, DMY'",
        "intervalstyle": "sql_standard",
        "timezone": "'Asia/Kathmandu'",
        "bytea_output": "escape",
        "standard_conforming_strings": "off",
        "extra_float_digits": "0",
    }
    set_for_database(database, **settings)
    await live_through_payments(
        with_parameters(database, client_encoding="LATIN1") if is_in_address else database
    )


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
@pytest.mark.parametrize("serving", [True, False])
async def test_an_encoding_without_every_character_is_refused(
    postgres: PostgresServer, database: str, encoding: str, serving: bool
) -> None:
    name = f"{database_name(database)}_{encoding.lower()}"
    execute(
        postgres.url, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"
    )
    try:
        found = await refusal(database.replace(database_name(database), name), serving=serving)
    finally:
        execute(postgres.url, f"DROP DATABASE {name} WITH (FORCE)")
    assert f"the database's encoding is {encoding}" in found
    assert "ENCODING 'UTF8'" in found


async def test_no_answer_depends_on_the_collation(postgres: PostgresServer, database: str) -> None:
    """In en-US, punctuation and case count last: keys come in another order than by bytes."""
    name = f"{database_name(database)}_icu"
    url = database.replace(database_name(database), name)
    create = f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' "
    try:
        execute(
            postgres.url, f"{create} LOCALE_PROVIDER icu ICU_LOCALE 'en-US-u-ka-shifted' LOCALE 'C'"
        )
    except (
        psycopg.errors.SyntaxError,
        psycopg.errors.FeatureNotSupported,
    ):  # Version 14, and builds without ICU.
        execute(postgres.url, f"{create} LOCALE 'C.UTF-8'")
    try:
        await queries.check_records_paging(lambda: open_postgres(url, serving=True))
        brands = ["a-b", "ab", "A-B", "a_c", "Ab", "b"]
        async with open_postgres(url, serving=True) as store:
            for number, brand in enumerate(brands, start=100):
                await submit_batch(store, (creation(number, brand_id=brand), after_noon(number)))
                await submit_batch(
                    store, (BeginSubmission(reference(number)), after_noon(200 + number))
                )
                await submit_batch(store, (succeeded(number), after_noon(300 + number)))
            assert store.ownership is not None
            assert {each.brand for each in await store.ownership.claim()} >= {*brands}
            assert len(await store.ownership.find_callbacks(dict.fromkeys(brands, 1))) == len(
                brands
            )
    finally:
        execute(postgres.url, f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_process_works_with_few_connections_and_says_so(database: str) -> None:
    with role_of(database, "CONNECTION LIMIT 4") as role:
        execute(database, f"GRANT ALL ON SCHEMA public TO {role}")
        with capture_logs() as logged:
            async with open_postgres(as_role(database, role), serving=True) as store:
                await create_payments(store, range(3))
                assert (
                    len(
                        (await store.list_records(ListRecords("acme", NOON, after_noon(9)))).objects
                    )
                    == 3
                )
        assert {
            "event": "database_connections_limited",
            "log_level": "warning",
            "allowed": 4,
            "needed": 8,
        } in logged


async def test_one_connection_is_not_enough(database: str) -> None:
    with role_of(database, "CONNECTION LIMIT 1") as role:
        execute(database, f"GRANT ALL ON SCHEMA public TO {role}")
        assert "allows 1 connection" in await refusal(as_role(database, role))


async def test_an_old_version_is_refused(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_checks, "POSTGRES_VERSION_MIN", 990_000)
    assert "is too old" in await refusal(database)
