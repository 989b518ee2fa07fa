"""The book of a month has what moved in it, to the unit, in any time zone, by the test's own
bookkeeping."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
import trio
from attrs import Factory, define, frozen
from openpyxl import load_workbook

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.reversals import (
    RequestReversal,
    ReversalFailed,
    ReversalSucceeded,
    ReversalWoke,
)
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import DAY, HOUR, SECOND, Instant, Span, earlier, from_datetime, later
from mmo_sansio.values.model import Brand, Limits, Operation, Source
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import reversal_id
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.engine.engine import submit_once
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from tests.conformance.driver import submit_batch
from tests.support.commands import as_json, in_store, mmo, refusal
from tests.support.merchant import TIMEOUT_S
from tests.support.mmo_process import mmo as mmo_process
from tests.support.sandbox_gateway import Running, serving

ZONES = {
    "Africa/Nairobi": timezone(timedelta(hours=3)),
    "America/St_Johns": timezone(-timedelta(hours=3, minutes=30)),
    "Asia/Kathmandu": timezone(timedelta(hours=5, minutes=45)),
    "UTC": UTC,
}
"""Time zones, with what their clocks show at the end of November 2026."""

BORDER = datetime(2026, 12, 1)
METHODS = (
    a.a_method(),
    a.a_method(
        key="test_ug", country="UG", limits={"UGX": Limits(Money(1, "UGX"), Money(10**9, "UGX"))}
    ),
)
BRANDS = (a.a_brand(methods=METHODS), a.a_brand(id="zuri", name="Zuri", methods=METHODS))


@frozen
class Moved:
    """Is a line of the test's own book."""

    at: datetime
    name: str
    brand: str
    type: str
    currency: str
    amount: Decimal
    fee: Decimal | None


@define
class Judge:
    """Writes down what it makes happen, as simply as can be."""

    moved: list[Moved] = Factory(list)
    inputs: list[tuple[Input, Instant]] = Factory(list)
    count: int = 0

    def pay(
        self,
        at: Instant,
        *,
        brand: Brand,
        is_payout: bool,
        money: Money,
        fee: int | None = None,
        lasts: Span = SECOND,
        has_succeeded: bool = True,
    ) -> str:
        """Make a payment end at this time."""
        self.count += 1
        reference = a.numbered_reference(self.count)
        begin = earlier(at, lasts)
        operation = Operation.DIRECT_PAYOUT if is_payout else Operation.DIRECT_PAYIN
        is_ugandan = money.currency == "UGX"
        create = a.a_create_payment(
            reference,
            brand=brand,
            operation=operation,
            merchant_reference=f"=order-{self.count}",
            method="test_ug" if is_ugandan else "test_ke",
            country="UG" if is_ugandan else "KE",
            amount=Decimal(money.text),
            currency=money.currency,
        )
        told_fee = None if fee is None else Money(fee, money.currency)
        ended: Input = a.failed(reference)
        if has_succeeded:
            ended = a.succeeded(reference, provider_reference=f"R{self.count}", fee=told_fee)
        self.inputs += [(create, begin), (a.a_begin_submission(reference), begin), (ended, at)]
        if has_succeeded:
            sign = -1 if is_payout else 1
            type = "payout" if is_payout else "payin"
            cost = None if told_fee is None else -Decimal(told_fee.text)
            self._note(at, reference, brand, type, money, sign, cost)
        return reference

    def take_back(
        self,
        reference: str,
        at: Instant,
        *,
        brand: Brand,
        type: str,
        money: Money,
        number: int = 1,
        asked: Span = HOUR,
        has_moved: bool = True,
        reported: Money | None = None,
    ) -> None:
        """Make a reversal end at this time."""
        id = reversal_id(reference, number)
        begin = earlier(at, asked)
        ask = RequestReversal(
            reference,
            brand.id,
            money,
            "A reason.",
            "amina",
            needs_approval=False,
            reported=reported,
        )
        end: Input = ReversalFailed(id, "test", Source.POLL, "No.")
        if has_moved:
            end = ReversalSucceeded(id, "test", Source.POLL, f"B{id}")
        self.inputs += [(ask, begin), (ReversalWoke(id, f"attempt {id}"), begin), (end, at)]
        if has_moved:
            self._note(at, id, brand, type, money, 1 if type == "payout" else -1, None)

    def _note(
        self,
        at: Instant,
        name: str,
        brand: Brand,
        type: str,
        money: Money,
        sign: int,
        fee: Decimal | None,
    ) -> None:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
        amount = sign * Decimal(money.text)
        self.moved.append(Moved(moment, name, brand.id, type, money.currency, amount, fee))


def _history(seed: int) -> Judge:
    """Payments and reversals around the border of each zone: some in the last microsecond of
    November, and some in the first of December."""
    random, judge = Random(seed), Judge()
    borders = [from_datetime(BORDER.replace(tzinfo=zone)) for zone in ZONES.values()]
    moments = [Instant(at + by) for at in borders for by in (-1, 0, 1)]
    for _ in range(60):
        by = Span(random.randrange(-30 * HOUR, 30 * HOUR))
        moments.append(later(random.choice(borders), by))
    moments += [earlier(borders[0], Span(40 * DAY)), earlier(borders[0], Span(70 * DAY))]

    for at in moments:
        brand, is_payout = random.choice(BRANDS), random.random() < 0.4
        currency = random.choice(("KES", "UGX"))
        money = Money(random.randrange(1_000, 90_000), currency)
        reference = judge.pay(
            at,
            brand=brand,
            is_payout=is_payout,
            money=money,
            fee=random.choice((None, 0, random.randrange(1, 900))),
            lasts=Span(random.choice((1, SECOND, 2 * DAY))),
            has_succeeded=(has_succeeded := random.random() < 0.85),
        )
        if not has_succeeded or random.random() < 0.6:
            continue
        type = "payout" if is_payout else "payin"
        half = Money(money.minor // 2, currency)
        later_moments = [moment for moment in moments if moment > at] or [later(at, HOUR)]
        back_at = sorted(random.choices(later_moments, k=random.choice((1, 2))))
        for number, moment in enumerate(back_at, 1):
            judge.take_back(
                reference,
                later(moment, Span(number)),
                brand=brand,
                type=type,
                money=half,
                number=number,
                asked=Span(1),
                has_moved=random.random() < 0.8,
            )
    judge.inputs += [(a.a_create_payment(a.numbered_reference(9_999)), earlier(borders[0], HOUR))]
    return judge


def _store(folder: Path, judge: Judge) -> None:
    """Make a sandbox's store in which all of this has happened."""

    async def fill(store: Store) -> None:
        await store.admin.save_brands(BRANDS)
        for each in sorted(judge.inputs, key=lambda item: item[1]):
            await submit_batch(store, each)

    in_store(folder, fill)
    create_master_key(folder / "master.key")


def _rows(line: str, *words: object) -> list[dict[str, str]]:
    done = mmo(f"records export --for-accounting {line}", *words)
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(io.StringIO(done.stdout)))


def _moved(row: Mapping[str, str]) -> Moved:
    """Return what a row of a book says that has moved."""
    return Moved(
        datetime.fromisoformat(row["bookedAt"]),
        row["reversal"] or row["gatewayReference"],
        row["brand"],
        row["type"],
        row["currency"],
        Decimal(row["amount"]),
        Decimal(row["fee"]) if row["fee"] else None,
    )


def _sums(rows: Sequence[Mapping[str, str]], name: str) -> dict[tuple[str, str], Decimal]:
    """Return the sums of a book that are not 0, by brand and currency."""
    named = [row for row in rows if row["row"] == name and Decimal(row["amount"])]
    return {(row["brand"], row["currency"]): Decimal(row["amount"]) for row in named}


def _judged_sums(moved: Sequence[Moved]) -> dict[tuple[str, str], Decimal]:
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for line in moved:
        sums[line.brand, line.currency] += line.amount
    return {key: amount for key, amount in sums.items() if amount}


@pytest.mark.parametrize("seed", [1, 2])
def test_the_book_of_a_month_is_the_judges_to_the_unit_in_each_zone(data: Path, seed: int) -> None:
    judge = _history(seed)
    _store(data, judge)
    for name, zone in ZONES.items():
        border = BORDER.replace(tzinfo=zone)
        opening = datetime(2026, 11, 1, tzinfo=zone)
        for month, begin, end in (
            ("2026-11", opening, border),
            ("2026-12", border, datetime(2027, 1, 1, tzinfo=zone)),
        ):
            rows = _rows(f"--month {month} --timezone {name}")
            expected = [line for line in judge.moved if begin <= line.at < end]
            entries = [row for row in rows if row["row"] in ("payment", "reversal")]
            assert {_moved(row) for row in entries} == {*expected}, (name, month)
            assert len(entries) == len(expected)
            assert {row["bookedAt"][:7] for row in entries} <= {month}
            before = [line for line in judge.moved if line.at < begin]
            assert _sums(rows, "opening") == _judged_sums(before), (name, month)
            assert _sums(rows, "closing") == _judged_sums([*before, *expected]), (name, month)


def test_the_totals_of_the_month_agree_with_the_digests_of_its_days(data: Path) -> None:
    judge = _history(3)
    _store(data, judge)
    for name, zone in ZONES.items():
        rows = _rows(f"--month 2026-11 --timezone {name}")
        days = {line.at.astimezone(zone).date() for line in judge.moved}
        sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
        fees: dict[str, Decimal] = defaultdict(Decimal)
        for day in sorted(day for day in days if day < date(2026, 12, 1) and day.month == 11):
            for digest in as_json(f"records digest --date {day} --timezone {name}"):
                for key, text in digest["sums"].items():
                    sums[digest["brand"], key] += Decimal(text)
                for key, text in digest["fees"].items():
                    fees[f"{digest['brand']} {key[-3:]}"] += Decimal(text)
        totals = [row for row in rows if row["row"] == "total"]
        assert {
            (row["brand"], f"{row['type']} {row['currency']}"): abs(Decimal(row["amount"]))
            for row in totals
        } == sums
        told: dict[str, Decimal] = defaultdict(Decimal)
        for row in totals:
            told[f"{row['brand']} {row['currency']}"] -= Decimal(row["fee"])
        assert all(fees[name] == fee for name, fee in told.items())
        assert fees.keys() <= told.keys()


def test_a_row_says_what_it_is_about_and_no_more_of_the_payer(data: Path, tmp_path: Path) -> None:
    judge, brand, money = Judge(), BRANDS[0], Money(15_000, "KES")
    at = from_datetime(datetime(2026, 11, 30, 20, 59, 59, 999_999, tzinfo=UTC))
    reference = judge.pay(at, brand=brand, is_payout=False, money=money, fee=150)
    judge.take_back(
        reference,
        later(at, HOUR),
        brand=brand,
        type="payin",
        money=Money(5_000, "KES"),
        asked=SECOND,
    )
    _store(data, judge)
    output = tmp_path / "book.csv"
    line = "--month 2026-11 --timezone Africa/Nairobi --brand acme"
    done = mmo(f"records export --for-accounting {line} --output {output}")
    assert (done.exit_code, done.stdout) == (0, "")
    assert output.stat().st_mode & 0o777 == 0o600
    text = output.read_text("utf-8")
    assert "254" not in text
    opening, payment, closing, total = csv.DictReader(io.StringIO(text))
    assert (opening["row"], opening["amount"]) == ("opening", "0.00")
    assert opening["bookedAt"] == "2026-11-01T00:00:00.000000+03:00"
    assert payment == {
        "row": "payment",
        "date": "2026-11-30",
        "bookedAt": "2026-11-30T23:59:59.999999+03:00",
        "brand": "acme",
        "method": "test_ke",
        "country": "KE",
        "type": "payin",
        "currency": "KES",
        "amount": "150.00",
        "fee": "-1.50",
        "gatewayReference": reference,
        "merchantReference": "'=order-1",
        "reconciliationReference": "'=order-1",
        "reversal": "",
        "providerReference": "R1",
        "count": "",
        "simulated": "",
    }
    assert (closing["row"], closing["amount"], closing["fee"]) == ("closing", "150.00", "-1.50")
    assert (total["row"], total["type"], total["count"]) == ("total", "payin", "1")
    opening, back, closing, total = _rows("--month 2026-12 --timezone Africa/Nairobi --exact")
    assert (opening["amount"], back["amount"], closing["amount"]) == ("150.00", "-50.00", "100.00")
    assert (back["row"], back["reversal"]) == ("reversal", f"{reference}-1")
    assert back["merchantReference"] == "=order-1"
    assert back["bookedAt"] == "2026-12-01T00:59:59.999999+03:00"
    assert back["providerReference"] == f"B{reference}-1"
    assert (total["row"], total["amount"]) == ("total reversal", "-50.00")


def test_a_spreadsheet_has_the_same_rows_with_numbers_and_times_as_such(
    data: Path, tmp_path: Path
) -> None:
    _store(data, _history(4))
    output = tmp_path / "book.xlsx"
    line = "--month 2026-11 --timezone Africa/Nairobi"
    done = mmo(f"records export --for-accounting {line} --output {output}")
    assert (done.exit_code, done.stdout) == (0, "")
    assert output.stat().st_mode & 0o777 == 0o600
    (sheet,) = load_workbook(output).worksheets
    heading, *rows = sheet.iter_rows(values_only=True)
    expected = _rows(line, "--exact")
    assert list(heading) == list(expected[0])
    assert len(rows) == len(expected)
    for row, told in zip(rows, expected, strict=True):
        cells = dict(zip(heading, row, strict=True))
        for name in ("row", "brand", "currency", "gatewayReference", "merchantReference"):
            assert (cells[name] or "") == told[name]
        assert Decimal(str(cells["amount"])) == Decimal(told["amount"])
        assert (cells["fee"] is None) == (told["fee"] == "")
        at = cells["bookedAt"]
        if told["bookedAt"]:
            assert isinstance(at, datetime)
            assert at.isoformat(timespec="milliseconds") == told["bookedAt"][:23]
    assert {cell.data_type for line in sheet.iter_rows() for cell in line} <= {"s", "n", "d"}


async def test_a_merchant_fetches_by_the_key_what_the_staff_export(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    async with serving(tmp_path / "with") as sandbox:
        merchant, data = sandbox.merchant, sandbox.directory
        paid = [await merchant.accepted() for _ in range(3)]
        paid += [await merchant.accepted("direct/payout")]
        ended = [await merchant.ended(each["gatewayReference"]) for each in paid]
        reference = ended[0]["gatewayReference"]
        await _give_back(sandbox, reference)
        month = ended[-1]["completedAt"][:7]
        booked = ("--for-accounting", "--month", month, "--timezone", "UTC")
        by_key = ("--gateway", merchant.api, "--key", merchant.key)
        exported = await mmo_process("records", "export", *booked, "--data", data)
        fetched = await mmo_process("records", "fetch", *booked, *by_key)
        # A merchant isn't told that the sandbox operator moves no money.
        assert fetched == exported.replace(",true\r\n", ",\r\n")
        kinds = [row["row"] for row in csv.DictReader(io.StringIO(exported))]
        assert (kinds.count("payment"), kinds.count("reversal")) == (4, 1)

        window = ("--from", "2026-01-01", "--to", "2100-01-01")
        lines = await mmo_process("records", "fetch", *window, *by_key)
        page = await merchant.records(begin="2026-01-01", to="2100-01-01")
        assert f"[{','.join(lines.splitlines())}]".encode() in page.body


async def test_a_book_without_reversals_is_written_only_where_that_was_asked_for(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, environment={"MMO_GATEWAY_EXTENSIONS": "false"}) as sandbox:
        merchant = sandbox.merchant
        by_key = ("--gateway", merchant.api, "--key", merchant.key)
        fetch = ("records", "fetch", "--for-accounting", "--month", "2026-11", *by_key)
        assert await mmo_process(*fetch, exit_code=1) == ""
        assert (await mmo_process(*fetch, "--without-reversals")).startswith("row,date,bookedAt,")


async def _give_back(sandbox: Running, reference: str) -> None:
    """Have staff ask the money of a payment back, and wait until the operator has moved it."""
    asked = RequestReversal(reference, "demo", None, "Paid twice.", "amina", needs_approval=False)
    async with sandbox.storage.open_for_admin() as store:
        await submit_once(store, asked, GatewayClock())
        with trio.fail_after(TIMEOUT_S):
            while True:
                reversals = await store.reversals(reference)
                if all(reversal.state.has_moved for reversal in reversals):
                    return
                await trio.sleep(0.02)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("--key", "k"), "Give --from and --to, or --for-accounting"),
        (("--from", "2026-11-01", "--to", "2026-12-01"), "set the variable API_KEY"),
        (("--key", "k", "--for-accounting"), "add --month 2026-11"),
        (("--key", "k", "--for-accounting", "--from", "2026-11-01"), "takes no --from or --to"),
        (
            ("--key", "k", "--from", "2026-11-01", "--to", "2026-12-01", "--month", "2026-11"),
            "need",
        ),
    ],
)
def test_a_wrong_fetch_is_refused_with_what_to_write(
    words: Sequence[str], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("API_KEY", raising=False)
    said = refusal(2, "records fetch --gateway http://127.0.0.1:9", *words)
    assert remedy in " ".join(said.split())


def test_exports_are_in_the_audit_log(data: Path) -> None:
    _store(data, Judge())
    mmo("records export --for-accounting --month 2026-11")
    mmo("records export --format csv --brand acme")
    newest, before = as_json("audit list")[:2]
    assert (newest["act"], before["act"]) == ("records_exported", "books_exported")
    assert "acme" in json.dumps(newest)
    assert "2026-11" in json.dumps(before)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ((), "add --month 2026-11"),
        (("--month", "2026-13"), "Write year and month, such as 2026-11"),
        (("--month", "November"), "Write year and month, such as 2026-11"),
        (("--month", "2026-11", "--timezone", "Nairobi"), "such as Africa/Nairobi"),
        (("--month", "2026-11", "--timezone", "../etc/passwd"), "such as Africa/Nairobi"),
        (("--month", "2026-11", "--from", "2026-11-02"), "takes no --from"),
        (("--month", "2026-11", "--format", "ndjson"), "takes no --format ndjson"),
    ],
)
def test_a_wrong_month_is_refused_with_what_to_write(
    data: Path, words: Sequence[str], remedy: str
) -> None:
    _store(data, Judge())
    said = refusal(2, "records export --for-accounting", *words)
    assert remedy in " ".join(said.split())


def test_a_month_without_accounting_is_refused(tmp_path: Path) -> None:
    said = refusal(2, "records export --format csv --month 2026-11")
    assert "need --for-accounting" in " ".join(said.split())
