"""Lets a gateway find the packages of providers beside it as kinds of provider, where they are not
installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from mmo_sansio.providers import ProviderKind

ROOT = Path(__file__).parents[2]
GROUP = "mmo_gateway.providers"
PACKAGES = {"pawapay": ("mmo_provider_pawapay", "PAWAPAY"), "wave": ("mmo_provider_wave", "WAVE")}
"""Module and name of each kind."""


def package_paths(directory: Path) -> Sequence[str]:
    """Return what has to be in the path of a process that is to find them. The directory gets the
    metadata of those that are not installed."""
    installed = entry_points(group=GROUP).names
    paths = []
    for kind, (module, name) in PACKAGES.items():
        if kind in installed:
            continue
        distribution = module.replace("_", "-")
        metadata = directory / f"{module}-0.1.dist-info"
        metadata.mkdir(parents=True, exist_ok=True)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1\n"
        )
        (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{kind} = {module}:{name}\n")
        paths += [str(directory), str(ROOT / "packages" / distribution / "src")]
    return list(dict.fromkeys(paths))


def find_sources() -> None:
    """Let this process import the packages that are not installed."""
    for module, _ in PACKAGES.values():
        if find_spec(module) is None:
            sys.path.append(str(ROOT / "packages" / module.replace("_", "-") / "src"))


def kinds_beside() -> Mapping[str, ProviderKind]:
    """Return the kinds of the packages that are not installed, for a gateway in this process."""
    find_sources()
    installed = entry_points(group=GROUP).names
    return {
        kind: getattr(import_module(module), name)
        for kind, (module, name) in PACKAGES.items()
        if kind not in installed
    }
