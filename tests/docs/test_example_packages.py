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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import Factory, define

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.providers.registry import ProviderKind
from mmo_sansio.testing import ADAPTER_CHECKS, AdapterCase, AdapterCheck
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.settings.providers import PROVIDERS_GROUP
from mmo_trio.system.ids import request_id_generator
from tests.support.merchant import Merchant, ask
from tests.support.mmo_process import SETTINGS_ON_A_FILE, mmo, serving_process
from tests.support.operator_gateway import API_KEY, BRANDS, METHOD
from tests.support.time_limits import HANGS_AFTER_S

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOKEN = "token-of-pesaplus"
CONFIGURATION = f"""{SETTINGS_ON_A_FILE}
[provider.plus]
kind = "pesaplus"
base_url = "{{operator}}"
api_key_file = "{{folder}}/api-key"
"""


PAGAQUI = f"""{SETTINGS_ON_A_FILE}
[provider.pagaqui]
kind = "pagaqui"
base_url = "{{operator}}"
api_key = "SECRET-api-key"
payer_hosts = "{{hosts}}"
"""
PAGAQUI_BRAND = f"""
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{API_KEY}"]

[[brand.method]]
key = "{METHOD}"
provider = "pagaqui"
country = "KE"
flows = ["web/payin"]
limits.KES = {{ min = "1", max = "150000" }}
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


@define(eq=False)
class Pagaqui:
    """A small operator whose payers approve at its page: who opens that has paid."""

    origin: str = ""
    checkouts: dict[str, dict[str, Any]] = Factory(dict)

    async def admit(self, head: RequestHead, context: RequestContext) -> Admitted:
        await trio.lowlevel.checkpoint()
        return Admitted(64 * 1024, partial(self.respond, head))

    async def respond(self, head: RequestHead, body: bytes) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        path = head.target.decode()
        name = path.rpartition("/")[2]
        if path.startswith("/page/"):
            checkout = self.checkouts[name]
            checkout |= {"state": "paid", "receipt": "Q-1"}
            return HttpResponse(303, ((b"location", checkout["return_to"].encode()),))
        if head.value(b"authorization") != b"Bearer SECRET-api-key":
            return answer(401, {})
        if head.method == "POST":
            document = json.loads(body)
            page = {"state": "open", "page": f"{self.origin}/page/{document['id']}"}
            return answer(200, self.checkouts.setdefault(document["id"], {**document, **page}))
        found = self.checkouts.get(name)
        return answer(404, {"code": "no-such-checkout"}) if found is None else answer(200, found)


def answer(status: int, document: dict[str, Any]) -> HttpResponse:
    return HttpResponse(status, (), json.dumps(document).encode())


@asynccontextmanager
async def operating(operator: Pesaplus | Pagaqui) -> AsyncIterator[str]:
    """Serve the operator: where it is reached."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                serve_http,
                operator,
                listeners,
                limits=ListenerLimits(),
                error_docs_url="about:blank",
                mint_request_id=request_id_generator(),
                drain=trio.Event(),
            )
        )
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
        BRANDS.format(key=API_KEY, method=METHOD, name="plus", country="KE", currency="KES")
        .replace('"qr/payin", ', "")
        .replace(', "direct/taxpayout"', "")
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


@pytest.mark.trio
@pytest.mark.usefixtures("installed")
@pytest.mark.spec("W1", "W2")
async def test_a_provider_of_another_package_sends_a_payer_to_its_page_and_back(
    tmp_path: Path,
) -> None:
    operator = Pagaqui()
    create_master_key(tmp_path / "master.key")
    brands, config = tmp_path / "brands.toml", tmp_path / "mmo.toml"
    brands.write_text(PAGAQUI_BRAND)
    async with operating(operator) as operator.origin:
        for hosts, exit_code in (("", 2), ("127.0.0.1", 0)):
            text = PAGAQUI.format(folder=tmp_path, operator=operator.origin, hosts=hosts)
            config.write_text(text.replace('payer_hosts = ""', ""))
            await mmo("check-config", "--config", config, exit_code=exit_code)
        command = ("serve", "--config", config, "--brands", brands)
        async with serving_process(*command, log=tmp_path / "log") as gateway:
            merchant = Merchant(gateway.ready["api"], API_KEY, method=METHOD)
            made = await merchant.accepted("web/payin")
            await ask(made["pageUrl"], method="POST", headers=FORM, body=b"")
            link = f"{operator.origin}/page/{made['gatewayReference']}"
            with trio.fail_after(HANGS_AFTER_S):
                while True:
                    if f'href="{link}"' in (await ask(made["pageUrl"])).body.decode():
                        break
                    await trio.sleep(0.02)
            back = (await ask(link)).headers["location"]
            assert made["pageUrl"].rpartition("/")[2] not in back
            assert (await ask(back)).status == 303
            found = await merchant.ended(made["gatewayReference"])
            assert (found["status"], found["providerReference"]) == ("success", "Q-1")


@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
def test_the_example_with_a_page_keeps_the_promises_of_every_adapter(
    root: Path, monkeypatch: pytest.MonkeyPatch, check: AdapterCheck
) -> None:
    monkeypatch.syspath_prepend(str(root / "examples/provider_package"))
    kind: ProviderKind = importlib.import_module("mmo_pagaqui").PAGAQUI
    options = {
        "base_url": "https://api.pagaqui.example",
        "api_key": "SECRET-api-key",
        "payer_hosts": "pay.pagaqui.example *.pagaqui.example",
    }
    check(AdapterCase(kind, options))


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
