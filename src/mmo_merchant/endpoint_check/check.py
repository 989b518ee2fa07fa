"""Checks a merchant's endpoint: plays the situations one by one, asks what was handled, and
judges."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import anyio
from attrs import evolve, frozen

from mmo_merchant.endpoint_check.player import EndpointUnavailable, PlayedEndpoint, get, play
from mmo_merchant.endpoint_check.situations.played_payments import PlayedPayments
from mmo_merchant.endpoint_check.situations.situation import Handling, Script, Situation
from mmo_merchant.endpoint_check.situations.verdict import (
    NoEndpointAnswer,
    Observation,
    Verdict,
    VerdictKind,
    judge,
    parse_handling,
)
from mmo_sansio.http.egress_rules import parse_url
from mmo_sansio.testing.builders import ulid_digits
from mmo_sansio.values.clock import MILLISECOND, Instant

# Seconds for which a merchant's own program is asked again, as work may be done after the answer.
SETTLE_S: Final = 3.0

# Seconds between two such questions.
ASK_AGAIN_S: Final = 0.2

# Seconds for the answer to one of them.
PROBE_TIMEOUT_S: Final = 15.0

# Stands for the gatewayReference in a URL or a command.
REFERENCE_PLACE: Final = "{reference}"

# Of the 80 random bits of a ULID the first 40; the other 40 number the payments of the run.
_RUN_RANDOM_BITS: Final = 40

# Returns what the merchant's own program reports about a gatewayReference. Raises ProbeError.
Probe: TypeAlias = Callable[[str], Awaitable[str]]


class ProbeError(Exception):
    """The merchant's own program could not be asked; the message is a sentence."""


@frozen
class _Played:
    """Holds a situation with what was sent in it, and what followed."""

    situation: Situation
    script: Script
    observed: Sequence[Sequence[Observation]]
    """What followed each request, round by round."""

    @property
    def begins_without_answer(self) -> bool:
        return isinstance(self.observed[0][0], NoEndpointAnswer)


async def check_endpoint(
    endpoint: PlayedEndpoint,
    situations: Sequence[tuple[Situation, PlayedPayments]],
    *,
    probe: Probe | None,
    settle_s: float = SETTLE_S,
) -> list[Verdict]:
    """Return a verdict on each situation, in their order.

    When the first request finds no connection at all, the rest is not played. What was handled is
    asked at the end, so that effects which come late count, too."""
    plays: list[_Played] = []
    for situation, payments in situations:
        if situation.needs_tls and endpoint.target.scheme == "http":
            continue

        script = situation.write(payments)
        plays.append(_Played(situation, script, await play(endpoint, script)))

        # Nobody answers at all: every other situation would only show that again.
        if len(plays) == 1 and plays[0].begins_without_answer:
            break

    # A second effect of a repeat may come after the answers; it has to show, too.
    if probe is not None:
        await anyio.sleep(settle_s)

    # One deadline for all payments: a program that handles nothing costs it once.
    deadline = anyio.current_time() + settle_s
    verdicts = {}
    for played in plays:
        handled = None
        if probe is not None:
            handled = await _handled(probe, played.script.handled, deadline)

        verdicts[played.situation.name] = judge(
            played.situation, played.script, played.observed, handled
        )

    return [verdicts.get(situation.name) or _not_played(situation) for situation, _ in situations]


def numbered(
    situations: Sequence[Situation],
    *,
    run: str,
    now: Instant,
    merchant_reference: str | None = None,
) -> list[tuple[Situation, PlayedPayments]]:
    """Return each situation with payments of its own; `run` is one of `new_run`."""
    return [
        (situation, PlayedPayments(run, number, now, merchant_reference))
        for number, situation in enumerate(situations)
    ]


def new_run(now: Instant) -> str:
    """Return the first 18 characters of a fresh ULID: 48 bits of time and 40 random ones."""
    return ulid_digits(
        now // MILLISECOND << _RUN_RANDOM_BITS | secrets.randbits(_RUN_RANDOM_BITS), 18
    )


def _not_played(situation: Situation) -> Verdict:
    if situation.needs_tls:
        reason = "It needs TLS."
    else:
        reason = "The endpoint gave no answer to the first request."
    return Verdict(situation, VerdictKind.NOT_PLAYED, (reason,))


async def _handled(
    probe: Probe, expected: Mapping[str, Handling], deadline: float
) -> dict[str, Handling | str]:
    """Return what was handled, as soon as it is as expected, or at the latest after the
    deadline."""
    handled = {}
    for reference, handling in expected.items():
        # Only what was handled too few times may become right with time.
        while True:
            handled[reference] = reported = await _ask(probe, reference)
            is_awaited = isinstance(reported, Handling) and reported.times < handling.times
            if not is_awaited or anyio.current_time() >= deadline:
                break
            await anyio.sleep(ASK_AGAIN_S)

    return handled


async def _ask(probe: Probe, reference: str) -> Handling | str:
    try:
        return parse_handling(await probe(reference))
    except (ProbeError, ValueError) as error:
        return str(error)


def find_probe(text: str, endpoint: PlayedEndpoint) -> Probe:
    """Return the probe that reads an http or https URL, or runs a command and reads its standard
    output. Either has REFERENCE_PLACE where the gatewayReference belongs. Raises ValueError, with a
    sentence, when it cannot be used."""
    if REFERENCE_PLACE not in text:
        raise ValueError(f"write {REFERENCE_PLACE} where the gatewayReference belongs.")
    # Split once, here: what replaces the reference later is never read as a second word.
    if not text.startswith(("http://", "https://")):
        return partial(_ask_command, shlex.split(text))
    # So that a wrong address shows before anything is played.
    parse_url(text.replace(REFERENCE_PLACE, "reference"))
    return partial(_ask_url, evolve(endpoint, deadline_s=PROBE_TIMEOUT_S), text)


async def _ask_command(words: Sequence[str], reference: str) -> str:
    command = [word.replace(REFERENCE_PLACE, reference) for word in words]
    with anyio.move_on_after(PROBE_TIMEOUT_S):
        try:
            done = await anyio.run_process(command, stderr=None, check=False)
        except OSError as error:
            raise ProbeError(f"The command {command[0]} cannot be run: {error.strerror}.") from None
        if done.returncode != 0:
            raise ProbeError(f"The command ended with exit code {done.returncode}.")
        return done.stdout.decode(errors="replace")
    raise ProbeError(f"The command was not over after {PROBE_TIMEOUT_S:g} s.")


async def _ask_url(endpoint: PlayedEndpoint, url: str, reference: str) -> str:
    try:
        status, body = await get(
            evolve(endpoint, target=parse_url(url.replace(REFERENCE_PLACE, reference)))
        )
    except EndpointUnavailable as error:
        raise ProbeError(f"There was no answer: {error}.") from None

    match status:
        case 200:
            return body.decode(errors="replace")
        case 404:
            # A resource that does not exist is what many programs answer for a payment that they do
            # not know.
            return json.dumps(0)
        case _:
            raise ProbeError(f"It answered {status}.")
