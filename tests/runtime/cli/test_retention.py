"""`mmo db retention` shows what is too old, and masks or removes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from mmo_trio.brands.master_key import create_master_key
from mmo_trio.cli.group import main
from mmo_trio.storage.open_store import open_store
from tests.conformance.inputs import PAYER, brand, reference
from tests.support.aged_payments import pay

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(tmp_path: Path) -> Invoke:
    """Runs a command on a gateway with five old payments."""
    create_master_key(tmp_path / "master.key")
    config = tmp_path / "mmo.toml"
    config.write_text(
        f"""
[database]
url = "sqlite:///{tmp_path / "gateway.db"}"
[keys]
master_key_file = "{tmp_path / "master.key"}"
"""
    )

    async def fill() -> None:
        async with open_store(f"sqlite:///{tmp_path / 'gateway.db'}", serving=True) as store:
            await pay(store, 1, 5)

    trio.run(fill)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--config", str(config)])

    return run


def count_rows(result: Result) -> dict[str, int]:
    return {row["what"]: row["rows"] for row in json.loads(result.stdout)}


def test_a_dry_run_shows_what_is_old_and_changes_nothing(invoke: Invoke) -> None:
    shown = invoke("db", "retention", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "personal_data" in shown.stdout
    assert "2023-11-14" in shown.stdout
    assert count_rows(invoke("db", "retention", "--dry-run", "--json"))["personal_data"] == 5


def test_what_is_old_is_masked(invoke: Invoke) -> None:
    result = invoke("db", "retention", "--at-once", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"]["personal_data"] == 5
    left = count_rows(invoke("db", "retention", "--dry-run", "--json"))
    assert not any(left.values()), left
    shown = invoke("tx", "show", reference(1), "--json").stdout
    assert "order-1" in shown
    assert PAYER.msisdn not in shown
    assert invoke("audit", "verify").exit_code == 0
    audited = [row["act"] for row in json.loads(invoke("audit", "list", "--json").stdout)]
    assert {"retention_begun", "retention_ended"} <= set(audited)


def test_masked_payments_are_compared_with_statements_and_in_digests(
    invoke: Invoke, tmp_path: Path
) -> None:
    async def add_brand() -> None:
        async with open_store(f"sqlite:///{tmp_path / 'gateway.db'}", serving=False) as store:
            await store.admin.save_brands([brand("acme")])

    def digest() -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(
            invoke("records", "digest", "--date", "2023-11-14", "--json").stdout
        )
        return found

    def reconcile(*more: str) -> tuple[dict[str, int], str]:
        words = ("--statement", str(statement), "--map", "reference=order", "--map", "amount=total")
        done = invoke("records", "reconcile", *words, "--currency", "UGX", "--json", *more)
        return json.loads(done.stdout)["differences"], done.stderr

    trio.run(add_brand)
    statement = tmp_path / "statement.csv"
    statement.write_text("order,total\norder-1,7\n", "utf-8")
    before = digest(), reconcile()[0]
    assert before[0][0]["count"] == 4
    assert before[1]["missing_in_statement"] == 3
    assert invoke("db", "retention", "--at-once").exit_code == 0
    assert (digest(), reconcile()[0]) == before
    assert reconcile("--method", "another")[0]["missing_in_statement"] == 0
