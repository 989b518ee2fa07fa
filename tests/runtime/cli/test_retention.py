"""`mmo db retention` shows and removes what is too old; `mmo archive` reads back what has left the store."""

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
from tests.conformance.inputs import brand, reference
from tests.support.aged_payments import pay

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(tmp_path: Path) -> Invoke:
    """Runs a command on a gateway with five old payments and an archive."""
    create_master_key(tmp_path / "master.key")
    config = tmp_path / "mmo.toml"
    config.write_text(
        f"""
[database]
url = "sqlite:///{tmp_path / "gateway.db"}"
[keys]
master_key_file = "{tmp_path / "master.key"}"
[retention]
archive_directory = "{tmp_path / "archive"}"
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
    assert count_rows(invoke("db", "retention", "--dry-run", "--json"))["archived_payments"] == 5
    assert count_rows(invoke("db", "retention", "--dry-run", "--json"))["personal_data"] == 5


@pytest.mark.finding("postgres-F9")
def test_what_is_old_moves_to_the_archive_and_is_found_there(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("db", "retention", "--at-once", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"]["archived_payments"] == 5
    left = count_rows(invoke("db", "retention", "--dry-run", "--json"))
    assert not any(left.values()), left
    assert invoke("tx", "show", reference(1)).exit_code == 1
    for name in (reference(1), "order-1", reference(1).lower()):
        [found] = json.loads(invoke("archive", "find", name, "--json").stdout)
        assert found["transaction"]["merchantReference"] == "order-1"
    shown = invoke("archive", "find", "order-1")
    assert "ProviderSucceeded" in shown.stdout
    assert invoke("archive", "find", "order-77").exit_code == 1
    verified = invoke("archive", "verify")
    assert verified.exit_code == 0, verified.output
    assert invoke("audit", "verify").exit_code == 0
    audited = [row["act"] for row in json.loads(invoke("audit", "list", "--json").stdout)]
    assert {"retention_begun", "retention_ended"} <= set(audited)
    part = tmp_path / "archive" / "part-000000001"
    part.rename(tmp_path / "elsewhere")
    missing = invoke("archive", "verify")
    assert missing.exit_code == 1
    assert "missing" in missing.stderr
    refused = invoke("db", "retention", "--at-once")
    assert refused.exit_code in (0, 1)


def test_archived_payments_are_compared_with_statements_and_in_digests(invoke: Invoke, tmp_path: Path) -> None:
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
    config = tmp_path / "mmo.toml"
    config.write_text(config.read_text("utf-8").replace("[retention]\narchive_directory", "[retention]\n# "), "utf-8")
    assert "are in the archive and are left out" in reconcile()[1]


def test_a_damaged_archive_is_reported(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("db", "retention", "--at-once").exit_code == 0
    file = tmp_path / "archive" / "part-000000001" / "journal.csv.gz"
    file.write_bytes(file.read_bytes()[:-1])
    result = invoke("archive", "verify")
    assert result.exit_code == 3
    assert "journal.csv.gz" in result.stderr
