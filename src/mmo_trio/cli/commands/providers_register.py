"""`mmo providers address` and `register` print or register where an operator notifies us."""

from __future__ import annotations

import json

import click
import trio

from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider, RegistrationFailed
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import print_status
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.settings.service import RUNNING_FILE

REGISTER_TIMEOUT_S = 60.0
"""Limit on the whole registration."""


@click.command()
@click.argument("name")
@target_options
def register(name: str, target: CommandTarget) -> None:
    """Register the address for notifications of deposits with an operator.

    M-Pesa accepts it once for a shortcode in production; a later change goes through its portal.
    """
    section = target.settings.providers.get(name)
    if section is None or section.kind != "mpesa_daraja":
        raise UsageProblem(
            f"{name} is no provider of the kind mpesa_daraja; others need no such thing."
        )
    try:
        trio.run(_register, target, name)
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
def address(name: str, target: CommandTarget) -> None:
    """Print the address for an account's notifications.

    Some operators, such as Airtel Money, want it set in their portal. Everybody who knows the
    address can send notifications: share it with the operator only.
    """
    section = target.settings.providers.get(name)
    if section is None or section.kind == "sandbox":
        raise UsageProblem(
            f"{name} is no account with an operator. `mmo providers list` shows them."
        )
    hook_name = section.options.get("hooks_name", name)
    token = target.keyring().webhook_token(name)
    click.echo(f"{_webhook_base_url(target)}/hooks/{hook_name}/{token}")


async def _register(target: CommandTarget, name: str) -> None:
    # Imported here, as they are slow to import and no other command needs them.
    from mmo_sansio.http.egress_rules import EgressRules
    from mmo_trio.http.client.client import HttpClient, tls_context
    from mmo_trio.system.ciphers import SystemCiphers
    from mmo_trio.workers.providers.conversation import drive_async
    from mmo_trio.workers.providers.open_accounts import AccountEnvironment, open_account

    client = HttpClient(
        rules=EgressRules(), context=tls_context(target.settings.egress.extra_ca_file)
    )
    clock = target.clock()
    environment = AccountEnvironment(
        client.call_provider,
        clock.now,
        clock.monotonic,
        SystemCiphers(),
        target.keyring(),
        _webhook_base_url(target),
        target.settings.provider_kinds,
    )
    title = target.provider_titles()[name]
    account = open_account(target.settings.providers[name], title, environment)
    assert isinstance(account.adapter, DarajaProvider)
    with trio.fail_after(REGISTER_TIMEOUT_S):
        await drive_async(account.adapter.register_urls(), account.account.exchange)


def _webhook_base_url(target: CommandTarget) -> str:
    """Return the public URL of the gateway; for a sandbox without one, its API listener's."""
    gateway = target.settings.gateway
    if (base := gateway.hooks_url or gateway.base_url) is not None:
        return base.rstrip("/")
    try:
        assert target.data_directory is not None
        running = json.loads((target.data_directory / RUNNING_FILE).read_bytes())
        return str(running["api"])
    except (AssertionError, OSError, ValueError):
        raise UsageProblem("Set gateway.hooks_url: where operators reach this gateway.") from None
