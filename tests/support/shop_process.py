"""Runs a shop of `examples/` as a process of its own, over TLS, as a customer and the gateway reach
it."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path

import httpx
import trio
import trustme
from attrs import define

from tests.support.endpoint_verdicts import ALL_SITUATIONS, shortcomings
from tests.support.reserved_port import reserved_port
from tests.support.sandbox_gateway import serving
from tests.support.time_limits import HANGS_AFTER_S

ROOT = Path(__file__).parents[2]
GUNICORN = (
    *("gunicorn", "--bind", "127.0.0.1:{port}", "--threads", "16", "--no-control-socket"),
    *("--certfile", "{directory}/certificate.pem", "--keyfile", "{directory}/key.pem"),
)
UVICORN = (
    *("uvicorn", "--host", "127.0.0.1", "--port", "{port}"),
    *("--ssl-certfile", "{directory}/certificate.pem", "--ssl-keyfile", "{directory}/key.pem"),
)
SERVERS = {
    "flask": (*GUNICORN, "shop_flask:app"),
    "django": (*GUNICORN, "shop_django:application"),
    "fastapi": (*UVICORN, "shop_fastapi:app"),
}
"""The module and arguments that serve each shop over TLS, as its example says."""


@define(eq=False)
class ShopProcess:
    """A shop that can be started, stopped and asked."""

    kind: str
    directory: Path
    port: int
    tls: ssl.SSLContext
    source: Path = ROOT / "examples"
    """The folder of its module."""
    python: str = sys.executable
    """What runs it; another one has our packages installed."""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @contextmanager
    def running(self, gateway: str, key: str) -> Iterator[None]:
        """Run the shop as long as the block."""
        is_ours = self.python == sys.executable
        environment = os.environ | {
            "API_KEYS": f"{key} the-next-key-0123456789",
            "GATEWAY": gateway,
            "SHOP": self.url,
            "DATABASE": str(self.directory / "shop.db"),
            "SECRET_KEY": "a secret of tests",
            "PYTHONPATH": os.pathsep.join(
                [str(self.source), *([str(ROOT / "src")] if is_ours else [])]
            ),
        }
        words = [
            each.format(port=self.port, directory=self.directory) for each in SERVERS[self.kind]
        ]
        with (self.directory / "shop.log").open("ab") as log:
            process = subprocess.Popen(
                [self.python, "-m", *words],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.wait_for(lambda: self.is_serving(process))
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # Its workers, too.
            process.wait(HANGS_AFTER_S)

    async def times_handled(self, reference: str) -> str:
        """How often it has taken the result with this gatewayReference."""
        with sqlite3.connect(self.directory / "shop.db") as database:
            query = "SELECT count(*) FROM mmo_taken_results WHERE gateway_reference = ?"
            return str(database.execute(query, (reference,)).fetchone()[0])

    def is_serving(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether it accepts connections."""
        assert process.poll() is None, (self.directory / "shop.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def wait_for(self, is_so: object) -> None:
        """Wait until this is so."""
        assert callable(is_so)
        end = time.monotonic() + HANGS_AFTER_S
        while not is_so():
            assert time.monotonic() < end, (self.directory / "shop.log").read_text()
            time.sleep(0.05)

    def pay(self, order: str) -> httpx.Response:
        """Pay an order as a customer does."""
        customer = {"customer": "customer-1", "phone": "254700000200"}
        with httpx.Client(verify=self.tls) as http:
            body = {"json": customer} if self.kind == "fastapi" else {"data": customer}
            return http.post(f"{self.url}/orders/{order}/pay", timeout=HANGS_AFTER_S, **body)  # type: ignore[arg-type]

    def status_of(self, order: str) -> str:
        """What the shop's page of an order says."""
        with httpx.Client(verify=self.tls) as http:
            return http.get(f"{self.url}/orders/{order}", timeout=HANGS_AFTER_S).text

    def call_back(self, body: bytes, key: str) -> int:
        """Send a callback of one's own."""
        with httpx.Client(verify=self.tls) as http:
            headers = {"X-API-KEY": key, "Content-Type": "application/json"}
            return http.post(
                f"{self.url}/results", content=body, headers=headers, timeout=HANGS_AFTER_S
            ).status_code

    def let_five_minutes_pass(self) -> None:
        """Make the next listing due, as it is five minutes later."""
        with sqlite3.connect(self.directory / "shop.db") as database:
            database.execute("UPDATE mmo_gap_progress SET list_at = 0, version = version + 1")


@contextmanager
def a_shop_process(kind: str, directory: Path) -> Iterator[ShopProcess]:
    """A shop with a certificate of the authority in `ca.pem`, not yet running; its port is its own
    during the block."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(directory / "certificate.pem", append=number > 0)
    issued.private_key_pem.write_to_path(directory / "key.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    tls = ssl.create_default_context()
    authority.configure_trust(tls)
    with reserved_port() as port:
        yield ShopProcess(kind, directory, port, tls)


async def check_shop(shop: ShopProcess) -> None:
    """Two orders: one is paid while the shop runs, the other while it does not."""
    kind, directory = shop.kind, shop.directory
    environment = {"MMO_EGRESS_EXTRA_CA_FILE": str(directory / "ca.pem")}
    run = trio.to_thread.run_sync
    sandbox = directory / "sandbox"
    sandbox.mkdir()
    async with serving(sandbox, environment=environment) as gateway:
        api, key = gateway.merchant.api, gateway.merchant.key

        async def reference_of(order: str) -> str:
            answer = await gateway.merchant.get(f"status/mref/{order}")
            reference: str = answer.json["gatewayReference"]
            return reference

        async def pay_on_the_page(order: str) -> None:
            if kind == "flask":
                await gateway.control("pay", gatewayReference=await reference_of(order))

        server = shop.running(api, key)
        await run(server.__enter__)
        try:
            paid = await run(shop.pay, "order-1")
            assert paid.status_code in (200, 303), paid.text
            if kind == "flask":
                assert "/pay/" in paid.headers["location"]
            await pay_on_the_page("order-1")
            await run(shop.wait_for, lambda: shop.status_of("order-1") == "paid")
            ended = await gateway.merchant.get("status/mref/order-1")
            assert await run(shop.call_back, ended.body, "wrong") == 401
            assert await run(shop.call_back, b"{}", key) == 400
            assert await run(shop.call_back, ended.body, "the-next-key-0123456789") == 204
            assert (await run(shop.pay, "order-1")).status_code in (200, 303)
            await run(shop.pay, "order-2") if kind == "flask" else None
        finally:
            await run(server.__exit__, None, None, None)
        if kind != "flask":
            body = gateway.merchant.body(
                merchantReference="order-2", resultUrl=f"{shop.url}/results"
            )
            assert (await gateway.merchant.post("direct/payin", body)).status == 200
            with sqlite3.connect(directory / "shop.db") as database:
                database.execute("INSERT INTO orders VALUES ('order-2', 'open')")
        await pay_on_the_page("order-2")
        lost = await gateway.outcome_of(await reference_of("order-2"))
        assert lost["outcome"] == "transport_error"
        shop.let_five_minutes_pass()
        server = shop.running(api, key)
        await run(server.__enter__)
        try:
            await run(shop.wait_for, lambda: shop.status_of("order-2") == "paid")
        finally:
            await run(server.__exit__, None, None, None)


async def shortcomings_of(
    shop: ShopProcess, names: Set[str] = ALL_SITUATIONS
) -> dict[str, tuple[str, ...]]:
    """The situations of `mmo conform` in which a shop does not pass; there is no gateway."""
    key = "The-key-0123456789abcdef"
    server = shop.running("http://127.0.0.1:9", key)
    await trio.to_thread.run_sync(server.__enter__)
    try:
        return await shortcomings(
            f"{shop.url}/results", key, shop.directory / "ca.pem", shop.times_handled, names
        )
    finally:
        await trio.to_thread.run_sync(server.__exit__, None, None, None)
