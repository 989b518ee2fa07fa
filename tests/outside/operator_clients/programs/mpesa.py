"""What the programs for M-Pesa have in common."""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding

from support import control

PASSKEY = "bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919"
CUSTOMER = "254708374149"
NOT_REGISTERED = "2040"
"""The code of a pay-out to a number without M-Pesa."""
QUEUE_TIMEOUT = "queue_timeout"


def credential() -> str:
    """The initiator's password, encrypted for the simulated operator."""
    certificate = x509.load_pem_x509_certificate(control("/_simulator/certificate").encode())
    key = certificate.public_key()
    return base64.b64encode(key.encrypt(b"Safaricom999!*!", padding.PKCS1v15())).decode()
