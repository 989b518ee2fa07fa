"""Writes the files that every gateway of a simulated world reads at its start: master key, brands
and settings."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from attrs import frozen

from mmo_sansio.values.model import Operation
from mmo_trio.settings.load import load_settings
from mmo_trio.settings.providers import provider_variable
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.workers.providers.kept_hints import hint_file_of
from tests.support.provider_packages import kinds_beside

GATEWAY_HOST: Final = "gateway.example"
"""The name of all gateways; each has an address of its own."""
API_PORT: Final = 8080
PAGES_PORT: Final = 8081
CONSOLE_PORT: Final = 8082
PAGES_URL: Final = f"https://pay.{GATEWAY_HOST}"
"""The public address of the payment pages; what ends TLS before them is no part of a world."""
SHARED_DATABASE: Final = "postgresql://gateway@store.example/gateway?sslmode=verify-full"
"""What the settings of several gateways name."""
MASTER_KEY: Final = bytes(range(32))
OPERATORS_MAX: Final = 3
MERCHANTS_MAX: Final = 6
"""Brands that every world has; a plan says how many of them do business."""

_BRAND = """
[[brand]]
id = "shop-{number}"
name = "Shop {number}"
api_keys = ["{key}"]
push_result_url = "https://shop-{number}.example/results"
"""
_METHOD = """
[[brand.method]]
key = "{method}"
provider = "{method}"
country = "{country}"
flows = {flows}
limits.{currency} = {{ min = "1", max = "5000000" }}
push_accounts = {push_accounts}
"""


@frozen
class WorldMethod:
    """Describes an operator's account, and the method that each merchant has with it."""

    name: str
    """The method's key and the provider's name."""
    country: str
    currency: str
    operations: Sequence[Operation]
    options: Mapping[str, str]
    """The options of the account, its `kind` and its `base_url` with them."""
    number_prefix: str
    """How the telephone numbers of payers and payees begin."""
    number_digits: int
    """How many digits follow."""
    push_accounts: Sequence[str] = ()
    """The accounts whose deposits are the first merchant's."""
    amounts: tuple[int, int] = (500, 5_000)
    """Payments are of at least, and of less than, so many whole units."""


def merchant_name(number: int) -> str:
    """Return the brand's id."""
    return f"shop-{number}"


def merchant_key(number: int) -> str:
    """Return the brand's API key."""
    return f"key-of-the-simulated-shop-{number}"


@cache
def _directory() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="mmo-world-")


@cache
def world_directory() -> Path:
    """Return a directory that this interpreter uses for all its worlds. Call it before randomness
    is seeded: its name must be its own."""
    return Path(_directory().name)


def world_config(
    methods: Sequence[WorldMethod],
    *,
    is_store_shared: bool,
    options: Mapping[str, str] | None = None,
) -> ServiceConfig:
    """Return how each gateway of a world is started; `options` are settings by dotted key, which
    replace the world's own."""
    directory = world_directory()
    hint_file().unlink(missing_ok=True)  # An earlier world may have broken off.
    master_key, brands = directory / "master.key", directory / "brands.toml"
    if not master_key.exists():
        master_key.touch(mode=0o600)
        master_key.write_bytes(base64.b64encode(MASTER_KEY) + b"\n")
    text = _brands(methods)
    if not brands.exists() or brands.read_text("utf-8") != text:
        brands.write_text(text, "utf-8")
    environment = {
        provider_variable(each.name, key): text
        for each in methods
        for key, text in each.options.items()
    }
    settings = load_settings(
        environment=environment,
        options={
            "keys.master_key_file": str(master_key),
            "gateway.base_url": f"http://{GATEWAY_HOST}:{API_PORT}",
            "gateway.hpp_url": PAGES_URL,
            "listen.allow_clear": "true",
            "database.url": SHARED_DATABASE if is_store_shared else _own_database(),
            **(options or {}),
        },
        provider_kinds=kinds_beside(),
    )
    return ServiceConfig(settings, brands_file=brands)


def hint_file() -> Path:
    """Return where the gateway of a world keeps the hints that its store lacks: beside the database
    that its settings name, though the world opens the store itself."""
    path = hint_file_of(_own_database(), None)
    assert path is not None
    return path


def _own_database() -> str:
    return f"sqlite:///{world_directory() / 'gateway.db'}"


def _brands(methods: Sequence[WorldMethod]) -> str:
    parts: list[Any] = []
    for number in range(MERCHANTS_MAX):
        parts.append(_BRAND.format(number=number, key=merchant_key(number)))
        parts += [
            _METHOD.format(
                method=each.name,
                country=each.country,
                currency=each.currency,
                flows=list(map(str, each.operations)),
                push_accounts=[] if number else list(each.push_accounts),
            )
            for each in methods
        ]
    return "".join(parts)
