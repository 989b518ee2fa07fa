"""Reads the brands of a sandbox and their API keys from its store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mmo_sansio.values.model import Brand
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.target import find_target
from mmo_trio.storage.interface.store import StoreUnavailable


def load_sandbox_keys(directory: Path) -> Sequence[tuple[Brand, bytes]]:
    """Return the keys in use of all brands, oldest first, with their brands. Raises NegativeAnswer when there are
    none."""
    target = find_target(directory, None)
    try:
        records = target.with_store(lambda store: store.admin.brands())
    except StoreUnavailable:
        records = ()
    sealed = [(each.brand, key) for each in records for key in each.keys if key.retired_at is None]
    if not sealed:
        raise NegativeAnswer(f"There are no API keys in {directory}. Start `mmo sandbox` first, or give --key.")
    keyring = target.keyring()
    return [(brand, keyring.unseal(key.brand, key.sealed)) for brand, key in sealed]
