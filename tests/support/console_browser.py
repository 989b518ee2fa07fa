"""Acts as a user's browser without scripts: cookies, links and forms, over a real socket."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

from attrs import Factory, define

from mmo_sansio.messages.changes import Change, JournalEntry
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import Instant
from mmo_trio.console.passwords import hash_password
from mmo_trio.storage.interface.admin_types import ConsoleUser, Role
from mmo_trio.storage.interface.audit_chain import AuditChainVerifier
from mmo_trio.storage.sql.store import Store
from tests.support.merchant import Answer, Connect, ask, connect_in_the_clear
from tests.support.password_hasher import CHEAP_HASHER
from tests.support.sandbox_gateway import Running
from tests.support.storages import storages

PASSWORD = "correct horse battery"
HASH = hash_password(CHEAP_HASHER, PASSWORD)
_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


@define
class ConsoleBrowser:
    """Holds the session of one browser."""

    console: str
    cookies: dict[str, str] = Factory(dict)
    form_token: str = ""
    headers: dict[str, str] = Factory(dict)
    last: Answer | None = None
    connect: Connect = connect_in_the_clear

    async def get(self, path: str) -> Answer:
        """Follow a link."""
        return await self._request(path, "GET", None)

    async def text(self, path: str) -> str:
        """Follow a link to a page, which must be there; return it as it came."""
        answer = await self.get(path)
        assert answer.status == 200, answer.body
        return answer.body.decode()

    async def words(self, path: str) -> str:
        """Follow a link to a page, which must be there; return its words, without tags."""
        return words_of(await self.text(path))

    async def post(self, path: str, **fields: str) -> Answer:
        """Send a form of the last page."""
        sent = {"form_token": self.form_token} | fields
        return await self._request(path, "POST", urlencode(sent).encode())

    async def send(self, path: str, **fields: str) -> int:
        """Send a form of the last page; return the status of the answer."""
        return (await self.post(path, **fields)).status

    async def answered(self, status: int, path: str, **fields: str) -> str:
        """Send a form of the last page; return the page that is answered with that status."""
        answer = await self.post(path, **fields)
        assert answer.status == status, (fields, answer.body)
        return answer.body.decode()

    async def search(self, text: str) -> Answer:
        """Search for a text, and follow to what it has found."""
        answer = await self.post("/search", text=text)
        while answer.status == 303:
            answer = await self.get(answer.headers["location"])
        return answer

    async def sign_in(self, name: str, password: str = PASSWORD, code: str = "") -> Answer:
        """Sign in with the form and follow to the first page."""
        await self.get("/sign-in")
        answer = await self.post("/sign-in", name=name, password=password, code=code)
        if answer.status == 303:
            await self.get(answer.headers["location"])
        return answer

    async def _request(self, path: str, method: str, body: bytes | None) -> Answer:
        headers = dict(self.headers)
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        answer = await ask(
            f"{self.console}{path}", method=method, headers=headers, body=body, connect=self.connect
        )
        for line in answer.headers.get("set-cookie", "").splitlines():
            for name, morsel in SimpleCookie(line).items():
                self.cookies[name] = morsel.value
        if (found := _TOKEN.search(answer.body.decode("utf-8", "replace"))) is not None:
            self.form_token = found[1]
        self.last = answer
        return answer


def words_of(page: str) -> str:
    """Return a page without its tags."""
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def open_store_of(directory: Path) -> AbstractAsyncContextManager[Store]:
    """Open the store of a sandbox for administration while the sandbox serves it."""
    return storages.of(directory).open_for_admin()


async def add_users(directory: Path, **roles: str) -> None:
    """Add users with these names and roles."""
    async with open_store_of(directory) as store:
        for name, role in roles.items():
            assert await store.admin.add_user(ConsoleUser(name, Role(role), HASH, Instant(0)))


async def audit_events(sandbox: Running) -> list[tuple[str, str, str]]:
    """Return the audit log, which must be whole: who, what, to what."""
    async with open_store_of(sandbox.directory) as store:
        rows = await store.admin.audit_after(0, limit=1_000)
        chain = AuditChainVerifier(None)
        assert chain.verify(rows) is None
        assert chain.verify_end(await store.admin.audit_head()) is None
        return [(row.event.actor, row.event.action, row.event.about) for row in rows]


async def record(sandbox: Running, change: Change) -> None:
    """Store a change that no payment of a sandbox brings about, with a line of the journal."""
    line = JournalEntry(
        Instant(1), "ProviderFailed", "provider:sandbox", None, None, None, None, "{}"
    )

    def decide(_: Ledger) -> tuple[Decision, ...]:
        return (Decision(Ignored("late"), (change, line)),)

    async with open_store_of(sandbox.directory) as store:
        await store.transact(Reads(), decide)
