"""Signs callbacks, and checks signed requests, by HTTP message signatures (RFC 9421) over digests
(RFC 9530).

ECDSA signatures are in DER, as pawaPay's are, and not in the form of RFC 9421 section 3.3.4.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final
from urllib.parse import urlsplit

from attrs import evolve
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA256

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import SECOND, Instant, format_with_microseconds

# The name of the key that signs callbacks.
CALLBACK_KEY_ID: Final = "HTTP_EC_P256_KEY:1"

# As long as pawaPay's own signatures last.
LIFETIME_S: Final = 60

# How far the merchant's clock may be ahead.
CLOCK_SKEW_S: Final = 60

_COMPONENTS: Final = (
    "@method",
    "@authority",
    "@path",
    "signature-date",
    "content-digest",
    "content-type",
)
# A signature over less could be used for another request.
_REQUIRED: Final = frozenset({"@method", "@authority", "@path", "content-digest"})
_INPUT = re.compile(r'sig-pp=(\(([^)]*)\)((?:;[a-z]+=(?:"[^"]*"|[0-9]+))*))')
_SIGNATURE = re.compile(r"sig-pp=:([A-Za-z0-9+/=]+):")
_DIGEST = re.compile(r"(sha-256|sha-512)=:([A-Za-z0-9+/=]+):")


def sign_callback(
    request: HttpRequest, key: EllipticCurvePrivateKey, *, now: Instant
) -> HttpRequest:
    """Return a callback with its digest and its signature, which is valid for a minute."""
    created = now // SECOND
    digest = base64.b64encode(hashlib.sha512(request.body).digest()).decode()
    headers = (
        *request.headers,
        (b"content-digest", f"sha-512=:{digest}:".encode()),
        (b"signature-date", format_with_microseconds(now).encode()),
    )
    signed = evolve(request, headers=headers)
    components = " ".join(f'"{component}"' for component in _COMPONENTS)
    validity = f"created={created};expires={created + LIFETIME_S}"
    parameters = f'({components});alg="ecdsa-p256-sha256";keyid="{CALLBACK_KEY_ID}";{validity}'
    signature = base64.b64encode(
        key.sign(_base(signed, _COMPONENTS, parameters), ECDSA(SHA256()))
    ).decode()
    own = (
        (b"signature", f"sig-pp=:{signature}:".encode()),
        (b"signature-input", f"sig-pp={parameters}".encode()),
    )
    return evolve(signed, headers=(*headers, *own))


def check_request_signature(
    request: HttpRequest, key: EllipticCurvePublicKey, *, now: Instant
) -> None:
    """Raise ValueError, which says why, unless the request is signed by this key and not too
    old."""
    # 1. What it covers, and until when.
    match = _match(_INPUT, request, "signature-input")
    signature = _match(_SIGNATURE, request, "signature")
    parameters = match[1]
    components = tuple(component.strip('"') for component in match[2].split())
    if not _REQUIRED.issubset(components):
        raise ValueError(f"the signature must cover {', '.join(sorted(_REQUIRED))}")

    times = dict(re.findall(r";(created|expires)=([0-9]+)", match[3]))
    begins_at = int(times.get("created", 0)) - CLOCK_SKEW_S
    if not begins_at <= now // SECOND <= int(times.get("expires", 0)):
        raise ValueError("the signature has expired, or its time is in the future")

    # 2. The body, by its digest. 3. The rest, by the key.
    digest = _match(_DIGEST, request, "content-digest")
    algorithm = digest[1].replace("-", "")
    if base64.b64decode(digest[2]) != hashlib.new(algorithm, request.body).digest():
        raise ValueError("Content-Digest is not the digest of the body")

    try:
        key.verify(
            base64.b64decode(signature[1]), _base(request, components, parameters), ECDSA(SHA256())
        )
    except InvalidSignature:
        raise ValueError("the signature is not of the account's key") from None


def _match(pattern: re.Pattern[str], request: HttpRequest, name: str) -> re.Match[str]:
    match = pattern.fullmatch((request.value(name.encode()) or b"").decode("latin-1"))
    if match is None:
        raise ValueError(f"{name} is missing or has another form")
    return match


def _base(request: HttpRequest, components: tuple[str, ...], parameters: str) -> bytes:
    """Return the signature base (RFC 9421 section 2.5). Raises ValueError for a component that is
    not there."""
    lines = [f'"{component}": {_component(request, component)}' for component in components]
    return "\n".join([*lines, f'"@signature-params": {parameters}']).encode()


def _component(request: HttpRequest, name: str) -> str:
    target = urlsplit(request.target.decode("latin-1"))
    match name:
        case "@method":
            return request.method
        case "@authority":
            # Without the scheme's own port, in small letters (RFC 9421 section 2.2.3).
            host = (request.value(b"host") or b"").decode("latin-1")
            own_port = ":443"
            if target.scheme == "http":
                own_port = ":80"
            return (target.netloc or host).lower().removesuffix(own_port)
        case "@path":
            return target.path or "/"
        case _:
            value = request.value(name.encode())
            if value is None:
                raise ValueError(f"{name} is missing")
            return value.decode("latin-1").strip()
