"""Asks operators whose account is behind a number, for a merchant or a member of staff who waits.

Neither number nor name is stored, logged or counted; what is counted are the outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import trio
from attrs import Factory, define

from mmo_sansio.providers.common.payees import NamesPayees
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.payees import PayeeReport, PayeeUnanswered, outcome_of
from mmo_trio.workers.providers.account import SendRequest, drive_async

# Seconds that the operator has: those who ask wait for no more than ten.
ANSWERED_WITHIN_S: Final = 8.0

# How often each outcome was told, by provider and outcome.
PayeeOutcomes: TypeAlias = Counter[tuple[str, str]]


@define(eq=False)
class PayeeQuestions:
    """Asks through the accounts of this process."""

    providers: Mapping[str, NamesPayees]
    """Those that can be asked, by name."""
    ask_for: Callable[[str], SendRequest]
    moment: Callable[[], Moment]
    outcomes: PayeeOutcomes = Factory(Counter)

    def can_ask(self, provider: str) -> bool:
        """Tell whether this provider tells anything of payees."""
        return provider in self.providers

    async def ask(self, provider: str, msisdn: str, name: str = "") -> PayeeReport:
        """Return what the provider tells of the account behind a number. `name` is what the asker
        believes; only a provider that compares names is told it."""
        inquiry = self.providers[provider].ask_payee(msisdn, name, now=self.moment())

        # What is told when the time is over; the question is given up then.
        report: PayeeReport = PayeeUnanswered(provider, "The operator has not answered in time.")
        with trio.move_on_after(ANSWERED_WITHIN_S):
            report = await drive_async(inquiry, self.ask_for(provider))

        self.outcomes[provider, outcome_of(report)] += 1
        return report
