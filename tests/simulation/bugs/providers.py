"""Bugs of the conversations with operators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import trio
from attrs import evolve

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import (
    ProviderFailed,
    ProviderReport,
    ProviderUnreachable,
)
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction
from mmo_trio.http.client.client import HttpClient
from mmo_trio.workers.providers import worker
from mmo_trio.workers.providers.worker import ProviderWorker, run_conversation


def unreachable_taken_for_failure() -> AbstractContextManager[object]:
    """A payment has failed when its provider does not answer the submission."""

    def fail(report: ProviderReport) -> ProviderReport:
        if isinstance(report, ProviderUnreachable):
            code = ErrorCode("provider_unavailable")
            return ProviderFailed(report.gateway_reference, report.provider, Source.POLL, code)
        return report

    return _reports_changed(fail)


def _reports_changed(
    change: Callable[[ProviderReport], ProviderReport],
) -> AbstractContextManager[object]:
    async def run_and_change(*args: Any, **kwargs: Any) -> ProviderReport:
        return change(await run_conversation(*args, **kwargs))

    return patch.object(worker, "run_conversation", run_and_change)


def retry_doubles_a_submission() -> AbstractContextManager[object]:
    """A submission that was not answered is sent again, under another reference."""
    converse = ProviderWorker._converse

    async def converse_twice(
        self: ProviderWorker, conversation: Any, exchange: Any, about: Transaction, at: float
    ) -> ProviderReport:
        provider = self.providers[about.order.provider]
        report = await converse(self, conversation, exchange, about, at)
        if isinstance(report, ProviderUnreachable):
            another = f"{about.reference[:-1]}{'0' if about.reference[-1] != '0' else '1'}"
            order = evolve(about.order, gateway_reference=another)
            again = provider.submit(evolve(about, order=order), now=self.moment())
            await run_conversation(
                again, exchange, about, trio.current_time() + 20, self.counts[provider.name]
            )
        return report

    return patch.object(ProviderWorker, "_converse", converse_twice)


def lost_answer_taken_for_a_lost_request() -> AbstractContextManager[object]:
    """Whatever goes wrong, the operator counts as never having received the request."""
    call_provider = HttpClient.call_provider

    async def call_certainly(self: HttpClient, request: HttpRequest, **options: Any) -> Any:
        try:
            return await call_provider(self, request, **options)
        except ExchangeFailed as error:
            raise ExchangeFailed(error.reason, may_have_arrived=False) from error

    return patch.object(HttpClient, "call_provider", call_certainly)
