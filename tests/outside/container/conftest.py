"""Builds the image of `deploy/Containerfile` on a Debian of its own, without a daemon and without
user namespaces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import frozen
from pytest_trio.enable_trio_mode import *  # noqa: F403

from tests.support.postgres_process import postgres_process
from tests.support.postgres_server import PostgresServer

ROOT = Path(__file__).parents[3]
BUILT_BASE = "MMO_TEST_CONTAINER_BASE"
"""Names a file that keeps the base image, as a tar of its files, for further runs."""
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Those that this machine trusts; the package index may be known to one of them alone."""
PACKAGES = "python3-venv,passwd,libstdc++6"
LEAN = (
    "--aptopt=Acquire::Languages none",
    "--dpkgopt=force-unsafe-io",
    *(f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in ("doc", "locale", "man")),
)


@frozen
class Buildah:
    """Makes images and runs them, in a folder of its own."""

    folder: Path

    def command(self, *arguments: str | Path) -> list[str]:
        """Return a command of this folder's store."""
        places = ("--root", self.folder / "store", "--runroot", self.folder / "run")
        return ["buildah", *map(str, (*places, "--storage-driver", "vfs", *arguments))]

    def run(self, *arguments: str | Path) -> str:
        """Return what a command prints, its last word about an image or a container. Raises
        CalledProcessError."""
        done = subprocess.run(
            self.command(*arguments), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()


@frozen
class Image:
    """An image that is built."""

    buildah: Buildah
    name: str

    @property
    def config(self) -> dict[str, Any]:
        """Return what it says of itself."""
        found: dict[str, Any] = json.loads(
            self.buildah.run("inspect", "--type", "image", self.name)
        )
        return cast("dict[str, Any]", found["Docker"]["config"])


@frozen
class Container:
    """A container of the image."""

    buildah: Buildah
    id: str

    def command(
        self, environment: dict[str, str], volumes: Sequence[str], *arguments: str | Path
    ) -> list[str]:
        """Return the command that runs a program in it, as the user whom the image names, on this
        machine's network."""
        options = [f"--env={name}={value}" for name, value in environment.items()]
        options += [f"--volume={each}" for each in volumes]
        return self.buildah.command(
            "run", "--isolation", "chroot", *options, self.id, "--", *arguments
        )


@pytest.fixture(scope="session")
def buildah() -> Iterator[Buildah]:
    """A store of images that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="mmo-container-"))
    folder.chmod(0o755)
    try:
        yield Buildah(folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def base_image(buildah: Buildah) -> str:
    """An image of Debian's packages with Python."""
    files = Path(os.environ.get(BUILT_BASE) or buildah.folder / "base.tar")
    if not files.exists():
        subprocess.run(
            [
                "mmdebstrap",
                "--quiet",
                "--variant=essential",
                *LEAN,
                f"--include={PACKAGES}",
                "bookworm",
                files,
            ],
            check=True,
        )
    container = buildah.run("from", "scratch")
    buildah.run("add", "--quiet", container, files, "/")
    buildah.run("add", "--quiet", container, AUTHORITIES, AUTHORITIES)
    name = "localhost/debian:with-python"
    buildah.run("commit", "--quiet", "--rm", container, name)
    return name


@pytest.fixture(scope="session")
def image(buildah: Buildah, base_image: str) -> Image:
    """The gateway's image."""
    name = "localhost/mmo-gateway:tested"
    options = (
        "--format",
        "docker",
        "--isolation",
        "chroot",
        "--build-arg",
        f"BASE_IMAGE={base_image}",
    )
    buildah.run("bud", *options, "--file", "deploy/Containerfile", "--tag", name, ".")
    return Image(buildah, name)


@pytest.fixture
def container(buildah: Buildah, image: Image) -> Iterator[Container]:
    """A container of it."""
    made = buildah.run("from", image.name)
    yield Container(buildah, made)
    buildah.run("rm", made)


@pytest.fixture
def database() -> Iterator[str]:
    """The address of an empty database of a real PostgreSQL, which is reached through the
    network."""
    with postgres_process() as process:
        yield PostgresServer(process.tcp_url).fresh()
