"""What is recorded of an operator names no secret and nobody, and played to a new adapter it comes
to what it came to: a pay-in, a pay-out, a tax and money back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from attrs import Factory, define, evolve, fields_dict
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mmo_provider_pawapay import PAWAPAY
from mmo_provider_pawapay.adapter import PawapayProvider
from mmo_provider_pawapay.wire import operation_id
from mmo_provider_wave import WAVE, WaveProvider

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
)
from mmo_sansio.messages.reversals import ReversalReport, ReversalSucceeded
from mmo_sansio.providers.airtel_money.adapter import AirtelMoneyProvider
from mmo_sansio.providers.common.interface import (
    Provider,
    ProviderNotification,
    ReversesPayments,
    drive,
)
from mmo_sansio.providers.common.operations import operation_key
from mmo_sansio.providers.common.recording import HOOKS, KEPT_MEMBERS, RecordedExchange, Redactor
from mmo_sansio.providers.common.redaction import RedactingProvider, find_secrets
from mmo_sansio.providers.mtn_momo.adapter import reference_id
from mmo_sansio.testing import REFERENCE, START, a_party, a_transaction, numbered_reference
from mmo_sansio.values.clock import HOUR, MINUTE, Moment, Span, later
from mmo_sansio.values.model import Flow, Page, Stage, Transaction, Type
from mmo_sansio.values.money import Money, decimals_of
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from tests.support.airtel_account import private_key as airtel_key
from tests.support.operator_kinds import OPERATORS
from tests.support.reversals import a_reversal
from tests.support.simulator_exchange import SimulatorAccount

KEY = bytes(16)
ORIGIN = "https://gw.example"
STAND_IN = re.compile(re.escape(HOOKS) + "[0-9a-f]+")
ADDRESS = re.compile(rf"{re.escape(ORIGIN)}/hooks/[^\"\s]+")
KEPT_BESIDES = {"pawapay": PAWAPAY.recorded, "wave": WAVE.recorded}
PAGES = ("pawapay, page", "wave")
"""The operators whose payers approve at their page."""
STEP = Span(2 * MINUTE)
"""Everything has happened by then."""

Report = ProviderReport | ProviderNotification | ReversalReport


@define(kw_only=True)
class RecordedAccount(SimulatorAccount):
    """Notes everything that goes to the operator and comes from it, without what is private."""

    redactor: Redactor
    lines: list[str] = Factory(list)

    def callbacks(self) -> Iterator[HttpRequest]:
        """Yield what the operator tells by itself."""
        for told in self.simulator.take_due_callbacks(now=self.now):
            target = told.target.removeprefix(ORIGIN.encode())
            request = evolve(told, target=target)
            self._note(request, HttpResponse(200), is_from_operator=True)
            yield request

    def approve(self, url: str) -> None:
        """Let the payer approve at the operator's page, which the gateway does not see."""
        request = HttpRequest("POST", url.encode(), (), b"decision=approve")
        answer = self.simulator.handle_request(request, now=self.now)
        assert isinstance(answer, HttpResponse)
        assert answer.status == 303

    def _send(self, request: HttpRequest) -> HttpResponse:
        answer = SimulatorAccount._send(self, request)
        self._note(request, answer, is_from_operator=False)
        return answer

    def _note(self, request: HttpRequest, answer: HttpResponse, *, is_from_operator: bool) -> None:
        exchange = RecordedExchange(is_from_operator, 0, request, answer)
        self.lines.append(self.redactor.to_line(exchange))

    def as_recorded(self, reference: str | None) -> str | None:
        """Return what stands in the recording for an operator's own number of a payment, or for the
        address of its page."""
        if reference is None:
            return None
        request = HttpRequest("POST", b"/", (), json.dumps({"id": reference}).encode())
        line = self.redactor.to_line(RecordedExchange(False, 0, request, HttpResponse(200)))
        return str(json.loads(line)["body"]["id"])


@define(kw_only=True)
class ReplayedAccount(SimulatorAccount):
    """Answers as a recording says: its addresses take the places of their stand-ins."""

    lines: list[dict[str, Any]]
    addresses: dict[str, str] = Factory(dict)

    def callbacks(self) -> Iterator[HttpRequest]:
        """Yield what the operator told by itself before it was asked again."""
        while self.lines and self.lines[0]["from"] == "operator":
            line = self.lines.pop(0)
            address = self.addresses.get(line["target"], f"{ORIGIN}/hooks/NAME/token")
            target = address.removeprefix(ORIGIN).encode()
            yield HttpRequest(line["method"], target, (), body_of(line["body"]))

    def approve(self, url: str) -> None:
        """Do nothing: what came of it is recorded."""

    def _send(self, request: HttpRequest) -> HttpResponse:
        line = self.lines.pop(0)
        asked = (line["from"], line["method"], line["target"])
        assert asked == ("gateway", request.method, request.target.decode())

        recorded = STAND_IN.findall(json.dumps([line["headers"], line["body"]]))
        ours = ADDRESS.findall(
            f"{dict(request.headers)!r} {request.body.decode()}".replace("'", '"')
        )
        self.addresses.update(zip(recorded, ours, strict=True))
        return HttpResponse(line["answer"]["status"], (), body_of(line["answer"]["body"]))


def body_of(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def without_signatures(provider: Provider) -> Provider:
    """Return an adapter that needs no key of its operator: a recording keeps neither keys nor
    signatures, so a replay can't have them either."""
    if isinstance(provider, PawapayProvider):
        return evolve(provider, account=evolve(provider.account, callback_keys=()))
    if isinstance(provider, WaveProvider):
        return evolve(provider, account=evolve(provider.account, webhook_secrets=()))
    if isinstance(provider, AirtelMoneyProvider):
        key = (
            airtel_key(1024)
            .public_key()
            .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        )
        return evolve(provider, account=evolve(provider.account, callback_key=None, public_key=key))
    return provider


def kind_of(name: str) -> str:
    """Return the kind of provider of an operator, of which there may be several markets."""
    return name.partition(",")[0]


def recorded_account(name: str) -> RecordedAccount:
    provider, simulator = OPERATORS[name].open()
    redacting = RedactingProvider(without_signatures(provider))
    kept = KEPT_BESIDES.get(kind_of(name), ())
    redactor = Redactor(KEY, redacting.redact, KEPT_MEMBERS.union(kept))
    return RecordedAccount(provider=redacting, simulator=simulator, now=START, redactor=redactor)


def replayed_account(name: str, lines: Sequence[str]) -> ReplayedAccount:
    provider, simulator = OPERATORS[name].open()
    redacting = RedactingProvider(without_signatures(provider))
    left = [json.loads(line) for line in lines]
    return ReplayedAccount(provider=redacting, simulator=simulator, now=START, lines=left)


def reference_for(name: str) -> str:
    """Return the reference of a payment whose id at the operator could be taken for a number."""
    id_of = {"mtn": reference_id, "pawapay": operation_id}.get(kind_of(name))
    if id_of is None:
        return REFERENCE
    references = map(numbered_reference, range(1_000))
    is_like_a_number = re.compile(r"[0-9]{8}-|.*-[0-9]{12}$").match
    return next(each for each in references if is_like_a_number(id_of(each)))


def a_payment(name: str, provider: str, type: Type, amount: int) -> Transaction:
    operator = OPERATORS[name]
    is_elsewhere = operator.confirms_elsewhere and type is Type.PAYIN
    return a_transaction(
        Stage.SUBMITTING,
        flow=Flow.WEB if is_elsewhere else Flow.DIRECT,
        page=Page("token-of-the-page", later(START, HOUR)) if is_elsewhere else None,
        gateway_reference=reference_for(name),
        type=type,
        provider=provider,
        country=operator.country,
        requested=Money(amount * 10 ** decimals_of(operator.currency), operator.currency),
        party=a_party(msisdn=operator.msisdn),
        reconciliation_reference="PRN1234XN",
    )


def course(account: RecordedAccount | ReplayedAccount, payment: Transaction) -> list[Report]:
    """Pay, with the payer's code or at the operator's page where it asks for that, and pay back
    where the operator can; return all that is reported."""
    provider = account.provider
    reports: list[Report] = []

    def notifications() -> None:
        nonlocal payment
        account.now = later(account.now, STEP)
        for told in account.callbacks():
            report = provider.read_notification(told)
            reports.append(report)
            payment = learn(payment, report)

    def approve() -> bool:
        """Let the payer approve once at the page that is named; return whether he did."""
        asked = payment.progress.payer_action
        if not isinstance(asked, OpenUrl) or payment.progress.stage is Stage.SUCCEEDED or approved:
            return False
        account.approve(asked.url)
        approved.append(asked.url)
        return True

    approved: list[str] = []
    reports.append(account.submit(payment))
    payment = learn(payment, reports[-1])
    asked = payment.progress.payer_action
    if isinstance(asked, EnterCode):
        payment = with_progress(payment, payer_action=evolve(asked, code="123456"))
        reports.append(account.submit(payment))
        payment = learn(payment, reports[-1])
    approve()
    notifications()
    reports.append(account.poll(payment))
    payment = learn(payment, reports[-1])
    if approve():
        notifications()
        reports.append(account.poll(payment))
        payment = learn(payment, reports[-1])
    notifications()
    assert isinstance(provider, ReversesPayments)
    is_paid = payment.progress.stage is Stage.SUCCEEDED
    if not is_paid or operation_key(payment) not in provider.reversal_operations:
        return reports

    reversal = a_reversal(payment)
    now = Moment.at(account.now)
    reports.append(drive(provider.reverse(reversal, payment, now=now), account.exchange))
    notifications()
    now = Moment.at(account.now)
    reports.append(drive(provider.poll_reversal(reversal, payment, now=now), account.exchange))
    notifications()
    return reports


def learn(payment: Transaction, report: Report) -> Transaction:
    """Return the payment as a gateway would know it after this report."""
    progress = payment.progress
    known = getattr(report, "provider_reference", None) or progress.provider_reference
    if isinstance(report, ProviderSucceeded):
        progress = evolve(progress, stage=Stage.SUCCEEDED, provider_reference=known)
    elif isinstance(report, ProviderHinted):
        progress = evolve(progress, hint=report.content)
    elif progress.stage is Stage.SUBMITTING and not isinstance(report, ProviderNeverReceived):
        progress = evolve(progress, stage=Stage.AWAITING_RESULT, provider_reference=known)
    asked = getattr(report, "payer_action", None) or progress.payer_action
    return evolve(payment, progress=evolve(progress, payer_action=asked))


def with_progress(payment: Transaction, **members: Any) -> Transaction:
    return evolve(payment, progress=evolve(payment.progress, **members))


def without_words(report: Report, recorded: RecordedAccount | None = None) -> Report:
    """Return a report without what the operator has said in words, and with its own number of the
    payment as the recording has it."""
    names = fields_dict(type(report)).keys()
    changes: dict[str, Any] = dict.fromkeys(names & {"party_data", "content", "native_message"})
    if recorded is not None and "provider_reference" in names:
        changes["provider_reference"] = recorded.as_recorded(
            getattr(report, "provider_reference", None)
        )
    asked = getattr(report, "payer_action", None)
    if isinstance(asked, EnterCode):
        changes["payer_action"] = evolve(asked, instructions=())
    elif isinstance(asked, OpenUrl) and recorded is not None:
        changes["payer_action"] = evolve(asked, url=recorded.as_recorded(asked.url) or "")
    return evolve(report, **changes)


def secret_members(requests: Sequence[HttpRequest]) -> Iterator[str]:
    """Yield what requests say in members that are secret, such as an encrypted PIN."""
    for request in requests:
        document = json.loads(request.body or b"{}")
        for name in ("Password", "SecurityCredential", "pin"):
            if name in document:
                yield document[name]


@pytest.mark.spec("A5")
@pytest.mark.parametrize(
    ("name", "type", "amount"),
    [
        *((name, type, 1_000) for name in OPERATORS for type in (Type.PAYIN, Type.PAYOUT)),
        ("mpesa", Type.TAX, 1_000),
        ("pawapay", Type.PAYIN, 50),  # Less than the market takes.
    ],
)
def test_a_recording_names_nothing_private_and_plays_to_the_same_outcome(
    name: str, type: Type, amount: int
) -> None:
    recorded = recorded_account(name)
    payment = a_payment(name, recorded.provider.name, type, amount)
    reports = course(recorded, payment)
    is_paid = any(isinstance(report, ProviderSucceeded) for report in reports)
    is_back = any(isinstance(report, ReversalSucceeded) for report in reports)
    assert is_paid == (amount == 1_000)
    assert is_back == (is_paid and type is Type.PAYIN)

    asked = [getattr(report, "payer_action", None) for report in reports]
    pages = {action.url for action in asked if isinstance(action, OpenUrl)}
    assert bool(pages) == (name in PAGES and type is Type.PAYIN)

    text = "\n".join(recorded.lines)
    for private in (
        *find_secrets(recorded.provider),
        *(token.value for token in recorded.tokens.values()),
        *secret_members(recorded.requests),
        OPERATORS[name].msisdn[-9:],
        "JANE",
        "gw.example",
        *pages,
        "token-of-the-page",
        "123456",
    ):
        assert private not in text

    again = course(replayed_account(name, recorded.lines), payment)
    expected = [without_words(report, recorded) for report in reports]
    assert [without_words(report) for report in again] == expected
