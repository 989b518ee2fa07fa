"""Keeps other sites from using a sandbox through the browser of its developer."""

from __future__ import annotations

from urllib.parse import urlsplit

from quart import Response, request

OWN_SITES = ("same-origin", "none")
"""Values of `Sec-Fetch-Site` for requests of our own pages and of the person at the browser (W3C Fetch Metadata)."""


async def reject_cross_site_post() -> Response | None:
    """Answer 403 to a request that changes something and that another site has made the browser send.

    Programs other than browsers send neither field and are not affected."""
    if request.method in ("GET", "HEAD", "OPTIONS") or not _is_cross_site():
        return None
    return Response("This request comes from another site, so it is refused.", 403, content_type="text/plain")


def _is_cross_site() -> bool:
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in OWN_SITES
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != request.host.lower()
