"""Acts as a user's browser without scripts: cookies, links and forms, over a real socket."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

from attrs import Factory, define

from mmo_sansio.values.clock import Instant
from mmo_trio.console.passwords import hash_password
from mmo_trio.storage.interface.admin_types import ConsoleUser, Role
from mmo_trio.storage.sql.store import Store
from tests.support.merchant import Answer, Connect, ask, connect_in_the_clear
from tests.support.password_hasher import CHEAP_HASHER
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

    async def post(self, path: str, **fields: str) -> Answer:
        """Send a form of the last page."""
        sent = {"form_token": self.form_token} | fields
        return await self._request(path, "POST", urlencode(sent).encode())

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


def open_store_of(directory: Path) -> AbstractAsyncContextManager[Store]:
    """Open the store of a sandbox for administration while the sandbox serves it."""
    return storages.of(directory).open_for_admin()


async def add_users(directory: Path, **roles: str) -> None:
    """Add users with these names and roles."""
    async with open_store_of(directory) as store:
        for name, role in roles.items():
            assert await store.admin.add_user(ConsoleUser(name, Role(role), HASH, Instant(0)))
