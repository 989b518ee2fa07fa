"""A statement is compared with the store, or with records from the API, and a day has a digest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.messages.reversals import (
    RequestReversal,
    ReversalAccepted,
    ReversalReport,
    ReversalSucceeded,
    ReversalWoke,
)
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import to_datetime
from mmo_sansio.values.model import Source
from tests.runtime.cli.test_commands import PAID, fill
from tests.support.commands import as_json, mmo, refusal, submit

MPESA = """M-PESA Organisation statement,,,,,,
Shortcode,600000,,,,,
Receipt No.,Completion Time,Initiation Time,Details,Transaction Status,Paid In,Withdrawn,Balance
{rows}
"""
PAID_ROW = (
    "RCPT1,2026-11-21 08:35:00,2026-11-21 08:34:56,Pay Bill from 254700000000 Acc. school "
    "fees,Completed,149.00,,149.00"
)
FEE_ROW = (
    "RCPT1,2026-11-21 08:35:00,2026-11-21 08:34:56,Pay merchant Charge,Completed,,-1.50,147.50"
)
OTHER_ROW = (
    "RCPT9,2026-11-21 09:00:00,2026-11-21 09:00:00,Pay Bill from "
    '254711,Completed,"1,200.00",,1347.50'
)
DECLINED_ROW = (
    "RCPT8,2026-11-21 09:00:00,2026-11-21 09:00:00,Pay Bill from 254711,Declined,50.00,,1347.50"
)


@pytest.fixture
def data(data: Path) -> Path:
    """The data directory of a sandbox in which RCPT1 was paid."""
    fill(data)
    return data


def mpesa(data: Path, *rows: str) -> Path:
    return table(data, "\ufeff" + MPESA.format(rows="\n".join(rows)))


def answer_reversal(data: Path, report: ReversalReport) -> str:
    """Have staff ask RCPT1's money back, unless they have, and its operator say that of it; the
    reversal's id."""
    asked = RequestReversal(
        PAID, "acme", None, "Paid twice.", "amina", needs_approval=False, number=1
    )
    submit(data, asked, ReversalWoke(report.reversal, "attempt"), report)
    return report.reversal


def words(data: Path, file: Path, *more: object) -> tuple[object, ...]:
    return (f"records reconcile --currency KES --statement {file}", *more)


def rows_of(data: Path, file: Path, *more: object) -> list[dict[str, Any]]:
    """Return the differences that are told."""
    rows: list[dict[str, Any]] = json.loads(mmo(*words(data, file, *more, "--json")).stdout)["rows"]
    return rows


def kinds_of(data: Path, file: Path, *more: object) -> list[str]:
    return [row["kind"] for row in rows_of(data, file, *more)]


def mapped(*pairs: str) -> list[str]:
    """The options that name these columns."""
    return [word for pair in pairs for word in ("--map", pair)]


def table(data: Path, text: str) -> Path:
    """Write a statement or ledger."""
    file = data / "table.csv"
    file.write_text(text, encoding="utf-8")
    return file


MPESA_LAYOUT = ("--preset", "mpesa")
ID_AND_AMOUNT = mapped("receipt=Id", "amount=Amount")
ACME = ("--brand", "acme")


def test_a_statement_that_agrees_has_no_difference(data: Path) -> None:
    agrees = words(data, mpesa(data, PAID_ROW, FEE_ROW, DECLINED_ROW), *MPESA_LAYOUT)
    found = as_json(*agrees)
    assert (found["matched"], found["unsettled"], found["fees"]) == (1, 1, {"KES": "1.50"})
    assert found["recordedFees"] == {"test KES": "1.50"}
    assert "Fees by the records: KES 1.50 by test." in mmo(*agrees).stdout
    earlier = as_json(*words(data, mpesa(data), *MPESA_LAYOUT, "--to", "2020-01-01"))
    assert earlier["recordedFees"] == {}
    assert not any(found["differences"].values())


def test_differences_are_named_by_kind_and_end_with_code_1(data: Path) -> None:
    more, fee = PAID_ROW.replace("149.00,,", "150.00,,"), FEE_ROW.replace("1.50", "2.50")
    file = mpesa(data, more, fee, OTHER_ROW)
    told = [
        (row["kind"], row["line"], row["records"], row["statement"])
        for row in rows_of(data, file, *MPESA_LAYOUT)
    ]
    assert told == [
        ("amount_differs", 4, "payin 149.00 KES success", "in 150.00 KES success"),
        ("fee_differs", 5, "1.50 KES", "2.50 KES"),
        ("missing_in_records", 6, None, "in 1200.00 KES success"),
    ]
    text = mmo(*words(data, file, *MPESA_LAYOUT))
    assert text.exit_code == 1
    for line in ("amount_differs: 1", "payin KES 149.00 success", "in KES 1,200.00 success"):
        assert line in text.stdout
    assert "Differences without an explanation: 3." in text.stderr


def test_money_that_went_back_is_compared_too(data: Path) -> None:
    back = PAID_ROW.replace("RCPT1", "BACK1").replace("149.00,,149.00", ",149.00,0.00")
    agrees = mpesa(data, PAID_ROW, back.replace("Pay Bill", "Reversal"))
    [unknown] = rows_of(data, agrees, *MPESA_LAYOUT)
    assert (unknown["kind"], unknown["receipt"]) == ("missing_in_records", "BACK1")

    id = answer_reversal(data, ReversalAccepted(f"{PAID}-1", "test", Source.POLL, "BACK1"))
    [open_] = rows_of(data, agrees, *MPESA_LAYOUT)
    assert (open_["kind"], open_["gatewayReference"]) == ("status_differs", id)
    assert open_["records"] == "reversal 149.00 KES pending"
    assert open_["statement"] == "out 149.00 KES success"

    answer_reversal(data, ReversalSucceeded(f"{PAID}-1", "test", Source.POLL, "BACK1"))
    assert rows_of(data, agrees, *MPESA_LAYOUT) == []
    [missing] = rows_of(data, mpesa(data, PAID_ROW), *MPESA_LAYOUT)
    assert (missing["kind"], missing["gatewayReference"]) == ("missing_in_statement", id)
    assert missing["receipt"] == "BACK1"
    assert rows_of(data, mpesa(data), *MPESA_LAYOUT, "--to", "2020-01-01") == []
    assert rows_of(data, mpesa(data), *MPESA_LAYOUT, "--method", "other") == []


def test_a_ledger_is_read_by_its_own_columns(data: Path) -> None:
    maps = (*mapped("reference=order", "amount=sum", "currency=cur", "status=state"), *ACME)
    rows = "order-1,149,KES,paid\norder-2,150,KES,failed\n"
    assert kinds_of(data, table(data, f"order,sum,cur,state\n{rows}"), *maps) == []
    paid = table(data, "order,sum,cur,state\norder-2,150,KES,paid\n")
    assert kinds_of(data, paid, *maps) == ["status_differs", "missing_in_statement"]


def test_a_fee_may_have_a_sign_as_an_amount_may(data: Path) -> None:
    file = table(data, "Receipt,Sum,Fee\nRCPT1,149.00,-1.50\n")
    maps = mapped("receipt=Receipt", "amount=Sum", "fee=Fee")
    assert as_json(*words(data, file, *maps))["fees"] == {"KES": "1.50"}


def test_one_column_may_have_receipts_and_references(data: Path) -> None:
    maps = (*mapped("receipt=ref", "reference=Ref", "amount=sum"), *ACME)
    for name in ("RCPT1", "order-1"):
        assert kinds_of(data, table(data, f"ref,sum\n{name},149\n"), *maps) == []


def test_a_correction_explains_a_difference_and_leaves_a_trace(data: Path) -> None:
    file = mpesa(data, PAID_ROW.replace("149.00,,", "149.05,,"), OTHER_ROW)
    (differs, lacking) = rows_of(data, file, *MPESA_LAYOUT)
    assert (differs["ageDays"] >= 0, lacking["ageDays"]) == (True, None)
    reference = differs["gatewayReference"]
    corrections = data / "corrections.csv"
    lines = [
        "kind,gatewayReference,receipt,by,reason",
        f"amount_differs,{reference},,amina,Rounded by the operator",
        "missing_in_records,,RCPT9,amina,Of another till",
    ]
    explained = words(data, file, *MPESA_LAYOUT, "--corrections", corrections)

    corrections.write_text("\n".join(lines[:2]))
    some = mmo(*explained, "--json")
    assert some.exit_code == 1
    found = json.loads(some.stdout)
    assert [row["correction"] for row in found["rows"]] == ["Rounded by the operator (amina)", None]
    assert (found["corrected"], found["differences"]["amount_differs"]) == (1, 0)

    corrections.write_text("\n".join(lines))
    assert mmo(*explained).exit_code == 0
    (newest, before) = as_json("audit list")[:2]
    assert [event["act"] for event in (newest, before)] == ["differences_corrected"] * 2
    assert newest["detail"]["statement"] == sha256(file.read_bytes()).hexdigest()
    told = [
        (each["kind"], each["reference"], each["by"], each["reason"])
        for each in newest["detail"]["corrections"]
    ]
    assert told == [
        ("amount_differs", reference, "amina", "Rounded by the operator"),
        ("missing_in_records", "RCPT9", "amina", "Of another till"),
    ]
    assert [each["reference"] for each in before["detail"]["corrections"]] == [reference]

    corrections.write_text("\n".join([*lines, "fee_differs,,RCPT1,amina,x"]))
    unused = mmo(*explained)
    assert (unused.exit_code, "The correction in line 4 of" in unused.stderr) == (0, True)
    for line, fault in (
        (lines[1], "is about the same difference as line 2"),
        ("lost,,RCPT1,amina,x", "line 4, kind: is not known"),
        ("fee_differs,,RCPT1,,x", "line 4, by: is blank"),
        ("fee_differs,,,amina,x", "line 4, gatewayReference: is blank"),
    ):
        corrections.write_text("\n".join([*lines, line]))
        assert fault in refusal(2, *explained)


def test_a_tolerance_is_declared_and_its_sum_told(data: Path) -> None:
    nearly = words(data, mpesa(data, PAID_ROW.replace("149.00,,", "149.05,,")), *MPESA_LAYOUT)
    done = mmo(*nearly, "--tolerance=0.05")
    assert done.exit_code == 0
    assert "Differences within the tolerance: KES 0.05." in done.stdout
    assert mmo(*nearly, "--tolerance=0.04").exit_code == 1
    for text in ("-1", "x", "NaN", "2000"):
        refusal(2, *nearly, f"--tolerance={text}")


def test_a_line_of_the_same_number_and_amount_is_paired_with_its_payment(data: Path) -> None:
    row = PAID_ROW.replace("RCPT1", "RCPT7") + ",254700000200 - AMINA OTIENO"
    text = mpesa(data, row).read_text("utf-8-sig").replace("Balance", "Balance,Other Party Info")
    (found,) = rows_of(data, table(data, text), *MPESA_LAYOUT)
    assert (found["kind"], found["receipt"]) == ("receipt_differs", "RCPT7")


def test_only_what_ended_in_the_period_is_expected(data: Path) -> None:
    until = f"{to_datetime(a.START):%Y-%m-%dT%H:%M:%S}"
    assert rows_of(data, mpesa(data), *MPESA_LAYOUT, "--to", until) == []
    assert rows_of(data, mpesa(data), *MPESA_LAYOUT) != []


def test_a_merchant_compares_with_objects_from_the_api(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = data / "records.ndjson"
    objects.write_text(mmo("records export --format ndjson").stdout)
    monkeypatch.setenv("XDG_DATA_HOME", str(data / "elsewhere"))
    assert rows_of(data, mpesa(data, PAID_ROW), *MPESA_LAYOUT, "--records", objects) == []


@pytest.mark.parametrize(
    ("old", "new", "options", "message"),
    [
        ("Completed", "Unheard of", MPESA_LAYOUT, "line 4, status: is 'Unheard of', which is not"),
        ("149.00,,", "1x,,", MPESA_LAYOUT, "line 4, paid_in: is no number"),
        ("149.00,,", "149.001,,", MPESA_LAYOUT, "line 4, paid_in: has more decimals than KES"),
        ("", "", ["--preset", "mtn"], "line 1, reference: no heading is 'External Transaction Id'"),
        ("", "", ["--map", "amount=Paid In"], "a receipt or reference"),
        ("", "", ["--map", "sum=Paid In"], "FIELD=HEADING"),
    ],
)
def test_a_statement_that_cannot_be_read_is_named(
    data: Path, old: str, new: str, options: Sequence[str], message: str
) -> None:
    row = PAID_ROW.replace(old, new) if old else PAID_ROW
    assert message in refusal(2, *words(data, mpesa(data, row), *options))


def test_a_statement_without_a_currency_needs_the_option(data: Path) -> None:
    file = mpesa(data, PAID_ROW)
    assert "--currency" in refusal(2, f"records reconcile --statement {file} --preset mpesa")


MTN = (
    'Id,"External Transaction Id","Date","Status","Type","Provider Category","Information",'
    '"Note/Message","From","From Name","From Handler Name","To","To Name","To Handler Name",'
    '"Initiated By","On Behalf Of","Amount","Currency","Fee","Currency","Discount","Currency",'
    '"Promotion","Currency","Coupon","Currency","Balance","Currency"'
)
"""The head line of MTN's activity report, as public programs expect it."""


def test_the_preset_reads_the_columns_of_mtns_activity_report(data: Path) -> None:
    def row(id: str, status: str, amount: str) -> str:
        parties = ["FRI:254700000000/MSISDN", "A", "", "FRI:acme/USER", "Acme", "", "acme", ""]
        middle = ["", "11/21/2026 08:35:00", status, "Payment", "", "", "", *parties]
        money = [amount, "KES", "1.5", "KES", "0", "KES", "0", "KES", "0", "KES", "149", "KES"]
        return ",".join([id, *(f'"{each}"' for each in (*middle, *money))])

    def report(amount: str) -> Any:
        lines = (MTN, row("RCPT1", "Successful", amount), row("RCPT8", "Failed", "50"))
        file = table(data, "\n".join(lines))
        line = f"records reconcile --statement {file} --preset mtn --json"
        return json.loads(mmo(line).stdout)

    found = report("149")
    assert (found["matched"], found["unsettled"]) == (1, 1)
    assert not any(found["differences"].values())
    assert report("150")["differences"]["amount_differs"] == 1


def test_a_day_has_a_digest_that_another_program_computes_from_the_records(data: Path) -> None:
    exported = mmo("records export --format ndjson --brand acme").stdout
    assert PAID in exported
    ended = [each for each in map(json.loads, exported.splitlines()) if each["completedAt"]]
    lines = []
    for each in ended:
        money = each["finalAmount"] or each["requestedAmount"]
        amount = f"{money['value']:.2f}\t{money['currency']}"
        lines.append(f"{each['gatewayReference']}\t{each['type']}\t{amount}\t{each['status']}\n")
    (day,) = {each["completedAt"][:10] for each in ended}
    found = as_json("records digest --date", day)
    assert found[0] == {
        "brand": "acme",
        "date": day,
        "count": 2,
        "sums": {"payin KES": "149.00"},
        "fees": {"test KES": "1.50"},
        "sha256": sha256("".join(sorted(lines)).encode()).hexdigest(),
    }
    assert found[1]["count"] == 0
    (before,) = as_json("records digest --date 2020-01-01 --brand acme")
    assert before["sha256"] == sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        ("RCPT1,149.00\n", []),
        ("RCPT1,+149.00\n", []),
        ("RCPT1,-149.00\n", ["direction_differs"]),
        ("RCPT1,149.00\nRCPT1,-149.00\n", ["direction_differs"]),
    ],
)
def test_the_sign_of_an_amount_says_where_money_went(
    data: Path, lines: str, kinds: list[str]
) -> None:
    assert kinds_of(data, table(data, f"Id,Amount\n{lines}"), *ID_AND_AMOUNT) == kinds


def test_a_brand_chooses_among_the_records_of_a_file(data: Path) -> None:
    """A reference of one brand says nothing of the same one of another."""
    exported = mmo("records export --format ndjson").stdout.splitlines()
    (record,) = (line for line in exported if "RCPT1" in line)
    records, file = data / "records.ndjson", table(data, "Id,Amount\nRCPT1,149.00\n")
    for brand, kinds in (("acme", []), ("globex", ["missing_in_records"])):
        records.write_text(json.dumps(json.loads(record) | {"brand": brand}))
        assert kinds_of(data, file, *ID_AND_AMOUNT, *ACME, "--records", records) == kinds


def test_money_that_went_out_has_one_sign_in_its_column(data: Path) -> None:
    maps = mapped("receipt=Id", "paid_in=In", "paid_out=Out")

    def refused(rows: str) -> str:
        return refusal(2, *words(data, table(data, f"Id,In,Out\n{rows}"), *maps))

    signs = refused("RCPT1,,-149.00\nA2,,149.00\n")
    assert "lines 2, 3, paid_out (2 times): has both signs" in signs
    assert "line 2, amount: is in two columns" in refused("RCPT1,149.00,1.00\n")
    out = table(data, "Id,In,Out\nRCPT1,-149.00,\n")
    assert kinds_of(data, out, *maps) == ["direction_differs"]


def test_money_that_went_out_by_a_word_has_one_sign_in_its_column(data: Path) -> None:
    maps, head = (
        (*ID_AND_AMOUNT, *mapped("direction=Kind")),
        "Id,Amount,Kind\nRCPT1,149.00,credit\n",
    )
    both = table(data, f"{head}A2,-149.00,debit\nA3,5.00,debit\n")
    told = refusal(2, *words(data, both, *maps))
    assert "lines 3, 4, amount (2 times): has both signs in the file where it goes out" in told
    for sign in ("", "-"):
        found = rows_of(data, table(data, f"{head}A2,{sign}149.00,debit\n"), *maps)
        assert [row["statement"] for row in found] == ["out 149.00 KES success"]


def test_words_that_are_not_known_can_be_named(data: Path) -> None:
    file = table(data, "Id,Amount,State\nRCPT1,149.00,Traité\n")
    given = words(data, file, *ID_AND_AMOUNT, *mapped("status=State"))
    assert '--status-word "Traité=success"' in refusal(2, *given)
    assert mmo(*given, "--status-word", "TRAITE=success").exit_code == 0
    assert "write WORD=STATUS" in refusal(2, *given, "--status-word", "Traité=ok")


def test_the_notation_of_a_statement_is_declared_where_nothing_proves_it(data: Path) -> None:
    file = table(data, 'Id;Amount\nRCPT1;"149.000"\n')
    unclear = refusal(2, *words(data, file, *ID_AND_AMOUNT))
    assert "line 2, amount: has more decimals" in unclear
    (declared,) = rows_of(data, file, *ID_AND_AMOUNT, "--decimal", ",")
    assert declared["statement"] == "149000.00 KES success"
