"""Recordings of operators that say back whatever they hear, made by a gateway that serves: none
names a secret, a token, a number or a person, in any encoding, nor what opens a payer's page or
stands for a payer's code."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import RequestReversal
from mmo_sansio.values.clock import MINUTE, Span, later
from mmo_sansio.values.reversals import ReversalState
from mmo_simulators.operators.registry import ACCOUNT_OPTIONS
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.engine.engine import submit_once
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.providers.account_notes import seal_recording_key
from tests.support import airtel_account as airtel_stage
from tests.support.echoing_simulator import EchoingSimulator
from tests.support.merchant import TIMEOUT_S, ask
from tests.support.operator_gateway import (
    FORM,
    PAGES_URL,
    Market,
    OperatorGateway,
    run_operator_gateway,
)
from tests.support.operator_kinds import OPERATORS
from tests.support.private_texts import decoded_forms
from tests.support.simulated_accounts import account_options, mpesa_options

CODE = "123456"
"""What payers type who were asked for a code."""
LINK = re.compile(r'href="(http://127\.0\.0\.1:[0-9]+/(?:c|approve)/[^"]+)"')
PEOPLE = ("Wanjiku Kamau", "wanjiku@example.com")
OPTIONS = {
    "airtel": airtel_stage.options(""),
    "mtn": account_options("mtn", market="mtnuganda"),
    "pawapay": account_options("pawapay"),
    "pawapay, page": account_options(
        "pawapay", market="WAVE_SEN", auth_type="REDIRECT_AUTH", payer_hosts="127.0.0.1"
    ),
    "pawapay, code": account_options("pawapay", market="ORANGE_BFA", auth_type="PREAUTH"),
    "wave": account_options("wave"),
}
SECRETS = (
    *("api_key", "api_token", "client_secret", "pin", "webhook_secret"),
    *("consumer_key", "consumer_secret", "initiator_password", "passkey"),
    *(
        f"{product}_{key}"
        for product in ("collection", "disbursement")
        for key in ("api_key", "subscription_key")
    ),
)
"""The options that are secret, of all kinds."""
PORTALS = {
    "airtel": ("collection", "callback_url"),
    "pawapay": ("merchant", "callback_url"),
    "wave": ("merchant", "webhook_url"),
}
"""Where an operator is told our address in its portal, and not in each request: the account, and
how it calls the address."""


def options_of(name: str, simulator: Any) -> dict[str, str]:
    options = OPTIONS[name] if name in OPTIONS else mpesa_options(simulator.certificate)
    return {key: str(value) for key, value in options.items() if key not in ("kind", "base_url")}


async def recorded_lines(store: Store) -> list[str]:
    notes = await store.admin.provider_notes(NoteTopic.RECORDED)
    return [line for note in notes for line in note.content.splitlines()]


async def lines_until(store: Store, reference: str) -> list[str]:
    """Return what is recorded once this payment is in it."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            lines = await recorded_lines(store)
            if any(reference in line for line in lines):
                return lines
            await trio.sleep(0.1)


async def ended(operated: OperatorGateway, reference: str) -> Mapping[str, Any]:
    """Return a payment once it has ended, while time passes."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            found = await operated.running.merchant.status(reference)
            if found["status"] != "pending":
                return found
            await operated.advance(20)
            await trio.sleep(0.05)


async def paid(operated: OperatorGateway, *, confirms_elsewhere: bool) -> tuple[str, list[str]]:
    """Have a payer pay: the payment, and what of its page nobody may learn."""
    if not confirms_elsewhere:
        return await operated.pay(), []
    market = operated.market
    accepted = await operated.running.merchant.accepted(
        "web/payin",
        msisdn=market.msisdn,
        country=market.country,
        amount={"value": 150, "currency": market.currency},
    )
    url = accepted["pageUrl"].replace(PAGES_URL, operated.running.ready.pages)
    await ask(url, method="POST", headers=FORM, body=b"")
    private = [url.rpartition("/")[2]]
    with trio.fail_after(TIMEOUT_S):
        while True:
            page = html.unescape((await ask(url)).body.decode())
            if 'name="code"' in page:
                await ask(url, method="POST", headers=FORM, body=f"code={CODE}".encode())
                return accepted["gatewayReference"], [*private, CODE]
            if (link := LINK.search(page)) is not None:
                said = await ask(link[1], method="POST", headers=FORM, body=b"decision=approve")
                back = said.headers["location"].removesuffix("/back")
                return accepted["gatewayReference"], [*private, back.rpartition(".")[2]]
            await operated.advance(3)


async def money_back(operated: OperatorGateway, store: Store, reference: str) -> None:
    """Return once all of a payment has gone back."""
    asked = RequestReversal(reference, "acme", None, "Paid twice.", "amina", needs_approval=False)
    assert isinstance(await submit_once(store, asked, GatewayClock()), ReversalApplied)
    with trio.fail_after(TIMEOUT_S):
        while True:
            (reversal,) = await store.reversals(reference)
            if reversal.state is ReversalState.SUCCEEDED:
                return
            await operated.advance(20)
            await trio.sleep(0.05)


async def begin_recording(operated: OperatorGateway, store: Store, operation: str) -> None:
    """Have the gateway record, as `mmo providers record` does, and wait until it does."""
    keyring = KeyRing(*load_master_keys(operated.running.directory / "master.key"))
    sealed = seal_recording_key(keyring, "operator", bytes(16))
    until = later(GatewayClock().wall_time(), Span(50 * MINUTE))
    await store.admin.note_provider(
        ProviderNote("operator", NoteTopic.RECORDING, "", until, sealed)
    )
    with trio.fail_after(TIMEOUT_S):
        while not await recorded_lines(store):
            await ended(operated, await operated.pay(operation))
            await trio.sleep(0.3)


@pytest.mark.spec("A5")
@pytest.mark.parametrize("name", OPERATORS)
async def test_no_recording_of_an_operator_that_says_everything_back_names_anything_private(
    tmp_path: Path, provider_packages: object, name: str
) -> None:
    operator, simulated = OPERATORS[name], name.partition(",")[0]
    is_elsewhere = operator.confirms_elsewhere
    simulator = operator.open()[1]
    options = options_of(name, simulator)
    msisdn = operator.msisdn.removeprefix("+")
    echoing = EchoingSimulator(simulator, (*PEOPLE, msisdn, f"+{msisdn}", f"0{msisdn[3:]}"))
    async with (
        run_operator_gateway(
            tmp_path,
            kind=ACCOUNT_OPTIONS[simulated]["kind"],
            simulator=echoing,
            market=Market(operator.country, operator.currency, msisdn),
            options=options,
            confirms_elsewhere=is_elsewhere,
        ) as operated,
        operated.running.storage.open_for_admin() as store,
    ):
        if simulated in PORTALS:
            account, address = PORTALS[simulated]
            simulator.open_accounts([{"account": account, address: operated.hook_url()}])
        await begin_recording(operated, store, "direct/payout" if is_elsewhere else "direct/payin")
        reference, of_page = await paid(operated, confirms_elsewhere=is_elsewhere)
        assert (await ended(operated, reference))["status"] == "success"
        await money_back(operated, store, reference)
        paid_out = await operated.pay("direct/payout")
        assert (await ended(operated, paid_out))["status"] == "success"
        lines = await lines_until(store, paid_out)
        hook_token = operated.hook_url().rpartition("/")[2]

    senders = {json.loads(line)["from"] for line in lines}
    assert senders == {"gateway", "operator"}
    submitted = {json.loads(line)["target"].rpartition("/")[2] for line in lines}
    assert any(each in submitted for each in ("refund", "refunds", "request")), submitted
    secrets = [value for key, value in options.items() if key in SECRETS]
    private = [*secrets, *echoing.tokens, *PEOPLE, *of_page, msisdn[3:], hook_token]
    for line in lines:
        for shown in decoded_forms(line):
            for text in private:
                assert not is_named(text, shown), (text, line)


def is_named(text: str, shown: str) -> bool:
    """Whether a text is found, also with blanks or hyphens in it; a short one as a word only."""
    if len(text) < 8:
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", shown) is not None
    return text in shown or re.sub("[ -]", "", text) in re.sub("[ -]", "", shown)
