"""The pages about brands: their methods, limits with what is used of them, keys and holds; and
changes of their configuration, which one user proposes and another one applies, and which one click
takes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from attrs import evolve, frozen
from quart import Blueprint, Response, render_template, request
from werkzeug.exceptions import NotFound

from mmo_sansio.payments.brand_usage import PENDING_COUNTER, daily_counter
from mmo_sansio.values.clock import DAY, HOUR, Instant, earlier, later
from mmo_sansio.values.model import Brand, Operation, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.number_format import format_amount
from mmo_trio.admin.change_control import (
    BackTestPair,
    ChangeRefusal,
    ChangeRefused,
    ConfigurationChanges,
    brand_version,
    is_expired,
    may_revert_alone,
)
from mmo_trio.brands.description import method_name
from mmo_trio.brands.edit import BRAND_LIMITS, METHOD_LIMITS, InvalidEdit, brand_form, edit_brand
from mmo_trio.console.context import console
from mmo_trio.console.differences import list_change_texts, show_differences, summarize
from mmo_trio.console.money_figures import CURRENCIES_MAX, CurrencyTotal, currency_totals
from mmo_trio.console.notices import with_notice
from mmo_trio.console.parameters import (
    PAGE_SIZE,
    cut_page,
    form_field,
    query_argument,
    read_page,
    redirect_to,
)
from mmo_trio.console.payer_views import funnel_of, preview_of
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import current_user, require
from mmo_trio.design.brand_colours import brand_stylesheet
from mmo_trio.storage.interface.admin_types import (
    BrandHold,
    BrandRecord,
    BrandUsage,
    ChangeState,
    ConfigurationChange,
    CountDimension,
    CountQuery,
    PaymentFilter,
    PaymentSum,
    StoredApiKey,
)

# The newest payments of a brand in which the latest use of its keys is looked for, and whose web
# pay-ins are counted.
NEWEST_READ_MAX = 200

CHANGES_PAGE_SIZE = 20

# A form of more methods shows one line of each until it is opened.
OPEN_METHODS_MAX = 4

# Settings that a row of the list of changes tells.
CHANGES_TOLD_MAX = 3

# Changes that wait for a decision and are listed, the newest first.
WAITING_MAX = 20

# Brands that are listed to change one of them; the search finds the others.
BRANDS_OFFERED_MAX = 12

INVALID_FIELD = "Nothing was proposed: one field needs another value."
NO_REASON = "Nothing was proposed: it needs a reason."

pages = Blueprint("brands", __name__)


@frozen
class LimitUse:
    """Describes a limit and what is used of it."""

    title: str
    text: str
    share: int | None
    """What is used, in per cent; None where nothing is counted."""


@frozen
class BrandDayFigures:
    """Says what came of a brand's payments in a time."""

    succeeded: int
    failed: int
    totals: Sequence[CurrencyTotal]

    @property
    def rate(self) -> str:
        return f"{100 * self.succeeded / (self.succeeded + self.failed):.1f} %"


@frozen
class BrandRow:
    """Describes a brand."""

    brand: Brand
    hold: BrandHold | None
    breaker: str | None
    """The state of the breaker of its callbacks; None before the first callback."""
    usage: Sequence[LimitUse]
    key_count: int
    """Keys in use: retired ones open nothing."""
    day: BrandDayFigures | None = None
    """What came of its payments in the last 24 hours; None where none has ended."""

    @property
    def fullest(self) -> LimitUse | None:
        """Return the limit of which the largest share is used; None where nothing is counted."""
        counted = [limit for limit in self.usage if limit.share is not None]
        return max(counted, key=lambda limit: limit.share or 0, default=None)


@frozen
class _BrandStates:
    """Holds what the store knows of all brands besides their configuration."""

    holds: Mapping[str, BrandHold]
    used: Mapping[tuple[str, str], BrandUsage]
    """By brand and counter."""
    breakers: Mapping[str, str]


@pages.get("/brands")
async def list_brands() -> str:
    """List the brands that a text is found in, by name, id or method."""
    store, text = console().store, query_argument("q")
    page = cut_page(
        [brand for brand in await store.admin.brands() if is_found(text or "", brand.brand)],
        PAGE_SIZE,
    )
    states, days = await _brand_states(), await _brand_days()
    rows = [
        evolve(_brand_row(record, states), day=days.get(record.brand.id)) for record in page.rows
    ]
    return await render_template(
        "brands.html", page=page, rows=rows, text=text, currencies_max=CURRENCIES_MAX
    )


async def _brand_days() -> Mapping[str, BrandDayFigures]:
    """Return what came of each brand's payments for money in the last 24 hours, this hour
    included; of simulated ones, where no account moves money."""
    context = console()
    end = later(Instant(context.wall_time() // HOUR * HOUR), HOUR)
    query = CountQuery(
        HOUR, earlier(end, DAY), end, is_simulated=None if context.moves_no_money else False
    )
    by_brand: dict[str, list[PaymentSum]] = {}
    for sum_payment in await context.counted.sum_payments(query, by=CountDimension.BRAND):
        by_brand.setdefault(sum_payment.key, []).append(sum_payment)

    return {
        brand: BrandDayFigures(
            sum(counted.count for counted in sums if counted.error_code is None),
            sum(counted.count for counted in sums if counted.error_code is not None),
            currency_totals(sums),
        )
        for brand, sums in by_brand.items()
    }


@pages.get("/brands/<brand>")
async def show_brand(brand: str) -> str:
    """Show a brand with its methods, limits, keys and hold."""
    store = console().store
    record = await store.brand_record(brand)
    if record is None:
        raise NotFound(ChangeRefusal.NO_BRAND.value)

    newest = (
        await store.admin.list_payments(PaymentFilter(brand=brand, limit=NEWEST_READ_MAX))
    ).transactions
    keys = [(key, _last_use(key, newest)) for key in record.keys]
    return await render_template(
        "brand.html",
        row=_brand_row(record, await _brand_states()),
        keys=keys,
        preview=preview_of(record.brand),
        funnel=funnel_of(newest),
        newest_max=NEWEST_READ_MAX,
    )


@pages.get("/brands/<brand>/page.css")
async def page_colours(brand: str) -> Response:
    """Give the example of the payment page the colour of its brand, and nothing else on the
    page."""
    record = await console().store.brand_record(brand)
    colour = None if record is None else record.brand.appearance.colour
    if colour is None:
        raise NotFound(ChangeRefusal.NO_BRAND.value)
    sheet = brand_stylesheet(colour).replace(":root", ".branded")
    return Response(sheet, content_type="text/css; charset=utf-8")


@pages.get("/brands/<brand>/logo")
async def page_logo(brand: str) -> Response:
    """Return the logo of a brand."""
    record = await console().store.brand_record(brand)
    logo = None if record is None else record.brand.appearance.logo
    if logo is None:
        raise NotFound(ChangeRefusal.NO_BRAND.value)
    return Response(logo.content, content_type=logo.media_type)


def is_found(text: str, brand: Brand) -> bool:
    """Return whether a text is part of a brand's name or id, or of a method's key, in capitals or
    not."""
    words = (brand.name, brand.id, *(method.key for method in brand.methods))
    return any(text.casefold() in word.casefold() for word in words)


async def _brand_states() -> _BrandStates:
    admin = console().store.admin
    return _BrandStates(
        {brand_hold.brand: brand_hold for brand_hold in await admin.brand_holds()},
        {(usage.brand, usage.counter): usage for usage in await admin.brand_usage()},
        {brand: stored.state.value for brand, stored in (await console().store.breakers()).items()},
    )


def _brand_row(record: BrandRecord, states: _BrandStates) -> BrandRow:
    brand, today = record.brand, console().wall_time() // DAY
    usage = list(_limit_uses(brand, states.used, today))
    return BrandRow(
        brand,
        states.holds.get(brand.id),
        states.breakers.get(brand.id),
        usage,
        sum(key.retired_at is None for key in record.keys),
    )


def _last_use(key: StoredApiKey, newest: Sequence[Transaction]) -> Instant | None:
    return next(
        (payment.order.created_at for payment in newest if payment.order.api_key_id == str(key.id)),
        None,
    )


def _limit_uses(
    brand: Brand, used: Mapping[tuple[str, str], BrandUsage], today: int
) -> Iterator[LimitUse]:
    """Yield each limit of a brand with what is used of it."""

    def amount(counter: str, day: int) -> int:
        found = used.get((brand.id, counter))
        if found is None:
            return 0
        return found.on_day(day).amount

    if (rate := brand.limits.requests_per_second) is not None:
        yield LimitUse("requests a second", f"at most {rate:,}", None)

    if (pending_max := brand.limits.pending_payments) is not None:
        pending = amount(PENDING_COUNTER, 0)
        yield LimitUse(
            "pending payments", f"{pending:,} of {pending_max:,}", _share(pending, pending_max)
        )

    for method in brand.methods:
        for currency, limits in method.limits.items():
            for type, most in limits.daily.items():
                spent = Money(amount(daily_counter(method, type, currency), today), currency)
                yield LimitUse(
                    f"{type.value} by {method_name(method)} today",
                    f"{format_amount(spent)} of {format_amount(most)}",
                    _share(spent.minor, most.minor),
                )


def _share(used: int, most: int) -> int:
    if most:
        return min(100, round(used / most * 100))
    return 100


@pages.get("/configuration")
async def list_changes() -> str:
    """List the changes that wait for a decision and those that were decided, of all brands or of
    one; and brands to change."""
    admin, text, brand = console().store.admin, query_argument("q"), query_argument("brand")
    waiting = await admin.configuration_changes(
        state=ChangeState.OPEN, brand=brand, limit=WAITING_MAX
    )
    read = partial(admin.configuration_changes, brand=brand, without=ChangeState.OPEN)
    page = await read_page(read, lambda change: change.id, CHANGES_PAGE_SIZE)
    brands = [record.brand for record in await admin.brands() if is_found(text or "", record.brand)]
    return await render_template(
        "configuration/list.html",
        waiting=waiting,
        page=page,
        list_change_texts=list_change_texts,
        changes_told_max=CHANGES_TOLD_MAX,
        brands=brands[:BRANDS_OFFERED_MAX],
        left_out=max(0, len(brands) - BRANDS_OFFERED_MAX),
        text=text,
        brand=brand,
    )


@pages.get("/brands/<brand>/configuration")
async def edit(brand: str) -> str:
    """Show the limits and flows of a brand to edit."""
    await require(Permission.CHANGE_CONFIGURATION)
    found = await _changes().brand(brand)
    return await _edit_form(found, brand_form(found))


@pages.post("/brands/<brand>/configuration")
async def propose(brand: str) -> Response | tuple[str, int]:
    """Store the proposal of a change of a brand. Show the form again with what was wrong next to
    its field, and before that with what it changes, as long as that is not what the user has
    seen."""
    user = await require(Permission.CHANGE_CONFIGURATION)
    reason, version = (
        await form_field("reason", is_required=False),
        await form_field("version", length_max=64),
    )
    before, form = await _changes().brand(brand), await request.form
    if version != brand_version(before):
        raise ChangeRefused(ChangeRefusal.VERSION_CHANGED)

    try:
        after = edit_brand(before, form, elsewhere=console().elsewhere)
    except InvalidEdit as invalid:
        return await _edit_form(before, form, reason, INVALID_FIELD, invalid=invalid), 400

    if after == before:
        return await _edit_form(before, form, reason, ChangeRefusal.NOTHING_CHANGES.value), 400
    if form.get("act") == "check" or form.get("checked") not in (None, brand_version(after)):
        return await _edit_form(before, form, reason, after=after), 200
    if not reason:
        return await _edit_form(before, form, fault=NO_REASON, after=after), 400

    change = await _changes().propose(
        user.name,
        brand,
        version,
        partial(edit_brand, form=form, elsewhere=console().elsewhere),
        reason,
    )
    return with_notice(
        redirect_to("brands.show_change", id=change.id), f"Change {change.id} is proposed."
    )


async def _edit_form(
    brand: Brand,
    form: Mapping[str, str],
    reason: str = "",
    fault: str = "",
    *,
    invalid: InvalidEdit | None = None,
    after: Brand | None = None,
) -> str:
    """Return the form with what was typed; `after` is the brand that it makes, whose differences
    are shown."""
    unchanged = brand_form(brand)
    methods = []
    for number, method in enumerate(brand.methods):
        begin = f"{number}."
        names = {name for name in (*unchanged, *form) if name.startswith(begin)}
        is_changed = any(form.get(name, "") != unchanged.get(name, "") for name in names)
        is_open = is_changed or (invalid is not None and invalid.field.startswith(begin))
        methods.append(
            (
                method,
                method_name(method),
                is_changed,
                is_open or len(brand.methods) <= OPEN_METHODS_MAX,
            )
        )

    return await render_template(
        "configuration/edit.html",
        brand=brand,
        version=brand_version(brand),
        form=form,
        reason=reason,
        fault=fault,
        lacks_reason=fault == NO_REASON,
        invalid=invalid,
        changed=() if after is None else show_differences(brand, after),
        checked="" if after is None else brand_version(after),
        methods=methods,
        brand_limits=BRAND_LIMITS,
        method_limits=METHOD_LIMITS,
        flows=list(Operation),
    )


@pages.get("/configuration/<int:id>")
async def show_change(id: int, *, lacks_remark: bool = False) -> str:
    """Show a change: its difference, its back-test, and what can be done."""
    context = console()
    change = None
    if id < 2**63:
        change = await context.store.admin.configuration_change(id)

    if change is None:
        raise NotFound(ChangeRefusal.NO_CHANGE.value)

    if request.args.get("day") == "today":
        day = "today"
    else:
        day = "yesterday"

    number = context.wall_time() // DAY - (day == "yesterday")
    tested = await _changes().back_test(change, number)
    record = await context.store.brand_record(change.after.id)
    differences = show_differences(change.before, change.after)
    return await render_template(
        "configuration/change.html",
        change=change,
        differences=differences,
        summary=summarize(differences),
        day=day,
        begin=Instant(number * DAY),
        tested=tested,
        sums=_sums(tested),
        is_overtaken=_is_overtaken(change, None if record is None else record.brand),
        is_expired=is_expired(change, context.wall_time()),
        may_revert_alone=may_revert_alone(current_user().name, change),
        lacks_remark=lacks_remark,
    )


@pages.post("/configuration/<int:id>/approve")
async def approve(id: int) -> Response:
    """Bring a change into force that another user has proposed."""
    user = await require(Permission.CHANGE_CONFIGURATION)
    await _changes().apply(user.name, id)
    return with_notice(redirect_to("brands.show_change", id=id), f"Change {id} is in force.")


@pages.post("/configuration/<int:id>/reject")
async def reject(id: int) -> Response | tuple[str, int]:
    """Reject a change, or withdraw one's own; show the page again where no remark says why."""
    user = await require(Permission.CHANGE_CONFIGURATION)
    remark = await form_field("remark", is_required=False)
    if not remark:
        return await show_change(id, lacks_remark=True), 400
    await _changes().reject(user.name, id, remark)
    return with_notice(redirect_to("brands.show_change", id=id), f"Change {id} is rejected.")


@pages.post("/configuration/<int:id>/revert")
async def revert(id: int) -> Response | tuple[str, int]:
    """Bring the version before a change into force again, or propose that; show the page again
    where no remark says why."""
    user = await require(Permission.CHANGE_CONFIGURATION)
    remark = await form_field("remark", is_required=False)
    if not remark:
        return await show_change(id, lacks_remark=True), 400

    change = await _changes().revert(user.name, id, remark)
    if change.id == id:
        text = f"Change {id} is taken back."
    else:
        text = f"The way back is proposed: change {change.id}."

    return with_notice(redirect_to("brands.show_change", id=change.id), text)


def _changes() -> ConfigurationChanges:
    context = console()
    return ConfigurationChanges(context.store.admin, context.audit_log)


def _is_overtaken(change: ConfigurationChange, in_force: Brand | None) -> bool:
    """Return whether another version is in force than the one that the next action would
    replace."""
    match change.state:
        case ChangeState.OPEN:
            return in_force != change.before
        case ChangeState.APPLIED:
            return in_force != change.after
        case ChangeState.REJECTED | ChangeState.REVERTED:
            return False


def _sums(tested: BackTestPair) -> Sequence[tuple[str, str, str]]:
    """Return each currency with the accepted amounts under both versions."""
    before, after = tested.before.accepted_minor, tested.after.accepted_minor
    return [
        (
            limit,
            format_amount(Money(before.get(limit, 0), limit)),
            format_amount(Money(after.get(limit, 0), limit)),
        )
        for limit in sorted({*before, *after})
    ]
