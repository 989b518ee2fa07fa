"""`mmo db restored` from the command line, and the look at a restored copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from mmo_sansio.messages.inputs import StopPayment
from mmo_sansio.messages.queries import LookUp
from mmo_sansio.values.clock import DAY
from mmo_sansio.values.model import Stage
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.storage.interface.admin_types import (
    ClosedProvider,
    Configuration,
    ConsoleSession,
    ConsoleUser,
    Role,
)
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, after_noon, submit_batch
from tests.conformance.inputs import brand, creation, reference
from tests.support.commands import in_store, mmo, refusal, url_of

COLUMNS = "--map reference=order --map amount=total --currency KES --brand acme"


@pytest.fixture
def data(data: Path) -> Path:
    """A sandbox's folder with brands `acme` and `globex`, a key of `acme` and a payment that was
    not sent."""
    data.mkdir(parents=True)
    create_master_key(data / "master.key")

    async def fill(store: Store) -> None:
        await store.admin.save_brands([brand("acme"), brand("globex")])
        await submit_batch(store, (creation(1), NOON))

    in_store(data, fill)
    assert mmo("brands key add acme").exit_code == 0
    return data


def read(data: Path, call: Callable[[Store], Awaitable[Any]]) -> Any:
    return in_store(data, call, serving=False)


def configuration(data: Path) -> Configuration:
    found: Configuration = read(data, lambda store: store.configuration())
    return found


@pytest.mark.spec("S6", "C12", "A4")
def test_a_restored_store_is_prepared_and_released(data: Path) -> None:
    begun = mmo("db restored")
    assert begun.exit_code == 0, begun.output
    assert "1 payments had not ended" in begun.output
    assert "Do these keys still hold?" in begun.output
    assert configuration(data).restored_brands == {"acme", "globex"}
    payment = read(data, lambda store: store.transaction(reference(1)))
    assert payment.progress.stage is Stage.SUBMITTING
    again = mmo(f"db restored --data {data}")
    assert "A restoration is under way in this store, since " in again.output
    assert f"`mmo db restored --again --data {data}`" in again.output
    assert mmo("db restored --retire-key 9").exit_code == 1
    assert mmo("db restored --retire-key 1").exit_code == 0
    (acme, _) = read(data, lambda store: store.admin.brands())
    assert acme.keys[0].retired_at is not None
    assert mmo("db restored --finish nobody").exit_code == 1
    assert "On hold until --finish: acme." in mmo("db restored --finish globex").output
    assert configuration(data).restored_brands == {"acme"}
    assert "No brand waits any more." in mmo("db restored --finish").output
    nothing = mmo(f"db restored --finish --data {data}")
    assert f"first run `mmo db restored --data {data}`" in nothing.output
    assert not read(data, lambda store: store.admin.brand_holds())


@pytest.mark.spec("A5")
def test_people_of_a_restored_store_sign_in_anew_and_are_listed(data: Path) -> None:
    async def add_people(store: Store) -> None:
        ada = ConsoleUser("ada", Role.ADMIN, "hash", NOON)
        await store.admin.add_user(ada)
        await store.admin.add_user(evolve(ada, name="bob", disabled_at=after_noon(60)))
        session = ConsoleSession(b"token", "ada", NOON, NOON)
        await store.admin.begin_session(session, expire_before=NOON)
        await store.admin.keep_input("ada", "typed", b"sealed", NOON)
        await store.admin.close_provider(ClosedProvider("momo", NOON, "ada", "outage"))

    read(data, add_people)
    assert read(data, lambda store: store.admin.session(b"token")) is not None
    begun = mmo("db restored")
    assert begun.exit_code == 0
    assert read(data, lambda store: store.admin.session(b"token")) is None
    assert read(data, lambda store: store.admin.kept_input("ada", "typed")) is None
    for shown in ("ada", "bob", "disabledAt", "secondFactorAt", "momo", "All sessions"):
        assert shown in begun.output


@pytest.mark.spec("C12", "L1")
def test_references_of_lost_payments_are_taken_from_a_ledger_and_from_records(data: Path) -> None:
    mmo("db restored")
    kept = json.loads(read(data, lambda store: store.look_up(LookUp("acme", reference(1)))))
    lost = kept | {"gatewayReference": reference(2), "merchantReference": "salary-78"}
    failed = kept | {"gatewayReference": reference(3), "merchantReference": "salary-81"}
    records, ledger = data / "records.ndjson", data / "ledger.csv"
    records.write_text("\n".join(map(json.dumps, (kept, lost, failed | {"status": "failed"}))))
    ledger.write_text("order,total,state\nsalary-79,150,Completed\nsalary-81,150,Failed\n")

    assert mmo(f"db restored --records {records}").exit_code == 2, "whose payments?"
    from_records = mmo(f"db restored --records {records} --brand acme")
    assert "References that count as used: 2." in from_records.output, "the other one is there"
    records.write_text(json.dumps({"brand": "globex"} | lost))
    other = refusal(2, f"db restored --records {records} --brand acme")
    assert "the file has payments of globex" in other
    from_ledger = mmo(f"db restored --statement {ledger} --map status=state {COLUMNS}")
    assert "References that count as used: 2." in from_ledger.output

    names = ("salary-78", "salary-79", "salary-80", "salary-81")
    assert repeat(data, *names) == ["Rejected", "Rejected", "Accepted", "Rejected"], (
        "what has failed may be paid by a lost attempt"
    )
    assert mmo("db check").exit_code == 0


@pytest.mark.spec("S6")
def test_only_people_know_a_backup_from_an_earlier_restoration_that_has_no_mark(data: Path) -> None:
    """It went back with the machine, or there is none: the store itself says that it is
    prepared."""
    assert mmo("db restored").exit_code == 0
    assert mmo("db restored --finish acme").exit_code == 0
    read(data, lambda store: submit_batch(store, (creation(2), after_noon(1))))
    assert mmo("db restored").exit_code == 1
    assert mmo("db restored --again --finish").exit_code == 2
    assert mmo("db restored --again").exit_code == 0
    payment = read(data, lambda store: store.transaction(reference(2)))
    assert payment.progress.is_restored
    assert configuration(data).restored_brands == {"acme", "globex"}


@pytest.mark.spec("S6")
def test_a_store_that_is_served_is_not_restored(data: Path) -> None:
    async def serve() -> None:
        async with open_store(url_of(data), serving=True) as store:
            await store.use_configuration(1, process="process 7 on gw1")
            refused = await trio.to_thread.run_sync(mmo, "db restored")
            assert refused.exit_code == 1
            assert "process 7 on gw1" in refused.output

    trio.run(serve)
    assert not configuration(data).restored_brands


def test_a_restored_copy_says_its_age_and_what_it_holds(data: Path) -> None:
    shutil.copy(data / "gateway.db", data / "copy.db")
    done = mmo("db check --copy", data / "copy.db", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert (found["brands"], found["payments"], found["pending"], found["suspense"]) == (2, 1, 1, 0)
    assert 0 <= found["ageSeconds"] < 3600
    assert found["epoch"] == 1
    assert mmo("db check --copy", data / "nowhere.db").exit_code == 3


MPESA_STATEMENT = """Receipt No.,Details,Transaction Status,Paid In,Withdrawn,A/C No.
RCPT1,Pay Bill from 254700000000,Completed,1500.00,,{known}
RCPT2,Pay Bill from 254700000001,Completed,1500.00,,01ZZ9T4KQ7XM
"""


def fail_in_backup(data: Path) -> None:
    """Store a payment that failed before the backup, and prepare what was restored."""
    payment = creation(2, merchant_reference="salary-82")
    ended = StopPayment(payment.gateway_reference, "ada")
    steps = (payment, after_noon(1)), (ended, after_noon(2))
    read(data, lambda store: submit_batch(store, *steps))
    assert mmo("db restored").exit_code == 0


def repeat(data: Path, *names: str) -> list[str]:
    """Ask for a payment under each of these references; return the kinds of the replies."""
    again = [creation(nth, merchant_reference=name) for nth, name in enumerate(names, 90)]
    steps = [(each, after_noon(2 * DAY)) for each in again]
    replies = read(data, lambda store: submit_batch(store, *steps))
    return [type(reply).__name__ for reply in replies]


@pytest.mark.spec("C12", "L1")
@pytest.mark.parametrize("known", [reference(2)[-12:], reference(2)[-12:].lower(), reference(2)])
def test_what_a_statement_knows_by_the_gateways_reference_alone_is_not_paid_again(
    data: Path, known: str
) -> None:
    """The backup has the payment as failed, and it was paid all the same. Of a lost one only its
    merchant knows the merchantReference, which the command says."""
    fail_in_backup(data)
    statement = data / "statement.csv"
    statement.write_text(MPESA_STATEMENT.format(known=known))
    given = "--preset mpesa --currency KES --brand acme"
    done = mmo(f"db restored --statement {statement} {given}")
    assert done.exit_code == 0, done.output
    assert "References that count as used: 2." in done.output
    assert "01ZZ9T4KQ7XM: where these are ends of gatewayReferences" in done.output
    assert repeat(data, "salary-82") == ["Rejected"]
    assert mmo("db check").exit_code == 0


@pytest.mark.spec("C12", "L1")
@pytest.mark.parametrize(("status", "reply"), [("success", "Rejected"), ("failed", "Accepted")])
def test_kept_records_count_where_the_backup_has_the_payment_as_failed(
    data: Path, status: str, reply: str
) -> None:
    fail_in_backup(data)
    kept = json.loads(read(data, lambda store: store.look_up(LookUp("acme", reference(2)))))
    records = data / "records.ndjson"
    records.write_text(json.dumps(kept | {"status": status}))
    done = mmo(f"db restored --records {records} --brand acme")
    assert done.exit_code == 0, done.output
    assert repeat(data, "salary-82") == [reply]


@pytest.mark.spec("C12")
@pytest.mark.parametrize(
    ("ledger", "told"),
    [
        ('order,note,total\na-1,"x,150\na-2,x,150\n', "line 2: is no CSV"),
        ("order,note,total\na-1,x,150\na-2,x,on account\n", "line 3, amount: is no number"),
        ("order,note,total\na-1,x,150\n,x,150\n", "line 3, reference: is blank"),
        ("order,note,total\na-1,x,150,\n", "line 2: has 4 cells"),
    ],
)
def test_a_ledger_that_is_not_understood_closes_no_part_of_the_gap(
    data: Path, ledger: str, told: str
) -> None:
    mmo("db restored")
    (data / "ledger.csv").write_text(ledger)
    done = mmo(f"db restored --statement {data / 'ledger.csv'} {COLUMNS}")
    assert (done.exit_code, told in done.output) == (2, True), done.output
    assert "count as used" not in done.output


@pytest.mark.spec("C12")
def test_what_a_spreadsheet_adds_and_a_blank_amount_lose_no_reference(data: Path) -> None:
    mmo("db restored")
    ledger = data / "ledger.csv"
    ledger.write_text('order,total\n="a-1",150\n\'-2,150\na-3,\nTotal,450\n,0\n')
    done = mmo(f"db restored --statement {ledger} {COLUMNS} --skip-without-reference")
    assert "References that count as used: 3." in done.output, done.output
    assert "Line 5 with a total: left out." in done.output
    assert "Line 6 without a reference: skipped." in done.output
    assert repeat(data, "a-1", "-2", "a-3") == ["Rejected"] * 3
