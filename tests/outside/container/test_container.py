"""The image that `deploy/Containerfile` builds serves payments, and ends when it is asked to."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio

from tests.outside.container.conftest import Container, Image
from tests.support.merchant import Merchant
from tests.support.mmo_process import BRAND_ON_THE_SANDBOX, Process, serving_process
from tests.support.time_limits import HANGS_AFTER_S

KEY = "acme-key-0123456789abcdef"
SETTINGS = """
[gateway]
base_url = "https://pay.example.com"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"

[database]
url = "{database}"

[egress]
allow_private = true

[keys]
master_key_file = "/srv/mmo/master.key"

[provider.sandbox]
kind = "sandbox"
"""
BRANDS = BRAND_ON_THE_SANDBOX.format(key=KEY)


@pytest.fixture
def volumes(tmp_path: Path, image: Image, database: str) -> list[str]:
    """The container's own folder, which is empty, and its settings; both belong to its user
    alone."""
    user, group = map(int, image.config["User"].split(":"))
    data, settings = tmp_path / "data", tmp_path / "settings"
    settings.mkdir()
    data.mkdir()
    (settings / "mmo.toml").write_text(SETTINGS.format(database=database), "utf-8")
    (settings / "brands.toml").write_text(BRANDS, "utf-8")
    for each in (data, settings, *settings.iterdir()):
        os.chown(each, user, group)
        each.chmod(0o700 if each.is_dir() else 0o600)
    # Not at the image's own volume, over which buildah mounts a new folder for each run.
    return [f"{data}:/srv/mmo", f"{settings}:/etc/mmo:ro"]


async def said(command: list[str]) -> str:
    """What a program prints in a container; it must succeed."""
    with trio.fail_after(HANGS_AFTER_S):
        done = await trio.run_process(command, capture_stdout=True, stdin=b"")
    return done.stdout.decode()


async def ends(process: Process, pid: Path) -> None:
    """Ask the gateway to end, as it must with 0."""
    os.kill(int(await trio.Path(pid).read_text()), signal.SIGTERM)
    with trio.fail_after(HANGS_AFTER_S):
        assert await process.process.wait() == 0


@pytest.mark.spec("C1", "L1")
async def test_a_payment_outlives_the_container_that_ends_when_it_is_asked_to(
    container: Container, image: Image, volumes: list[str], tmp_path: Path
) -> None:
    config, log = image.config, tmp_path / "log"
    entry, health = config["Entrypoint"], config["Healthcheck"]["Test"]
    apply = ("brands", "apply", "/etc/mmo/brands.toml", "--config", "/etc/mmo/mmo.toml")
    await said(container.command({}, volumes, *entry, *apply))
    # The signal goes to the gateway itself, as a container's engine sends it: buildah does not hand
    # it on.
    serve = container.command(
        {}, volumes, "sh", "-c", 'echo $$ >/srv/mmo/pid && exec "$0" "$@"', *entry, *config["Cmd"]
    )
    pid = tmp_path / "data" / "pid"

    async with serving_process(log=log, command=serve) as process:
        merchant = Merchant(process.ready["api"], KEY)
        paid = await merchant.ended((await merchant.accepted())["gatewayReference"])
        assert paid["status"] == "success"
        ready = {"HEALTH_URL": f"{process.ready['api']}/readyz"}
        assert health[0] == "CMD"
        await said(container.command(ready, volumes, *health[1:]))
        await ends(process, pid)

    async with serving_process(log=log, command=serve) as process:
        assert await Merchant(process.ready["api"], KEY).status(paid["gatewayReference"]) == paid
        await ends(process, pid)


async def test_no_program_in_it_is_root_or_writes_to_what_it_is_made_of(
    container: Container,
) -> None:
    assert (await said(container.command({}, [], "id", "-u"))).strip() == "10001"
    writable = await said(
        container.command({}, [], "find", "/opt", "/usr", "-writable", "-not", "-type", "l")
    )
    assert writable == ""
