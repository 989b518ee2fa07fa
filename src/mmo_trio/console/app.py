"""The app of the console listener."""

from __future__ import annotations

from types import TracebackType
from typing import TypeAlias

from quart import Response, g, render_template, request, url_for
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from mmo_trio.console.audit import create_audit_blueprint
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.overview import create_overview_blueprint
from mmo_trio.console.payments import create_payments_blueprint
from mmo_trio.console.permissions import Permission
from mmo_trio.console.providers import create_providers_blueprint
from mmo_trio.console.resolutions import create_resolutions_blueprint
from mmo_trio.console.sessions import NotSignedIn, SessionGuard
from mmo_trio.console.sign_in import create_sign_in_blueprint
from mmo_trio.console.views import format_utc_seconds
from mmo_trio.console.work_lists import create_work_lists_blueprint
from mmo_trio.metrics.prometheus import PrometheusExporter
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.fault_report import describe_fault

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""There is no script at all."""

SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}

BODY_BYTES_MAX = 64 * 1024

PUBLIC_ENDPOINTS = frozenset({"metrics", "static", "signing.sign_in", "signing.signed_in"})
"""All other pages are for operators who have signed in."""

ExceptionInfo: TypeAlias = tuple[type, BaseException, TracebackType] | tuple[None, None, None]


class _ConsoleApp(QuartTrio):
    """Logs faults by their route and kind: a form may hold a password, a search a customer's number (A5)."""

    def log_exception(self, exception_info: ExceptionInfo) -> None:
        fault = exception_info[1]
        told = "" if fault is None else describe_fault(fault)
        self.logger.error("%s %s failed: %s", request.method, request.url_rule, told)


def create_console_app(exporter: PrometheusExporter, context: ConsoleContext) -> QuartTrio:
    """The console, and `GET /metrics`."""
    app = _ConsoleApp(__name__)
    app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES_MAX
    app.jinja_env.filters |= {"moment": format_utc_seconds}
    app.jinja_env.globals["Permission"] = Permission
    guard = SessionGuard(context)
    for pages in (
        create_sign_in_blueprint(context, guard),
        create_overview_blueprint(context),
        create_payments_blueprint(context),
        create_resolutions_blueprint(context, guard),
        create_work_lists_blueprint(context, guard),
        create_providers_blueprint(context, guard),
        create_audit_blueprint(context, guard),
    ):
        app.register_blueprint(pages)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(
            await exporter.render(), content_type="text/plain; version=0.0.4; charset=utf-8"
        )

    @app.before_request
    async def admit() -> None:
        g.visitor = None
        if request.endpoint not in PUBLIC_ENDPOINTS:
            await guard.authenticate()

    @app.context_processor
    async def surroundings() -> dict[str, object]:
        return {"visitor": g.get("visitor"), "four_eyes": context.settings.four_eyes}

    @app.after_request
    async def protect(response: Response) -> Response:
        response.headers.update(SECURITY_HEADERS)
        is_still = request.endpoint == "static"
        response.headers["Cache-Control"] = "max-age=3600" if is_still else "no-store"
        return response

    @app.errorhandler(NotSignedIn)
    async def sign_in_first(_: Exception) -> Response:
        return Response("", 303, {"Location": url_for("signing.sign_in")})

    @app.errorhandler(HTTPException)
    async def refused(error: HTTPException) -> Response:
        shown = await render_template("fault.html", title=error.name, told=error.description)
        return Response(shown, error.code or 500, dict(_allow_header(error)))

    @app.errorhandler(StoreUnavailable)
    @app.errorhandler(OutcomeUnknown)
    async def busy(error: Exception) -> Response:
        unknown = isinstance(error, OutcomeUnknown)
        told = (
            "It can't be learnt whether this was stored: look before you repeat it."
            if unknown
            else "The store can't serve right now. Nothing was stored; try again."
        )
        shown = await render_template("fault.html", title="One moment, please", told=told)
        return Response(shown, 503, {"Retry-After": "2"})

    return app


def _allow_header(error: HTTPException) -> list[tuple[str, str]]:
    """What else the answer needs: `Allow` for a method that isn't allowed."""
    return [(name, value) for name, value in error.get_headers() if name == "Allow"]
