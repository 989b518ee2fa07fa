"""`mmo providers` lists, closes, opens and checks providers, and arranges their notifications."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import trio
from attrs import evolve

from mmo_sansio.providers.common.account_check import SIGN_IN
from mmo_sansio.providers.common.interface import AccountFinding, AccountState, ExchangeFailed
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider, RegistrationFailed
from mmo_sansio.values.clock import MINUTE, Instant, Span, later
from mmo_sansio.values.fields import SettingsError
from mmo_sansio.values.near_match import near_match
from mmo_trio.cli.commands.rehearse import rehearse
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import file_type, json_option
from mmo_trio.cli.support.output import WARNING, format_instant, marked, print_status
from mmo_trio.cli.support.tables import print_rows
from mmo_trio.cli.support.target import (
    CommandTarget,
    machine_user,
    report_in_force,
    running_address,
    target_options,
)
from mmo_trio.engine.engine import continue_clock
from mmo_trio.settings.providers import ProviderSection, provider_kind, read_shared_settings
from mmo_trio.storage.interface.admin_types import ClosedProvider, NoteTopic, ProviderNote
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.account_notes import (
    REQUESTED,
    finding_note,
    read_finding_note,
    seal_recording_key,
)
from mmo_trio.workers.providers.float_monitor import KnownFloat, float_refusals, known_floats

# Limit on the whole registration, which is some requests to the operator.
REGISTER_TIMEOUT_S = 60.0

# How long no finding comes before a check is over; a process begins it sooner than that.
CHECK_QUIET_S = 5.0

# An operator that has not answered by then is shown by the next `providers check`.
CHECK_TIMEOUT_S = 60.0


@click.group()
def providers() -> None:
    """Show, close and open providers of mobile money."""


providers.add_command(rehearse)


@providers.command("list")
@target_options
@json_option
def list_(target: CommandTarget, as_json: bool) -> None:
    """List the configured providers, which are closed for new payments, and by which no money
    moves."""
    # Imported here, as it is slow to import and few commands need it.
    from mmo_trio.service.configuration_check import simulated_accounts

    closures = {
        closure.name: closure
        for closure in target.with_store(lambda store: store.admin.closed_providers())
    }
    simulated = simulated_accounts(target.settings, target.provider_titles())
    rows = []
    for name, title in target.provider_titles().items():
        section = target.settings.providers.get(name)
        closure = closures.get(name)

        # What has no section is the sandbox's own operator.
        kind = "sandbox"
        if section is not None:
            kind = section.kind

        rows.append(
            {
                "name": name,
                "kind": kind,
                "title": title,
                "open": closure is None,
                "simulated": simulated.get(name),
                "closedAt": closure and format_instant(closure.closed_at),
                "closedBy": closure and closure.closed_by,
                "reason": closure and closure.reason,
            }
        )

    columns = {"name": "name", "kind": "kind", "title": "title", "taking payments": "open"}
    columns |= {name: name for name in ("simulated", "closedAt", "closedBy", "reason")}
    if not as_json:
        for row in rows:
            row["open"] = "yes" if row["open"] else marked("no", WARNING)
            row["simulated"] = "simulated" if row["simulated"] else None

    print_rows(columns, rows, as_json=as_json)


@providers.command("options")
@click.argument("kind")
@json_option
def options_(kind: str, as_json: bool) -> None:
    """List what a [provider.NAME] of this kind may have, besides what every kind has."""
    rows = [
        {
            "option": option.name,
            "kind": option.kind.name,
            "default": option.default_words.replace("`", ""),
            "meaning": option.meaning.replace("`", ""),
        }
        for option in provider_kind(kind).options
    ]
    print_rows({name: name for name in ("option", "default", "meaning")}, rows, as_json=as_json)


@providers.command()
@click.argument("name")
@click.option("--reason", required=True, help="Why; shown by `mmo providers list`.")
@click.option(
    "--user",
    help="The person who asked you to do it, if it was not you; recorded next to your name.",
)
@target_options
def disable(name: str, reason: str, user: str | None, target: CommandTarget) -> None:
    """Close a provider for new payments, on every process from the end of the command on.

    New payments are accepted and fail at once with provider_unavailable; no request that moves
    money is sent. Payments that were sent before are polled as always, and notifications are
    accepted."""
    if not reason.strip():
        raise UsageProblem("--reason is empty: say why.")

    _check_provider_exists(target, name)
    closed = ClosedProvider(
        name, target.clock().wall_time(), machine_user().acting_for(user), reason
    )

    async def close(store: Store) -> bool:
        subject = f"provider:{name}"
        # Of two who close it at once one has closed it, and both are in the audit log.
        await target.record(store, "provider_closed", subject, user, reason=reason)
        return await store.admin.close_provider(closed)

    if not target.with_store(close):
        raise NegativeAnswer(f"{name} is closed already. `mmo providers list` says since when.")

    print_status(
        f"{name} is closed for new payments. `mmo providers enable {name}` opens it again."
    )
    report_in_force(target)


@providers.command()
@click.argument("name")
@target_options
def enable(name: str, target: CommandTarget) -> None:
    """Open a provider again."""

    async def open_(store: Store) -> bool:
        await target.record(store, "provider_opened", f"provider:{name}")
        return await store.admin.open_provider(name)

    # The name may be wrong, which is told, or the provider open already.
    if not target.with_store(open_):
        _check_provider_exists(target, name)
        raise NegativeAnswer(f"{name} isn't closed.")

    print_status(f"{name} is open.")
    report_in_force(target)


@providers.command()
@click.argument("name")
@target_options
def register(name: str, target: CommandTarget) -> None:
    """Register the address for notifications of deposits with an operator.

    M-Pesa accepts it once for a shortcode in production; a later change goes through its portal.
    With pull_number the shortcode is registered for Pull Transactions, too. An app has version 1 or
    2 of the product C2B: both are tried, and `providers check` shows which was accepted."""
    section = target.settings.providers.get(name)
    if section is None or section.kind != "mpesa_daraja":
        raise UsageProblem(
            f"{name} is no provider of the kind mpesa_daraja; others need no such thing."
        )

    try:
        registered = trio.run(_register, target, name)
    except RegistrationFailed as refusal:
        raise NegativeAnswer(f"{name} refused: {refusal}") from None
    except ExchangeFailed as failure:
        raise NegativeAnswer(f"{name} gave no usable answer: {failure.reason}") from None
    except trio.TooSlowError:
        raise NegativeAnswer(f"{name} gave no answer within {REGISTER_TIMEOUT_S:g} s.") from None

    # What the operator has accepted is kept: `providers check` shows it, and nobody else tells it.
    async def keep(store: Store) -> None:
        await store.admin.note_provider(finding_note(registered, await _own_time(target, store)))

    target.with_store(keep)
    print_status(f"{name} notifies this gateway of deposits. {registered.words}")


@providers.command()
@click.argument("name")
@target_options
def address(name: str, target: CommandTarget) -> None:
    """Print the address for an account's notifications.

    Some operators, such as Airtel Money, want it set in their portal. Everybody who knows the
    address can send notifications: share it with the operator only."""
    section = _operator_account(target, name)
    generation = _webhook_generation(section)
    token, *_ = target.keyring().webhook_tokens(name, generation)

    # Some operators refuse certain names in addresses: the account has another one there.
    hook_name = section.options.get("hooks_name", name)
    click.echo(f"{_webhook_base_url(target)}/hooks/{hook_name}/{token}")

    # The address before it is accepted until the next one: a portal is changed in between.
    if generation > 1:
        print_status(
            f"This is generation {generation}. The address of generation {generation - 1} is"
            " accepted as well, until hooks_generation is raised again."
        )


@providers.command()
@click.argument("name", required=False)
@click.option(
    "--ask",
    is_flag=True,
    help="Let a serving process ask now, also with a password that was refused.",
)
@target_options
@json_option
def check(name: str | None, ask: bool, target: CommandTarget, as_json: bool) -> None:
    """Print what is known of the accounts with operators: what is wrong, and who mends it.

    Every account is checked at the start and once a day, by questions that move no money. The
    worst comes first, and a summary last. Exits with 1 when an account does not work: its operator
    refuses a part of it, or gives no access token."""
    names = [
        provider.name
        for provider in target.settings.providers.values()
        if provider.kind != "sandbox"
    ]
    if name is not None and name not in names:
        raise UsageProblem(f"{name} is no account with an operator. {near_match(name, names)}")

    accounts = names
    if name is not None:
        accounts = [name]

    async def look(store: Store) -> Sequence[ProviderNote]:
        if ask:
            await target.record(store, "account_check_requested", f"provider:{name or '*'}")
            await _ask_process(store, accounts)
        return await store.admin.provider_notes(NoteTopic.FINDING)

    dated_findings = [
        (note.at, read_finding_note(note))
        for note in target.with_store(look)
        if note.provider in accounts
    ]

    # The worst first, so that it is seen without scrolling.
    dated_findings.sort(key=lambda dated: _severity(dated[1]))
    rows = [
        {
            "name": finding.provider,
            "part": finding.part,
            "state": finding.state,
            "at": format_instant(at),
            "code": finding.code,
            "meaning": finding.words,
        }
        for at, finding in dated_findings
    ]
    print_rows(("name", "part", "state", "at", "code", "meaning"), rows, as_json=as_json)

    # After the table: exit code 1 tells a script that somebody has to look.
    findings = [finding for _, finding in dated_findings]
    summary = _summary(accounts, findings)
    if any(map(_does_not_work, findings)):
        raise NegativeAnswer(summary)

    if accounts:
        print_status(summary)


# What does not work, then what nobody knows, then what will not work soon.
WORST_FIRST = (
    AccountState.REFUSED,
    AccountState.UNKNOWN,
    AccountState.WARNED,
    AccountState.WORKS,
)


def _does_not_work(finding: AccountFinding) -> bool:
    """Tell whether payments by the account fail or wait for what this says of a part of it."""
    # Without an access token nothing can be asked or sent, whatever else is known.
    is_without_token = finding.part == SIGN_IN and finding.state is AccountState.UNKNOWN
    return is_without_token or finding.state is AccountState.REFUSED


def _severity(finding: AccountFinding) -> tuple[bool, int]:
    return not _does_not_work(finding), WORST_FIRST.index(finding.state)


def _summary(names: Sequence[str], findings: Sequence[AccountFinding]) -> str:
    """Return how many accounts work, and of each other one the first part that does not."""
    # Reversed, so that of several parts of an account the first, which is the worst, stays.
    wrong = {finding.provider: finding for finding in reversed(findings) if _does_not_work(finding)}
    checked = {finding.provider for finding in findings}
    unchecked = [name for name in names if name not in checked]
    working = len(names) - len(wrong) - len(unchecked)
    parts = [f"{name}: {wrong[name].part} {wrong[name].state}" for name in names if name in wrong]
    parts += [f"{name}: not checked yet" for name in unchecked]
    verb = "works" if working == 1 else "work"
    noun = "account" if len(names) == 1 else "accounts"
    counted = f"{working} of {len(names)} {noun} {verb}"
    if parts:
        return f"{counted}; {', '.join(parts)}."

    return f"{counted}."


@providers.command()
@target_options
@json_option
def balances(target: CommandTarget, as_json: bool) -> None:
    """Print what is in the accounts with operators, how long it lasts, and what was refused for
    lack of it.

    Exits with 1 when a float is low.
    """

    async def look(store: Store) -> tuple[Sequence[KnownFloat], Mapping[str, ProviderNote]]:
        now = await _own_time(target, store)
        names = target.provider_titles()
        floats = await known_floats(store.admin, names, now)
        return floats, await float_refusals(store.admin, now)

    floats, refusals = target.with_store(look)
    rows: list[dict[str, object]] = []
    for watched in floats:
        latest = watched.forecast.latest
        hours = watched.forecast.hours_left
        refusal = refusals.get(latest.provider)
        rows.append(
            {
                "name": latest.provider,
                "account": latest.account,
                "balance": latest.amount.text,
                "currency": latest.amount.currency,
                "at": format_instant(latest.at),
                "hoursLeft": hours and round(hours, 1),
                "low": watched.is_low,
                "refusedAt": refusal and format_instant(refusal.at),
            }
        )

    # For people with separators of thousands, and what is low in a colour.
    shown = rows
    if not as_json:
        shown = []
        for row, watched in zip(rows, floats, strict=True):
            low: object = "no"
            if watched.is_low:
                low = marked("yes", WARNING)
            shown.append({**row, "balance": watched.forecast.latest.amount, "low": low})

    columns = ("name", "account", "balance", "at", "hoursLeft", "low", "refusedAt")
    print_rows(columns, shown, as_json=as_json)
    if any(watched.is_low for watched in floats):
        raise NegativeAnswer("A float is low.")


async def _own_time(target: CommandTarget, store: Store) -> Instant:
    """Return the gateway's own time, with which the processes that serve compare what is noted of
    providers: the machine's wall clock may have been set since they began. Raises
    StoreUnavailable."""
    clock = target.clock()
    await continue_clock(clock, store)
    return clock.own_time()


@providers.command()
@click.argument("name")
@click.option("--to", type=file_type, required=True, help="The file; it must be new.")
@click.option(
    "--minutes",
    type=click.IntRange(1, 60),
    default=10,
    show_default=True,
    help="When the recording ends.",
)
@target_options
def record(name: str, to: Path, minutes: int, target: CommandTarget) -> None:
    """Record what goes to and comes from an operator into a file, without secrets, numbers and
    names.

    Ctrl-C ends the recording early; the file is written either way. Each process records a mebibyte
    at most."""
    _operator_account(target, name)

    async def run_recording(store: Store) -> Sequence[str]:
        # 1. Ask the processes that serve; all of them replace what is private by one random key.
        keyring = await target.open_keyring(store)
        sealed = seal_recording_key(keyring, name, secrets.token_bytes(16))
        until = later(await _own_time(target, store), Span(minutes * MINUTE))
        request = ProviderNote(name, NoteTopic.RECORDING, "", until, sealed)
        await target.record(store, "provider_recording", f"provider:{name}", minutes=minutes)
        await store.admin.remove_provider_notes(name, NoteTopic.RECORDED)
        await store.admin.note_provider(request)

        # 2. Wait. A request that nobody ends would go on recording: Ctrl-C ends it, too.
        try:
            await _watch_recording(store, name, minutes)
        finally:
            with trio.CancelScope(shield=True):
                await store.admin.remove_provider_notes(name, NoteTopic.RECORDING)

        # 3. Each process writes what it still has; then the store forgets it.
        await trio.sleep(CHECK_QUIET_S)
        lines = await _recorded_lines(store, name)
        await store.admin.remove_provider_notes(name, NoteTopic.RECORDED)
        return lines

    try:
        # A new file, for its owner alone: what an operator says is nobody else's.
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in target.with_store(run_recording))
    except FileExistsError:
        raise UsageProblem(f"{to} exists. Name a new file.") from None

    print_status(f"{to} is written. Read it before you give it to anybody.")


async def _watch_recording(store: Store, name: str, minutes: int) -> None:
    """Show how many exchanges are recorded, until the time is over or Ctrl-C comes."""
    with trio.open_signal_receiver(signal.SIGINT) as interrupts, trio.move_on_after(minutes * 60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_show_recording, store, name)
            await anext(interrupts)
            nursery.cancel_scope.cancel()


async def _show_recording(store: Store, name: str) -> None:
    while True:
        print_status(
            f"Recording {name}: {len(await _recorded_lines(store, name))} exchanges. "
            f"Ctrl-C ends it."
        )
        await trio.sleep(CHECK_QUIET_S)


async def _recorded_lines(store: Store, name: str) -> Sequence[str]:
    notes = [
        provider_note
        for provider_note in await store.admin.provider_notes(NoteTopic.RECORDED)
        if provider_note.provider == name
    ]
    return [
        line
        for note in sorted(notes, key=lambda note: note.at)
        for line in note.content.splitlines()
    ]


async def _ask_process(store: Store, names: Sequence[str]) -> None:
    """Have a serving process check these accounts, and wait for its findings. Raises NegativeAnswer
    when none does."""
    notes = {note.provider: note for note in await store.admin.provider_notes(NoteTopic.CHECK)}
    for name in names:
        note = notes.get(name, ProviderNote(name, NoteTopic.CHECK))
        await store.admin.note_provider(evolve(note, content=REQUESTED))

    known: Sequence[ProviderNote] = ()
    with trio.move_on_after(CHECK_TIMEOUT_S):
        while True:
            # A process that begins a check takes its request away.
            await trio.sleep(CHECK_QUIET_S)
            requests = await store.admin.provider_notes(NoteTopic.CHECK)
            # Requests for other accounts say nothing: one that has left `mmo.toml` is never taken.
            if any(
                request.provider in names and request.content == REQUESTED for request in requests
            ):
                raise NegativeAnswer(
                    "No process serves these accounts now. One asks as soon as it does."
                )

            # Findings come one by one: once none has come for a while, all have.
            found = await store.admin.provider_notes(NoteTopic.FINDING)
            if found == known:
                break

            known = found

    print_status("Some operators answer by a callback: what comes later is shown without --ask.")


async def _register(target: CommandTarget, name: str) -> AccountFinding:
    # Imported here, as they are slow to import and no other command needs them.
    from mmo_sansio.http.egress_rules import EgressRules
    from mmo_trio.http.client.client import HttpClient, tls_context
    from mmo_trio.system.ciphers import SystemCiphers
    from mmo_trio.workers.providers.account import drive_async
    from mmo_trio.workers.providers.open_accounts import AccountEnvironment, open_account

    # An operator's address is configuration, and exempt from the rules for merchants' (K7).
    client = HttpClient(
        rules=EgressRules(), context=tls_context(target.settings.egress.provider_ca_file)
    )
    clock = target.clock()
    environment = AccountEnvironment(
        send_request=client.call_provider,
        moment=clock.moment,
        monotonic=clock.monotonic,
        ciphers=SystemCiphers(),
        keyring=target.keyring(),
        webhooks_base_url=_webhook_base_url(target),
        provider_kinds=target.settings.provider_kinds,
    )

    # The adapter is driven as a worker would drive it; no payment is involved.
    title = target.provider_titles()[name]
    account = open_account(target.settings.providers[name], title, environment)
    assert isinstance(account.adapter, DarajaProvider)
    with trio.fail_after(REGISTER_TIMEOUT_S):
        return await drive_async(account.adapter.register_urls(), account.account.exchange)


def _webhook_generation(section: ProviderSection) -> int:
    """Return the generation of an account's addresses. Raises SettingsError."""
    try:
        return read_shared_settings(section.options).hooks_generation
    except SettingsError as error:
        raise error.within(f"provider.{section.name}") from None


def _webhook_base_url(target: CommandTarget) -> str:
    """Return the public URL of the gateway. Raises UsageProblem."""
    gateway = target.settings.gateway
    if (base := gateway.hooks_url or gateway.base_url) is not None:
        return base.rstrip("/")
    # A sandbox without a public address has only that of its own listener.
    if target.data_directory and (address := running_address(target.data_directory, "api")):
        return address
    raise UsageProblem("Set gateway.hooks_url: where operators reach this gateway.")


def _operator_account(target: CommandTarget, name: str) -> ProviderSection:
    """Return the settings of an account with an operator. Raises UsageProblem when this is none."""
    section = target.settings.providers.get(name)
    if section is None or section.kind == "sandbox":
        raise UsageProblem(
            f"{name} is no account with an operator. `mmo providers list` shows them."
        )
    return section


def _check_provider_exists(target: CommandTarget, name: str) -> None:
    titles = target.provider_titles()
    if name not in titles:
        raise UsageProblem(f"There is no provider {name}. {near_match(name, titles)}")
