"""Finds the operation of a simulated operator by the method and the path of a request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from attrs import Factory, field, frozen

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import Instant
from mmo_simulators.common.faults import Fault

HandlerT = TypeVar("HandlerT")


def _compile_template(template: str) -> re.Pattern[str]:
    # The texts between the names are literal: a full stop in a path is no wildcard.
    return re.compile(
        "".join(_segment_pattern(segment) for segment in re.split(r"(\{\w+\})", template))
    )


def _segment_pattern(text: str) -> str:
    if text.startswith("{"):
        return f"(?P<{text[1:-1]}>[^/]+)"
    return re.escape(text)


@frozen
class SimulatedRoute(Generic[HandlerT]):
    """Names a method and a path that an operator offers."""

    operation: str
    """The name in a script of faults."""
    method: str
    template: str
    """The path; `{name}` stands for any one segment."""
    handler: HandlerT
    _pattern: re.Pattern[str] = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(lambda self: _compile_template(self.template), True),
    )

    def match_request(self, method: str, path: str) -> Mapping[str, str] | None:
        """Return the segments that the template names; None for a request of another route."""
        if method != self.method:
            return None

        match = self._pattern.fullmatch(path)
        if match is None:
            return None
        return match.groupdict()


@frozen
class SimulatedCall:
    """A request to a route, as its handler takes it."""

    request: HttpRequest
    path: str
    segments: Mapping[str, str]
    """Those that the route's template names."""
    faults: Sequence[Fault]
    now: Instant


def match_route(
    routes: Iterable[SimulatedRoute[HandlerT]], method: str, path: str
) -> tuple[SimulatedRoute[HandlerT], Mapping[str, str]] | None:
    """Return the first route of a request and the segments that it names; None when there is
    none."""
    for route in routes:
        segments = route.match_request(method, path)
        if segments is not None:
            return route, segments
    return None
