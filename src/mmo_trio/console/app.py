"""Creates the web app of the console listener."""

from __future__ import annotations

from quart import Response, g, render_template, request

from mmo_sansio.values.clock import format_with_microseconds
from mmo_trio.console import (
    brand_limits,
    configuration_pages,
    live,
    overview,
    payment_export,
    payments,
    providers,
    resolutions,
    second_factor,
    sign_in,
    work_lists,
)
from mmo_trio.console.context import EXTENSION, ConsoleContext
from mmo_trio.console.navigation import load_navigation
from mmo_trio.console.parameters import redirect_to
from mmo_trio.console.permissions import MASKED, Permission
from mmo_trio.console.sessions import NotSignedIn, authenticate, is_own_host
from mmo_trio.console.views import (
    format_json,
    format_money,
    format_response_body,
    format_utc_milliseconds,
    format_utc_seconds,
    format_words,
)
from mmo_trio.design.blueprint import STYLESHEET_ENDPOINT, create_design_blueprint
from mmo_trio.http.asgi.web_app import WebApp
from mmo_trio.metrics.prometheus import PrometheusExporter
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.display_text import visible_text

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
"""One script adds keyboard shortcuts, copying, local times and live pages; every page is complete without it."""

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}

PUBLIC_ENDPOINTS = frozenset({"metrics", "static", STYLESHEET_ENDPOINT, "sign_in.show_form", "sign_in.sign_in"})
"""All other pages are for users who have signed in."""

BLUEPRINTS = (
    sign_in.pages,
    second_factor.pages,
    overview.pages,
    payments.pages,
    payment_export.pages,
    resolutions.pages,
    work_lists.pages,
    providers.pages,
    brand_limits.pages,
    configuration_pages.pages,
    live.pages,
)


def _visible(value: object) -> object:
    """Return what a page shows of a value: text without characters that would turn or hide the text around it."""
    return visible_text(value) if type(value) is str else value


def create_console_app(exporter: PrometheusExporter, context: ConsoleContext) -> WebApp:
    """Create the app of the console and of `GET /metrics`."""
    app = WebApp(__name__, headers=HEADERS, static_cache_control="max-age=3600")
    app.extensions[EXTENSION] = context
    app.jinja_env.filters |= {
        "iso": format_with_microseconds,
        "milliseconds": format_utc_milliseconds,
        "moment": format_utc_seconds,
        "money": format_money,
        "words": format_words,
        "pretty_json": format_json,
        "response_text": format_response_body,
    }
    app.jinja_env.finalize = _visible
    app.jinja_env.globals.update(Permission=Permission, MASKED=MASKED, is_sandbox=context.is_sandbox)
    app.register_blueprint(create_design_blueprint())
    for pages in BLUEPRINTS:
        app.register_blueprint(pages)
    app.register_error_handler(NotSignedIn, _to_sign_in)
    app.register_error_handler(second_factor.EnrolmentRequired, _to_enrolment)
    app.show_http_errors("fault.html")
    app.register_error_handler(StoreUnavailable, _show_store_failure)
    app.register_error_handler(OutcomeUnknown, _show_store_failure)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(await exporter.render(), content_type="text/plain; version=0.0.4; charset=utf-8")

    @app.before_request
    async def admit() -> Response | None:
        g.user = None
        if not is_own_host():
            return _unknown_host_response()
        if request.endpoint not in PUBLIC_ENDPOINTS:
            await authenticate()
            await second_factor.check_enrolment()
        return None

    @app.context_processor
    async def template_variables() -> dict[str, object]:
        settings, user = context.settings, g.get("user")
        return {
            "user": user,
            "four_eyes": settings.four_eyes,
            "second_factor": settings.second_factor,
            "navigation": None if user is None else await load_navigation(user),
        }

    return app


def _unknown_host_response() -> Response:
    """Return the response to a request for an unknown host, which leads nowhere: not to a page, nor to a sign-in."""
    text = (
        "421: this console is not known under the host that the request names. If the name is right, add it to the"
        " setting console.hosts and restart the gateway.\n"
    )
    return Response(text, 421, content_type="text/plain; charset=utf-8")


async def _to_sign_in(_: Exception) -> Response:
    return redirect_to("sign_in.show_form")


async def _to_enrolment(_: Exception) -> Response:
    return redirect_to("second_factor.show")


async def _show_store_failure(error: Exception) -> Response:
    message = (
        "It can't be learnt whether this was stored: look before you repeat it."
        if isinstance(error, OutcomeUnknown)
        else "The store can't serve right now. Nothing was stored; try again."
    )
    page = await render_template("fault.html", title="One moment, please", message=message)
    return Response(page, 503, {"Retry-After": "2"})
