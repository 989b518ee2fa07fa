"""Lists the situations in which the API key of a callback is right, missing or wrong."""

from __future__ import annotations

from collections.abc import Callable

from mmo_merchant.endpoint_check.situations.played_payments import PlayedPayments
from mmo_merchant.endpoint_check.situations.situation import (
    PAID,
    Expectation,
    Handling,
    KeyVariant,
    PlayedRequest,
    Script,
    Situation,
    accepted,
)

_REJECT = (
    "Answer 401 and book nothing. Anybody can call your URL, and the key is the only proof that "
    "the gateway did:"
    " compare all of it, in constant time."
)


def _with_key(variant: KeyVariant) -> Callable[[PlayedPayments], Script]:
    """Return what writes a callback of a success with this key, which must be rejected."""

    def write(payments: PlayedPayments) -> Script:
        request = PlayedRequest(payments.success(), Expectation.REJECT, variant)
        return Script(((request,),), {payments.reference(): Handling(0)})

    return write


def _with_two_keys(payments: PlayedPayments) -> Script:
    # Either may have been read, so what is handled is not judged.
    return Script(((PlayedRequest(payments.success(), Expectation.REJECT, KeyVariant.TWICE),),))


def _rejected(name: str, title: str, variant: KeyVariant, duty: str = _REJECT) -> Situation:
    return Situation(name, title, duty, ("K1",), _with_key(variant), question="Was nothing booked?")


def _qr_code_with_wrong_key(payments: PlayedPayments) -> Script:
    # A code is booked nowhere: only the answer shows what became of it.
    return Script(((PlayedRequest(payments.qr_code(), Expectation.REJECT, KeyVariant.WRONG),),))


KEY_SITUATIONS = (
    Situation(
        "key-right",
        "A callback of a success comes with your key.",
        "Answer with any 2xx: the result is delivered only then, and there is no second attempt.",
        ("K1", "K2", "K3"),
        lambda payments: accepted(payments.success(), payments.reference(), PAID),
        question="Was the payment booked as a success, with 150.00 KES?",
    ),
    _rejected("key-missing", "A callback comes without X-API-KEY.", KeyVariant.MISSING),
    _rejected("key-wrong", "A callback comes with the key of somebody else.", KeyVariant.WRONG),
    _rejected("key-empty", "A callback comes with an empty X-API-KEY.", KeyVariant.EMPTY),
    _rejected(
        # Some programs compare only as many characters as came, others only as many as they have.
        "key-beginning",
        "A callback comes with the beginning of your key, one character short.",
        KeyVariant.BEGINNING,
    ),
    _rejected(
        "key-longer", "A callback comes with your key and one more character.", KeyVariant.LONGER
    ),
    _rejected(
        "key-other-case",
        "A callback comes with your key in the other letter case.",
        KeyVariant.OTHER_CASE,
    ),
    _rejected(
        "key-not-ascii",
        "A callback comes with a key of bytes that are no text.",
        KeyVariant.NOT_ASCII,
        "Answer 401, not 500. Compare bytes: some functions for a comparison in constant time "
        "fail on other text.",
    ),
    Situation(
        "key-twice",
        "A callback comes with two X-API-KEY, of which the second is yours.",
        "Answer 401. The gateway sends one key; a second one means that something between you "
        "adds fields.",
        ("K1",),
        _with_two_keys,
        is_required=False,
    ),
    Situation(
        "key-wrong-qr",
        "A QR code comes with the key of somebody else.",
        "Answer 401: a forged QR code would have your customers pay somebody else.",
        ("K1", "Q1"),
        _qr_code_with_wrong_key,
    ),
)
