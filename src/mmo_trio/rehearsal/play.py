"""Plays the steps of a rehearsal one after the other, and waits for what each leads to."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Final, TypeVar, assert_never

import trio
from attrs import evolve, frozen

from mmo_sansio.messages.inputs import CreatePayment, Draft
from mmo_sansio.messages.replies import Accepted, Rejected, ReversalApplied
from mmo_sansio.messages.reversals import RequestReversal
from mmo_sansio.providers.common.interface import Provider, is_simulated
from mmo_sansio.providers.common.rehearsal import (
    AskAccount,
    AskAgain,
    AskUnknown,
    AwaitCallback,
    GiveBack,
    MakePayment,
    RehearsalStep,
)
from mmo_sansio.values.clock import DAY, Span, earlier
from mmo_sansio.values.model import (
    Brand,
    Limits,
    Method,
    Order,
    Party,
    Progress,
    Stage,
    Transaction,
)
from mmo_sansio.values.reversals import ReversalState
from mmo_trio.rehearsal.contribution import Place, capture_document
from mmo_trio.rehearsal.folder import BegunStep, RehearsalFolder
from mmo_trio.rehearsal.gateway import AccountOpener, RehearsalGateway, adapter_of
from mmo_trio.rehearsal.verdicts import (
    Outcome,
    held_if,
    judge_answer,
    judge_callback,
    judge_findings,
    judge_payment,
    judge_reversal,
    judge_unknown,
    not_tried,
)
from mmo_trio.workers.providers.account import drive_async

BRAND: Final = "rehearsal"

# Seconds between two looks at what is waited for, in the rehearsal's own store.
LOOK_EVERY_S: Final = 0.1

# Seconds that questions about the account may take.
ASK_TIMEOUT_S: Final = 60.0

# Seconds that a callback may come later than the result.
CALLBACK_WAIT_S: Final = 60.0

ResultT = TypeVar("ResultT")


class StillOpen(Exception):
    """Raised where a step has no end yet: a later run goes on with it."""


@frozen
class Player:
    """Plays the steps of one account, each in a gateway of its own."""

    folder: RehearsalFolder
    opener: AccountOpener
    plan: Callable[[Provider], Sequence[RehearsalStep]]
    """Returns the steps of an adapter: a conversation about the account is its own."""
    place: Place
    wait_s: float
    """Seconds that a payment may take in one run."""
    has_callbacks: bool
    """Whether the operator can reach us."""

    async def play(self, step: RehearsalStep) -> Outcome:
        """Play a step to its end, and return what it has shown. One that a killed run has begun
        goes on: what may have been sent is asked about. Raises StillOpen."""
        if isinstance(step, AwaitCallback):
            return self._look_for_callback(step)

        # On disk before anything is sent: with this reference a later run asks after the payment.
        reference = self.opener.next_reference()
        begun = self.folder.begin(step.name, reference, self.opener.clock.wall_time())
        async with self.opener.open(self.folder, step.name, begun) as gateway:
            match step:
                case AskAccount():
                    return await self._ask_account(step.name, gateway)
                case MakePayment():
                    return await self._pay(step, begun, gateway)
                case AskAgain():
                    return await self._ask_again(step, gateway)
                case AskUnknown():
                    return await self._ask_unknown(step, begun, gateway)
                case GiveBack():
                    return await self._give_back(step, gateway)
                case _:
                    assert_never(step)

    async def _ask_account(self, name: str, gateway: RehearsalGateway) -> Outcome:
        # The conversation belongs to its adapter, and each step has another one.
        steps = self.plan(adapter_of(gateway.account))
        (step,) = (named for named in steps if isinstance(named, AskAccount) and named.name == name)
        with trio.move_on_after(ASK_TIMEOUT_S):
            check = step.begin(gateway.clock.moment())
            return judge_findings(await drive_async(check, gateway.account.ask))
        return held_if(False, f"There was no answer within {ASK_TIMEOUT_S:g} s.")

    async def _pay(self, step: MakePayment, begun: BegunStep, gateway: RehearsalGateway) -> Outcome:
        if step.key not in gateway.account.provider.operations:
            return not_tried(f"The account offers no {step.operation}.")

        # 1. Create it, unless an earlier run has.
        if await gateway.store.transaction(begun.reference) is None:
            provider = gateway.account.provider
            simulated: frozenset[str] = frozenset()
            if is_simulated(provider):
                simulated = frozenset([provider.name])

            created = CreatePayment(
                rehearsal_brand(step, gateway),
                begun.reference,
                payment_draft(step),
                simulated_providers=simulated,
            )
            reply = await gateway.submit(created)
            if isinstance(reply, Rejected):
                return held_if(False, f"The gateway refuses it: {reply.problem.detail}")

            assert isinstance(reply, Accepted)

        # 2. Wait for its end, and for the callback that may come later.
        async def ended() -> Transaction | None:
            payment = await gateway.store.transaction(begun.reference)
            assert payment is not None
            if payment.progress.stage.is_terminal:
                return payment

            self._keep_id(step, payment)
            return None

        payment = await self._wait_for(ended, self.wait_s)
        if self.has_callbacks and self._is_callback_looked_for(step, gateway):
            # Where none has come, the callback's own step says so.
            with suppress(StillOpen):
                await self._wait_for(self._callbacks_of(step), CALLBACK_WAIT_S)

        # 3. What it has shown.
        self._write_capture(step, payment, begun, gateway)
        return judge_payment(step, payment)

    def _keep_id(self, step: MakePayment, pending: Transaction) -> None:
        """Keep what the operator calls a payment before a receipt takes the place of that."""
        begun = self.folder.find_begun(step.name)
        known_as = pending.progress.provider_reference
        if begun is not None and known_as not in (None, begun.known_as):
            self.folder.keep_begun(step.name, evolve(begun, known_as=known_as))

    def _is_callback_looked_for(self, step: MakePayment, gateway: RehearsalGateway) -> bool:
        steps = self.plan(adapter_of(gateway.account))
        return any(
            isinstance(following, AwaitCallback) and following.of == step.name
            for following in steps
        )

    def _write_capture(
        self, step: MakePayment, payment: Transaction, begun: BegunStep, gateway: RehearsalGateway
    ) -> None:
        document = capture_document(
            step,
            payment,
            self.folder.recorded(step.name),
            gateway.shown,
            self.place,
            is_interrupted=begun.runs > 1,
            others=self.folder.other_ids(step.name),
        )
        day = self.place.day.replace("-", "_")
        file = f"captures/{self.place.kind}/{day}_{step.name}.json"
        self.folder.contribute(file, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def _look_for_callback(self, step: AwaitCallback) -> Outcome:
        if not self.has_callbacks:
            return not_tried("No address was given that the operator can reach (--public-url).")
        if self.folder.outcome_of(step.of) is None:
            return not_tried(f"`{step.of}` was not made.")
        return judge_callback(self._callbacks(step.of))

    def _callbacks_of(self, step: MakePayment) -> Callable[[], Awaitable[Sequence[int] | None]]:
        async def find() -> Sequence[int] | None:
            return self._callbacks(step.name) or None

        return find

    def _callbacks(self, step: str) -> Sequence[int]:
        return [
            line["answer"]["status"]
            for line in self.folder.recorded(step)
            if line["from"] == "operator"
        ]

    async def _ask_again(self, step: AskAgain, gateway: RehearsalGateway) -> Outcome:
        payment = await self._ended_payment(step.of, gateway)
        if payment is None:
            return not_tried(f"`{step.of}` has not ended.")

        asked = payment
        begun = self.folder.find_begun(step.of)
        if begun is not None and begun.known_as is not None:
            # A receipt may have taken the place of the id that questions name.
            progress = evolve(payment.progress, provider_reference=begun.known_as)
            asked = Transaction(payment.order, progress)

        conversation = gateway.account.provider.poll(asked, now=gateway.clock.moment())
        report = await drive_async(conversation, gateway.account.ask)
        return judge_answer(report, payment)

    async def _ask_unknown(
        self, step: AskUnknown, begun: BegunStep, gateway: RehearsalGateway
    ) -> Outcome:
        known = await self._ended_payment(step.of, gateway)
        if known is None:
            return not_tried(f"`{step.of}` has not ended.")

        unknown = never_sent(known, begun.reference, step.known_as)
        conversation = gateway.account.provider.poll(unknown, now=gateway.clock.moment())
        report = await drive_async(conversation, gateway.account.ask)
        return judge_unknown(step, report)

    async def _give_back(self, step: GiveBack, gateway: RehearsalGateway) -> Outcome:
        payment = await self._ended_payment(step.of, gateway)
        if payment is None or payment.progress.stage is not Stage.SUCCEEDED:
            return not_tried(f"`{step.of}` has not succeeded.")

        # Asked for once: a later run waits for the one that was.
        if not await gateway.store.reversals(payment.reference):
            asked = RequestReversal(
                payment.reference,
                BRAND,
                amount=None,
                reason="Rehearsal.",
                user=BRAND,
                needs_approval=False,
                number=1,
            )
            reply = await gateway.submit(asked)
            if not isinstance(reply, ReversalApplied):
                return not_tried("The gateway does not ask for this payment's money back.")

        async def ended() -> Outcome | None:
            # Without a time at which it wakes, nothing ends it but a person.
            (reversal,) = await gateway.store.reversals(payment.reference)
            if reversal.state is ReversalState.UNKNOWN and reversal.wake_at is None:
                return held_if(False, "Its outcome is unknown, and no question tells it.")
            if reversal.state.has_ended:
                return judge_reversal(reversal)
            return None

        return await self._wait_for(ended, self.wait_s)

    async def _ended_payment(self, step: str, gateway: RehearsalGateway) -> Transaction | None:
        begun = self.folder.find_begun(step)
        found = begun and await gateway.store.transaction(begun.reference)
        if found and found.progress.stage.is_terminal:
            return found
        return None

    async def _wait_for(
        self, find: Callable[[], Awaitable[ResultT | None]], wait_s: float
    ) -> ResultT:
        """Return what is found within this time. Raises StillOpen."""
        with trio.move_on_after(wait_s):
            while True:
                found = await find()
                if found is not None:
                    return found

                await trio.sleep(LOOK_EVERY_S)

        raise StillOpen(f"It has not ended within {wait_s:g} s.")


def rehearsal_brand(step: MakePayment, gateway: RehearsalGateway) -> Brand:
    """Return the brand that makes the payment of a step, and no other."""
    provider = gateway.account.provider
    limits: Mapping[str, Limits] = {step.amount.currency: Limits(step.amount, step.amount)}
    method = Method(
        key=BRAND,
        provider=provider.name,
        provider_title=provider.title,
        country=step.country,
        operations=frozenset((step.operation,)),
        limits=limits,
    )
    return Brand(BRAND, "Rehearsal", (method,))


def payment_draft(step: MakePayment) -> Draft:
    """Return the creation of a step's payment; its result is delivered to nobody."""
    return Draft(
        operation=step.operation,
        method=BRAND,
        amount=Decimal(step.amount.text),
        currency=step.amount.currency,
        country=step.country,
        result_url="https://rehearsal.invalid/",
        merchant_reference=f"rehearsal-{step.name}",
        party=Party(BRAND, step.msisdn),
    )


def never_sent(known: Transaction, reference: str, known_as: str | None) -> Transaction:
    """Return a payment like this one that was never sent, as if it had been a day ago."""
    # A day ago: an operator that is slow to know its payments would know it by now.
    order: Order = evolve(known.order, gateway_reference=reference)
    sent_at = earlier(order.accepted_at, Span(DAY))
    progress = Progress(
        Stage.SUBMITTING,
        version=1,
        wake_at=None,
        provider_reference=known_as,
        submitted_at=sent_at,
        submissions=1,
    )
    return Transaction(order, progress)
