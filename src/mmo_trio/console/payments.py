"""The pages about payments show a list, its export as CSV, a search, and one payment with its
timeline."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from attrs import evolve, frozen
from quart import Blueprint, Response, render_template, request
from werkzeug.exceptions import BadRequest, NotFound, TooManyRequests

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.messages.inputs import ResolveManually
from mmo_sansio.payments.states import target_stages
from mmo_sansio.providers.common.operations import DIRECT_PAYOUT, operation_key
from mmo_sansio.values.clock import (
    DAY,
    Instant,
    Span,
    earlier,
    elapsed,
    format_with_microseconds,
    from_datetime,
    later,
)
from mmo_sansio.values.dialling_codes import possible_msisdns
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.formula_guard import guard_cell
from mmo_sansio.values.model import Stage, Status, Transaction, Type
from mmo_sansio.values.money import AmountError, Money, parse_number
from mmo_sansio.values.reversals import Reversal
from mmo_trio.admin.concerns import Concern, describe_stuck, load_concerns
from mmo_trio.admin.explanation import alarms, load_payment_history, remarks
from mmo_trio.admin.reference_search import search_by_beginning, search_by_reference
from mmo_trio.admin.resolution import SUCCESS
from mmo_trio.admin.reversals import money_left
from mmo_trio.admin.timeline import timeline
from mmo_trio.admin.told_wrong import load_told_wrong, merchant_message
from mmo_trio.console.context import console
from mmo_trio.console.kept_inputs import keep_input, kept_input, seal_input
from mmo_trio.console.overview import format_latency, statistics_by_key
from mmo_trio.console.parameters import (
    PAGE_SIZE,
    TEXT_LENGTH_MAX,
    ListPage,
    form_field,
    format_position,
    link_page,
    list_brand_options,
    parse_choice,
    parse_phone_number,
    parse_position,
    query_argument,
    redirect_to,
)
from mmo_trio.console.permissions import MASKED, Permission
from mmo_trio.console.sessions import PERSONAL_DATA_VIEWED, current_user, record_action, record_view
from mmo_trio.console.views import (
    MAIN_FIELDS,
    TYPE_TEXTS,
    format_words,
    list_payment_fields,
    list_phases,
    show_event,
    tell_story,
    to_reading_text,
)
from mmo_trio.http.asgi.host import TakeTurn, turns_of
from mmo_trio.http.asgi.web_app import stream_response
from mmo_trio.storage.interface.admin_types import (
    UNFINISHED_STATES,
    AttentionTimes,
    CountDimension,
    CountQuery,
    PaymentFilter,
    PaymentPage,
)
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.payment_search import position_of
from mmo_trio.system.display_text import indent_json, mask_number

# Audit events about one payment that its page shows, views of personal data included.
AUDIT_ROWS_MAX = 200

# Payments of one export; `mmo records export` has no limit.
EXPORT_ROWS_MAX = 50_000

# Payments in memory at one time.
EXPORT_PAGE_SIZE = 500

EXPORT_COLUMNS = (
    *(
        "createdAt",
        "gatewayReference",
        "brand",
        "merchantReference",
        "type",
        "flow",
        "method",
        "country",
    ),
    *(
        "provider",
        "providerReference",
        "msisdn",
        "amount",
        "currency",
        "status",
        "errorCode",
        "completedAt",
        "simulated",
    ),
)

# Selections of more days are listed without a count.
COUNTED_MAX = Span(31 * DAY)

# How long a callback that was not delivered needs a look: nothing sends it again.
CALLBACKS_NEED_A_LOOK_FOR = DAY

SELECTION_FIELDS = (
    *("brand", "method", "provider", "status", "code", "from", "until"),
    *("type", "amount_min", "amount_max", "look"),
)

_DAY_FORMAT = "%Y-%m-%d"
_TIME_FORMATS = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H")
TIME_FAULT = (
    "A time is a day, as in 2026-11-21, or a day and an hour, as in 2026-11-21T15:00 (UTC)."
)

pages = Blueprint("payments", __name__)


@frozen
class PaymentSelection:
    """A selection of payments as a user has made it."""

    payment_filter: PaymentFilter
    fields: dict[str, str]
    """The query parameters that make this selection, without the position in the list."""


def read_selection() -> PaymentSelection:
    """Return the selection of the current request. Raises BadRequest."""
    fields = {name: text for name in SELECTION_FIELDS if (text := query_argument(name)) is not None}
    code = parse_choice(ErrorCode, fields.get("code"), "There is no such error code.")
    status = parse_choice(Status, fields.get("status"), "There is no such status.")
    type_ = parse_choice(Type, fields.get("type"), "There is no such type.")
    return PaymentSelection(
        PaymentFilter(
            brand=fields.get("brand"),
            method=fields.get("method"),
            provider=fields.get("provider"),
            status=Status.FAILED if code is not None and status is None else status,
            error_code=code,
            begin=_parse_time(fields.get("from"), is_end=False),
            end=_parse_time(fields.get("until"), is_end=True),
            before=parse_position(query_argument("before")),
            after=parse_position(query_argument("after")),
            limit=PAGE_SIZE,
            type=type_,
            amount_min=_parse_amount(fields.get("amount_min")),
            amount_max=_parse_amount(fields.get("amount_max")),
            attention=_attention_times() if "look" in fields else None,
        ),
        fields,
    )


def _attention_times() -> AttentionTimes:
    context = console()
    since = earlier(context.wall_time(), CALLBACKS_NEED_A_LOOK_FOR)
    return AttentionTimes(context.own_time(), since)


def _parse_amount(text: str | None) -> Decimal | None:
    """Parse an amount as people write it, `2,450` or `2450.00`. Raises BadRequest."""
    if text is None:
        return None
    try:
        return parse_number(text.replace(",", "").replace(" ", ""))
    except AmountError as error:
        raise BadRequest(f"The amount {error}.") from None


def _parse_time(text: str | None, *, is_end: bool) -> Instant | None:
    """Parse a day or a time in UTC; a day as the end of a selection is included in it. Raises
    BadRequest."""
    if text is None:
        return None

    for form in (_DAY_FORMAT, *_TIME_FORMATS):
        try:
            at = from_datetime(datetime.strptime(text, form).replace(tzinfo=UTC))
        except ValueError:
            continue

        if is_end and form == _DAY_FORMAT:
            return later(at, DAY)
        return at

    raise BadRequest(TIME_FAULT)


@pages.get("/payments")
async def list_payments() -> str:
    """Show the newest payments of a selection."""
    selection = read_selection()
    admin = console().store.admin
    page = await _read_page(selection.payment_filter)
    brands = [brand.brand for brand in await admin.brands()]
    totals = None
    if selection.fields:
        totals = await admin.total_payments(selection.payment_filter)

    if totals is not None and totals.is_complete:
        page = evolve(page, total=totals.count)

    return await render_template(
        "payments.html",
        page=page,
        concerns=await show_concerns(page.rows),
        totals=totals,
        moves_no_money=console().moves_no_money,
        is_full=len(page.rows) == PAGE_SIZE,
        selection=selection.fields,
        quick=await _quick_selections(selection),
        has_filters=bool(set(selection.fields) - {"status", "look"}),
        type_options=[("", "all"), *((type_.value, TYPE_TEXTS[type_]) for type_ in Type)],
        brand_options=await list_brand_options(),
        method_options=[
            (key, key)
            for key in sorted({method.key for brand in brands for method in brand.methods})
        ],
        provider_options=list(console().provider_titles.items()),
        status_options=[(status, status) for status in Status],
        code_options=[(code, format_words(code)) for code in ErrorCode],
    )


async def _read_page(payment_filter: PaymentFilter) -> ListPage[Transaction]:
    """Return the page of a selection that the request asks for. Upwards, what is less than a page
    is the first one."""
    admin = console().store.admin
    if payment_filter.after is not None:
        found = await admin.list_payments(payment_filter)
        if found.next_position is not None:
            rows = found.transactions
            older = None
            if rows:
                older = format_position(position_of(rows[-1]))

            return link_page(rows, after=format_position(found.next_position), before=older)

        payment_filter = evolve(payment_filter, after=None)

    found = await admin.list_payments(payment_filter)
    rows, before, following = found.transactions, payment_filter.before, found.next_position
    newer = None
    if before is not None:
        newer = format_position(position_of(rows[0]) if rows else before)

    page = link_page(
        rows, after=newer, before=None if following is None else format_position(following)
    )
    total = await _count(payment_filter)
    return evolve(
        page,
        first=1 if before is None else page.first,
        total=page.total if total is None else total,
    )


async def _count(payment_filter: PaymentFilter) -> int | None:
    """Return how many payments a selection of whole days has, where the counts of the charts tell;
    None elsewhere."""
    begin, end = payment_filter.begin, payment_filter.end
    chosen = [
        (dimension, value)
        for dimension in CountDimension
        if (value := getattr(payment_filter, dimension)) is not None
    ]
    has_content = payment_filter.status is not None or payment_filter.error_code is not None
    if (
        begin is None
        or end is None
        or begin % DAY
        or end % DAY
        or elapsed(begin, end) > COUNTED_MAX
    ):
        return None

    if has_content or len(chosen) > 1:
        return None

    query = CountQuery(DAY, begin, end, chosen[0] if chosen else None)
    counts = await console().store.admin.count_payments(query, by=None)
    return sum(count.count for count in counts if count.status is Status.PENDING)


async def show_concerns(rows: Sequence[Transaction]) -> Mapping[str, Sequence[Concern]]:
    """Return what the statuses of these payments do not say, by their references."""
    return await load_concerns(console().store, rows, now=console().own_time())


@frozen
class QuickSelection:
    """A selection of one click."""

    title: str
    fields: Mapping[str, str]
    count: str = ""
    """How many payments it has, such as `4` or `1,000+`; empty where nothing counts them, and for
    none."""


async def _quick_selections(selection: PaymentSelection) -> list[QuickSelection]:
    """Return this selection with each status, with any, and with what needs a look."""
    others = {
        name: text
        for name, text in selection.fields.items()
        if name not in ("status", "code", "look")
    }
    looked_at = evolve(
        selection.payment_filter, status=None, error_code=None, attention=_attention_times()
    )
    totals = await console().store.admin.total_payments(looked_at)
    if totals.count:
        count = f"{totals.count:,}{'' if totals.is_complete else '+'}"
    else:
        count = ""

    return [
        QuickSelection("All", others),
        *(
            QuickSelection(status.value.capitalize(), others | {"status": status})
            for status in Status
        ),
        QuickSelection("Needs a look", others | {"look": "1"}, count),
    ]


@pages.get("/payments.csv")
async def export_payments() -> Response:
    """Send the selected payments as CSV, the newest first; the audit log says who did it and what
    was selected."""
    selection, exports, user = read_selection(), console().exports, current_user().actor
    if not exports.has_room_for(user):
        raise TooManyRequests(
            "An export is running. Start the next one when it is complete.", retry_after=10
        )

    await record_action("payments_exported", "payments", selection=selection.fields)
    payment_filter = evolve(selection.payment_filter, limit=EXPORT_PAGE_SIZE)
    csv_pages = _csv_pages(console().store.admin, payment_filter, turns_of(request.scope))

    async def rows() -> AsyncGenerator[bytes, None]:
        with exports.hold(user):
            async for csv_page in csv_pages:
                yield csv_page

    response = stream_response(rows(), "text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="payments.csv"'
    return response


async def _csv_pages(
    admin: AdminStore, payment_filter: PaymentFilter, take_turn: TakeTurn
) -> AsyncGenerator[bytes, None]:
    yield csv_lines([EXPORT_COLUMNS])
    left = EXPORT_ROWS_MAX
    while left > 0:
        async with take_turn():
            page = await admin.list_payments(
                evolve(payment_filter, limit=min(left, EXPORT_PAGE_SIZE))
            )
            lines = csv_lines([_cells(transaction) for transaction in page.transactions])

        if lines:
            yield lines

        left -= len(page.transactions)
        if page.next_position is None:
            return

        payment_filter = evolve(payment_filter, before=page.next_position)


def _cells(transaction: Transaction) -> Sequence[str]:
    order, progress = transaction.order, transaction.progress
    return (
        format_with_microseconds(order.created_at),
        transaction.reference,
        order.brand,
        order.merchant_reference or "",
        order.type,
        order.flow,
        order.method,
        order.country,
        order.provider,
        progress.provider_reference or "",
        MASKED.number(order.party.msisdn),
        order.requested.text,
        order.requested.currency,
        transaction.status,
        progress.error_code or "",
        "" if progress.completed_at is None else format_with_microseconds(progress.completed_at),
        "true" if order.is_simulated else "false",
    )


def csv_lines(rows: Sequence[Sequence[str]]) -> bytes:
    """Return rows as CSV (RFC 4180), of which a spreadsheet program runs nothing."""
    text = io.StringIO()
    csv.writer(text).writerows([[guard_cell(cell) for cell in row] for row in rows])
    return text.getvalue().encode("utf-8", "replace")


@pages.get("/search")
async def show_search() -> str:
    """Show the search alone. A text in the address is filled in, and not searched for."""
    return await render_template("found.html", rows=None, text=query_argument("text") or "")


@pages.post("/search")
async def search() -> Response:
    """Keep the text, and lead to what it finds: the address doesn't tell it, as it may be personal
    data."""
    text, user = await form_field("text", length_max=TEXT_LENGTH_MAX), current_user().name
    return redirect_to("payments.show_found", id=await keep_input(user, seal_input(user, text)))


@pages.get("/search/<id>")
async def show_found(id: str) -> str | Response:
    """Search by a reference or a phone number; one exact hit leads to its payment. Where nothing is
    found, the text is taken for the beginning or the end of a reference."""
    text = await kept_input(current_user().name, id)
    if not isinstance(text, str):
        raise NotFound("This search is over: type it again, at the top.")

    # 1. A phone number is searched for only by who may see one.
    before = parse_position(query_argument("before"))
    digits = parse_phone_number(text)
    may_see = current_user().has_permission(Permission.SEE_PERSONAL_DATA)
    admin, msisdns = console().store.admin, list[str]()
    if may_see and digits is not None:
        countries = (
            method.country for brand in await admin.brands() for method in brand.brand.methods
        )
        msisdns = possible_msisdns(digits, countries)

    # 2. The whole reference or number; with nothing found, a part of a reference. Later pages of
    # that have the argument `beginning`.
    is_beginning = query_argument("beginning") is not None
    found = PaymentPage((), None)
    if not is_beginning:
        found = await search_by_reference(
            admin, text, msisdns=msisdns, before=before, limit=PAGE_SIZE
        )
        is_beginning = before is None and not found.transactions

    if may_see and digits is not None:
        references = [transaction.reference for transaction in found.transactions]
        await record_action(
            PERSONAL_DATA_VIEWED, "search", number=mask_number(digits), payments=references
        )

    if len(found.transactions) == 1 and before is None and found.next_position is None:
        return redirect_to("payments.show_payment", reference=found.transactions[0].reference)

    if is_beginning:
        found = await search_by_beginning(admin, text, before=before, limit=PAGE_SIZE)

    return await render_template(
        "found.html",
        rows=found.transactions,
        concerns=await show_concerns(found.transactions),
        next_page=format_position(found.next_position),
        id=id,
        text=text,
        is_number=digits is not None and not may_see,
        is_beginning=is_beginning,
    )


@pages.get("/payments/<reference>")
async def show_payment(reference: str) -> str:
    """Show all that the store has about one payment."""
    transaction = await find_payment(reference)
    store, mask = console().store, current_user().mask

    # 1. What is on record, with this look at it, which is recorded before anything is shown.
    history = await load_payment_history(store, transaction)
    proposals = await store.admin.proposals(about=transaction.reference)
    about = f"payment:{transaction.reference}"
    await record_view(about)
    rows = list(reversed(await store.admin.audit(about=about, limit=AUDIT_ROWS_MAX)))

    # 2. What follows from it.
    wrong = await load_told_wrong(
        store, transaction, history.suspense, history.callbacks, history.reversals
    )
    left = money_left(transaction, history.suspense, history.reversals)
    fields = list_payment_fields(transaction, mask)
    entries = timeline(history, with_free_text=mask.can_see_personal_data)
    api_object = ""
    if mask.can_see_personal_data:
        api_object = indent_json(transaction_object(transaction).decode())

    return await render_template(
        "payment.html",
        payment=transaction,
        concerns=(await show_concerns([transaction])).get(transaction.reference, ()),
        main_fields=[field for field in fields if field[0] in MAIN_FIELDS],
        fields=[field for field in fields if field[0] not in MAIN_FIELDS],
        order=transaction.order,
        api_object=api_object,
        alarms=[(mask.text(to_reading_text(alarm.text)), alarm.entry) for alarm in alarms(history)],
        stuck_text=describe_stuck(history, now=console().own_time()),
        conclusions=[mask.text(to_reading_text(remark)) for remark in remarks(history)],
        merchant_text=wrong and mask.text(merchant_message(wrong)),
        story=tell_story(entries, mask, console().provider_titles),
        phases=list_phases(entries),
        usual_time=await _usual_time(transaction),
        callbacks=history.callbacks,
        suspense=history.suspense,
        proposals=proposals,
        reversals=history.reversals,
        money_left=left,
        asks_payee=may_ask_payee(transaction, left, history.reversals),
        reversal_operation=console().reversal_operation(transaction),
        audit_events=[
            show_event(row, mask) for row in rows if row.event.action != PERSONAL_DATA_VIEWED
        ],
        views=[show_event(row, mask) for row in rows if row.event.action == PERSONAL_DATA_VIEWED],
        outcome_groups=_possible_outcomes(transaction),
        is_proposed=any(proposal.state in UNFINISHED_STATES for proposal in proposals),
    )


async def _usual_time(payment: Transaction) -> str:
    """Return in how much time half of the provider's payments ended, on the day on which this one
    did: `≤ 5 s`. Empty before its end, and where it is the only one."""
    ended_at = payment.progress.completed_at
    if ended_at is None:
        return ""

    begin = Instant(ended_at - ended_at % DAY)
    query = CountQuery(
        DAY,
        begin,
        later(begin, DAY),
        (CountDimension.PROVIDER, payment.order.provider),
        is_simulated=payment.order.is_simulated,
    )
    counts = await console().counted.count_payments(query, by=None)
    for day in statistics_by_key(counts).values():
        if day.ended > 1:
            return format_latency(day.quantile(0.5))
    return ""


def may_ask_payee(payment: Transaction, left: Money | None, reversals: Sequence[Reversal]) -> bool:
    """Tell whether money may still go to the number of a payment, and its operator can be asked
    about it: the payment is a pay-out that has not ended, or money of it can go back."""
    payees = console().payees
    if payees is None or not payees.can_ask(payment.order.provider):
        return False
    is_sent = operation_key(payment) == DIRECT_PAYOUT and payment.status is Status.PENDING
    can_go_back = (
        console().reversal_operation(payment) is not None and left is not None and left.minor > 0
    )
    return is_sent or can_go_back or any(not reversal.state.has_ended for reversal in reversals)


async def find_payment(reference: str) -> Transaction:
    """Return the payment with this gatewayReference. Raises NotFound."""
    transaction = None
    if reference.isascii() and reference.isalnum() and len(reference) <= TEXT_LENGTH_MAX:
        transaction = await console().store.transaction(reference.upper())
    if transaction is None:
        raise NotFound("There is no payment with this gatewayReference.")
    return transaction


def _possible_outcomes(transaction: Transaction) -> Sequence[tuple[str, Sequence[str]]]:
    """Return the outcomes that a person may propose now, `success` or error codes, by who can act
    on them."""
    resolution = ResolveManually(transaction.reference, transaction.order.provider, "", "")
    reachable = target_stages(transaction.progress.stage, resolution)
    if Stage.SUCCEEDED in reachable:
        groups = [("Paid: the money has moved", [SUCCESS])]
    else:
        groups = []

    if Stage.FAILED in reachable:
        for title, who in (
            ("by the payer", "payer"),
            ("by the merchant", "merchant"),
            ("by our staff", "staff"),
        ):
            codes = [code.value for code in ErrorCode if EXPLANATIONS[code].who_acts == who]
            groups.append((f"Failed, to be mended {title}", codes))

    return groups
