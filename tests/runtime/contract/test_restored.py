"""A backup is restored: nothing is paid twice, nothing that was paid is told as failed, and no
ended key comes back."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define

from mmo_sansio.messages.inputs import BeginSubmission, CreatePayment, Draft
from mmo_sansio.messages.replies import Accepted, Applied
from mmo_sansio.providers.sandbox.journal import SandboxSubmission
from mmo_sansio.values.model import Operation, Party
from mmo_trio.engine.engine import submit_once
from mmo_trio.sandbox.operator_worker import read_operator_journal
from mmo_trio.service.wiring import OPERATOR_JOURNAL_FILE
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.ids import ReferenceGenerator
from tests.runtime.contract.test_kill import BRANDS, CONFIGURATION, KEY
from tests.support.effort import by_effort
from tests.support.merchant import Merchant, ask
from tests.support.mmo_process import (
    COMMAND,
    Process,
    environment_without_settings,
    mmo,
    serving_process,
)
from tests.support.postgres_cluster import postgres_cluster
from tests.support.restored_database import (
    OpenDatabase,
    copied_folder,
    dumped_database,
    recovered_server,
    sqlite_backup,
)
from tests.support.shared_operator import configure_gateways, shared_operator
from tests.support.time_limits import HANGS_AFTER_S

# isort: split

# isort: split

pytestmark = [pytest.mark.own_store, pytest.mark.long]

BACKUPS = [copied_folder, sqlite_backup, dumped_database, recovered_server]
AGES = ("older", "younger")
RESTORED = by_effort([(sqlite_backup, "older")], [*product(BACKUPS, AGES)])
"""Kinds of backups, older or younger than the mark; quick effort has one: other tests here restore
PostgreSQL."""


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
        """Configure it with the sandbox's operator, and make its store and its brand."""
        text = CONFIGURATION.replace('extra_ca_file = "{directory}/ca.pem"', "")
        text = text.replace(
            'url = "sqlite:///{directory}/gateway.db"', f'url = "{self.url}"\n{self.further}'
        )
        self.config.write_text(text.replace("{directory}", str(self.folder)))
        (self.folder / "brands.toml").write_text(BRANDS)
        await self.make_store()

    async def make_store(self) -> None:
        """Make its store and its brand."""
        await self.mmo("db", "migrate")
        await self.mmo("brands", "apply", str(self.folder / "brands.toml"))

    async def mmo(self, *arguments: str, exit_code: int = 0) -> str:
        """What a command prints."""
        return await mmo(*arguments, "--config", self.config, exit_code=exit_code)

    @asynccontextmanager
    async def serving(self, key: str = KEY) -> AsyncIterator[tuple[Process, Merchant]]:
        """Serve during the block, for a merchant with this key."""
        async with serving_process(
            "serve", "--config", self.config, log=self.folder / "log"
        ) as process:
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
        """Accept a pay-out that no process submits yet, as when the operator can't be reached; its
        gatewayReference."""
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
            input_ = CreatePayment(
                record.brand,
                ReferenceGenerator(clock.wall_time).next(),
                draft,
                simulated_providers=frozenset(method.provider for method in record.brand.methods),
            )
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
@pytest.mark.parametrize(("database", "age"), RESTORED)
async def test_a_restored_backup_does_no_harm(
    tmp_path: Path, database: OpenDatabase, age: str
) -> None:
    """A backup is younger than the mark, where that went back with the machine's own backup."""
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
        if age == "younger":
            gateway.mark.write_bytes(mark)
        else:
            assert "mmo db restored" in await gateway.refusal()
        said = await gateway.mmo("db", "restored")
        assert "acme" in said, "its key is listed"
        await gateway.mmo("db", "restored", "--retire-key", "1")
        key = (await gateway.mmo("brands", "key", "add", "acme")).strip()
        async with gateway.serving() as (process, merchant):
            assert (await merchant.get("status/mref/salary-76")).status == 401, (
                "the ended key doesn't come back"
            )
            merchant = Merchant(process.ready["api"], key)
            assert (await merchant.status(before["gatewayReference"])) == before
            for path in (f"status/{lost['gatewayReference']}", "status/mref/salary-78"):
                missing = await merchant.get(path)
                assert (missing.status, missing.headers["retry-after"]) == (503, "300")
            assert (
                await merchant.create("direct/payout", merchantReference="salary-78")
            ).status == 503
            assert (await merchant.ended(unsent))["status"] == "success", "the operator was asked"
        records = tmp_path / "records.ndjson"
        records.write_text("\n".join(json.dumps(each, default=float) for each in (before, lost)))
        await gateway.mmo("db", "restored", "--records", str(records), "--brand", "acme")
        await gateway.mmo("db", "restored", "--finish")
        async with gateway.serving(key) as (_, merchant):
            assert (await merchant.get("status/mref/salary-78")).status == 404
            assert (
                await merchant.create("direct/payout", merchantReference="salary-78")
            ).status == 422
            assert (await merchant.status(before["gatewayReference"])) == before
            await paid(merchant, "salary-80")
        assert await gateway.mmo("db", "check") == ""
        submissions = gateway.submissions()
        assert set(submissions.values()) == {1}, submissions
        kept.restore()
        assert "mmo db restored" in await gateway.refusal(), "the same backup once more"


@pytest.mark.spec("C6", "S6")
async def test_a_store_without_its_mark_is_refused_where_the_mark_was_named(tmp_path: Path) -> None:
    (tmp_path / "database").mkdir()
    (tmp_path / "marks").mkdir()
    file = tmp_path / "marks" / "store.mark"
    gateway = Gateway(
        tmp_path, f"sqlite:///{tmp_path}/database/gateway.db", f'mark_file = "{file}"'
    )
    await gateway.set_up()
    async with gateway.serving() as (_, merchant):  # The first start of all makes the mark.
        await paid(merchant, "salary-1")
    kept = file.read_bytes()
    file.write_text(json.dumps({"store_id": "x", "epoch": 0}))
    assert "remove that file" in await gateway.refusal(), "another store"
    file.write_text("{")
    await gateway.mmo("serve", exit_code=2)
    file.unlink()
    assert f"{file} is missing" in await gateway.refusal(), "a new machine without the mark"
    file.write_bytes(kept)
    async with gateway.serving() as (_, merchant):  # One with it, or an ordinary restart.
        await paid(merchant, "salary-2")
    file.unlink()
    await gateway.mmo("db", "restored")
    await gateway.mmo("db", "restored", "--finish")
    async with gateway.serving() as (_, merchant):
        await paid(merchant, "salary-3")


def _without_its_log(database: Path, copy: Path) -> None:
    """Leave the file with what was copied into it, as who tidies up after a crash."""
    Path(f"{database}-wal").unlink()
    Path(f"{database}-shm").unlink(missing_ok=True)


def _put_back(database: Path, copy: Path) -> None:
    """Put a copy of the file in its place, without the log of the newer one."""
    _without_its_log(database, copy)
    database.write_bytes(copy.read_bytes())


@pytest.mark.spec("C6", "C12", "S6")
@pytest.mark.parametrize("lose", [_without_its_log, _put_back])
async def test_a_sqlite_file_that_lost_its_newest_commits_is_refused_without_any_setting(
    tmp_path: Path, lose: Callable[[Path, Path], None]
) -> None:
    """The master key lies beside it, so the mark does, too."""
    database, copy = tmp_path / "gateway.db", tmp_path / "copy"
    gateway = Gateway(tmp_path, f"sqlite:///{database}")
    await gateway.set_up()
    async with gateway.serving() as (_, merchant):
        await paid(merchant, "salary-1")
    unsent = await gateway.accept_unsent("salary-2")
    copy.write_bytes(database.read_bytes())

    async with gateway.serving() as (process, merchant):
        assert (await merchant.ended(unsent))["status"] == "success"
        await paid(merchant, "salary-3")
        await process.kill()
    lose(database, copy)
    assert "mmo db restored" in await gateway.refusal()

    await gateway.mmo("db", "restored")
    async with gateway.serving() as (_, merchant):
        assert (await merchant.ended(unsent))["status"] == "success", "the operator was asked"
        again = await merchant.create("direct/payout", merchantReference="salary-3")
        assert again.status == 503
    assert set(gateway.submissions().values()) == {1}


@pytest.mark.spec("C6")
async def test_a_gateway_says_once_that_a_restored_folder_could_not_be_recognised(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path, f"sqlite:///{tmp_path}/gateway.db")
    await gateway.set_up()
    async with gateway.serving() as (_, merchant):
        await paid(merchant, "salary-1")
    assert (tmp_path / "log").read_text().count("restore_not_recognisable") == 1
    assert not gateway.mark.exists()


@pytest.mark.spec("C6", "S6")
async def test_a_running_gateway_stops_when_its_database_is_restored(tmp_path: Path) -> None:
    with dumped_database(tmp_path) as kept, trio.fail_after(4 * HANGS_AFTER_S):
        gateway = Gateway(tmp_path, kept.url)
        await gateway.set_up()
        kept.back_up()
        async with gateway.serving() as (process, merchant):
            made = await paid(merchant, "salary-78")
            kept.restore()
            readyz = f"{process.ready['api']}/readyz"
            while (await ask(readyz)).status != 503:  # noqa: ASYNC110
                await trio.sleep(0.1)
            for path in (f"status/{made['gatewayReference']}", "status/mref/salary-78"):
                assert (await merchant.get(path)).status == 503
            assert (
                await merchant.create("direct/payout", merchantReference="salary-78")
            ).status == 503
            await gateway.mmo("db", "restored")
            await trio.sleep(1.5)
            assert (await ask(readyz)).status == 503, "what it keeps in memory is of before"
        assert await gateway.mmo("db", "check") == ""


@pytest.mark.spec("C6", "S6")
async def test_a_second_node_and_a_failover_to_a_synchronous_standby_are_no_restore(
    tmp_path: Path,
) -> None:
    with (
        postgres_cluster() as cluster,
        shared_operator() as operator,
        trio.fail_after(4 * HANGS_AFTER_S),
    ):
        first, second = Gateway(tmp_path, cluster.url), Gateway(tmp_path / "second", cluster.url)
        second.folder.mkdir()
        configure_gateways(tmp_path, cluster.url, operator, key=KEY)
        await first.make_store()
        first.config.write_text(
            first.config.read_text().replace("[keys]", f'mark_file = "{first.mark}"\n[keys]')
        )
        for name in ("master.key", "mmo.toml"):
            text = (
                (tmp_path / name)
                .read_bytes()
                .replace(str(first.mark).encode(), str(second.mark).encode())
            )
            (second.folder / name).write_bytes(text)
            (second.folder / name).chmod(0o600)
        async with first.serving() as (_, merchant), second.serving() as (other, _):
            await paid(merchant, "salary-1")
            cluster.kill_primary()
            cluster.promote()
            while (await ask(f"{other.ready['api']}/readyz")).status != 200:  # noqa: ASYNC110
                await trio.sleep(0.1)
            await paid(Merchant(other.ready["api"], KEY), "salary-2")
            await paid(merchant, "salary-3")
        second.mark.unlink()
        async with (
            first.serving(),
            second.serving() as (_, merchant),
        ):  # Somebody else serves, so it needs no mark.
            await paid(merchant, "salary-4")
        assert second.mark.exists()


@pytest.mark.spec("C6", "S6")
async def test_an_asynchronous_standby_that_lacks_commits_is_served_only_within_the_setting(
    tmp_path: Path,
) -> None:
    with postgres_cluster() as cluster, trio.fail_after(4 * HANGS_AFTER_S):
        gateway = Gateway(tmp_path, cluster.url)
        await gateway.set_up()
        cluster.stop_waiting()
        async with gateway.serving() as (_, merchant):
            before = await paid(merchant, "salary-76")
        unsent = await gateway.accept_unsent("salary-77")
        cluster.wait_until_copied()
        cluster.kill_standby()
        async with gateway.serving() as (_, merchant):
            assert (await merchant.ended(unsent))["status"] == "success"
        cluster.kill_primary()
        cluster.standby.start()
        cluster.promote()
        assert "mmo db restored" in await gateway.refusal()
        gateway.config.write_text(
            gateway.config.read_text().replace("[keys]", "failover_loss_s = 600\n[keys]")
        )
        async with gateway.serving() as (_, merchant):
            assert (await merchant.status(before["gatewayReference"])) == before
            assert (await merchant.ended(unsent))["status"] == "success"
            await paid(merchant, "salary-80")
        assert "failover_lost_commits" in (tmp_path / "log").read_text()
        assert set(gateway.submissions().values()) == {1}
        async with gateway.serving():
            pass


@pytest.mark.spec("C6", "S6")
async def test_an_asynchronous_standby_may_lack_what_followed_the_last_epoch(
    tmp_path: Path,
) -> None:
    """The mark can't tell: what was submitted within that second is not submitted again."""
    with postgres_cluster() as cluster, trio.fail_after(4 * HANGS_AFTER_S):
        cluster.stop_waiting()
        gateway = Gateway(tmp_path, cluster.url)
        await gateway.set_up()
        async with gateway.serving() as (_, merchant):
            await paid(merchant, "salary-76")
        unsent = await gateway.accept_unsent("salary-77")
        cluster.wait_until_copied()
        cluster.kill_standby()

        # Like a worker that is killed within the second: it raises no epoch.
        async with open_store(cluster.url, serving=False) as store:
            begun = BeginSubmission(unsent, attempt="lost")
            assert isinstance(await submit_once(store, begun, GatewayClock()), Applied)
        cluster.kill_primary()
        cluster.standby.start()
        cluster.promote()

        assert "mmo db restored" in await gateway.refusal()
        gateway.config.write_text(
            gateway.config.read_text().replace("[keys]", "failover_loss_s = 1\n[keys]")
        )
        async with gateway.serving() as (_, merchant):
            await paid(merchant, "salary-80")
            assert (await merchant.status(unsent))["status"] == "pending", "the operator is asked"
        assert unsent not in gateway.submissions()


@pytest.mark.spec("C6", "S6")
async def test_a_running_gateway_goes_on_with_a_standby_that_lacks_little(tmp_path: Path) -> None:
    with postgres_cluster() as cluster, trio.fail_after(2 * HANGS_AFTER_S):
        gateway = Gateway(tmp_path, cluster.url, "failover_loss_s = 600")
        await gateway.set_up()
        cluster.stop_waiting()
        async with gateway.serving() as (process, merchant):
            await paid(merchant, "salary-1")
            cluster.kill_standby()
            await paid(merchant, "salary-2")
            await trio.sleep(1.5)  # Until a commit has raised the epoch, and the mark is written.
            await paid(merchant, "salary-3")
            cluster.kill_primary()
            cluster.standby.start()
            cluster.promote()
            with trio.fail_after(90):
                while "failover_lost_commits" not in (tmp_path / "log").read_text():  # noqa: ASYNC110
                    await trio.sleep(0.2)
                while (await ask(f"{process.ready['api']}/readyz")).status != 200:  # noqa: ASYNC110
                    await trio.sleep(0.2)
            await paid(merchant, "salary-4")
        assert set(gateway.submissions().values()) == {1}
