"""Holds the conversations with Wave: checkout sessions, pay-outs, refunds and webhooks.

A pay-in is a session, at whose page the payer approves. Wave knows no repetition of a request for a
session, so before a second one is made Wave is asked for the first by our reference, and what is
not used is ended. A pay-out is sent under a key that follows from our reference, so that a
repetition is answered like the first and pays nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from attrs import frozen

from mmo_provider_wave import checkout, recipients, refunds
from mmo_provider_wave.account import WaveAccount, read_account
from mmo_provider_wave.account_check import (
    BALANCE_PART,
    CHECKOUTS_PART,
    PAYOUTS_PART,
    REFUNDS_PART,
    WEBHOOKS_PART,
    balance_finding,
    submission_finding,
)
from mmo_provider_wave.codes import ACCOUNT_REFUSALS, INCONCLUSIVE, find_failure
from mmo_provider_wave.signatures import HEADER, SignatureFault, check_age, sign, verify
from mmo_provider_wave.wire import (
    FAILED,
    SUCCEEDED,
    Payout,
    Session,
    Unclear,
    parse_body,
    parse_document,
    parse_list,
    parse_refusal,
    payout_body,
    read_payout,
    read_session,
    session_body,
)
from mmo_sansio import (
    HOUR,
    MINUTE,
    SECOND,
    ErrorCode,
    Instant,
    Moment,
    ProviderSucceeded,
    Source,
    Transaction,
)
from mmo_sansio.providers import (
    DIRECT_PAYOUT,
    WEB_PAYIN,
    AccountBalance,
    AccountCheck,
    AccountFinding,
    AccountQuestion,
    AccountState,
    AdapterContext,
    BalanceInquiry,
    BalanceReport,
    Conversation,
    ExchangeFailed,
    Headers,
    HttpRequest,
    HttpResponse,
    OperationKey,
    PayeeInquiry,
    PayeeUnanswered,
    PaymentReports,
    ProviderHinted,
    ProviderNotification,
    ProviderOperation,
    ProviderReport,
    Reversal,
    ReversalConversation,
    ReversalOperation,
    ReversalReports,
    Span,
    Stage,
    Type,
    UnmatchedNotified,
    ask_all,
    object_member,
    operation_key,
    parse_balance,
    return_url,
    stored_text,
    text_member,
)

SESSIONS: Final = "/v1/checkout/sessions"
PAYOUT: Final = "/v1/payout"

PAYOUT_OPERATION: Final = ProviderOperation(
    is_idempotent=True,
    can_be_polled=True,
    # Assumed: docs.wave.com has the search by our reference, and not how soon it finds.
    not_found_is_final_after=Span(15 * MINUTE),
    poll_intervals=(
        *(Span(seconds * SECOND) for seconds in (5, 10, 20, 30, 60, 120)),
        Span(5 * MINUTE),
        Span(15 * MINUTE),
        HOUR,
    ),
)

OPERATIONS: Final[Mapping[OperationKey, ProviderOperation]] = MappingProxyType(
    {WEB_PAYIN: checkout.OPERATION, DIRECT_PAYOUT: PAYOUT_OPERATION}
)

# A gatewayReference: a webhook may be about a payment that another program has made.
_REFERENCE: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)

# The part of the account of each submission, by the end of its path.
_PARTS: Final = (
    (SESSIONS.encode(), CHECKOUTS_PART),
    (PAYOUT.encode(), PAYOUTS_PART),
    (b"/refund", REFUNDS_PART),
)

T = TypeVar("T")

# A part of a conversation; raises ExchangeFailed and Unclear.
Talk: TypeAlias = Generator[HttpRequest, HttpResponse, T]


@frozen
class WaveProvider:
    """Holds the conversations of one account with Wave."""

    name: str
    title: str
    account: WaveAccount

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        """The operations: a pay-in needs a page, from which its payer is sent to Wave's."""
        return OPERATIONS

    @property
    def payer_hosts(self) -> Collection[str]:
        return self.account.payer_hosts

    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Create a session for a payer, or send a pay-out."""
        now = Moment.at(now)
        about = PaymentReports(transaction, self.name)
        if operation_key(transaction) not in OPERATIONS:
            return about.failed(ErrorCode.MERCHANT_MISCONFIGURED)

        # 1. Wave knows no repetition of a session: a second one could be paid besides the first.
        is_payin = transaction.order.type is Type.PAYIN
        try:
            if is_payin and transaction.progress.is_resubmission:
                session = yield from self._search_session(transaction, now=now)
                if session is not None:
                    return checkout.session_report(about, session, now=now)
        except (ExchangeFailed, Unclear) as failure:
            # Nothing was sent: it is asked again.
            return about.unreachable(str(failure))

        # 2. The request itself. A pay-out may be repeated: its key makes it the same one.
        if is_payin:
            request = self._session_request(transaction, now)
        else:
            request = self._payout_request(transaction, now)

        try:
            answer = yield request
        except ExchangeFailed as failure:
            return about.unanswered(failure)

        if answer.status != 200:
            return _refused(about, answer)

        try:
            document = parse_document(answer)
            if is_payin:
                session = read_session(document, transaction.reference)
                return checkout.session_report(about, session, now=now)

            return _payout_report(about, read_payout(document, transaction.reference))
        except Unclear as unclear:
            return _unclear(about, unclear)

    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Ask for the session or the pay-out. A session that nobody may pay any more is ended."""
        now = Moment.at(now)
        about = PaymentReports(transaction, self.name)
        try:
            if transaction.order.type is Type.PAYOUT:
                payout = yield from self._find_payout(transaction, now=now)
                if payout is None:
                    return _not_found(about, PAYOUT_OPERATION, now=now.time)
                return _payout_report(about, payout)

            session = yield from self._find_session(transaction, now=now)
            if session is None:
                return _not_found(about, checkout.OPERATION, now=now.time)

            # Ended before the payment expires, so that nobody pays what was told as failed.
            if session.is_open and checkout.must_end(transaction, now=now):
                session = yield from self._end_session(session, transaction, now=now)

            return checkout.session_report(about, session, now=now)
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)
        except Unclear as unclear:
            return _unclear(about, unclear)

    def check_account(self, *, now: Moment | Instant) -> AccountCheck:
        """Ask for the balance, with which Wave says whether it accepts the key."""
        question = self._question("/v1/balance", now=Moment.at(now))
        judge = AccountQuestion(
            BALANCE_PART, question, lambda response: balance_finding(self.name, response)
        )
        return ask_all(self.name, [judge])

    def judge_answer(self, request: HttpRequest, response: HttpResponse) -> AccountFinding | None:
        """Return what the answer to a submission says about the key."""
        if request.method == "POST":
            for end, part in _PARTS:
                if request.target.endswith(end):
                    return submission_finding(self.name, part, response)
        return None

    def ask_balances(self, *, now: Moment | Instant) -> BalanceInquiry:
        """Ask for the wallet's balance: pay-ins fill it, and pay-outs are paid from it."""
        now = Moment.at(now)
        try:
            answer = yield self._question("/v1/balance", now=now)
            document = parse_document(answer)
            # The wallet is one for both directions.
            amount = parse_balance(document.get("amount"), document.get("currency"))
        except (ExchangeFailed, Unclear, ValueError):
            return BalanceReport()
        balance = AccountBalance(self.name, "wallet", amount, now.time, is_float=True)
        return BalanceReport((balance,))

    def ask_payee(self, msisdn: str, name: str, *, now: Moment | Instant) -> PayeeInquiry:
        """Ask whether the name is that of the number's wallet."""
        body = recipients.verification_body(msisdn, name)
        try:
            answer = yield self._order(recipients.VERIFICATION, body, now=Moment.at(now))
        except ExchangeFailed as failure:
            return PayeeUnanswered(self.name, failure.reason)
        return recipients.verification_report(self.name, answer)

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        """The refunds of checkouts."""
        return refunds.OPERATIONS

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask for the refund of a session, which is found by our reference first."""
        now = Moment.at(now)
        about = ReversalReports(reversal, self.name)
        try:
            session = yield from self._search_session(transaction, now=now)
        except (ExchangeFailed, Unclear):
            # No refund was asked for yet.
            return about.never_received()

        if session is None or not session.was_paid:
            return about.failed("Wave has no paid session of this payment.")

        try:
            answer = yield self._order(f"{SESSIONS}/{session.id}/refund", b"", now=now)
        except ExchangeFailed as failure:
            return about.unanswered(failure)

        return refunds.submission_report(about, answer)

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask for the transactions of the days on which the refund may have been made."""
        now = Moment.at(now)
        about = ReversalReports(reversal, self.name)
        receipt = transaction.progress.provider_reference or ""
        try:
            for day in refunds.days_of(reversal, now=now):
                listed = yield from self._transactions(day.isoformat(), now=now)
                # By the receipt of the payment: a refund has no id of its own.
                if any(refunds.is_refund_of(receipt, item) for item in listed):
                    return about.succeeded()
        except (ExchangeFailed, Unclear) as failure:
            return about.unreachable(str(failure))

        return refunds.not_found(about, now=now)

    def refuse_notification(self, request: HttpRequest, *, now: Moment | Instant) -> str | None:
        """Return why a webhook is not Wave's own: it is not signed, wrongly, or long ago.

        Without `webhook_secret` nothing is refused, and nothing is believed either.
        """
        if not self.account.webhook_secrets:
            return None

        # An old webhook is nobody's: whoever has seen one could send it again.
        try:
            check_age(verify(request, self.account.webhook_secrets), now=Moment.at(now).utc)
        except SignatureFault as fault:
            return str(fault)

        return None

    def read_notification(self, request: HttpRequest) -> ProviderNotification:
        """Read a webhook. Wave signs it with a secret that it has given to this account alone, so
        a paid session counts. A failed attempt is a reason to ask, as the payer may try again."""
        content = stored_text(request.body)
        is_signed = bool(self.account.webhook_secrets)
        try:
            if is_signed:
                verify(request, self.account.webhook_secrets)

            event = parse_body(request.body)
            kind = text_member(event, "type")
            data = object_member(event, "data")
            reference = text_member(data, "client_reference")
        except ValueError:
            return UnmatchedNotified(self.name, content)

        if kind == "test.test_event" and is_signed:
            words = "Wave's test event has arrived, rightly signed."
            return AccountFinding(self.name, WEBHOOKS_PART, AccountState.WORKS, "", words)

        if reference is None or _REFERENCE.fullmatch(reference) is None:
            return UnmatchedNotified(self.name, content)

        # Only a session that was paid, and only signed, is a result by itself.
        if kind == "checkout.session.completed" and is_signed:
            # One that is unclear is a hint.
            with suppress(Unclear):
                return _paid(read_session(data, reference), reference, self.name)

        return ProviderHinted(reference, self.name, content)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """Return the response; Wave repeats a webhook without a 2xx for three days."""
        if accepted:
            return HttpResponse(200)
        return HttpResponse(503)

    def _find_session(self, transaction: Transaction, *, now: Moment) -> Talk[Session | None]:
        """Return the session of a payment: the one that is known, else one that names it."""
        # Once it is paid, the id of a transaction may stand there.
        id = transaction.progress.provider_reference
        if id is None or not id.startswith("cos-"):
            return (yield from self._search_session(transaction, now=now))
        document = parse_document((yield self._question(f"{SESSIONS}/{id}", now=now)))
        return read_session(document, transaction.reference)

    def _search_session(self, transaction: Transaction, *, now: Moment) -> Talk[Session | None]:
        """Return the session that names the payment; None: there is none. Of several one counts,
        and the others are ended."""
        reference = transaction.reference
        listed = yield from self._search(f"{SESSIONS}/search", reference, now=now)
        chosen, others = checkout.choose([read_session(member, reference) for member in listed])

        # Two that can be paid could both be paid.
        for other in others:
            if other.is_open:
                yield from self._expire(other, now=now)
        return chosen

    def _end_session(
        self, session: Session, transaction: Transaction, *, now: Moment
    ) -> Talk[Session]:
        """End a session, and return what has become of it: it may have been paid meanwhile."""
        yield from self._expire(session, now=now)
        # It may have been paid while it was being ended: only asking again tells.
        document = parse_document((yield self._question(f"{SESSIONS}/{session.id}", now=now)))
        ended = read_session(document, transaction.reference)
        if ended.is_open:
            raise Unclear("The session could not be ended.")
        return ended

    def _expire(self, session: Session, *, now: Moment) -> Talk[None]:
        """Ask Wave to end a session. Only the session itself tells whether it has."""
        with suppress(ExchangeFailed):
            yield self._order(f"{SESSIONS}/{session.id}/expire", b"", now=now)

    def _find_payout(self, transaction: Transaction, *, now: Moment) -> Talk[Payout | None]:
        """Return a pay-out by its id, else by our reference; None: there is none."""
        id = transaction.progress.provider_reference
        reference = transaction.reference
        if id is not None and id.startswith("pt-"):
            document = parse_document((yield self._question(f"{PAYOUT}/{id}", now=now)))
            return read_payout(document, reference)

        listed = yield from self._search("/v1/payouts/search", reference, now=now)
        payouts = [read_payout(member, reference) for member in listed]
        return min(payouts, key=_rank, default=None)

    def _search(self, path: str, reference: str, *, now: Moment) -> Talk[list[Mapping[str, Any]]]:
        """Return what Wave finds by our reference; what names another is left out. What names none
        may be ours: then nothing is certain."""
        question = self._question(f"{path}?client_reference={reference}", now=now)
        listed = parse_list((yield question), "result")
        if not all(session.get("client_reference") for session in listed):
            raise Unclear("Wave's answer lists what names no payment.")
        return [member for member in listed if member.get("client_reference") == reference]

    def _transactions(self, day: str, *, now: Moment) -> Talk[list[Mapping[str, Any]]]:
        """Return all transactions of a day."""
        transactions: list[Mapping[str, Any]] = []
        path = f"/v1/transactions?date={day}"
        for _ in range(refunds.PAGES_MAX):
            answer = yield self._question(path, now=now)
            transactions += parse_list(answer, "items")
            pages = parse_document(answer).get("page_info")
            if not isinstance(pages, dict) or pages.get("has_next_page") is not True:
                return transactions

            # It becomes a part of an address: nothing of it may begin another parameter.
            cursor = str(pages.get("end_cursor"))
            if _CURSOR.fullmatch(cursor) is None:
                raise Unclear("Wave's list of transactions does not go on.")

            path = f"/v1/transactions?date={day}&after={cursor}"

        raise Unclear("The day has more transactions than are read.")

    def _session_request(self, transaction: Transaction, now: Moment) -> HttpRequest:
        order = transaction.order
        payer = None
        if self.account.restricts_payer:
            payer = order.party.msisdn or None

        address = return_url(self.account.pages_url, order)
        return self._order(SESSIONS, session_body(order, address, payer), now=now)

    def _payout_request(self, transaction: Transaction, now: Moment) -> HttpRequest:
        # The key is the same for each repetition, and so are the bytes of the body.
        key = (b"idempotency-key", transaction.reference.encode())
        return self._order(PAYOUT, payout_body(transaction.order), key, now=now)

    def _order(
        self, path: str, body: bytes, *headers: tuple[bytes, bytes], now: Moment
    ) -> HttpRequest:
        own = self._headers(body, now=now.utc)
        if body:
            own = (*own, (b"content-type", b"application/json"))

        own = (*own, *headers)
        return HttpRequest("POST", f"{self.account.base_url}{path}".encode(), own, body)

    def _question(self, path: str, *, now: Moment) -> HttpRequest:
        target = f"{self.account.base_url}{path}".encode()
        return HttpRequest("GET", target, self._headers(b"", now=now.utc))

    def _headers(self, body: bytes, *, now: Instant) -> Headers:
        key = (b"authorization", f"Bearer {self.account.api_key}".encode())
        if self.account.signing_secret is None:
            return (key,)
        return (key, (HEADER, sign(self.account.signing_secret, body, now=now)))


_CURSOR: Final = re.compile(r"[0-9A-Za-z_=.-]{1,500}", re.ASCII)


def open_wave(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> WaveProvider:
    """Return the adapter of one account. Raises SettingsError."""
    return WaveProvider(name, title, read_account(options, pages_url=context.pages_url))


def _refused(about: PaymentReports, response: HttpResponse) -> ProviderReport:
    """Return the report from an answer other than 200 to a submission. Only what Wave itself says
    of the request counts: what is wrong with it, or that nothing was done."""
    refusal = parse_refusal(response.body)
    unclear = about.unreachable(f"A submission was answered {response.status}.")

    # 1. Too many requests: nothing was done.
    if response.status == 429:
        return about.never_received()

    # 2. No word of Wave's, or one that leaves it open.
    if refusal is None or refusal.code in INCONCLUSIVE:
        return unclear

    # 3. It refuses our account, and says nothing of the payment.
    if response.status in (401, 403) and refusal.code in ACCOUNT_REFUSALS:
        return about.never_received()

    # 4. It refuses the request (assumed, from docs.wave.com's error codes).
    if response.status in (400, 422):
        code = refusal.error_code(about.transaction.order.type)
        message = refusal.message or find_failure(refusal.code).reason
        return about.failed(code, refusal.code, message)

    return unclear


def _rank(payout: Payout) -> int:
    """Order pay-outs of one reference: what is paid counts, and a failure where nothing else is."""
    # A reference has one pay-out, if nothing goes wrong; a paid one must not be overlooked.
    return {SUCCEEDED: 0, FAILED: 2}.get(payout.status, 1)


def _payout_report(about: PaymentReports, payout: Payout) -> ProviderReport:
    match payout.status:
        case "succeeded":
            return about.succeeded(payout.id, payout.amount)
        case "processing":
            return about.accepted(payout.id, is_told_when_asked=True)
        case "failed":
            failure = find_failure(payout.error_code)
            message = payout.error_message or failure.reason
            code = failure.error_code(Type.PAYOUT)
            return about.failed(code, payout.error_code, message, payout.id)
        # Given back by Wave: a merchant may have been told that it was paid.
        case "reversed":
            raise Unclear("It was paid, and reversed.", is_paid=True, receipt=payout.id)
        case _:
            raise Unclear("Its status is none that is known.")


def _not_found(
    about: PaymentReports, operation: ProviderOperation, *, now: Instant
) -> ProviderReport:
    """Return the report where Wave finds nothing. What it had accepted is never sent again."""
    progress = about.transaction.progress
    # A second one could be paid besides the first (S6).
    if progress.stage is Stage.AWAITING_RESULT:
        return about.unreachable("It was accepted, and is not found.")

    submitted_at = progress.submitted_at
    if submitted_at is None or not operation.is_not_found_final(submitted_at, now=now):
        return about.unreachable("It is not found, and may be too new for that.")
    return about.never_received()


def _unclear(about: PaymentReports, unclear: Unclear) -> ProviderReport:
    # What was called paid is never told as failed.
    if unclear.is_paid:
        return about.doubtfully_paid(str(unclear), SUCCEEDED, unclear.receipt)
    return about.unreachable(str(unclear))


def _paid(session: Session, reference: str, name: str) -> ProviderSucceeded:
    """Return the report from the session of a webhook. Raises Unclear for one that is not paid."""
    if session.payment_status != SUCCEEDED:
        raise Unclear("It is not paid.")

    return ProviderSucceeded(
        reference,
        name,
        Source.WEBHOOK,
        session.transaction_id,
        session.amount,
        lacks_receipt=session.transaction_id is None,
    )
