"""Checks where a merchant's URL leads: the rules for resultUrl, displayQrUrl and redirect URLs (C8,
K7).

One function, `parse_url`, parses a URL, strictly by RFC 3986: the delivery client connects to what
is checked here, so no second parser can read it differently. Names are judged by their spelling
only; their addresses are judged when a connection is made (`mmo_sansio.http.ip_rules`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address

from attrs import frozen

from mmo_sansio.http.ip_rules import Address, address_error, parse_ipv4_host

# Code points in any URL of a merchant (specification, Limits; G8).
URL_LENGTH_MAX = 2048

# Characters of a host name without its final dot (RFC 1035 section 2.3.4).
HOST_LENGTH_MAX = 253

DEFAULT_PORTS = {"https": 443, "http": 80}

# Schemes that run or read something in the payer's browser: rejected also when a brand lists them
# (C8).
FORBIDDEN_REDIRECT_SCHEMES = frozenset({"javascript", "data", "vbscript", "file"})


class UrlError(ValueError):
    """The URL cannot be used; the message is one sentence that says why and what would be right."""


@frozen
class EgressRules:
    """Restricts where merchants' URLs may lead: the settings of `[egress]`, and the gateway's own
    hosts."""

    allow_private: bool = False
    """Permit loopback, private and unique-local addresses, and `localhost` (K7)."""
    allowed_ports: frozenset[int] = frozenset()
    """The only ports that may be connected to; empty: any."""
    own_hosts: frozenset[str] = frozenset()
    """Hosts of this gateway, so that no callback loops back: `pay.example` stands for every port of
    that host, `127.0.0.1:8080` or `[::1]:8080` for one; in the spelling of
    `UrlTarget.authority`."""


@frozen
class UrlTarget:
    """Says where a URL leads: the peer, the name in its certificate, and the request target."""

    scheme: str
    """`https` or `http`."""
    host: str
    """A name in lower-case ASCII (A-labels) without a final dot, or a canonical IP address without
    brackets."""
    port: int
    path_and_query: str
    """The origin-form of the request target (RFC 9112 section 3.2.1), in ASCII; begins with `/`."""
    address: Address | None = None
    """The address, when the host is a literal one."""

    @property
    def bracketed_host(self) -> str:
        """Return the host as a URL writes it: IPv6 addresses in brackets."""
        if isinstance(self.address, IPv6Address):
            return f"[{self.host}]"
        return self.host

    @property
    def authority(self) -> str:
        """Return the value of the Host field: the port only when it is not the scheme's own (RFC
        9110 section 7.2)."""
        if self.port == DEFAULT_PORTS[self.scheme]:
            return self.bracketed_host
        return f"{self.bracketed_host}:{self.port}"


@lru_cache(maxsize=1024)
def delivery_url_error(
    url: str, *, rules: EgressRules, brand_host: str | None = None
) -> str | None:
    """Return what is wrong with a resultUrl or displayQrUrl and what would be right, in one
    sentence; None if nothing is wrong (C8). The `brand_host` is a name under which this gateway
    serves the brand (`Brand.host`).

    Results are cached, as a merchant's requests name the same URL again and again."""
    try:
        # 1. Whether it is a URL at all.
        target = parse_url(url)
    except UrlError as error:
        return str(error)

    # 2. The scheme.
    if target.scheme != "https":
        return "The URL must begin with https://, as callbacks only travel encrypted."

    if target.address is not None:
        # 3. Where it leads. A name is looked up, and its addresses judged, when a connection is
        # made.
        fault = address_error(target.address, allow_private=rules.allow_private)
    else:
        fault = _special_name_error(target.host, allow_private=rules.allow_private)

    if fault is not None:
        return fault

    # 4. Not to this gateway itself, or a callback would loop back.
    spellings = {target.bracketed_host, f"{target.bracketed_host}:{target.port}"}
    if spellings & rules.own_hosts or target.host == brand_host:
        return "The URL leads to this gateway itself: give a URL of your own service."

    # 5. The port, last: it depends on the operator of this gateway, not on the URL.
    if rules.allowed_ports and target.port not in rules.allowed_ports:
        ports = ", ".join(str(port) for port in sorted(rules.allowed_ports))
        return f"Port {target.port} can't be reached: use one of {ports}."

    return None


def result_host_error(url: str, result_hosts: Collection[str]) -> str | None:
    """Return why a resultUrl or displayQrUrl, which `delivery_url_error` has accepted, is not on
    one of the brand's `result_hosts`, in one sentence; None if it is, or if the brand has none
    (`Brand.result_hosts`)."""
    if not result_hosts:
        return None

    host = parse_url(url).host

    # `*.shop.example` covers each name below shop.example, at any depth, and not itself.
    parents = (f"*{host[at:]}" for at, character in enumerate(host) if character == ".")
    if host in result_hosts or any(parent in result_hosts for parent in parents):
        return None

    return (
        f"The host {host} is not one of the brand's result hosts: use one of them, or have "
        f"it added."
    )


def parse_result_host(text: str) -> str:
    """Return a host of `Brand.result_hosts` as it is stored. Raises UrlError."""
    wildcard, name = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    target = parse_url(f"https://{name}/")

    # The parser drops a default port and adds a slash, so what was written is looked at, too.
    if (target.path_and_query, target.port) != ("/", DEFAULT_PORTS["https"]) or name.endswith(
        ("/", ":443")
    ):
        raise UrlError(f"{text!r} is more than a host name.")
    if wildcard and (target.address is not None or "." not in target.host):
        raise UrlError(f"{text!r} covers too much: a wildcard needs a name with a dot.")
    return wildcard + target.host


def redirect_url_error(url: str, *, extra_schemes: Collection[str]) -> str | None:
    """Return what is wrong with a URL the payer's browser is sent to, in one sentence; None if
    nothing is wrong (C8).

    It must be absolute, with at most 2048 characters, http, https or one of the `extra_schemes` of
    the brand. A fragment is allowed, and so is any host, as the gateway does not connect to it."""
    # A brand cannot allow a scheme that runs code, whatever its configuration says.
    further = {extra_scheme.lower() for extra_scheme in extra_schemes} - FORBIDDEN_REDIRECT_SCHEMES
    try:
        scheme, rest = _split_scheme(url)
        if scheme in FORBIDDEN_REDIRECT_SCHEMES:
            return f"A redirect URL can't have the scheme {scheme}: use https."

        if scheme in DEFAULT_PORTS:
            _split_hierarchy(scheme, rest.partition("#")[0])
            return None
    except UrlError as error:
        return str(error)

    if scheme not in further:
        allowed = ", ".join(("https", "http", *sorted(further)))
        return f"A redirect URL can't have the scheme {scheme}: use one of {allowed}."

    # An app's own scheme has no grammar to check, but `shop://` leads nowhere.
    if not rest.strip("/"):
        return f"Nothing follows the scheme: give a whole URL, such as {scheme}://done."

    return None


# A URL with an origin, and nothing behind it that has to be looked at character by character.
_PLAIN_URL = re.compile(r"(https?://[^/?#]++)(/[!$&-;=?-Z_a-z~]*+)")


def parse_url(url: str) -> UrlTarget:
    """Return the target of an absolute http or https URL. Raises UrlError with a sentence for
    anything else (RFC 3986). What is known of an origin is cached, as URLs of operators differ in
    their paths only.

    The URL has no user info and no fragment, as neither is ever sent. Hosts may be U-labels or
    A-labels (IDNA), with one final dot, or addresses in any spelling the C library knows; non-ASCII
    characters after the host are percent-encoded."""
    # Nothing to encode or refuse behind the host, so the origin's cached parts serve.
    plain = _PLAIN_URL.fullmatch(url)
    if plain is None or len(url) > URL_LENGTH_MAX:
        return parse_any_url(url)

    origin = parse_any_url(plain[1])
    return UrlTarget(origin.scheme, origin.host, origin.port, plain[2], origin.address)


@lru_cache(maxsize=1024)
def parse_any_url(url: str) -> UrlTarget:
    """Do what `parse_url` does, by a look at each character; results are cached."""
    scheme, rest = _split_scheme(url)
    if scheme not in DEFAULT_PORTS:
        raise UrlError(f"The URL must begin with https://, not with {scheme}:.")
    if "#" in rest:
        raise UrlError("The URL may not have a fragment: leave out '#' and what follows it.")
    return _split_hierarchy(scheme, rest)


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,62}):")
_FORBIDDEN_CHARACTERS = frozenset('"<>\\^`{|}')
_MALFORMED_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")

# Unicode categories: control, format (zero-width, BOM, bidi), lone surrogate, white space.
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})


def _split_scheme(url: str) -> tuple[str, str]:
    """Return the scheme in lower case and the text after its colon, once every character is
    checked."""
    if len(url) > URL_LENGTH_MAX:
        raise UrlError(f"The URL has {len(url)} characters: {URL_LENGTH_MAX} is the most.")
    if not url:
        raise UrlError("The URL is empty: give an absolute one.")

    # Every character before any structure: what is invisible hides where a URL leads.
    for character in url:
        if unicodedata.category(character) in _INVISIBLE_CATEGORIES:
            raise UrlError(
                "The URL may not contain white space, control or invisible characters, here "
                f"U+{ord(character):04X}: percent-encode or remove it."
            )
        if character in _FORBIDDEN_CHARACTERS:
            raise UrlError(f"The URL may not contain the character {character}: percent-encode it.")

    if _MALFORMED_ESCAPE.search(url):
        raise UrlError(
            "In a URL two hexadecimal digits follow each '%': write %25 for the sign itself."
        )

    match = _SCHEME.match(url)
    if match is None:
        raise UrlError("The URL must be absolute: begin it with https:// and a host.")

    return match[1].lower(), url[match.end() :]


def _split_hierarchy(scheme: str, rest: str) -> UrlTarget:
    """Return the target of an http or https URL from the text after its scheme, without a
    fragment."""
    if not rest.startswith("//"):
        raise UrlError(f"The URL has no host: write two slashes and a host after {scheme}:.")

    # The authority ends at the first slash or question mark (RFC 3986 section 3.2).
    end = min(at for at in (rest.find("/", 2), rest.find("?", 2), len(rest)) if at >= 0)
    authority, path_and_query = rest[2:end], rest[end:]
    if "@" in authority:
        raise UrlError(
            "The URL may not have a user name or password: leave out what stands before '@'."
        )

    if "%" in authority:
        raise UrlError("The host may not be percent-encoded nor have a zone: write it as it is.")

    host, port = _split_port(authority, default=DEFAULT_PORTS[scheme])
    if not path_and_query.startswith("/"):
        path_and_query = "/" + path_and_query

    # `0177.0.0.1` is no name: it is judged as the address that the C library would reach.
    address = _parse_address(host)
    if address is not None:
        return UrlTarget(scheme, str(address), port, _to_ascii(path_and_query), address)

    return UrlTarget(scheme, _check_host_name(host), port, _to_ascii(path_and_query))


_PORT = re.compile(r"[0-9]{1,5}")


def _split_port(authority: str, *, default: int) -> tuple[str, int]:
    """Return the host, an IPv6 one in its brackets and any other in lower-case ASCII, and the
    port."""
    # An IPv6 address has colons of its own, so its brackets are looked for first.
    host, bracket, after = authority.rpartition("]")
    if bracket:
        host, colon, port = host + bracket, after[:1], after[1:]
        if colon not in ("", ":"):
            raise UrlError("Only a port may follow the address in brackets.")
    else:
        host, colon, port = authority.partition(":")
        host = _to_a_labels(host).removesuffix(".")

    if not host:
        raise UrlError("The URL has no host: name one after the two slashes.")
    if not port:
        return host, default
    if not _PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise UrlError("The port must be a number from 1 to 65535.")

    return host, int(port)


# Characters that the two editions of IDNA map to different names (UTS 46 section 4); the joiners
# are rejected with the invisible characters.
_DEVIATIONS = re.compile("[ßẞς]")


def _to_a_labels(host: str) -> str:
    """Return the host in lower-case ASCII (RFC 3490); full-width letters and dots are mapped."""
    if host.isascii():
        return host.lower()
    if _DEVIATIONS.search(host):
        raise UrlError("The host can't be converted to ASCII for sure: write it in its xn-- form.")

    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise UrlError(
            "The host is not a valid international name: write it in its xn-- form."
        ) from None


def _parse_address(host: str) -> Address | None:
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1])
        return parse_ipv4_host(host)
    except AddressValueError:
        raise UrlError(
            "The host looks like an IP address and is none: write a host name."
        ) from None


_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")


def _check_host_name(host: str) -> str:
    """Return the host if its spelling is that of a DNS name (RFC 1123 section 2.1; inner
    underscores pass)."""
    if len(host) > HOST_LENGTH_MAX:
        raise UrlError(f"The host has {len(host)} characters: {HOST_LENGTH_MAX} is the most.")
    if not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise UrlError(
            "The host is not a DNS name: its parts are 1 to 63 letters, digits and inner hyphens."
        )
    return host


def _to_ascii(path_and_query: str) -> str:
    """Return the text with non-ASCII characters as percent-encoded UTF-8 (RFC 3987 section 3.1)."""
    if path_and_query.isascii():
        return path_and_query
    octets = path_and_query.encode()
    return "".join(chr(octet) if octet < 0x80 else f"%{octet:02X}" for octet in octets)


_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa")


def _special_name_error(host: str, *, allow_private: bool) -> str | None:
    """Return why a name cannot be public: it has no dot, or is reserved (RFC 6761, 6762, 8375;
    ICANN's .internal)."""
    # RFC 6761 section 6.3: these lead to this machine, by whatever resolver.
    if allow_private and (host == "localhost" or host.endswith(".localhost")):
        return None
    if "." in host and not host.endswith(_PRIVATE_SUFFIXES):
        return None
    return f"The host {host} is a name for private use: give one that the public DNS knows."
