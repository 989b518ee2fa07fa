"""How the gateway speaks with MTN MoMo: submissions, questions, tokens and callbacks.

An answer is believed by the `code` in it and not by its status: several of the operator's 500s are faults of a request
that no repetition heals. What stays open is asked for; "not found" counts once a submission is old enough to be found,
and then it is submitted again under the same X-Reference-Id, which the operator takes once.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    UnmatchedNotified,
)
from mmo_sansio.providers.common.interface import (
    AccessToken,
    Conversation,
    ExchangeFailed,
    SignIn,
    SignInFailed,
)
from mmo_sansio.providers.common.operations import Operation, OperationKey, key_of
from mmo_sansio.providers.mtn_momo.account import Account, Product
from mmo_sansio.providers.mtn_momo.codes import (
    ALREADY_THERE,
    LEAVES_OPEN,
    NOT_FOUND,
    REASONS,
    RUNNING,
    error_code,
)
from mmo_sansio.providers.mtn_momo.notifications import notification_read
from mmo_sansio.providers.mtn_momo.operations import NOT_FOUND_IS_FINAL_AFTER, PAYINS, PAYOUTS
from mmo_sansio.providers.mtn_momo.references import reference_id
from mmo_sansio.providers.mtn_momo.wire import (
    Reason,
    amount_read,
    amount_written,
    error_of,
    read,
    reason_read,
    text,
    written,
)
from mmo_sansio.values.clock import SECOND, Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction, Type

TOKEN_SECONDS_MAX = 7 * 24 * 3600
"""A longer life of a token than this isn't believed."""


@frozen
class MtnMomoProvider:
    """An account with MTN MoMo in one market."""

    name: str
    title: str
    account: Account

    @property
    def operations(self) -> Mapping[OperationKey, Operation]:
        """Pay-ins with Collection, pay-outs with Disbursement."""
        payins = PAYINS if self.account.collection else {}
        payouts = PAYOUTS if self.account.disbursement else {}
        return {**payins, **payouts}

    def scope_of(self, request: HttpRequest) -> str | None:
        """The product: the token of one doesn't open the other."""
        path = request.target.decode("ascii", "replace").removeprefix(self.account.base_url)
        product = path.split("/")[1:2]
        return product[0] if product and product[0] in self.account.products else None

    def sign_in(self, scope: str, *, now: Instant) -> SignIn:
        """Fetch a product's token with its API user and key, and no body at all."""
        product = self.account.products[scope]
        target = f"{self.account.base_url}/{product.name}/token/".encode()
        headers = ((b"authorization", product.credentials), *product.headers)
        answer = yield HttpRequest("POST", target, headers)
        if answer.status != 200:
            raise SignInFailed(f"The token request was answered {answer.status}.")
        try:
            document = read(answer.body)
            value, seconds = text(document, "access_token"), text(document, "expires_in") or ""
        except ValueError:
            value, seconds = None, ""
        if not (value and value.isascii() and value.isprintable() and " " not in value):
            raise SignInFailed("The answer to the token request holds no token.")
        if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 10):
            raise SignInFailed("The answer to the token request doesn't say when it expires.")
        life = min(int(seconds), TOKEN_SECONDS_MAX) * SECOND
        return AccessToken(value, issued_at=now, expires_at=now + life)

    def refuses_token(self, answer: HttpResponse) -> bool:
        """A 401: nothing was done."""
        return answer.status == 401

    def submit(self, transaction: Transaction, *, now: Instant) -> Conversation:
        """Ask for a payment of the payer, or a transfer to the payee."""
        product = self._product(transaction)
        if product is None or key_of(transaction) not in self.operations:
            return self._failed(transaction, ErrorCode.MERCHANT_MISCONFIGURED, Reason())
        headers = (
            (b"x-reference-id", reference_id(transaction.reference).encode()),
            *self._headers(product),
            *self._callback_header(transaction),
            (b"content-type", b"application/json"),
        )
        target = self._target(transaction)
        try:
            answer = yield HttpRequest("POST", target, headers, self._submission(transaction))
        except ExchangeFailed as failure:
            if failure.may_have_arrived:
                return self._unknown(transaction, failure.reason)
            return self._not_taken(transaction)
        return self._read_submitted(transaction, answer)

    def ask(self, transaction: Transaction, *, now: Instant) -> Conversation:
        """Ask what became of a submission."""
        product = self._product(transaction)
        if product is None:
            return self._unknown(transaction, "The account has no keys for this any more.")
        try:
            answer = yield self._question(transaction, product)
        except ExchangeFailed as failure:
            return self._unknown(transaction, failure.reason)
        if _is_not_found(answer):
            begun = transaction.progress.submitted_at
            if begun is None or now - begun < NOT_FOUND_IS_FINAL_AFTER:
                return self._unknown(transaction, "It is not found, and may be too new for that.")
            return self._not_taken(transaction)
        return self._read_asked(transaction, answer)

    def read_notification(self, request: HttpRequest) -> ProviderHinted | UnmatchedNotified:
        """Nobody has signed it: it is a reason to ask, and no more."""
        return notification_read(self.name, request)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """The operator looks at the status only, and doesn't come again either way."""
        return HttpResponse(200 if accepted else 503)

    def _read_submitted(self, transaction: Transaction, answer: HttpResponse) -> ProviderReport:
        reason = error_of(answer.body)
        match answer.status:
            case 202 | 409:
                return self._accepted(transaction)
            case _ if reason.code == ALREADY_THERE:
                return self._accepted(transaction)
            case 429:
                return self._not_taken(transaction)
            case 408:
                return self._unknown(transaction, "A submission was answered 408.")
            case status if 400 <= status < 500:
                return self._refused(transaction, reason, f"HTTP {status}")
            case status if (
                500 <= status < 600 and reason.code in REASONS and reason.code not in LEAVES_OPEN
            ):
                return self._refused(transaction, reason, f"HTTP {status}")
            case status:
                said = f" with {reason.code}" if reason.code in LEAVES_OPEN else ""
                return self._unknown(transaction, f"A submission was answered {status}{said}.")

    def _read_asked(self, transaction: Transaction, answer: HttpResponse) -> ProviderReport:
        if answer.status != 200:
            return self._unknown(transaction, f"A question was answered {answer.status}.")
        try:
            return self._payment(transaction, answer.body)
        except ValueError as error:
            return self._unknown(transaction, f"An answer can't be read: {error}.")

    def _payment(self, transaction: Transaction, body: bytes) -> ProviderReport:
        """What a payment in an answer says; raises ValueError when it says nothing that makes sense."""
        document = read(body)
        if text(document, "externalId") not in (None, transaction.reference):
            raise ValueError("it is about another payment")
        receipt = text(document, "financialTransactionId")
        match text(document, "status"):
            case "SUCCESSFUL":
                return ProviderSucceeded(
                    transaction.reference,
                    self.name,
                    Source.POLL,
                    receipt,
                    final=amount_read(document, transaction.order.requested.currency),
                )
            case "FAILED":
                reason = reason_read(document)
                if reason.code in RUNNING:
                    return self._accepted(transaction)
                code = error_code(reason.code, reason.message, transaction.order.type)
                return self._failed(transaction, code, reason, receipt)
            case status if status in RUNNING:
                return self._accepted(transaction)
            case _:
                raise ValueError("its status is none that is known")

    def _refused(self, transaction: Transaction, reason: Reason, status: str) -> ProviderFailed:
        """The operator's word that it hasn't taken a submission. It is a fault of ours unless it says otherwise."""
        if reason.code in REASONS:
            code = error_code(reason.code, reason.message, transaction.order.type)
        else:
            code = ErrorCode.MERCHANT_MISCONFIGURED
        return self._failed(transaction, code, Reason(reason.code or status, reason.message))

    def _not_taken(self, transaction: Transaction) -> ProviderNeverReceived:
        version = transaction.progress.version
        return ProviderNeverReceived(transaction.reference, self.name, version)

    def _failed(
        self, transaction: Transaction, code: ErrorCode, reason: Reason, receipt: str | None = None
    ) -> ProviderFailed:
        return ProviderFailed(
            transaction.reference,
            self.name,
            Source.POLL,
            code,
            receipt,
            native_code=reason.code,
            native_message=reason.message,
        )

    def _accepted(self, transaction: Transaction) -> ProviderAccepted:
        return ProviderAccepted(transaction.reference, self.name, Source.POLL)

    def _unknown(self, transaction: Transaction, reason: str) -> ProviderUnreachable:
        return ProviderUnreachable(transaction.reference, self.name, reason)

    def _product(self, transaction: Transaction) -> Product | None:
        is_payin = transaction.order.type is Type.PAYIN
        return self.account.collection if is_payin else self.account.disbursement

    def _target(self, transaction: Transaction) -> bytes:
        """Where payments of this kind are."""
        is_payin = transaction.order.type is Type.PAYIN
        path = "collection/v1_0/requesttopay" if is_payin else "disbursement/v1_0/transfer"
        return f"{self.account.base_url}/{path}".encode()

    def _question(self, transaction: Transaction, product: Product) -> HttpRequest:
        target = self._target(transaction) + b"/" + reference_id(transaction.reference).encode()
        return HttpRequest("GET", target, self._headers(product))

    def _headers(self, product: Product) -> Headers:
        return ((b"x-target-environment", self.account.market.encode()), *product.headers)

    def _callback_header(self, transaction: Transaction) -> Headers:
        """An empty one would be refused. It ends in the gatewayReference, as a callback need not name it otherwise."""
        if self.account.hooks_url is None:
            return ()
        return ((b"x-callback-url", f"{self.account.hooks_url}/{transaction.reference}".encode()),)

    def _submission(self, transaction: Transaction) -> bytes:
        order = transaction.order
        party = {"partyIdType": "MSISDN", "partyId": order.party.msisdn.removeprefix("+")}
        return written(
            {
                "amount": amount_written(order.requested),
                "currency": order.requested.currency,
                "externalId": order.gateway_reference,
                "payer" if order.type is Type.PAYIN else "payee": party,
                "payerMessage": self.account.payer_message,
                "payeeNote": order.gateway_reference,
            }
        )


def _is_not_found(answer: HttpResponse) -> bool:
    """Whether the operator says that it has no such payment; a 404 in other words comes from elsewhere."""
    return answer.status == 404 and error_of(answer.body).code in NOT_FOUND
