"""Reads an account's merchant for QR codes, and makes the codes."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.providers.common.emv_qr import QrError, QrMerchant, dynamic_payload
from mmo_sansio.providers.common.options import OptionError, Options
from mmo_sansio.values.model import Order, QrCode
from mmo_sansio.values.money import Money

_ANY_AMOUNT = Money(100, "KES")
_ANY_REFERENCE = "0" * 26


def read_qr_merchant(options: Options, default: QrMerchant) -> QrMerchant:
    """Return the merchant of these options, with the default's values for those left out: `qr_name`, `qr_city`,
    `qr_category`, `qr_postal_code`, `qr_language`, `qr_template` (26 to 51), `qr_scheme` (the template's object 00) and
    `qr_account` (its object 01). Raises OptionError."""
    scheme, account = (value for _, value in default.account)
    merchant = evolve(
        default,
        name=options.text("qr_name", default.name),
        city=options.text("qr_city", default.city),
        category=options.text("qr_category", default.category),
        postal_code=options.optional_text("qr_postal_code") or default.postal_code,
        language=options.optional_text("qr_language") or default.language,
        account_id=options.text("qr_template", default.account_id),
        account=(("00", options.text("qr_scheme", scheme)), ("01", options.text("qr_account", account))),
    )
    try:
        dynamic_payload(merchant, _ANY_AMOUNT, _ANY_REFERENCE)
    except QrError as error:
        remedy = "Correct it, or the other options that begin with qr_."
        raise OptionError("qr_name", f"gives no QR code: {error}.", remedy) from None
    return merchant


def make_qr_code(merchant: QrMerchant, order: Order) -> QrCode | None:
    """Return the code that pays this order; None when no code can hold it: an amount may have too many digits."""
    paid = evolve(merchant, country=order.country)
    try:
        text = dynamic_payload(paid, order.requested, order.gateway_reference, bill_number=order.merchant_reference)
    except QrError:
        return None
    return QrCode(payload=text)
