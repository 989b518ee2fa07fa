"""A dry run says beside each name of the file whose account the operator has behind the number, and
never sends anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mmo_merchant import ApiRejection, AsyncMerchantClient
from mmo_merchant.api.extension_objects import PayeeObject
from mmo_merchant.payroll import command
from mmo_merchant.payroll.name_match import names_agree
from mmo_merchant.payroll.payee_names import NOT_OFFERED, describe
from mmo_merchant.payroll.payment_run import PacedClient
from mmo_trio.settings.providers import provider_variable
from tests.support.airtel_account import PAYER, a_simulator, options
from tests.support.operator_gateway import RunningSimulator, run_simulator
from tests.support.pay_rolls import KEY, pay, payments_of, write
from tests.support.provider_double import SILENT
from tests.support.sandbox_gateway import Running, serving

BRANDS = f"""
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{KEY}"]

[[brand.method]]
key = "airtel"
provider = "airtel"
country = "UG"
flows = ["direct/payout"]
limits.UGX = {{ min = "10", max = "150000" }}

[[brand.method]]
key = "silent"
provider = "silent"
country = "KE"
flows = ["direct/payout"]
limits.KES = {{ min = "10", max = "150000" }}
"""
HEADINGS = "msisdn,amount,currency,country,method,merchantReference,firstName,lastName"
SETTINGS = 'result_url = "https://localhost:9/results"\nname = "2026-11"\n'
NUMBER = f"256{PAYER}"
OTHER = "256752000001"
FIVE = [f"25675200000{n},20,UGX,UG,airtel,r-{n},Jane,Doe" for n in range(5)]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait_briefly(pause_s: float) -> None:
        await anyio.sleep(min(pause_s, 0.05))

    monkeypatch.setattr(command, "PacedClient", partial(PacedClient, sleep=wait_briefly))


@pytest.fixture
async def airtel() -> AsyncIterator[RunningSimulator]:
    async with run_simulator(a_simulator()) as played:
        yield played


@asynccontextmanager
async def offering(
    folder: Path, airtel: RunningSimulator, per_minute: int | None = 6_000
) -> AsyncIterator[Running]:
    """A gateway with this operator, which may be asked so often whose account a number is."""
    account: dict[str, Any] = {"kind": "airtel_money", **options(airtel.origin)}
    settings = {provider_variable("airtel", key): str(value) for key, value in account.items()}
    settings[provider_variable("silent", "kind")] = "silent"
    if per_minute is not None:
        settings["MMO_GATEWAY_PAYEES_PER_MINUTE"] = str(per_minute)
    (folder / "gateway").mkdir()
    async with serving(
        folder / "gateway",
        environment=settings,
        brands=BRANDS,
        api_key=KEY,
        provider_kinds={"silent": SILENT},
    ) as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "settings.toml").write_text(SETTINGS)
    return tmp_path / "salaries.csv"


def told(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("line ")]


async def test_each_name_is_printed_beside_that_of_the_file_and_nothing_is_sent(
    airtel: RunningSimulator, file: Path
) -> None:
    hostile = {"first_name": "\x1b[2J<b>", "last_name": "x" * 999}
    other = {"account": OTHER.removeprefix("256"), "balance": "0", **hostile}
    airtel.simulator.open_accounts([other])
    write(
        file,
        f"{NUMBER},20,UGX,UG,airtel,a,Jane,DOE",
        f"{NUMBER},30,UGX,UG,airtel,b,John,Roe",
        "256752999999,40,UGX,UG,airtel,c,Mary,Moe",
        f"{OTHER},50,UGX,UG,airtel,d,,",
        "254712345001,60,KES,KE,silent,e,Ada,Odhiambo",
        "254712345002,70,KES,KE,silent,f,Ben,Odhiambo",
        headings=HEADINGS,
    )
    async with offering(file.parent, airtel) as running:
        done = await pay(file, running, "--dry-run", "--names")
        assert done.exit_code == 0, done.output
        lines = told(done.output)
        assert lines[:3] == [
            "line 2: Jane DOE in the file, Jane Doe at the operator.",
            "line 3: DIFFERENT: John Roe in the file, Jane Doe at the operator.",
            "line 4: DIFFERENT: Mary Moe in the file; the operator has no account behind the "
            "number.",
        ]
        assert lines[3].startswith("line 5: no name in the file, [2J<b> xxx")
        assert len(lines[3]) < 200
        assert len(lines) == 4
        [remark] = [line for line in done.output.splitlines() if line.startswith("silent: ")]
        assert "doesn't tell the gateway whose account is behind a number" in remark
        assert "4 lines asked about, 2 with a difference. Nothing was sent." in done.output
        assert "\x1b" not in "".join(lines)
        assert not await payments_of(running)
    assert not file.with_name("salaries.csv.journal").exists()
    assert airtel.simulator.snapshot()["payments"] == []


async def test_a_pay_roll_waits_where_it_asks_too_often(
    airtel: RunningSimulator, file: Path
) -> None:
    write(file, *FIVE, headings=HEADINGS)
    async with offering(file.parent, airtel, 600) as running:
        done = await pay(file, running, "--dry-run", "--names")
        assert done.exit_code == 0, done.output
        assert len(told(done.output)) == 5


async def test_a_gateway_that_does_not_offer_it_is_told_plainly(
    airtel: RunningSimulator, file: Path
) -> None:
    write(file, f"{NUMBER},20,UGX,UG,airtel,a,Jane,Doe", headings=HEADINGS)
    async with offering(file.parent, airtel, None) as running:
        done = await pay(file, running, "--dry-run", "--names")
        assert done.exit_code == 0, done.output
        assert NOT_OFFERED in done.output
        assert not told(done.output)


async def test_a_key_that_is_refused_is_told_once(airtel: RunningSimulator, file: Path) -> None:
    write(file, *FIVE, headings=HEADINGS)
    async with offering(file.parent, airtel) as running:
        done = await pay(file, running, "--dry-run", "--names", "--key", "of-another")
    assert done.exit_code == 2
    assert done.output.count("The gateway refuses to answer: 401 unauthorized") == 1
    assert not told(done.output)


async def test_a_gateway_that_is_away_is_not_asked_about_each_line(file: Path) -> None:
    write(file, *FIVE, headings=HEADINGS)
    done = await pay(file, "http://127.0.0.1:9", "--dry-run", "--names")
    assert [line.partition(".")[0] for line in told(done.output)] == [
        "line 2: no answer came",
        "line 3: no answer came",
    ]
    assert "The names could not be asked for. There was no answer" in done.output


async def test_names_are_asked_for_by_a_dry_run_only(file: Path) -> None:
    write(file, f"{NUMBER},20,UGX,UG,airtel,a,Jane,Doe", headings=HEADINGS)
    done = await pay(file, "http://localhost:9", "--names")
    assert done.exit_code == 2
    assert "--names: give it with --dry-run" in done.output


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("Jane Doe", "JANE DOE", True),
        ("Jane Doe", "DOE, JANE", True),
        ("J\u00e9r\u00f4me N'Guessan", "JEROME NGUESSAN", True),
        ("Jane Doe", "Jane Wanjiru Doe", True),
        ("Jane Doe", "J*** D*e", True),
        ("Jane Doe", "J** ***", True),
        ("\u0905\u0928\u0940\u0924\u093e", "\u0905\u0928\u0940\u0924\u093e", True),
        ("Jane Doe", "John Doe", False),
        ("Jane", "Jane Doe", False),
        ("Jane Jane", "Jane Doe", False),
        ("Jane Doe", "K*** D*e", False),
        ("Jane Doe", "", False),
        ("", "", False),
        ("...", "!!!", False),
    ],
)
def test_names_that_may_be_one_persons_agree(one: str, other: str, agree: bool) -> None:
    assert names_agree(one, other) is names_agree(other, one) is agree


def a_payee(outcome: str, **members: Any) -> PayeeObject:
    return PayeeObject(method="m", country="UG", msisdn=NUMBER, outcome=outcome, **members)


JANE = "Jane Doe in the file"
NO_WORD = f"{JANE}; the operator has told nothing. Ask again later."


@pytest.mark.parametrize(
    ("payee", "sentence"),
    [
        (
            a_payee("named", name="Jane Doe", is_barred=True),
            f"DIFFERENT: {JANE}, Jane Doe at the operator. The account is barred: the pay-out"
            " would fail.",
        ),
        (
            a_payee("compared", matches=True),
            f"{JANE}, which is the account's by the operator's word.",
        ),
        (
            a_payee("compared", matches=False),
            f"DIFFERENT: {JANE}, which is not the account's by the operator's word.",
        ),
        (a_payee("compared"), f"{JANE}; the operator can't compare it."),
        (
            a_payee("predicted", operator="MTN_RWA", is_served=True),
            f"{JANE}; the number is probably of MTN_RWA.",
        ),
        (
            a_payee("predicted", operator="AIRTEL_RWA", is_served=False),
            f"DIFFERENT: {JANE}; the number is probably of AIRTEL_RWA.",
        ),
        (a_payee("unanswered"), NO_WORD),
        (a_payee("something_new"), NO_WORD),
    ],
)
def test_each_outcome_has_its_sentence(payee: PayeeObject, sentence: str) -> None:
    assert describe(payee, "Jane Doe").sentence == sentence


async def test_a_payee_is_read_by_both_clients(airtel: RunningSimulator, tmp_path: Path) -> None:
    async with (
        offering(tmp_path, airtel) as running,
        AsyncMerchantClient(running.merchant.api, KEY) as client,
    ):
        payee = await client.payee("airtel", f"+{NUMBER}", name="J\u00e9 & Co")
        assert (payee.outcome, payee.name, payee.is_barred) == ("named", "Jane Doe", False)
        assert "Jane" not in repr(payee)
        assert NUMBER not in repr(payee)
        with pytest.raises(ApiRejection) as refused:
            await client.payee("silent", "254712345001")
        assert refused.value.problem.cause == "config_unsupported_payment_method"
