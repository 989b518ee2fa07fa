"""Tells users on the next page what their act has done."""

from __future__ import annotations

from urllib.parse import quote, unquote

from quart import Response, g

from mmo_trio.console.sessions import cookie, is_automatic, set_cookie

NOTICE_COOKIE = "mmo_console_notice"


def with_notice(response: Response, text: str) -> Response:
    """Return a response that leads to another page, which shows this text."""
    set_cookie(response, NOTICE_COOKIE, quote(text), max_age_s=60)
    return response


def take_notice() -> str:
    """Return the notice for the page that is being made; empty when there is none."""
    text = g.notice = "" if is_automatic() else unquote(cookie(NOTICE_COOKIE))
    return text


def forget_shown_notice(response: Response) -> None:
    if g.get("notice"):
        set_cookie(response, NOTICE_COOKIE, "", max_age_s=0)
