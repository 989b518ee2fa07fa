"""Tells a payment as a story: steps with an icon, who did what, and the time that passed since the step before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attrs import frozen

from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Span, elapsed
from mmo_sansio.values.model import Stage
from mmo_trio.admin.timeline import TimelineEntry
from mmo_trio.console.permissions import PersonalDataMask
from mmo_trio.console.views import to_reading_text

_ICONS = {
    "": "shield",
    "CreatePayment": "shop",
    "ConfirmPage": "user",
    "BeginSubmission": "send",
    "ProviderAccepted": "clock",
    "ProviderSucceeded": "check",
    "ProviderFailed": "cross",
    "ProviderUnreachable": "alert",
    "ProviderNeverReceived": "alert",
    "ProviderCannotTell": "alert",
    "SuspenseRecorded": "inbox",
    "TransactionWoke": "clock",
    "CallbackConcluded": "bell",
    "QrConcluded": "bell",
    "ResolveManually": "user",
}
"""The icons of the steps by the kinds of their entries; all others have that of the gateway."""

_TONES: Mapping[str, str] = {"check": "good", "cross": "bad", "alert": "warn", "inbox": "warn"}


@frozen
class StoryStep:
    """Describes a step of a payment's story."""

    at: Instant
    last_at: Instant | None
    """The time of the last of several equal events; None when there is one."""
    icon: str
    tone: str
    """`good`, `bad` or `warn`; empty for what is neither."""
    actor: str
    text: str
    gap: str
    """The time since the step before, such as `+1.2 s`; empty for the first."""
    stage: str
    """The stage that the payment has reached by it; empty where it stays."""
    times: int
    members: str
    """What is known about it, as formatted JSON; empty when nothing is."""


def tell_story(
    entries: Sequence[TimelineEntry], mask: PersonalDataMask, provider_titles: Mapping[str, str]
) -> list[StoryStep]:
    """Return the steps of a payment, in the order of its timeline."""
    steps, before = [], None
    for each in entries:
        icon = _icon(each)
        members = {name: mask.text(value) for name, value in each.members.items()}
        steps.append(
            StoryStep(
                each.at,
                each.last_at,
                icon,
                _TONES.get(icon, ""),
                actor_name(each.actor, provider_titles),
                to_reading_text(mask.text(each.title)),
                "" if before is None else f"+{format_span(max(Span(0), elapsed(before, each.at)))}",
                "" if each.stages is None else each.stages[1].replace("_", " "),
                each.times,
                json.dumps(members, indent=2, ensure_ascii=False) if members else "",
            )
        )
        before = each.last_at or each.at
    return steps


def _icon(entry: TimelineEntry) -> str:
    if entry.kind == "CallbackConcluded" and entry.members.get("outcome") not in (None, "delivered"):
        return "alert"
    if entry.stages is not None and entry.stages[1] is Stage.FAILED:
        return "cross"
    return _ICONS.get(entry.kind, _ICONS[""])


def actor_name(actor: str, provider_titles: Mapping[str, str]) -> str:
    """Return who acted, for a person: `provider:momo` becomes the provider's title, `user:ada` becomes `ada`."""
    kind, _, name = actor.partition(":")
    if kind == "provider":
        return provider_titles.get(name, name)
    return name or kind.capitalize()


def format_span(span: Span) -> str:
    """Format a length of time: `0.04 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if span < 10 * SECOND:
        return f"{span / SECOND:.2f} s" if span < SECOND else f"{span / SECOND:.1f} s"
    if span < MINUTE:
        return f"{span // SECOND} s"
    if span < HOUR:
        return f"{span // MINUTE} min {span % MINUTE // SECOND} s"
    if span < 24 * HOUR:
        return f"{span // HOUR} h {span % HOUR // MINUTE} min"
    return f"{span // (24 * HOUR)} d {span % (24 * HOUR) // HOUR} h"
