"""Holds the conversations with Daraja: the requests, and the reports from its responses.

The response to a submission says only that it was taken, or refused. The response to a question
about a push has its state. All other questions, about pay-outs, taxes, receipts, deposits and
balances, are answered by callbacks, which `notifications` reads.

Daraja keeps a list of the payments to the shortcode for 48 hours (Pull Transactions). It is the
answer to our own request about our own shortcode, so what stands in it is confirmed. Its rows are
nested or not, and how many a page has is not published."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, assert_never

from attrs import evolve, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderReport,
    ProviderSucceeded,
    UnmatchedNotified,
)
from mmo_sansio.providers.common.balances import BalanceInquiry, BalanceReport
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountCheck,
    AccountFinding,
    Conversation,
    CredentialStopped,
    DepositConversation,
    DepositListing,
    DepositReport,
    ExchangeFailed,
    PaymentReports,
    ProviderNotification,
    ReversalConversation,
    ReversalReports,
    SignIn,
    SignInFailed,
)
from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    DIRECT_TAXPAYOUT,
    PUSH,
    QR_PAYIN,
    WEB_PAYIN,
    OperationKey,
    ProviderOperation,
    ReversalOperation,
    operation_key,
)
from mmo_sansio.providers.common.wire import parse_token_lifetime, stored_text
from mmo_sansio.providers.mpesa_daraja import (
    account_check,
    codes,
    notifications,
    requests,
    reversals,
)
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.callback_url import (
    CallbackContext,
    MpesaCallbackKind,
    party_digest,
)
from mmo_sansio.providers.mpesa_daraja.hints import MpesaHint, parse_hint
from mmo_sansio.providers.mpesa_daraja.requests import (
    conversation_id,
    pull_query,
    registration_number,
)
from mmo_sansio.providers.mpesa_daraja.results import RECEIPT
from mmo_sansio.providers.mpesa_daraja.wire import (
    code_member,
    format_msisdn,
    parse_amount,
    parse_json,
    parse_qr_code,
    soap_fault,
    text_member,
    whole_shillings,
)
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Moment, Span, elapsed, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    DepositClaim,
    DepositTrust,
    Flow,
    Party,
    Stage,
    Transaction,
    Type,
)
from mmo_sansio.values.reversals import Reversal

# The name of the account's one access token.
SCOPE: Final = "daraja"

# The lifetime of an access token whose response has none: an hour is documented (Authorization).
TOKEN_LIFETIME: Final = HOUR

# The pages of one list that are read; that there are more is left to a person. How many rows a page
# has is not published.
PAGES_MAX: Final = 200

# ResponseCode of Pull Transactions (documented): rows follow, or there are none.
FOUND: Final = "1000"
NOTHING_FOUND: Final = "1001"

# What the same codes mean of a registration: it is done, now or before.
REGISTERED_CODES: Final = (FOUND, NOTHING_FOUND)

# A prompt is open for about a minute, and the query's rate is limited. A push whose response was
# lost has no id to poll by until its callback has named it, so "not found" never proves that the
# push was not received.
_PROMPT: Final = ProviderOperation(
    is_idempotent=False,
    can_be_polled=True,
    not_found_is_final_after=None,
    poll_intervals=tuple(Span(n * SECOND) for n in (15, 20, 30, 60, 120, 300, 900, 3600)),
)

# The payer pays without a request of ours: only the confirmation reports it.
_CONFIRMATION_ONLY: Final = ProviderOperation(
    is_idempotent=False, can_be_polled=False, not_found_is_final_after=None, poll_intervals=(HOUR,)
)

# A pay-out carries our own id, and Daraja rejects a repeated id; a tax payout has only Daraja's id,
# so one whose response was lost is polled only when its callback has named it.
OPERATIONS: Mapping[OperationKey, ProviderOperation] = MappingProxyType(
    {
        DIRECT_PAYIN: _PROMPT,
        WEB_PAYIN: _PROMPT,
        DIRECT_PAYOUT: ProviderOperation(
            is_idempotent=True,
            can_be_polled=True,
            not_found_is_final_after=HOUR,
            poll_intervals=tuple(Span(n * SECOND) for n in (30, 60, 120, 300, 900, 3600)),
        ),
        DIRECT_TAXPAYOUT: ProviderOperation(
            is_idempotent=False,
            can_be_polled=True,
            not_found_is_final_after=None,
            poll_intervals=(MINUTE, Span(2 * MINUTE), Span(5 * MINUTE), Span(15 * MINUTE), HOUR),
        ),
        QR_PAYIN: _CONFIRMATION_ONLY,
        PUSH: _CONFIRMATION_ONLY,
    }
)

# What a person is told of a product, by its name.
NO_PRODUCT: Final = (
    "The app does not have this product: {}. Whoever manages the app in Daraja's portal adds it; "
    "where the portal does not offer it, Safaricom's support does."
)


class RegistrationFailed(Exception):
    """Daraja did not accept the addresses for deposits; the message says why."""


@frozen
class DarajaProvider:
    """Holds the conversations of one account with Daraja."""

    name: str
    title: str
    account: MpesaAccount

    @property
    def base_url(self) -> str:
        return self.account.base_url

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        """The operations for which the account has credentials."""
        account = self.account
        has = {
            DIRECT_PAYIN: account.passkey,
            WEB_PAYIN: account.passkey,
            DIRECT_PAYOUT: account.initiator.name,
            DIRECT_TAXPAYOUT: account.initiator.name,
            QR_PAYIN: account.merchant_name,
            PUSH: account.shortcode,
        }
        return MappingProxyType(
            {key: operation for key, operation in OPERATIONS.items() if has[key]}
        )

    def amount_decimals(self, currency: str) -> int:
        """Return 0: M-Pesa takes whole shillings (documented, for each product)."""
        return 0

    @property
    def sends_notifications_once(self) -> bool:
        """Return true: in Daraja's sandbox nothing more came for 44 minutes after a 500."""
        return True

    def scope_of(self, request: HttpRequest) -> str:
        """Return the one scope, because one token serves all requests."""
        return SCOPE

    def sign_in(self, scope: str, *, now: Moment | Instant) -> SignIn:
        """Get a token. It invalidates the previous one, so an account signs in once for all
        requests."""
        now = Moment.at(now)
        answer = yield requests.token(self.account)
        try:
            document = parse_json(answer.body)
            value = text_member(document, "access_token")
            life = parse_token_lifetime(document.get("expires_in"), default=TOKEN_LIFETIME)
        except ValueError:
            raise SignInFailed(
                f"Daraja answered {answer.status}, and no token.", status=answer.status
            ) from None

        if answer.status != 200 or not value:
            code = text_member(document, "errorCode") or "no errorCode"
            raise SignInFailed(f"Daraja answered {answer.status} ({code}).", status=answer.status)

        return AccessToken(value, expires_at=later(now.time, life), issued_at=now.time)

    def rejects_token(self, response: HttpResponse) -> bool:
        """Return whether a response of any status says that the access token is no longer valid. A
        401 may also say that the app does not have a product, for which no token helps."""
        # A body that is no JSON is a proxy's: only its status speaks.
        try:
            document = parse_json(response.body)
            code, why = text_member(document, "errorCode"), text_member(document, "errorMessage")
        except ValueError:
            return response.status == 401

        # For a token that is good a new one is no help, and would end the one that others use.
        if response.status == 401:
            return not codes.lacks_product(code, why)
        return response.status >= 400 and code in codes.TOKEN_ERROR_CODES

    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Prompt the payer, pay out, pay the tax, or get a QR code.

        Requests that Daraja cannot process fail here, before anything is sent: an amount with cents
        or in another currency, a number that is not Kenyan, a tax without a payment registration
        number, and an operation for which the account has no credentials."""
        now = Moment.at(now)
        about = PaymentReports(transaction, self.name)
        order = transaction.order
        key = operation_key(transaction)
        shillings = whole_shillings(order.requested)
        msisdn = format_msisdn(order.party.msisdn)

        # 1. What M-Pesa can't process is refused before anything is sent.
        if key not in self.operations:
            reason = f"The account offers no {' '.join(key)}."
            return about.failed(ErrorCode.MERCHANT_MISCONFIGURED, None, reason)

        if shillings is None:
            return about.failed(
                ErrorCode.AMOUNT_OUT_OF_RANGE, None, "M-Pesa takes whole Kenyan shillings."
            )

        # 2. A picture, and nothing on anybody's phone.
        if key == QR_PAYIN:
            request = requests.qr_code(self.account, order, shillings=shillings)
            return (yield from self._submit(about, request, "QRCode"))

        # 3. A tax names no phone: its payee is the tax authority.
        if key == DIRECT_TAXPAYOUT:
            number = registration_number(order.reconciliation_reference)
            if number is None:
                reason = "The reconciliationReference is no payment registration number."
                return about.failed(ErrorCode.TRANSACTION_DECLINED, None, reason)

            request = requests.remittance(
                self.account, transaction, registration_number=number, shillings=shillings
            )
            return (yield from self._submit(about, request, "OriginatorConversationID"))

        # 4. Money from or to a phone.
        if msisdn is None:
            return about.failed(
                ErrorCode.USER_NOT_FOUND, None, "The msisdn is no Kenyan mobile number."
            )

        if key == DIRECT_PAYOUT:
            request = requests.payout(self.account, transaction, msisdn=msisdn, shillings=shillings)
            return (yield from self._submit(about, request, "OriginatorConversationID"))

        request = requests.push(
            self.account, transaction, msisdn=msisdn, shillings=shillings, now=now.utc
        )
        return (yield from self._submit(about, request, "CheckoutRequestID"))

    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Poll a push, and return its state; or poll a pay-out or tax payout, whose state arrives
        by a callback."""
        now = Moment.at(now)
        key = operation_key(transaction)
        hint = parse_hint(transaction.progress.hint)
        about = PaymentReports(transaction, self.name)

        # 1. What a callback has named: the id of a push whose response was lost, and a receipt.
        known_as = transaction.progress.provider_reference or hint.id
        evidence = transaction.progress.evidence
        if evidence is not None:
            # It was called paid: no earlier refusal may end it.
            hint = evolve(hint, refused="")
            # The gatewayReference stands for a receipt that Daraja did not name.
            if evidence.receipt != transaction.reference:
                hint = evolve(hint, receipt=evidence.receipt)

        # 2. A push: the response itself has its state.
        if key in (DIRECT_PAYIN, WEB_PAYIN) and known_as:
            report = yield from self._poll_push(about, known_as, hint, now=now)
            # The query names no receipt: the one that a callback has named is asked about.
            if (
                evidence is not None
                and hint.receipt
                and not self.account.trusts_deposits
                and not isinstance(report, ProviderSucceeded)
            ):
                yield from self._ask_by_receipt(transaction, hint.receipt, known_as, now=now)

            return report

        # 3. Money out: the response says only that a callback will have the state.
        if key == DIRECT_PAYOUT:
            # That Daraja finds it by our own id is assumed: its page names ids of M-Pesa's.
            own = conversation_id(transaction.reference)
            return (yield from self._poll_status(about, known_as or own, hint, now=now))

        if key == DIRECT_TAXPAYOUT and known_as:
            return (yield from self._poll_status(about, known_as, hint, now=now))

        # 4. There is no id to ask by, or nothing was requested: only a callback reports it.
        return about.cannot_tell()

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        """The reversals of what was paid to the shortcode, where the account has an API operator of
        it."""
        # Pay-outs can't be reversed by a request (documented, Business To Customer, question 17).
        payins = (DIRECT_PAYIN, WEB_PAYIN, QR_PAYIN, PUSH)
        if self.account.reverser.name:
            return dict.fromkeys(payins, reversals.REVERSAL)
        return {}

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask for the reversal of the payment by its receipt."""
        return reversals.submit(self.account, ReversalReports(reversal, self.name), transaction)

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask about the reversal by Daraja's id, and nothing while that is not known."""
        return reversals.poll(self.account, ReversalReports(reversal, self.name))

    def verify_deposit(self, claim: DepositClaim, *, now: Moment | Instant) -> DepositConversation:
        """Ask for the state of a deposit by its receipt. The answer arrives by a callback."""
        now = Moment.at(now)
        if self.account.trusts_deposits:
            return None
        # Whatever becomes of this question: it is asked again.
        with suppress(ExchangeFailed):
            yield requests.deposit_query(self.account, claim.receipt, claim.amount.minor, now.time)
        return None

    def list_deposits(self, begin: Instant, end: Instant) -> DepositListing:
        return list_payments(self.name, self.account, begin, end)

    def check_account(self, *, now: Moment | Instant) -> AccountCheck:
        """Ask as each API operator about a receipt that does not exist, and with the passkey about
        such a prompt."""
        now = Moment.at(now)
        # By wall time: a password's days are a calendar's.
        return account_check.check_account(self.name, self.account, now=now.utc)

    def ask_balances(self, *, now: Moment | Instant) -> BalanceInquiry:
        """Ask for the balances of the shortcode that pays out, as its API operator. The answer is a
        callback."""
        now = Moment.at(now)
        if self.account.initiator.name:
            # Whatever becomes of this question: it is asked again.
            with suppress(ExchangeFailed):
                yield requests.balance_query(self.account, now=now.time)
        return BalanceReport()

    def credential_of(self, request: HttpRequest) -> str:
        """Return the digest of the API operator whose SecurityCredential is in the request."""
        # Each encrypted text is made once, so that a request shows whose it is.
        operators = self.account.operators
        return next(
            (
                operator.credential
                for operator in operators
                if operator.security_credential.encode() in request.body
            ),
            "",
        )

    def uses_credential(self, credential: str) -> bool:
        """Tell whether this is the digest of an API operator of the account."""
        return any(operator.credential == credential for operator in self.account.operators)

    def judge_answer(self, request: HttpRequest, response: HttpResponse) -> AccountFinding | None:
        """Return what the answer to a submission says about what is the same in each."""
        return account_check.submission_finding(self.name, request, response)

    def read_finding(self, request: HttpRequest) -> AccountFinding | None:
        """Return what a result or an answer says about the API operator that has caused it."""
        return account_check.read_finding(self.name, self.account, request)

    def read_notification(self, request: HttpRequest) -> ProviderNotification:
        return notifications.parse_notification(self.name, self.account, request)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        return notifications.notification_response(self.account, request, accepted=accepted)

    def register_urls(self) -> Generator[HttpRequest, HttpResponse, AccountFinding]:
        """Register the addresses for deposits: once in production, where a later change is made in
        the portal; and the shortcode for Pull Transactions, where the account has that. A repeated
        registration is no error. Raises RegistrationFailed.

        Return which version of C2B Daraja has accepted: an app has one of them, and nobody is told
        which, so both are tried, the newer first."""
        accepted = None
        for version in requests.C2B_VERSIONS:
            # Any other error than "not your product" ends it: the next version would not mend that.
            answer = yield requests.registration(self.account, version)
            if not _lacks_product(answer):
                _check_registered(answer)
                accepted = version
                break

        if accepted is None:
            raise RegistrationFailed(NO_PRODUCT.format("C2B, in neither version"))

        if self.account.pull_number is not None:
            answer = yield requests.pull_registration(self.account)
            if _lacks_product(answer):
                raise RegistrationFailed(NO_PRODUCT.format("Pull Transactions"))

            _check_registered(answer)

        return account_check.registered_finding(self.name, accepted)

    def _submit(
        self, about: PaymentReports, request: HttpRequest, reference_field: str
    ) -> Conversation:
        try:
            answer = yield request
        except ExchangeFailed as failure:
            return about.unanswered(failure)

        try:
            document = parse_json(answer.body)
            if answer.status == 200:
                # Accepted is not paid: from here on Daraja is asked.
                reference = _accepted_reference(document, reference_field)
                return self._read_accepted(about, document, reference)

            code = text_member(document, "errorCode")
            message = text_member(document, "errorMessage")
        except ValueError as error:
            if answer.status == 200:
                return about.unreachable(f"Daraja's answer can't be read: {error}.")
            code = ""
            message = ""

        # A first error may be final; that of a repetition may be due to the first request.
        is_resubmission = about.transaction.progress.is_resubmission
        means = codes.interpret_error(answer.status, code, message, is_resubmission=is_resubmission)
        if isinstance(means, ErrorCode):
            return about.failed(means, code or str(answer.status), message)

        match means:
            case codes.MpesaSubmissionState.ACCEPTED:
                return about.accepted()
            # It waits: nothing was taken, and the same request may be sent again (S6).
            case (
                codes.MpesaSubmissionState.NOT_ACCEPTED | codes.MpesaSubmissionState.ACCOUNT_REFUSED
            ):
                return about.never_received()
            case codes.MpesaSubmissionState.UNKNOWN:
                return about.unreachable(f"Daraja answered {answer.status} {code}.")
            case _:
                assert_never(means)

    def _read_accepted(
        self, about: PaymentReports, document: Mapping[str, Any], provider_reference: str | None
    ) -> ProviderReport:
        if provider_reference is not None:
            return about.accepted(provider_reference or None, qr=parse_qr_code(document))

        code = code_member(document, "ResponseCode")
        message = text_member(document, "ResponseDescription")
        order = about.transaction.order

        # Any code in place of a picture, or an error number in place of a prompt: nobody can pay.
        is_picture_refused = order.flow is Flow.QR and bool(code)
        is_prompt_refused = order.type is Type.PAYIN and codes.is_error_number(code)
        if is_picture_refused or is_prompt_refused:
            return about.failed(ErrorCode.TRANSACTION_DECLINED, code, message)

        # For money out even an error number is no proof that nothing will be paid.
        return about.unreachable(f"Daraja answered 200 with the ResponseCode {code[:30]!r}.")

    def _poll_push(
        self,
        about: PaymentReports,
        provider_reference: str,
        hint: MpesaHint,
        *,
        now: Moment,
    ) -> Conversation:
        try:
            answer = yield requests.push_query(self.account, provider_reference, now=now.utc)
            document = parse_json(answer.body)
            code = code_member(document, "ResultCode")
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)
        except ValueError as fault:
            return about.unreachable(f"Daraja's answer can't be read: {fault}.")

        try:
            return _read_push(about, answer.status, document, provider_reference, hint, now=now)
        except ValueError as fault:
            if code != codes.SUCCESS:
                return about.unreachable(f"Daraja's answer can't be used: {fault}.")

            # What else is wrong with its answer takes nothing back.
            reason = f"Daraja's answer calls it paid, but {fault}."
            return about.doubtfully_paid(reason, code, hint.receipt or None)

    def _poll_status(
        self,
        about: PaymentReports,
        provider_reference: str,
        hint: MpesaHint,
        *,
        now: Moment,
    ) -> Conversation:
        order = about.transaction.order
        submitted_at = Instant(about.transaction.progress.submitted_at or 0)
        operation = OPERATIONS[operation_key(about.transaction)]

        # 1. The answer comes as a callback: what it may decide stands in its address.
        is_refusal_old = elapsed(submitted_at, now.time) >= codes.REFUSAL_FINAL_AFTER
        address = CallbackContext(
            MpesaCallbackKind.POLL_RESULT,
            order.gateway_reference,
            order.requested.minor,
            about.version,
            asked_at=now.time,
            not_found_is_final=bool(submitted_at)
            and operation.is_not_found_final(submitted_at, now=now.time),
            reported_code=hint.refused or hint.code,
            refusal_is_final=bool(hint.refused) and is_refusal_old,
            credential=self.account.initiator.credential,
        )

        # 2. A receipt that was named is asked about, too: M-Pesa may not find a conversation's id.
        if about.transaction.progress.evidence is not None:
            yield from self._ask_by_receipt(
                about.transaction, hint.receipt, provider_reference, now=now
            )
        elif hint.names_failed_transaction:
            yield from self._ask_by_receipt(
                about.transaction, hint.receipt, provider_reference, failed_with=hint.code, now=now
            )

        # 3. The question itself. Its response says only whether it was taken.
        try:
            answer = yield requests.status_query(
                self.account, about.transaction, provider_reference, address
            )
            code = code_member(parse_json(answer.body), "ResponseCode")
        except CredentialStopped as stop:
            # A question that was not sent would have been refused: that is as good as an answer.
            if address.refusal_is_final:
                reported = address.reported_code
                return about.failed(codes.find_error_mapping(reported).payout, reported, "")
            return about.unreachable(stop.reason)
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)
        except ValueError as fault:
            return about.unreachable(f"Daraja's answer can't be read: {fault}.")

        if answer.status != 200 or code != codes.SUCCESS:
            return about.unreachable(f"Daraja answered {answer.status} to a poll.")

        # 4. Asked, and waiting: the payment is known to M-Pesa, or will be found not to be.
        if about.transaction.progress.stage is Stage.AWAITING_RESULT:
            return about.accepted()

        asked = about.unreachable("Daraja will answer the poll by a callback.")
        return evolve(asked, is_answered_later=True)

    def _ask_by_receipt(
        self,
        transaction: Transaction,
        receipt: str,
        conversation: str,
        *,
        failed_with: str = "",
        now: Moment,
    ) -> Generator[HttpRequest, HttpResponse, None]:
        """Ask about the receipt that a callback has named, of a success or of a failure with this
        code. The answer arrives by another callback."""
        order = transaction.order
        number = format_msisdn(order.party.msisdn)
        if order.type is Type.PAYIN:
            party = f"from {number}"
            operator = self.account.deposit_initiator
        elif order.type is Type.TAX:
            party = f"to {requests.TAX_AUTHORITY_SHORTCODE}"
            operator = self.account.initiator
        else:
            party = f"to {number}"
            operator = self.account.initiator

        address = CallbackContext(
            MpesaCallbackKind.POLL_RESULT,
            order.gateway_reference,
            order.requested.minor,
            transaction.progress.version,
            # The question by the conversation, now, is another one.
            asked_at=later(now.time, Span(1)),
            reported_code=failed_with,
            receipt=receipt,
            # `|` parts the members of an address; no id of Daraja's has one.
            conversation=conversation.replace("|", ""),
            party=party_digest(self.account.signing_key, party),
            credential=operator.credential,
        )
        # Whatever becomes of this question: it is asked again.
        with suppress(ExchangeFailed):
            yield requests.receipt_query(self.account, operator, transaction, address)


def _accepted_reference(document: Mapping[str, Any], field: str) -> str | None:
    """Return the reference of an accepted submission, which may be empty; None when it was not
    accepted. The ResponseCode of a QR code has several meanings, and a picture is a success."""
    # A sample of Safaricom's has an id there, clients report `00` (Dynamic QR).
    if field == "QRCode":
        if text_member(document, field):
            return ""
        return None
    if code_member(document, "ResponseCode") == codes.SUCCESS:
        return text_member(document, field)
    return None


def _lacks_product(answer: HttpResponse) -> bool:
    try:
        document = parse_json(answer.body)
        code = text_member(document, "errorCode")
        why = text_member(document, "errorMessage")
    except ValueError:
        return False
    return codes.lacks_product(code, why)


def _check_registered(answer: HttpResponse) -> None:
    """Raise RegistrationFailed for another answer than a success. One form has no code, and Pull
    Transactions spell their members without and with spaces."""
    try:
        document = parse_json(answer.body)
        members = {name.replace(" ", ""): value for name, value in document.items()}
        why = (
            text_member(members, "errorMessage")
            or text_member(members, "ResponseDescription")
            or soap_fault(document)
        )
        code = code_member(members, "ResponseCode") or code_member(members, "ResponseStatus")

        if answer.status == 200 and (
            code in (codes.SUCCESS, *REGISTERED_CODES) or (not code and why.lower() == "success")
        ):
            return
    except ValueError:
        why = "an answer that can't be read"

    # In production the addresses can be registered once: what was done before is done.
    if "already registered" not in why.lower():
        raise RegistrationFailed(f"Daraja answered {answer.status}: {why}")


def list_payments(
    provider: str, account: MpesaAccount, begin: Instant, end: Instant
) -> DepositListing:
    """Read the list page by page until one has nothing new. Raises ExchangeFailed."""
    listed: dict[str, DepositReport | UnmatchedNotified] = {}
    offset = 0
    for _ in range(PAGES_MAX):
        rows = _parse_page((yield pull_query(account, begin, end, offset=offset)))
        known = len(listed)
        offset += len(rows)

        # By their text: a page that repeats rows of the last one adds nothing, and ends the list.
        listed |= {json.dumps(row): _parse_row(provider, account, row) for row in rows}
        if len(listed) == known:
            return tuple(listed.values())

    more = UnmatchedNotified(
        provider, f"Daraja lists more than {PAGES_MAX} pages of payments: compare the statement."
    )
    return (*listed.values(), more)


def _parse_page(answer: HttpResponse) -> list[Any]:
    try:
        document = parse_json(answer.body)
        code = code_member(document, "ResponseCode")
    except ValueError as fault:
        # A list that breaks off is none: what is missing in it would count as not paid.
        raise ExchangeFailed(
            f"Daraja's list can't be read: {fault}.", may_have_arrived=True
        ) from None

    if code == NOTHING_FOUND:
        return []

    rows = document.get("Response")
    if answer.status != 200 or code != FOUND or not isinstance(rows, list):
        error = str(document.get("errorCode", code))[:30]
        raise ExchangeFailed(
            f"Daraja answered {answer.status} {error} instead of a list.", may_have_arrived=True
        )

    # Documents show an empty list as `[[]]`, so that rows may be nested by one level (assumed).
    nested = [entry if isinstance(entry, list) else [entry] for entry in rows]
    return [row for entries in nested for row in entries]


def _parse_row(provider: str, account: MpesaAccount, row: Any) -> DepositReport | UnmatchedNotified:
    """Return the payment in a row; what is not certainly one from a customer is left to a
    person."""
    try:
        receipt = text_member(row, "transactionId")
        bill_reference = text_member(row, "billreference")
        number = text_member(row, "msisdn")
        sender = text_member(row, "sender")
        kind = text_member(row, "transactiontype").lower()

        # `c2b-pay-bill-debit` in the documents' sample: a payment of a customer.
        if RECEIPT.fullmatch(receipt) and kind.startswith("c2b"):
            party = Party(bill_reference or number, number, sender or None)
            amount = parse_amount(row.get("amount"))
            trust = DepositTrust.LISTED
            return DepositReport(
                provider=provider,
                provider_reference=receipt,
                account=account.shortcode,
                bill_reference=bill_reference,
                amount=amount,
                party=party,
                trust=trust,
            )
    except (ValueError, AttributeError):
        # A row that is no object, or has a member of another type: a person looks at it.
        pass

    return UnmatchedNotified(provider, stored_text(json.dumps(row).encode()))


def _read_push(
    about: PaymentReports,
    status: int,
    document: Mapping[str, Any],
    provider_reference: str,
    hint: MpesaHint,
    *,
    now: Moment,
) -> ProviderReport:
    """Return the report from the answer to a question about a prompt. Raises ValueError where it is
    about another one, or a member can't be read."""
    code = code_member(document, "ResultCode")
    message = text_member(document, "ResultDesc")
    error = text_member(document, "errorCode")
    why = text_member(document, "errorMessage")
    if text_member(document, "CheckoutRequestID") not in ("", provider_reference):
        raise ValueError("it is about another push")

    # 1. An error. "Being processed" is one of them, with the status 500 (reported).
    if status != 200:
        state = codes.interpret_error(status, error, why)
        if state is codes.MpesaSubmissionState.ACCEPTED:
            return about.accepted(provider_reference)
        if code == codes.SUCCESS:
            raise ValueError(f"it has the status {status}")

        said = error or soap_fault(document)
        return about.unreachable(f"Daraja answered {status} {said}.")

    # 2. Still open. 3. Paid: the query names no receipt, which a callback may have named.
    if not code or code in codes.PAYIN_PENDING_CODES:
        return about.accepted(provider_reference)

    if code == codes.SUCCESS:
        return about.succeeded(
            hint.receipt or provider_reference,
            settles_receipt=bool(hint.receipt),
            lacks_receipt=not hint.receipt,
        )

    # 4. Failed, if the code is a known one, or the prompt can't be answered any more.
    submitted_at = about.transaction.progress.submitted_at or now.time
    error_code = codes.failure_of_prompt(code, age=elapsed(submitted_at, now.time))
    if error_code is None:
        return about.unreachable(f"Daraja answered the poll with the unknown code {code[:30]!r}.")

    return about.failed(error_code, code, message)
