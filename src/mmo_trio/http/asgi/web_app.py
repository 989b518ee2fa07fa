"""The Quart app that the payment pages and the console are built on, and the responses that they
send for long."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TypeAlias

import structlog
import trio
from attrs import Factory, define
from quart import Response, render_template, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from mmo_trio.system.fault_report import describe_fault

logger = structlog.get_logger(__name__)

BODY_BYTES_MAX = 64 * 1024

# A page's address holds its token, so no other site may learn it; nobody may frame a payment.
SECURITY_HEADERS: Mapping[str, str] = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_ExceptionInfo: TypeAlias = tuple[type, BaseException, TracebackType] | tuple[None, None, None]


class WebApp(QuartTrio):
    """A Quart app that adds security headers and logs no personal data.

    `headers` are added to :data:`SECURITY_HEADERS`; `static_cache_control` is for static files, and
    other responses are not stored unless they say so themselves."""

    def __init__(
        self, import_name: str, *, headers: Mapping[str, str], static_cache_control: str
    ) -> None:
        super().__init__(import_name)
        self.config["MAX_CONTENT_LENGTH"] = BODY_BYTES_MAX

        @self.after_request
        async def add_headers(response: Response) -> Response:
            response.headers.update(SECURITY_HEADERS)
            response.headers.update(headers)
            if request.endpoint == "static":
                response.headers["Cache-Control"] = static_cache_control
                await _compress(response)
            # Last, so that a page may say otherwise: a shared computer keeps nothing of a payment.
            response.headers.setdefault("Cache-Control", "no-store")
            return response

    async def compile_templates(self) -> None:
        """Compile each template before anybody waits for its page: the first view of a page would
        take some tens of milliseconds more. In a thread, so that requests are answered
        meanwhile."""
        for name in self.jinja_env.list_templates(extensions=["html"]):
            await trio.to_thread.run_sync(self.jinja_env.get_template, name)

    def show_http_errors(self, template: str) -> None:
        """Answer with this template, which gets `title`, `message` and `status`, where no page or
        no method fits, and whatever else a page raises as an HTTPException."""

        async def show(error: HTTPException) -> Response:
            page = await render_template(
                template, title=error.name, message=error.description, status=error.code
            )
            # Only what clients act on: others could name a path.
            headers = {
                name: value
                for name, value in error.get_headers()
                if name in ("Allow", "Retry-After")
            }
            return Response(page, error.code or 500, headers)

        self.register_error_handler(HTTPException, show)

    def log_exception(self, exception_info: _ExceptionInfo) -> None:
        """Log a fault by its route and kind only (A5, W3).

        A path may hold a page's token, a form a password, a message a payer's number.
        """
        fault = exception_info[1]
        if fault is None:
            description = ""
        else:
            description = describe_fault(fault)

        logger.error(
            "page_request_failed",
            method=request.method,
            route=str(request.url_rule),
            fault=description,
        )


async def _compress(response: Response) -> None:
    """Compress a static file, which holds no secret, for whoever accepts that."""
    # Also where it is not compressed, or a cache would give it to everybody.
    response.vary.add("Accept-Encoding")
    if response.status_code == 200 and request.accept_encodings["gzip"] > 0:
        response.set_data(gzip.compress(await response.get_data(as_text=False), mtime=0))
        response.headers["Content-Encoding"] = "gzip"


@define(eq=False)
class OpenStreams:
    """Counts the streams of one kind that this process has open, in all and by user or page,
    say."""

    limit: int
    limit_each: int
    _open: Counter[str] = Factory(Counter)

    def has_room_for(self, key: str) -> bool:
        """Return whether this user or page may open one more."""
        return self._open.total() < self.limit and self._open[key] < self.limit_each

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Count a stream of this user or page while the block lasts."""
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            self._open += Counter()  # Those without one are forgotten.


def stream_response(
    content: AsyncGenerator[bytes, None], content_type: str = "text/event-stream"
) -> Response:
    """Return a response that has no time limit; by default it sends events (server-sent events)."""
    response = Response(content, content_type=content_type)
    response.timeout = None
    return response
