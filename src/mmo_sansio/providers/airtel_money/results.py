"""What the operator's answers come to.

The payment's own status decides; a code by itself only refuses what was never begun. Whatever is ambiguous, contradicts
itself or isn't written down anywhere is asked about again, never guessed (S6).
"""

from __future__ import annotations

from attrs import frozen

from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
)
from mmo_sansio.providers.airtel_money.account import AirtelAccount
from mmo_sansio.providers.airtel_money.codes import (
    COLLECTION,
    DISBURSEMENT,
    HTTP_REFUSALS,
    REFUSED_BY_PAYER,
    Code,
    Standing,
    is_open_status,
    meaning_of,
)
from mmo_sansio.providers.airtel_money.wire import Answer
from mmo_sansio.providers.common.operations import Operation
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction, Type

TOO_MANY_REQUESTS = 429
"""The operator's rate limit turned a submission away before anybody looked at it."""

_UNDECIDED = frozenset({"TA", "TIP"})


@frozen
class About:
    """The payment that an answer is about, and whose it is."""

    transaction: Transaction
    provider: str
    account: AirtelAccount

    @property
    def is_payin(self) -> bool:
        """Whether the operator was asked to collect."""
        return self.transaction.order.type is Type.PAYIN

    def meaning(self, answer: Answer) -> Code | None:
        """The row for the answer's code."""
        table = COLLECTION if self.is_payin else DISBURSEMENT
        return meaning_of(answer.code, answer.message, table)

    def accepted(self) -> ProviderAccepted:
        """It is under way."""
        return ProviderAccepted(self.transaction.reference, self.provider, Source.POLL)

    def succeeded(self, answer: Answer) -> ProviderSucceeded:
        """It was paid."""
        return ProviderSucceeded(
            self.transaction.reference, self.provider, Source.POLL, answer.airtel_money_id
        )

    def failed(
        self, error_code: ErrorCode, native_code: str | None = None, message: str | None = None
    ) -> ProviderFailed:
        """It was not and will not be paid."""
        if self.account.is_refusal_of_payer and self.is_payin and native_code == REFUSED_BY_PAYER:
            error_code = ErrorCode.USER_CANCELLED
        return ProviderFailed(
            self.transaction.reference,
            self.provider,
            Source.POLL,
            error_code,
            native_code=native_code,
            native_message=message,
        )

    def unclear(self, what: str) -> ProviderUnreachable:
        """Nothing is known."""
        return ProviderUnreachable(
            self.transaction.reference, self.provider, f"Airtel Money {what}."
        )

    def never_received(self) -> ProviderNeverReceived:
        """It certainly never arrived."""
        version = self.transaction.progress.version
        return ProviderNeverReceived(self.transaction.reference, self.provider, version)


def of_submission(answer: Answer, about: About) -> ProviderReport:
    """What the answer to a submission comes to. The answer to a pay-in is never its result, whatever it says."""
    if is_open_status(answer.status):
        return about.unclear(f"answered {answer.status} to a submission")
    if answer.status == TOO_MANY_REQUESTS:
        return about.never_received()
    code = about.meaning(answer)
    if not about.is_payin and _is_paid_out(answer, code, about.account):
        return about.succeeded(answer)
    if _is_refused(answer, code):
        assert code is not None
        assert code.error_code is not None
        return about.failed(code.error_code, answer.code, answer.message)
    if code is None and answer.status in HTTP_REFUSALS:
        native_code = answer.code or f"HTTP {answer.status}"
        return about.failed(HTTP_REFUSALS[answer.status], native_code, answer.message)
    if (answer.status == 200 and answer.success) or (code and code.standing is Standing.OPEN):
        return about.accepted()
    return about.unclear(f"answered {answer.status} with {answer.code or 'no code'}")


def of_question(
    answer: Answer, about: About, operation: Operation, *, now: Instant
) -> ProviderReport:
    """What the answer to a question comes to. Refusals without the payment's status refuse the question only."""
    if answer.transaction_id not in (None, about.transaction.reference):
        return about.unclear("answered about another payment")
    code = about.meaning(answer)
    is_answer = answer.status == 200
    match answer.transaction_status:
        case "TS" if is_answer and answer.success is not False and not _denies(code):
            return about.succeeded(answer)
        case "TF" if is_answer:
            if code is None:
                return about.failed(ErrorCode.TRANSACTION_DECLINED, answer.code, answer.message)
            if code.error_code is not None:
                return about.failed(code.error_code, answer.code, answer.message)
        case "TE" if is_answer and about.is_payin:
            return about.failed(ErrorCode.TRANSACTION_EXPIRED, answer.code or "TE", answer.message)
        case "TA" | "TIP" if is_answer:
            return about.accepted()
        case None if code is not None and code.standing is Standing.NEVER_TAKEN:
            submitted_at = about.transaction.progress.submitted_at
            if submitted_at is not None and operation.is_not_found_final(submitted_at, now=now):
                return about.never_received()
    told = f"{answer.transaction_status or 'no status'} and {answer.code or 'no code'}"
    return about.unclear(f"answered {answer.status} with {told} to a question")


def _is_paid_out(answer: Answer, code: Code | None, account: AirtelAccount) -> bool:
    """All of it must say so; only the oldest version leaves the status out."""
    says_status = answer.transaction_status == "TS" or (
        answer.transaction_status is None and account.disbursement_version == 1
    )
    is_done = code is not None and code.standing is Standing.DONE
    return answer.status == 200 and answer.success is True and is_done and says_status


def _is_refused(answer: Answer, code: Code | None) -> bool:
    """Whether it was certainly not begun: nothing may say otherwise."""
    if code is None or code.standing is not Standing.REFUSED or answer.success is True:
        return False
    is_said = answer.status >= 400 or answer.success is False
    return is_said and answer.transaction_status not in ("TS", *_UNDECIDED)


def _denies(code: Code | None) -> bool:
    return code is not None and code.standing in (Standing.REFUSED, Standing.NEVER_TAKEN)
