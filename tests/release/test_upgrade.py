"""What the newest released version has stored, this one finds, and goes on with.

Where no version is tagged yet, this one takes the place of the version before: the test says so,
and shows only that a store is found again."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio
from attrs import frozen

from mmo_trio.brands.master_key import create_master_key
from tests.packages.environments import ROOT, Environment, an_environment
from tests.support.merchant import Merchant
from tests.support.mmo_process import (
    BRAND_ON_THE_SANDBOX,
    SETTINGS_ON_A_FILE,
    Process,
    serving_process,
)
from tests.support.postgres_server import postgres_server

pytestmark = pytest.mark.trio

KEY = "test-key-of-an-upgrade-0123456789"
BRANDS = BRAND_ON_THE_SANDBOX.format(key=KEY)
OPERATIONS = ("direct/payin", "direct/payout")


@frozen
class Versions:
    """The version before, and this one."""

    old: Environment
    new: Environment


def newest_tag() -> str | None:
    """Return the tag of the newest version that is not this commit's own, if there is one."""
    command = ("git", "tag", "--list", "v*", "--sort=-version:refname", "--no-contains", "HEAD")
    tags = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    return tags[0] if tags else None


@pytest.fixture(scope="module")
def versions(wheels: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Versions:
    new = an_environment(tmp_path_factory.mktemp("new"), f"{wheels['mmo_gateway']}[server]")
    tag = newest_tag()
    if tag is None:
        warnings.warn(
            "There is no tag yet: this version takes the place of the one before.", stacklevel=1
        )
        return Versions(new, new)
    source = tmp_path_factory.mktemp("source")
    archive = subprocess.run(
        ("git", "archive", tag), cwd=ROOT, check=True, capture_output=True
    ).stdout
    subprocess.run(("tar", "-x", "-C", str(source)), input=archive, check=True)
    return Versions(an_environment(tmp_path_factory.mktemp("old"), f"{source}[server]"), new)


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The settings of a gateway with the sandbox's provider on an empty store."""
    create_master_key(tmp_path / "master.key")
    (tmp_path / "brands.toml").write_text(BRANDS)
    text = SETTINGS_ON_A_FILE.format(folder=tmp_path) + '\n[provider.sandbox]\nkind = "sandbox"\n'
    file = tmp_path / "mmo.toml"
    if request.param == "sqlite":
        file.write_text(text)
        yield file
        return
    with postgres_server() as server:
        file.write_text(text.replace(f"sqlite:///{tmp_path}/payments.db", server.fresh()))
        yield file


async def test_this_version_finds_what_the_one_before_has_paid(
    versions: Versions, settings: Path
) -> None:
    log = settings.with_name("log")

    def serving(environment: Environment) -> AbstractAsyncContextManager[Process]:
        arguments = ("serve", "--config", settings, "--brands", settings.with_name("brands.toml"))
        return serving_process(*arguments, log=log, command=(str(environment.folder / "bin/mmo"),))

    async with serving(versions.old) as gateway:
        merchant = Merchant(gateway.ready["api"], KEY)
        made = [(await merchant.accepted(each))["gatewayReference"] for each in OPERATIONS]
        ended = [await merchant.ended(each) for each in made]
        assert [each["status"] for each in ended] == ["success", "success"]
    async with serving(versions.new) as gateway:
        merchant = Merchant(gateway.ready["api"], KEY)
        assert [await merchant.status(each) for each in made] == ended
        again = await merchant.ended((await merchant.accepted())["gatewayReference"])
        assert again["status"] == "success"
    _, said = await trio.to_thread.run_sync(
        versions.new.run, "mmo", "db", "check", "--config", str(settings)
    )
    assert "sound" in said
