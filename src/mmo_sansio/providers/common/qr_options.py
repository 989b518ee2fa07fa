"""How an account names its merchant in the QR codes that the gateway makes for it."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.providers.common.emv_qr import QrError, QrMerchant, payment_code
from mmo_sansio.providers.common.options import OptionError, Options
from mmo_sansio.values.model import Order, QrCode
from mmo_sansio.values.money import Money

_ANY_AMOUNT = Money(100, "KES")
_ANY_REFERENCE = "0" * 26


def qr_merchant_from(given: Options, default: QrMerchant) -> QrMerchant:
    """The merchant of these options, the default's where one is left out: `qr_name`, `qr_city`, `qr_category`,
    `qr_postal_code`, `qr_language`, `qr_template` (26 to 51), `qr_scheme` (the template's object 00) and `qr_account`
    (its object 01). Raises OptionError."""
    scheme, account = (value for _, value in default.account)
    merchant = evolve(
        default,
        name=given.text("qr_name", default.name),
        city=given.text("qr_city", default.city),
        category=given.text("qr_category", default.category),
        postal_code=given.optional("qr_postal_code") or default.postal_code,
        language=given.optional("qr_language") or default.language,
        account_id=given.text("qr_template", default.account_id),
        account=(
            ("00", given.text("qr_scheme", scheme)),
            ("01", given.text("qr_account", account)),
        ),
    )
    try:
        payment_code(merchant, _ANY_AMOUNT, _ANY_REFERENCE)
    except QrError as error:
        remedy = "Correct it, or the other options that begin with qr_."
        raise OptionError("qr_name", f"gives no QR code: {error}.", remedy) from None
    return merchant


def qr_code(merchant: QrMerchant, order: Order) -> QrCode | None:
    """The code that pays this order; None when it fits into none: an amount may have too many digits."""
    paid = evolve(merchant, country=order.country)
    try:
        text = payment_code(
            paid, order.requested, order.gateway_reference, bill_number=order.merchant_reference
        )
    except QrError:
        return None
    return QrCode(payload=text)
