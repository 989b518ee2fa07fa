"""Processes that serve one store use one token of an account, as each new one may end the one
before."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator

import pytest
import trio
from attrs import define
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import AccessToken, SignIn
from mmo_sansio.values.clock import Moment, later
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.account import ProviderAccount
from mmo_trio.workers.providers.shared_tokens import SharedTokens
from tests.runtime.workers.providers.test_account import CANARY, PAY, Operator, moment, monotonic
from tests.support.provider_double import TOKEN_LIFE, ScriptedProvider
from tests.support.sqlite_store import StoreFile

KEYRING = KeyRing(b"k" * 32)


@define(eq=False)
class NewestOnly(Operator):
    """Accepts its newest token only, as Daraja says of itself."""

    async def ask(self, request: HttpRequest) -> HttpResponse:
        answer = await super().ask(request)
        self.valid_from = max(self.valid_from, self.tokens)
        return answer


@define
class OfAnother(ScriptedProvider):
    """Signs in with other credentials."""

    def sign_in(self, scope: str, *, now: Moment) -> SignIn:
        answer = yield HttpRequest(
            "POST", b"https://operator.example/token", (), b"other credentials"
        )
        return AccessToken(
            answer.body.decode(), issued_at=now.time, expires_at=later(now.time, TOKEN_LIFE)
        )


@pytest.fixture
def file() -> StoreFile:
    return StoreFile()


@pytest.fixture
async def store(file: StoreFile) -> AsyncIterator[Store]:
    async with file.open() as store:
        yield store


def process(
    store: Store, operator: Operator, provider: ScriptedProvider | None = None
) -> ProviderAccount:
    provider = provider or ScriptedProvider()
    tokens = SharedTokens(store.admin, KEYRING, provider)
    return ProviderAccount(provider, operator.ask, moment, monotonic, shared_tokens=tokens)


async def pay_in_turn(*processes: ProviderAccount) -> list[int]:
    return [(await each.exchange(PAY)).status for _ in range(10) for each in processes]


async def test_two_processes_sign_in_once(
    store: Store, file: StoreFile, autojump_clock: MockClock
) -> None:
    operator = NewestOnly()
    assert await pay_in_turn(process(store, operator), process(store, operator)) == [200] * 20
    assert [path for path, _ in operator.sent].count("/token") == 1
    with sqlite3.connect(file.path) as connection:
        assert CANARY not in "".join(connection.iterdump())


async def test_two_that_begin_at_once_agree_soon(store: Store, autojump_clock: MockClock) -> None:
    operator, statuses = NewestOnly(takes_s=1), list[int]()
    processes = [process(store, operator) for _ in range(2)]

    async def pay(account: ProviderAccount) -> None:
        statuses.extend(await pay_in_turn(account))

    async with trio.open_nursery() as nursery:
        for each in processes:
            nursery.start_soon(pay, each)
    assert statuses == [200] * 20
    assert operator.tokens <= 3


async def test_a_refused_or_old_token_is_replaced_for_all(
    store: Store, autojump_clock: MockClock
) -> None:
    operator = NewestOnly()
    processes = [process(store, operator) for _ in range(2)]
    await pay_in_turn(*processes)
    operator.valid_from = 2
    assert await pay_in_turn(*processes) == [200] * 20
    assert operator.tokens == 2
    await trio.sleep(TOKEN_LIFE / 1_000_000)
    assert await pay_in_turn(*processes) == [200] * 20
    assert operator.tokens == 3


async def test_other_credentials_have_a_token_of_their_own(
    store: Store, autojump_clock: MockClock
) -> None:
    operator = Operator()
    await pay_in_turn(process(store, operator), process(store, operator, OfAnother()))
    assert operator.tokens == 2


async def test_where_the_store_fails_a_process_signs_in_for_itself(
    autojump_clock: MockClock,
) -> None:
    operator, file = Operator(), StoreFile()
    async with file.open() as store:
        account = process(store, operator)
        with sqlite3.connect(file.path) as connection:
            connection.execute("DROP TABLE provider_notes")
        with capture_logs() as logs:
            assert await pay_in_turn(account) == [200] * 10
    assert {each["event"] for each in logs} == {"token_unread", "token_unshared"}
