"""Creates the web app of the console listener: its pages, and the navigation around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from quart import Response, current_app, g, render_template, request
from quart.typing import ResponseTypes
from werkzeug.exceptions import Conflict, Forbidden, HTTPException, NotFound

from mmo_sansio.values.clock import format_with_microseconds
from mmo_sansio.values.number_format import format_amount, format_count
from mmo_trio.admin.change_control import ChangeRefusal, ChangeRefused
from mmo_trio.admin.explanation import DELIVERY_TEXTS
from mmo_trio.admin.resolution import ResolutionRefusal, ResolutionRefused
from mmo_trio.admin.reversals import NoSuchReversal, ReversalNotPermitted, ReversalRefused
from mmo_trio.console import (
    books,
    brands,
    live,
    overview,
    payees,
    payments,
    providers,
    reversals,
    second_factor,
    sign_in,
    work_lists,
)
from mmo_trio.console.context import EXTENSION, ConsoleContext, console
from mmo_trio.console.form_filling import fill_form
from mmo_trio.console.kept_inputs import kept_input
from mmo_trio.console.notices import forget_shown_notice, take_notice
from mmo_trio.console.parameters import redirect_to
from mmo_trio.console.permissions import MASKED, Permission
from mmo_trio.console.sessions import (
    FRESH_FIELDS,
    LIVE_PATH,
    CurrentUser,
    authenticate,
    is_own_host,
    page_path,
)
from mmo_trio.console.views import (
    SUSPENSE_ADVICE,
    TYPE_TEXTS,
    describe_suspense,
    format_day,
    format_response_body,
    format_state,
    format_time,
    format_utc_seconds,
    format_words,
)
from mmo_trio.design.blueprint import STYLESHEET_ENDPOINT, create_design_blueprint
from mmo_trio.http.asgi.web_app import WebApp
from mmo_trio.metrics.prometheus import PrometheusExporter
from mmo_trio.storage.interface.admin_types import UNFINISHED_STATES, ChangeState
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.display_text import indent_json, visible_text

# One script adds keyboard shortcuts, copying, local times and live pages; every page is complete
# without it.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}

# All other pages are for users who have signed in.
PUBLIC_ENDPOINTS = frozenset(
    {"metrics", "static", STYLESHEET_ENDPOINT, "sign_in.show_form", "sign_in.sign_in"}
)

PAGES = (
    sign_in,
    second_factor,
    overview,
    payments,
    payees,
    books,
    work_lists,
    reversals,
    providers,
    brands,
)


def create_console_app(exporter: PrometheusExporter, context: ConsoleContext) -> WebApp:
    """Create the app of the console and of `GET /metrics`."""
    app = WebApp(__name__, headers=HEADERS, static_cache_control="max-age=3600")
    app.extensions[EXTENSION] = context
    app.jinja_env.filters |= {
        "iso": format_with_microseconds,
        "moment": format_utc_seconds,
        "day": format_day,
        "clock": format_time,
        "count": format_count,
        "money": format_amount,
        "state": format_state,
        "words": format_words,
        "suspense": describe_suspense,
        "delivery": DELIVERY_TEXTS.__getitem__,
        "pretty_json": indent_json,
        "response_text": format_response_body,
    }
    app.jinja_env.finalize = _visible
    app.jinja_env.globals.update(
        Permission=Permission,
        MASKED=MASKED,
        TYPE_TEXTS=TYPE_TEXTS,
        SUSPENSE_ADVICE=SUSPENSE_ADVICE,
        is_sandbox=context.is_sandbox,
        simulated_providers=context.simulated_providers,
        marks_simulated=_marks_simulated(context),
    )
    app.register_blueprint(create_design_blueprint())
    for module in PAGES:
        app.register_blueprint(module.pages)

    app.show_http_errors("fault.html")
    app.register_error_handler(ChangeRefused, _show_refusal)
    app.register_error_handler(ResolutionRefused, _show_refusal)
    app.register_error_handler(ReversalRefused, _show_refusal)
    app.register_error_handler(StoreUnavailable, _show_store_failure)
    app.register_error_handler(OutcomeUnknown, _show_store_failure)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(
            await exporter.render(), content_type="text/plain; version=0.0.4; charset=utf-8"
        )

    app.get(LIVE_PATH)(live.stream_events)

    @app.before_request
    async def admit() -> Response | None:
        g.user = None
        if not is_own_host():
            return _unknown_host_response()

        if request.endpoint not in PUBLIC_ENDPOINTS:
            if not await authenticate():
                return await sign_in.interrupt()
            if await second_factor.is_enrolment_due():
                return redirect_to("second_factor.show")

            # Before the page reads anything: what happens meanwhile is news to it.
            g.store_state = await live.store_state(context)
            if id := request.args.get(sign_in.TYPED_ARGUMENT):
                typed = await kept_input(g.user.name, id)
                if isinstance(typed, dict):
                    g.typed_form = typed
                else:
                    g.typed_form = None

        return None

    @app.after_request
    async def finish(response: Response) -> Response:
        if (form := g.get("typed_form")) and response.status_code == 200:
            page = await response.get_data(as_text=True)
            response.set_data(fill_form(page, **form, fresh=FRESH_FIELDS))
        forget_shown_notice(response)
        return response

    @app.context_processor
    async def template_variables() -> dict[str, object]:
        settings, user = context.settings, g.get("user")
        return {
            "page_path": user and await page_path(),
            "typed_form": g.get("typed_form"),
            "notice": take_notice(),
            "store_state": g.get("store_state"),
            "now": context.wall_time(),
            "own_time": context.own_time(),
            "user": user,
            "four_eyes": settings.four_eyes,
            "second_factor": settings.second_factor,
            "navigation": None if user is None else await load_navigation(user),
        }

    return app


def _visible(value: object) -> object:
    """Return what a page shows of a value: text without characters that would turn or hide the text
    around it."""
    if type(value) is str:
        return visible_text(value)
    return value


def _unknown_host_response() -> Response:
    """Return the response to a request for an unknown host, which leads nowhere: not to a page, nor
    to a sign-in."""
    text = (
        "421: this console is not known under the host that the request names. If the name is "
        "right, add it to the"
        " setting console.hosts and restart the gateway.\n"
    )
    return Response(text, 421, content_type="text/plain; charset=utf-8")


# The status of each refusal of what a user wants to do; all others are a conflict.
REFUSAL_ERRORS: Mapping[
    ChangeRefusal | ResolutionRefusal | type[ReversalRefused], type[HTTPException]
] = {
    ChangeRefusal.NO_BRAND: NotFound,
    ChangeRefusal.NO_CHANGE: NotFound,
    ChangeRefusal.OWN_PROPOSAL: Forbidden,
    ResolutionRefusal.NOT_PERMITTED: Forbidden,
    ResolutionRefusal.OWN_PROPOSAL: Forbidden,
    ResolutionRefusal.NO_PAYMENT: NotFound,
    ResolutionRefusal.NO_PROPOSAL: NotFound,
    ReversalNotPermitted: Forbidden,
    NoSuchReversal: NotFound,
}


def _marks_simulated(context: ConsoleContext) -> bool:
    """Return whether pages mark each simulated payment: in a sandbox without another account there
    is nothing else."""
    moves_money = context.provider_titles.keys() - context.simulated_providers
    return not context.is_sandbox or bool(moves_money)


async def _show_refusal(
    refused: ChangeRefused | ResolutionRefused | ReversalRefused,
) -> ResponseTypes:
    kind = type(refused) if isinstance(refused, ReversalRefused) else refused.refusal
    error = REFUSAL_ERRORS.get(kind, Conflict)(str(refused))
    return await current_app.make_response(await current_app.handle_user_exception(error))


async def _show_store_failure(error: Exception) -> Response:
    if isinstance(error, OutcomeUnknown):
        message = "It can't be learnt whether this was stored: look before you repeat it."
    else:
        message = "The store can't serve right now. Nothing was stored; try again."
    page = await render_template("fault.html", title="One moment, please", message=message)
    return Response(page, 503, {"Retry-After": "2"})


# What waits is counted up to this number, so that no page costs more however much waits.
COUNT_MAX = 99


@frozen
class NavigationEntry:
    endpoint: str
    title: str
    icon: str
    """The name of its icon among those of the design system."""
    key: str
    """The letter that opens the page, typed after `g`."""
    permission: Permission | None = None
    """What a user needs to see the page; None for every user."""


# The pages by the titles of their groups.
NAVIGATION: Mapping[str, Sequence[NavigationEntry]] = {
    "": (
        NavigationEntry("overview.show", "Overview", "chart", "o"),
        NavigationEntry("payments.list_payments", "Payments", "list", "p"),
    ),
    "Waiting": (
        NavigationEntry("work_lists.stuck", "Stuck", "clock", "s"),
        NavigationEntry("work_lists.list_proposals", "Proposals", "check", "r"),
        NavigationEntry("reversals.list_reversals", "Reversals", "undo", "e"),
        NavigationEntry("brands.list_changes", "Configuration", "settings", "f"),
        NavigationEntry("work_lists.suspense", "Suspense", "inbox", "u"),
        NavigationEntry("work_lists.callbacks", "Callbacks", "alert", "c"),
    ),
    "Gateway": (
        NavigationEntry("providers.list_providers", "Providers", "phone", "v"),
        NavigationEntry("brands.list_brands", "Brands", "shop", "b"),
        NavigationEntry("providers.list_breakers", "Breakers", "pause", "k"),
        NavigationEntry("work_lists.audit", "Audit log", "lock", "a", Permission.READ_AUDIT),
    ),
}


@frozen
class Navigation:
    groups: Mapping[str, Sequence[tuple[NavigationEntry, str]]]
    """By the titles of the groups: each page with how much waits on it, such as `3` or `99+`; empty
    when nothing does, or when the store can't serve."""
    here: str
    """The title of the page that is shown; empty for one that the navigation does not name."""


async def load_navigation(user: CurrentUser) -> Navigation:
    """Return the navigation of a user, who sees no page without a permission for it."""
    try:
        waiting = await _count_waiting()
    except (StoreUnavailable, OutcomeUnknown):
        waiting = {}

    groups = {
        group: [
            (entry, format_capped_count(waiting.get(entry.endpoint, 0)))
            for entry in entries
            if entry.permission is None or user.has_permission(entry.permission)
        ]
        for group, entries in NAVIGATION.items()
    }
    shown = [entry for entries in NAVIGATION.values() for entry in entries]
    here = [entry.title for entry in shown if entry.endpoint == request.endpoint]
    return Navigation(groups, "".join(here))


async def _count_waiting() -> dict[str, int]:
    """Count what waits on each page, up to one more than COUNT_MAX."""
    admin, limit = console().store.admin, COUNT_MAX + 1
    return {
        "work_lists.stuck": len(await admin.stuck_transactions(console().own_time(), limit=limit)),
        "work_lists.suspense": len(await admin.suspense_entries(limit=limit)),
        "work_lists.list_proposals": sum(
            [len(await admin.proposals(state=state, limit=limit)) for state in UNFINISHED_STATES]
        ),
        "reversals.list_reversals": sum(
            not reversal.state.has_ended
            for reversal in await console().store.list_reversals(only_unfinished=True, limit=limit)
        ),
        "brands.list_changes": len(
            await admin.configuration_changes(state=ChangeState.OPEN, limit=limit)
        ),
    }


def format_capped_count(count: int) -> str:
    """Return the text of a count of what waits; empty for 0."""
    if count == 0:
        return ""
    if count <= COUNT_MAX:
        return str(count)
    return f"{COUNT_MAX}+"
