"""Any history of true and forged notifications, answers and endings: what is booked is what the
operator has received, each receipt once, and what was received and notified is in the books
(clauses S4, S5)."""

from __future__ import annotations

import json
from random import Random

import pytest
from attrs import Factory, define, evolve

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import DepositAnswered, DepositClaimWoke, DepositNotified, Input
from mmo_sansio.messages.replies import ClaimDue
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import (
    KES,
    START,
    a_begin_submission,
    a_brand,
    a_create_payment,
    a_deposit,
    a_party,
    a_resolution,
    accepted,
    failed,
    numbered_reference,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    DepositAnswerOutcome,
    DepositClaim,
    DepositTrust,
    Flow,
    Operation,
    Stage,
)
from mmo_sansio.values.money import Money

HISTORIES = 120
STEPS = 60
PAYMENTS = 6
"""Even numbers are prompts, odd ones QR codes."""
WITHOUT_ID = 4
"""The prompt whose answer was lost."""


@define
class Books:
    """One history: the gateway, and what the operator has received."""

    random: Random
    gateway: Gateway = Factory(Gateway)
    now: Instant = START
    received: dict[str, DepositNotified] = Factory(dict)
    """What was paid, by its receipt, as the operator notifies it."""
    notified: set[str] = Factory(set)
    prompts: set[str] = Factory(set)
    """Receipts of prompts."""
    fresh: int = 100

    def receive(self, input_: Input) -> object:
        self.now = later(self.now, Span(1))
        return self.gateway.receive(input_, now=self.now)

    def mint(self) -> str:
        self.fresh += 1
        return numbered_reference(self.fresh)

    def create_payments(self) -> None:
        for number in range(PAYMENTS):
            reference = numbered_reference(number)
            operation = Operation.QR_PAYIN if number % 2 else Operation.DIRECT_PAYIN
            self.receive(
                a_create_payment(reference, operation=operation, merchant_reference=reference)
            )
            self.receive(a_begin_submission(reference))
            if number == WITHOUT_ID:
                self.receive(unreachable(reference))
                continue
            id = None if number % 2 else f"ws_CO_{number}"
            self.receive(accepted(reference, provider_reference=id, poll_after=HOUR))

    def notification(self, receipt: str, payment: str | None, amount: Money) -> DepositNotified:
        return a_deposit(
            provider_reference=receipt,
            gateway_reference=self.mint(),
            brand=None if payment else a_brand(),
            amount=amount,
            party=a_party(id=payment or "SHOP"),
            trust=DepositTrust.UNCONFIRMED,
            account="174379",
            bill_reference=payment[-12:] if payment else "SHOP",
            payment=payment,
        )

    def step(self) -> None:
        random = self.random
        payment = random.choice((None, *map(numbered_reference, range(PAYMENTS))))
        amount = random.choice((KES(150), KES(150), KES(149)))
        actions = (
            "pay",
            "pay",
            "notify",
            "list",
            "forge",
            "replay",
            "foreign",
            "end",
            "time",
            "ask",
            "ask",
        )
        action = random.choice(actions)
        match action:
            case "pay":
                receipt = f"R{len(self.received)}"
                self.received[receipt] = self.notification(receipt, payment, amount)
                if random.random() < 0.7:
                    self.notify(receipt)
            case "notify" if self.received:
                self.notify(random.choice(sorted(self.received)))
            case "list":
                self.list_latest()
            case "forge":
                kind = random.choice(("FORGED", "FORGED-PAYOUT"))
                self.receive(self.notification(f"{kind}{random.randrange(9)}", payment, amount))
            case "replay" if self.received:
                self.receive(
                    self.notification(random.choice(sorted(self.received)), payment, amount)
                )
            case "foreign":
                given = self.notification(f"FOREIGN{random.randrange(9)}", payment, amount)
                self.receive(evolve(given, trust=DepositTrust.FOREIGN_ACCOUNT, account="999999"))
            case "end":
                self.end(random.randrange(PAYMENTS))
            case "time":
                self.wait(
                    random.choice((Span(SECOND), Span(MINUTE), Span(20 * MINUTE), Span(5 * HOUR)))
                )
            case _:
                self.ask(self.open_claims())

    def notify(self, receipt: str) -> None:
        self.notified.add(receipt)
        self.receive(evolve(self.received[receipt], gateway_reference=self.mint()))

    def list_latest(self) -> None:
        """List what was received lately, with the payer's number in another form."""
        for receipt in sorted(self.received)[-5:]:
            self.notified.add(receipt)
            told = self.received[receipt]
            party = evolve(told.party, msisdn="722000000", first_name=None)
            self.receive(
                evolve(told, gateway_reference=self.mint(), trust=DepositTrust.LISTED, party=party)
            )

    def end(self, number: int) -> None:
        """A prompt ends, with or without a receipt; staff may end a QR payment."""
        reference = numbered_reference(number)
        transaction = self.gateway.transaction(reference)
        if transaction.progress.stage.is_terminal:
            return
        if number % 2:
            self.receive(a_resolution(reference, error_code=ErrorCode.TRANSACTION_DECLINED))
            return
        own = f"PROMPT{number}"
        match self.random.randrange(4):
            case 0:
                self.receive(failed(reference))
            case 1:
                self.receive(succeeded(reference, provider_reference="ws_CO_1"))
            case _:
                self.prompts.add(own)
                if self.random.random() < 0.5:
                    self.receive(self.notification(own, reference, KES(150)))
                self.receive(succeeded(reference, provider_reference=own, settles_receipt=True))

    def open_claims(self) -> list[DepositClaim]:
        return [each for each in self.gateway.ledger.claims.values() if each.wake_at is not None]

    def wait(self, span: Span) -> None:
        self.now = later(self.now, span)
        self.gateway.wake(now=self.now)
        self.ask(
            [
                each
                for each in self.open_claims()
                if each.wake_at is not None and each.wake_at <= self.now
            ]
        )

    def ask(self, claims: list[DepositClaim]) -> None:
        """Wake claims; the operator answers some of the questions, truly."""
        for claim in claims:
            reply = self.receive(DepositClaimWoke(claim.provider, claim.receipt, claim.payment))
            if isinstance(reply, ClaimDue) and self.random.random() < 0.7:
                self.receive(self.true_answer(reply.claim))

    def true_answer(self, claim: DepositClaim) -> DepositAnswered:
        paid = self.received.get(claim.receipt)
        is_ours = paid is not None or claim.receipt in self.prompts
        is_known = is_ours or claim.receipt.startswith(
            "FORGED-PAYOUT"
        )  # A receipt of money that went out.
        return DepositAnswered(
            "test",
            claim.receipt,
            DepositAnswerOutcome.COMPLETED if is_known else DepositAnswerOutcome.NOT_FOUND,
            is_ours=is_ours,
            amount=(paid.amount if paid else KES(150)) if is_known else None,
            payment=claim.payment,
            brand=None if claim.payment else a_brand(),
            method="" if claim.payment else "test_ke",
        )

    def come_to_rest(self) -> None:
        for _ in range(40):
            self.wait(Span(2 * HOUR))
            self.ask(self.open_claims())
        self.wait(Span(DAY))
        for _ in range(3):
            self.wait(Span(HOUR))


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_books_are_the_operators(seed: int) -> None:
    books = Books(Random(seed))
    books.create_payments()
    for _ in range(STEPS):
        books.step()
    books.come_to_rest()
    assert books.open_claims() == []
    booked: dict[str, Money] = {}
    for each in books.gateway.ledger.transactions.values():
        receipt, final = each.progress.provider_reference, each.progress.final
        if each.progress.stage is not Stage.SUCCEEDED:
            continue
        if each.order.flow is Flow.DIRECT and receipt not in books.received:
            continue
        assert receipt is not None
        assert final is not None
        assert receipt not in booked, "a receipt has settled two things"
        assert receipt in books.received, "what nobody has paid is booked"
        assert books.received[receipt].amount == final
        booked[receipt] = final
    stands: dict[str, set[str]] = {}
    for entry in books.gateway.suspense:
        content = json.loads(entry.content)
        stands.setdefault(content["providerReference"], set()).add(content["amount"])
        if content["providerReference"].startswith(("FORGED", "FOREIGN")):
            assert entry.reason in (
                SuspenseReason.UNCONFIRMED_DEPOSIT,
                SuspenseReason.UNMATCHED_DEPOSIT,
                SuspenseReason.CONFLICTING_DEPOSIT,
            )
    for receipt in books.notified - booked.keys():
        amount = str(books.received[receipt].amount)
        assert amount in stands.get(receipt, set()), f"{receipt} is in no book"
