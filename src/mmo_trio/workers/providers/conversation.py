"""Holds one conversation with a provider: sends each request that it asks for, and brings back what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog
import trio

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderReport, ProviderUnreachable
from mmo_sansio.providers.common.interface import Conversation, ExchangeFailed
from mmo_sansio.values.model import Transaction
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.providers.counters import ProviderCounts

logger = structlog.get_logger(__name__)

CONVERSATION_TIMEOUT_S = 20.0
"""How long a conversation may take, from before the submission is put on record; shorter than the law's
SUBMISSION_TIMEOUT."""

SendRequest: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a request to a provider; raises ExchangeFailed when there is no usable answer."""


async def run_conversation(
    conversation: Conversation,
    exchange: SendRequest,
    transaction: Transaction,
    deadline: float,
    counts: ProviderCounts,
) -> ProviderReport:
    """Hold the conversation to its end, or until its time is over, by Trio's clock; it always comes to a report."""
    name, reference = transaction.order.provider, transaction.reference
    try:
        request = next(conversation)
        while True:
            began = trio.current_time()
            try:
                answer = await _exchange_by_deadline(deadline, exchange, request)
            except ExchangeFailed as failure:
                counts.failed_exchanges += 1
                counts.exchange_durations.observe(trio.current_time() - began)
                request = conversation.throw(failure)
            else:
                counts.exchange_durations.observe(trio.current_time() - began)
                request = conversation.send(answer)
    except StopIteration as end:
        report: ProviderReport = end.value
        return report
    except Exception as fault:
        logger.error(
            "provider_conversation_failed",
            provider=name,
            reference=reference,
            fault=describe_fault(fault),
        )
        return ProviderUnreachable(reference, name, f"A fault of ours: {type(fault).__name__}.")


async def _exchange_by_deadline(
    deadline: float, exchange: SendRequest, request: HttpRequest
) -> HttpResponse:
    """The answer, if it comes by then. What hasn't been sent by then is not sent."""
    if trio.current_time() >= deadline:
        raise ExchangeFailed("Its time was over before it was sent.", may_have_arrived=False)
    with trio.move_on_at(deadline):
        return await exchange(request)
    raise ExchangeFailed("No answer came in time.", may_have_arrived=True)
