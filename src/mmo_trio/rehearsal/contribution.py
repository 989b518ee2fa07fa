"""Makes what the project takes of a rehearsal: a capture of each payment, as `tests/captures` has
them, and rows for the `statements.toml` beside the adapter. Plain functions of recorded lines.

A capture is played by tests: its answers and callbacks come from a stand-in for the operator, to
the adapter's own requests. So it names requests and ids in a form that is the same for every
payment.

A line is an exchange as `mmo_sansio.providers.common.recording` writes it: `from`, who has sent the
request, `gateway` or `operator`; `offsetMs`, when it was answered; `method`, `target` and `body` of
the request; and `answer` with `status` and `body`, which a lost one lacks. That of a callback has
also `suffix`: our reference, where it follows the account's own address, else empty."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import frozen

from mmo_sansio.providers.common.recording import HOOKS
from mmo_sansio.providers.common.rehearsal import MakePayment, RehearsalStep
from mmo_sansio.values.clock import SECOND, Instant, elapsed
from mmo_sansio.values.model import Transaction
from mmo_trio.rehearsal.verdicts import Outcome, Verdict

# What a redacted recording does not have as it was.
REPLACED: Final = ("people", "telephone numbers", "texts", "secrets")

# A part of an address that names one payment, and no operation.
_ID: Final = re.compile(r"(?=.*[0-9]).{12,}")

# A member of a submission that may be an id of the payment's own.
_SENT_ID: Final = re.compile(r"[A-Za-z0-9_-]{12,}", re.ASCII)


@frozen
class Place:
    """Says where and when a rehearsal took place."""

    kind: str
    host: str
    day: str
    """ISO 8601, such as `2026-11-29`."""
    release: str
    options: Mapping[str, str]
    """The options of the account that a capture names."""

    @property
    def source(self) -> str:
        return f"`mmo providers rehearse` of {self.release} with {self.host}"


def capture_document(
    step: MakePayment,
    payment: Transaction,
    lines: Sequence[Mapping[str, Any]],
    shown: Callable[[str], str],
    place: Place,
    *,
    is_interrupted: bool,
    others: Collection[str] = (),
) -> Mapping[str, Any]:
    """Return the capture of a payment that has ended, from the exchanges that were recorded of it.

    `shown` returns an id or a number as these show it. `others` are the ids of other payments,
    which may have been asked about meanwhile."""
    # 1. What was said of this payment, our requests first: not what asked about others, or signed
    #    in.
    order = payment.order
    lines = [line for line in lines if not any(id in json.dumps(line) for id in others)]
    said = [line for line in lines if line["from"] == "gateway" and not _gives_token(line)]
    ids = {**_sent_ids(said), order.gateway_reference: "{reference}"}

    # 2. The answers by their requests, each in its order, and the callbacks.
    answers: dict[str, list[Mapping[str, Any]]] = {}
    for line in said:
        answers.setdefault(_called(line), []).append(_answer(line, ids))

    callbacks = [
        callback
        for line in lines
        if line["from"] == "operator" and (callback := _callback(line, said, ids)) is not None
    ]
    # 3. The document. What a play does not need, and what identifies people, is not in it.
    document: dict[str, Any] = {
        "seen": _seen(payment, callbacks),
        "source": place.source,
        "date": place.day,
        "replaced": list(REPLACED),
        "operation": str(step.operation),
        "payment": {
            "currency": order.requested.currency,
            "country": order.country,
            "amount": order.requested.text,
            "msisdn": shown(order.party.msisdn),
        },
        "account": dict(place.options),
        "answers": answers,
        "callbacks": callbacks,
        "leads_to": _leads_to(payment, shown, ids),
    }
    if is_interrupted:
        document["assumed"] = "What came while the rehearsal was interrupted."

    return {name: member for name, member in document.items() if member}


def _seen(payment: Transaction, callbacks: Sequence[object]) -> str:
    order, progress = payment.order, payment.progress
    operation = f"{order.flow}/{order.type}"
    code = progress.provider_data and progress.provider_data.error_code
    ended = f"ended as {payment.status}"
    if code:
        ended += f" with {code}"

    told = f"{len(callbacks)} callbacks came"
    if len(callbacks) == 1:
        told = "1 callback came"

    return f"A {operation} {ended}; {told}."


def _leads_to(
    payment: Transaction, shown: Callable[[str], str], ids: Mapping[str, str]
) -> Mapping[str, Any]:
    progress = payment.progress
    data = progress.provider_data

    # An id of ours has a placeholder, and is no receipt of the operator.
    known_as = progress.provider_reference and shown(progress.provider_reference)
    receipt = known_as
    if known_as in ids:
        receipt = None

    # Twice as long as here, and minutes at least: a play must not fail because it is slower.
    took = elapsed(payment.order.accepted_at, progress.completed_at or Instant(0))
    found = {
        "status": str(payment.status),
        "errorCode": progress.error_code and str(progress.error_code),
        "providerErrorCode": data and data.error_code,
        "providerReference": receipt,
        "fee": data and data.fee and data.fee.text,
        "within_s": 2 * max(took // SECOND, 150),
    }
    return {name: value for name, value in found.items() if value is not None}


def _gives_token(line: Mapping[str, Any]) -> bool:
    """Tell whether the answer signs in: a play needs no token."""
    body = line.get("answer", {}).get("body")
    return isinstance(body, dict) and "access_token" in body


def _sent_ids(said: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what the submission calls the payment, each with its placeholder."""
    bodies = (line["body"] for line in said if line["method"] == "POST")
    members = next((body for body in bodies if isinstance(body, dict)), {})
    return {
        value: f"{{sent.{name}}}"
        for name, value in members.items()
        if isinstance(value, str) and _SENT_ID.fullmatch(value) and re.search("[0-9]", value)
    }


def _called(line: Mapping[str, Any]) -> str:
    """Return the name of a request in a capture: its method, and its path as far as that is the
    same for every payment."""
    # Up to the first part that is an id.
    parts: list[str] = []
    for part in urlsplit(line["target"]).path.split("/"):
        if _ID.fullmatch(part):
            parts.append("")
            break

        parts.append(part)

    return f"{line['method']} {'/'.join(parts)}"


def _answer(line: Mapping[str, Any], ids: Mapping[str, str]) -> Mapping[str, Any]:
    if "answer" not in line:
        return {"lost": True}
    return {"status": line["answer"]["status"], "body": _named(line["answer"]["body"], ids)}


def _callback(
    line: Mapping[str, Any], said: Sequence[Mapping[str, Any]], ids: Mapping[str, str]
) -> Mapping[str, Any] | None:
    """Return a callback with the request that it follows, and with where it goes `to`: the member
    of that request with the address, or what follows the account's own address. None for one that
    follows no request."""
    if not said:
        return None

    # It follows the request that has given the operator this address, or else the first of all,
    # where the address was entered in the operator's portal.
    cause = said[0]
    to = line["suffix"]
    for request in said:
        member = _member_of(request, line["target"])
        if member is not None:
            cause = request
            to = member
            break

    after_ms = max(0, line["offsetMs"] - cause["offsetMs"])
    return {
        "after": _called(cause),
        "after_s": after_ms // 1000,
        "to": _named(to, ids),
        "body": _named(line["body"], ids),
    }


def _member_of(line: Mapping[str, Any], target: str) -> str | None:
    """Return the member of a request that holds this address of ours."""
    body = line["body"]
    if not isinstance(body, dict) or not target.startswith(HOOKS):
        return None
    return next((name for name, value in body.items() if value == target), None)


def _named(value: Any, ids: Mapping[str, str]) -> Any:
    """Return a body with placeholders for the ids of the payment."""
    if isinstance(value, dict):
        return {name: _named(member, ids) for name, member in value.items()}
    if isinstance(value, list):
        return [_named(item, ids) for item in value]
    if isinstance(value, str):
        for id, placeholder in ids.items():
            value = value.replace(id, placeholder)

    return value


def statement_rows(played: Sequence[tuple[RehearsalStep, Outcome | None]], place: Place) -> str:
    """Return the rows about the steps that were tried and of which there is no capture, for
    `statements.toml`."""
    return "\n".join(
        _row(step, outcome, place)
        for step, outcome in played
        if outcome is not None
        and outcome.verdict is not Verdict.NOT_TRIED
        and not isinstance(step, MakePayment)
    )


def _row(step: RehearsalStep, outcome: Outcome, place: Place) -> str:
    says = f"{step.does} {outcome.seen}"
    if outcome.verdict is Verdict.DIFFERS:
        says = f"{says} Promised was: {step.promises}"

    members = {
        "says": says.replace("`", ""),
        "mark": "observed",
        "source": place.source,
        "date": place.day,
    }
    text = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in members.items())
    return "\n".join(["[[statement]]", *text, ""])
