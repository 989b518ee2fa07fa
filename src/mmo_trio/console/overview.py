"""The first page: how many payments there were, how many succeeded, and how long they took."""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import frozen
from quart import Blueprint, render_template, request
from werkzeug.exceptions import BadRequest

from mmo_sansio.values.clock import DAY, HOUR, SECOND, Instant, Span
from mmo_trio.console.charts import (
    HEIGHT,
    LEFT,
    WIDTH,
    Figure,
    along,
    charts,
    figures_from,
    latency_text,
    rate_text,
)
from mmo_trio.console.context import ConsoleDesk
from mmo_trio.console.views import moment
from mmo_trio.storage.interface.admin_types import Dimension, Tally

ROWS_MAX = 50


@frozen
class View:
    """A length of time to look at, in steps."""

    name: str
    title: str
    step: Span
    steps: int


VIEWS = {
    each.name: each
    for each in (View("day", "24 hours", HOUR, 24), View("month", "30 days", DAY, 30))
}


def overview_pages(desk: ConsoleDesk) -> Blueprint:
    """GET /, with `view`, `by`, `of` and `value`, and `end` to look back."""
    pages = Blueprint("overview", __name__)

    @pages.get("/")
    async def show() -> str:
        view, by = VIEWS.get(request.args.get("view", "day")), _dimension("by")
        if view is None:
            raise BadRequest("There is no such view.")
        end = _end(request.args.get("end"), desk.now(), view)
        begin = end - view.steps * view.step
        of, value = _dimension("of"), request.args.get("value", "").strip()[:255]
        only = (of, value) if of is not None and value else None
        wanted, by = Tally(view.step, begin, end, only), by or Dimension.BRAND
        office = desk.store.office
        steps = along(await office.tally(wanted, by=None), begin, end, view.step)
        rows = sorted(
            figures_from(await office.tally(wanted, by=by)).values(),
            key=lambda each: (-each.started - each.ended, each.key),
        )
        name_moment = _hour if view.step == HOUR else _day
        return await render_template(
            "overview.html",
            charts=charts(steps, name_moment),
            steps=[(moment(int(each.key))[:16], *_cells(each)) for each in steps],
            rows=[(each.key, *_cells(each)) for each in rows[:ROWS_MAX]],
            left_out=max(0, len(rows) - ROWS_MAX),
            view=view,
            views=VIEWS.values(),
            by=by,
            dimensions=list(Dimension),
            only=only,
            begin=moment(begin)[:16],
            end=moment(end)[:16],
            earlier=_text_of(begin),
            later=_text_of(end + view.steps * view.step) if end < desk.now() else None,
            here=_text_of(end),
            size=(WIDTH, HEIGHT, LEFT),
        )

    return pages


def _cells(figure: Figure) -> tuple[int, int, int, str, str, str]:
    return (
        figure.started,
        figure.succeeded,
        figure.failed,
        rate_text(figure.success_rate),
        latency_text(figure.quantile(0.5)),
        latency_text(figure.quantile(0.95)),
    )


def _dimension(name: str) -> Dimension | None:
    text = request.args.get(name, "")
    if not text:
        return None
    try:
        return Dimension(text)
    except ValueError:
        raise BadRequest("Payments are counted by brand, method or provider.") from None


def _end(text: str | None, now: Instant, view: View) -> Instant:
    """The end of the step that is under way, or that was asked for (`2026-11-21T15`)."""
    at = now
    if text:
        try:
            asked = datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC)
        except ValueError:
            raise BadRequest("The end is an hour, as in 2026-11-21T15.") from None
        at = int(asked.timestamp()) * SECOND - 1
    return min(at, now) // view.step * view.step + view.step


def _text_of(at: Instant) -> str:
    return moment(at)[:13].replace(" ", "T")


def _hour(at: Instant) -> str:
    return moment(at)[11:16]


def _day(at: Instant) -> str:
    return moment(at)[5:10]
