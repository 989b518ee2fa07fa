"""The app of the pages listener, put together."""

from __future__ import annotations

from quart import Response
from quart_trio import QuartTrio

from mmo_trio.pages.desk import Desk, SandboxDesk
from mmo_trio.pages.payment import payment_pages
from mmo_trio.pages.sandbox import sandbox_controls

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)

BODY_BYTES_MAX = 64 * 1024


def pages_app(desk: Desk, *, sandbox: SandboxDesk | None) -> QuartTrio:
    """Payment pages, and in a sandbox its controls as well."""
    app = QuartTrio(__name__)
    app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES_MAX
    app.register_blueprint(payment_pages(desk))
    if sandbox is not None:
        app.register_blueprint(sandbox_controls(desk, sandbox))

    @app.after_request
    async def guard(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return app
