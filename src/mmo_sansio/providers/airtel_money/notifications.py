"""Authenticates callbacks and finds their payment. None is a result, as none contains an amount; an authentic success
is evidence against a failure that the enquiry then reports."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from typing import Any

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import ProviderHinted, UnmatchedNotified
from mmo_sansio.providers.airtel_money.account import AirtelAccount
from mmo_sansio.providers.airtel_money.wire import object_member, raw_member, text_member
from mmo_sansio.providers.common.wire import parse_json, stored_text
from mmo_sansio.values.model import Evidence

_ID = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)


def callback_hash(key: str, text: bytes) -> str:
    """Return the Base64 of the HMAC-SHA256 of a text, which authenticates a callback."""
    return base64.b64encode(hmac.digest(key.encode(), text, hashlib.sha256)).decode()


def read_callback(request: HttpRequest, account: AirtelAccount, provider: str) -> ProviderHinted | UnmatchedNotified:
    """Return the payment of a callback; a forged or unreadable callback goes to the suspense book."""
    content = stored_text(request.body)
    try:
        document = parse_json(request.body)
    except ValueError:
        return UnmatchedNotified(provider, content)
    transaction = object_member(document, "transaction")
    id = transaction.get("id")
    if not isinstance(id, str) or _ID.fullmatch(id) is None:
        return UnmatchedNotified(provider, content)
    if account.callback_key is not None and not _is_authentic(
        request, document, account.callback_key, account.callback_hash_header
    ):
        return UnmatchedNotified(provider, content)
    code, receipt = text_member(transaction, "status_code"), text_member(transaction, "airtel_money_id")
    if account.callback_key is None or code != "TS" or receipt is None:
        return ProviderHinted(id, provider, content)
    return ProviderHinted(id, provider, content, native_code=code, evidence=Evidence(receipt, code))


def _is_authentic(request: HttpRequest, document: dict[str, Any], key: str, header: str) -> bool:
    """Return whether the hash, in the body or in a header, matches one of the candidates."""
    claimed = _hash_in_body(document) or request.value(header.encode()) or b""
    matches = [
        hmac.compare_digest(claimed, callback_hash(key, text).encode())
        for text in _hash_candidates(request.body, document)
    ]
    return any(matches)


def _hash_in_body(document: dict[str, Any]) -> bytes | None:
    value = document.get("hash")
    return value.encode() if isinstance(value, str) else None


def _hash_candidates(body: bytes, document: dict[str, Any]) -> Iterator[bytes]:
    """Yield the texts that a hash may be of: the `transaction` as received, the same as compact JSON, and the whole
    body."""
    yield (raw_member(body.decode("utf-8-sig"), "transaction") or "").encode()
    compact = json.dumps(document["transaction"], ensure_ascii=False, separators=(",", ":"))
    yield compact.encode()
    yield body
