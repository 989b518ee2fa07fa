"""Asks the questions of an account's check one after the other, and collects what their answers
say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from attrs import frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import (
    AccountCheck,
    AccountFinding,
    AccountState,
    CredentialStopped,
    ExchangeFailed,
)
from mmo_sansio.values.model import Type

# The part that stands for the keys themselves: every other question depends on it.
SIGN_IN: Final = "sign-in"

_NO_TOKEN: Final = (
    "The operator gives no access token for the account's keys. Whoever manages the account in "
    "the operator's portal compares them with the settings."
)
_NO_TOKEN_SERVICE: Final = (
    "The operator's token service does not work: maintenance, or a firewall. Only the operator "
    "mends that; if it lasts, ask it whether it blocks this gateway's address."
)


@frozen
class AccountQuestion:
    """A harmless request, and what its answer says."""

    part: str
    """What of the account it is asked with; questions with one part have one finding."""
    request: HttpRequest
    judge: Callable[[HttpResponse], AccountFinding | None]
    """Returns what the answer says; None when it says nothing, or when a notification will say
    it."""


@frozen
class SubmissionPart:
    """The part of an account by which it submits; what refuses it says nothing of a payment."""

    name: str
    held: tuple[Type, ...] = ()
    """The payments that meet the same refusal: they wait."""
    holds_reversals: bool = False

    def refused(self, provider: str, code: str, words: str) -> AccountFinding:
        """Return the finding that the provider refuses the account, and no payment."""
        return AccountFinding(
            provider,
            self.name,
            AccountState.REFUSED,
            code,
            words,
            held=self.held,
            holds_reversals=self.holds_reversals,
        )

    def works(self, provider: str) -> AccountFinding:
        """Return the finding that the provider takes what is submitted."""
        words = "The operator takes submissions."
        return AccountFinding(provider, self.name, AccountState.WORKS, "", words)


def ask_all(provider: str, questions: Sequence[AccountQuestion]) -> AccountCheck:
    """Ask each question, until the provider gives no access token. A refusal counts before all else
    of its part."""
    findings: dict[str, AccountFinding] = {}
    for question in questions:
        try:
            finding = question.judge((yield question.request))
            # Any answer, whatever it says, was given to a token that the operator accepts.
            findings[SIGN_IN] = AccountFinding(
                provider, SIGN_IN, AccountState.WORKS, "", "The operator accepts the keys."
            )
        except CredentialStopped:
            # 1. Not sent, lest the operator lock the credential: what is known of it stays.
            continue
        except ExchangeFailed as failure:
            # 2. No token: the other questions would end the same way, and could lock the keys.
            if failure.sign_in_status is not None:
                return (*findings.values(), sign_in_finding(provider, failure.sign_in_status))

            # 3. No answer: this part is unknown, the next may answer.
            finding = no_answer_finding(provider, question.part)

        # Of several questions about one part the first counts, unless a later one is refused.
        if finding is not None and (
            question.part not in findings or finding.state is AccountState.REFUSED
        ):
            findings[question.part] = finding

    return tuple(findings.values())


def sign_in_finding(provider: str, status: int) -> AccountFinding:
    """Return the finding from a response of this status without an access token."""
    code = f"HTTP {status}"

    # A timeout, a limit or a fault of the operator says nothing of the keys.
    if status in (408, 429) or status >= 500:
        return AccountFinding(provider, SIGN_IN, AccountState.UNKNOWN, code, _NO_TOKEN_SERVICE)
    return AccountFinding(provider, SIGN_IN, AccountState.REFUSED, code, _NO_TOKEN)


def no_answer_finding(provider: str, part: str, code: str = "") -> AccountFinding:
    """Return the finding from no answer, or from one that says nothing about the account."""
    words = "The operator gave no answer that says anything about the account."
    return AccountFinding(provider, part, AccountState.UNKNOWN, code, words)
