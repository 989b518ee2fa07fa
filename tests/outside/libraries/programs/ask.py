"""Prints what a package of PyPI makes of the questions of one topic, a text for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

REFUSED = "refused"


def babel(code: str, amount: str) -> str:
    from babel.numbers import format_currency

    return str(format_currency(amount, code, locale="en"))


def py_moneyed(code: str, amount: str) -> str:
    from moneyed import Money

    return str(Money(amount, code))


def phonenumbers(text: str, country: str, wanted: str) -> str:
    from phonenumbers import PhoneNumberFormat, format_number, is_valid_number, parse

    number = parse(text, country or None)
    if wanted == "is valid":
        return "valid" if is_valid_number(number) else "not valid"
    return str(format_number(number, PhoneNumberFormat.E164))


def python_ulid(text: str) -> str:
    from ulid import ULID

    return str(ULID.from_str(text))


def ulid_py(text: str) -> str:
    import ulid

    return str(ulid.from_str(text))


def cemacqr(text: str) -> str:
    from cemacqr import parse_payload

    return str(parse_payload(text).amount)


def uemoa_qrcode_sdk(text: str) -> str:
    from uemoa_qrcode import QRParser

    return str(QRParser().parse(text).amount)


PACKAGES: dict[str, Callable[..., str]] = {
    "Babel": babel,
    "py-moneyed": py_moneyed,
    "phonenumbers": phonenumbers,
    "python-ulid": python_ulid,
    "ulid-py": ulid_py,
    "cemacqr": cemacqr,
    "uemoa-qrcode-sdk": uemoa_qrcode_sdk,
}


def answer(package: str, question: list[Any]) -> str:
    try:
        return PACKAGES[package](*question).replace("\N{NO-BREAK SPACE}", " ")
    except Exception:
        return REFUSED


if __name__ == "__main__":
    package, questions = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps([answer(package, question) for question in questions]))
