"""Formats what the pages of the console show: times, amounts, a payment's members and its story,
and audit events."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.values.clock import (
    SECOND,
    Instant,
    Span,
    elapsed,
    format_with_microseconds,
    to_datetime,
)
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Stage, Transaction, Type
from mmo_sansio.values.number_format import format_amount, format_amounts_in
from mmo_trio.admin.timeline import STAGE_TEXTS, TimelineEntry
from mmo_trio.console.permissions import PersonalDataMask
from mmo_trio.storage.interface.admin_types import AuditRow, SuspenseEntry
from mmo_trio.system.display_text import format_span

# Limit on the characters of a merchant's response that are shown.
RESPONSE_CHARACTERS_MAX = 4_000


def format_utc_seconds(at: Instant | None) -> str:
    """Format an instant in UTC, `2026-11-21 15:04:05`; empty for None."""
    if at is None:
        return ""
    return format_with_microseconds(at)[:19].replace("T", " ")


def format_day(at: Instant) -> str:
    """Return the day of an instant in UTC, `Sunday, 29 November 2026`."""
    day = to_datetime(at)
    return f"{day:%A}, {day.day} {day:%B %Y}"


def format_time(at: Instant) -> str:
    """Return the time of day of an instant in UTC, `15:04:05`."""
    return format_utc_seconds(at)[11:]


TYPE_TEXTS: Mapping[Type, str] = {
    Type.PAYIN: "pay-in",
    Type.PAYOUT: "pay-out",
    Type.TAX: "tax pay-out",
}


def format_words(name: str | None) -> str:
    """Return a name in snake case as words, `user cancelled`; empty for None."""
    if name is None:
        return ""
    return name.replace("_", " ")


def to_reading_text(sentence: str) -> str:
    """Return a sentence with its amounts and times as pages write them: `KES 1,250.00`, `2026-11-21
    15:04:05 UTC`, and reasons of failure as words."""
    sentence = _ERROR_CODE.sub(lambda found: format_words(found[0]), sentence)
    sentence = _TIME.sub(r"\1 \2 UTC", sentence)
    return format_amounts_in(sentence)


_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9:]{8})(?:\.[0-9]+)?Z")
_ERROR_CODE = re.compile(rf"\b(?:{'|'.join(ErrorCode)})\b")


# The states of what waits for a person, and the stages of a payment before its end.
_STATE_TEXTS: Mapping[str, str] = {"open": "to do", **STAGE_TEXTS}


def format_state(name: str) -> str:
    """Return a state, or the stage of a payment, in words."""
    return _STATE_TEXTS.get(name) or format_words(name)


def _utc(at: Instant | None) -> str:
    if at is None:
        return ""
    return f"{format_utc_seconds(at)} UTC"


def _later_on(at: Instant | None, day: Instant) -> str:
    """Return a time in UTC, with its date where that is another than the one of this day."""
    if at is None:
        return ""
    if format_day(at) == format_day(day):
        return f"{format_time(at)} UTC"
    return _utc(at)


# The members that a payment's page shows at once, beside its head; a click shows the others.
MAIN_FIELDS = frozenset(
    {
        *("Simulated", "Number", "First name", "Last name", "Settled", "Fee", "Provider's receipt"),
        *("Created", "Expires", "Completed", "Reason of failure", "Meaning"),
    }
)


def list_payment_fields(
    transaction: Transaction, mask: PersonalDataMask
) -> Sequence[tuple[str, str]]:
    """Return the names and values of a payment's members; absent ones are left out, and the date
    stands once where it is the same."""
    order, progress = transaction.order, transaction.progress
    data, party = progress.provider_data, order.party
    has_ended = progress.stage.is_terminal
    rows = [
        ("Status", transaction.status if has_ended else f"pending: {format_state(progress.stage)}"),
        ("Brand", order.brand),
        ("Type and flow", f"{order.type}, {order.flow}"),
        ("Gateway reference", transaction.reference),
        ("Merchant reference", order.merchant_reference),
        ("Reconciliation reference", order.reconciliation_reference),
        ("Provider", f"{order.provider} ({order.provider_title})"),
        ("Simulated", "no money moves" if order.is_simulated else ""),
        ("Provider's receipt", progress.provider_reference),
        ("Method and country", f"{order.method}, {order.country}"),
        ("Number", mask.number(party.msisdn)),
        ("Customer", mask.number(party.id)),
        ("First name", mask.name(party.first_name)),
        ("Last name", mask.name(party.last_name)),
        ("E-mail", mask.name(party.email)),
        ("Asked for", format_amount(order.requested)),
        ("Settled", progress.final and format_amount(progress.final)),
        ("Fee", data and data.fee and format_amount(data.fee)),
        ("Labels", order.labels and mask.free_text(format_members(order.labels))),
        ("Created", _utc(order.created_at)),
        (
            "Sent to the provider",
            _later_on(
                progress.submitted_at and order.to_utc(progress.submitted_at), order.created_at
            ),
        ),
        (
            "Expires",
            "" if has_ended else _later_on(order.to_utc(order.expires_at), order.created_at),
        ),
        ("Completed", _later_on(progress.completed_at, order.created_at)),
        ("Result by", progress.completion_source),
        ("Reason of failure", format_words(progress.error_code)),
        ("Meaning", progress.error_message),
        (
            "Provider's error",
            data and _provider_error_text(data.error_code, data.error_message, mask),
        ),
        (
            "Provider's data on the customer",
            data and mask.free_text(format_members(data.party_data)),
        ),
        ("Callback to", order.result_url and mask.url(order.result_url)),
    ]
    return [(name, str(value)) for name, value in rows if value]


def _provider_error_text(code: str | None, message: str | None, mask: PersonalDataMask) -> str:
    return " ".join(part for part in (code and mask.text(code), mask.free_text(message)) if part)


_ASK_WHICH_IS_RIGHT = "Ask the provider which result is right, then tell the merchant."
_LOOK_RECEIPT_UP = (
    "Look the receipt up in the provider's portal: until it is there, nothing has been paid."
)
_LOOK_PAYMENT_UP = "Look the payment up in the provider's portal: it may have been paid."

# What to do about an entry, by its reason.
SUSPENSE_ADVICE: Mapping[SuspenseReason, str] = {
    SuspenseReason.LATE_RESULT: _ASK_WHICH_IS_RIGHT,
    SuspenseReason.CONFLICTING_RESULT: _ASK_WHICH_IS_RIGHT,
    SuspenseReason.REPEATED_RESULT: "It says the same once more: nothing is to do but to close it.",
    SuspenseReason.UNKNOWN_TRANSACTION: (
        "Ask the provider which payment it means, and whether money has moved."
    ),
    SuspenseReason.WRONG_PROVIDER: "Ask the provider how it knows a payment of another one.",
    SuspenseReason.WRONG_CURRENCY: "Ask the provider which currency has moved.",
    SuspenseReason.UNMATCHED_DEPOSIT: (
        "Ask the provider who has paid it, then find out for which merchant it was meant."
    ),
    SuspenseReason.CONFLICTING_DEPOSIT: (
        "Compare it with the payment: the money may have come twice. Tell the merchant."
    ),
    SuspenseReason.UNCONFIRMED_DEPOSIT: _LOOK_RECEIPT_UP,
    SuspenseReason.AMOUNT_DIFFERS: "Ask the merchant whether this amount is for the payment.",
    SuspenseReason.UNCONFIRMED_RECEIPT: _LOOK_RECEIPT_UP,
    SuspenseReason.UNPROVED_SUCCESS: _LOOK_PAYMENT_UP,
    SuspenseReason.UNANSWERED_QUESTION: _LOOK_PAYMENT_UP,
    SuspenseReason.UNSUPPORTED_CURRENCY: "Ask the provider why it sends this currency.",
    SuspenseReason.SETTLED_LESS: "Ask the provider where the rest is, and tell the merchant.",
    SuspenseReason.SETTLED_MORE: "Ask the provider whose money the rest is, and tell the merchant.",
    SuspenseReason.UNREADABLE: "Read what was reported, and ask the provider what it means.",
}


# The reports of providers that their own names don't describe.
_REPORT_TEXTS = {"hint": "no result", "unmatched": "a payment that fits none"}


def describe_suspense(entry: SuspenseEntry, payment: Transaction | None) -> str:
    """Return a sentence with what a provider has reported, after what was asked of its payment."""
    report = json.loads(entry.content)
    name, amount = str(report.get("result", "")), report.get("amount")
    told = ", ".join(part for part in (_REPORT_TEXTS.get(name, format_words(name)), amount) if part)
    if payment is None or "reversal" in report:
        return to_reading_text(f"Reported {told}.")

    is_settled = entry.reason in (SuspenseReason.SETTLED_LESS, SuspenseReason.SETTLED_MORE)
    if is_settled:
        words = f"settled {amount}"
    else:
        words = f"reported {told}"

    return to_reading_text(f"Asked {payment.order.requested}, {words}.")


@frozen
class StoryStep:
    at: Instant
    last_at: Instant | None
    """The time of the last of several equal events; None when there is one."""
    icon: str
    tone: str
    """`good`, `bad` or `warn`; empty for what is neither."""
    actor: str
    text: str
    gap: str
    """The time since the step before, such as `+0.20 s`; empty for the first, and where it is
    none."""
    end: str
    """The end that the payment has reached by it, `succeeded` or `failed`; empty elsewhere."""
    times: int
    members: str
    """What is known about it, as formatted JSON; empty when nothing is."""


def tell_story(
    entries: Sequence[TimelineEntry], mask: PersonalDataMask, provider_titles: Mapping[str, str]
) -> list[StoryStep]:
    """Return the steps of a payment, in the order of its timeline."""
    steps, before = [], None
    for entry in entries:
        icon = _icon(entry)
        members = {name: mask.text(value) for name, value in entry.members.items()}
        if before is None:
            gap = Span(0)
        else:
            gap = elapsed(before, entry.at)

        end = ""
        if entry.stage_after in _ENDS:
            end = entry.stage_after

        steps.append(
            StoryStep(
                at=entry.at,
                last_at=entry.last_at,
                icon=icon,
                tone=_TONES.get(icon, ""),
                actor=actor_name(entry.actor, provider_titles),
                text=mask.text(to_reading_text(entry.title)),
                gap=f"+{format_span(gap)}" if gap >= SHOWN_SPAN else "",
                end=end,
                times=entry.times,
                members=json.dumps(members, indent=2, ensure_ascii=False) if members else "",
            )
        )
        before = entry.last_at or entry.at

    return steps


# The shortest time that is written.
SHOWN_SPAN = Span(SECOND // 100)


@frozen
class Phase:
    """Describes a part of a payment's life, as a part of a bar."""

    name: str
    span: str
    """How long it took, such as `12 s`."""
    look: str
    """The class of its colour, none of which says that something went wrong."""
    begin: float
    """Where it begins on the bar, in hundredths of the whole."""
    width: float


def list_phases(entries: Sequence[TimelineEntry]) -> list[Phase]:
    """Return where the time of a payment went, from its request to its callback: with us, until the
    provider had it, until its result, and until the merchant knew. Empty before its end."""
    ends = [entry for entry in entries if entry.stage_after in _ENDS]
    sent = [entry for entry in entries if entry.kind == "BeginSubmission"]
    if not ends or not sent or not entries:
        return []

    ended_at = ends[0].at
    accepted = [entry.at for entry in entries if entry.kind == "ProviderAccepted"]
    called_back = [entry.at for entry in entries if entry.kind == "CallbackConcluded"]
    marks = [
        ("before it was sent", "c4", entries[0].at, sent[-1].at),
        ("until the provider had it", "c2", sent[-1].at, min(accepted, default=sent[-1].at)),
        ("PIN and result", "c1", max(sent[-1].at, min(accepted, default=sent[-1].at)), ended_at),
        ("callback", "dim", ended_at, max(called_back, default=ended_at)),
    ]

    spans = [max(0, elapsed(begin, end)) for _, _, begin, end in marks]
    whole = sum(spans)
    if not whole:
        return []

    phases, begin = [], 0.0
    for (name, look, *_), span in zip(marks, spans, strict=True):
        width = 100 * span / whole
        if span >= SHOWN_SPAN:
            phases.append(Phase(name, format_span(Span(span)), look, begin, width))

        begin += width

    return phases


def _icon(entry: TimelineEntry) -> str:
    if entry.kind == "CallbackConcluded" and entry.members.get("outcome") not in (
        None,
        "delivered",
    ):
        return "alert"
    if entry.stage_after == Stage.FAILED:
        return "cross"
    return _ICONS.get(entry.kind, _ICONS[""])


_ENDS = frozenset((Stage.SUCCEEDED, Stage.FAILED))

# The icons of the steps by the kinds of their entries; all others have that of the gateway.
_ICONS = {
    "": "shield",
    "CreatePayment": "shop",
    "ConfirmPage": "user",
    "PayerReturned": "user",
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

_TONES: Mapping[str, str] = {"check": "good", "cross": "bad", "alert": "warn", "inbox": "warn"}


def actor_name(actor: str, provider_titles: Mapping[str, str]) -> str:
    """Return who acted, for a person: `provider:momo` becomes the provider's title, `user:ada`
    becomes `ada`."""
    kind, _, name = actor.partition(":")
    if kind == "provider":
        return provider_titles.get(name, name)
    return name or kind.capitalize()


def parse_actor(text: str) -> str:
    """Return the actor whom a user names as the list shows it, `ada` or `root (command line)`, or
    as the log does."""
    if ":" in text or text in ("gateway", "nobody"):
        return text
    name = text.removesuffix(" (command line)")
    if name == text:
        return f"user:{name}"
    return f"cli:{name}"


@frozen
class ShownEvent:
    """Describes an audit event in words."""

    at: Instant
    actor: str
    action: str
    about: str
    details: Sequence[tuple[str, str]]
    """What is known about it, by names in words."""


def show_event(row: AuditRow, mask: PersonalDataMask) -> ShownEvent:
    """Return an audit event as people read it, with what a mask leaves of its details."""
    event = row.event
    details = [
        (_words_of_member(name), mask.text(_detail_text(name, value, mask)))
        for name, value in json.loads(event.detail).items()
        if value not in (None, "", [], {})
    ]
    kind, _, name = event.actor.partition(":")
    if kind == "cli":
        actor = f"{name} (command line)"
    else:
        actor = name or kind

    return ShownEvent(
        event.at, actor, format_words(event.action), event.about.replace(":", " ", 1), details
    )


def _detail_text(name: str, value: object, mask: PersonalDataMask) -> str:
    match value:
        case str():
            if name in _PLAIN_MEMBERS:
                return value
            return mask.free_text(value) or ""
        case list():
            if len(value) > LISTED_MAX:
                more = f" and {len(value) - LISTED_MAX:,} more"
            else:
                more = ""
            return ", ".join(str(element) for element in value[:LISTED_MAX]) + more
        case dict():
            return ", ".join(
                f"{_words_of_member(str(key))} {member}" for key, member in value.items()
            )
        case _:
            return str(value)


def _words_of_member(name: str) -> str:
    """Return the name of a member in words: `proposedBy` becomes `proposed by`."""
    return re.sub("([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").lower()


# Members of a list in an event's details that are shown; `mmo audit list --json` has them all.
LISTED_MAX = 12

# The members of an audit event's detail that are no free text.
_PLAIN_MEMBERS = frozenset(
    {
        "loginUser",
        "outcome",
        "proposedBy",
        "role",
        "session",
        "user",
        "versionAfter",
        "versionBefore",
        "wanted",
    }
)


def format_members(text: str | None) -> str | None:
    """Return the members of a JSON object as words, `first name Jane, last name Doe`; any other
    text stays as it is."""
    try:
        members = json.loads(text or "")
    except ValueError:
        return text
    if not isinstance(members, dict):
        return text
    return ", ".join(f"{_words_of_member(str(name))} {value}" for name, value in members.items())


def format_response_body(body: bytes) -> str:
    """Return the text of a merchant's response, up to RESPONSE_CHARACTERS_MAX."""
    text = body.decode("utf-8", "replace")
    return text[:RESPONSE_CHARACTERS_MAX] + (" …" if len(text) > RESPONSE_CHARACTERS_MAX else "")
