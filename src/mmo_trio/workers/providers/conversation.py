"""Runs conversations with providers: sends each request that an adapter yields, and returns its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeAlias, TypeVar

import structlog
import trio

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderReport, ProviderUnreachable
from mmo_sansio.providers.common.interface import Conversation, ExchangeFailed, Finished, resume
from mmo_sansio.values.model import Transaction
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.providers.counters import ProviderCounts

logger = structlog.get_logger(__name__)

CONVERSATION_TIMEOUT_S = 20.0
"""Seconds for a conversation, from before its submission is recorded; shorter than SUBMISSION_TIMEOUT of the payment
rules."""

SendRequest: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a request to a provider; raises ExchangeFailed when there is no usable answer."""

ResultT = TypeVar("ResultT")


async def drive_async(conversation: Generator[HttpRequest, HttpResponse, ResultT], exchange: SendRequest) -> ResultT:
    """Run a conversation to its end and return its result. Raises what the conversation raises."""
    step = resume(conversation)
    while not isinstance(step, Finished):
        try:
            outcome: HttpResponse | ExchangeFailed = await exchange(step)
        except ExchangeFailed as failure:
            outcome = failure
        step = resume(conversation, outcome)
    return step.result


async def run_conversation(
    conversation: Conversation, exchange: SendRequest, transaction: Transaction, deadline: float, counts: ProviderCounts
) -> ProviderReport:
    """Run a conversation about a transaction. Whatever happens, it ends in a report; after the deadline, by Trio's
    clock, nothing more is sent."""

    async def exchange_and_count(request: HttpRequest) -> HttpResponse:
        began = trio.current_time()
        try:
            answer = await _exchange_by_deadline(deadline, exchange, request)
        except ExchangeFailed:
            counts.failed_exchanges += 1
            counts.exchange_durations.observe(trio.current_time() - began)
            raise
        counts.exchange_durations.observe(trio.current_time() - began)
        return answer

    try:
        return await drive_async(conversation, exchange_and_count)
    except Exception as fault:
        name, reference = transaction.order.provider, transaction.reference
        log = logger.bind(provider=name, reference=reference)
        log.error("provider_conversation_failed", fault=describe_fault(fault))
        return ProviderUnreachable(reference, name, f"A fault of ours: {type(fault).__name__}.")


async def _exchange_by_deadline(deadline: float, exchange: SendRequest, request: HttpRequest) -> HttpResponse:
    """Return the answer if it arrives by the deadline; an unsent request is not sent after it."""
    if trio.current_time() >= deadline:
        raise ExchangeFailed("Its time was over before it was sent.", may_have_arrived=False)
    with trio.move_on_at(deadline):
        return await exchange(request)
    raise ExchangeFailed("No answer came in time.", may_have_arrived=True)
