"""Carries out what an organisation's API operator initiates, with the result in a later callback:
payments to customers, to other organisations and to the tax authority, reversals, and questions
about a payment or the balance."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import Factory, define, evolve

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_simulators.common.faults import EndWith, Fault, find_fault
from mmo_simulators.common.messages import json_response
from mmo_simulators.operators.mpesa import responses, result_bodies
from mmo_simulators.operators.mpesa.accounts import (
    TAX_AUTHORITY,
    SimulatedMpesaAccount,
    SimulatedMpesaAccounts,
    SimulatedMpesaPayment,
)
from mmo_simulators.operators.mpesa.request_checks import (
    MpesaRequestRejected,
    find_organisation,
    find_refusal,
    invalid_field,
)
from mmo_simulators.operators.mpesa.schedule import MpesaSchedule, callback_delays

# A result comes some seconds after the answer, and never with it.
RESULT_DELAY: Final = Span(2 * SECOND)
ANSWER_DELAY: Final = SECOND

Form: TypeAlias = Mapping[str, str]


@define(eq=False)
class InitiatedRequests:
    """Carries out the requests of API operators."""

    schedule: MpesaSchedule
    decrypt: Callable[[bytes], bytes | None]
    """Decrypts what was encrypted for the operator's certificate; None when it wasn't."""
    keeps_originator_id: bool = True
    """Whether a pay-out keeps its OriginatorConversationID, or is given another one in addition."""
    _used_originator_ids: set[str] = Factory(set)
    """Every OriginatorConversationID that was received."""

    def pay_customer(self, form: Form, faults: Sequence[Fault], now: Instant) -> HttpResponse:
        """Accept a pay-out; of version 1 the form has no OriginatorConversationID."""
        # Also where it came to nothing: an id that was used is used (documented).
        own = form.get("OriginatorConversationID")
        if own in self._used_originator_ids:
            raise MpesaRequestRejected(500, "500.002.1001", "Duplicate OriginatorConversationID.")

        payer = find_organisation(self._accounts, form)
        payment = self.schedule.accept_payment(
            "b2c", form, payer.id, form["PartyB"], "ResultURL", faults, now
        )
        # Version 1 has no id of ours, so that nothing protects from a second pay-out.
        if own is not None:
            self._used_originator_ids.add(own)
            if self.keeps_originator_id:
                payment.originator_id = own

        payment.reference = own or payment.originator_id
        refusal = self._find_refusal(payer, form["InitiatorName"], form, "b2c")
        return self._accept(
            payment, faults, now, lambda: self._accounts.payout_error_code(payment, refusal)
        )

    def pay_organisation(self, form: Form, faults: Sequence[Fault], now: Instant) -> HttpResponse:
        """Accept a payment to a paybill or till, or to the shortcode that pays out."""
        payer = find_organisation(self._accounts, form)
        # A paybill's account number; a till has none.
        if form["CommandID"] == "BusinessPayBill" and "AccountReference" not in form:
            raise invalid_field("AccountReference")

        payee = self._accounts.accounts.get(form["PartyB"])
        if payee is None or payee.id == payer.id:
            raise invalid_field("PartyB")

        payment = self.schedule.accept_payment(
            "b2b", form, payer.id, payee.id, "ResultURL", faults, now
        )
        payment.reference = form.get("AccountReference", form["Remarks"])
        payment.is_for_goods = form["CommandID"] == "BusinessBuyGoods"
        return self._accept(payment, faults, now, self._debit_check(payer, payment, form))

    def remit_tax(self, form: Form, faults: Sequence[Fault], now: Instant) -> HttpResponse:
        """Accept a payment to the tax authority."""
        payer = find_organisation(self._accounts, form)
        payment = self.schedule.accept_payment(
            "tax", form, payer.id, TAX_AUTHORITY, "ResultURL", faults, now
        )
        payment.reference = form["Remarks"]
        return self._accept(payment, faults, now, self._debit_check(payer, payment, form))

    def reverse(self, form: Form, faults: Sequence[Fault], now: Instant) -> HttpResponse:
        """Accept the reversal of a payment that the organisation has received."""
        payer = find_organisation(self._accounts, form, "ReceiverParty")
        original = self._accounts.find_payment(receipt=form["TransactionID"])
        payee = ""
        if original is not None:
            payee = original.payer

        payment = self.schedule.accept_payment(
            "reversal", form, payer.id, payee, "ResultURL", faults, now
        )
        payment.reference = form["TransactionID"]
        payment.reversed_receipt = form["TransactionID"]
        refusal = self._find_refusal(payer, form["Initiator"], form, "reversal")

        # Only once the money is back: a reversal that fails may be asked for again.
        def mark_original(_: SimulatedMpesaPayment, __: Instant) -> None:
            if original is not None:
                original.is_reversed = True

        return self._accept(
            payment,
            faults,
            now,
            lambda: self._accounts.reversal_error_code(payment, refusal),
            mark_original,
        )

    def query_status(self, form: Form, faults: Sequence[Fault], now: Instant) -> HttpResponse:
        """Accept a question about a payment, by its receipt or its OriginatorConversationID."""

        def build(code: str | None, ids: tuple[str, str], then: Instant) -> dict[str, Any]:
            receipt = form.get("TransactionID", "")
            payment = self._accounts.find_payment(
                originator_id=form.get("OriginalConversationID", ""), receipt=receipt
            )

            # `2032` was seen for a receipt; for a conversation the portal names `SFC_IC0003`.
            if payment is None and receipt and code is None:
                code = "2032"

            # A script's answer to questions by the payment's own id, once it has a result.
            if (
                payment is not None
                and not receipt
                and payment.polled_code
                and payment.result is not None
            ):
                payment = evolve(payment, result=payment.polled_code)

            return result_bodies.status_callback(
                payment, self._accounts, code, ids, form.get("Occasion", "")
            )

        return self._accept_question("status", form, faults, now, build)

    def query_balance(self, form: Form, faults: Sequence[Fault], now: Instant) -> HttpResponse:
        """Accept a question about the organisation's own balance."""

        def build(code: str | None, ids: tuple[str, str], then: Instant) -> dict[str, Any]:
            balance_minor = self._accounts.accounts[form["PartyA"]].balance_minor
            return result_bodies.balance_callback(balance_minor, code, ids, now=then)

        return self._accept_question("balance", form, faults, now, build)

    @property
    def _accounts(self) -> SimulatedMpesaAccounts:
        return self.schedule.accounts

    def _accept(
        self,
        payment: SimulatedMpesaPayment,
        faults: Sequence[Fault],
        now: Instant,
        find_error_code: Callable[[], str | None],
        on_paid: Callable[[SimulatedMpesaPayment, Instant], None] | None = None,
    ) -> HttpResponse:
        """Answer that a payment is accepted, and schedule its result: `find_error_code` is asked
        when it ends, as balances change until then, and None moves the money."""
        self.schedule.schedule_result(payment, RESULT_DELAY, faults, now, find_error_code, on_paid)
        return json_response(
            200, responses.accepted_response(payment.conversation_id, payment.originator_id)
        )

    def _accept_question(
        self,
        operation: str,
        form: Form,
        faults: Sequence[Fault],
        now: Instant,
        build: Callable[[str | None, tuple[str, str], Instant], dict[str, Any]],
    ) -> HttpResponse:
        asker = find_organisation(self._accounts, form)
        number = self.schedule.next_number()
        ids = (f"AG_{number:09d}", f"simulated-{number}")

        # Taken in any case: what is wrong with the question its answer says.
        code = self._find_refusal(asker, form["Initiator"], form, operation)
        ending = find_fault(EndWith, faults)
        if ending is not None:
            code = ending.code

        def answer(then: Instant) -> None:
            self.schedule.send(
                responses.callback_request(form["ResultURL"], build(code, ids, then))
            )

        for after in callback_delays(faults):
            self.schedule.schedule(later(later(now, ANSWER_DELAY), after), answer)

        return json_response(200, responses.accepted_response(*ids))

    def _debit_check(
        self, payer: SimulatedMpesaAccount, payment: SimulatedMpesaPayment, form: Form
    ) -> Callable[[], str | None]:
        refusal = self._find_refusal(payer, form["Initiator"], form, payment.kind)

        def find_error_code() -> str | None:
            if refusal is not None:
                return refusal
            if payer.balance_minor < payment.amount_minor:
                return "1"
            return None

        return find_error_code

    def _find_refusal(
        self, account: SimulatedMpesaAccount, initiator: str, form: Form, operation: str
    ) -> str | None:
        try:
            plain = self.decrypt(b64decode(form["SecurityCredential"], validate=True))
        except ValueError:
            # What can't be decrypted is a wrong password: M-Pesa tells no more.
            plain = None
        return find_refusal(account, initiator, plain, operation)


InitiatedHandler: TypeAlias = Callable[
    [InitiatedRequests, Form, Sequence[Fault], Instant], HttpResponse
]

# By operation.
INITIATED_HANDLERS: Final[Mapping[str, InitiatedHandler]] = {
    "b2c": InitiatedRequests.pay_customer,
    "b2b": InitiatedRequests.pay_organisation,
    "tax": InitiatedRequests.remit_tax,
    "reversal": InitiatedRequests.reverse,
    "status": InitiatedRequests.query_status,
    "balance": InitiatedRequests.query_balance,
}
