"""Files that LibreOffice has saved again are what they were: a pay-roll pays nobody twice, and the
books of a month have the same sums."""

from __future__ import annotations

import csv
import subprocess
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import trio
from openpyxl import load_workbook

from tests.support.commands import mmo
from tests.support.pay_rolls import (
    BLOCKED,
    KEY,
    PAID,
    ROOMY_BRANDS,
    WALK,
    pay,
    payments_of,
    put,
    salaries,
)
from tests.support.sandbox_gateway import Running, serving
from tests.support.time_limits import HANGS_AFTER_S

CSV = "Text - txt - csv (StarCalc):44,34,76"
"""Commas, quotation marks, UTF-8: what its dialogue offers for our files, which begin with a mark;
without a window it would take the encoding of the machine."""
FILTERS = {"csv": f"csv:{CSV}", "xlsx": "xlsx:Calc MS Excel 2007 XML"}
"""What LibreOffice writes, by the ending of a name."""


async def save_again(file: Path, kind: str) -> Path:
    """Open a file with LibreOffice and save it in a folder of its own; return what was saved."""
    folder = file.parent / f"saved as {kind}"
    folder.mkdir(exist_ok=True)
    reading = [f"--infilter={CSV}"] if file.suffix == ".csv" else []
    command = (
        *("soffice", "--headless", "--norestore"),
        f"-env:UserInstallation={(file.parent / 'profile').as_uri()}",
        *reading,
        *("--convert-to", FILTERS[kind], "--outdir", str(folder), str(file)),
    )
    with trio.fail_after(HANGS_AFTER_S):
        await trio.run_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / f"{file.stem}.{kind}"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    (tmp_path / "gateway").mkdir()
    async with serving(tmp_path / "gateway", brands=ROOMY_BRANDS, api_key=KEY) as running:
        yield running


@pytest.fixture
async def paid(gateway: Running, tmp_path: Path) -> Path:
    """A pay-roll of which some lines have failed."""
    (tmp_path / "settings.toml").write_text(WALK)
    file = tmp_path / "salaries.csv"
    put(file, salaries())
    assert (await pay(file, gateway)).exit_code == 1
    return file


@pytest.mark.spec("C12")
@pytest.mark.parametrize("kind", FILTERS)
async def test_failed_lines_that_were_mended_and_saved_again_are_paid_once(
    gateway: Running, paid: Path, kind: str
) -> None:
    failed = paid.with_name("salaries.csv.failed.csv")
    failed.write_text(failed.read_text("utf-8-sig").replace("107,", "001,"), "utf-8-sig")
    saved = (await save_again(failed, kind)).rename(paid.with_name(f"mended.{kind}"))
    for _ in range(2):
        done = await pay(saved, gateway)
        assert done.exit_code == 0, done.output
        counts = await payments_of(gateway)
        assert (len(counts), max(counts.values())) == (PAID + BLOCKED, 1)

    # The same lines, as they are in another program's file, from another folder.
    elsewhere = await save_again(failed, kind)
    (elsewhere.parent / "settings.toml").write_text(WALK)
    again = await pay(elsewhere, gateway)
    assert again.exit_code == 0, again.output
    assert f"{BLOCKED} of {BLOCKED} lines were paid on " in again.output
    assert await payments_of(gateway) == counts


@pytest.mark.spec("C12")
@pytest.mark.parametrize("kind", FILTERS)
async def test_a_whole_pay_roll_that_was_saved_again_pays_nobody_twice(
    gateway: Running, paid: Path, kind: str
) -> None:
    before = await payments_of(gateway)
    saved = (await save_again(paid, kind)).rename(paid.with_name(f"again.{kind}"))
    done = await pay(saved, gateway)
    assert done.exit_code == 1, done.output
    assert f"{PAID} of 30 lines were paid on " in done.output
    assert await payments_of(gateway) == before


@pytest.mark.spec("C12")
@pytest.mark.parametrize("kind", FILTERS)
async def test_keys_that_have_lost_their_zeros_are_not_paid_as_new_ones(
    gateway: Running, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "settings.toml").write_text(WALK)
    file = tmp_path / "salaries.csv"
    put(file, [[staff.replace("S", "00"), number, amount] for staff, number, amount in salaries()])
    assert (await pay(file, gateway)).exit_code == 1
    before = await payments_of(gateway)
    saved = (await save_again(file, kind)).rename(tmp_path / f"again.{kind}")
    done = await pay(saved, gateway)
    assert (done.exit_code, "it may be the same pay-roll" in done.output) == (2, True), done.output
    assert await payments_of(gateway) == before


@pytest.mark.parametrize("written", FILTERS)
@pytest.mark.parametrize("kind", FILTERS)
async def test_the_books_of_a_month_have_the_same_sums_in_libreoffice(
    gateway: Running, paid: Path, monkeypatch: pytest.MonkeyPatch, written: str, kind: str
) -> None:
    monkeypatch.setenv("API_KEY", KEY)
    book = paid.with_name(f"books.{written}")
    month = f"{datetime.now(UTC):%Y-%m}"
    arguments = ("--gateway", gateway.merchant.api, "--month", month, "--output", str(book))
    command = ("records", "fetch", "--for-accounting", *arguments)
    done = await trio.to_thread.run_sync(mmo, *command)
    assert done.exit_code == 0, done.output
    rows = read_rows(await save_again(book, kind))
    sums = defaultdict[str, Decimal](Decimal)
    for row in rows:
        sums[row["row"]] += Decimal(row["amount"])
    expected = -sum(Decimal(amount) for _, _, amount in salaries()[:PAID])
    assert (sums["payment"], sums["total"], sums["closing"]) == (expected,) * 3
    assert len([row for row in rows if row["row"] == "payment"]) == PAID


def read_rows(file: Path) -> list[dict[str, str]]:
    """The rows of a table by their headings, as texts."""
    if file.suffix == ".csv":
        return list(csv.DictReader(file.read_text("utf-8-sig").splitlines()))
    (sheet,) = load_workbook(file).worksheets
    headings, *rows = [[str(cell.value) for cell in row] for row in sheet.iter_rows()]
    return [dict(zip(headings, row, strict=True)) for row in rows]
