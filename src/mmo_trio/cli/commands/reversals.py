"""`mmo tx reverse` asks money of a payment back, and `mmo tx reversals` shows, approves and ends
what was asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial, wraps
from typing import Any

import click

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.money import AmountError, written_money
from mmo_sansio.values.reversals import Reversal, ReversalState
from mmo_trio.admin.resolution import ResolutionUser
from mmo_trio.admin.reversals import ReversalRefused, Reversals
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import Command, json_option
from mmo_trio.cli.support.output import (
    format_instant,
    format_second,
    print_json,
    print_status,
    state_cell,
)
from mmo_trio.cli.support.references import brand_option, find_transaction
from mmo_trio.cli.support.tables import ListEntry, print_list, print_table
from mmo_trio.cli.support.target import CommandTarget, machine_user, target_options
from mmo_trio.engine.engine import continue_clock, submit_once
from mmo_trio.storage.interface.admin_types import Role
from mmo_trio.storage.sql.store import Store

# What happens next to a reversal in this state; nothing more is to be done about others.
_NEXT_STEPS = {
    ReversalState.REQUESTED: "Another user approves it, in the console.",
    ReversalState.APPROVED: "The gateway that serves this store sends it.",
}

# Why a person has to look at a reversal, and what to do about it.
_UNASKED = "The gateway can't ask {provider} about {id}."
_UNTOLD = "{provider} has not told for a day what became of {id}."
_UNSENT = (
    "{id} could not be sent to {provider} for a day: see `mmo providers check {provider}`. If it "
    "is not to be sent any more: `mmo tx reversals refuse {id} --remark WHY`."
)
_FIND_OUT = (
    "Look for the payment's receipt in the provider's portal or statement."
    " If the money went back: `mmo tx reversals resolve {id} --succeeded`; if the provider says "
    "it did not: --failed."
)

Change = Callable[[Reversals, ResolutionUser], Awaitable[Reversal]]


def changes_reversal(command: Callable[..., Change]) -> Command:
    """Add the options of a command that changes a reversal; the command returns the change. A name
    that was typed is no other pair of eyes than the user of the machine."""

    @click.option(
        "--user", help="The person who decides, if it is not you; recorded next to your name."
    )
    @target_options
    @json_option
    @wraps(command)
    def run(*, user: str | None, target: CommandTarget, as_json: bool, **arguments: Any) -> None:
        change = command(**arguments)
        console = target.settings.console
        by = machine_user().as_staff(user)

        async def make_change(store: Store) -> Reversal:
            staff = Reversals(
                store,
                partial(submit_once, store, clock=target.clock()),
                await target.open_audit_log(store),
                console.four_eyes,
                console.reversal_limits,
                commands_approve=console.commands_approve,
            )
            return await change(staff, by)

        try:
            changed = target.with_store(make_change)
        except ReversalRefused as refused:
            # The refusal is in the audit log already.
            raise NegativeAnswer(str(refused)) from None

        if as_json:
            print_json(_to_json(changed))
        else:
            print_table(("member", "value"), _to_row(changed).items())

        print_status(_NEXT_STEPS.get(changed.state, "Done.").format(id=changed.id))

    return run


@click.command()
@click.argument("reference")
@brand_option
@click.option("--reason", required=True, help="Why the money goes back; kept in the journal.")
@click.option(
    "--amount",
    help="A part, such as 50.00, where the operator takes that; by default all that is left.",
)
@click.option(
    "--number",
    type=click.IntRange(min=1),
    help="The number of this reversal of the payment, for a part beside others: a command that is "
    "repeated asks once.",
)
@changes_reversal
def reverse(
    reference: str, brand: str | None, reason: str, amount: str | None, number: int | None
) -> Change:
    """Ask the money of a payment back; the payment itself stays as it is.

    REFERENCE is its gatewayReference or merchantReference. With four eyes another user has to
    approve it."""
    if not reason.strip():
        raise UsageProblem("--reason is empty: say why.")

    async def ask(staff: Reversals, by: ResolutionUser) -> Reversal:
        payment = await find_transaction(staff.store, reference, brand)
        currency = payment.order.requested.currency
        try:
            part = None
            if amount is not None:
                part = written_money(amount, currency)
        except AmountError as error:
            raise UsageProblem(f"--amount {error}.") from None

        # A command that is repeated must not ask twice: it names the number that it wants.
        reversals_so_far = await staff.store.reversals(payment.reference)
        if part is not None and number is None:
            _require_first(reversals_so_far)

        own = len(reversals_so_far) + 1
        if number is not None:
            own = number

        return await staff.request(by, Role.ADMIN, payment, part, reason, number=own)

    return ask


def _require_first(reversals_so_far: Sequence[Reversal]) -> None:
    """Refuse a part beside others without a number: the command may be the repetition of one whose
    outcome nobody knows, and what is left would pay for it again. Raises NegativeAnswer."""
    others = [
        f"{reversal.id} of {reversal.amount}, {reversal.state.words}"
        for reversal in reversals_so_far
        if reversal.is_counted
    ]
    if others:
        raise NegativeAnswer(
            f"Money of this payment was asked back already: {'; '.join(others)}. For a further "
            f"part, add --number {len(reversals_so_far) + 1}."
        )


@click.group()
def reversals() -> None:
    """Show, approve, refuse and resolve reversals."""


@reversals.command("list")
@click.option("--all", "with_ended", is_flag=True, help="Those that have ended, too.")
@click.option(
    "--limit",
    type=click.IntRange(1, 5_000),
    default=50,
    show_default=True,
    help="The most payments.",
)
@target_options
@json_option
def list_(with_ended: bool, limit: int, target: CommandTarget, as_json: bool) -> None:
    """List reversals without an outcome, the newest first."""

    async def find(store: Store) -> Sequence[Reversal]:
        await continue_clock(clock, store)
        return await store.list_reversals(only_unfinished=not with_ended, limit=limit)

    clock = target.clock()
    all_reversals = target.with_store(find)
    # A payment's reversals are read together, those that have ended among them.
    shown = [reversal for reversal in all_reversals if with_ended or not reversal.state.has_ended]
    if as_json:
        print_json([_to_json(reversal) for reversal in shown])
    else:
        _print_reversals(shown)

    _print_advice(shown, now=clock.own_time())


def _print_reversals(shown: Sequence[Reversal]) -> None:
    columns = ("id", "brand", "provider", "amount", "state", "askedAt", "askedBy", "approvedBy")
    rows = []
    entries = []
    for reversal in shown:
        people = (reversal.asked_by, reversal.approved_by)
        about = (reversal.id, reversal.brand, reversal.provider)
        state = state_cell(reversal.state)
        rows.append((*about, reversal.amount, state, format_second(reversal.asked_at), *people))
        entries.append(ListEntry(reversal.asked_at, (state, reversal.amount, *people), about))
    print_list(columns, rows, entries)


@reversals.command()
@click.argument("reference")
@brand_option
@target_options
@json_option
def show(reference: str, brand: str | None, target: CommandTarget, as_json: bool) -> None:
    """Show the reversals of a payment with all that is known of them."""

    async def find(store: Store) -> Sequence[Reversal]:
        await continue_clock(clock, store)
        return await store.reversals((await find_transaction(store, reference, brand)).reference)

    clock = target.clock()
    shown = target.with_store(find)
    if as_json:
        print_json([_to_json(reversal) for reversal in shown])
    else:
        for reversal in shown:
            print_table(("member", "value"), _to_row(reversal).items())

    _print_advice(shown, now=clock.own_time())


@reversals.command()
@click.argument("id")
@changes_reversal
def approve(id: str) -> Change:
    """Approve a reversal that another user has asked for: with four eyes only where
    `console.commands_approve` is on."""
    return lambda staff, by: staff.decide(by, id, is_approved=True)


@reversals.command()
@click.argument("id")
@click.option("--remark", required=True, help="Why; kept in the journal.")
@changes_reversal
def refuse(id: str, remark: str) -> Change:
    """Refuse a reversal, or take back one's own, that was not sent yet."""
    return lambda staff, by: staff.decide(by, id, is_approved=False, remark=remark)


@reversals.command()
@click.argument("id")
@click.option(
    "--succeeded/--failed", default=None, required=True, help="Whether the money was moved back."
)
@click.option(
    "--evidence", required=True, help="What shows it, e.g. a statement's line; kept in the journal."
)
@click.option("--provider-reference", help="The provider's own id of the reversal.")
@changes_reversal
def resolve(id: str, succeeded: bool, evidence: str, provider_reference: str | None) -> Change:
    """End a reversal by hand whose operator does not tell its outcome, or put a wrong end right:
    one that has failed, and has moved its money after all, or one that was ended by hand."""
    # A blank that was copied with it would make another receipt of it.
    receipt = (provider_reference or "").strip() or None
    return lambda staff, by: staff.resolve(
        by, id, succeeded=succeeded, evidence=evidence, provider_reference=receipt
    )


def _print_advice(shown: Sequence[Reversal], *, now: Instant) -> None:
    for reversal in shown:
        if not reversal.needs_person(now):
            continue

        # Not sent, not to be asked about, or asked about without an answer.
        if reversal.state is ReversalState.APPROVED:
            text = _UNSENT
        elif reversal.wake_at is None:
            text = f"{_UNASKED} {_FIND_OUT}"
        else:
            text = f"{_UNTOLD} {_FIND_OUT}"

        print_status(text.format(id=reversal.id, provider=reversal.provider))


def _to_row(reversal: Reversal) -> dict[str, object]:
    """Return a reversal for a table, whose amounts are for people."""
    return {**_to_json(reversal), "amount": reversal.amount, "state": state_cell(reversal.state)}


def _to_json(reversal: Reversal) -> dict[str, object]:
    return {
        "id": reversal.id,
        "gatewayReference": reversal.payment,
        "brand": reversal.brand,
        "provider": reversal.provider,
        "amount": str(reversal.amount),
        "state": reversal.state.value,
        "reason": reversal.reason,
        "askedBy": reversal.asked_by,
        "askedAt": format_instant(reversal.asked_at),
        "approvedBy": reversal.approved_by,
        "approvedAt": format_instant(reversal.approved_at),
        "submissions": reversal.submissions,
        "providerReference": reversal.provider_reference,
        "nativeCode": reversal.native_code,
        "remark": reversal.remark or None,
        "endedAt": format_instant(reversal.ended_at),
        "endedBy": reversal.ended_by or reversal.source,
    }
