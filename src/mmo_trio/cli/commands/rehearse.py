"""`mmo providers rehearse` plays what an operator's page promises, in its sandbox."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click
import trio

from mmo_sansio.providers.common.rehearsal import (
    LOOPBACK_HOSTS,
    GiveBack,
    MakePayment,
    Rehearsal,
    RehearsalImpossible,
    RehearsalStep,
)
from mmo_sansio.values.clock import to_datetime
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.local_server import open_local_listeners, port_option
from mmo_trio.cli.support.output import print_status
from mmo_trio.cli.support.tables import print_rows
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.system.logs import configure_logs

_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}", re.ASCII)


@click.command()
@click.argument("name")
@click.option(
    "--to",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder of the rehearsal: a new one, or that of one to go on with.",
)
@click.option(
    "--public-url",
    help="Scheme and host by which the operator reaches --port; without it no callback comes.",
)
@port_option(8095)
@click.option(
    "--number",
    help="The number of a person who takes part, such as +256752000000; by default test numbers.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.IntRange(1, 86_400),
    default=600,
    show_default=True,
    help="Seconds for which one run waits for a payment.",
)
@click.option("--yes", is_flag=True, help="Do not ask before a step that moves money.")
@click.option(
    "--with-real-money",
    is_flag=True,
    help="Rehearse an account whose host is not known as a sandbox: real money moves.",
)
@target_options
def rehearse(
    name: str,
    directory: Path,
    public_url: str | None,
    port: int,
    number: str | None,
    wait_s: int,
    yes: bool,
    with_real_money: bool,
    target: CommandTarget,
) -> None:
    """Play what an operator's page promises, with an account in the operator's sandbox.

    Each step says what is done, what is promised and what was seen. What was said is recorded
    without secrets and numbers. A run that was stopped or killed goes on with the same command. At
    the end the folder has captures and statements for the project; its `private` is for nobody.
    Exits with 1 when something differs, or has not ended."""
    # Imported here, as they are slow to import and no other command needs them.
    from mmo_trio.rehearsal.folder import OtherRehearsal, RehearsalFolder
    from mmo_trio.rehearsal.session import Session

    configure_logs(log_format=target.settings.log.format, level="warning")
    rehearsal = _rehearsal_of(target, name)
    if number is not None and _NUMBER.fullmatch(number) is None:
        raise UsageProblem("--number: write it with + and the country, such as +256752000000.")
    if with_real_money and number is None:
        raise UsageProblem("--with-real-money needs --number: that of somebody who takes part.")

    origin = None
    if public_url is not None:
        origin = _origin(public_url)

    clock = target.clock()
    folder = RehearsalFolder(directory)
    # A folder goes on with the account that it began with: captures of two would be mixed up.
    try:
        about = {"account": name, "kind": target.settings.providers[name].kind}
        day = folder.open(about, to_datetime(clock.wall_time()).date().isoformat())
    except OtherRehearsal as fault:
        raise UsageProblem(f"--to: {fault} Name another folder.") from None

    consents: Callable[[RehearsalStep], bool] = _consents
    if yes:
        consents = _consents_always

    session = Session(
        folder,
        target.settings,
        name,
        day,
        rehearsal,
        clock,
        tell=print_status,
        consents=consents,
        number=number,
        wait_s=wait_s,
        public_url=origin,
        with_real_money=with_real_money,
    )

    async def run() -> bool:
        # Without an address nothing can come, so nothing listens.
        listeners: Sequence[trio.SocketListener] = ()
        if public_url:
            listeners, _ = await open_local_listeners(port)

        rows = await session.run(listeners)
        print_rows(("step", "promised", "seen", "verdict"), rows, as_json=False)
        print_status(f"{directory} has what the project takes; keep {folder.private} to yourself.")
        return all(row["verdict"] in ("held", "could not be tried") for row in rows)

    try:
        everything_held = trio.run(run)
    except RehearsalImpossible as fault:
        raise UsageProblem(str(fault)) from None

    if not everything_held:
        raise NegativeAnswer("Something differs, or has not ended: the table says what.")


def _rehearsal_of(target: CommandTarget, name: str) -> Rehearsal:
    """Return how this account is rehearsed. Raises UsageProblem."""
    section = target.settings.providers.get(name)
    rehearsal = section and target.settings.provider_kinds[section.kind].rehearsal
    if not isinstance(rehearsal, Rehearsal):
        raise UsageProblem(f"{name} is no account that can be rehearsed. See `mmo providers list`.")
    return rehearsal


def _origin(url: str) -> str:
    """Return an address without a slash at its end. Raises UsageProblem for one that nobody may
    call back."""
    parts = urlsplit(url)
    # A simulator on this machine has no certificate.
    is_secure = parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS
    )
    if not is_secure or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise UsageProblem("--public-url: write https:// and the host, and nothing behind it.")
    return url.rstrip("/")


def _consents_always(_: RehearsalStep) -> bool:
    return True


def _consents(step: RehearsalStep) -> bool:
    # Only steps that move money are asked about.
    match step:
        case MakePayment():
            what = f"{step.operation} of {step.amount}, {step.msisdn}"
        case GiveBack():
            what = f"the money of {step.of} back"
        case _:
            return True
    return click.confirm(f"   This asks for {what}. Go on?", err=True)
