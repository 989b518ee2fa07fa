"""The releases of other projects whose insides this gateway relies on.

Their maintainers promise these names to nobody, so any minor release may take them away. One module
alone uses such names, `mmo_trio.storage.postgres.driver` those of psycopg, and asks here before."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from attrs import frozen


@frozen
class KnownReleases:
    """Says which releases of a project were read and tested."""

    project: str
    """Its name on PyPI."""
    minors: tuple[str, ...]
    """The beginnings of their versions, `MAJOR.MINOR`, the oldest first."""

    def fault(self) -> str | None:
        """Return what is wrong with the release that is installed; None for a known one. Raises
        PackageNotFoundError when none is installed."""
        # Without an import: the name that is asked about may be gone already.
        installed = version(self.project)
        if ".".join(installed.split(".")[:2]) in self.minors:
            return None
        known = " and ".join(f"{minor}.x" for minor in self.minors)
        return f"{self.project} {installed} is not known; this gateway knows {known}"


PSYCOPG: Final = KnownReleases("psycopg", ("3.2", "3.3"))
