"""An operator in memory whose payers confirm at its page or with its code, and a gateway with an
account of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import Factory, define, evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderReport, UnmatchedNotified
from mmo_sansio.providers.common.interface import PaymentReports
from mmo_sansio.providers.common.operations import WEB_PAYIN, OperationKey, ProviderOperation
from mmo_sansio.providers.registry import AdapterContext, ProviderKind
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Moment, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_sansio.values.return_links import return_url
from mmo_trio.settings.providers import provider_variable
from tests.support.merchants import a_brand
from tests.support.sandbox_gateway import Running, serving

API_KEY = "elsewhere-test-key-0123456789"
HOST = "pay.example"
TITLE = "Lipa"
RIGHT_CODE = "123456"
HOW = (("en", "Dial *144*4*6#.\nChoose 1."), ("fr", "Composez le *144*4*6#."))
_OPERATION = ProviderOperation(
    is_idempotent=True,
    can_be_polled=True,
    not_found_is_final_after=MINUTE,
    poll_intervals=(HOUR,),  # Only a return makes the gateway ask earlier.
)
_BRANDS = a_brand("acme", API_KEY, method="elsewhere", provider="elsewhere", flows=("web/payin",))


@define(eq=False)
class ElsewhereOperator:
    """Holds the operator's book, and is the adapter of the only account with it."""

    name: str = "elsewhere"
    title: str = TITLE
    pages_url: str = ""
    needs_code: bool = False
    """Whether it needs a code before it takes a payment."""
    asks_later: bool = False
    """Whether it asks for a code once it has the payment."""
    needs_commit: bool = False
    url: str = f"https://{HOST}/c"
    lasts: Span | None = None
    """How long its page or code lasts; None: it does not say."""
    instructions: tuple[tuple[str, str], ...] = HOW
    codes: dict[str, str | None] = Factory(dict)
    """The codes of the payments that it has received, in their order."""
    returns: dict[str, str] = Factory(dict)
    """The addresses to which it sends its payers back."""
    ends: dict[str, Instant] = Factory(dict)
    """When the pages of the payments end that have such a time."""
    approved: set[str] = Factory(set)
    refused: set[str] = Factory(set)
    questions: list[str] = Factory(list)
    commits: list[str] = Factory(list)
    payer_hosts: Collection[str] = (HOST,)

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        return {WEB_PAYIN: _OPERATION}

    def submit(self, transaction: Transaction, *, now: Moment) -> Reported:
        about, asked = PaymentReports(transaction, self.name), transaction.progress.payer_action
        code = asked.code if isinstance(asked, EnterCode) else None
        if self.needs_code and code is None:
            ends_at = None if self.lasts is None else later(now.time, self.lasts)
            return about.needs_code(EnterCode(self.instructions, ends_at))
        self.codes[transaction.reference] = code
        if self.lasts is not None:
            self.ends[transaction.reference] = later(now.time, self.lasts)
        self.returns[transaction.reference] = return_url(self.pages_url, transaction.order)
        return self._answer(transaction)
        yield  # It is a generator that sends nothing.

    def poll(self, transaction: Transaction, *, now: Moment) -> Reported:
        self.questions.append(transaction.reference)
        return self._answer(transaction)
        yield

    def commit(self, transaction: Transaction, *, now: Moment) -> Reported:
        self.commits.append(transaction.reference)
        about, asked = PaymentReports(transaction, self.name), transaction.progress.payer_action
        if isinstance(asked, EnterCode):
            if asked.code != RIGHT_CODE:
                return about.accepted(payer_action=EnterCode(self.instructions))
            return about.succeeded("RECEIPT1")
        if transaction.reference in self.approved:
            return about.succeeded("RECEIPT1")
        return about.accepted()
        yield

    def read_notification(self, request: HttpRequest) -> UnmatchedNotified:
        return UnmatchedNotified(self.name, "")

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        return HttpResponse(200)

    def _answer(self, transaction: Transaction) -> ProviderReport:
        about, reference = PaymentReports(transaction, self.name), transaction.reference
        if reference in self.approved and not self.needs_commit:
            return about.succeeded("RECEIPT1")
        if reference in self.refused:
            return about.failed(ErrorCode.USER_CANCELLED)
        if self.needs_code:
            return about.accepted()
        if self.asks_later:
            return about.accepted(payer_action=EnterCode(self.instructions))
        page = OpenUrl(f"{self.url}/{reference}", self.ends.get(reference), self.needs_commit)
        return about.accepted(payer_action=page)


Reported = Generator[HttpRequest, HttpResponse, ProviderReport]


@asynccontextmanager
async def run_elsewhere(directory: Path, operator: ElsewhereOperator) -> AsyncIterator[Running]:
    """Serve a gateway whose only method is this operator's."""

    def open_adapter(
        name: str, title: str, options: Mapping[str, Any], context: AdapterContext
    ) -> ElsewhereOperator:
        operator.pages_url = context.pages_url
        return operator

    kind = ProviderKind(TITLE, open_adapter, (), confirms_elsewhere=lambda _: True)
    variable = provider_variable("elsewhere", "kind")
    async with serving(
        directory,
        environment={variable: "elsewhere"},
        brands=_BRANDS,
        api_key=API_KEY,
        provider_kinds={"elsewhere": kind},
    ) as running:
        running.merchant = evolve(running.merchant, method="elsewhere")
        yield running


def local(url: str, running: Running) -> str:
    """Return the address of this gateway's own pages for one that it has given away."""
    return f"{running.ready.pages}{urlsplit(url).path}"
