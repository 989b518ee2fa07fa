"""Holds the conversations with MTN MoMo: submissions, polls, tokens, callbacks, and the check of an
account.

A response is classified by its `code` and not by its status: several of the operator's 500s are
permanent faults of a request. An open outcome is polled; "not found" counts when a submission is
old enough to be found, and then it is submitted again under the same X-Reference-Id, which the
operator accepts once.

A callback is a PUT or a POST that comes once or often, unsigned, without the X-Reference-Id. Each
submission has its own callback address, which ends in the gatewayReference; the body repeats it as
`externalId`. Where both are present they must agree."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderFailed,
    ProviderHinted,
    ProviderReport,
    UnmatchedNotified,
)
from mmo_sansio.messages.reversals import ReversalHinted
from mmo_sansio.providers.common.account_check import (
    AccountQuestion,
    SubmissionPart,
    ask_all,
    no_answer_finding,
)
from mmo_sansio.providers.common.balances import (
    AccountBalance,
    BalanceInquiry,
    BalanceReport,
    parse_balance,
)
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountCheck,
    AccountFinding,
    AccountState,
    Conversation,
    ExchangeFailed,
    PaymentReports,
    ReversalConversation,
    ReversalReports,
    SignIn,
    SignInFailed,
)
from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    WEB_PAYIN,
    OperationKey,
    ProviderOperation,
    ReversalOperation,
    operation_key,
)
from mmo_sansio.providers.common.payees import PayeeInquiry, payee_named
from mmo_sansio.providers.common.wire import (
    parse_token_lifetime,
    plain_amount,
    stored_text,
    to_json,
)
from mmo_sansio.providers.mtn_momo import codes, refunds, wire
from mmo_sansio.providers.mtn_momo.account import MtnAccount, MtnProduct
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Moment, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Transaction, Type
from mmo_sansio.values.payees import PayeeReport, PayeeUnanswered, PayeeUnknown
from mmo_sansio.values.reversals import Reversal

# The lifetime of a token whose response has none.
TOKEN_LIFETIME = HOUR

# The polls are frequent while the payer may approve, five minutes and a little longer; then rare.
POLL_INTERVALS: Final[Sequence[Span]] = (
    Span(10 * SECOND),
    Span(10 * SECOND),
    Span(20 * SECOND),
    *(Span(30 * SECOND) for _ in range(11)),
    Span(5 * MINUTE),
    Span(15 * MINUTE),
    HOUR,
)

# A submission may be accepted before it can be found. This is longer than any request may take.
NOT_FOUND_IS_FINAL_AFTER: Final[Span] = MINUTE

# For how long the operator must have known nothing of a payment that it had accepted, until the
# payment fails. Its page on common errors says of this answer that the debit or transfer is
# unsuccessful.
NOT_FOUND_FAILS_AFTER: Final[Span] = DAY

_OPERATION = ProviderOperation(
    is_idempotent=True,
    can_be_polled=True,
    not_found_is_final_after=NOT_FOUND_IS_FINAL_AFTER,
    poll_intervals=POLL_INTERVALS,
)

# The operations of Collection; a web pay-in is a direct one that began on the gateway's own page.
PAYINS: Final[Mapping[OperationKey, ProviderOperation]] = MappingProxyType(
    dict.fromkeys((DIRECT_PAYIN, WEB_PAYIN), _OPERATION)
)

# The operations of Disbursement.
PAYOUTS: Final[Mapping[OperationKey, ProviderOperation]] = MappingProxyType(
    {DIRECT_PAYOUT: _OPERATION}
)

BALANCE_PATH: Final = "account/balance"

# An X-Reference-Id that no payment has.
IMPOSSIBLE_ID: Final = "00000000-0000-4000-8000-000000000000"


# The part of the account that is found to work or not, by the path of a submission.
_SUBMISSION_PARTS: Final[Mapping[str, SubmissionPart]] = MappingProxyType(
    {
        "collection/v1_0/requesttopay": SubmissionPart("collection_submissions", (Type.PAYIN,)),
        "disbursement/v1_0/transfer": SubmissionPart("disbursement_submissions", (Type.PAYOUT,)),
        "disbursement/v1_0/refund": SubmissionPart("refund_submissions", holds_reversals=True),
    }
)


@frozen
class MtnMomoProvider:
    """Holds the conversations of one account with MTN MoMo."""

    name: str
    title: str
    account: MtnAccount

    @property
    def base_url(self) -> str:
        return self.account.base_url

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        """The operations: pay-ins with Collection, pay-outs with Disbursement."""
        operations: dict[OperationKey, ProviderOperation] = {}
        if self.account.collection:
            operations.update(PAYINS)
        if self.account.disbursement:
            operations.update(PAYOUTS)
        return operations

    def scope_of(self, request: HttpRequest) -> str | None:
        """Return the product, because the token of one is not valid for the other."""
        path = request.target.decode("ascii", "replace").removeprefix(self.account.base_url)
        product = path.split("/")[1:2]
        if product and product[0] in self.account.products:
            return product[0]
        return None

    def sign_in(self, scope: str, *, now: Moment | Instant) -> SignIn:
        """Get a product's token with its API user and key, and an empty body. MTN's second platform
        rejects the request without the X-Target-Environment."""
        now = Moment.at(now)
        product = self.account.products[scope]
        target = f"{self.account.base_url}/{product.name}/token/".encode()
        headers = ((b"authorization", product.credentials), *self.account.headers(product))
        answer = yield HttpRequest("POST", target, headers)
        if answer.status != 200:
            raise SignInFailed(
                f"The token request was answered {answer.status}.", status=answer.status
            )

        try:
            document = wire.parse_json(answer.body)
            value = wire.text_member(document, "access_token")
            life = parse_token_lifetime(document.get("expires_in"), default=TOKEN_LIFETIME)
        except ValueError:
            raise SignInFailed(
                "The answer to the token request can't be read.", status=answer.status
            ) from None

        # It becomes a header, so that nothing in it may end one.
        if not (value and value.isascii() and value.isprintable() and " " not in value):
            raise SignInFailed(
                "The answer to the token request holds no token.", status=answer.status
            )

        return AccessToken(value, issued_at=now.time, expires_at=later(now.time, life))

    def rejects_token(self, response: HttpResponse) -> bool:
        """Return whether the response is a 401, after which nothing was done."""
        return response.status == 401

    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Request a payment by the payer, or a transfer to the payee."""
        about = PaymentReports(transaction, self.name)
        product = self._product(transaction)
        if product is None or operation_key(transaction) not in self.operations:
            return about.failed(ErrorCode.MERCHANT_MISCONFIGURED)

        # The id is the same for each repetition, and MTN takes it once.
        headers = (
            (b"x-reference-id", reference_id(transaction.reference).encode()),
            *self.account.headers(product),
            *self.account.callback_header(transaction.reference),
            (b"content-type", b"application/json"),
        )
        target = self._target(transaction)
        try:
            answer = yield HttpRequest("POST", target, headers, self._submission_body(transaction))
        except ExchangeFailed as failure:
            return about.unanswered(failure)

        return self._read_submission_response(about, answer)

    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        now = Moment.at(now)
        about = PaymentReports(transaction, self.name)
        product = self._product(transaction)

        # Unknown, not failed: the keys may come back, and the payment may have been paid.
        if product is None:
            return about.unreachable("The account has no keys for this any more.")

        try:
            target = self._target(transaction) + b"/" + reference_id(transaction.reference).encode()
            answer = yield HttpRequest("GET", target, self.account.headers(product))
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)

        # A 404 without MTN's own code is a proxy's, and proves nothing.
        if answer.status == 404:
            reason = wire.parse_error_body(answer.body)
            if reason.code in codes.NOT_FOUND_CODES:
                return self._read_not_found(about, reason, now=now.time)

        return self._read_poll_response(about, answer)

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        """The refunds of payments that Collection took, which Disbursement pays."""
        # A refund is paid from Disbursement's account, and names a request of Collection.
        has_both = self.account.collection is not None and self.account.disbursement is not None
        if has_both:
            return dict.fromkeys(PAYINS, refunds.REFUND)
        return {}

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask for a refund of the request to pay."""
        ids = {"id": reference_id(reversal.id), "refunded_id": reference_id(transaction.reference)}
        return refunds.submit(self.account, ReversalReports(reversal, self.name), **ids)

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        now = Moment.at(now)
        return refunds.poll(
            self.account,
            ReversalReports(reversal, self.name),
            id=reference_id(reversal.id),
            now=now.time,
        )

    def ask_payee(self, msisdn: str, name: str, *, now: Moment | Instant) -> PayeeInquiry:
        """Ask for the basic user information, which needs no consent of the account's holder."""
        product = self.account.disbursement or self.account.collection
        assert product is not None, "an account without any product is refused"
        path = f"accountholder/msisdn/{msisdn.removeprefix('+')}/basicuserinfo"
        try:
            answer = yield self._question(product, path)
        except ExchangeFailed as failure:
            return PayeeUnanswered(self.name, failure.reason)
        return payee_report(self.name, answer)

    def check_account(self, *, now: Moment | Instant) -> AccountCheck:
        """Ask with each product about a payment that does not exist, and for the balance."""
        questions = []
        for product in self.account.products.values():
            path = "transfer"
            if product is self.account.collection:
                path = "requesttopay"

            # "Not found" is what is hoped for: all else was accepted then.
            for target, asks_balance in ((f"{path}/{IMPOSSIBLE_ID}", False), (BALANCE_PATH, True)):
                request = self._question(product, target)
                judge = partial(account_finding, self.name, product.name, asks_balance=asks_balance)
                questions.append(AccountQuestion(product.name, request, judge))
        return ask_all(self.name, questions)

    def ask_balances(self, *, now: Moment | Instant) -> BalanceInquiry:
        """Ask for the balance of each product's account; not every market offers it."""
        now = Moment.at(now)
        balances = []
        for product in self.account.products.values():
            with suppress(ExchangeFailed, ValueError):
                document = wire.parse_json((yield self._question(product, BALANCE_PATH)).body)
                amount = parse_balance(document.get("availableBalance"), document.get("currency"))
                # Collected money is no float: pay-outs are paid from Disbursement's account.
                is_float = product is self.account.disbursement
                balances.append(AccountBalance(self.name, product.name, amount, now.time, is_float))
        return BalanceReport(tuple(balances))

    def judge_answer(self, request: HttpRequest, response: HttpResponse) -> AccountFinding | None:
        """Return what the answer to a submission says about the keys of its product."""
        path = request.target.decode("ascii", "replace").removeprefix(f"{self.account.base_url}/")
        part = None
        if request.method == "POST":
            part = _SUBMISSION_PARTS.get(path)

        if part is None:
            return None

        # What every submission would meet says nothing of this one.
        code = wire.parse_error_body(response.body).code
        if codes.refuses_account(response.status, code):
            words = _REFUSALS.get(response.status, _WRONG_SETUP)
            return part.refused(self.name, f"HTTP {response.status}", words)

        # 409 as well: MTN has it from an earlier one, and has let us in.
        if response.status in (202, 409):
            return part.works(self.name)

        return None

    def read_notification(
        self, request: HttpRequest
    ) -> ProviderHinted | ReversalHinted | UnmatchedNotified:
        """Read an unsigned callback, which only causes a poll."""
        return parse_notification(self.name, request)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """Return the response; the operator reads only its status, and may send a callback without
        a 200 again."""
        if accepted:
            return HttpResponse(200)
        return HttpResponse(503)

    def _read_submission_response(
        self, about: PaymentReports, response: HttpResponse
    ) -> ProviderReport:
        reason = wire.parse_error_body(response.body)
        is_resubmission = about.transaction.progress.is_resubmission
        match response.status:
            # 1. MTN has it, by this request or an earlier one.
            case 202 | 409:
                return self._accepted(about)
            case _ if reason.code == codes.ALREADY_EXISTS:
                return self._accepted(about)
            # 2. Nothing was taken: too many requests, or keys that no payment would pass with.
            case status if status == 429 or codes.refuses_account(status, reason.code):
                return about.never_received()
            # 3. A timeout at a proxy, which may have passed it on (S6).
            case 408:
                return about.unreachable("A submission was answered 408.")
            # 4. It may be due to the earlier submission, if that has arrived after all.
            case status if (
                400 <= status < 500 and is_resubmission and reason.code not in codes.REASONS
            ):
                return about.unreachable(f"A resubmission was answered {status}.")
            # 5. Refused.
            case status if 400 <= status < 500:
                return self._rejected(about, reason, f"HTTP {status}")
            # 6. Some 500s are permanent faults of a request: the code decides (documented).
            case status if (
                500 <= status < 600
                and reason.code in codes.REASONS.keys() - codes.INCONCLUSIVE_REASONS
            ):
                return self._rejected(about, reason, f"HTTP {status}")
            # 7. Nothing is known.
            case status:
                suffix = ""
                if reason.code in codes.INCONCLUSIVE_REASONS:
                    suffix = f" with {reason.code}"
                return about.unreachable(f"A submission was answered {status}{suffix}.")

    def _read_not_found(
        self, about: PaymentReports, reason: wire.MtnReason, *, now: Instant
    ) -> ProviderReport:
        """Return the report from a 404 with the operator's own code; another 404 comes from another
        system.

        What the operator had accepted is never sent again. It fails once nothing but
        RESOURCE_NOT_FOUND was heard of it for NOT_FOUND_FAILS_AFTER."""
        progress = about.transaction.progress
        # 1. Too early: what MTN has just taken may not be found yet.
        if progress.submitted_at is None or now - progress.submitted_at < NOT_FOUND_IS_FINAL_AFTER:
            return about.unreachable("It is not found, and may be too new for that.")

        # 2. Never accepted: it is sent again under the same id.
        if progress.stage is not Stage.AWAITING_RESULT:
            return about.never_received()

        # 3. Accepted, and denied since.
        is_named = reason.code == codes.RESOURCE_NOT_FOUND
        since = progress.denied_since
        if is_named and since is not None and now - since >= NOT_FOUND_FAILS_AFTER:
            return about.failed(ErrorCode.PROVIDER_TIMEOUT, reason.code, reason.message)

        return evolve(
            about.unreachable("It was accepted, and is not found."), denies_payment=is_named
        )

    def _read_poll_response(self, about: PaymentReports, response: HttpResponse) -> ProviderReport:
        if response.status != 200:
            return about.unreachable(f"A question was answered {response.status}.")

        try:
            document = wire.parse_json(response.body)
        except ValueError as error:
            return about.unreachable(f"An answer can't be read: {error}.")

        try:
            return self._parse_payment(about, document)
        except ValueError as error:
            # Whatever else can't be used: what is called paid is never told as failed.
            if not wire.calls_paid(document):
                return about.unreachable(f"An answer can't be read: {error}.")
            reason = f"An answer calls it paid, but {error}."
            return about.doubtfully_paid(reason, codes.SUCCESSFUL, wire.parse_receipt(document))

    def _accepted(self, about: PaymentReports) -> ProviderReport:
        """Report that MTN has a payment. Without an address for callbacks only polls tell more."""
        return about.accepted(is_told_when_asked=self.account.hooks_url is None)

    def _parse_payment(self, about: PaymentReports, document: Mapping[str, Any]) -> ProviderReport:
        """Return the report from a payment. Raises ValueError for an invalid one."""
        # By our own reference: an answer about another payment proves nothing about this one.
        if wire.text_member(document, "externalId") not in (None, about.transaction.reference):
            raise ValueError("it is about another payment")

        receipt = wire.text_member(document, "financialTransactionId")
        match wire.text_member(document, "status"):
            case codes.SUCCESSFUL:
                return about.succeeded(
                    receipt, wire.parse_amount(document, about.transaction.order.requested.currency)
                )
            case "FAILED":
                reason = wire.parse_reason(document)
                # FAILED with `ONGOING`, say: it goes on (assumed, from enumerations in clients).
                if reason.code in codes.PENDING_REASONS:
                    return self._accepted(about)
                code = codes.to_error_code(
                    reason.code, reason.message, about.transaction.order.type
                )
                return about.failed(code, reason.code, reason.message, receipt)
            case status if status in codes.PENDING_STATUSES:
                return self._accepted(about)
            case _:
                raise ValueError("its status is none that is known")

    def _rejected(
        self, about: PaymentReports, reason: wire.MtnReason, status: str
    ) -> ProviderFailed:
        """Return the report from a rejection. It is a fault of ours unless the reason says
        otherwise."""
        code = ErrorCode.MERCHANT_MISCONFIGURED
        if reason.code in codes.REASONS:
            code = codes.to_error_code(reason.code, reason.message, about.transaction.order.type)
        return about.failed(code, reason.code or status, reason.message)

    def _product(self, transaction: Transaction) -> MtnProduct | None:
        is_payin = transaction.order.type is Type.PAYIN
        if is_payin:
            return self.account.collection
        return self.account.disbursement

    def _target(self, transaction: Transaction) -> bytes:
        path = "disbursement/v1_0/transfer"
        if transaction.order.type is Type.PAYIN:
            path = "collection/v1_0/requesttopay"
        return f"{self.account.base_url}/{path}".encode()

    def _question(self, product: MtnProduct, path: str) -> HttpRequest:
        target = f"{self.account.base_url}/{product.name}/v1_0/{path}"
        return HttpRequest("GET", target.encode(), self.account.headers(product))

    def _submission_body(self, transaction: Transaction) -> bytes:
        order = transaction.order
        # International, without the plus sign (documented).
        party = {"partyIdType": "MSISDN", "partyId": order.party.msisdn.removeprefix("+")}
        return to_json(
            {
                "amount": plain_amount(order.requested),
                "currency": order.requested.currency,
                "externalId": order.gateway_reference,
                "payer" if order.type is Type.PAYIN else "payee": party,
                "payerMessage": self.account.payer_message,
                "payeeNote": order.gateway_reference,
            }
        )


# Keeps these ids apart from anything else that is made of a gatewayReference.
_NAMESPACE = b"mmo-gateway/mtn_momo/"


def reference_id(gateway_reference: str) -> str:
    """Return the UUID under which the operator knows this payment, the same for each repetition of
    a submission.

    The operator accepts version 4 only (RFC 9562 section 5.4), which leaves 122 bits that should be
    random; here they are those of a SHA-256."""
    octets = bytearray(hashlib.sha256(_NAMESPACE + gateway_reference.encode()).digest()[:16])
    # Version and variant take six of the 128 bits.
    octets[6] = octets[6] & 0x0F | 0x40
    octets[8] = octets[8] & 0x3F | 0x80
    digits = octets.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# A gatewayReference, or the id of a reversal of the payment.
_REFERENCE = re.compile(r"(?P<payment>[0-9A-HJKMNP-TV-Z]{26})(-[1-9][0-9]{0,5})?", re.ASCII)


def parse_notification(
    provider: str, request: HttpRequest
) -> ProviderHinted | ReversalHinted | UnmatchedNotified:
    """Return the payment or reversal of a callback. An unreadable body names none, whatever its
    address."""
    content = stored_text(request.body)
    try:
        document = wire.parse_json(request.body)
        external_id = wire.text_member(document, "externalId")
        references = {external_id, _reference_in_path(request.target)} - {None}
    except ValueError:
        return UnmatchedNotified(provider, content)

    # The body, the address, or both: two that differ name nothing.
    reference = None
    if len(references) == 1:
        reference = references.pop()

    match = _REFERENCE.fullmatch(reference or "")
    if reference is None or match is None:
        return UnmatchedNotified(provider, content)

    # With a number at its end it is the reversal of a payment.
    if reference != match["payment"]:
        return ReversalHinted(reference, provider)

    says_paid = document.get("status") == codes.SUCCESSFUL
    return ProviderHinted(reference, provider, content, says_paid=says_paid)


def _reference_in_path(target: bytes) -> str | None:
    last = target.partition(b"?")[0].rsplit(b"/", 1)[-1].decode("ascii", "replace")
    if _REFERENCE.fullmatch(last):
        return last
    return None


def payee_report(provider: str, response: HttpResponse) -> PayeeReport:
    """Return what the answer to a question for basic user information tells. Of all that it has
    only the name is read. A 404 without MTN's own code may come from a proxy."""
    if (
        response.status == 404
        and wire.parse_error_body(response.body).code in codes.UNKNOWN_HOLDER_CODES
    ):
        return PayeeUnknown(provider)
    if response.status != 200:
        return PayeeUnanswered(provider, f"A question was answered {response.status}.")

    try:
        document = wire.parse_json(response.body)
    except ValueError:
        return PayeeUnanswered(provider, "An answer can't be read.")

    names = [document.get("given_name"), document.get("family_name")]
    if not any(names):
        names = [document.get("name")]
    return payee_named(provider, *names)


_REFUSALS: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: (
            "MTN refuses the subscription key or the token of this product. Whoever manages the "
            "account in MTN's portal compares both keys with the settings."
        ),
        403: (
            "MTN or its firewall refuses this gateway's address. Ask MTN to put the address from "
            "which this gateway sends on its list."
        ),
    }
)

_WRONG_SETUP: Final = (
    "MTN refuses market or product. Whoever runs the gateway compares both with MTN's portal."
)


def account_finding(
    provider: str, part: str, response: HttpResponse, *, asks_balance: bool
) -> AccountFinding | None:
    """Return what the answer to a question says: that a payment is not found shows that all else is
    accepted. Not every market offers the balance, so its answer counts only where it is a
    refusal."""
    code = wire.parse_error_body(response.body).code or ""
    shown = f"HTTP {response.status}"
    if code.replace("_", "").isalnum() and code.isascii():
        shown = code

    # 1. Refused, by the status or by a code that every payment would meet.
    words = _REFUSALS.get(response.status)
    if (
        words is None
        and codes.to_error_code(code, None, Type.PAYIN) is ErrorCode.MERCHANT_MISCONFIGURED
    ):
        words = _WRONG_SETUP

    if words is not None:
        return AccountFinding(provider, part, AccountState.REFUSED, shown, words)
    if asks_balance:
        return None

    # 2. It works: the question was answered, if only by "not found".
    if response.status == 200 or code in codes.NOT_FOUND_CODES:
        return AccountFinding(
            provider, part, AccountState.WORKS, shown, "MTN answers questions about this product."
        )

    return no_answer_finding(provider, part, shown)
