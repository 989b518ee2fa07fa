"""Finds configuration files that hold secrets and that everybody on the machine can read."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmo_sansio.providers.registry import ProviderKind
from mmo_sansio.values.fields import SettingsError
from mmo_trio.settings.toml_files import read_toml
from mmo_trio.settings.values import mask_database_url


def readable_secret_files(
    config: Path | None, brands: Path | None, kinds: Mapping[str, ProviderKind]
) -> Iterator[Path]:
    """Yield those of these files, mmo.toml and brands.toml, that hold secrets and that everybody
    can read. A file that cannot be read or parsed is not among them.

    Secrets are the secret options of providers of these kinds, a password in `database.url`, the
    address of a webhook for staff, and API keys."""
    if (
        config is not None
        and _is_readable_by_all(config)
        and _holds_settings_secret(_document(config), kinds)
    ):
        yield config

    if brands is not None and _is_readable_by_all(brands) and _holds_api_key(_document(brands)):
        yield brands


def _is_readable_by_all(file: Path) -> bool:
    try:
        return bool(file.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _document(file: Path) -> Mapping[str, Any]:
    try:
        return read_toml(file, "")
    except SettingsError:
        return {}


def _holds_settings_secret(document: Mapping[str, Any], kinds: Mapping[str, ProviderKind]) -> bool:
    url = _table(document.get("database")).get("url")

    # Whatever is masked is a secret.
    if isinstance(url, str) and mask_database_url(url) != url:
        return True

    # Chats put the right to write into the address.
    if "webhook_url" in _table(document.get("notices")):
        return True

    for options in _table(document.get("provider")).values():
        table = _table(options)
        kind = kinds.get(str(table.get("kind")))
        if kind is not None and any(key in table for key in kind.secrets):
            return True

    return False


def _holds_api_key(document: Mapping[str, Any]) -> bool:
    brands = document.get("brand")
    return isinstance(brands, list) and any(_table(brand).get("api_keys") for brand in brands)


def _table(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    return {}
