"""One simulated operator serves several workers: any may poll, and nothing is lost."""

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
from mmo_trio.sandbox.operator_process import OperatorClient, OperatorProcess, operator_socket_path
from mmo_trio.sandbox.operator_worker import read_operator_journal
from mmo_trio.storage.interface.store import StoreUnavailable
from tests.support.engine_double import now
from tests.support.time_limits import HANGS_AFTER_S

PROVIDER = SandboxProvider("test", "Test Money")


@asynccontextmanager
async def running_operator(journal_path: Path) -> AsyncIterator[trio.CancelScope]:
    """Run an operator as long as the block lasts, or until its scope is cancelled."""
    scope = trio.CancelScope()

    async def operate() -> None:
        with scope:
            await OperatorProcess(journal_path, now).run()

    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(operate)
            yield scope
            nursery.cancel_scope.cancel()


@define
class PendingReplyDouble:
    """A notification on its way into the gateway."""

    store: Callable[[], Awaitable[None]]

    async def reply(self) -> None:
        await self.store()


@asynccontextmanager
async def connected_client(
    journal_path: Path, store: Callable[[], Awaitable[None]]
) -> AsyncIterator[OperatorClient]:
    """Yield a connected client that stores every notification by `store`."""
    client = OperatorClient(operator_socket_path(journal_path), lambda _: PendingReplyDouble(store))
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        await wait_connected(client)
        yield client
        nursery.cancel_scope.cancel()


async def wait_connected(client: OperatorClient) -> None:
    """Wait until the operator answers."""
    while True:
        try:
            await client.exchange(HttpRequest("GET", b"https://sandbox.invalid/payments/none"))
        except ExchangeFailed:
            await trio.sleep(0.01)
        else:
            return


async def wait_disconnected(client: OperatorClient) -> None:
    """Wait until the operator doesn't answer."""
    with suppress(ExchangeFailed):
        while True:
            await client.exchange(HttpRequest("GET", b"https://sandbox.invalid/payments/none"))


async def run_conversation(client: OperatorClient, conversation: Conversation) -> object:
    """Return the report of a conversation with one request."""
    with pytest.raises(StopIteration) as end:
        conversation.send(await client.exchange(next(conversation)))
    return end.value.value


async def store_anything() -> None:
    """Store every notification."""


async def test_any_worker_may_poll_a_payment_of_another_worker(tmp_path: Path) -> None:
    journal_path, payment = tmp_path / "journal.ndjson", a_transaction()
    async with (
        running_operator(journal_path),
        connected_client(journal_path, store_anything) as first,
        connected_client(journal_path, store_anything) as second,
    ):
        submitted = await run_conversation(first, PROVIDER.submit(payment, now=now()))
        assert isinstance(submitted, ProviderAccepted)
        polled = await run_conversation(second, PROVIDER.poll(payment, now=now()))
        assert isinstance(polled, ProviderAccepted | ProviderSucceeded)
        assert polled.provider_reference == submitted.provider_reference
    assert [
        each.reference
        for each in read_operator_journal(journal_path)
        if isinstance(each, SandboxSubmission)
    ] == [payment.reference]


async def test_a_notification_goes_to_one_worker_until_one_has_stored_it(tmp_path: Path) -> None:
    journal_path, stored = tmp_path / "journal.ndjson", trio.Event()
    attempts: list[str] = []

    async def reject() -> None:
        attempts.append("rejected")
        raise StoreUnavailable("not now")

    async def accept() -> None:
        attempts.append("stored")
        stored.set()

    async with running_operator(journal_path), connected_client(journal_path, reject) as first:
        await run_conversation(first, PROVIDER.submit(a_transaction(), now=now()))
        while not attempts:  # noqa: ASYNC110
            await trio.sleep(0.01)
        async with connected_client(journal_path, accept):
            await stored.wait()
    assert attempts.count("stored") == 1


async def test_the_next_operator_waits_for_the_journal_and_continues(tmp_path: Path) -> None:
    journal_path, payment = tmp_path / "journal.ndjson", a_transaction()
    async with (
        running_operator(journal_path) as first_operator,
        connected_client(journal_path, store_anything) as client,
    ):
        submitted = await run_conversation(client, PROVIDER.submit(payment, now=now()))
        async with running_operator(journal_path):
            await wait_connected(client)
            first_operator.cancel()
            await wait_disconnected(client)
            await wait_connected(client)
            polled = await run_conversation(client, PROVIDER.poll(payment, now=now()))
    assert isinstance(submitted, ProviderAccepted)
    assert isinstance(polled, ProviderAccepted | ProviderSucceeded)
    assert polled.provider_reference == submitted.provider_reference
