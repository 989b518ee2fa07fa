"""Decides about reported deposits: money that a provider reports as received is booked once
(clauses S4, S5).

An unsigned notification makes a claim, which moves no money before the provider has confirmed it. A
confirmed one that names a pending payment settles it where the payment is a QR code, or a prompt of
which the provider has told no id or just this receipt; otherwise the payer may have paid twice, and
it waits for the payment's end. A claim is open until it is settled: it becomes a deposit, the
success of a payment, or an entry of the suspense book. A settled claim stays, so that one receipt
settles one thing. A claim that the provider does not confirm is withdrawn: its receipt may be
claimed again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

from attrs import evolve

from mmo_sansio.messages import inputs
from mmo_sansio.messages.changes import (
    Change,
    DepositRecorded,
    SuspenseReason,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied, ClaimDue, Ignored
from mmo_sansio.payments.decision import Decision, ignore
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.payments.personal_data import MASKED_PARTY, MASKED_TEXT, is_masked_claim
from mmo_sansio.payments.settlement import (
    claim_change,
    is_missing_receipt,
    settle_receipt,
    succeed,
    with_receipt,
)
from mmo_sansio.payments.suspense import record_in_suspense
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Moment, Span, elapsed, later
from mmo_sansio.values.model import (
    Brand,
    DepositAnswerOutcome,
    DepositClaim,
    DepositTrust,
    Flow,
    Method,
    Order,
    Party,
    Progress,
    ProviderData,
    Source,
    Stage,
    Transaction,
    Type,
)
from mmo_sansio.values.money import Money

# The inputs that this module decides.
DepositInput: TypeAlias = inputs.DepositNotified | inputs.DepositClaimWoke | inputs.DepositAnswered

# How long the provider is asked about an unconfirmed claim, before it is left to a person.
CLAIM_LIFETIME: Final = DAY

# How long after its notification a claim has to be asked about for "not found" to withdraw it.
NOT_FOUND_IS_FINAL_AFTER: Final = HOUR

# How long a claim waits before each question to the provider, or look at its payment; the last
# repeats.
WAKE_INTERVALS: Final[Sequence[Span]] = tuple(
    Span(span) for span in (15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE)
)

# The longest receipt that is booked: every key of a store holds it. Operators' have some ten to
# thirty characters.
RECEIPT_LENGTH_MAX: Final = 64

# How long a claim that names a pending payment waits first: mostly the payment's own result
# explains it.
FIRST_LOOK_AT_PROMPT: Final[Span] = Span(30 * SECOND)

# The bounds of clause M5 for what an operator tells of a payer.
_TEXT_CHARACTERS_MAX: Final = 255
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def reads(input_: DepositInput) -> Reads:
    """Return the keys that `decide` will look at."""
    keys = frozenset(((input_.provider, _receipt(input_)),))
    named = frozenset() if input_.payment is None else frozenset((input_.payment,))
    return Reads(transactions=named, deposits=keys, claims=keys)


def decide(ledger: Ledger, input_: DepositInput, *, now: Moment) -> Decision:
    """Decide what follows from a deposit that is reported, or from the next step of its claim."""
    match input_:
        case inputs.DepositNotified():
            return record_deposit(ledger, input_, now=now)
        case inputs.DepositClaimWoke():
            return wake_claim(ledger, input_, now=now)
        case inputs.DepositAnswered():
            return apply_answer(ledger, input_, now=now)
        case _:
            assert_never(input_)


def actor(input_: DepositInput) -> str:
    """Return who acts, for the journal."""
    if isinstance(input_, inputs.DepositClaimWoke):
        return "clock"
    return f"provider:{input_.provider}"


def detail(input_: DepositInput) -> dict[str, object]:
    """Return what the journal holds of the input."""
    receipt = _receipt(input_)
    match input_:
        case inputs.DepositNotified():
            return {"providerReference": receipt, "amount": str(input_.amount)}
        case inputs.DepositClaimWoke():
            return {"providerReference": receipt}
        case inputs.DepositAnswered():
            return {
                "providerReference": receipt,
                "outcome": input_.outcome,
                "amount": str(input_.amount) if input_.amount else None,
                "detail": input_.detail or None,
            }
        case _:
            assert_never(input_)


def _receipt(input_: DepositInput) -> str:
    if isinstance(input_, inputs.DepositNotified):
        return input_.provider_reference
    return input_.receipt


def record_deposit(ledger: Ledger, input_: inputs.DepositNotified, *, now: Moment) -> Decision:
    """Book the deposit, or open a claim where it is unconfirmed or names a payment.

    A repeated report is ignored, unless it confirms an open claim. One whose receipt has settled
    something else goes to the suspense book, as does one that names an account which is not ours,
    or whose receipt is too long to be one, and one by a simulated account about a payment for
    money, or the other way round."""
    # 1. Nothing was received, or no store could hold its receipt.
    if not input_.succeeded:
        return ignore("A failed deposit makes no transaction.")
    if len(input_.provider_reference) > RECEIPT_LENGTH_MAX:
        return record_in_suspense(input_, SuspenseReason.UNREADABLE, None, now=now)

    # 2. The receipt is known: as a deposit, or as a claim.
    known = ledger.deposit(input_.provider, input_.provider_reference)
    if known is not None:
        return _repeated_deposit(ledger.transaction(known), input_, now=now)

    named = None
    if input_.payment is not None:
        named = ledger.transaction(input_.payment)

    claim = ledger.claim(input_.provider, input_.provider_reference)
    if claim is not None:
        if _is_same_claim(claim, input_):
            return _repeated_claim(ledger, claim, input_, named, now=now)
        return record_in_suspense(input_, SuspenseReason.CONFLICTING_DEPOSIT, named, now=now)

    # 3. It is ours, and of money where the payment is of money.
    is_other_sort = named is not None and named.order.is_simulated is not input_.is_simulated
    if input_.trust is DepositTrust.FOREIGN_ACCOUNT or is_other_sort:
        return record_in_suspense(input_, SuspenseReason.UNMATCHED_DEPOSIT, named, now=now)

    # 4. What the provider itself has confirmed is booked at once, unless it names a payment, which
    # may wait for the same money.
    if input_.trust.is_confirmed and named is None:
        return _book_at_once(input_, now=now)

    return _open_claim(ledger, input_, named, now=now)


def _book_at_once(input_: inputs.DepositNotified, *, now: Moment) -> Decision:
    """Book a confirmed deposit that names no payment. Its receipt is claimed as that of a payment
    is, so that of two processes that settle it at once, one decides again."""
    booked = book_deposit(input_, now=now)
    if not isinstance(booked.reply, Applied):
        return booked
    claimed = settle_receipt(input_.provider_reference, booked.reply.transaction, now=now)
    return evolve(booked, changes=(*booked.changes, claimed))


def book_deposit(input_: inputs.DepositNotified, *, now: Moment) -> Decision:
    """Book a confirmed deposit that is new; one that matches no brand goes to the suspense book."""
    # Money that was received belongs to somebody: what has no owner here is for staff, and nothing
    # is refused.
    if input_.brand is None:
        return record_in_suspense(input_, SuspenseReason.UNMATCHED_DEPOSIT, None, now=now)

    candidates = [
        method
        for method in input_.brand.methods
        if method.key == input_.method and method.provider == input_.provider
    ]
    if not candidates:
        return record_in_suspense(input_, SuspenseReason.UNMATCHED_DEPOSIT, None, now=now)

    # A method may be offered in several countries: the currency tells in which this was paid.
    method = next(
        (candidate for candidate in candidates if input_.amount.currency in candidate.limits), None
    )
    if method is None:
        return record_in_suspense(input_, SuspenseReason.UNSUPPORTED_CURRENCY, None, now=now)

    transaction = _deposit_transaction(input_, input_.brand, method, now=now)
    changes = (
        DepositRecorded(input_.provider, input_.provider_reference, transaction.reference),
        TransactionCreated(transaction),
    )
    if transaction.order.result_url is None:
        return Decision(Applied(transaction), changes)

    return Decision(Applied(transaction), changes, (DeliverCallback(transaction.reference),))


def _deposit_transaction(
    input_: inputs.DepositNotified, brand: Brand, method: Method, *, now: Moment
) -> Transaction:
    """Return a transaction for money that has been received: a success from the beginning, whatever
    the limits say."""
    order = Order(
        gateway_reference=input_.gateway_reference,
        brand=brand.id,
        type=Type.PAYIN,
        flow=Flow.PUSH,
        method=method.key,
        country=method.country,
        provider=input_.provider,
        provider_title=input_.provider_title,
        requested=input_.amount,
        party=deposit_party(input_.party, number=method.tax_authority_account),
        merchant_reference=None,
        reconciliation_reference=None,
        labels=None,
        result_url=brand.push_result_url,
        created_at=now.utc,
        # It has ended as it begins, so it never expires.
        expires_at=now.time,
        utc_offset=elapsed(now.time, now.utc),
        is_simulated=input_.is_simulated,
    )
    progress = Progress(
        stage=Stage.SUCCEEDED,
        version=1,
        wake_at=None,
        provider_reference=input_.provider_reference,
        provider_data=ProviderData(input_.provider, input_.provider_title),
        final=input_.amount,
        completed_at=now.utc,
        completion_source=Source.POLL if input_.trust is DepositTrust.LISTED else Source.WEBHOOK,
    )
    return Transaction(order, progress)


def deposit_party(told: Party, *, number: str) -> Party:
    """Return the payer of a deposit as it is booked, in the bounds of clause M5: texts of at most
    255 characters, none of them a control character, and this number where the provider tells
    none."""
    msisdn = _bounded(told.msisdn) or number
    first_name, last_name = _bounded(told.first_name) or None, _bounded(told.last_name) or None
    return Party(_bounded(told.id) or msisdn, msisdn, first_name, last_name, told.email)


def _bounded(text: str | None) -> str:
    return _CONTROL_CHARACTER.sub(" ", text or "").strip()[:_TEXT_CHARACTERS_MAX].rstrip()


def _is_same_party(before: Transaction, input_: inputs.DepositNotified) -> bool:
    """Tell whether a repeated report names the party on record; one that was masked may have been
    any. Of a deposit that was listed, now or at first, the account or reference counts."""
    known = before.order.party
    told = deposit_party(input_.party, number=known.msisdn)
    # A list names the payer in another form than a notification does.
    if input_.trust is DepositTrust.LISTED or before.progress.completion_source is Source.POLL:
        return known == MASKED_PARTY or known.id == told.id
    return known in (MASKED_PARTY, told)


def _repeated_deposit(
    before: Transaction | None, input_: inputs.DepositNotified, *, now: Moment
) -> Decision:
    if (
        before is not None
        and before.order.requested == input_.amount
        and _is_same_party(before, input_)
    ):
        return ignore("The deposit is on record.", before)
    return record_in_suspense(input_, SuspenseReason.CONFLICTING_DEPOSIT, before, now=now)


def wake_claim(ledger: Ledger, input_: inputs.DepositClaimWoke, *, now: Moment) -> Decision:
    """Do what is due: ask the provider, look at the named payment, or leave the claim to a
    person."""
    claim = ledger.claim(input_.provider, input_.receipt)
    # A wake may come twice, from two processes, or after an answer.
    if (
        claim is None
        or claim.payment != input_.payment
        or claim.wake_at is None
        or now.time < claim.wake_at
    ):
        return ignore("Nothing is due.")

    named = None
    if claim.payment is not None:
        named = ledger.transaction(claim.payment)

    # It is settled by now, by the provider's word or the payment's own end.
    if claim.is_confirmed or _is_explained(claim, named):
        return _settle(ledger, claim, claim, named, now=now)
    if now.time >= claim.expires_at:
        return _withdraw(claim, named, now=now)

    # Nobody has confirmed it: the worker that gets `ClaimDue` asks the provider.
    change = claim_change(claim, _next(claim, now=now))
    return Decision(ClaimDue(change.after or claim), (change,))


def apply_answer(ledger: Ledger, input_: inputs.DepositAnswered, *, now: Moment) -> Decision:
    """Settle or withdraw an unconfirmed claim by the provider's answer, whose account and amount
    count.

    An answer that says nothing usable changes nothing: the provider is asked again. One that comes
    to an address of its own question counts once, and never for a later claim of the receipt."""
    claim = ledger.claim(input_.provider, input_.receipt)
    if (
        claim is None
        or claim.payment != input_.payment
        or claim.wake_at is None
        or claim.is_confirmed
    ):
        return ignore("No claim waits for this answer.")

    asked_at, answered_at = input_.asked_at, claim.answered_at
    # An answer to the address of an old question could be a replay, or of an earlier claim (S5).
    if asked_at is not None and (
        asked_at < claim.received_at or (answered_at is not None and asked_at <= answered_at)
    ):
        return ignore("This question was answered before, or a later one was.")

    named = None
    if claim.payment is not None:
        named = ledger.transaction(claim.payment)

    answered = claim
    if asked_at is not None:
        answered = evolve(claim, answered_at=asked_at)

    match input_.outcome:
        case DepositAnswerOutcome.UNKNOWN:
            return _wait(claim, answered, "The answer says nothing that can be used.", named)
        # Operators find a receipt some time after they notify of it.
        case DepositAnswerOutcome.NOT_FOUND if (
            elapsed(claim.received_at, asked_at or now.time) < NOT_FOUND_IS_FINAL_AFTER
        ):
            return _wait(claim, answered, "It is not found, and may be too new for that.", named)
        case DepositAnswerOutcome.NOT_FOUND | DepositAnswerOutcome.FAILED:
            return _withdraw(claim, named, now=now)
        case DepositAnswerOutcome.COMPLETED:
            pass

    # A receipt of somebody else's account is no money of ours.
    if not input_.is_ours:
        return _withdraw(claim, named, now=now)
    if input_.amount is None:
        return _wait(claim, answered, "The answer names no amount.", named)

    confirmed = evolve(answered, is_confirmed=True)
    # The notification told another amount, so it was made up or spoilt: a person decides.
    if input_.amount != claim.amount:
        return _withdraw(evolve(confirmed, amount=input_.amount), named, now=now, stored=claim)

    return _settle(
        ledger,
        claim,
        confirmed,
        named,
        brand=input_.brand,
        method=input_.method,
        payer=input_.payer,
        now=now,
    )


def _wait(
    claim: DepositClaim, answered: DepositClaim, reason: str, named: Transaction | None
) -> Decision:
    reply = Ignored(reason, named)
    if answered == claim:
        return Decision(reply)

    return Decision(reply, (claim_change(claim, answered),))


def _is_same_claim(claim: DepositClaim, input_: inputs.DepositNotified) -> bool:
    """Tell whether a notification repeats the one that made this claim, or reports the receipt of
    its payment."""
    if claim.payment is not None and claim.payment == input_.payment:
        return claim.amount == input_.amount
    known = (claim.account, claim.amount, claim.payment)
    # What was masked may have been any reference.
    is_same_bill = claim.bill_reference in (MASKED_TEXT, input_.bill_reference)
    return is_same_bill and known == (input_.account, input_.amount, input_.payment)


def _repeated_claim(
    ledger: Ledger,
    claim: DepositClaim,
    input_: inputs.DepositNotified,
    named: Transaction | None,
    *,
    now: Moment,
) -> Decision:
    """Ignore what repeats a claim, unless it is the provider's confirmation of one that waits for
    that, or of one that rests on a notification alone."""
    rests_on_notification = claim.wake_at is not None or claim.payment is not None
    if not input_.trust.is_confirmed or claim.is_confirmed or not rests_on_notification:
        return ignore("The deposit is on record.", named)

    confirmed = evolve(claim, is_confirmed=True)
    told = evolve(confirmed, bill_reference=input_.bill_reference, party=input_.party)
    return _settle(
        ledger,
        claim,
        confirmed,
        named,
        brand=input_.brand,
        method=input_.method,
        told=told if is_masked_claim(claim) else None,
        now=now,
    )


def _open_claim(
    ledger: Ledger, input_: inputs.DepositNotified, named: Transaction | None, *, now: Moment
) -> Decision:
    """Open a claim, or settle it at once when it is confirmed and the payment that it names waits
    for nothing else."""
    # Who is prompted now will mostly be explained by the payment's own result, so a question can
    # wait.
    waits = (
        named is not None
        and not named.progress.stage.is_terminal
        and not _is_paid_by(input_.provider_reference, input_.amount, named)
    )
    first_look = Span(0)
    if waits:
        first_look = FIRST_LOOK_AT_PROMPT

    claim = DepositClaim(
        provider=input_.provider,
        receipt=input_.provider_reference,
        provider_title=input_.provider_title,
        gateway_reference=input_.gateway_reference,
        account=input_.account,
        bill_reference=input_.bill_reference,
        amount=input_.amount,
        party=input_.party,
        payment=None if named is None else named.reference,
        brand=None if named is None else named.order.brand,
        received_at=now.time,
        expires_at=later(now.time, CLAIM_LIFETIME),
        wake_at=later(now.time, first_look),
        is_confirmed=input_.trust.is_confirmed,
        is_simulated=input_.is_simulated,
    )
    if claim.is_confirmed and not waits:
        return _settle(ledger, None, claim, named, now=now)

    reply = Ignored("The deposit is claimed, and not booked yet.", named)
    return Decision(reply, (claim_change(None, claim), *_note_receipt(claim, named)))


def _settle(
    ledger: Ledger,
    stored: DepositClaim | None,
    claim: DepositClaim,
    named: Transaction | None,
    *,
    brand: Brand | None = None,
    method: str = "",
    payer: str = "",
    told: DepositClaim | None = None,
    now: Moment,
) -> Decision:
    """Settle a claim: book it, or leave it open while the payment that it names is pending.
    `payer`: whose number has paid, as the provider says; empty where it does not. `told`: the claim
    as it was told now, for a person to read, where the stored one is masked."""
    told = told or claim
    known = ledger.deposit(claim.provider, claim.receipt)
    # 1. Another process may have booked it meanwhile.
    if known is not None:
        booked = _repeated_deposit(
            ledger.transaction(known), _as_notified(told, brand, method), now=now
        )
    # 2. It names no payment: a deposit of the payer's own accord.
    elif named is None:
        booked = book_deposit(_as_notified(told, brand, method), now=now)
    # 3. Another telephone has paid than the prompt went to: it is certainly not the payment's own.
    elif _is_paid_beside(claim.receipt, payer, named):
        booked = record_in_suspense(told, SuspenseReason.CONFLICTING_DEPOSIT, named, now=now)
    # 4. It is the payment's own money.
    elif _is_explained(claim, named):
        booked = _explain(claim, named)
    # 5. It settles the payment.
    elif _is_paid_by(claim.receipt, claim.amount, named):
        booked = _settle_payment(ledger, claim, named, now=now)
    # 6. The payment's own result may still explain it.
    elif not named.progress.stage.is_terminal:
        waiting = _next(claim, now=now)
        return Decision(
            Ignored("The deposit waits for the payment's end.", named),
            (claim_change(stored, waiting), *_note_receipt(claim, named)),
        )
    # 7. The payment has ended otherwise: the payer may have paid twice.
    else:
        booked = record_in_suspense(told, SuspenseReason.CONFLICTING_DEPOSIT, named, now=now)

    # The settled claim stays, so that its receipt settles nothing else.
    settled = evolve(claim, wake_at=None)
    return Decision(booked.reply, (claim_change(stored, settled), *booked.changes), booked.intents)


def _note_receipt(claim: DepositClaim, named: Transaction | None) -> tuple[Change, ...]:
    """Return the change that lets a pending prompt know the confirmed receipt that names it: one
    that is paid without a receipt of its own takes that, at once."""
    if (
        named is None
        or not claim.is_confirmed
        or claim.amount != named.order.requested
        or named.order.type is not Type.PAYIN
        or named.progress.provider_data is None
        or named.progress.named_by_receipt is not None
    ):
        return ()

    version = named.progress.version + 1
    progress = evolve(named.progress, version=version, named_by_receipt=claim.receipt)
    return (TransactionAdvanced(named, Transaction(named.order, progress)),)


def _is_paid_by(receipt: str, amount: Money, named: Transaction) -> bool:
    """Tell whether a confirmed receipt that names this payment is of the payment itself."""
    order, progress = named.order, named.progress
    # Who scans the code pays by nothing but this reference.
    if order.flow is Flow.QR:
        return True
    if order.type is not Type.PAYIN or progress.stage.is_terminal or progress.provider_data is None:
        return False
    # A prompt of which a receipt was reported has this receipt only.
    if progress.evidence is not None:
        return progress.evidence.receipt == receipt
    # It is called paid without its receipt: this may be it.
    if progress.receipt_awaited_since is not None:
        return amount == order.requested

    # There is no id to ask by, and nobody types such a reference by chance.
    return _is_unheard_of(progress)


def _is_unheard_of(progress: Progress) -> bool:
    """Tell whether the provider has told nothing of a submission, though it was asked."""
    return (
        progress.provider_reference is None and progress.hint is None and not progress.is_unpolled
    )


def _is_paid_beside(receipt: str, payer: str, named: Transaction) -> bool:
    """Tell whether a confirmed receipt is certainly not the named prompt's own: that went to
    another telephone, and the provider has told of it without this receipt."""
    order, progress = named.order, named.progress
    is_prompt = order.type is Type.PAYIN and order.flow is not Flow.QR
    if not is_prompt or order.party == MASKED_PARTY or not payer:
        return False
    # A receipt that the provider has named for the prompt is its own, whoever has paid.
    own = {progress.provider_reference, progress.evidence and progress.evidence.receipt}
    if receipt in own or _is_unheard_of(progress):
        return False
    return _number_within_country(payer) != _number_within_country(order.party.msisdn)


def _number_within_country(msisdn: str) -> str:
    """Return the end of a number, which is one in every notation: the shortest of the markets' have
    eight digits after the dialling code."""
    return "".join(character for character in msisdn if character.isdecimal())[-8:]


def _settle_payment(
    ledger: Ledger, claim: DepositClaim, named: Transaction, *, now: Moment
) -> Decision:
    """Let a confirmed claim end the payment that it names, if it is of its amount."""
    report = inputs.ProviderSucceeded(
        named.reference, claim.provider, Source.WEBHOOK, claim.receipt, claim.amount
    )
    # Another amount than was asked for is not taken for the payment.
    if claim.amount != named.order.requested:
        return record_in_suspense(report, SuspenseReason.AMOUNT_DIFFERS, named, now=now)
    return succeed(ledger, report, now=now)


def _withdraw(
    claim: DepositClaim,
    named: Transaction | None,
    *,
    now: Moment,
    stored: DepositClaim | None = None,
) -> Decision:
    """Leave a claim to a person that the provider does not confirm as it was notified."""
    if claim.is_confirmed:
        reason = SuspenseReason.CONFLICTING_DEPOSIT
    else:
        reason = SuspenseReason.UNCONFIRMED_DEPOSIT

    noted = record_in_suspense(claim, reason, named, now=now)
    return Decision(noted.reply, (claim_change(stored or claim, None), *noted.changes))


def _is_explained(claim: DepositClaim, named: Transaction | None) -> bool:
    """Tell whether the claim's receipt is the one of the payment's own success, or the first
    confirmed one for a success that lacks its own."""
    if named is None or named.progress.stage is not Stage.SUCCEEDED:
        return False
    if named.progress.provider_reference == claim.receipt:
        return True
    key = (claim.provider, claim.receipt)
    return claim.is_confirmed and is_missing_receipt(named, key, claim.amount)


def _explain(claim: DepositClaim, paid: Transaction) -> Decision:
    """Return that the claim is of the payment's own money; its receipt is added where that lacks
    it."""
    reason = "The payment's own result has explained the deposit."
    if paid.progress.provider_reference == claim.receipt:
        return ignore(reason, paid)
    after = with_receipt(paid, claim.receipt)
    return Decision(Ignored(reason, after), (TransactionAdvanced(paid, after),))


def _as_notified(claim: DepositClaim, brand: Brand | None, method: str) -> inputs.DepositNotified:
    return inputs.DepositNotified(
        provider=claim.provider,
        provider_reference=claim.receipt,
        provider_title=claim.provider_title,
        gateway_reference=claim.gateway_reference,
        brand=brand,
        method=method,
        amount=claim.amount,
        party=claim.party,
        account=claim.account,
        bill_reference=claim.bill_reference,
        is_simulated=claim.is_simulated,
    )


def _next(claim: DepositClaim, *, now: Moment) -> DepositClaim:
    """Return the claim as it waits for its next turn."""
    # The index is bounded, so the last interval repeats.
    interval = WAKE_INTERVALS[min(claim.polls, len(WAKE_INTERVALS) - 1)]
    return evolve(claim, polls=claim.polls + 1, wake_at=later(now.time, interval))
