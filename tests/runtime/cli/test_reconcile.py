"""A statement is compared with the store, or with records from the API, and a day has a digest."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
import trio

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
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import create_master_key, load_master_keys
from mmo_trio.engine.engine import submit_once
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import GatewayClock
from tests.runtime.cli.test_commands import INPUTS, PAID, as_json, fill, mmo, refusal

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
def data(tmp_path: Path) -> Path:
    """The data directory of a sandbox in which RCPT1 was paid."""
    folder = tmp_path / "data"
    folder.mkdir()
    create_master_key(folder / "master.key")
    trio.run(
        fill,
        f"sqlite:///{folder}/gateway.db",
        KeyRing(*load_master_keys(folder / "master.key")),
        INPUTS,
    )
    return folder


def mpesa(folder: Path, *rows: str) -> Path:
    file = folder / "statement.csv"
    file.write_text("\ufeff" + MPESA.format(rows="\n".join(rows)), encoding="utf-8")
    return file


async def answer_reversal(data: Path, report: ReversalReport) -> str:
    """Have staff ask RCPT1's money back, unless they have, and its operator say that of it; the
    reversal's id."""
    asked = RequestReversal(
        PAID, "acme", None, "Paid twice.", "amina", needs_approval=False, number=1
    )
    async with open_store(f"sqlite:///{data}/gateway.db", serving=True) as store:
        for each in (asked, ReversalWoke(report.reversal, "attempt"), report):
            await submit_once(store, each, GatewayClock())
    return report.reversal


def words(data: Path, file: Path, *more: object) -> tuple[object, ...]:
    return ("records", "reconcile", "--statement", file, "--currency", "KES", "--data", data, *more)


def test_a_statement_that_agrees_has_no_difference(data: Path) -> None:
    file = mpesa(data, PAID_ROW, FEE_ROW, DECLINED_ROW)
    found = as_json(*words(data, file, "--preset", "mpesa"))
    assert (found["matched"], found["unsettled"], found["fees"]) == (1, 1, {"KES": "1.50"})
    assert found["recordedFees"] == {"test KES": "1.50"}
    assert (
        "Fees by the records: KES 1.50 by test."
        in mmo(*words(data, file, "--preset", "mpesa")).stdout
    )
    earlier = as_json(*words(data, mpesa(data), "--preset", "mpesa", "--to", "2020-01-01"))
    assert earlier["recordedFees"] == {}
    assert not any(found["differences"].values())


def test_differences_are_named_by_kind_and_end_with_code_1(data: Path) -> None:
    file = mpesa(
        data, PAID_ROW.replace("149.00,,", "150.00,,"), FEE_ROW.replace("1.50", "2.50"), OTHER_ROW
    )
    done = mmo(*words(data, file, "--preset", "mpesa", "--json"))
    assert done.exit_code == 1
    rows = json.loads(done.stdout)["rows"]
    assert [(row["kind"], row["line"], row["records"], row["statement"]) for row in rows] == [
        ("amount_differs", 4, "payin 149.00 KES success", "in 150.00 KES success"),
        ("fee_differs", 5, "1.50 KES", "2.50 KES"),
        ("missing_in_records", 6, None, "in 1200.00 KES success"),
    ]
    text = mmo(*words(data, file, "--preset", "mpesa"))
    assert text.exit_code == 1
    assert "amount_differs: 1" in text.stdout
    assert "payin KES 149.00 success" in text.stdout
    assert "in KES 1,200.00 success" in text.stdout
    assert "Differences without an explanation: 3." in text.stderr


def test_money_that_went_back_is_compared_too(data: Path) -> None:
    back = (
        PAID_ROW.replace("RCPT1", "BACK1")
        .replace("149.00,,149.00", ",149.00,0.00")
        .replace("Pay Bill", "Reversal")
    )
    statement, agrees = ("--preset", "mpesa", "--json"), mpesa(data, PAID_ROW, back)
    [unknown] = json.loads(mmo(*words(data, agrees, *statement)).stdout)["rows"]
    assert (unknown["kind"], unknown["receipt"]) == ("missing_in_records", "BACK1")
    id = trio.run(
        answer_reversal, data, ReversalAccepted(f"{PAID}-1", "test", Source.POLL, "BACK1")
    )
    [open_] = json.loads(mmo(*words(data, agrees, *statement)).stdout)["rows"]
    assert (open_["kind"], open_["gatewayReference"], open_["records"], open_["statement"]) == (
        "status_differs",
        id,
        "reversal 149.00 KES pending",
        "out 149.00 KES success",
    )
    trio.run(answer_reversal, data, ReversalSucceeded(f"{PAID}-1", "test", Source.POLL, "BACK1"))
    assert mmo(*words(data, agrees, *statement)).exit_code == 0
    [missing] = json.loads(mmo(*words(data, mpesa(data, PAID_ROW), *statement)).stdout)["rows"]
    assert (missing["kind"], missing["gatewayReference"], missing["receipt"]) == (
        "missing_in_statement",
        id,
        "BACK1",
    )
    assert mmo(*words(data, mpesa(data), *statement, "--to", "2020-01-01")).exit_code == 0
    assert mmo(*words(data, mpesa(data), *statement, "--method", "other")).exit_code == 0


def test_a_ledger_is_read_by_its_own_columns(data: Path) -> None:
    file = data / "ledger.csv"
    maps = [
        each
        for pair in ("reference=order", "amount=sum", "currency=cur", "status=state")
        for each in ("--map", pair)
    ]
    file.write_text(
        "order,sum,cur,state\norder-1,149,KES,paid\norder-2,150,KES,failed\n", encoding="utf-8"
    )
    assert mmo(*words(data, file, *maps, "--brand", "acme")).exit_code == 0
    file.write_text("order,sum,cur,state\norder-2,150,KES,paid\n", encoding="utf-8")
    done = mmo(*words(data, file, *maps, "--brand", "acme", "--json"))
    assert [row["kind"] for row in json.loads(done.stdout)["rows"]] == [
        "status_differs",
        "missing_in_statement",
    ]


def test_a_fee_may_have_a_sign_as_an_amount_may(data: Path) -> None:
    file = data / "export.csv"
    file.write_text("Receipt,Sum,Fee\nRCPT1,149.00,-1.50\n", encoding="utf-8")
    maps = [
        each for pair in ("receipt=Receipt", "amount=Sum", "fee=Fee") for each in ("--map", pair)
    ]
    assert as_json(*words(data, file, *maps))["fees"] == {"KES": "1.50"}


def test_one_column_may_have_receipts_and_references(data: Path) -> None:
    file = data / "ledger.csv"
    maps = [
        each for pair in ("receipt=ref", "reference=Ref", "amount=sum") for each in ("--map", pair)
    ]
    for name in ("RCPT1", "order-1"):
        file.write_text(f"ref,sum\n{name},149\n", encoding="utf-8")
        assert mmo(*words(data, file, *maps, "--brand", "acme")).exit_code == 0


def test_a_correction_explains_a_difference_and_leaves_a_trace(data: Path) -> None:
    file = mpesa(data, PAID_ROW.replace("149.00,,", "149.05,,"), OTHER_ROW)
    (differs, lacking) = json.loads(mmo(*words(data, file, "--preset", "mpesa", "--json")).stdout)[
        "rows"
    ]
    assert (differs["ageDays"] >= 0, lacking["ageDays"]) == (True, None)
    corrections = data / "corrections.csv"
    headings = "kind,gatewayReference,receipt,by,reason"
    lines = [
        headings,
        f"amount_differs,{differs['gatewayReference']},,amina,Rounded by the operator",
        "missing_in_records,,RCPT9,amina,Of another till",
    ]
    explained = words(data, file, "--preset", "mpesa", "--corrections", corrections)

    corrections.write_text("\n".join(lines[:2]), encoding="utf-8")
    some = mmo(*explained, "--json")
    assert some.exit_code == 1
    found = json.loads(some.stdout)
    assert [row["correction"] for row in found["rows"]] == ["Rounded by the operator (amina)", None]
    assert (found["corrected"], found["differences"]["amount_differs"]) == (1, 0)

    corrections.write_text("\n".join(lines), encoding="utf-8")
    assert mmo(*explained).exit_code == 0
    (newest, before) = as_json("audit", "list", "--data", data)[:2]
    assert [event["act"] for event in (newest, before)] == ["differences_corrected"] * 2
    assert newest["detail"]["statement"] == sha256(file.read_bytes()).hexdigest()
    assert newest["detail"]["corrections"] == [
        {
            "kind": "amount_differs",
            "reference": differs["gatewayReference"],
            "by": "amina",
            "reason": "Rounded by the operator",
        },
        {
            "kind": "missing_in_records",
            "reference": "RCPT9",
            "by": "amina",
            "reason": "Of another till",
        },
    ]
    assert [each["reference"] for each in before["detail"]["corrections"]] == [
        differs["gatewayReference"]
    ]
    corrections.write_text("\n".join([*lines, "fee_differs,,RCPT1,amina,x"]), encoding="utf-8")
    unused = mmo(*explained)
    assert unused.exit_code == 0
    assert "The correction in line 4 of" in unused.stderr
    for line, fault in (
        (lines[1], "is about the same difference as line 2"),
        ("lost,,RCPT1,amina,x", "line 4, kind: is not known"),
        ("fee_differs,,RCPT1,,x", "line 4, by: is blank"),
        ("fee_differs,,,amina,x", "line 4, gatewayReference: is blank"),
    ):
        corrections.write_text("\n".join([*lines, line]), encoding="utf-8")
        refused = mmo(*explained)
        assert (refused.exit_code, fault in refused.stderr) == (2, True), refused.stderr


def test_a_tolerance_is_declared_and_its_sum_told(data: Path) -> None:
    file = mpesa(data, PAID_ROW.replace("149.00,,", "149.05,,"))
    done = mmo(*words(data, file, "--preset", "mpesa", "--tolerance", "0.05"))
    assert done.exit_code == 0
    assert "Differences within the tolerance: KES 0.05." in done.stdout
    assert mmo(*words(data, file, "--preset", "mpesa", "--tolerance", "0.04")).exit_code == 1
    for text in ("-1", "x", "NaN", "2000"):
        refused = mmo(*words(data, file, "--preset", "mpesa", f"--tolerance={text}"))
        assert refused.exit_code == 2


def test_a_line_of_the_same_number_and_amount_is_paired_with_its_payment(data: Path) -> None:
    headings = "Paid In,Withdrawn,Balance"
    row = PAID_ROW.replace("RCPT1", "RCPT7") + ",254700000200 - AMINA OTIENO"
    file = mpesa(data, row)
    text = file.read_text("utf-8-sig").replace(headings, f"{headings},Other Party Info")
    file.write_text(text, "utf-8")
    done = mmo(*words(data, file, "--preset", "mpesa", "--json"))
    (found,) = json.loads(done.stdout)["rows"]
    assert (found["kind"], found["receipt"]) == ("receipt_differs", "RCPT7")


def test_only_what_ended_in_the_period_is_expected(data: Path) -> None:
    file = mpesa(data)
    end = to_datetime(a.START)
    until = f"{end:%Y-%m-%dT%H:%M:%S}"
    assert mmo(*words(data, file, "--preset", "mpesa", "--to", until)).exit_code == 0
    assert mmo(*words(data, file, "--preset", "mpesa")).exit_code == 1


def test_a_merchant_compares_with_objects_from_the_api(data: Path) -> None:
    objects = data / "records.ndjson"
    objects.write_text(
        mmo("records", "export", "--format", "ndjson", "--data", data).stdout, encoding="utf-8"
    )
    file = mpesa(data, PAID_ROW)
    assert (
        mmo(*words(data / "elsewhere", file, "--preset", "mpesa", "--records", objects)).exit_code
        == 0
    )


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            [PAID_ROW.replace("Completed", "Unheard of")],
            ["--preset", "mpesa"],
            "line 4, status: is 'Unheard of', which is not known",
        ),
        (
            [PAID_ROW.replace("149.00,,", "1x,,")],
            ["--preset", "mpesa"],
            "line 4, paid_in: is no number",
        ),
        (
            [PAID_ROW.replace("149.00,,", "149.001,,")],
            ["--preset", "mpesa"],
            "line 4, paid_in: has more decimals than KES",
        ),
        (
            [PAID_ROW],
            ["--preset", "mtn"],
            "line 1, reference: no heading is 'External Transaction Id'. Name its",
        ),
        ([PAID_ROW], ["--map", "amount=Paid In"], "a receipt or reference"),
        ([PAID_ROW], ["--map", "sum=Paid In"], "FIELD=HEADING"),
    ],
)
def test_a_statement_that_cannot_be_read_is_named(
    data: Path, rows: list[str], options: list[str], message: str
) -> None:
    assert message in refusal(2, *words(data, mpesa(data, *rows), *options))


def test_a_statement_without_a_currency_needs_the_option(data: Path) -> None:
    told = refusal(
        2,
        "records",
        "reconcile",
        "--statement",
        mpesa(data, PAID_ROW),
        "--preset",
        "mpesa",
        "--data",
        data,
    )
    assert "--currency" in told


MTN = (
    'Id,"External Transaction Id","Date","Status","Type","Provider '
    'Category","Information","Note/Message","From",'
    '"From Name","From Handler Name","To","To Name","To Handler Name","Initiated By","On Behalf '
    'Of","Amount",'
    '"Currency","Fee","Currency","Discount","Currency","Promotion","Currency","Coupon","Currency","Balance","Currency"'
)
"""The head line of MTN's activity report, as public programs expect it."""


def test_the_preset_reads_the_columns_of_mtns_activity_report(data: Path) -> None:
    def row(id: str, status: str, amount: str) -> str:
        parties = ["FRI:254700000000/MSISDN", "A", "", "FRI:acme/USER", "Acme", "", "acme", ""]
        middle = ["", "11/21/2026 08:35:00", status, "Payment", "", "", "", *parties]
        money = [amount, "KES", "1.5", "KES", "0", "KES", "0", "KES", "0", "KES", "149", "KES"]
        return ",".join([id, *(f'"{each}"' for each in (*middle, *money))])

    file = data / "mtn.csv"
    lines = (MTN, row("RCPT1", "Successful", "149"), row("RCPT8", "Failed", "50"))
    file.write_text("\n".join(lines), encoding="utf-8")
    found = as_json("records", "reconcile", "--statement", file, "--preset", "mtn", "--data", data)
    assert (found["matched"], found["unsettled"]) == (1, 1)
    assert not any(found["differences"].values())
    file.write_text(
        file.read_text("utf-8").replace('"149","KES","1.5"', '"150","KES","1.5"'), encoding="utf-8"
    )
    done = mmo(
        "records", "reconcile", "--statement", file, "--preset", "mtn", "--data", data, "--json"
    )
    assert json.loads(done.stdout)["differences"]["amount_differs"] == 1


def test_a_day_has_a_digest_that_another_program_computes_from_the_records(data: Path) -> None:
    exported = mmo(
        "records", "export", "--format", "ndjson", "--brand", "acme", "--data", data
    ).stdout
    lines = []
    for each in map(json.loads, exported.splitlines()):
        if each["completedAt"] is not None:
            money = each["finalAmount"] or each["requestedAmount"]
            lines.append(
                f"{each['gatewayReference']}\t{each['type']}\t{money['value']:.2f}\t{money['currency']}\t{each['status']}\n"
            )
    (day,) = {
        each["completedAt"][:10]
        for each in map(json.loads, exported.splitlines())
        if each["completedAt"]
    }
    found = as_json("records", "digest", "--date", day, "--data", data)
    assert found[0] == {
        "brand": "acme",
        "date": day,
        "count": 2,
        "sums": {"payin KES": "149.00"},
        "fees": {"test KES": "1.50"},
        "sha256": sha256("".join(sorted(lines)).encode()).hexdigest(),
    }
    assert found[1]["count"] == 0
    (before,) = as_json(
        "records", "digest", "--date", "2020-01-01", "--brand", "acme", "--data", data
    )
    assert before["sha256"] == sha256(b"").hexdigest()
    assert PAID in exported


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
    file = data / "statement.csv"
    file.write_text(f"Id,Amount\n{lines}", encoding="utf-8")
    maps = ("--map", "receipt=Id", "--map", "amount=Amount", "--json")
    found = json.loads(mmo(*words(data, file, *maps)).stdout)
    assert [row["kind"] for row in found["rows"]] == kinds


def test_a_brand_chooses_among_the_records_of_a_file(data: Path) -> None:
    """A reference of one brand says nothing of the same one of another."""
    (record,) = (
        line
        for line in mmo(
            "records", "export", "--format", "ndjson", "--data", data
        ).stdout.splitlines()
        if "RCPT1" in line
    )
    records, file = data / "records.ndjson", data / "statement.csv"
    file.write_text("Id,Amount\nRCPT1,149.00\n", encoding="utf-8")
    maps = ("--map", "receipt=Id", "--map", "amount=Amount", "--brand", "acme", "--json")
    for brand, kinds in (("acme", []), ("globex", ["missing_in_records"])):
        records.write_text(json.dumps(json.loads(record) | {"brand": brand}))
        found = json.loads(mmo(*words(data, file, *maps, "--records", records)).stdout)
        assert [row["kind"] for row in found["rows"]] == kinds


def test_money_that_went_out_has_one_sign_in_its_column(data: Path) -> None:
    file = data / "statement.csv"
    file.write_text("Id,In,Out\nRCPT1,,-149.00\nA2,,149.00\n", encoding="utf-8")
    maps = ("--map", "receipt=Id", "--map", "paid_in=In", "--map", "paid_out=Out")
    assert "lines 2, 3, paid_out (2 times): has both signs" in refusal(2, *words(data, file, *maps))
    file.write_text("Id,In,Out\nRCPT1,-149.00,\n", encoding="utf-8")
    found = json.loads(mmo(*words(data, file, *maps, "--json")).stdout)
    assert [row["kind"] for row in found["rows"]] == ["direction_differs"]
    file.write_text("Id,In,Out\nRCPT1,149.00,1.00\n", encoding="utf-8")
    assert "line 2, amount: is in two columns" in refusal(2, *words(data, file, *maps))


def test_money_that_went_out_by_a_word_has_one_sign_in_its_column(data: Path) -> None:
    file = data / "statement.csv"
    maps = (*("--map", "receipt=Id", "--map", "amount=Amount"), *("--map", "direction=Kind"))
    file.write_text("Id,Amount,Kind\nRCPT1,149.00,credit\nA2,-149.00,debit\nA3,5.00,debit\n")
    told = refusal(2, *words(data, file, *maps))
    assert "lines 3, 4, amount (2 times): has both signs in the file where it goes out" in told
    for sign in ("", "-"):
        file.write_text(f"Id,Amount,Kind\nRCPT1,149.00,credit\nA2,{sign}149.00,debit\n")
        found = json.loads(mmo(*words(data, file, *maps, "--json")).stdout)
        assert [row["statement"] for row in found["rows"]] == ["out 149.00 KES success"]


def test_words_that_are_not_known_can_be_named(data: Path) -> None:
    file = data / "statement.csv"
    file.write_text("Id,Amount,State\nRCPT1,149.00,Traité\n", encoding="utf-8")
    maps = ("--map", "receipt=Id", "--map", "amount=Amount", "--map", "status=State")
    assert '--status-word "Traité=success"' in refusal(2, *words(data, file, *maps))
    assert mmo(*words(data, file, *maps, "--status-word", "TRAITE=success")).exit_code == 0
    assert "write WORD=STATUS" in refusal(
        2, *words(data, file, *maps, "--status-word", "Traité=ok")
    )


def test_the_notation_of_a_statement_is_declared_where_nothing_proves_it(data: Path) -> None:
    file = data / "statement.csv"
    file.write_text('Id;Amount\nRCPT1;"149.000"\n', encoding="utf-8")
    maps = ("--map", "receipt=Id", "--map", "amount=Amount")
    assert "line 2, amount: has more decimals" in refusal(2, *words(data, file, *maps))
    declared = mmo(*words(data, file, *maps, "--decimal", ",", "--json"))
    assert [row["statement"] for row in json.loads(declared.stdout)["rows"]] == [
        "149000.00 KES success"
    ]
