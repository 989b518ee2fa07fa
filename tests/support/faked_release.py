"""Another release of an installed package, as far as its metadata tell."""

from __future__ import annotations

from pathlib import Path


def fake_release(folder: Path, project: str, version: str) -> None:
    """Write metadata into a folder that stands before the real ones on the path."""
    metadata = folder / f"{project}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n", encoding="utf-8"
    )
