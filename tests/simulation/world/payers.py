"""Plays the payers of a simulated world: they press the button of the payment page, approve at the
page of their operator or with its code, scan codes, and pay by their operator's menu without being
asked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import unescape
from random import Random
from typing import Final
from urllib.parse import urlencode, urlsplit

import trio
from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.mpesa_daraja.requests import account_reference
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import Money
from mmo_simulators.server.callbacks import call_back
from tests.simulation.world.files import GATEWAY_HOST, PAGES_PORT, PAGES_URL
from tests.simulation.world.operator import WorldOperator
from tests.simulation.world.operator_kinds import operator_host
from tests.simulation.world.party import WorldParty
from tests.simulation.world.schedule import WorldSchedule
from tests.simulation.world.seeded_choices import SeededChoices
from tests.simulation.world.trace import SimulationTrace

COMES_WITHIN_S: Final = 600.0
"""How long a payer takes at most to come to a page, or to a code."""
PRESSES_SHARE: Final = 0.9
"""The share of payers who press the button of the payment page."""
LOOKS_EVERY_S: Final = 15.0
LOOKS_MAX: Final = 160
"""How often a payer looks at the page for what to do elsewhere: for 40 minutes."""
TRIES_MAX: Final = 8
"""How often a payer presses a button that does not work."""
TRIES_AGAIN_AFTER_S: Final = 20.0
APPROVES_SHARE: Final = 0.8
SCANS_SHARE: Final = 0.8
OTHER_AMOUNT_SHARE: Final = 0.25
"""The share of the payments by a menu that are of another amount."""
PAST_PROMPT_SHARE: Final = 0.2
"""The share of payers who also, or only, pay by the menu what a prompt asks them for."""
TO_NOBODY_SHARE: Final = 0.3
"""The share of the payments of somebody's own accord whose account number is no merchant's."""

_STANDING: Final = re.compile(r'data-standing="(\w+)"')
_OPERATORS_PAGE: Final = re.compile(r'<a class="button wide" href="([^"]+)"')
_PAGES: Final = f"http://{GATEWAY_HOST}:{PAGES_PORT}"
_CLIENT_OF_MPESA: Final = b"Basic Y29uc3VtZXIta2V5OmNvbnN1bWVyLXNlY3JldA=="
"""How M-Pesa's own client, by which payers use its menu, signs in."""


@define(eq=False)
class WorldPayers:
    """Acts for all payers; each draws from a generator of his own."""

    party: WorldParty
    operators: Mapping[str, WorldOperator]
    choices: SeededChoices
    trace: SimulationTrace
    schedule: WorldSchedule
    scanned: set[str] = Factory(set)
    """The payments whose codes somebody has seen."""
    _nursery: trio.Nursery = field(init=False)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Act until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def asked_for(self, provider: str, reference: str, amount: Money, page_url: str | None) -> None:
        """Let a payer act on a pay-in of the gateway's: at its page, or past its prompt."""
        operator = self.operators[provider]
        random = self.choices.of(f"payer of {reference}")
        if page_url is not None:
            self._nursery.start_soon(self._visit, page_url, operator, random)
        if operator.kind.takes_deposits and random.random() < PAST_PROMPT_SHARE:
            self.trace.add("paid_past_the_prompt", reference)
            self._nursery.start_soon(
                self._pay_later, operator, account_reference(reference), amount, random
            )

    def show(self, provider: str, reference: str, amount: Money) -> None:
        """Show a code to its payer, however often the merchant gets it."""
        random = self.choices.of(f"payer of {reference}")
        if reference in self.scanned:
            return
        self.scanned.add(reference)
        if random.random() < SCANS_SHARE:
            operator = self.operators[provider]
            self._nursery.start_soon(
                self._pay_later, operator, account_reference(reference), amount, random
            )

    def pay_unasked(self, operator: WorldOperator, random: Random) -> None:
        """Let somebody pay of his own accord."""
        account = "NOBODY" if random.random() < TO_NOBODY_SHARE else "SHOP"
        method = operator.kind.method
        amount = Money(random.randrange(*method.amounts) * 100, method.currency)
        self._nursery.start_soon(self._pay_later, operator, account, amount, random)

    async def _visit(self, page_url: str, operator: WorldOperator, random: Random) -> None:
        """Press the button of the payment page, and do elsewhere what it says then."""
        await self.schedule.sleep(random.uniform(0.0, COMES_WITHIN_S))
        if random.random() >= PRESSES_SHARE:
            return

        page = page_url.replace(PAGES_URL, _PAGES)
        if not await self._press(page, {}):
            return
        if Operation.DIRECT_PAYIN in operator.kind.method.operations:
            return

        for _ in range(LOOKS_MAX):
            await self.schedule.sleep(LOOKS_EVERY_S)
            shown = await self._ask(HttpRequest("GET", page.encode(), (), b""))
            found = None if shown is None else _STANDING.search(shown.body.decode())
            match found and found[1]:
                case "code":
                    for code in ("123456", "654321")[: random.choice((1, 2))]:
                        self.trace.add("code_given", operator.name)
                        await self._press(page, {"code": code})
                    return
                case "elsewhere" if shown is not None:
                    link = _OPERATORS_PAGE.search(shown.body.decode())
                    assert link is not None
                    await self._approve(operator, unescape(link[1]), random)
                    return
                case "paid" | "failed" | "closed" | "unclear":
                    return

    async def _approve(self, operator: WorldOperator, url: str, random: Random) -> None:
        """Say yes or no at the operator's page, and come back from there never, once or twice."""
        parts = urlsplit(url)
        page = f"https://{operator_host(operator.name)}{parts.path}"
        decision = "approve" if random.random() < APPROVES_SHARE else "decline"
        self.trace.add(f"payer_says {decision}", operator.name)

        answer = await self._press(page, {"decision": decision})
        if answer is None:
            return
        back = next(value for name, value in answer.headers if name == b"location").decode()
        for _ in range(random.choice((0, 1, 2))):
            self.trace.add("payer_comes_back", operator.name)
            await self._ask(HttpRequest("GET", back.replace(PAGES_URL, _PAGES).encode(), (), b""))

    async def _press(self, page: str, form: Mapping[str, str]) -> HttpResponse | None:
        """Press a button until it works; None: it does not."""
        headers = ((b"content-type", b"application/x-www-form-urlencoded"),)
        request = HttpRequest("POST", page.encode(), headers, urlencode(form).encode())
        for _ in range(TRIES_MAX):
            answer = await self._ask(request)
            if answer is not None and answer.status == 303:
                return answer
            await self.schedule.sleep(TRIES_AGAIN_AFTER_S)
        return None

    async def _pay_later(
        self, operator: WorldOperator, account: str, amount: Money, random: Random
    ) -> None:
        """Pay by M-Pesa's menu under this account number, and sometimes another amount."""
        await self.schedule.sleep(random.uniform(0.0, COMES_WITHIN_S))
        base, method = f"https://{operator_host(operator.name)}", operator.kind.method
        url = f"{base}/oauth/v1/generate?grant_type=client_credentials"
        signs_in = ((b"authorization", _CLIENT_OF_MPESA),)
        token = await self._ask(HttpRequest("GET", url.encode(), signs_in, b""))
        if token is None or token.status != 200:
            return

        try:
            bearer = b"Bearer " + json.loads(token.body)["access_token"].encode()
        except ValueError:
            return  # The answer was garbled on its way.

        digits = f"{random.randrange(10**method.number_digits):0{method.number_digits}}"
        document = {
            "ShortCode": int(operator.kind.accounts[Operation.DIRECT_PAYIN.type]),
            "CommandID": "CustomerPayBillOnline",
            "Amount": amount.minor // 100 + (random.random() < OTHER_AMOUNT_SHARE),
            "Msisdn": int(f"{method.number_prefix}{digits}"),
            "BillRefNumber": account,
        }
        self.trace.add("paid_unasked", operator.name, account)
        await self._ask(
            HttpRequest(
                "POST",
                f"{base}/mpesa/c2b/v2/simulate".encode(),
                ((b"content-type", b"application/json"), (b"authorization", bearer)),
                json.dumps(document).encode(),
            )
        )

    async def _ask(self, request: HttpRequest) -> HttpResponse | None:
        """Return the answer of a gateway's page or of an operator; None: there is none."""
        try:
            with self.schedule.activity():
                return await call_back(request, open_stream=self.party.open_stream)
        except ExchangeFailed:
            return None
