"""`mmo tx` and `mmo explain` look after payments: they show and explain what the store has about
them, and resolve one by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import click
from rich.text import Text

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.messages.inputs import ResolveManually
from mmo_sansio.messages.queries import Position
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Status, Transaction
from mmo_sansio.values.number_format import format_amounts_in
from mmo_trio.admin.explanation import (
    PaymentHistory,
    conclusions,
    load_payment_history,
    suspense_entry_to_json,
)
from mmo_trio.admin.reference_search import search_by_beginning
from mmo_trio.admin.resolution import (
    SUCCESS,
    ResolutionRefused,
    Resolutions,
    resolve_payment,
)
from mmo_trio.admin.timeline import TimelineEntry, timeline
from mmo_trio.admin.told_wrong import ToldWrong, list_told_wrong, load_told_wrong, merchant_message
from mmo_trio.cli.commands.reversals import reversals, reverse
from mmo_trio.cli.support.brand_records import brand_keys_to_json
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import (
    admin_transaction_json,
    format_instant,
    format_millisecond,
    format_second,
    marked,
    print_json_text,
    print_line,
    print_status,
    status_cell,
    terminal,
)
from mmo_trio.cli.support.references import brand_option, find_transaction
from mmo_trio.cli.support.tables import ListEntry, print_list, print_table
from mmo_trio.cli.support.target import CommandTarget, machine_user, target_options
from mmo_trio.console.permissions import PersonalDataMask
from mmo_trio.console.views import list_payment_fields
from mmo_trio.engine.engine import continue_clock, submit_once
from mmo_trio.storage.sql.payment_search import position_of
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock

# Transactions whose outcome is unknown that are read from the store at once; there are few unless
# an operator is down.
STUCK_PAGE_SIZE = 500

# Transactions that a search by the beginning of a reference reads.
BEGINNING_SCANNED_MAX = 100_000

# The error code of a failure by hand, unless the option names another.
DEFAULT_FAILURE = ErrorCode.PROVIDER_TIMEOUT

# The narrowest terminal on which a payment's timeline is a table; on others each step is a
# paragraph.
TIMELINE_TABLE_WIDTH_MIN = 100


@click.group()
def tx() -> None:
    """Show transactions, resolve one by hand, and ask money back."""


tx.add_command(reverse)
tx.add_command(reversals)


@tx.command("show")
@click.argument("reference")
@brand_option
@target_options
@json_option
def show_transaction(
    reference: str, brand: str | None, target: CommandTarget, as_json: bool
) -> None:
    """Show one transaction, by its gatewayReference or merchantReference."""
    transaction = target.with_store(lambda store: find_transaction(store, reference, brand))
    _print_transaction(transaction, as_json=as_json)


def _print_transaction(transaction: Transaction, *, as_json: bool) -> None:
    if as_json:
        print_json_text(admin_transaction_json(transaction))
    else:
        print_table(
            ("member", "value"),
            list_payment_fields(transaction, PersonalDataMask(can_see_personal_data=True)),
        )


@tx.command("list")
@brand_option
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status]),
    help="Only those with this status.",
)
@click.option(
    "--stuck",
    is_flag=True,
    help="Only those whose outcome has been unknown for an hour, the oldest first.",
)
@click.option(
    "--told-wrong",
    is_flag=True,
    help="Only those whose provider now says otherwise than their merchants know.",
)
@click.option(
    "--reference",
    "beginning",
    help=f"Only those with a reference that begins or ends so, of the newest "
    f"{BEGINNING_SCANNED_MAX:,}.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 5_000),
    default=50,
    show_default=True,
    help="The most that are listed.",
)
@target_options
@json_option
def list_transactions(
    brand: str | None,
    status: str | None,
    stuck: bool,
    told_wrong: bool,
    beginning: str | None,
    limit: int,
    target: CommandTarget,
    as_json: bool,
) -> None:
    """List transactions, the newest first."""
    # Each is a search of its own, and none looks at what another one finds.
    if stuck + told_wrong + (beginning is not None) > 1:
        raise UsageProblem("Say only one of --stuck, --told-wrong and --reference.")
    if told_wrong and status is not None:
        raise UsageProblem("--told-wrong lists both outcomes: leave --status out.")

    if told_wrong:
        found_wrong = target.with_store(
            lambda store: list_told_wrong(store, brand=brand, limit=limit)
        )
        _print_told_wrong(found_wrong, as_json=as_json)
        return

    only_status = None
    if status is not None:
        only_status = Status(status)

    async def find(store: Store) -> Sequence[Transaction]:
        if stuck:
            return await _find_stuck(store, target.clock(), brand, limit)
        if beginning is not None:
            return await _find_beginning(
                store, beginning, brand=brand, status=only_status, limit=limit
            )
        return await store.admin.find_transactions(brand=brand, status=only_status, limit=limit)

    transactions = target.with_store(find)
    if as_json:
        print_json_text(f"[{','.join(map(admin_transaction_json, transactions))}]")
        return

    _print_transactions(transactions)


def _print_transactions(transactions: Sequence[Transaction]) -> None:
    columns = (
        "created",
        "gatewayReference",
        "brand",
        "merchantReference",
        "amount",
        "status",
        "why",
        "simulated",
    )
    # The same twice: as a row of a table, and as an entry for a narrow terminal.
    rows = []
    entries = []
    for payment in transactions:
        order = payment.order
        why = payment.progress.error_code
        simulated = "simulated" if order.is_simulated else None
        rows.append(
            (
                format_second(order.created_at),
                payment.reference,
                order.brand,
                order.merchant_reference,
                order.requested,
                payment.status,
                why,
                simulated,
            )
        )
        first = (status_cell(payment.status, why), order.requested, order.merchant_reference)
        second = (payment.reference, order.brand, simulated)
        entries.append(ListEntry(order.created_at, first, second))

    print_list(columns, rows, entries)


async def _find_stuck(
    store: Store, clock: GatewayClock, brand: str | None, limit: int
) -> Sequence[Transaction]:
    """Return the stuck transactions, the oldest first."""
    # What is stuck follows from the gateway's own time, not from this machine's.
    await continue_clock(clock, store)
    transactions: list[Transaction] = []
    after: Position | None = None
    while len(transactions) < limit:
        page = await store.admin.stuck_transactions(
            clock.own_time(), after=after, limit=STUCK_PAGE_SIZE
        )
        transactions += [payment for payment in page if brand in (None, payment.order.brand)]
        if len(page) < STUCK_PAGE_SIZE:
            break

        after = position_of(page[-1])

    return transactions[:limit]


async def _find_beginning(
    store: Store, beginning: str, *, brand: str | None, status: Status | None, limit: int
) -> Sequence[Transaction]:
    """Return the transactions with a reference that begins or ends so, the newest first."""
    page = await search_by_beginning(
        store.admin,
        beginning,
        brand=brand,
        status=status,
        limit=limit,
        scanned_max=BEGINNING_SCANNED_MAX,
    )
    if page.next_position is not None and len(page.transactions) < limit:
        print_status(f"The newest {BEGINNING_SCANNED_MAX:,} were searched; there are older ones.")

    return page.transactions


def _print_told_wrong(found: Sequence[ToldWrong], *, as_json: bool) -> None:
    if as_json:
        objects = []
        for wrong in found:
            # One more member of the transaction's object, before its closing brace.
            transaction = admin_transaction_json(wrong.transaction)[:-1]
            told_wrong = json.dumps(told_wrong_to_json(wrong))
            objects.append(f'{transaction},"toldWrong":{told_wrong}}}')

        print_json_text(f"[{','.join(objects)}]")
        return

    columns = (
        "gatewayReference",
        "brand",
        "merchantReference",
        "amount",
        "told",
        "reported",
        "receipt",
    )
    rows = []
    entries = []
    for wrong in found:
        payment = wrong.transaction
        order = payment.order
        words = (wrong.reported, wrong.amount, format_second(wrong.entry.first_at))
        reported = format_amounts_in(" ".join(filter(None, words)))
        told_text = Text.assemble(
            status_cell(payment.status, None), f" {format_second(wrong.told_at)}"
        )
        about = (payment.reference, order.brand)
        reference = order.merchant_reference
        rows.append((*about, reference, order.requested, told_text, reported, wrong.receipt))
        first = (
            Text.assemble("told ", status_cell(payment.status, None)),
            order.requested,
            reference,
        )
        second = (f"reported {reported}", wrong.receipt, *about)
        entries.append(ListEntry(wrong.told_at, first, second))

    print_list(columns, rows, entries)
    if found:
        print_status("`mmo explain REFERENCE` has a text to send to the merchant.")

    if any(resolution.reported is Status.SUCCESS for resolution in found):
        print_status(
            "`mmo tx reverse REFERENCE` asks money back that was paid after its merchant was told "
            "of a failure, where the operator takes that; it says so where not."
        )


def told_wrong_to_json(wrong: ToldWrong) -> dict[str, object]:
    """Return as a JSON object what the merchant was told, what is reported now, and a text for the
    merchant."""
    return {
        "told": wrong.transaction.status,
        "toldAt": format_instant(wrong.told_at),
        "isCalledBack": wrong.called_back_at is not None,
        "reported": wrong.reported,
        "reportedAt": format_instant(wrong.entry.first_at),
        "isConfirmed": wrong.is_confirmed,
        "amount": wrong.amount,
        "receipt": wrong.receipt,
        "isReceiptOfAnother": wrong.receipt_owner is not None,
        "suspenseEntry": wrong.entry.id,
        "message": merchant_message(wrong),
    }


@tx.command()
@click.argument("reference")
@brand_option
@click.option("--succeeded", is_flag=True, help="The money has moved.")
@click.option(
    "--failed",
    "code",
    is_flag=False,
    flag_value=DEFAULT_FAILURE.value,
    type=click.Choice([code.value for code in ErrorCode]),
    help=f"The money has not moved and will not; why, by default {DEFAULT_FAILURE}.",
)
@click.option("--reason", required=True, help="Why a person decides; kept in the journal.")
@click.option(
    "--evidence", required=True, help="What shows it, e.g. a statement's line; kept in the journal."
)
@click.option("--provider-reference", help="The provider's own id of the payment.")
@click.option(
    "--user", help="The person who decides, if it is not you; recorded next to your name."
)
@target_options
@json_option
def resolve(
    reference: str,
    brand: str | None,
    succeeded: bool,
    code: str | None,
    reason: str,
    evidence: str,
    provider_reference: str | None,
    user: str | None,
    target: CommandTarget,
    as_json: bool,
) -> None:
    """Complete a pending transaction by hand; the merchant is called back as always.

    Refused when its provider has reported otherwise, and when it has ended. With four eyes it only
    proposes that, unless `console.commands_approve` is on: another user approves it in the console.
    """
    if succeeded == (code is not None):
        raise UsageProblem("Say either --succeeded or --failed.")

    for name, text in (("--reason", reason), ("--evidence", evidence)):
        if not text.strip():
            raise UsageProblem(f"{name} is empty.")

    error_code = None
    if code is not None:
        error_code = ErrorCode(code)

    # A blank that was copied with it would make another receipt of it.
    receipt = (provider_reference or "").strip() or None

    # With four eyes a command is one pair of eyes, and proposes as anybody would in the console.
    console = target.settings.console
    machine = machine_user()
    only_asks = console.four_eyes and not console.commands_approve

    async def propose(store: Store, payment: Transaction) -> Transaction:
        audit_log = await target.open_audit_log(store)
        submit = partial(submit_once, store, clock=target.clock())
        await Resolutions(store, submit, audit_log, four_eyes=True).propose(
            machine.as_staff(user),
            payment.reference,
            error_code,
            reason=reason,
            evidence=evidence,
            provider_reference=receipt,
        )
        return payment

    async def resolve_it(store: Store) -> Transaction:
        transaction = await find_transaction(store, reference, brand)
        if only_asks:
            return await propose(store, transaction)

        # The journal has both names: whose process it was, and for whom it acted.
        resolution = ResolveManually(
            transaction.reference,
            transaction.order.provider,
            user=machine.acting_for(user),
            reason=reason,
            evidence=evidence,
            error_code=error_code,
            provider_reference=receipt,
        )
        outcome = code or SUCCESS
        about = f"payment:{transaction.reference}"

        async def record(action: str, remark: str | None) -> None:
            details = {"outcome": outcome, "reason": reason, "evidence": evidence, "remark": remark}
            await target.record(store, action, about, user, **details)

        submit = partial(submit_once, store, clock=target.clock())
        return await resolve_payment(store, submit, transaction, resolution, record)

    try:
        resolved = target.with_store(resolve_it)
    except ResolutionRefused as refused:
        raise NegativeAnswer(str(refused)) from None

    _print_transaction(resolved, as_json=as_json)
    if only_asks:
        print_status("Proposed. Another user approves it, in the console under Proposals.")
    else:
        print_status("Done. The gateway that serves this store makes the callback.")


@click.command()
@click.argument("reference")
@brand_option
@target_options
@json_option
def explain(reference: str, brand: str | None, target: CommandTarget, as_json: bool) -> None:
    """Explain the outcome of a payment.

    REFERENCE is its gatewayReference or merchantReference.
    """

    async def load(store: Store) -> tuple[PaymentHistory, ToldWrong | None]:
        history = await load_payment_history(store, await find_transaction(store, reference, brand))
        wrong = await load_told_wrong(
            store, history.transaction, history.suspense, history.callbacks, history.reversals
        )
        return history, wrong

    history, wrong = target.with_store(load)
    if as_json:
        print_json_text(_to_json(history, wrong))
    else:
        _print_history(history, wrong)


def _print_history(history: PaymentHistory, wrong: ToldWrong | None) -> None:
    order = history.transaction.order
    name = order.merchant_reference or "an offline deposit"
    print_line(f"{order.gateway_reference} ({order.brand}: {name})", "bold")
    # First what to know and to do, then what happened, then what the merchant has.
    for sentence in conclusions(history):
        print_line(f"• {format_amounts_in(sentence)}")

    if wrong is not None:
        print_line("")
        print_line("A text to send to the merchant:", "bold")
        print_line(merchant_message(wrong))

    print_line("")
    _print_timeline(timeline(history))
    print_line("")
    print_line("What the merchant sees:", "bold")
    print_json_text(transaction_object(history.transaction).decode())


def _print_timeline(entries: Sequence[TimelineEntry]) -> None:
    """Print what happened, the date once for each day (UTC)."""
    is_narrow = terminal().width < TIMELINE_TABLE_WIDTH_MIN
    rows: list[Sequence[object]] = []
    day = ""
    for entry in entries:
        at = format_millisecond(entry.at)
        text = format_amounts_in(entry.text)
        if at[:10] != day:
            day = at[:10]
            rows.append((marked(day, "bold"), "", ""))
            if is_narrow:
                print_line(f"{day} UTC", "bold")

        # On a narrow terminal a step is a paragraph, which is printed at once.
        rows.append((at[11:23], entry.actor, text))
        if is_narrow:
            print_line(f"{at[11:23]} {entry.actor}", "dim")
            print_line(text)

    if not is_narrow:
        print_table(("when (UTC)", "who", "what happened"), rows)


def _to_json(history: PaymentHistory, wrong: ToldWrong | None) -> str:
    keys: list[dict[str, object]] = []
    if history.brand is not None:
        keys = brand_keys_to_json(history.brand)

    members = {
        "conclusions": conclusions(history),
        "toldWrong": wrong and told_wrong_to_json(wrong),
        "timeline": [
            {
                "at": format_instant(entry.at),
                "what": entry.input_name,
                "actor": entry.actor,
                "stageBefore": entry.stage_before,
                "stageAfter": entry.stage_after,
                "detail": json.loads(entry.detail),
            }
            for entry in history.journal
        ],
        "callbacks": [
            {
                "at": format_instant(callback.at),
                "url": callback.attempt.url,
                "outcome": callback.attempt.outcome,
                "status": callback.attempt.status,
                "durationMs": callback.attempt.duration_ms,
                "detail": callback.attempt.detail,
            }
            for callback in history.callbacks
        ],
        "suspense": [suspense_entry_to_json(entry) for entry in history.suspense],
        "keys": keys,
    }

    # The transaction's members first, as `mmo tx show` has them, and these behind.
    further = json.dumps(members, ensure_ascii=False)[1:]
    return f"{admin_transaction_json(history.transaction)[:-1]},{further}"
