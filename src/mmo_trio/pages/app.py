"""The app of the pages listener, put together."""

from __future__ import annotations

from types import TracebackType
from typing import TypeAlias

from quart import Response, request
from quart_trio import QuartTrio

from mmo_trio.pages.context import Desk, SandboxDesk
from mmo_trio.pages.docs.pages import Papers, paper_pages
from mmo_trio.pages.payment.page import payment_pages
from mmo_trio.pages.sandbox.controls import sandbox_controls
from mmo_trio.pages.sandbox.guide import guide_pages
from mmo_trio.pages.sandbox.phone import phone_pages
from mmo_trio.system.fault_report import describe_fault

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

BODY_BYTES_MAX = 64 * 1024
STATIC_KEPT = "public, max-age=3600"
"""How long browsers keep what is the same for all."""


ExceptionInfo: TypeAlias = tuple[type, BaseException, TracebackType] | tuple[None, None, None]


class _DiscreetApp(QuartTrio):
    """Logs faults by their route and kind: a path holds a page's token, a message may hold a payer's number (W3)."""

    def log_exception(self, exception_info: ExceptionInfo) -> None:
        fault = exception_info[1]
        told = "" if fault is None else describe_fault(fault)
        self.logger.error("%s %s failed: %s", request.method, request.url_rule, told)


def pages_app(desk: Desk, *, papers: Papers, sandbox: SandboxDesk | None) -> QuartTrio:
    """Payment pages, documentation, and in a sandbox its controls, its virtual phone and its guide as well."""
    app = _DiscreetApp(__name__)
    app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES_MAX
    app.register_blueprint(payment_pages(desk))
    app.register_blueprint(paper_pages(papers))
    if sandbox is not None:
        for parts in (sandbox_controls, phone_pages, guide_pages):
            app.register_blueprint(parts(desk, sandbox))

    @app.after_request
    async def guard(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["X-Frame-Options"] = "DENY"
        if request.endpoint == "static":
            response.headers["Cache-Control"] = STATIC_KEPT
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return app
