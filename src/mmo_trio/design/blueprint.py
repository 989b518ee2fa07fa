"""Serves the stylesheet, and gives templates the macros under `design/`."""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache
from pathlib import Path

from attrs import frozen
from quart import Blueprint, Response, request

STYLESHEET_FILE = Path(__file__).parent / "static" / "design.css"

# The address of the stylesheet changes with it.
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}

# Public in every app, as a page without its stylesheet can't be read well.
STYLESHEET_ENDPOINT = "design.stylesheet"

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SPACE_AROUND = re.compile(r" ?([{};,>]) ?")
_SPACE = re.compile(r"\s+")


def compact_css(text: str) -> str:
    """Return the stylesheet without comments and needless whitespace; its strings contain neither.

    `+`, `:` and parentheses keep their spaces: those are part of selectors and of `calc`.
    """
    text = _SPACE.sub(" ", _COMMENT.sub("", text))
    return _SPACE_AROUND.sub(r"\1", text).replace(": ", ":").replace(";}", "}").strip()


@frozen
class _Stylesheet:
    body: bytes
    compressed: bytes
    version: str
    """Changes with it."""


@cache
def _stylesheet() -> _Stylesheet:
    """Return what every app of this interpreter serves."""
    body = compact_css(STYLESHEET_FILE.read_text(encoding="utf-8")).encode()
    return _Stylesheet(body, gzip.compress(body, mtime=0), hashlib.sha256(body).hexdigest()[:8])


def create_design_blueprint() -> Blueprint:
    """Create `/design.css`, and `stylesheet_url` for templates, which changes with the
    stylesheet."""
    served = _stylesheet()
    design = Blueprint("design", __name__, template_folder="templates")

    @design.get("/design.css")
    async def stylesheet() -> Response:
        response = Response(served.body, content_type="text/css; charset=utf-8", headers=HEADERS)
        if request.accept_encodings["gzip"] > 0:
            response.set_data(served.compressed)
            response.headers["Content-Encoding"] = "gzip"
        return response

    @design.app_context_processor
    async def template_variables() -> dict[str, object]:
        return {"stylesheet_url": f"/design.css?{served.version}"}

    return design
