"""`mmo providers address` and `register`: where an operator shall notify us, told to a person or to itself."""

from __future__ import annotations

import json
from pathlib import Path

import click
import trio

from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider, RegistrationFailed
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import print_status
from mmo_trio.cli.support.target import CommandTarget, find_target, target_options
from mmo_trio.settings.service import RUNNING_FILE, provider_titles

REGISTER_TIMEOUT_S = 60.0
"""How long it may take."""


@click.command()
@click.argument("name")
@target_options
def register(name: str, data: Path | None, config: Path | None) -> None:
    """Tell an operator where it shall notify us of deposits.

    M-Pesa takes it once for a shortcode in production; a later change goes through its portal.
    """
    place = find_target(data, config)
    section = place.settings.providers.get(name)
    if section is None or section.kind != "mpesa_daraja":
        raise UsageProblem(
            f"{name} is no provider of the kind mpesa_daraja; others need no such thing."
        )
    try:
        trio.run(_register, place, name)
    except RegistrationFailed as refusal:
        raise NegativeAnswer(f"{name} refused: {refusal}") from None
    except ExchangeFailed as failure:
        raise NegativeAnswer(f"{name} gave no usable answer: {failure.reason}") from None
    except trio.TooSlowError:
        raise NegativeAnswer(f"{name} gave no answer within {REGISTER_TIMEOUT_S:g} s.") from None
    print_status(f"{name} notifies this gateway of deposits.")


@click.command()
@click.argument("name")
@target_options
def address(name: str, data: Path | None, config: Path | None) -> None:
    """Print where an account's notifications arrive.

    Some operators, such as Airtel Money, want it set in their portal. Who knows it can send us notifications: keep it
    between you and the operator.
    """
    place = find_target(data, config)
    section = place.settings.providers.get(name)
    if section is None or section.kind == "sandbox":
        raise UsageProblem(
            f"{name} is no account with an operator. `mmo providers list` shows them."
        )
    hook_name = section.options.get("hooks_name", name)
    token = place.keyring().webhook_token(name)
    click.echo(f"{_webhook_base_url(place)}/hooks/{hook_name}/{token}")


async def _register(target: CommandTarget, name: str) -> None:
    # Only who talks to an operator needs these, and they are much to load.
    from mmo_sansio.http.egress_rules import EgressRules
    from mmo_trio.http.client.client import HttpClient, tls_context
    from mmo_trio.system.ciphers import SystemCiphers
    from mmo_trio.workers.providers.conversation import drive_async
    from mmo_trio.workers.providers.open_accounts import AccountEnvironment, open_account

    client = HttpClient(
        rules=EgressRules(), context=tls_context(target.settings.egress.extra_ca_file)
    )
    clock = target.clock()
    outside = AccountEnvironment(
        client.call_provider,
        clock.now,
        clock.monotonic,
        SystemCiphers(),
        target.keyring(),
        _webhook_base_url(target),
        target.settings.provider_kinds,
    )
    is_sandbox = target.data_directory is not None
    title = provider_titles(target.settings, is_sandbox=is_sandbox)[name]
    opened = open_account(target.settings.providers[name], title, outside)
    assert isinstance(opened.adapter, DarajaProvider)
    with trio.fail_after(REGISTER_TIMEOUT_S):
        await drive_async(opened.adapter.register_urls(), opened.account.exchange)


def _webhook_base_url(target: CommandTarget) -> str:
    """Where the gateway is reached from outside; that of a sandbox without settings, where it serves."""
    gateway = target.settings.gateway
    if (base := gateway.hooks_url or gateway.base_url) is not None:
        return base.rstrip("/")
    try:
        assert target.data_directory is not None
        running = json.loads((target.data_directory / RUNNING_FILE).read_bytes())
        return str(running["api"])
    except (AssertionError, OSError, ValueError):
        raise UsageProblem("Set gateway.hooks_url: where operators reach this gateway.") from None
