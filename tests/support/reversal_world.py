"""Staff ask for money back at one simulated operator, in virtual time: requests, answers and
callbacks are lost, late and repeated, results are altered on their way, and the gateway is killed
and restored. One seed is one course of events.

The law is the gateway's own; the loop that wakes reversals stands for its worker.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from decimal import Decimal
from random import Random

from attrs import evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
)
from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import (
    MarkReversalRestored,
    RequestReversal,
    ReversalAccepted,
    ReversalCannotTell,
    ReversalFailed,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
    ReversalWoke,
)
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.providers.common.interface import ExchangeFailed, Provider, ReversesPayments, drive
from mmo_sansio.testing import START, a_party, a_transaction, ledger_with, numbered_reference
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Moment, Span, later
from mmo_sansio.values.model import Flow, Page, Stage, Transaction
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_sansio.values.reversals import Reversal
from mmo_simulators.common.faults import (
    AnswerInstead,
    CallBack,
    EndAfter,
    EndWith,
    Fault,
    LoseAnswer,
    LoseRequest,
    PlannedFault,
)
from tests.support.operator_kinds import OPERATORS
from tests.support.reversals import check_back
from tests.support.simulator_exchange import SimulatorAccount

OPERATIONS = {
    "mtn": "refund",
    "airtel": "refund",
    "mpesa": "reversal",
    "pawapay": "refund",
    "pawapay, page": "refund",
    "pawapay, code": "refund",
    "wave": "refund",
}
"""The simulators' names of money that goes back."""
REPORTS = (
    *(ReversalAccepted, ReversalSucceeded, ReversalFailed),
    *(ReversalUnreachable, ReversalNeverReceived, ReversalCannotTell),
)
HEALED_AFTER = Span(4 * HOUR)
LASTS = Span(3 * 24 * HOUR)
PAYMENTS = 8


class ReversalWorld:
    """Plays one seed; `play` runs it to its end."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.operator = name, OPERATORS[name]
        self.random, self.tally = Random(seed), Counter[str]()
        provider, simulator = self.operator.open()
        self.account = SimulatorAccount(provider, simulator, START)
        self.payments = {each.reference: each for each in map(self._paid, range(PAYMENTS))}
        self.gateway = Gateway()
        self.gateway.ledger = ledger_with(*self.payments.values())
        self.late: list[tuple[Instant, HttpRequest]] = []
        self.attempts = 0
        self.forgotten: list[Reversal] = []
        """Those that a restored backup did not have."""

    @property
    def provider(self) -> Provider:
        return self.account.provider

    @property
    def now(self) -> Instant:
        return self.account.now

    @property
    def reversals(self) -> list[Reversal]:
        return [each for known in self.gateway.ledger.reversals.values() for each in known]

    @property
    def is_healed(self) -> bool:
        return self.now >= later(START, HEALED_AFTER)

    def back(self, payment: Transaction) -> Money:
        """Return what the operator's book says went back of a payment."""
        currency, name = payment.order.requested.currency, OPERATIONS[self.name]
        rows = [
            each for each in self.account.simulator.snapshot()["payments"] if each["kind"] == name
        ]
        names = (payment.reference, payment.progress.provider_reference)
        own = [
            each
            for each in rows
            if each["reference"].partition("-")[0] in names and each["result"] == "success"
        ]
        return Money(
            sum(to_money(parse_number(each["amount"]), currency).minor for each in own), currency
        )

    def play(self) -> None:
        """Run the seed until all that can be known is known."""
        backup = copy.deepcopy(self.gateway.ledger)
        while self.now < later(START, LASTS):
            if not self.is_healed:
                for payment in self.payments.values():
                    if self.random.random() < 0.02:
                        self._request(payment)
                if self.random.random() < 0.01:
                    backup = copy.deepcopy(self.gateway.ledger)
                elif self.random.random() < 0.003:
                    self._restore(copy.deepcopy(backup))
            self._wake()
            self._call_back()
            self.account.now = later(
                self.now, Span(20 * SECOND) if not self.is_healed else Span(10 * MINUTE)
            )

    def _paid(self, number: int) -> Transaction:
        """Return a payment that was paid at the operator."""
        units, operator = self.random.randint(*self.operator.amounts), self.operator
        flow, page = Flow.DIRECT, None
        if operator.confirms_elsewhere:
            flow, page = Flow.WEB, Page(f"token-{number}", later(self.now, HOUR))
        members = {
            "gateway_reference": numbered_reference(number),
            "merchant_reference": f"order-{number}",
            "flow": flow,
            "page": page,
            "provider": self.provider.name,
            "country": operator.country,
            "requested": to_money(Decimal(units), operator.currency),
            "party": a_party(msisdn=operator.msisdns[number]),
        }
        payment = a_transaction(Stage.SUBMITTING, submitted_at=self.now, **members)
        known_as = getattr(self._submit(payment), "provider_reference", None)

        self.account.now = later(self.now, MINUTE)
        hints = [self.provider.read_notification(each) for each in self._callbacks()]
        hint = "\n".join(getattr(each, "content", "") for each in hints)
        asked = evolve(
            payment, progress=evolve(payment.progress, hint=hint, provider_reference=known_as)
        )
        report = self.account.poll(asked)
        assert isinstance(report, ProviderSucceeded)
        return a_transaction(
            Stage.SUCCEEDED,
            final=payment.order.requested,
            provider_reference=report.provider_reference,
            **members,
        )

    def _submit(self, payment: Transaction) -> ProviderReport:
        """Submit a payment, and do what its payer does elsewhere."""
        report = self.account.submit(payment)
        asked = report.payer_action if isinstance(report, ProviderNeverReceived) else None
        if asked is not None:
            given = EnterCode(asked.instructions, code="123456")
            with_code = evolve(payment, progress=evolve(payment.progress, payer_action=given))
            return self.account.submit(with_code)
        if self.operator.confirms_elsewhere:
            self._approve(payment, report)
        return report

    def _approve(self, payment: Transaction, report: ProviderReport) -> None:
        """Let the payer approve at the page, which comes with the acceptance or later."""
        if getattr(report, "payer_action", None) is None:
            self.account.now = later(self.now, MINUTE)
            report = self.account.poll(payment)
        assert isinstance(report, ProviderAccepted)
        assert isinstance(report.payer_action, OpenUrl)
        said = HttpRequest("POST", report.payer_action.url.encode(), (), b"decision=approve")
        answer = self.account.simulator.handle_request(said, now=self.now)
        assert isinstance(answer, HttpResponse)
        assert answer.status == 303, answer.body

    # Staff.

    def _request(self, payment: Transaction) -> None:
        assert isinstance(self.provider, ReversesPayments)
        can_be_partial = next(iter(self.provider.reversal_operations.values())).can_be_partial
        part = Money(
            self.random.randint(1, payment.order.requested.minor), payment.order.requested.currency
        )
        is_part = can_be_partial and self.random.random() < 0.7
        request = RequestReversal(
            payment.reference,
            payment.order.brand,
            part if is_part else None,
            reason="asked back",
            user="amina",
            needs_approval=False,
        )
        if isinstance(self.gateway.receive(request, now=self.now), ReversalApplied):
            self.tally["requested"] += 1

    def _restore(self, backup: Ledger) -> None:
        self.tally["restored"] += 1
        before, self.gateway.ledger = self.reversals, backup
        self.forgotten += [
            each for each in before if each.id not in {kept.id for kept in self.reversals}
        ]
        for each in self.reversals:
            if not each.state.has_ended:
                self.gateway.receive(MarkReversalRestored(each.id, "amina"), now=self.now)

    # The gateway's worker.

    def _wake(self) -> None:
        for reversal in self.reversals:
            if reversal.wake_at is None or reversal.wake_at > self.now:
                continue
            self.attempts += 1
            attempt = f"attempt {self.attempts}"
            reply = self.gateway.receive(ReversalWoke(reversal.id, attempt), now=self.now)
            if not isinstance(reply, ReversalApplied) or self._is_killed(
                "between record and request"
            ):
                continue
            report = self._converse(
                reply.reversal, reply.transaction, is_first=reply.reversal.may_send(attempt)
            )
            if not self._is_killed("between sending and knowing"):
                self.gateway.receive(report, now=self.now)

    def _converse(
        self, reversal: Reversal, payment: Transaction, *, is_first: bool
    ) -> ReversalReport:
        assert isinstance(self.provider, ReversesPayments)
        self.tally["asked for" if is_first else "asked after"] += 1
        run = self.provider.reverse if is_first else self.provider.poll_reversal
        self.account.simulator.faults.plan(self._faults(is_first=is_first))
        return drive(run(reversal, payment, now=Moment.at(self.now)), self._exchange)

    def _is_killed(self, when: str) -> bool:
        is_killed = not self.is_healed and self.random.random() < 0.05
        self.tally[f"killed {when}"] += is_killed
        return is_killed

    # The network.

    def _faults(self, *, is_first: bool) -> list[PlannedFault]:
        chance = self.random.random()
        if self.is_healed or chance > 0.5:
            return []
        page = self.random.choice(self.operator.maintenance)
        faults: tuple[Fault, ...] = (LoseRequest(), LoseAnswer(), AnswerInstead(page))
        if is_first:
            faults += (
                EndWith("NEW"),
                EndAfter(Span(self.random.randrange(HOUR))),
                CallBack(()),
                CallBack((SECOND,) * 2),
            )
        fault = self.random.choice(faults)
        self.tally[type(fault).__name__] += 1
        return [PlannedFault(OPERATIONS[self.name] if is_first else "*", fault)]

    def _exchange(self, request: HttpRequest) -> HttpResponse:
        chance = 1.0 if self.is_healed else self.random.random()
        if chance < 0.05:
            self.tally["not connected"] += 1
            raise ExchangeFailed("No connection.", may_have_arrived=False)
        if chance < 0.1:
            self.tally["late"] += 1
            self.late.append((later(self.now, Span(25 * SECOND)), self.account.sign(request)))
            raise ExchangeFailed("No answer came in time.", may_have_arrived=True)
        return self.account.exchange(request)

    def _callbacks(self) -> list[HttpRequest]:
        return list(self.account.simulator.take_due_callbacks(now=self.now))

    def _call_back(self) -> None:
        arrived = [request for at, request in self.late if at <= self.now]
        self.late = [(at, request) for at, request in self.late if at > self.now]
        for each in arrived:
            self.account.simulator.handle_request(each, now=self.now)
        for each in self._callbacks():
            chance = 1.0 if self.is_healed else self.random.random()
            if chance < 0.1:
                self.tally["callback lost"] += 1
                continue
            for request in (
                (_altered(each), each) if chance < 0.3 else (each,) * (1 + (chance < 0.5))
            ):
                report = self.provider.read_notification(request)
                if isinstance(report, REPORTS):
                    self.gateway.receive(report, now=self.now)


def _altered(request: HttpRequest) -> HttpRequest:
    """Return a notification as somebody who knows its address may change its result."""
    document = json.loads(request.body)
    if "Result" in document:
        document["Result"]["ResultCode"] = 0 if document["Result"]["ResultCode"] != "0" else 1
    else:
        document["status"] = "FAILED" if document.get("status") == "SUCCESSFUL" else "SUCCESSFUL"
    return evolve(request, body=json.dumps(document).encode())


def check(world: ReversalWorld) -> None:
    """Compare the operator's book with the gateway's reversals, payment by payment."""
    for payment in world.payments.values():
        forgotten = [each for each in world.forgotten if each.payment == payment.reference]
        check_back(
            payment,
            world.gateway.ledger.reversals_of(payment.reference),
            world.back(payment),
            forgotten,
        )
