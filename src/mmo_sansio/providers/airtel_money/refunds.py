"""Reads the answer to a refund, which gives a collection back whole, by its airtel_money_id.

A refund takes no id of ours, and no document names a question about one. So an answer that leaves its outcome open
leaves it to Airtel's statement and a person.
"""

from __future__ import annotations

from typing import Final

from mmo_sansio.messages.reversals import ReversalReport
from mmo_sansio.providers.airtel_money import codes
from mmo_sansio.providers.airtel_money.results import TOO_MANY_REQUESTS
from mmo_sansio.providers.airtel_money.wire import AirtelResponse
from mmo_sansio.providers.common.interface import ReversalReports
from mmo_sansio.providers.common.operations import ReversalOperation
from mmo_sansio.values.clock import HOUR

REFUND: Final = ReversalOperation(
    is_idempotent=False, can_be_polled=False, not_found_is_final_after=None, poll_intervals=(HOUR,)
)

_DONE_STATUSES: Final = ("SUCCESS", "TS")
_REFUSALS: Final = (codes.AirtelOutcome.REJECTED, codes.AirtelOutcome.NOT_FOUND)


def refund_report(response: AirtelResponse, about: ReversalReports) -> ReversalReport:
    """Return the report from the response to a refund. The money is back when all parts of the response say so; the
    portal's own sample has `"success": false` beside a SUCCESS, which can be read in two ways."""
    code = codes.find_code(response.code, response.message, codes.COLLECTION)
    status, is_done = response.status, response.transaction_status in _DONE_STATUSES
    if status == TOO_MANY_REQUESTS:
        return about.never_received()
    if not codes.is_inconclusive_status(status) and response.is_clear:
        # That the payment is not found also says that nothing was given back.
        is_refusal = code is not None and (code.outcome in _REFUSALS or code.native == codes.NOT_FOUND_CODE)
        if is_done and status == 200 and response.success is True and not is_refusal:
            return about.succeeded(response.airtel_money_id)
        if code is not None and is_refusal and not is_done and response.success is not True:
            return about.failed(f"Airtel has refused it: {code.meaning}.", code.native)
        if code is None and status in codes.HTTP_REJECTIONS:
            return about.failed("Airtel has refused it: the application has no permission.", f"HTTP {status}")
    shown = f"{response.transaction_status or 'no status'} and {response.code or 'no code'}"
    return about.unreachable(f"Airtel Money answered {status} with {shown} to a refund.")
