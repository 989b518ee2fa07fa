"""Turns the operator's responses and callbacks into reports.

The payment's own status decides; a code by itself only rejects a payment that was never begun. An
ambiguous, contradictory or undocumented response causes another poll, never a guess (S6); a failure
whose code is ambiguous is believed when it is said for long enough, or by an authentic callback. A
callback is no result, as none contains an amount; an authentic success is evidence against a
failure that the enquiry then reports.

A refund gives a collection back whole, by its airtel_money_id. It takes no id of ours, and no
document names a question about one. So an answer that leaves its outcome open leaves it to Airtel's
statement and a person."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from attrs import evolve, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages import inputs
from mmo_sansio.messages.reversals import ReversalReport
from mmo_sansio.providers.airtel_money import codes, wire
from mmo_sansio.providers.airtel_money.account import AirtelAccount
from mmo_sansio.providers.common.account_check import SubmissionPart, no_answer_finding
from mmo_sansio.providers.common.interface import (
    AccountFinding,
    AccountState,
    PaymentReports,
    ReversalReports,
)
from mmo_sansio.providers.common.operations import ProviderOperation, ReversalOperation
from mmo_sansio.providers.common.payees import payee_named
from mmo_sansio.providers.common.wire import parse_json, stored_text
from mmo_sansio.values.clock import HOUR, Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Evidence, Type
from mmo_sansio.values.payees import PayeeReport, PayeeUnanswered, PayeeUnknown

# The status of a submission that the operator's rate limit rejected before processing.
TOO_MANY_REQUESTS = 429

ACCOUNT_PART: Final = "client_id"

_ACCOUNT_REFUSED: Final = (
    "Airtel refuses this application: {}. Whoever manages it in Airtel's portal compares country, "
    "currency and products with the settings; Airtel's support adds what is missing."
)

_TURNED_AWAY: Final = (
    "A firewall in front of Airtel turns this gateway away. Ask Airtel to let the address pass "
    "from which this gateway sends."
)

# Sent once: it has no id of ours, and no document names a question about it.
REFUND: Final = ReversalOperation(
    is_idempotent=False, can_be_polled=False, not_found_is_final_after=None, poll_intervals=(HOUR,)
)

# `SUCCESS` in the portal's sample of a refund, `TS` elsewhere.
_DONE_STATUSES: Final = ("SUCCESS", "TS")
_REFUSALS: Final = (codes.AirtelOutcome.REJECTED, codes.AirtelOutcome.NOT_FOUND)
# Ambiguous, and in progress (documented, enquiry).
_PENDING_STATUSES = frozenset({"TA", "TIP"})
# Ours have letters and digits only.
_ID = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)


@frozen
class AirtelPayment(PaymentReports):
    """Makes the reports about one payment, by the account's own codes."""

    account: AirtelAccount

    @property
    def is_payin(self) -> bool:
        return self.transaction.order.type is Type.PAYIN

    def find_code(self, response: wire.AirtelResponse) -> codes.AirtelCode | None:
        table = codes.DISBURSEMENT
        if self.is_payin:
            table = codes.COLLECTION
        return codes.find_code(response.code, response.message, table)

    @property
    def was_told_paid(self) -> bool:
        """Whether a response (`told_paid`, `doubtfully_told_paid`) or a callback has said `TS`."""
        progress = self.transaction.progress
        is_told = progress.provider_reference is not None or progress.evidence is not None
        return is_told or '"TS"' in (progress.hint or "")

    def was_told_failed(self, *, now: Instant) -> bool:
        """Tell whether an authentic callback has said `TF`, or nothing else was heard for
        AMBIGUOUS_FAILURE_FINAL_AFTER; never after a `TS`."""
        progress = self.transaction.progress
        if self.was_told_paid:
            return False

        # With a key only authentic callbacks are kept; without one it is anybody's hint.
        if self.account.callback_key is not None and '"TF"' in (progress.hint or ""):
            return True

        since = progress.denied_since
        return since is not None and now - since >= codes.AMBIGUOUS_FAILURE_FINAL_AFTER

    def told_paid(self, response: wire.AirtelResponse) -> inputs.ProviderAccepted:
        """Report that the response to a submission says `TS`, but not beyond doubt: the payer may
        not have answered yet. Its id stays with the payment, which is never sent again."""
        return self.accepted(response.airtel_money_id or self.transaction.reference)

    def doubtfully_told_paid(
        self, response: wire.AirtelResponse, doubt: str
    ) -> inputs.ProviderUnreachable:
        """Report that an answer to a poll says `TS`, and something that leaves a doubt."""
        reason = f"Airtel Money says TS, but {doubt}."
        return self.doubtfully_paid(reason, "TS", response.airtel_money_id)

    def paid(self, response: wire.AirtelResponse) -> inputs.ProviderSucceeded:
        """Report that the payment was paid, with Airtel's id."""
        return self.succeeded(response.airtel_money_id)

    def rejected(
        self, error_code: ErrorCode, native_code: str | None, message: str | None
    ) -> inputs.ProviderFailed:
        """Report that the payment was not and will not be paid, by a code whose meaning depends on
        the market."""
        if (
            self.account.is_rejection_by_payer
            and self.is_payin
            and native_code == codes.REJECTED_BY_PAYER_CODE
        ):
            error_code = ErrorCode.USER_CANCELLED

        return self.failed(error_code, native_code, message)

    def unknown(self, problem: str) -> inputs.ProviderUnreachable:
        """Report what Airtel Money did, from which nothing is known."""
        return self.unreachable(f"Airtel Money {problem}.")


def submission_report(
    response: wire.AirtelResponse, payment: AirtelPayment
) -> inputs.ProviderReport:
    """Return the report from the response to a submission. The response to a pay-in is never its
    result, whatever it says."""
    code = payment.find_code(response)

    # 1. Paid, beyond doubt: only of a pay-out can the answer itself say so.
    if not payment.is_payin and _is_paid_out(response, code, payment.account):
        return payment.paid(response)

    # 2. Called paid, but not beyond doubt: it is asked about.
    if response.transaction_status == "TS":
        return payment.told_paid(response)

    # 3. Nothing is known.
    if codes.is_inconclusive_status(response.status) or not response.is_clear:
        return payment.unknown(f"gave no clear answer ({response.status}) to a submission")

    # 4. Nothing was taken: it waits, and is sent again.
    if response.status == TOO_MANY_REQUESTS:
        return payment.never_received()
    if refuses_account(response, code):
        return payment.never_received()

    # 5. Refused, by a code.
    if _is_rejected(response, code):
        assert code is not None
        assert code.error_code is not None
        return payment.rejected(code.error_code, response.code, response.message)

    # 6. Refused without a code; of a resubmission that may be due to the first one.
    if (
        code is None
        and response.status in codes.HTTP_REJECTIONS
        and not payment.transaction.progress.is_resubmission
    ):
        native_code = response.code or f"HTTP {response.status}"
        return payment.rejected(
            codes.HTTP_REJECTIONS[response.status], native_code, response.message
        )

    # 7. Taken, and open.
    if (response.status == 200 and response.success) or (
        code and code.outcome is codes.AirtelOutcome.PENDING
    ):
        return payment.accepted()

    return payment.unknown(f"answered {response.status} with {response.code or 'no code'}")


def poll_report(
    response: wire.AirtelResponse,
    payment: AirtelPayment,
    operation: ProviderOperation,
    *,
    now: Instant,
) -> inputs.ProviderReport:
    """Return the report from the response to a poll. Rejections without the payment's status reject
    the poll only."""
    # Another payment's answer fails nothing, and its `TS` is kept for a person to see.
    if response.transaction_id not in (None, payment.transaction.reference):
        if response.transaction_status == "TS":
            return payment.doubtfully_told_paid(response, "names another payment")
        return payment.unknown("answered about another payment")

    code = payment.find_code(response)
    is_answer = response.status == 200 and response.is_clear
    is_contradicted = code is not None and code.outcome in _REFUSALS
    match response.transaction_status:
        # 1. Paid: every part of the answer says so.
        case "TS" if is_answer and response.success is True and not is_contradicted:
            return payment.paid(response)
        # 2. Paid, and something contradicts it: asked again, and never failed.
        case "TS":
            answered = f"answers {response.status} with {response.code or 'no code'}"
            return payment.doubtfully_told_paid(response, answered)
        # 3. Failed. An ambiguous code has to be said for long enough.
        case "TF" if is_answer:
            if code is None:
                return payment.rejected(
                    ErrorCode.TRANSACTION_DECLINED, response.code, response.message
                )
            if code.error_code is not None and (
                not code.is_ambiguous or payment.was_told_failed(now=now)
            ):
                return payment.rejected(code.error_code, response.code, response.message)
            if code.is_ambiguous:
                return evolve(
                    payment.unknown(f"says that it failed, with the ambiguous code {code.native}"),
                    denies_payment=not payment.was_told_paid,
                )
        # 4. Expired: documented of collections only.
        case "TE" if is_answer and payment.is_payin:
            return payment.rejected(ErrorCode.USER_TIMEOUT, response.code or "TE", response.message)
        # 5. Ambiguous, or in progress.
        case "TA" | "TIP" if is_answer:
            return payment.accepted()
        # 6. Not found, and no status that would contradict it.
        case None if (
            code is not None and code.outcome is codes.AirtelOutcome.NOT_FOUND and response.is_clear
        ):
            submitted_at = payment.transaction.progress.submitted_at
            if payment.was_told_paid:
                return payment.unknown("does not find a payment that it has told as paid")
            if submitted_at is not None and operation.is_not_found_final(submitted_at, now=now):
                return payment.never_received()

    # 7. Anything else says nothing about the payment.
    answered = f"{response.transaction_status or 'no status'} and {response.code or 'no code'}"
    return payment.unknown(f"answered {response.status} with {answered} to a poll")


def _is_paid_out(
    response: wire.AirtelResponse, code: codes.AirtelCode | None, account: AirtelAccount
) -> bool:
    """Return whether all parts of the response say so; only the oldest version leaves the status
    out."""
    says_status = response.transaction_status == "TS" or (
        response.transaction_status is None and account.disbursement_version == 1
    )
    is_done = code is not None and code.outcome is codes.AirtelOutcome.DONE
    return response.status == 200 and response.success is True and is_done and says_status


def _is_rejected(response: wire.AirtelResponse, code: codes.AirtelCode | None) -> bool:
    """Return whether the payment was certainly not begun: no part of the response contradicts
    it."""
    if code is None or code.outcome is not codes.AirtelOutcome.REJECTED or response.success is True:
        return False
    # Success false, or an error's status: without either it refuses nothing.
    is_said = response.status >= 400 or response.success is False
    return is_said and response.transaction_status not in ("TS", *_PENDING_STATUSES)


def refuses_account(response: wire.AirtelResponse, code: codes.AirtelCode | None) -> bool:
    """Tell whether the answer to a submission refuses the application, its signature or our PIN, so
    that it says nothing of the payment. One code is used for the payer's number as well, and its
    words tell which is meant: `find_code` has read them. A 403 that is not in Airtel's form comes
    from a firewall in front of it, which would turn away each payment."""
    # Without a code the status is all there is.
    if code is None:
        return response.status in (401, 403) and response.success is not True
    is_ours = code.error_code is ErrorCode.MERCHANT_MISCONFIGURED
    return is_ours and code.native in codes.ACCOUNT_REFUSALS and _is_rejected(response, code)


def _is_airtels(response: wire.AirtelResponse, code: codes.AirtelCode | None) -> bool:
    """Tell whether Airtel itself refuses the account, and not a firewall in front of it, whose 403
    has neither a code nor a success."""
    return code is not None or response.success is not None or response.status != 403


def submission_finding(
    provider: str, part: SubmissionPart, response: wire.AirtelResponse
) -> AccountFinding | None:
    """Return what the answer to a submission says about our account: a refusal, or that it is
    taken; None: nothing."""
    if codes.is_inconclusive_status(response.status) or not response.is_clear:
        return None

    table = codes.COLLECTION
    if Type.PAYOUT in part.held:
        table = codes.DISBURSEMENT

    code = codes.find_code(response.code, response.message, table)
    if refuses_account(response, code):
        meaning = "it has no permission"
        shown = f"HTTP {response.status}"
        if code is not None:
            meaning = code.meaning
            shown = code.native

        # Who has to act differs: Airtel's support, or whoever runs the firewall before it.
        words = _TURNED_AWAY
        if _is_airtels(response, code):
            words = _ACCOUNT_REFUSED.format(meaning)

        return part.refused(provider, shown, words)

    if response.status == 200 and response.success:
        return part.works(provider)

    return None


def refund_report(response: wire.AirtelResponse, about: ReversalReports) -> ReversalReport:
    """Return the report from the response to a refund. The money is back when all parts of the
    response say so; the portal's own sample has `"success": false` beside a SUCCESS, which can be
    read in two ways."""
    code = codes.find_code(response.code, response.message, codes.COLLECTION)
    status = response.status
    is_done = response.transaction_status in _DONE_STATUSES

    # 1. Nothing was taken: too many requests, or Airtel refuses the account.
    if status == TOO_MANY_REQUESTS:
        return about.never_received()

    # A firewall's 403 is no word of Airtel's. A payment waits all the same; but no id of ours tells
    # whether a refund has arrived, so it is left to a person.
    is_refused = not codes.is_inconclusive_status(status) and refuses_account(response, code)
    if is_refused and _is_airtels(response, code):
        return about.never_received()

    # 2. An answer that can be read in one way.
    if not codes.is_inconclusive_status(status) and response.is_clear:
        # That the payment is not found also says that nothing was given back.
        is_refusal = code is not None and (
            code.outcome in _REFUSALS or code.native == codes.NOT_FOUND_CODE
        )
        if is_done and status == 200 and response.success is True and not is_refusal:
            return about.succeeded(response.airtel_money_id)

        if code is not None and is_refusal and not is_done and response.success is not True:
            # A refund is paid from our wallet: it is we who have not enough balance.
            return about.failed(
                f"Airtel has refused it: {code.meaning}.",
                code.native,
                lacks_float=code.error_code is ErrorCode.USER_INSUFFICIENT_FUNDS,
            )

        if code is None and status in codes.HTTP_REJECTIONS and not is_refused:
            return about.failed(
                "Airtel has refused it: the application has no permission.", f"HTTP {status}"
            )

    # 3. It may be back or not, and no question tells.
    shown = f"{response.transaction_status or 'no status'} and {response.code or 'no code'}"
    return about.unreachable(f"Airtel Money answered {status} with {shown} to a refund.")


def payee_report(provider: str, number: str, response: HttpResponse) -> PayeeReport:
    """Return what the answer to a user enquiry about this national number tells. What it names
    counts only where the enquiry was successful, and of no other number."""
    # "Unknown" has to be Airtel's own word: a proxy's 404 says nothing of the number.
    answer = wire.parse_response(response)
    if answer.code in codes.UNKNOWN_USER and not codes.is_inconclusive_status(response.status):
        return PayeeUnknown(provider)
    if response.status != 200 or answer.success is not True:
        return PayeeUnanswered(provider, f"A question was answered {response.status}.")

    data = wire.object_member(parse_json(response.body, number=str), "data")
    # Where a number is named it has to be this one, with or without what stands before it.
    named = (wire.text_member(data, "msisdn") or "").lstrip("+0")
    if named.isdecimal() and not named.endswith(number.lstrip("0")):
        return PayeeUnanswered(provider, "An answer is about another number.")

    names = (data.get("first_name"), data.get("last_name"))
    return payee_named(provider, *names, is_barred=data.get("is_barred"))


def account_finding(
    provider: str, response: HttpResponse, *, asks_balance: bool
) -> AccountFinding | None:
    """Return what the answer to a question about an unknown payment or the balance says about our
    account: that the payment is not found shows that all else is accepted. Not every market offers
    the balance, so its answer counts only where it is a refusal. A refusal may come as HTTP 200."""
    answer = wire.parse_response(response)
    code = codes.find_code(answer.code, answer.message, codes.COLLECTION)
    shown = f"HTTP {response.status}"
    meaning = "it has no permission"
    if code:
        shown = code.native
        meaning = code.meaning

    # 1. Refused, also as HTTP 200: by the status, or by a code that every request would meet.
    if response.status in codes.HTTP_REJECTIONS or (
        code and code.error_code is ErrorCode.MERCHANT_MISCONFIGURED
    ):
        words = _ACCOUNT_REFUSED.format(meaning)
        return AccountFinding(provider, ACCOUNT_PART, AccountState.REFUSED, shown, words)

    if asks_balance:
        return None

    # 2. It works: the question was answered by "not found".
    if code and (
        code.outcome is codes.AirtelOutcome.NOT_FOUND or code.native == codes.NOT_FOUND_CODE
    ):
        return AccountFinding(
            provider,
            ACCOUNT_PART,
            AccountState.WORKS,
            shown,
            "Airtel answers questions about payments.",
        )

    return no_answer_finding(provider, ACCOUNT_PART, shown)


def callback_hash(key: str, text: bytes) -> str:
    """Return the Base64 of the HMAC-SHA256 of a text, which authenticates a callback."""
    return base64.b64encode(hmac.digest(key.encode(), text, hashlib.sha256)).decode()


def read_callback(
    request: HttpRequest, account: AirtelAccount, provider: str
) -> inputs.ProviderHinted | inputs.UnmatchedNotified:
    """Return the payment of a callback; a forged or unreadable callback goes to the suspense
    book."""
    content = stored_text(request.body)
    try:
        document = parse_json(request.body)
    except ValueError:
        return inputs.UnmatchedNotified(provider, content)

    transaction = wire.object_member(document, "transaction")
    id = transaction.get("id")
    if not isinstance(id, str) or _ID.fullmatch(id) is None:
        return inputs.UnmatchedNotified(provider, content)

    # With a key what is not authentic is nobody's; without one a callback is a hint only.
    if account.callback_key is not None and not _is_authentic(
        request, document, account.callback_key, account.callback_hash_header
    ):
        return inputs.UnmatchedNotified(provider, content)

    code = wire.text_member(transaction, "status_code")
    receipt = wire.text_member(transaction, "airtel_money_id")
    hint = inputs.ProviderHinted(id, provider, content, says_paid=code == "TS")

    # Only an authentic success that names Airtel's id is evidence.
    if account.callback_key is None or code != "TS" or receipt is None:
        return hint

    return evolve(hint, native_code=code, evidence=Evidence(receipt, code))


def _is_authentic(request: HttpRequest, document: dict[str, Any], key: str, header: str) -> bool:
    """Return whether the hash, in the body or in a header, matches one of the candidates."""
    # In the body in most documents, in a header in one (Airtel Money Tchad API v3.0).
    claimed = request.value(header.encode()) or b""
    in_body = document.get("hash")
    if isinstance(in_body, str) and in_body:
        claimed = in_body.encode()

    # Clients differ in what the hash covers: each candidate is compared, in constant time.
    matches = [
        hmac.compare_digest(claimed, callback_hash(key, text).encode())
        for text in _hash_candidates(request.body, document)
    ]
    return any(matches)


def _hash_candidates(body: bytes, document: dict[str, Any]) -> Iterator[bytes]:
    """Yield the texts that a hash may be of: the `transaction` as received, the same as compact
    JSON, and the whole body."""
    yield (wire.raw_member(body.decode("utf-8-sig"), "transaction") or "").encode()
    compact = json.dumps(document["transaction"], ensure_ascii=False, separators=(",", ":"))
    yield compact.encode()
    yield body
