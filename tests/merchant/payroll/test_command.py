"""`mmo pay-outs` says what it pays and what became of it, goes on where it was, and refuses what it
must not pay."""

from __future__ import annotations

import csv
import fcntl
import signal
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest
import trio

from mmo_merchant.api.new_payments import PayOut
from mmo_merchant.clients.async_client import AsyncMerchantClient
from mmo_merchant.payroll import command
from mmo_merchant.payroll.payment_run import PacedClient, PaymentRun, PayrollClient
from mmo_sansio.values.model import Party
from mmo_sansio.values.money import Money
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.pay_rolls import (
    BLOCKED,
    BRANDS,
    HEADINGS,
    KEY,
    PAID,
    ROOMY_BRANDS,
    SETTINGS,
    STAFF,
    WALK,
    corrected,
    pay,
    payments_of,
    put,
    salaries,
    write,
)
from tests.support.sandbox_gateway import Running, serving
from tests.support.time_limits import HANGS_AFTER_S
from tests.support.written_tables import write_xlsx


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no pause of a run in this process last longer than 10 ms."""

    async def wait_briefly(pause_s: float) -> None:
        await anyio.sleep(min(pause_s, 0.01))

    monkeypatch.setattr(command, "PacedClient", partial(PacedClient, sleep=wait_briefly))
    monkeypatch.setattr(command, "PayrollClient", partial(PayrollClient, sleep=wait_briefly))
    monkeypatch.setattr(command, "PaymentRun", partial(PaymentRun, sleep=wait_briefly))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Running]:
    (tmp_path / "gateway").mkdir()
    async with serving(tmp_path / "gateway", brands=BRANDS, api_key=KEY) as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "settings.toml").write_text(SETTINGS)
    return tmp_path / "salaries.csv"


def elsewhere(file: Path, settings: str) -> Path:
    """A file of the same name in a folder of its own, as on another machine."""
    folder = file.parent / "elsewhere"
    folder.mkdir()
    (folder / "settings.toml").write_text(settings)
    return folder / file.name


def journal_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.journal")


def results(file: Path) -> list[dict[str, str]]:
    with file.with_name(f"{file.name}.results.csv").open(newline="") as rows:
        return list(csv.DictReader(rows))


def sums(output: str) -> list[str]:
    """The lines with sums; the gateway of this process has its log among them."""
    return [each for each in output.splitlines() if "pay-outs; " in each]


def statuses(file: Path) -> list[tuple[str, str]]:
    return [(each["status"], each["errorCode"]) for each in results(file)]


def references(file: Path) -> list[str]:
    return [each["gatewayReference"] for each in results(file)]


@pytest.mark.spec("C2", "C12", "L1")
async def test_each_line_ends_with_what_became_of_it_and_a_second_run_pays_nothing(
    gateway: Running, file: Path
) -> None:
    write(
        file, "254712345001,1500.00,a", "254712345107,20,b", "254712345002,1,c", "254712345120,30,d"
    )
    done = await pay(file, gateway)
    assert done.exit_code == 1, done.output
    codes = ("", "user_account_blocked", "config_method_transaction_min_limit", "")
    assert statuses(file) == [("failed" if code else "success", code) for code in codes]
    paid, failed, rejected, less = results(file)
    assert (paid["line"], paid["merchantReference"]) == ("2", "a")
    assert (paid["finalAmount"], less["finalAmount"]) == ("1500.00", "29.99")
    for name in ("gatewayReference", "providerReference", "createdAt", "completedAt"):
        assert paid[name]
    assert failed["message"]
    assert "below the minimum of 10.00 KES" in rejected["message"]
    assert "success: 2 pay-outs; KES 1,529.99" in done.output
    journal = journal_of(file).read_bytes()
    assert sums((await pay(file, gateway)).output) == sums(done.output)
    assert journal_of(file).read_bytes() == journal


@pytest.mark.spec("C12", "L2")
async def test_a_copy_of_a_file_is_looked_up_and_not_paid_again(
    gateway: Running, file: Path, tmp_path: Path
) -> None:
    write(file, "254712345001,1500", "254712345002,1500", headings="msisdn,amount")
    assert (await pay(file, gateway)).exit_code == 0
    copy, next_ = tmp_path / "copy.csv", tmp_path / "next.csv"
    copy.write_text('"msisdn", amount\n254712345001,"1500.00"\n\n+254712345002,1500\n')
    copied = await pay(copy, gateway)
    assert copied.exit_code == 0
    assert "2 of 2 lines were paid on " in copied.output
    assert "2 of them were there before this journal began" in copied.output
    assert references(copy) == references(file)
    told = {each["message"] for each in results(copy)}
    assert told == {"The payment was there before this journal began."}

    write(next_, "254712345001,1500", "254712345002,1500", headings="msisdn,amount")
    december = ("--name", "2026-12")
    refused = await pay(next_, gateway, *december)
    assert (refused.exit_code, "lately got the same amount" in refused.output) == (2, True)
    assert (await pay(next_, gateway, *december, "--allow-repeats")).exit_code == 0
    assert not {*references(next_)} & {*references(file)}


@pytest.mark.spec("C12")
@pytest.mark.parametrize(
    "other", ["254712345001,1600,a", "254712345009,1500,a"], ids=["amount", "payee"]
)
async def test_another_payment_under_a_used_reference_is_named_and_never_called_failed(
    gateway: Running, file: Path, tmp_path: Path, other: str
) -> None:
    write(file, "254712345001,1500,a")
    assert (await pay(file, gateway)).exit_code == 0
    write(tmp_path / "other.csv", other, "254712345003,20,b")
    refused = await pay(tmp_path / "other.csv", gateway)
    assert refused.exit_code == 2
    assert "Line 2 is not as in salaries.csv.journal, which has paid another" in refused.output
    done = await pay(tmp_path / "other.csv", gateway, "--allow-repeats")
    assert done.exit_code == 3
    assert "look at each before you pay anybody again" in done.output
    assert statuses(tmp_path / "other.csv") == [("pending", "reference_mismatch"), ("success", "")]


@pytest.mark.spec("C12")
async def test_a_copy_by_another_method_calls_no_paid_line_failed(
    gateway: Running, file: Path, tmp_path: Path
) -> None:
    write(file, "254712345001,1500", headings="msisdn,amount")
    assert (await pay(file, gateway)).exit_code == 0
    write(tmp_path / "copy.csv", "254712345001,1500", headings="msisdn,amount")
    done = await pay(tmp_path / "copy.csv", gateway, "--method", "mtn_ke")
    assert done.exit_code == 3
    assert "file of their own" not in done.output
    (paid,), (row,) = results(file), results(tmp_path / "copy.csv")
    assert (row["status"], row["gatewayReference"]) == ("pending", paid["gatewayReference"])
    assert "which is success and has another method" in row["message"]


async def test_a_file_that_has_changed_is_refused_with_what_has_changed(
    gateway: Running, file: Path
) -> None:
    write(file, "254712345001,20,a", "254712345002,20,b", "254712345003,20,c")
    assert (await pay(file, gateway)).exit_code == 0
    write(file, "254712345001,20,a", "254712345003,30,c", "254712345004,20,d", "254712345005,20,e")
    done = await pay(file, gateway)
    assert done.exit_code == 2
    assert "What is in lines 3 to 5 is not as it was." in done.output
    write(file, "254712345001,20,a", "254712345003,20,c", "254712345004,20,d")
    done = await pay(file, gateway)
    assert "Line 3 is gone. Line 4 is new." in done.output
    write(file, "254712345001,20,a", "254712345002,20,b", "254712345003,20,c")
    assert "it was begun for the gateway" in (await pay(file, "https://other.example")).output


@pytest.mark.spec("P4")
async def test_a_pay_roll_keeps_to_the_limits_of_its_brand(gateway: Running, file: Path) -> None:
    write(file, *(f"2547123{number:02d}001,20,r-{number}" for number in range(24)))
    done = await pay(file, gateway)
    assert done.exit_code == 0, done.output
    assert len(results(file)) == 24


async def test_a_dry_run_finds_what_a_method_of_the_gateway_would_refuse(
    gateway: Running, file: Path
) -> None:
    write(
        file,
        "254712345001,9.99,a,mpesa_ke,KES,KE",
        "254712345002,150000.01,b,mpesa_ke,KES,KE",
        "254712345003,20,c,mpesa_ke,KES,KE",
        "254712345004,20,d,mtn_ke,KES,KE",
        "254712345005,20,e,mpesa_ke,USD,KE",
        "255712345006,20,f,mpesa_ke,KES,TZ",
        headings=f"{HEADINGS},method,currency,country",
    )
    settings = file.parent / "settings.toml"
    settings.write_text("\n".join(SETTINGS.splitlines()[4:]))
    done = await pay(file, gateway, "--dry-run")
    assert done.exit_code == 2, done.output
    told = [each for each in done.output.splitlines() if each.startswith("line ")]
    assert [each.partition(". ")[0] for each in told] == [
        "line 2, amount: is below the minimum of mpesa_ke, KES 10.00",
        "line 3, amount: is above the maximum of mpesa_ke, KES 150,000.00",
        "line 5, method: is none by which your brand pays",
        "line 6, currency: is none in which mpesa_ke pays",
        "line 7, country: is not that of mpesa_ke, which pays in KE",
    ]
    assert not journal_of(file).exists()


@pytest.mark.spec("A1")
async def test_a_dry_run_with_a_key_that_the_gateway_refuses_is_no_good_end(
    gateway: Running, file: Path
) -> None:
    write(file, "254712345001,20,a")
    done = await pay(file, gateway, "--dry-run", "--key", "of-another")
    assert done.exit_code == 2, done.output
    assert "The gateway refuses to answer: 401 unauthorized" in done.output
    assert "Check --gateway and the API key. Nothing was sent." in done.output
    assert not journal_of(file).exists()


@pytest.mark.spec("R1", "C12")
@pytest.mark.parametrize("moved", ["name", "amount"])
async def test_what_another_machine_has_paid_is_told_by_the_records(
    gateway: Running, file: Path, tmp_path: Path, moved: str
) -> None:
    write(file, "254712345001,1500,17", headings="msisdn,amount,key")
    assert (await pay(file, gateway)).exit_code == 0
    copy = elsewhere(file, SETTINGS)
    write(copy, "254712345001,1500,17", headings="msisdn,amount,key")
    told = await pay(copy, gateway, "--dry-run")
    assert told.exit_code == 0
    assert "1 of 1 lines were paid on " in told.output
    assert "by the gateway's records" in told.output

    # A line of another key: the same pay-roll under other references, or the same money again.
    if moved == "name":
        write(copy, "254712345002,900,A-17", headings="msisdn,amount,key")
        options, reason = list[str](), "the same --name is in the gateway's records"
    else:
        write(copy, "254712345001,1500,A-17", headings="msisdn,amount,key")
        options, reason = ["--name", "2026-11b"], "lately got the same amount"
    for further in ((), ("--dry-run",)):
        refused = await pay(copy, gateway, *options, *further)
        assert (refused.exit_code, reason in refused.output) == (2, True), refused.output
    assert (await pay(copy, gateway, *options, "--allow-repeats")).exit_code == 0
    assert references(copy) != references(file)


@pytest.mark.spec("C12")
async def test_a_pay_roll_that_was_paid_in_part_elsewhere_goes_on(
    gateway: Running, file: Path, tmp_path: Path
) -> None:
    """The records have some of its lines, such as while a copy of it is being paid."""
    write(file, "254712345001,1500", headings="msisdn,amount")
    assert (await pay(file, gateway)).exit_code == 0
    whole = elsewhere(file, SETTINGS)
    write(whole, "254712345001,1500", "254712345002,900", headings="msisdn,amount")
    done = await pay(whole, gateway)
    assert done.exit_code == 0, done.output
    assert "1 of 2 lines were paid on " in done.output
    assert references(whole)[:1] == references(file)


@pytest.mark.spec("A1")
async def test_a_wrong_key_ends_the_run_and_no_line(gateway: Running, file: Path) -> None:
    write(file, "254712345001,20,a")
    done = await pay(file, gateway, "--key", "wrong")
    assert (done.exit_code, "401" in done.output) == (3, True)
    assert sums(done.output)[1:] == ["not sent: 1 pay-outs; KES 20.00"]
    assert (await pay(file, gateway)).exit_code == 0


async def test_a_gateway_that_is_away_is_tried_until_patience_is_over(file: Path) -> None:
    write(file, "254712345001,20,a")
    done = await pay(file, "http://127.0.0.1:9", "--patience-s", "0.1")
    assert done.exit_code == 3
    assert not journal_of(file).exists(), "the next run asks as this one"
    assert "not sent: 1 pay-outs; KES 20.00" in done.output
    assert "There was no answer" in done.output


async def test_a_dry_run_names_the_totals_and_every_fault_and_writes_nothing(file: Path) -> None:
    write(file, "254712345001,0.10,a", "254712345002,0.20,b")
    done = await pay(file, "https://acme.example", "--dry-run", "--key", "")
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "in the file: 2 pay-outs; KES 0.30",
        "The gateway was not asked. Give --gateway, and the API key in the variable API_KEY.",
        "No fault was found in the file. Nothing was sent.",
    ]
    write(file, "0712345678,20,a", "254712345002,2O,b")
    done = await pay(file, "https://acme.example")
    assert done.exit_code == 2
    assert "line 2, msisdn: must be digits" in done.output
    assert "line 3, amount: is no plain number. Write digits, with a point" in done.output
    assert sorted(each.name for each in file.parent.iterdir()) == ["salaries.csv", "settings.toml"]


async def test_a_journal_is_used_by_one_program_and_never_begun_anew(
    gateway: Running, file: Path
) -> None:
    write(file, "254712345001,20,a")
    journal = journal_of(file)
    with journal.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = await pay(file, gateway)
        assert (done.exit_code, "another program" in done.output) == (2, True)
    journal.write_text('{"gateway":"http')  # Power failed while it began, before anything was sent.
    assert (await pay(file, gateway)).exit_code == 0
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-9])  # A line that was written in part: its payment is looked up.
    assert (await pay(file, gateway)).exit_code == 0
    journal.write_bytes(whole.replace(b'"sent"', b'"lost"'))
    done = await pay(file, gateway)
    assert (done.exit_code, "is damaged" in done.output) == (2, True)


def program(file: Path, url: str) -> list[str]:
    """The command for a process of its own."""
    settings = str(file.parent / "settings.toml")
    options = f"--settings {settings} --gateway {url} --per-second 100"
    return [*COMMAND, "pay-outs", str(file), *options.split()]


ENVIRONMENT = environment_without_settings() | {"API_KEY": KEY}


@pytest.mark.spec("C12")
async def test_nothing_is_sent_that_a_full_disk_does_not_take(gateway: Running, file: Path) -> None:
    write(file, *(f"2547123{number:02d}001,20,r-{number}" for number in range(20)))
    limited = ["bash", "-c", 'ulimit -f 2; exec "$0" "$@"', *program(file, gateway.merchant.api)]
    # The limit would cut compiled modules as well, which every later program then fails to load.
    environment = ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = await trio.run_process(
        limited, env=environment, capture_stdout=True, capture_stderr=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith(b"Error: Not every line has ended"), done.stderr
    assert b"can't be written" in done.stderr
    assert (await pay(file, gateway)).exit_code == 0
    assert [each["status"] for each in results(file)] == ["success"] * 20
    assert not any(each["message"] for each in results(file)), "nothing was there before"


def heed_interrupts() -> None:
    """Undo what a shell does to a program that it starts in the background, which the tests may
    be."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


NO_RECORDS = b'{"data":[],"pages":{"next":null,"previous":null}}'


@pytest.mark.parametrize("tells_records", [True, False])
async def test_an_interrupted_run_says_what_became_of_its_lines(
    file: Path, tells_records: bool
) -> None:
    write(file, "254712345001,20,a")
    asked = trio.Event()

    async def stay_silent(stream: trio.SocketStream) -> None:
        request = await stream.receive_some()
        if tells_records and b"/records?" in request:
            head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            await stream.send_all(head % len(NO_RECORDS) + NO_RECORDS)
            await stream.aclose()
            return
        asked.set()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, stay_silent, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        process = await trio.lowlevel.open_process(
            program(file, url), env=ENVIRONMENT, stderr=subprocess.PIPE, preexec_fn=heed_interrupts
        )
        with trio.fail_after(HANGS_AFTER_S):
            await asked.wait()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 3
        assert process.stderr is not None
        assert b"It was interrupted." in await process.stderr.receive_some()
        nursery.cancel_scope.cancel()
    assert journal_of(file).exists() is tells_records


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ("curency = 1", "curency"),
        ("=", "Invalid"),
        ("columns = 3", "settings.toml"),
        ('key = "secret"', "key"),
    ],
)
async def test_settings_that_are_not_understood_are_refused(
    file: Path, settings: str, fault: str
) -> None:
    write(file, "254712345001,20,a")
    (file.parent / "settings.toml").write_text(settings)
    done = await pay(file, "https://acme.example", "--dry-run")
    assert (done.exit_code, fault in done.output) == (2, True)


async def test_columns_are_named_by_the_settings_and_by_options(file: Path) -> None:
    write(file, "254712345001;20;a", headings="Phone;Net pay;Slip")
    columns = '[columns]\nmsisdn = "Phone"\namount = "Net pay"\nmerchantReference = "Slip"\n'
    (file.parent / "settings.toml").write_text(f'{SETTINGS}delimiter = ";"\n{columns}')
    assert (await pay(file, "https://acme.example", "--dry-run")).exit_code == 0
    for wrong in ("--map=nothing=Phone", "--result-url=http://a.example"):
        assert (await pay(file, "https://acme.example", "--dry-run", wrong)).exit_code == 2


@pytest.fixture
async def roomy(tmp_path: Path) -> AsyncIterator[Running]:
    """A gateway whose limits hold no pay-roll up."""
    (tmp_path / "gateway").mkdir()
    async with serving(tmp_path / "gateway", brands=ROOMY_BRANDS, api_key=KEY) as running:
        yield running


@pytest.fixture
async def paid(roomy: Running, file: Path) -> Path:
    """A pay-roll of which some lines have failed."""
    (file.parent / "settings.toml").write_text(WALK)
    put(file, salaries())
    assert (await pay(file, roomy)).exit_code == 1
    return file


@pytest.mark.spec("C12")
async def test_what_has_failed_is_mended_in_a_file_of_its_own_and_paid(
    roomy: Running, paid: Path
) -> None:
    failed = paid.with_name("salaries.csv.failed.csv")
    assert failed.stat().st_mode & 0o777 == 0o600
    text = failed.read_text("utf-8-sig")
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["Staff"] for row in rows] == [row[0] for row in salaries()[PAID:]]
    assert {row["errorCode"] for row in rows} == {"user_account_blocked"}
    again = await pay(failed, roomy, "--dry-run")
    assert again.exit_code == 0, again.output
    failed.write_text(text.replace("107,", "001,"), "utf-8")
    assert (await pay(paid, roomy)).exit_code == 1
    assert "001," in failed.read_text("utf-8"), "what was mended is not written over"
    done = await pay(failed, roomy)
    assert done.exit_code == 0, done.output
    assert "salaries.csv.failed.csv.results.csv says what" in (await pay(paid, roomy)).output
    counts = await payments_of(roomy)
    assert (len(counts), max(counts.values())) == (PAID + BLOCKED, 1)
    told = await pay(paid, roomy, "--dry-run")
    assert f"{PAID} of 30 lines were paid on " in told.output
    whole = paid.with_name("whole.csv")
    put(whole, corrected())
    refused = await pay(whole, roomy)
    assert refused.exit_code == 2, "the mended lines were paid by the file of failed ones"
    assert await payments_of(roomy) == counts


@pytest.mark.spec("C12")
@pytest.mark.parametrize(
    ("name", "rows", "options", "code"),
    [
        ("corrected.csv", corrected(), (), 2),
        ("corrected.csv", corrected(), ("--allow-repeats",), 3),
        ("salaries.csv", corrected(), (), 2),
        ("renamed.csv", corrected(), ("--name", "2026-11b"), 2),
        ("shorter.csv", corrected()[PAID:], (), 2),
        ("shorter.csv", corrected()[PAID:], ("--allow-repeats",), 3),
        ("shorter.csv", corrected()[PAID:], ("--name", "2026-11b"), 0),
        ("sorted.csv", sorted(salaries(), key=lambda row: row[2], reverse=True), (), 1),
        ("salaries.csv", sorted(salaries(), key=lambda row: row[2], reverse=True), (), 1),
        ("same.csv", salaries(), (), 1),
    ],
    ids=[
        *("another file", "another file, allowed", "in place", "another name"),
        *("lines removed", "lines removed, allowed", "lines removed, another name"),
        *("sorted", "sorted in place", "a copy"),
    ],
)
async def test_however_an_accountant_goes_on_nobody_is_paid_twice(
    roomy: Running,
    paid: Path,
    name: str,
    rows: list[list[str]],
    options: tuple[str, ...],
    code: int,
) -> None:
    before = await payments_of(roomy)
    assert (len(before), max(before.values())) == (PAID, 1)
    file = paid.with_name(name)
    put(file, rows)
    done = await pay(file, roomy, *options)
    assert done.exit_code == code, done.output
    after = await payments_of(roomy)
    assert max(after.values()) == 1
    assert len(after) == (PAID + BLOCKED if code == 0 else PAID)
    if name == "corrected.csv":
        assert f"{PAID} of 30 lines were paid on " in done.output
        assert "where it has failed: mend and pay salaries.csv.failed.csv" in done.output


@pytest.mark.spec("C12")
async def test_a_second_try_waits_for_the_end_of_the_first(roomy: Running, paid: Path) -> None:
    failed = paid.with_name("salaries.csv.failed.csv")
    journal = paid.with_name("salaries.csv.journal")
    journal.write_bytes(journal.read_bytes().replace(b'"phase":"failed"', b'"phase":"accepted"'))
    refused = await pay(failed, roomy, "--allow-repeats")
    assert refused.exit_code == 2
    assert "by salaries.csv.journal the first try may have been paid" in refused.output


@pytest.mark.spec("E1", "C12")
async def test_a_failure_that_proves_nothing_is_not_among_those_to_pay_again(
    roomy: Running, file: Path
) -> None:
    (file.parent / "settings.toml").write_text(WALK)
    ends = ("105", "107", "115", "001")
    put(file, [[f"S{nth}", f"254712345{end}", f"{nth}0"] for nth, end in enumerate(ends, 2)])
    done = await pay(file, roomy)
    assert [each for each, _ in statuses(file)] == ["failed", "failed", "failed", "success"]
    with file.with_name("salaries.csv.failed.csv").open(encoding="utf-8-sig") as rows:
        assert [row["Staff"] for row in csv.DictReader(rows)] == ["S3"]
    assert done.exit_code == 3, done.output
    assert "Lines 2, 4 failed by a code that does not prove that nobody was paid" in done.output

    # Whoever pays such a line again has to say so, by whatever file or reference.
    again, first = file.with_name("again.csv"), results(file)[0]["merchantReference"]
    write(again, f"S1,254712345105,20,{first}-try2", headings=f"{STAFF},merchantReference")
    refused = await pay(again, roomy)
    assert refused.exit_code == 2
    assert "by salaries.csv.journal the first try has failed, which does not" in refused.output
    another = file.with_name("another.csv")
    put(another, [["S9", "254712345105", "20"]])
    refused = await pay(another, roomy, "--name", "2026-11b")
    assert "lately got the same amount, or may have, by salaries.csv.journal" in refused.output
    copy = elsewhere(file, WALK)
    put(copy, [["S9", "254712345105", "20"]])
    refused = await pay(copy, roomy, "--name", "2026-11b")
    assert "lately got the same amount, or may have, by the gateway's records" in refused.output
    assert (await pay(again, roomy, "--allow-repeats")).exit_code == 3, "it was sent, on purpose"


TWO_BRANDS = ROOMY_BRANDS + ROOMY_BRANDS.replace("acme", "globex").replace(KEY, f"second-{KEY}")


@pytest.mark.spec("C12", "A1")
async def test_what_a_journal_has_paid_is_paid_by_no_other_brand(file: Path) -> None:
    """To another brand the gateway knows none of these references, and takes them all."""
    copy = file.with_name("copy.csv")
    (file.parent / "gateway").mkdir()
    async with serving(file.parent / "gateway", brands=TWO_BRANDS, api_key=KEY) as running:
        for path in (file, copy):
            write(path, "254712345001,1500,a", "254712345002,900,b")
        done = await pay(file, running)
        assert done.exit_code == 0, done.output
        for further in ((), ("--dry-run",)):
            refused = await pay(copy, running, "--key", f"second-{KEY}", *further)
            assert refused.exit_code == 2, refused.output
            assert "Lines 2, 3 are paid by salaries.csv.journal, or may be, and" in refused.output
        assert (await pay(copy, running)).exit_code == 0, "the brand itself looks them up"


@pytest.mark.spec("C12", "A1")
async def test_no_run_goes_on_by_the_key_of_another_brand(file: Path) -> None:
    """The program died as a line was sent, which that brand has paid."""
    journal = file.with_name("salaries.csv.journal")
    write(file, "254712345001,1500,a", "254712345002,900,b")
    (file.parent / "gateway").mkdir()
    async with serving(file.parent / "gateway", brands=TWO_BRANDS, api_key=KEY) as running:
        assert (await pay(file, running)).exit_code == 0
        begun, *entries = journal.read_text().splitlines()
        ended = [entry for entry in entries if '"reference":"a"' in entry]
        journal.write_text("\n".join([begun, *ended, '{"reference":"b","phase":"sent"}', ""]))

        other = ("--key", f"second-{KEY}")
        refused = await pay(file, running, *other)
        assert refused.exit_code == 3, refused.output
        assert "the API key may be another brand's" in refused.output
        assert "pending: 1 pay-outs; KES 900.00" in refused.output
        meant = await pay(file, running, *other, "--allow-repeats")
        assert "success: 2 pay-outs" in meant.output, "a person has said so"


@pytest.mark.spec("C12")
async def test_a_second_try_is_refused_where_the_first_reference_was_used_again(
    file: Path,
) -> None:
    """The journal has the first payment under the reference, which has failed, and the records have
    the second one."""
    reusable = ROOMY_BRANDS.replace(
        "limits = {", 'reference_reuse = { payout = "unless_paid" }\nlimits = {', 1
    )
    failed = file.with_name("salaries.csv.failed.csv")
    (file.parent / "gateway").mkdir()
    async with serving(file.parent / "gateway", brands=reusable, api_key=KEY) as running:
        write(file, "254712345107,1500,a")
        assert (await pay(file, running)).exit_code == 1
        await running.advance("16m")
        shop = AsyncMerchantClient(running.merchant.api, KEY)
        again = PayOut(
            method="mpesa_ke",
            amount=Money(150_000, "KES"),
            country="KE",
            result_url="https://localhost:9/results",
            merchant_reference="a",
            payee=Party("1", "254712345001"),
        )
        await shop.create(again)
        failed.write_text(failed.read_text("utf-8-sig").replace("107,", "001,"))
        refused = await pay(failed, running)
        assert refused.exit_code == 2, refused.output
        assert "by the gateway's records the first try may have been paid" in refused.output


@pytest.mark.spec("C12")
async def test_failed_lines_of_another_pay_roll_are_not_called_those_of_this_one(
    roomy: Running, file: Path
) -> None:
    """A file of the same name each month, of which only the journal was put away."""
    failed = file.with_name("salaries.csv.failed.csv")
    write(file, "254712345107,1500,october-a")
    assert (await pay(file, roomy)).exit_code == 1
    assert "october-a-try2" in failed.read_text()
    file.with_name("salaries.csv.journal").rename(file.with_name("october"))
    write(file, "254712346107,910,november-b")
    done = await pay(file, roomy)
    assert done.exit_code == 1, done.output
    assert "salaries.csv.failed.csv is about other lines" in done.output
    assert "Mend them in" not in done.output
    assert "october-a-try2" in failed.read_text(), "what people may have mended is not written over"
    failed.rename(file.with_name("october-failed"))
    assert "Mend them in" in (await pay(file, roomy)).output
    assert "november-b-try2" in failed.read_text()


async def test_results_have_the_columns_of_the_file_as_well(roomy: Running, file: Path) -> None:
    (file.parent / "settings.toml").write_text(WALK)
    write(file, "S1,254712345001,20,=x", headings=f"{STAFF},Status")
    assert (await pay(file, roomy)).exit_code == 0
    (row,) = results(file)
    assert (row["Staff"], row["Net pay"], row["status"]) == ("S1", "20", "success")
    assert row["file Status"] == "'=x"
    assert not file.with_name("salaries.csv.failed.csv").exists()


async def test_a_sheet_is_paid_as_a_csv_file_is(roomy: Running, file: Path) -> None:
    (file.parent / "settings.toml").write_text(WALK)
    sheet = file.with_name("salaries.xlsx")
    rows = [["S1", 254712345001, 20], ["S2", "254712345107", 30]]
    write_xlsx(sheet, [["Staff", "Phone", "Net pay"], *rows])
    assert (await pay(sheet, roomy)).exit_code == 1
    assert [row["amount"] for row in results(sheet)] == ["20.00", "30.00"]
    failed = sheet.with_name("salaries.xlsx.failed.csv").read_text("utf-8-sig")
    assert "S2,254712345107,30,payroll-" in failed


async def test_without_a_name_a_pay_roll_is_checked_and_not_paid(
    roomy: Running, file: Path
) -> None:
    write(file, "254712345001,20", headings="msisdn,amount")
    checked = await pay(file, roomy, "--dry-run", "--name", "")
    assert (checked.exit_code, "give the pay-roll a --name" in checked.output) == (0, True)
    refused = await pay(file, roomy, "--name", "")
    assert (refused.exit_code, "give the pay-roll a --name" in refused.output) == (2, True)
    assert not journal_of(file).exists()
