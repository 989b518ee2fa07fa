"""`mmo check-config` checks the settings and shows those in force."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant, MonotonicInstant
from mmo_trio.cli.support.output import print_json, print_table, report_readable_secrets
from mmo_trio.cli.support.target import json_option
from mmo_trio.settings import Settings, effective_settings, load_settings
from mmo_trio.settings.service import provider_titles


@click.command("check-config")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="mmo.toml.")
@json_option
def check_config(config: Path | None, as_json: bool) -> None:
    """Check the settings, providers' options and secrets included, and show them.

    Shows the settings that file and environment result in; secrets are masked.
    """
    settings = load_settings(file=config, environment=os.environ)
    _check_provider_options(settings)
    report_readable_secrets(config, None, settings)
    rows = effective_settings(settings)
    if as_json:
        print_json({row.key: {"value": row.value, "default": row.is_default} for row in rows})
        return
    print_table(("setting", "value", ""), ((row.key, row.value, "" if row.is_default else "set") for row in rows))


def _check_provider_options(settings: Settings) -> None:
    """Raise SettingsError for a provider that could not be opened; nothing is sent."""
    # Imported here, as no other command needs them.
    from mmo_trio.brands.keyring import KeyRing
    from mmo_trio.brands.master_key import MASTER_KEY_BYTES
    from mmo_trio.system.ciphers import SystemCiphers
    from mmo_trio.workers.providers.open_accounts import AccountEnvironment, open_accounts

    async def reject(request: HttpRequest, *, deadline_s: float) -> HttpResponse:
        raise AssertionError(request.method)

    keyring = KeyRing(bytes(MASTER_KEY_BYTES))
    environment = AccountEnvironment(
        reject,
        lambda: Instant(0),
        lambda: MonotonicInstant(0),
        SystemCiphers(),
        keyring,
        "https://hooks.invalid",
        settings.provider_kinds,
    )
    open_accounts(settings.providers, provider_titles(settings, is_sandbox=False), environment)
