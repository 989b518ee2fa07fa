"""Transactions, claims, reversals, breakers and brands as a store holds them: the columns by which
rows are found, and the compact text of all the rest, most with a checksum of its own.

A text is eight hexadecimal digits of CRC-32, then JSON. A damaged one raises StoreCorrupt instead
of giving wrong data. The arrays' order is the format; what is seldom written, claims, reversals,
breakers and brands, has the names of the attributes.

Look-ups and records send the transaction object, the bytes that the HTTP API's serializer has made
(T4). It is stored with a transaction that has ended. That of a pending transaction, which changes
with each step and is seldom read, is rendered for its readers; its row is empty. A row is
compressed: most of an object are its names, which all objects have in common. They are the
dictionary of the compression (RFC 1950), to which each row refers by its checksum: so another
dictionary may follow this one, but none may ever change."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, assert_never
from zlib import crc32

from attrs import frozen

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseRecorded
from mmo_sansio.messages.intents import HINT_CHARACTERS_MAX
from mmo_sansio.payments.brand_changes import OPERATIONS, RecordedRequest
from mmo_sansio.payments.personal_data import MASKED_PARTY
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values import model
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import DepositClaim, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl, PayerAction
from mmo_sansio.values.plain_form import from_plain, to_plain
from mmo_sansio.values.reversals import Reversal
from mmo_trio.storage.interface.store import StoreCorrupt
from mmo_trio.storage.sql.net_effect import NetEffect, suspense_identity

# What `object_of_row` needs of a transaction: its object, or else what it is rendered from.
OBJECT_COLUMNS = (
    "object, CASE WHEN length(object) = 0 THEN order_row END, CASE WHEN length(object) = 0 THEN "
    "progress END"
)

# Adds to counters of brands: a later day begins at 0, and an earlier one counts no more.
UPSERT_USAGE = """
    INSERT INTO brand_usage (brand, counter, day, amount) {source}
    ON CONFLICT (brand, counter) DO UPDATE SET
        amount = CASE WHEN excluded.day > brand_usage.day THEN excluded.amount
            WHEN excluded.day < brand_usage.day THEN brand_usage.amount
            WHEN excluded.amount + brand_usage.amount > 0 THEN excluded.amount + brand_usage.amount
            ELSE 0 END,
        day = CASE WHEN excluded.day > brand_usage.day THEN excluded.day ELSE brand_usage.day END
"""

# The hints of an open question and of a later one, as `merge_hints` merges them.
MERGED_HINT = f"""
    CASE WHEN {{known}}.hint IS NULL OR {{later}}.hint IS NULL
            THEN coalesce({{known}}.hint, {{later}}.hint)
        WHEN replace({{known}}.hint, {{later}}.hint, '') <> {{known}}.hint THEN {{known}}.hint
        WHEN replace({{later}}.hint, {{known}}.hint, '') <> {{later}}.hint THEN {{later}}.hint
        WHEN length({{known}}.hint) + length({{later}}.hint) < {HINT_CHARACTERS_MAX}
            THEN {{known}}.hint || '\n' || {{later}}.hint
        ELSE {{later}}.hint END
"""

# Providers' references may have any length; a key is cut to what every index can hold.
SEARCH_KEY_LENGTH_MAX = 255

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

# Orders that were parsed lately, some megabytes: those of payments under way.
ORDERS_CACHED = 1_024

# Bytes before the content of a row.
CHECKSUM_BYTES = 8

_encode_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_json_string = json.encoder.encode_basestring_ascii


def order_columns(transaction: Transaction) -> tuple[object, ...]:
    """Return gateway_reference, brand, type, method, created_at, is_simulated, page_token, msisdn,
    reconciliation_reference and order_row, which never change."""
    order = transaction.order
    page_token = None
    if order.page is not None:
        page_token = order.page.token

    return (
        order.gateway_reference,
        order.brand,
        order.type.value,
        order.method,
        order.created_at,
        int(order.is_simulated),
        page_token,
        _msisdn_key(order),
        _reconciliation_reference_key(order),
        serialize_order(order),
    )


def progress_columns(transaction: Transaction) -> tuple[object, ...]:
    """Return status, version, progress and object, which each step writes."""
    progress = transaction.progress
    return (
        progress.stage.status.value,
        progress.version,
        serialize_progress(progress),
        serialize_object(transaction),
    )


def journal_columns(line: JournalEntry) -> tuple[object, ...]:
    """Return at, what, actor, gateway_reference, brand, stage_before, stage_after and detail."""
    return (
        line.at,
        line.input_name,
        line.actor,
        line.gateway_reference,
        line.brand,
        line.stage_before,
        line.stage_after,
        line.detail,
    )


def callback_body_rows(effect: NetEffect) -> list[tuple[str, str, int, bytes]]:
    """Return brand, gateway_reference, at and body of the responses to callbacks that had a
    body."""
    return [
        (callback.brand, callback.gateway_reference, callback.at, callback.attempt.body)
        for callback in effect.callbacks
        if callback.attempt.body
    ]


def callback_columns(callback: CallbackRecorded) -> tuple[object, ...]:
    """Return gateway_reference, brand, outcome, url, status, duration_ms, detail and at."""
    attempt = callback.attempt
    return (
        callback.gateway_reference,
        callback.brand,
        attempt.outcome.value,
        attempt.url,
        attempt.status,
        attempt.duration_ms,
        attempt.detail,
        callback.at,
    )


def suspense_rows(effect: NetEffect) -> list[tuple[Any, ...]]:
    """Return identity, reason, provider, content, gateway_reference, brand, first_at, last_at and
    times of entries that are not equal."""
    # One statement must not write a row twice, so equal entries are one with a number of times.
    book: dict[bytes, list[SuspenseRecorded]] = {}
    for entry in effect.suspense:
        book.setdefault(suspense_identity(entry), []).append(entry)

    return [
        (
            identity,
            same[0].reason.value,
            same[0].provider,
            same[0].content,
            same[0].gateway_reference,
            same[0].brand,
            same[0].at,
            same[-1].at,
            len(same),
        )
        for identity, same in book.items()
    ]


def closed_rows(effect: NetEffect) -> list[tuple[int, int, str, str]]:
    """Return time, id, note and who closes it, for each entry of the suspense book that a batch
    closes, in the order of their ids."""
    return [
        (closing.at, id, closing.note, CLOSED_BY_ITSELF)
        for id, closing in sorted(effect.closed.items())
    ]


def reopened_rows(effect: NetEffect) -> list[tuple[int, str]]:
    """Return id and who has closed it, for each entry of the suspense book that a batch reopens, in
    the order of their ids."""
    return [(id, CLOSED_BY_ITSELF) for id in sorted(effect.reopened)]


# Who closes an entry that needs nobody any more.
CLOSED_BY_ITSELF = "gateway"


def usage_rows(effect: NetEffect) -> list[tuple[str, str, int, int]]:
    """Return brand, counter, day and amount of what a batch adds to counters, in the order of their
    keys."""
    return [
        (*key, counted.share.day, counted.share.amount)
        for key, counted in sorted(effect.usage.items())
    ]


def _msisdn_key(order: model.Order) -> str | None:
    """Return the customer's number without its plus sign; None for a tax payout (M5), and once it
    is masked."""
    # A tax payout goes to the authority, under a number that is no customer's.
    if order.type is model.Type.TAX or order.party == MASKED_PARTY:
        return None
    return _to_storable(order.party.msisdn.removeprefix("+"))


def _reconciliation_reference_key(order: model.Order) -> str | None:
    """Return the reconciliation reference, unless it is the merchantReference (C7)."""
    named = order.reconciliation_reference
    if named is None or named == order.merchant_reference:
        return None
    return _to_storable(named)


def provider_receipt_key(progress: model.Progress) -> str | None:
    """Return the provider's own reference, once it is known."""
    named = progress.provider_reference
    if named is None:
        return None
    return _to_storable(named)


def _to_storable(text: str) -> str:
    return _UNSTORABLE.sub("", text)[:SEARCH_KEY_LENGTH_MAX]


def with_checksum(content: bytes) -> bytes:
    """Return the content with its checksum in front."""
    return b"%08x" % crc32(content) + content


def without_checksum(row: bytes) -> bytes:
    """Return the content of a row; raises StoreCorrupt when it isn't what was written."""
    content = row[CHECKSUM_BYTES:]
    if row[:CHECKSUM_BYTES] != b"%08x" % crc32(content):
        raise StoreCorrupt("a stored row is damaged")
    return content


def serialize_order(order: model.Order) -> bytes:
    """Return an order as its row."""
    # Text by text, in the order in which `_parse_order` reads it: an encoder for any value would
    # take longer for each.
    requested = order.requested
    party = order.party
    page = order.page
    paged = "null"
    if page is not None:
        urls = f"{_text(page.success_redirect_url)},{_text(page.error_redirect_url)}"
        paged = f"[{_json_string(page.token)},{page.closes_at},{urls}]"

    usage = [f"[{_json_string(share.counter)},{share.day},{share.amount}]" for share in order.usage]
    return with_checksum(
        f"[{_json_string(order.gateway_reference)}"
        f",{_json_string(order.brand)}"
        f",{_json_string(order.type)}"
        f",{_json_string(order.flow)}"
        f",{_json_string(order.method)}"
        f",{_json_string(order.country)}"
        f",{_json_string(order.provider)}"
        f",{_json_string(order.provider_title)}"
        f",{requested.minor}"
        f",{_json_string(requested.currency)}"
        f",[{_json_string(party.id)},{_json_string(party.msisdn)}"
        f",{_text(party.first_name)},{_text(party.last_name)},{_text(party.email)}]"
        f",{_text(order.merchant_reference)}"
        f",{_text(order.reconciliation_reference)}"
        f",{_text(order.labels)}"
        f",{_text(order.result_url)}"
        f",{order.created_at}"
        f",{order.expires_at}"
        f",{_text(order.display_qr_url)}"
        f",{paged}"
        f",{_text(order.scenario)}"
        f",{_text(order.api_key_id)}"
        f",{order.utc_offset}"
        f",[{','.join(usage)}]"
        f",{int(order.is_simulated)}]".encode("ascii")
    )


# The amount in an order's row, between the title of the provider and the party. No text before it
# matches: a quotation mark within a text has a backslash before it.
_AMOUNT = re.compile(rb',([0-9]+),"([A-Z]{3})",\[')


@frozen
class OrderHead:
    """Holds what lists and sums look for in an order's row, whose last value says whether no money
    moves."""

    type: str
    provider: str
    minor: int
    currency: str
    is_simulated: bool


def read_order_head(row: bytes) -> OrderHead:
    """Return the head of an order's row, without the cost of the rest."""
    # What stands before the amount is read as JSON, and nothing after it but the last value.
    content = without_checksum(row)
    amount = _AMOUNT.search(content)
    assert amount is not None
    texts = json.loads(content[: amount.start()] + b"]")
    is_simulated = content.endswith(b",1]")
    return OrderHead(texts[2], texts[6], int(amount[1]), amount[2].decode(), is_simulated)


def read_error_code(row: bytes) -> str | None:
    """Return the reason of failure of a progress' row, without the cost of the rest."""
    code: str | None = json.loads(without_checksum(row))[9]
    return code


def serialize_progress(progress: model.Progress) -> bytes:
    """Return what happened so far as its row."""
    data = progress.provider_data
    reported = "null"
    if data is not None:
        reported = (
            f"[{_json_string(data.name)},{_json_string(data.title)},{_money(data.fee)}"
            f",{_text(data.party_data)},{_text(data.error_code)},{_text(data.error_message)}]"
        )

    shown = "null"
    if progress.qr is not None:
        shown = f"[{_text(progress.qr.payload)},{_text(progress.qr.image)}]"

    # In the order in which `_parse_progress` reads it. PostgreSQL's check of wakes takes the third.

    return with_checksum(
        f"[{_json_string(progress.stage)}"
        f",{progress.version}"
        f",{_number(progress.wake_at)}"
        f",{progress.polls}"
        f",{_text(progress.provider_reference)}"
        f",{reported}"
        f",{_money(progress.final)}"
        f",{_number(progress.completed_at)}"
        f",{_text(progress.completion_source)}"
        f",{_text(progress.error_code)}"
        f",{_text(progress.error_message)}"
        f",{_number(progress.submitted_at)}"
        f",{_text(progress.hint)}"
        f",{shown}"
        f",{progress.submissions}"
        f",{_evidence(progress.evidence)}"
        f",[{','.join(map(str, progress.answered))}]"
        f",{_number(progress.denied_since)}"
        f",{int(progress.is_restored)}"
        f",{_text(progress.attempt)}"
        f",{progress.unsent}"
        f",{_number(progress.receipt_awaited_since)}"
        f",{_text(progress.named_by_receipt)}"
        f",{progress.sent_version}"
        f",{_refusal(progress.refusal)}"
        f",{_payer_action(progress.payer_action)}"
        f",{int(progress.is_said_paid)}"
        f",{int(progress.is_told_when_asked)}]".encode("ascii")
    )


def _text(value: str | None) -> str:
    if value is None:
        return "null"
    return _json_string(value)


def _number(value: int | None) -> str:
    if value is None:
        return "null"
    return str(value)


def _refusal(refusal: model.Refusal | None) -> str:
    if refusal is None:
        return "null"
    code, message = _text(refusal.native_code), _text(refusal.native_message)
    return f"[{_json_string(refusal.error_code)},{code},{message},{refusal.version}]"


def _payer_action(action: PayerAction | None) -> str:
    match action:
        case None:
            return "null"
        case OpenUrl():
            return _encode_json(
                ("url", action.url, action.ends_at, action.needs_commit, action.returned_at)
            )
        case EnterCode():
            return _encode_json(
                ("code", action.instructions, action.ends_at, action.code, action.given_version)
            )
        case _:
            assert_never(action)


def _evidence(known: model.Evidence | None) -> str:
    if known is None:
        return "null"
    return (
        f"[{_json_string(known.receipt)},{_json_string(known.code)},{_money(known.amount)}"
        f",{int(known.settles)},{known.reported_at},{int(known.is_denied)}"
        f",{int(known.is_in_suspense)}]"
    )


def _money(amount: Money | None) -> str:
    if amount is None:
        return "null"
    return f"[{amount.minor},{_json_string(amount.currency)}]"


def parse_transaction(order: bytes, progress: bytes) -> Transaction:
    """Return the transaction of these two rows."""
    return Transaction(_parse_order(order), _parse_progress(json.loads(without_checksum(progress))))


@lru_cache(maxsize=ORDERS_CACHED)
def _parse_order(text: bytes) -> model.Order:
    """Return the order of this row. Results are cached, as each step of a payment reads the same
    one."""
    row = json.loads(without_checksum(text))
    page = None
    if row[18] is not None:
        page = model.Page(*row[18])

    return model.Order(
        gateway_reference=row[0],
        brand=row[1],
        type=model.Type(row[2]),
        flow=model.Flow(row[3]),
        method=row[4],
        country=row[5],
        provider=row[6],
        provider_title=row[7],
        requested=Money(row[8], row[9]),
        party=model.Party(*row[10]),
        merchant_reference=row[11],
        reconciliation_reference=row[12],
        labels=row[13],
        result_url=row[14],
        created_at=row[15],
        expires_at=row[16],
        display_qr_url=row[17],
        page=page,
        scenario=row[19],
        api_key_id=row[20],
        utc_offset=row[21],
        usage=tuple(model.UsageShare(*share) for share in row[22]),
        is_simulated=bool(row[23]),
    )


def _parse_progress(row: list[Any]) -> model.Progress:
    data = None
    if row[5] is not None:
        name, title, fee, *others = row[5]
        data = model.ProviderData(name, title, _parse_money(fee), *others)

    source = None
    if row[8] is not None:
        source = model.Source(row[8])

    code = None
    if row[9] is not None:
        code = ErrorCode(row[9])

    qr = None
    if row[13] is not None:
        qr = model.QrCode(*row[13])

    return model.Progress(
        stage=model.Stage(row[0]),
        version=row[1],
        wake_at=row[2],
        polls=row[3],
        provider_reference=row[4],
        provider_data=data,
        final=_parse_money(row[6]),
        completed_at=row[7],
        completion_source=source,
        error_code=code,
        error_message=row[10],
        submitted_at=row[11],
        hint=row[12],
        qr=qr,
        submissions=row[14],
        evidence=_parse_evidence(row[15]),
        answered=tuple(row[16]),
        denied_since=row[17],
        is_restored=bool(row[18]),
        attempt=row[19],
        unsent=row[20],
        receipt_awaited_since=row[21],
        named_by_receipt=row[22],
        sent_version=row[23],
        refusal=_parse_refusal(row[24]),
        payer_action=_parse_payer_action(row[25]),
        is_said_paid=bool(row[26]),
        is_told_when_asked=bool(row[27]),
    )


def parse_recorded_request(order: bytes, progress: bytes) -> RecordedRequest:
    """Return what a back-test needs of the transaction of these two rows; much less is built than
    for a transaction."""
    # By their places in the rows of `serialize_order` and `serialize_progress`.
    asked = json.loads(without_checksum(order))
    state = json.loads(without_checksum(progress))
    return RecordedRequest(
        gateway_reference=asked[0],
        created_at=asked[15],
        operation=OPERATIONS.get((asked[2], asked[3])),
        method=asked[4],
        country=asked[5],
        amount=Money(asked[8], asked[9]),
        ended_at=state[7],
        has_failed=state[0] == model.Stage.FAILED.value,
    )


def _parse_refusal(row: list[Any] | None) -> model.Refusal | None:
    if row is None:
        return None
    return model.Refusal(ErrorCode(row[0]), *row[1:])


def _parse_payer_action(row: list[Any] | None) -> PayerAction | None:
    if row is None:
        return None
    # The first value says which of the two it is.
    kind, *members = row
    if kind == "url":
        return OpenUrl(*members)
    instructions, *others = members
    return EnterCode(tuple((language, text) for language, text in instructions), *others)


def _parse_evidence(row: list[Any] | None) -> model.Evidence | None:
    if row is None:
        return None
    return model.Evidence(
        receipt=row[0],
        code=row[1],
        amount=_parse_money(row[2]),
        settles=bool(row[3]),
        reported_at=row[4],
        is_denied=bool(row[5]),
        is_in_suspense=bool(row[6]),
    )


def _parse_money(row: list[Any] | None) -> Money | None:
    if row is None:
        return None
    return Money(row[0], row[1])


def serialize_claim(claim: DepositClaim) -> bytes:
    """Return a claim of a deposit as its row: each value under the name of its attribute."""
    return _with_names(claim)


def parse_claim(row: bytes) -> DepositClaim:
    """Return the claim of this row."""
    return from_plain(DepositClaim, json.loads(without_checksum(row)))


def reversal_columns(reversals: Sequence[Reversal]) -> tuple[object, ...]:
    """Return what the row of a payment's reversals holds, after the payment: version, `asked_at`,
    `wake_at`, the number of those that have not ended, the brand, `changed_at`, and all of them,
    each value under the name of its attribute."""
    # The columns are what queries look for; the version grows with each change of any of them.
    wakes = [reversal.wake_at for reversal in reversals if reversal.wake_at is not None]
    return (
        sum(reversal.version for reversal in reversals),
        max(reversal.asked_at for reversal in reversals),
        min(wakes, default=None),
        sum(not reversal.state.has_ended for reversal in reversals),
        reversals[0].brand,
        max(reversal.changed_at for reversal in reversals),
        _with_names(tuple(reversals)),
    )


def parse_reversals(row: bytes) -> tuple[Reversal, ...]:
    """Return the reversals of this row, in the order of their numbers."""
    return from_plain(tuple[Reversal, ...], json.loads(without_checksum(row)))


def serialize_breaker(breaker: BreakerSnapshot) -> bytes:
    """Return a merchant's breaker as its row."""
    return _with_names(breaker)


def parse_breaker(row: bytes) -> BreakerSnapshot:
    """Return the breaker of this row."""
    return from_plain(BreakerSnapshot, json.loads(without_checksum(row)))


def _with_names(value: object) -> bytes:
    return with_checksum(_encode_json(to_plain(value)).encode())


def serialize_brand(brand: model.Brand) -> str:
    """Return a brand as the text of a JSON object, without its keys: each value under the name of
    its attribute."""
    return _encode_json(to_plain(brand))


@lru_cache(maxsize=1_024)
def parse_brand(row: str) -> model.Brand:
    """Return the brand of this text; raises StoreCorrupt when it is none. Results are cached, as
    every delivery reads its brand."""
    try:
        return from_plain(model.Brand, json.loads(row))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorrupt(
            "a stored brand can't be read", "run `mmo brands apply` again"
        ) from error


# What is most frequent comes last, as zlib's manual advises (`deflateSetDictionary`).
_DICTIONARY = (
    b'"pageUrl":null,"qrCode":null,"labels":null,"labels":{"lastName":null,"email":null,'
    b'"timeout","manual","expiry","poll","payout","tax","web","push","qr","sandbox",'
    b'"mpesa_ke","mtn_ug","airtel_ke","UGX"},"TZS"},"USD"},{"status":"failed","errorCode":'
    b'"user_cancelled","errorMessage":"{"status":"success","type":"payin","flow":"direct",'
    b'"gatewayReference":"01K","merchantReference":"","reconciliationReference":"",'
    b'"providerReference":"","party":{"id":"","msisdn":"+254","firstName":"","lastName":"",'
    b'"email":"@example.com"},"method":"","country":"KE","requestedAmount":{"value":1000.00,'
    b'"currency":"KES"},"finalAmount":{"value":1000.00,"currency":"KES"},"labels":null,'
    b'"createdAt":"2026-01-01T00:00:00.000000Z","completedAt":"2026-01-01T00:00:00.000000Z",'
    b'"completionSource":"webhook","errorCode":null,"errorMessage":null,"providerData":{'
    b'"name":"","title":"","fee":null,"partyData":null,"errorCode":null,"errorMessage":null}}'
)

# zlib's own default.
_COMPRESSION_LEVEL = 6

# A window of 4 KiB, as an object and the dictionary have less, and a small state: both are made for
# each object.
_WINDOW_BITS = 12
_MEMORY_LEVEL = 4


def serialize_object(transaction: Transaction) -> bytes:
    """Return the object of a transaction that has ended as its row, and an empty one while it is
    pending (T4)."""
    if transaction.progress.stage.is_terminal:
        return compress_object(transaction_object(transaction))
    return b""


def compress_object(rendered: bytes) -> bytes:
    """Return a transaction object as its row."""
    compressor = zlib.compressobj(
        _COMPRESSION_LEVEL,
        zlib.DEFLATED,
        _WINDOW_BITS,
        _MEMORY_LEVEL,
        zlib.Z_DEFAULT_STRATEGY,
        _DICTIONARY,
    )
    return with_checksum(compressor.compress(rendered) + compressor.flush())


def parse_object(row: bytes) -> bytes:
    """Return the transaction object of a row that isn't empty. Raises StoreCorrupt."""
    try:
        return zlib.decompressobj(_WINDOW_BITS, _DICTIONARY).decompress(without_checksum(row))
    except zlib.error as error:
        raise StoreCorrupt("a stored transaction object can't be read") from error


def object_of_row(row: Sequence[bytes | None]) -> bytes:
    """Return the transaction object of a row of OBJECT_COLUMNS (T4). Raises StoreCorrupt."""
    stored, order, progress = row
    if stored:
        return parse_object(stored)

    # That of a pending payment is not stored.
    assert order is not None
    assert progress is not None
    return _render_pending(order, progress)


@lru_cache(maxsize=1024)
def _render_pending(order: bytes, progress: bytes) -> bytes:
    """Render once for each version of a transaction that merchants look up again and again until it
    has ended."""
    return transaction_object(parse_transaction(order, progress))
