"""Signs requests and verifies callbacks by HTTP Message Signatures (RFC 9421) with Content-Digest
(RFC 9530), in the one form that pawaPay documents: a signature with the label `sig-pp`.

Whatever differs from that form is refused. One thing is pawaPay's own: its ECDSA signatures are in
DER, and not the two numbers side by side of RFC 9421 section 3.3.4; both are accepted."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from mmo_sansio import MINUTE, SECOND, Instant
from mmo_sansio.providers import Headers, HttpRequest, Span, format_with_microseconds

LABEL: Final = "sig-pp"

# For how long a signature is valid; pawaPay's own last as long.
LIFETIME: Final[Span] = MINUTE

# How far pawaPay's clock and ours may be apart.
CLOCK_SKEW: Final[Span] = Span(30 * SECOND)

PublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

# The digests of Content-Digest that count.
DIGESTS: Final[Mapping[str, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        "sha-256": lambda content: hashlib.sha256(content).digest(),
        "sha-512": lambda content: hashlib.sha512(content).digest(),
    }
)

# What a signature must cover, so that it is worth nothing for another request.
REQUIRED_COMPONENTS: Final = frozenset(("@method", "@authority", "@path", "content-digest"))

# What our own signatures cover.
SIGNED_COMPONENTS: Final = (
    "@method",
    "@authority",
    "@path",
    "signature-date",
    "content-digest",
    "content-type",
)

_COMPONENT: Final = r'"@?[a-z0-9-]+"'
_INPUT: Final = re.compile(
    rf"(?P<label>[a-z*][a-z0-9_.*-]*)=(?P<value>\((?P<components>{_COMPONENT}(?: {_COMPONENT})*)\)"
    r'(?P<parameters>(?:;[a-z]+=(?:"[ !#-\[\]-~]*"|[0-9]{1,15}))+))',
    re.ASCII,
)
_PARAMETER: Final = re.compile(r';([a-z]+)=(?:"([^"]*)"|([0-9]+))', re.ASCII)
_BYTES: Final = re.compile(r"([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):", re.ASCII)
# Public keys only: what else stands in the file, a comment say, is skipped.
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----[A-Za-z0-9+/=\s]+-----END PUBLIC KEY-----")


class SignatureFault(Exception):
    """Raised for a message whose signature proves nothing; says why, without a word of the
    message."""


@frozen
class SigningKey:
    """Holds a private key, and the id under which pawaPay knows its public key."""

    id: str
    key: ec.EllipticCurvePrivateKey


@frozen
class SignatureInput:
    """Says what a signature covers and how it was made: the member of a Signature-Input."""

    label: str
    components: Sequence[str]
    text: str
    """The value of `@signature-params`, as it came."""
    algorithm: str
    created: Instant
    expires: Instant


def load_public_keys(pem: bytes) -> Sequence[PublicKey]:
    """Return the public keys in PEM, one after the other. Raises ValueError where there is none, or
    one of another kind."""
    keys = []
    for block in _PEM.findall(pem):
        key = load_pem_public_key(block)
        if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
            raise ValueError("a key is of another kind")

        keys.append(key)

    if not keys:
        raise ValueError("there is no key")

    return tuple(keys)


def load_private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return a private key of the curve P-256. Raises ValueError for anything else."""
    try:
        key = load_pem_private_key(pem, None)
    except TypeError:
        # A key with a passphrase, which the settings have no place for.
        raise ValueError("it is encrypted") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("it is of another kind")
    return key


def content_digest(content: bytes, algorithm: str = "sha-512") -> str:
    """Return the value of a Content-Digest (RFC 9530 section 2)."""
    return f"{algorithm}=:{base64.b64encode(DIGESTS[algorithm](content)).decode()}:"


def signature_base(
    components: Sequence[str],
    parameters: str,
    method: str,
    authority: str,
    path: str,
    headers: Headers,
) -> bytes:
    """Return the text that is signed (RFC 9421 section 2.5); `parameters` is the value of
    `@signature-params`. Raises SignatureFault for a component that the message does not have."""
    lines = [
        f'"{component}": {_component(component, method, authority, path, headers)}'
        for component in components
    ]
    return "\n".join((*lines, f'"@signature-params": {parameters}')).encode("latin-1")


def signed_headers(
    key: SigningKey, method: str, authority: str, path: str, content: bytes, *, now: Instant
) -> Headers:
    """Return the headers of a request of JSON with its signature. The signature is deterministic
    (RFC 6979), so a repetition is the same."""
    # 1. What is covered, and for how long.
    created = now // SECOND
    expires = created + LIFETIME // SECOND
    components = " ".join(f'"{component}"' for component in SIGNED_COMPONENTS)
    validity = f"created={created};expires={expires}"
    value = f'({components});alg="ecdsa-p256-sha256";keyid="{key.id}";{validity}'

    # 2. The fields that are covered have to be there before they are signed.
    headers: Headers = (
        (b"content-type", b"application/json"),
        (b"content-digest", content_digest(content).encode()),
        (b"signature-date", format_with_microseconds(now).encode()),
    )
    base = signature_base(SIGNED_COMPONENTS, value, method, authority, path, headers)
    signature = key.key.sign(base, ec.ECDSA(SHA256(), deterministic_signing=True))
    return (
        *headers,
        (b"signature", f"{LABEL}=:{base64.b64encode(signature).decode()}:".encode()),
        (b"signature-input", f"{LABEL}={value}".encode()),
    )


def verify_signature(
    request: HttpRequest, keys: Sequence[PublicKey], authorities: Sequence[str]
) -> SignatureInput:
    """Return what a request's signature by one of these keys covers. Raises SignatureFault.

    The request came to one of the `authorities`: which of them the sender has signed depends on the
    proxies between."""
    # 1. What it covers, in the one form that is documented.
    covered = parse_signature_input(_single_header(request.headers, b"signature-input"))
    signature = _decode(_members(_single_header(request.headers, b"signature")).get(covered.label))

    # 2. The body, by its digest: the signature covers only that.
    _check_digest(_single_header(request.headers, b"content-digest"), request.body)

    # 3. The rest, under each name that our host may have had.
    path = request.target.partition(b"?")[0].decode("latin-1")
    for authority in authorities:
        base = signature_base(
            covered.components, covered.text, request.method, authority, path, request.headers
        )
        if any(_is_signed_by(key, covered.algorithm, base, signature) for key in keys):
            return covered

    raise SignatureFault("The signature is by no known key, or of another message.")


def check_age(covered: SignatureInput, *, now: Instant) -> None:
    """Raise SignatureFault for a signature that is too old, or from the future."""
    if covered.created > now + CLOCK_SKEW:
        raise SignatureFault("The signature is from the future.")
    if now > min(covered.expires, covered.created + LIFETIME) + CLOCK_SKEW:
        raise SignatureFault("The signature has expired.")


def parse_signature_input(text: str) -> SignatureInput:
    """Return the one member of a Signature-Input. Raises SignatureFault for what is not in the
    documented form, or does not cover what it must."""
    match = _INPUT.fullmatch(text)
    if match is None or match["label"] != LABEL:
        raise SignatureFault("The Signature-Input is not in the documented form.")

    components = tuple(component.strip('"') for component in match["components"].split())
    pairs = _PARAMETER.findall(match["parameters"])
    parameters = {name: text or number for name, text, number in pairs}

    # What stands twice could be read in two ways.
    if len(set(components)) != len(components) or len(parameters) != len(pairs):
        raise SignatureFault("The Signature-Input names something twice.")
    if not set(components) >= REQUIRED_COMPONENTS:
        raise SignatureFault("The signature does not cover the whole request.")

    try:
        created, expires = (
            Instant(int(parameters[name]) * SECOND) for name in ("created", "expires")
        )
        return SignatureInput(
            match["label"], components, match["value"], parameters["alg"], created, expires
        )
    except (KeyError, ValueError):
        raise SignatureFault(
            "The Signature-Input does not say when it was made, and how."
        ) from None


def _component(name: str, method: str, authority: str, path: str, headers: Headers) -> str:
    match name:
        case "@method":
            return method
        case "@authority":
            return authority.lower()
        case "@path":
            return path
        case _:
            values = [
                value.decode("latin-1").strip()
                for field_name, value in headers
                if field_name == name.encode()
            ]
            if not values:
                raise SignatureFault("The signature covers what the request does not have.")
            return ", ".join(values)


def _single_header(headers: Headers, name: bytes) -> str:
    values = [value for field_name, value in headers if field_name == name]
    if not values:
        raise SignatureFault(f"It has no {name.decode().title()}.")
    if len(values) > 1:
        raise SignatureFault(f"It has more than one {name.decode().title()}.")
    return values[0].decode("latin-1").strip()


def _members(text: str) -> Mapping[str, str]:
    """Return the members of a dictionary of byte sequences (RFC 9651 sections 3.2 and 3.3.5), still
    as Base64."""
    members = {}
    for member in text.split(","):
        match = _BYTES.fullmatch(member.strip())
        if match is None or match[1] in members:
            raise SignatureFault("A header is not in the documented form.")
        members[match[1]] = match[2]

    return members


def _decode(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        raise SignatureFault("A header is not in the documented form.") from None


def _check_digest(text: str, content: bytes) -> None:
    digests = {name: value for name, value in _members(text).items() if name in DIGESTS}
    if not digests:
        raise SignatureFault("The Content-Digest is of no known algorithm.")

    # Of several each known one has to be right.
    for algorithm, value in digests.items():
        if not hmac.compare_digest(_decode(value), DIGESTS[algorithm](content)):
            raise SignatureFault("The Content-Digest is of another body.")


_CURVES: Final[Mapping[str, tuple[type[ec.EllipticCurve], HashAlgorithm]]] = MappingProxyType(
    {"ecdsa-p256-sha256": (ec.SECP256R1, SHA256()), "ecdsa-p384-sha384": (ec.SECP384R1, SHA384())}
)

_RSA: Final[Mapping[str, tuple[padding.AsymmetricPadding, HashAlgorithm]]] = MappingProxyType(
    {
        "rsa-pss-sha512": (padding.PSS(padding.MGF1(SHA512()), salt_length=64), SHA512()),
        "rsa-v1_5-sha256": (padding.PKCS1v15(), SHA256()),
    }
)

# The algorithms of signatures that pawaPay documents; the key decides which of them may count.
ALGORITHMS: Final = (*_CURVES, *_RSA)


def _is_signed_by(key: PublicKey, algorithm: str, base: bytes, signature: bytes) -> bool:
    if isinstance(key, rsa.RSAPublicKey):
        if algorithm not in _RSA:
            return False

        rsa_padding, rsa_hash = _RSA[algorithm]
        return _accepts(lambda: key.verify(signature, base, rsa_padding, rsa_hash))

    # The message names the algorithm, and the key decides whether it counts.
    if algorithm not in _CURVES or not isinstance(key.curve, _CURVES[algorithm][0]):
        return False

    scheme = ec.ECDSA(_CURVES[algorithm][1])
    half = key.curve.key_size // 8

    # 1. In DER, as pawaPay signs.
    if _accepts(lambda: key.verify(signature, base, scheme)):
        return True

    # 2. As two numbers side by side, as RFC 9421 has it.
    if len(signature) != 2 * half:
        return False

    numbers = (int.from_bytes(part) for part in (signature[:half], signature[half:]))
    der = encode_dss_signature(*numbers)
    return _accepts(lambda: key.verify(der, base, scheme))


def _accepts(verify: Callable[[], None]) -> bool:
    try:
        verify()
    except InvalidSignature:
        return False
    return True
