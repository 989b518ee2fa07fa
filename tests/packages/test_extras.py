"""Each extra of the wheel, in a fresh environment, brings what its programs need, and a merchant's
brings little."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from attrs import evolve
from packaging.requirements import Requirement

from tests.packages.environments import ROOT, Environment, an_environment, own_modules_only
from tests.support.shop_process import SERVERS, a_shop_process, check_shop
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.long

MERCHANTS_PACKAGES_MAX = 10
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECORD = {
    "gatewayReference": "01K5TESTTESTTEST0000000001",
    "merchantReference": "order-1",
    "providerReference": "RECEIPT1",
    "type": "payin",
    "status": "success",
    "method": "mpesa_ke",
    "party": {"id": "c1", "msisdn": "+254700000001"},
    "requestedAmount": {"value": 150.00, "currency": "KES"},
    "finalAmount": None,
    "providerData": None,
    "completedAt": "2026-11-02T10:00:00.000000Z",
}


@pytest.fixture(scope="session")
def merchants(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The environment of a merchant's program."""
    return an_environment(tmp_path_factory.mktemp("merchant"), f"{wheel}[merchant]")


def test_a_merchants_environment_is_small(merchants: Environment) -> None:
    found = merchants.packages()
    assert {"mmo-gateway", "httpx", "anyio"} <= found
    assert len(found) <= MERCHANTS_PACKAGES_MAX, sorted(found)
    names = "from mmo_merchant import AsyncMerchantClient, GapCloser, MerchantClient, SqliteInbox"
    merchants.run("python", "-c", f"{names}\nimport mmo_trio")
    for words in (["mmo"], ["mmo", "serve"], ["mmo", "serve", "--help"]):
        _, advice = merchants.run(*words, exit_code=1)
        assert "pip install 'mmo-gateway[server]'" in advice


def _frameworks(kind: str) -> Sequence[str]:
    """The requirements of a shop: its framework, and what serves it."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "dependency-groups"
    ]
    listed = [
        Requirement(each)
        for name in ("shops", "test")
        for each in groups[name]
        if isinstance(each, str)
    ]
    return [str(each) for each in listed if each.name in (kind, SERVERS[kind][0])]


@pytest.mark.parametrize("kind", SERVERS)
def test_a_shop_runs_with_the_extra_alone(
    kind: str, wheel: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    environment = an_environment(
        tmp_path_factory.mktemp(kind), f"{wheel}[merchant]", *_frameworks(kind)
    )
    assert "trio" not in environment.packages()
    with a_shop_process(kind, tmp_path) as shop:
        trio.run(check_shop, evolve(shop, python=environment.python))


def _tutorial_code(folder: Path) -> Path:
    """A file in this folder with all the code of the tutorial."""
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    code = folder / "tutorial.py"
    code.write_text("\n".join(PYTHON_BLOCK.findall(page)), encoding="utf-8")
    return code


def test_the_core_needs_attrs_alone_and_plays_the_tutorial(wheel: Path, tmp_path: Path) -> None:
    environment = an_environment(tmp_path / "base", str(wheel))
    assert environment.packages() == {"mmo-gateway", "attrs"}
    assert environment.run("python", str(_tutorial_code(tmp_path)))[0]
    environment.run("python", "-c", "import mmo_sansio, mmo_sansio.testing, mmo_merchant, mmo_trio")
    _, advice = environment.run("mmo", exit_code=1)
    assert advice == (
        "`mmo` needs packages that are not installed, such as click. Run: pip install "
        "'mmo-gateway[server]'\n"
    )


def test_a_shops_own_test_is_clean_under_strict_mypy(wheel: Path, tmp_path: Path) -> None:
    environment = an_environment(tmp_path / "base", str(wheel), "pytest", "mypy")
    own = tmp_path / "test_payment.py"
    own.write_bytes((ROOT / "examples/test_payment.py").read_bytes())
    tutorial = _tutorial_code(tmp_path)
    assert "2 passed" in environment.run("python", "-m", "pytest", "-q", str(own))[0]
    environment.run("python", "-m", "mypy", "--strict", str(own), str(tutorial))


def test_a_merchants_commands_need_no_gateway(wheel: Path, tmp_path: Path) -> None:
    environment = an_environment(tmp_path / "tools", f"{wheel}[merchant,tools]")
    assert not {"trio", "structlog", "cryptography"} & environment.packages()
    assert "serve" in environment.run("mmo", "--help")[0]
    assert "key-right" in environment.run("mmo", "conform", "--list")[0]
    url = "http://127.0.0.1:9/results"
    nobody, _ = environment.run(
        "mmo", "conform", url, "--allow-http", "--key", "a-key", exit_code=1
    )
    assert "Connection refused" in nobody
    pay_roll = tmp_path / "salaries.csv"
    pay_roll.write_text(
        "msisdn,amount,currency,country,method\n254712345001,20,KES,KE,mpesa_ke\n", encoding="utf-8"
    )
    checked = (
        "mmo",
        "pay-outs",
        str(pay_roll),
        "--result-url",
        "https://my.shop/results",
        "--dry-run",
    )
    assert "1 pay-outs; KES 20.00" in environment.run(*checked)[0]
    fetch = ("mmo", "records", "fetch", "--gateway", "https://gateway.example", "--for-accounting")
    _, advice = environment.run(*fetch, "--key", "a-key", exit_code=2)
    assert "add --month 2026-11" in advice
    records, statement = tmp_path / "records.ndjson", tmp_path / "statement.csv"
    records.write_text(json.dumps(RECORD) + "\n", encoding="utf-8")
    statement.write_text("Receipt,Amount\nRECEIPT1,150.00\n", encoding="utf-8")
    columns = ("--map", "receipt=Receipt", "--map", "amount=Amount", "--currency", "KES")
    compare = ("mmo", "records", "reconcile", "--statement", str(statement), *columns)
    assert "1 lines have a payment" in environment.run(*compare, "--records", str(records))[0]
    for command in (
        compare,
        ("mmo", "serve"),
        ("mmo", "trigger", "--list"),
        ("mmo", "records", "export", "--help"),
    ):
        _, advice = environment.run(*command, exit_code=2)
        assert "pip install 'mmo-gateway[server]'" in advice
    assert "`mmo records export` needs" in advice
    _, advice = environment.run("mmo", "simulate", "mpesa", exit_code=2)
    assert "pip install 'mmo-gateway[simulators]'" in advice


@contextmanager
def _simulating(environment: Environment, operator: str) -> Iterator[str]:
    """Run `mmo simulate`: where the operator is reached."""
    command = [str(environment.folder / "bin/mmo"), "simulate", operator, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own_modules_only())
    try:
        assert process.stdout is not None
        ready, name, address = process.stdout.readline().split()
        assert (ready, name) == ("READY", operator)
        yield address
    finally:
        process.terminate()
        assert process.wait(HANGS_AFTER_S) == 0


def test_the_simulators_serve_without_the_gateway(wheel: Path, tmp_path: Path) -> None:
    environment = an_environment(tmp_path / "simulators", f"{wheel}[simulators]")
    assert not {"structlog", "quart", "psycopg"} & environment.packages()
    for operator in ("airtel", "mpesa", "mtn", "pawapay", "wave"):
        with (
            _simulating(environment, operator) as address,
            urllib.request.urlopen(f"{address}/_simulator/book", timeout=HANGS_AFTER_S) as answer,
        ):
            assert answer.status == 200
