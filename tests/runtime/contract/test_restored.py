"""A backup is restored: nothing is paid twice, nothing that was paid is told as failed, and no ended key comes back."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define

from mmo_sansio.messages.inputs import CreatePayment, Draft
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.providers.sandbox.journal import SandboxSubmission
from mmo_sansio.values.model import Operation, Party
from mmo_trio.engine.one_shot import submit_once
from mmo_trio.sandbox.operator_journal import read_operator_journal
from mmo_trio.service.wiring import OPERATOR_JOURNAL_FILE
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.ids import ReferenceGenerator
from tests.runtime.contract.test_kill import BRANDS, CONFIGURATION, KEY
from tests.support.merchant import Merchant
from tests.support.mmo_process import COMMAND, Process, environment_without_settings, mmo, serving_process
from tests.support.restored_database import (
    OpenDatabase,
    copied_folder,
    dumped_database,
    recovered_server,
    sqlite_backup,
)
from tests.support.time_limits import HANGS_AFTER_S

# isort: split

pytestmark = [pytest.mark.own_store, pytest.mark.long]

BACKUPS = [copied_folder, sqlite_backup, dumped_database, recovered_server]


@define
class Gateway:
    """A gateway's files."""

    folder: Path
    url: str
    further: str = ""
    """Further settings of its database."""

    @property
    def config(self) -> Path:
        return self.folder / "mmo.toml"

    @property
    def mark(self) -> Path:
        return self.folder / "master.key.mark"

    async def set_up(self) -> None:
        """Configure it, and make its store and its brand."""
        text = CONFIGURATION.replace('extra_ca_file = "{directory}/ca.pem"', "")
        text = text.replace('url = "sqlite:///{directory}/gateway.db"', f'url = "{self.url}"\n{self.further}')
        self.config.write_text(text.replace("{directory}", str(self.folder)))
        (self.folder / "brands.toml").write_text(BRANDS)
        await self.mmo("db", "migrate")
        await self.mmo("brands", "apply", str(self.folder / "brands.toml"))

    async def mmo(self, *arguments: str, exit_code: int = 0) -> str:
        """What a command prints."""
        return await mmo(*arguments, "--config", self.config, exit_code=exit_code)

    @asynccontextmanager
    async def serving(self, key: str = KEY) -> AsyncIterator[tuple[Process, Merchant]]:
        """Serve during the block, for a merchant with this key."""
        async with serving_process("serve", "--config", self.config, log=self.folder / "log") as process:
            yield process, Merchant(process.ready["api"], key)

    async def refusal(self) -> str:
        """What the gateway says that doesn't start."""
        with trio.fail_after(HANGS_AFTER_S):
            done = await trio.run_process(
                [*COMMAND, "serve", "--config", str(self.config)],
                env=environment_without_settings(),
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        assert done.returncode == 3, done.stderr
        return done.stderr.decode()

    async def accept_unsent(self, merchant_reference: str) -> str:
        """Accept a pay-out that no process submits yet, as when the operator can't be reached; its gatewayReference."""
        clock = GatewayClock()
        async with open_store(self.url, serving=False) as store:
            record = await store.brand_record("acme")
            assert record is not None
            draft = Draft(
                Operation.DIRECT_PAYOUT,
                "mpesa_ke",
                Decimal(150),
                "KES",
                "KE",
                "https://localhost:9/callback",
                merchant_reference,
                party=Party("user-1", "254712345678"),
            )
            input_ = CreatePayment(record.brand, ReferenceGenerator(clock.now).next(), draft)
            assert isinstance(await submit_once(store, input_, clock), Accepted)
            return input_.gateway_reference

    def submissions(self) -> Counter[str]:
        """How often the operator got each payment."""
        entries = read_operator_journal(self.folder / OPERATOR_JOURNAL_FILE)
        return Counter(each.reference for each in entries if isinstance(each, SandboxSubmission))


async def paid(merchant: Merchant, merchant_reference: str) -> dict[str, Any]:
    """A pay-out, once it has succeeded."""
    made = await merchant.accepted("direct/payout", merchantReference=merchant_reference)
    found = await merchant.ended(made["gatewayReference"])
    assert found["status"] == "success"
    return found


@pytest.mark.spec("C6", "C12", "S6", "L1", "L2", "A4")
@pytest.mark.finding("money-3a", "money-3b", "money-3c")
@pytest.mark.parametrize("is_younger", [False, True], ids=["older", "younger"])
@pytest.mark.parametrize("database", BACKUPS)
async def test_a_restored_backup_does_no_harm(tmp_path: Path, database: OpenDatabase, is_younger: bool) -> None:
    """`is_younger`: the backup is younger than the mark, which went back with the machine's own backup."""
    with database(tmp_path) as kept, trio.fail_after(4 * HANGS_AFTER_S):
        gateway = Gateway(tmp_path, kept.url)
        await gateway.set_up()
        async with gateway.serving() as (_, merchant):
            before = await paid(merchant, "salary-76")
        unsent, mark = await gateway.accept_unsent("salary-77"), gateway.mark.read_bytes()
        kept.back_up()
        async with gateway.serving() as (_, merchant):
            assert (await merchant.ended(unsent))["status"] == "success"
            lost = await paid(merchant, "salary-78")
        key = (await gateway.mmo("brands", "key", "add", "acme")).strip()
        await gateway.mmo("brands", "key", "retire", "acme", "1")
        async with gateway.serving(key) as (_, merchant):
            await paid(merchant, "salary-79")
        kept.restore()
        if is_younger:
            gateway.mark.write_bytes(mark)
        else:
            assert "mmo db restored" in await gateway.refusal()
        said = await gateway.mmo("db", "restored")
        assert "acme" in said, "its key is listed"
        await gateway.mmo("db", "restored", "--retire-key", "1")
        key = (await gateway.mmo("brands", "key", "add", "acme")).strip()
        async with gateway.serving() as (process, merchant):
            assert (await merchant.get("status/mref/salary-76")).status == 401, "the ended key doesn't come back"
            merchant = Merchant(process.ready["api"], key)
            assert (await merchant.status(before["gatewayReference"])) == before
            for path in (f"status/{lost['gatewayReference']}", "status/mref/salary-78"):
                missing = await merchant.get(path)
                assert (missing.status, missing.headers["retry-after"]) == (503, "2")
            assert (await merchant.create("direct/payout", merchantReference="salary-78")).status == 503
            assert (await merchant.ended(unsent))["status"] == "success", "the operator was asked"
        records = tmp_path / "records.ndjson"
        records.write_text("\n".join(json.dumps(each, default=float) for each in (before, lost)))
        await gateway.mmo("db", "restored", "--records", str(records), "--brand", "acme")
        await gateway.mmo("db", "restored", "--finish")
        async with gateway.serving(key) as (_, merchant):
            assert (await merchant.get("status/mref/salary-78")).status == 404
            assert (await merchant.create("direct/payout", merchantReference="salary-78")).status == 422
            assert (await merchant.status(before["gatewayReference"])) == before
            await paid(merchant, "salary-80")
        assert await gateway.mmo("db", "check") == ""
        submissions = gateway.submissions()
        assert set(submissions.values()) == {1}, submissions
        kept.restore()
        assert "mmo db restored" in await gateway.refusal(), "the same backup once more"
