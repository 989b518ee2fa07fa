"""Every file of the packages that is no module is installed with them."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMPILED = {".pyc"}


def test_the_settings_of_the_build_name_every_file() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    for package, patterns in build["package-data"].items():
        folder = ROOT / "src" / package
        named = {path for pattern in patterns for path in folder.glob(pattern)}
        files = {
            path
            for path in folder.rglob("*")
            if path.is_file() and path.suffix not in {".py", *COMPILED}
        }
        assert files - named == set()
