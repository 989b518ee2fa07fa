"""Makes the address under which an operator sends a payer back: whoever has it may look at the
payment and have the operator asked about it, and nothing else."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from mmo_sansio.values.model import Order

# Stands between the gatewayReference and the proof; no page token has it.
SEPARATOR: Final = "."

# 128 bits: nobody finds one by trying.
_PROOF_DIGITS: Final = 32
# Keeps this key apart from all else that may be derived from the token.
_PURPOSE: Final = b"return of the payer\0"


def return_key(order: Order) -> str:
    """Return what stands for this payment in the address of a return. It follows from the secret
    token of the page, which can't be found from it. Raises ValueError for an order without a
    page."""
    if order.page is None:
        raise ValueError("a payment without a page has no payer to come back")
    # The token is the secret, so whoever knows the key still cannot open the page.
    secret = _PURPOSE + order.page.token.encode()
    proof = hmac.digest(secret, order.gateway_reference.encode(), hashlib.sha256).hex()
    return f"{order.gateway_reference}{SEPARATOR}{proof[:_PROOF_DIGITS]}"


def return_url(pages_url: str, order: Order) -> str:
    """Return the address for the operator. Raises ValueError for an order without a page."""
    return f"{pages_url}/pay/{return_key(order)}/back"


def is_return_key(key: str, order: Order) -> bool:
    """Tell whether this text is the key of this payment, in a time that tells nothing of it."""
    return order.page is not None and hmac.compare_digest(return_key(order), key)
