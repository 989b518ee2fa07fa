"""Judges what a step of a rehearsal has shown by what was promised: plain functions of what was
seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from attrs import frozen

from mmo_sansio.messages.inputs import (
    ProviderFailed,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
)
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.providers.common.rehearsal import AskUnknown, MakePayment
from mmo_sansio.values.model import Stage, Transaction
from mmo_sansio.values.reversals import Reversal, ReversalState
from mmo_trio.workers.providers.worker import REPORT_LABELS


class Verdict(StrEnum):
    """Says how a step has ended."""

    HELD = "held"
    DIFFERS = "differs"
    NOT_TRIED = "could not be tried"


@frozen
class Outcome:
    """What a step has shown. Its words are ours and the operator's codes, no texts of the
    operator."""

    verdict: Verdict
    seen: str


def held_if(is_held: bool, seen: str) -> Outcome:
    """Return the outcome of a step that was tried."""
    if is_held:
        return Outcome(Verdict.HELD, seen)
    return Outcome(Verdict.DIFFERS, seen)


def not_tried(why: str) -> Outcome:
    """Return the outcome of a step that was not tried."""
    return Outcome(Verdict.NOT_TRIED, why)


def judge_findings(findings: Sequence[AccountFinding]) -> Outcome:
    """Judge what questions about the account have found: all has to work, at most with a warning.

    What is not known yet may be told by a notification."""
    if not findings:
        return not_tried("The operator was asked, and no answer says anything.")

    # One part that is not known yet is no fault, as long as another one works.
    shown = (f"{finding.part} {finding.state} {finding.code}".rstrip() for finding in findings)
    refused = any(finding.state is AccountState.REFUSED for finding in findings)
    unknown = all(finding.state is AccountState.UNKNOWN for finding in findings)
    return held_if(not refused and not unknown, "; ".join(shown) + ".")


def judge_payment(step: MakePayment, payment: Transaction) -> Outcome:
    """Judge a payment that has ended."""
    # A step with a test number that refuses promises the refusal.
    progress = payment.progress
    if progress.stage is Stage.SUCCEEDED:
        return held_if(not step.refused_as, f"It ended as success, {progress.final}.")

    code = progress.provider_data and progress.provider_data.error_code
    told = ""
    if code:
        told = f" ({code})"

    return held_if(
        progress.error_code in step.refused_as, f"It failed with {progress.error_code}{told}."
    )


def judge_answer(report: ProviderReport, payment: Transaction) -> Outcome:
    """Judge the answer to a further question about a payment that has ended: it has to be the same
    result, as far as it names amount and error."""
    progress = payment.progress
    label = REPORT_LABELS[type(report)]
    match report:
        case ProviderSucceeded(final=final):
            is_same = progress.stage is Stage.SUCCEEDED and final in (None, progress.final)
        case ProviderFailed(error_code=error_code):
            is_same = progress.error_code is error_code
        case _:
            is_same = False

    return held_if(is_same, f"The answer was: {label}.")


def judge_unknown(step: AskUnknown, report: ProviderReport) -> Outcome:
    """Judge the answer to a question about a payment that was never sent."""
    # Where the operator's word is final, it says that nothing has come; elsewhere it must say
    # nothing by which a payment would end.
    if step.is_final:
        is_held = isinstance(report, ProviderNeverReceived)
    else:
        is_held = not isinstance(report, ProviderSucceeded | ProviderFailed | ProviderNeverReceived)

    return held_if(is_held, f"The answer was: {REPORT_LABELS[type(report)]}.")


def judge_reversal(reversal: Reversal) -> Outcome:
    """Judge a reversal that has ended."""
    if reversal.state is ReversalState.SUCCEEDED:
        return held_if(True, f"{reversal.amount} went back.")
    return held_if(False, f"It was refused with {reversal.native_code or 'no code'}.")


def judge_callback(statuses: Iterable[int]) -> Outcome:
    """Judge the callbacks about a payment, by the status that each was answered with."""
    answered = list(statuses)
    if not answered:
        return held_if(False, "None has come.")

    if len(answered) == 1:
        count = "One has"
    else:
        count = f"{len(answered)} have"

    shown = ", ".join(map(str, answered))
    return held_if(
        any(status < 300 for status in answered), f"{count} come, answered with {shown}."
    )
