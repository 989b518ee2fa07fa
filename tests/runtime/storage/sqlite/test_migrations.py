"""A file of the version before the console is brought up to date: what it holds is found by every
name."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from mmo_sansio.api.outgoing.transaction_json import transaction_object
from mmo_sansio.testing import a_transaction, numbered_reference
from mmo_sansio.values.model import Stage
from mmo_trio.storage.sql.serialization import serialize_order, serialize_progress, with_checksum
from mmo_trio.storage.sqlite import migrations, open_sqlite
from mmo_trio.storage.sqlite.connection import connect
from mmo_trio.storage.sqlite.files import create_file


async def test_payments_of_before_are_found_by_number_and_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = a_transaction(Stage.SUCCEEDED, gateway_reference=numbered_reference(1), provider_reference="R-7")
    order, progress = kept.order, kept.progress
    every = migrations.scripts()
    file = tmp_path / "gateway.db"
    create_file(file)
    with connect(file) as connection:
        older = {number: script for number, script in every.items() if number < 4}
        monkeypatch.setattr(migrations, "scripts", lambda: older)
        migrations.migrate(connection)
        connection.execute(
            "INSERT INTO transactions (gateway_reference, brand, type, method, created_at,"
            " order_row, status, version, wake_at, progress, object)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                kept.reference,
                order.brand,
                order.type.value,
                order.method,
                order.created_at,
                serialize_order(order),
                kept.status.value,
                progress.version,
                progress.wake_at,
                serialize_progress(progress),
                with_checksum(transaction_object(kept)),
            ),
        )
    connection.close()
    monkeypatch.undo()
    number = order.party.msisdn.removeprefix("+")
    with trio.fail_after(30):
        async with open_sqlite(file, serving=True) as store:
            for text, msisdns in ((kept.reference, []), ("R-7", []), ("nothing", [number])):
                found = await store.admin.search_payments(text, msisdns=msisdns)
                assert list(found.transactions) == [kept], text
