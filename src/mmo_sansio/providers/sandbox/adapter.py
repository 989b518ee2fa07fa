"""Holds the conversations with the sandbox's operator (:mod:`.simulated_operator`).

It offers no idempotent submission, as real operators often do not: a repeated submission would be a
second payment in the operator's journal, so after a crash the gateway has to poll (S6)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from attrs import evolve, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages import inputs
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalFailed,
    ReversalReport,
    ReversalSucceeded,
)
from mmo_sansio.providers.common.balances import (
    AccountBalance,
    BalanceInquiry,
    BalanceReport,
    parse_balance,
)
from mmo_sansio.providers.common.emv_qr import QrMerchant, make_qr_code
from mmo_sansio.providers.common.interface import (
    Conversation,
    ExchangeFailed,
    PaymentReports,
    ReversalConversation,
    ReversalReports,
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
)
from mmo_sansio.providers.common.payees import PayeeInquiry, payee_named
from mmo_sansio.providers.common.wire import JSON_HEADERS, parse_json, stored_text, to_json
from mmo_sansio.providers.sandbox import wire
from mmo_sansio.providers.sandbox.scenarios import WHOLE_UNIT_CURRENCIES, find_scenario
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Moment, Span, elapsed
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Source, Transaction
from mmo_sansio.values.money import decimals_of
from mmo_sansio.values.payees import PayeeUnanswered, PayeeUnknown
from mmo_sansio.values.reversals import Reversal

# The recipient of the sandbox's QR codes, unless its options name another.
DEFAULT_QR_MERCHANT = QrMerchant(
    account=(("00", "org.mmo-gateway.sandbox"), ("01", "DEMO")),
    name="Demo Shop",
    city="Nairobi",
    country="KE",
)

# 2 s, then twice as long each time, up to an hour: a developer waits, a scenario may last for days.
POLL_INTERVALS: Sequence[Span] = (*(Span(2 * SECOND << doubled) for doubled in range(11)), HOUR)


_OPERATION = ProviderOperation(
    is_idempotent=False,
    can_be_polled=True,
    # The operator is part of this process: what it does not know it has never received.
    not_found_is_final_after=Span(0),
    poll_intervals=POLL_INTERVALS,
)

# The operator simulates every operation in the same way.
OPERATIONS: Mapping[OperationKey, ProviderOperation] = MappingProxyType(
    dict.fromkeys(
        (DIRECT_PAYIN, WEB_PAYIN, QR_PAYIN, PUSH, DIRECT_PAYOUT, DIRECT_TAXPAYOUT), _OPERATION
    )
)

REVERSAL = ReversalOperation(
    is_idempotent=False,
    can_be_polled=True,
    not_found_is_final_after=Span(0),
    poll_intervals=POLL_INTERVALS,
    can_be_partial=True,
)


@frozen
class SandboxProvider:
    """Represents an account with the sandbox's operator."""

    name: str
    title: str
    qr_merchant: QrMerchant = DEFAULT_QR_MERCHANT
    is_lenient: bool = False
    """Whether the operator takes numbers and amounts that real operators reject."""

    @property
    def is_simulated(self) -> bool:
        return True

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        return OPERATIONS

    def amount_decimals(self, currency: str) -> int:
        """Return how many decimals the operator takes; as many as the currency has, where it is
        lenient."""
        takes_whole_units = currency in WHOLE_UNIT_CURRENCIES and not self.is_lenient
        if takes_whole_units:
            return 0
        return decimals_of(currency)

    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Ask the operator to simulate the order's scenario."""
        now = Moment.at(now)
        about = PaymentReports(transaction, self.name)
        request = HttpRequest(
            "POST",
            f"{wire.ORIGIN}{wire.PAYMENTS_PATH}".encode(),
            JSON_HEADERS,
            self._submission_body(transaction, now=now),
        )
        try:
            answer = yield request
        except ExchangeFailed as failure:
            return about.unanswered(failure)

        # No refusal of the payment: the journal may have it, so it is asked about (S6).
        if answer.status != 202:
            return about.unreachable(
                f"The sandbox operator answered {answer.status} to a submission."
            )

        return self._read_response(about, answer)

    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Poll the operator about a submission; it is certain about those that it never
        received."""
        about = PaymentReports(transaction, self.name)
        target = f"{wire.ORIGIN}{wire.PAYMENTS_PATH}/{transaction.reference}".encode()
        try:
            answer = yield HttpRequest("GET", target)
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)

        if answer.status == 404:
            return about.never_received()

        if answer.status != 200:
            return about.unreachable(
                f"The sandbox operator answered {answer.status} to a question."
            )

        return self._read_response(about, answer)

    def ask_balances(self, *, now: Moment | Instant) -> BalanceInquiry:
        """Ask for the balances, one for each currency that was paid in or out."""
        now = Moment.at(now)
        # No answer, or one that can't be read, is no balance.
        with suppress(ExchangeFailed, ValueError):
            answer = yield HttpRequest("GET", f"{wire.ORIGIN}{wire.BALANCES_PATH}".encode())
            balances = []
            for currency, text in parse_json(answer.body).items():
                amount = parse_balance(text, currency)
                balances.append(
                    AccountBalance(self.name, amount.currency, amount, now.time, is_float=True)
                )
            return BalanceReport(balances)

        return BalanceReport()

    def ask_payee(self, msisdn: str, name: str, *, now: Moment | Instant) -> PayeeInquiry:
        """Ask who has the number."""
        target = f"{wire.ORIGIN}{wire.SUBSCRIBERS_PATH}/{msisdn.removeprefix('+')}"
        try:
            answer = yield HttpRequest("GET", target.encode())
            document = parse_json(answer.body)
        except (ExchangeFailed, ValueError):
            return PayeeUnanswered(self.name, "The operator can't be reached.")

        # Only the operator's own word: any other 404 says nothing of the number.
        unknown = wire.NATIVE_ERRORS[ErrorCode.USER_NOT_FOUND].code
        if answer.status == 404 and document.get("errorCode") == unknown:
            return PayeeUnknown(self.name)
        if answer.status != 200:
            return PayeeUnanswered(self.name, f"A question was answered {answer.status}.")

        return payee_named(self.name, document.get("name"), is_barred=document.get("barred"))

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        """The operator moves money of every payment back, and parts of it."""
        return dict.fromkeys(OPERATIONS, REVERSAL)

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask the operator to move money of the payment back."""
        about = ReversalReports(reversal, self.name)
        amount = wire.format_amount(reversal.amount)
        body = to_json({"reversal": reversal.id, "reference": reversal.payment, "amount": amount})
        target = f"{wire.ORIGIN}{wire.REVERSALS_PATH}".encode()
        try:
            answer = yield HttpRequest("POST", target, JSON_HEADERS, body)
        except ExchangeFailed as failure:
            return about.unanswered(failure)

        return self._read_reversal(about, answer, 202)

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask the operator about a reversal; it is certain about those that it never received."""
        about = ReversalReports(reversal, self.name)
        try:
            answer = yield HttpRequest(
                "GET", f"{wire.ORIGIN}{wire.REVERSALS_PATH}/{reversal.id}".encode()
            )
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)

        if answer.status == 404:
            return about.never_received()

        return self._read_reversal(about, answer, 200)

    def _read_reversal(
        self, about: ReversalReports, answer: HttpResponse, expected_status: int
    ) -> ReversalReport:
        if answer.status != expected_status:
            return about.unreachable(
                f"The sandbox operator answered {answer.status} about a reversal."
            )

        try:
            return self._to_reversal_report(about.reversal.id, parse_json(answer.body), Source.POLL)
        except ValueError as error:
            return about.unreachable(
                f"The sandbox operator gave an answer that can't be read: {error}."
            )

    def read_notification(
        self, request: HttpRequest
    ) -> inputs.ProviderReport | ReversalReport | inputs.UnmatchedNotified:
        """Return the result of a payment or a reversal; an unreadable notification is stored as it
        came."""
        try:
            document = parse_json(request.body)
            # It names its payment, too, so that it would pass for a result of that.
            if (reversal := wire.optional_member(document, "reversal", str)) is not None:
                return self._to_reversal_report(reversal, document, Source.WEBHOOK)

            return self._to_report(
                wire.required_member(document, "reference", str), document, Source.WEBHOOK
            )
        except ValueError:
            return inputs.UnmatchedNotified(self.name, stored_text(request.body))

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """Return an empty response, which the operator accepts."""
        return HttpResponse(204)

    def _read_response(
        self, about: PaymentReports, response: HttpResponse
    ) -> inputs.ProviderReport:
        reference = about.transaction.reference
        order = about.transaction.order
        try:
            document = parse_json(response.body)
            # Another payment's success must not end this one.
            if wire.required_member(document, "reference", str) != reference:
                raise ValueError("it is about another payment")

            report = self._to_report(reference, document, Source.POLL)
        except ValueError as error:
            return about.unreachable(
                f"The sandbox operator gave an answer that can't be read: {error}."
            )

        # The operator draws no code: its text is made from the account's merchant.
        if isinstance(report, inputs.ProviderAccepted) and order.flow is Flow.QR:
            return evolve(report, qr=make_qr_code(self.qr_merchant, order))

        return report

    def _to_report(
        self, reference: str, document: dict[str, Any], source: Source
    ) -> inputs.ProviderAccepted | inputs.ProviderSucceeded | inputs.ProviderFailed:
        """Return the meaning of a payment of the operator; raises ValueError when it has none."""
        known_as = wire.optional_member(document, "providerReference", str)
        match wire.required_member(document, "status", str):
            case "pending":
                ask_after = wire.optional_member(document, "askAfterUs", int)
                return inputs.ProviderAccepted(reference, self.name, source, known_as, ask_after)
            case "success":
                fee = None
                if document.get("fee") is not None:
                    fee = wire.parse_amount(document, "fee")

                return inputs.ProviderSucceeded(
                    reference,
                    self.name,
                    source,
                    known_as,
                    final=wire.parse_amount(document, "amount"),
                    fee=fee,
                    party_data=_to_json_text(wire.optional_member(document, "partyData", dict)),
                )
            case "failed":
                code = wire.required_member(document, "errorCode", str)
                # Nobody is told "failed" by a guess: without a known code it is asked again.
                if code not in wire.ERROR_CODES:
                    raise ValueError(f"{code} is no known error")
                return inputs.ProviderFailed(
                    reference,
                    self.name,
                    source,
                    wire.ERROR_CODES[code],
                    known_as,
                    native_code=code,
                    native_message=wire.optional_member(document, "errorMessage", str),
                )
            case other:
                raise ValueError(f"{other} is no known status")

    def _to_reversal_report(
        self, reversal: str, document: dict[str, Any], source: Source
    ) -> ReversalAccepted | ReversalSucceeded | ReversalFailed:
        """Return the meaning of a reversal of the operator; raises ValueError when it has none."""
        # Another reversal's success must not end this one.
        if wire.required_member(document, "reversal", str) != reversal:
            raise ValueError("it is about another reversal")

        known_as = wire.optional_member(document, "providerReference", str)
        match wire.required_member(document, "status", str):
            case "pending":
                return ReversalAccepted(reversal, self.name, source, known_as)
            case "success":
                return ReversalSucceeded(
                    reversal,
                    self.name,
                    source,
                    known_as,
                    amount=wire.parse_amount(document, "amount"),
                )
            case "failed":
                code = wire.required_member(document, "errorCode", str)
                reason = wire.optional_member(document, "errorMessage", str)
                reason = reason or "The operator has refused it."
                return ReversalFailed(reversal, self.name, source, reason, code, known_as)
            case other:
                raise ValueError(f"{other} is no known status")

    def _submission_body(self, transaction: Transaction, *, now: Moment) -> bytes:
        order = transaction.order
        return to_json(
            {
                "reference": order.gateway_reference,
                "type": order.type,
                "amount": wire.format_amount(order.requested),
                "msisdn": order.party.msisdn,
                "firstName": order.party.first_name,
                "lastName": order.party.last_name,
                # How long it has, not until when: the operator keeps a time of its own.
                "expiresInUs": elapsed(now.time, order.expires_at),
                "scenario": find_scenario(order, is_lenient=self.is_lenient).name,
            }
        )


def _to_json_text(document: dict[str, Any] | None) -> str | None:
    if document is None:
        return None
    return json.dumps(document, ensure_ascii=False)
