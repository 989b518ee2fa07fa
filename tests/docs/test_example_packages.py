"""The example package, installed from its own folder, serves payments without a change in the
gateway."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import Factory, define

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.testing import ADAPTER_CHECKS
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.settings.providers import PROVIDERS_GROUP
from mmo_trio.system.ids import request_id_generator
from tests.support.merchant import Merchant, ask
from tests.support.merchants import a_brand
from tests.support.mmo_process import SETTINGS_ON_A_FILE, mmo, serving_process
from tests.support.operator_gateway import API_KEY, METHOD
from tests.support.time_limits import HANGS_AFTER_S

TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOKEN = "token-of-pesaplus"
CONFIGURATION = f"""{SETTINGS_ON_A_FILE}
[provider.plus]
kind = "pesaplus"
base_url = "{{operator}}"
api_key_file = "{{folder}}/api-key"
"""

SERVED_HERE = """
[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"
"""
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@define(eq=False)
class Pesaplus:
    """A small operator: everything it accepts is paid."""

    payments: dict[str, dict[str, Any]] = Factory(dict)

    async def admit(self, head: RequestHead, context: RequestContext) -> Admitted:
        await trio.lowlevel.checkpoint()
        return Admitted(64 * 1024, partial(self.respond, head))

    async def respond(self, head: RequestHead, body: bytes) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        path = head.target.decode()
        if path == "/v1/token":
            good = head.value(b"x-api-key") == b"SECRET-api-key"
            return answer(200 if good else 403, {"token": TOKEN, "seconds": 3600})
        if head.value(b"authorization") != f"Bearer {TOKEN}".encode():
            return answer(401, {})
        if head.method == "POST":
            document = json.loads(body)
            is_new = document["id"] not in self.payments
            self.payments.setdefault(document["id"], document)
            return answer(202 if is_new else 409, {"id": document["id"]})
        found = self.payments.get(path.rpartition("/")[2])
        if found is None:
            return answer(404, {"code": "unknown"})
        return answer(200, {**found, "state": "paid", "receipt": "P-1"})


def answer(status: int, document: dict[str, Any]) -> HttpResponse:
    return HttpResponse(status, (), json.dumps(document).encode())


@asynccontextmanager
async def operating(operator: Pesaplus) -> AsyncIterator[str]:
    """Serve the operator: where it is reached."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        listener_context = ListenerContext(
            operator,
            ListenerLimits(),
            error_docs_url="about:blank",
            mint_request_id=request_id_generator(),
            drain=trio.Event(),
        )
        await nursery.start(serve_http, listener_context, listeners)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@pytest.fixture
def installed(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package, built and installed from a copy of its folder, to be found by processes that a
    test starts."""
    folder = tmp_path_factory.mktemp("site")
    copy = tmp_path_factory.mktemp("sources") / "provider_package"
    shutil.copytree(root / "examples/provider_package", copy)
    options = (
        "--quiet",
        "--no-compile",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
    )
    command = [sys.executable, "-m", "pip", "install", *options, str(folder), str(copy)]
    subprocess.run(command, check=True, timeout=HANGS_AFTER_S)
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


@pytest.mark.trio
@pytest.mark.usefixtures("installed")
async def test_a_provider_of_another_package_serves_a_payment(tmp_path: Path) -> None:
    operator = Pesaplus()
    create_master_key(tmp_path / "master.key")
    (tmp_path / "api-key").write_text("SECRET-api-key\n")
    brands, config = tmp_path / "brands.toml", tmp_path / "mmo.toml"
    brands.write_text(
        a_brand(
            "acme",
            API_KEY,
            method=METHOD,
            provider="plus",
            flows=("direct/payin", "direct/payout", "web/payin"),
        )
    )
    async with operating(operator) as origin:
        config.write_text(CONFIGURATION.format(folder=tmp_path, operator=origin))
        assert "(from mmo-pesaplus 0.1)" in await mmo("check-config", "--config", config)
        address = (await mmo("providers", "address", "plus", "--config", config)).strip()
        command = ("serve", "--config", config, "--brands", brands)
        async with serving_process(*command, log=tmp_path / "log") as gateway:
            merchant = Merchant(gateway.ready["api"], API_KEY, method=METHOD)
            made = await merchant.accepted("direct/payin")
            reference = made["gatewayReference"]
            with trio.fail_after(HANGS_AFTER_S):
                while True:
                    if (await merchant.status(reference))["providerData"] is not None:
                        break
                    await trio.sleep(0.02)
            hook = gateway.ready["api"] + address.removeprefix("https://pay.example")
            body = json.dumps({"id": reference}).encode()
            assert (await ask(hook, method="POST", body=body)).status == 200
            found = await merchant.ended(reference)
            assert (found["status"], found["providerReference"]) == ("success", "P-1")
            assert found["providerData"]["title"] == "Pesaplus"
    stored = json.loads(await mmo("tx", "show", reference, "--json", "--config", config))
    assert stored["transaction"]["providerReference"] == "P-1", stored


@pytest.fixture
def try_out(root: Path) -> list[str]:
    """The settings and the brand of the page's payment on one's own machine."""
    page = (root / "docs/internals/adding.md").read_text(encoding="utf-8")
    return TOML.findall(page.partition("\n## 10. ")[2])


@contextmanager
def pagaqui(root: Path, monkeypatch: pytest.MonkeyPatch, *, answers_lost: int) -> Iterator[Any]:
    """Serve the example's own operator."""
    monkeypatch.syspath_prepend(str(root / "examples/provider_package"))
    with importlib.import_module("pagaqui_operator").Pagaqui(answers_lost=answers_lost) as operator:
        thread = threading.Thread(target=operator.serve_forever, daemon=True)
        thread.start()
        yield operator
        operator.shutdown()
        thread.join()


@pytest.mark.trio
@pytest.mark.usefixtures("installed")
@pytest.mark.spec("S6", "W1", "W2")
@pytest.mark.parametrize("answers_lost", [0, 1], ids=["answered", "lost"])
async def test_a_provider_of_another_package_sends_a_payer_to_its_page_and_back(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    try_out: list[str],
    answers_lost: int,
) -> None:
    """By the page's own settings, on free ports."""
    create_master_key(tmp_path / "master.key")
    brands, config = tmp_path / "brands.toml", tmp_path / "mmo.toml"
    settings, brand = try_out
    brands.write_text(
        brand.replace('name = "Acme Ltd"', f'name = "Acme"\napi_keys = ["{API_KEY}"]')
    )
    settings = settings.replace('extra_ca_file = "listener/ca.pem"\n', "")
    for name in ("gateway.db", "master.key"):
        settings = settings.replace(name, f"{tmp_path}/{name}")

    with pagaqui(root, monkeypatch, answers_lost=answers_lost) as operator:
        settings = settings.replace("http://127.0.0.1:8090", operator.origin) + SERVED_HERE
        config.write_text(settings.replace('payer_hosts = "127.0.0.1"', ""))
        await mmo("check-config", "--config", config, exit_code=2)
        config.write_text(settings)
        await mmo("check-config", "--config", config)
        command = ("serve", "--config", config, "--brands", brands)
        async with serving_process(*command, log=tmp_path / "log") as gateway:
            merchant = Merchant(gateway.ready["api"], API_KEY, method="pagaqui_ke")
            made = await merchant.accepted("web/payin")
            await ask(made["pageUrl"], method="POST", headers=FORM, body=b"")
            link = f"{operator.origin}/page/{made['gatewayReference']}"
            with trio.fail_after(HANGS_AFTER_S):
                while True:
                    if f'href="{link}"' in (await ask(made["pageUrl"])).body.decode():
                        break
                    await trio.sleep(0.02)
            assert "<button>" in (await ask(link)).body.decode()
            back = (await ask(link, method="POST", headers=FORM, body=b"")).headers["location"]
            assert made["pageUrl"].rpartition("/")[2] not in back
            assert (await ask(back)).status == 303
            found = await merchant.ended(made["gatewayReference"])
            assert (found["status"], found["providerReference"]) == ("success", "Q-1")
        assert len(operator.checkouts) == 1


def test_the_tests_of_the_example_pass(root: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(root / "examples/provider_package", tmp_path / "package")
    played = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert played.returncode == 0, played.stdout
    assert f"{len(ADAPTER_CHECKS) + 2} passed" in played.stdout


@pytest.mark.parametrize(("name", "section"), [("mmo_pesaplus", 0), ("mmo_pagaqui", 2)])
def test_the_example_provider_is_the_code_of_the_page(root: Path, name: str, section: int) -> None:
    page = (root / "docs/internals/adding.md").read_text(encoding="utf-8")
    module = (root / f"examples/provider_package/{name}.py").read_text(encoding="utf-8")
    text = page.partition("\n## 9. ")[section]
    imports, statements = parts("\n".join(BLOCK.findall(text)))
    assert (imports, statements) == parts(module)


def parts(source: str) -> tuple[set[tuple[str, str]], list[str]]:
    """The names that are imported, and every other statement but the module's docstring."""
    body = ast.parse(source).body
    if ast.get_docstring(ast.parse(source)) is not None:
        body = body[1:]
    imports = {
        (getattr(each, "module", None) or "", name.name)
        for each in body
        if isinstance(each, ast.Import | ast.ImportFrom)
        for name in each.names
    }
    return imports, [
        ast.unparse(each) for each in body if not isinstance(each, ast.Import | ast.ImportFrom)
    ]


def test_the_package_declares_an_entry_point_of_our_group(root: Path) -> None:
    text = (root / "examples/provider_package/pyproject.toml").read_text()
    assert f'entry-points."{PROVIDERS_GROUP}"' in text
