"""`mmo providers address` and `register`: where an operator shall notify us, told to a person or to itself."""

from __future__ import annotations

import json
from pathlib import Path

import click
import trio

from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider, RegistrationFailed
from mmo_trio.cli.support.errors import Negative, Unusable
from mmo_trio.cli.support.output import say
from mmo_trio.cli.support.target import Place, find_place, place_options
from mmo_trio.settings.service import RUNNING_FILE, provider_titles
from mmo_trio.workers.providers.account import Account

REGISTER_S = 60.0
"""How long it may take."""


@click.command()
@click.argument("name")
@place_options
def register(name: str, data: Path | None, config: Path | None) -> None:
    """Tell an operator where it shall notify us of deposits.

    M-Pesa takes it once for a shortcode in production; a later change goes through its portal.
    """
    place = find_place(data, config)
    section = place.settings.providers.get(name)
    if section is None or section.kind != "mpesa_daraja":
        raise Unusable(
            f"{name} is no provider of the kind mpesa_daraja; others need no such thing."
        )
    try:
        trio.run(_register, place, name)
    except RegistrationFailed as refusal:
        raise Negative(f"{name} refused: {refusal}") from None
    except ExchangeFailed as failure:
        raise Negative(f"{name} gave no usable answer: {failure.reason}") from None
    except trio.TooSlowError:
        raise Negative(f"{name} gave no answer within {REGISTER_S:g} s.") from None
    say(f"{name} notifies this gateway of deposits.")


@click.command()
@click.argument("name")
@place_options
def address(name: str, data: Path | None, config: Path | None) -> None:
    """Print where an account's notifications arrive.

    Some operators, such as Airtel Money, want it set in their portal. Who knows it can send us notifications: keep it
    between you and the operator.
    """
    place = find_place(data, config)
    section = place.settings.providers.get(name)
    if section is None or section.kind == "sandbox":
        raise Unusable(f"{name} is no account with an operator. `mmo providers list` shows them.")
    hook_name = section.options.get("hooks_name", name)
    token = place.keyring().hook_token(name)
    click.echo(f"{_hooks_base(place)}/hooks/{hook_name}/{token}")


async def _register(place: Place, name: str) -> None:
    # Only who talks to an operator needs these, and they are much to load.
    from mmo_sansio.http.egress_rules import EgressRules
    from mmo_trio.http.client.client import Client, tls_context
    from mmo_trio.system.ciphers import SystemCiphers
    from mmo_trio.workers.providers.open_accounts import Outside, open_account

    client = Client(rules=EgressRules(), context=tls_context(place.settings.egress.extra_ca_file))
    clock = place.clock()
    outside = Outside(
        client.ask, clock.now, clock.monotonic, SystemCiphers(), place.keyring(), _hooks_base(place)
    )
    is_sandbox = place.data_directory is not None
    title = provider_titles(place.settings, is_sandbox=is_sandbox)[name]
    opened = open_account(place.settings.providers[name], title, outside)
    assert isinstance(opened.adapter, DarajaProvider)
    with trio.fail_after(REGISTER_S):
        await _converse(opened.adapter, opened.account)


async def _converse(provider: DarajaProvider, account: Account) -> None:
    conversation = provider.register_urls()
    request = next(conversation)
    try:
        while True:
            request = conversation.send(await account.exchange(request))
    except StopIteration:
        return


def _hooks_base(place: Place) -> str:
    """Where the gateway is reached from outside; that of a sandbox without settings, where it serves."""
    gateway = place.settings.gateway
    if (base := gateway.hooks_url or gateway.base_url) is not None:
        return base.rstrip("/")
    try:
        assert place.data_directory is not None
        running = json.loads((place.data_directory / RUNNING_FILE).read_bytes())
        return str(running["api"])
    except (AssertionError, OSError, ValueError):
        raise Unusable("Set gateway.hooks_url: where operators reach this gateway.") from None
