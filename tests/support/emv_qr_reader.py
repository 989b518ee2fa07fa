"""A strict reader of EMV QR payloads, by which tests judge those that the gateway makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from mmo_sansio.providers.common.emv_qr import AMOUNT_CHARACTERS_MAX, QrError, checksum

PAYLOAD_CHARACTERS_MAX = 512

_ACCOUNT_IDS = frozenset(f"{number:02}" for number in range(2, 52))
_MANDATORY = ("00", "52", "53", "58", "59", "60", "63")
_FOUR_DIGITS = re.compile(r"[0-9]{4}", re.ASCII)
_AMOUNT = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)


def parse_payload(text: str) -> Mapping[str, str]:
    """The objects of a payload by ID, in their order; templates are left for :func:`parse_objects`.

    Objects that nobody knows are kept. Raises QrError for what is no payload.
    """
    if len(text) > PAYLOAD_CHARACTERS_MAX:
        raise QrError(f"it is longer than {PAYLOAD_CHARACTERS_MAX} characters")
    objects = parse_objects(text)
    ids = tuple(objects)
    if ids[:1] != ("00",) or objects["00"] != "01":
        raise QrError("it doesn't begin with the format indicator 01")
    if missing := [each for each in _MANDATORY if each not in objects]:
        raise QrError(f"object {missing[0]} is missing")
    if ids[-1] != "63" or text[-8:-4] != "6304":
        raise QrError("its last object is not the checksum")
    if text[-4:].upper() != checksum(text[:-4]):
        raise QrError("its checksum is wrong")
    if _ACCOUNT_IDS.isdisjoint(ids):
        raise QrError("it names no account")
    if "54" in objects and not _is_amount(objects["54"]):
        raise QrError("its amount is none")
    return objects


def parse_objects(text: str) -> Mapping[str, str]:
    """The objects of a payload or of a template, by ID. Raises QrError for what has no such
    form."""
    objects: dict[str, str] = {}
    position = 0
    while position < len(text):
        head = text[position : position + 4]
        if _FOUR_DIGITS.fullmatch(head) is None:
            raise QrError(f"no object begins at character {position}")
        id, end = head[:2], position + 4 + int(head[2:])
        if id in objects:
            raise QrError(f"object {id} stands twice")
        if end > len(text) or head[2:] == "00":
            raise QrError(f"the length of object {id} is wrong")
        objects[id] = text[position + 4 : end]
        position = end
    return MappingProxyType(objects)


def _is_amount(text: str) -> bool:
    return len(text) <= AMOUNT_CHARACTERS_MAX and _AMOUNT.fullmatch(text) is not None
