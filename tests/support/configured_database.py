"""Configures databases and roles as operators do, and runs payments on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit, urlunsplit

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.queries import ListRecords, LookUpByMerchantReference
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres.connection_pool import ConnectionPool
from mmo_trio.storage.postgres.connections import WRITER_SETUP, build_conninfo
from mmo_trio.storage.postgres.primary import PrimaryFinder
from mmo_trio.storage.postgres.trio_connection import fetch_rows
from tests.conformance.driver import NOON, after_noon, create_payments, submit_batch
from tests.conformance.inputs import reference, succeeded

# isort: split
import trio

from tests.support.postgres_process import execute


def database_name(url: str) -> str:
    """Return the name of the database."""
    return urlsplit(url).path.removeprefix("/")


def with_parameters(url: str, **parameters: str) -> str:
    """Return the URL with further parameters."""
    parts = urlsplit(url)
    return urlunsplit(
        parts._replace(query="&".join(filter(None, (parts.query, urlencode(parameters)))))
    )


def as_role(url: str, role: str, password: str = "") -> str:
    """Return the URL for another role."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role}{password and ':' + password}@{host}"))


@contextmanager
def role_of(url: str, options: str = "") -> Iterator[str]:
    """Make a role that may log in, named after the database, and remove it with all that it
    owns."""
    role = f"role_{database_name(url)}"
    execute(url, f"CREATE ROLE {role} LOGIN {options}")
    try:
        yield role
    finally:
        execute(url, f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


async def session_setting(url: str, name: str) -> str:
    """Return the value of a setting in a session that commits."""
    pool = ConnectionPool(PrimaryFinder([build_conninfo(url)]), 1, WRITER_SETUP, suspect_after_s=10)
    async with pool.serve():
        statement = "SELECT current_setting(%s)"
        ((value,),) = await pool.call(
            lambda c: fetch_rows(c, statement, name), trio.current_time() + 10
        )
        return str(value)


async def live_through_payments(url: str) -> None:
    """Take payments through their lives on two processes' stores, and read them in every way."""
    async with open_postgres(url, serving=True) as one, open_postgres(url, serving=True) as other:
        await create_payments(one, range(3))
        for number in range(2):
            await submit_batch(other, (BeginSubmission(reference(number)), after_noon(50 + number)))
            await submit_batch(one, (succeeded(number), after_noon(60 + number)))
        assert one.ownership is not None
        assert [each.brand for each in await one.ownership.claim()] == ["acme"]
        claimed = await one.ownership.find_callbacks({"acme": 10})
        assert [each.transaction.order.gateway_reference for each in claimed] == [
            reference(0),
            reference(1),
        ]
        assert await other.look_up(LookUpByMerchantReference("acme", "order/1 ü")) is not None
        records = await other.list_records(ListRecords("acme", NOON, after_noon(40)))
        assert len(records.objects) == 3
        (found,) = await one.admin.find_transactions(reference="order/2 ü")
        assert found.reference == reference(2)
        await one.check()
    async with open_postgres(url, serving=False) as store:
        assert await store.integrity_errors() == []
