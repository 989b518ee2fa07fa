"""Measures how long a user waits for each page of the console, over all rows of the large table."""

from __future__ import annotations

import http.client
import re
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

import trio
from argon2 import PasswordHasher
from attrs import define, field

from bench import machine, servers
from bench.generator import percentile
from bench.million import EVERY, Ours, our_million
from bench.options import Options
from bench.report import Goal, Outcome, Table
from mmo_sansio.testing import START, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_trio.console.passwords import hash_password
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.sandbox.demo_brand import DEMO_BRAND_ID
from mmo_trio.storage.interface.admin_types import ConsoleUser, Role
from mmo_trio.storage.open_store import open_store

NAME, PASSWORD = "bench", "correct horse battery"
PAGES_MAX = 200
"""Requests for each kind of page in a round."""
_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


@define
class Browser:
    """Acts as a signed-in user on one connection."""

    connection: http.client.HTTPConnection
    cookies: dict[str, str] = field(factory=dict)
    form_token: str = ""
    location: str = ""
    """Where the last answer leads."""

    def get(self, path: str) -> float:
        """Return the milliseconds until the complete page has arrived."""
        return self._ask("GET", path, None)

    def post(self, path: str, **fields: str) -> float:
        """Return the milliseconds for a form."""
        return self._ask("POST", path, urlencode({"form_token": self.form_token} | fields))

    def search(self, text: str, *, before: str = "") -> float:
        """Return the milliseconds for a search, until the complete page of what it found has
        arrived."""
        took_ms, position = self.post("/search", text=text), f"?before={before}" if before else ""
        while self.location:
            took_ms += self.get(self.location + position)
            position = ""
        return took_ms

    def _ask(self, method: str, path: str, body: str | None) -> float:
        headers = {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        since = time.perf_counter()
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        text = answer.read().decode()
        took_ms = (time.perf_counter() - since) * 1000
        assert answer.status in (200, 303), (path, answer.status)
        self.location = answer.headers.get("Location", "")
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                key, _, rest = value.partition("=")
                self.cookies[key] = rest.partition(";")[0]
        if (found := _TOKEN.search(text)) is not None:
            self.form_token = found[1]
        return took_ms


def run(options: Options) -> Outcome:
    """Use one browser, one page after the other; the pages show different parts of the table."""
    ours = our_million(options.saved, options.rows)
    trio.run(_add_user, ours)
    measured: dict[str, list[float]] = {}
    with servers.gateway(ours.folder) as server:
        parts = urlsplit(server.console)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        browser = Browser(connection)
        browser.get("/sign-in")
        browser.post("/sign-in", name=NAME, password=PASSWORD)
        browser.get("/")
        machine.wait_until_quiet(server.pid)
        for name, ask in _pages(options.rows).items():
            for number in range(min(PAGES_MAX, options.rounds * options.seconds * 8)):
                measured.setdefault(name, []).append(ask(browser, number))
        connection.close()
    rows = [
        [
            name,
            f"{statistics.median(times):.1f}",
            f"{percentile(times, 99):.1f}",
            f"{max(times):.1f}",
        ]
        for name, times in measured.items()
    ]
    slowest = max(percentile(times, 99) for times in measured.values())
    table = Table(
        f"one browser, pages one after the other over {options.rows:,} payments; ms to the "
        f"last byte",
        ("page", "median ms", "p99 ms", "longest ms"),
        rows,
        "the server's own core: templates, and the questions' at most 5,000 rows.",
    )
    return Outcome(
        "console",
        "Pages of the console",
        "SQLite, its file in the system's memory; signed in as an administrator. Each kind of page"
        " is asked for all"
        " over the table: other payments, other days, other places to go on from; the filter that"
        " nothing fits looks"
        " back as far as one look goes.",
        [table],
        [Goal("console's slowest page, p99", 100, slowest, " ms", at_most=True)],
    )


def _pages(rows: int) -> dict[str, Callable[[Browser, int], float]]:
    def place(number: int) -> int:
        return (number * 7919 * 131 + 17) % rows

    def before(number: int) -> str:
        return f"{START + place(number) * EVERY}-{numbered_reference(place(number))}"

    def hour(number: int) -> str:
        return format_utc_seconds(later(later(START, Span(place(number) * EVERY)), clock.DAY))[
            :13
        ].replace(" ", "T")

    brand = DEMO_BRAND_ID
    return {
        "overview, a day": lambda b, n: b.get(f"/?end={hour(n)}"),
        "overview, 30 days, one brand": lambda b, n: b.get(
            f"/?view=month&of=brand&value={brand}&by=method&end={hour(n)}"
        ),
        "payments": lambda b, n: b.get(f"/payments?before={before(n)}"),
        "payments of a brand": lambda b, n: b.get(f"/payments?brand={brand}&before={before(n)}"),
        "payments, nothing fits": lambda b, n: b.get(
            f"/payments?brand={brand}&status=failed&before={before(n)}"
        ),
        "search, gatewayReference": lambda b, n: b.search(numbered_reference(place(n))),
        "search, merchantReference": lambda b, n: b.search(f"order-{place(n)}"),
        "search, providerReference (all have it)": lambda b, n: b.search("SBX-0123456789"),
        "search, number (all have it)": lambda b, n: b.search("254700000007", before=before(n)),
        "search, nothing": lambda b, n: b.search(f"nothing-{n}"),
        "a payment": lambda b, n: b.get(f"/payments/{numbered_reference(place(n))}"),
        "stuck": lambda b, n: b.get("/stuck"),
        "reversals": lambda b, n: b.get("/reversals"),
        "suspense": lambda b, n: b.get("/suspense"),
        "failed callbacks": lambda b, n: b.get("/callbacks"),
        "providers": lambda b, n: b.get("/providers"),
        "breakers": lambda b, n: b.get("/breakers"),
        "audit log": lambda b, n: b.get("/audit"),
    }


async def _add_user(ours: Ours) -> None:
    """Add the user, unless an earlier run has."""
    async with open_store(f"sqlite:///{ours.folder / 'gateway.db'}", serving=False) as store:
        user = ConsoleUser(NAME, Role.ADMIN, hash_password(PasswordHasher(), PASSWORD), Instant(0))
        await store.admin.add_user(user)
