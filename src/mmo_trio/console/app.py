"""The app of the console listener."""

from __future__ import annotations

from quart import Response
from quart_trio import QuartTrio

from mmo_trio.console.figures import Figures


def console_app(figures: Figures) -> QuartTrio:
    """`GET /metrics`."""
    app = QuartTrio(__name__)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(
            await figures.text(), content_type="text/plain; version=0.0.4; charset=utf-8"
        )

    return app
