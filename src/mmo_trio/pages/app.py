"""The app of the pages listener, put together."""

from __future__ import annotations

from types import TracebackType
from typing import TypeAlias

from quart import Response, request
from quart_trio import QuartTrio

from mmo_trio.pages.context import PagesContext, SandboxContext
from mmo_trio.pages.docs.pages import ApiDocs, create_docs_blueprint
from mmo_trio.pages.payment.page import create_payment_page_blueprint
from mmo_trio.pages.sandbox.controls import create_sandbox_blueprint
from mmo_trio.pages.sandbox.guide import create_guide_blueprint
from mmo_trio.pages.sandbox.phone import create_phone_blueprint
from mmo_trio.system.fault_report import describe_fault

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

BODY_BYTES_MAX = 64 * 1024
STATIC_CACHE_CONTROL = "public, max-age=3600"
"""How long browsers keep what is the same for all."""


ExceptionInfo: TypeAlias = tuple[type, BaseException, TracebackType] | tuple[None, None, None]


class _PagesApp(QuartTrio):
    """Logs faults by their route and kind: a path holds a page's token, a message may hold a payer's number (W3)."""

    def log_exception(self, exception_info: ExceptionInfo) -> None:
        fault = exception_info[1]
        told = "" if fault is None else describe_fault(fault)
        self.logger.error("%s %s failed: %s", request.method, request.url_rule, told)


def create_pages_app(
    context: PagesContext, *, api_docs: ApiDocs, sandbox: SandboxContext | None
) -> QuartTrio:
    """Payment pages, documentation, and in a sandbox its controls, its virtual phone and its guide as well."""
    app = _PagesApp(__name__)
    app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES_MAX
    app.register_blueprint(create_payment_page_blueprint(context))
    app.register_blueprint(create_docs_blueprint(api_docs))
    if sandbox is not None:
        for parts in (create_sandbox_blueprint, create_phone_blueprint, create_guide_blueprint):
            app.register_blueprint(parts(context, sandbox))

    @app.after_request
    async def guard(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["X-Frame-Options"] = "DENY"
        if request.endpoint == "static":
            response.headers["Cache-Control"] = STATIC_CACHE_CONTROL
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return app
