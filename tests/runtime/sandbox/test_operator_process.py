"""One sandbox operator for several workers: what one submitted any may ask about, and nothing is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
from attrs import define

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import ProviderAccepted, ProviderSucceeded
from mmo_sansio.providers.common.interface import Conversation, ExchangeFailed
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.providers.sandbox.journal import SandboxSubmission
from mmo_sansio.testing import a_transaction
from mmo_trio.sandbox.operator_journal import read_operator_journal
from mmo_trio.sandbox.operator_process import OperatorClient, OperatorProcess, operator_socket_path
from mmo_trio.storage.interface.store import StoreUnavailable
from tests.support.engine_double import now

PATIENCE_S = 30
PROVIDER = SandboxProvider("test", "Test Money")


@asynccontextmanager
async def operating(book: Path) -> AsyncIterator[trio.CancelScope]:
    """An operator as long as the block lasts, or until its scope is cancelled."""
    scope = trio.CancelScope()

    async def operate() -> None:
        with scope:
            await OperatorProcess(book, now).run()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(operate)
            yield scope
            nursery.cancel_scope.cancel()


@define
class Taken:
    """A notification that a gateway deals with."""

    deal: Callable[[], Awaitable[None]]

    async def reply(self) -> None:
        await self.deal()


@asynccontextmanager
async def connected(
    book: Path, deal: Callable[[], Awaitable[None]]
) -> AsyncIterator[OperatorClient]:
    """A worker's line, once it stands; every notification is dealt with like this."""
    line = OperatorClient(operator_socket_path(book), lambda _: Taken(deal))
    async with trio.open_nursery() as nursery:
        await nursery.start(line.run)
        await stands(line)
        yield line
        nursery.cancel_scope.cancel()


async def stands(line: OperatorClient) -> None:
    """Wait until the operator answers."""
    while True:
        try:
            await line.exchange(HttpRequest("GET", b"https://sandbox.invalid/payments/none"))
        except ExchangeFailed:
            await trio.sleep(0.01)
        else:
            return


async def is_lost(line: OperatorClient) -> None:
    """Wait until the operator doesn't answer."""
    with suppress(ExchangeFailed):
        while True:
            await line.exchange(HttpRequest("GET", b"https://sandbox.invalid/payments/none"))


async def hold(line: OperatorClient, conversation: Conversation) -> object:
    """The report of a conversation of one request."""
    with pytest.raises(StopIteration) as end:
        conversation.send(await line.exchange(next(conversation)))
    return end.value.value


async def nothing() -> None:
    """Takes every notification."""


async def test_any_worker_may_ask_what_another_one_submitted(tmp_path: Path) -> None:
    book, payment = tmp_path / "book.ndjson", a_transaction()
    async with operating(book), connected(book, nothing) as one, connected(book, nothing) as two:
        submitted = await hold(one, PROVIDER.submit(payment, now=now()))
        assert isinstance(submitted, ProviderAccepted)
        asked = await hold(two, PROVIDER.poll(payment, now=now()))
        assert isinstance(asked, ProviderAccepted | ProviderSucceeded)
        assert asked.provider_reference == submitted.provider_reference
    assert [
        each.reference
        for each in read_operator_journal(book)
        if isinstance(each, SandboxSubmission)
    ] == [payment.reference]


async def test_a_notification_goes_to_one_worker_until_one_has_stored_it(tmp_path: Path) -> None:
    book, told = tmp_path / "book.ndjson", trio.Event()
    tries: list[str] = []

    async def refuse() -> None:
        tries.append("refused")
        raise StoreUnavailable("not now")

    async def take() -> None:
        tries.append("stored")
        told.set()

    async with operating(book), connected(book, refuse) as one:
        await hold(one, PROVIDER.submit(a_transaction(), now=now()))
        while not tries:  # noqa: ASYNC110
            await trio.sleep(0.01)
        async with connected(book, take):
            await told.wait()
    assert tries.count("stored") == 1


async def test_the_next_operator_waits_for_the_book_and_remembers(tmp_path: Path) -> None:
    book, payment = tmp_path / "book.ndjson", a_transaction()
    async with operating(book) as first, connected(book, nothing) as line:
        submitted = await hold(line, PROVIDER.submit(payment, now=now()))
        async with operating(book):
            await stands(line)
            first.cancel()
            await is_lost(line)
            await stands(line)
            asked = await hold(line, PROVIDER.poll(payment, now=now()))
    assert isinstance(submitted, ProviderAccepted)
    assert isinstance(asked, ProviderAccepted | ProviderSucceeded)
    assert asked.provider_reference == submitted.provider_reference
