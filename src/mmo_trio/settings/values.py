"""Parses and formats the written forms of settings: durations, sizes, addresses and lists; defines
their errors.

A parser accepts a value of a TOML file (text, a number, a boolean, an array) or the text of an
environment variable, and raises InvalidSettingValue with a sentence that says what is acceptable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from attrs import frozen

from mmo_sansio.http.egress_rules import UrlError, parse_url
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span
from mmo_sansio.values.money import Money, written_money
from mmo_trio.storage.interface.admin_types import Role
from mmo_trio.storage.open_store import STORE_SCHEMES

T = TypeVar("T")

Network: TypeAlias = IPv4Network | IPv6Network


class SettingsError(Exception):
    """Reports an unusable key or value; the message names the place, the fault and the remedy."""

    def __init__(self, location: str, fault: str, remedy: str) -> None:
        super().__init__(f"{location}: {fault} {remedy}".rstrip())

        # The key or variable, and its file.
        self.location = location
        self.fault = fault
        self.remedy = remedy


def raise_faults(faults: Sequence[SettingsError]) -> None:
    """Raise the first fault, if there is one, with a line for each of them as its message."""
    if faults:
        # One exception with all lines: who starts a gateway mends the file once.
        faults[0].args = ("\n".join(map(str, faults)),)
        raise faults[0]


@contextmanager
def collected(faults: list[SettingsError]) -> Iterator[None]:
    """Append the fault that is raised in the block."""
    try:
        yield
    except SettingsError as fault:
        faults.append(fault)


class InvalidSettingValue(ValueError):
    """Reports an unacceptable value; the message says what is acceptable."""


# The longest duration, so that every instant is within the calendar.
SPAN_MAX = Span(3650 * clock.DAY)

# So that a title fits a line of a small phone, or two.
TITLE_CHARACTERS_MAX = 60

_UNITS = {
    "d": clock.DAY,
    "h": clock.HOUR,
    "m": clock.MINUTE,
    "s": clock.SECOND,
    "ms": clock.MILLISECOND,
}
_SIZES = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024, "B": 1}
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:ms|[dhms]))+", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]{1,9})(ms|[dhms])", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,12}) ?(GiB|MiB|KiB|B)", re.ASCII)
_HOST_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.\-]{0,252}[a-z0-9_])?", re.ASCII)
_BOOLEAN_WORDS = {"true": True, "yes": True, "on": True, "1": True}
_BOOLEAN_WORDS |= {"false": False, "no": False, "off": False, "0": False}


@frozen
class ValueKind:
    """Says how a kind of value is parsed and formatted."""

    name: str
    """Its name in the documentation, with an example."""
    parse: Callable[[Any], Any]
    format: Callable[[Any], str]
    is_private: bool = False
    """Whether it may contain a secret, so that no message repeats it."""


@frozen
class ListenAddress:
    """Holds the address of a listener."""

    host: str
    """An address or a name; without brackets."""
    port: int
    """0 picks a free one."""

    def __str__(self) -> str:
        if ":" in self.host:
            return f"[{self.host}]:{self.port}"
        return f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine can reach it."""
        return self.host in ("localhost", "::1") or bool(
            re.fullmatch(r"127(\.[0-9]{1,3}){3}", self.host, re.ASCII)
        )


def parse_span(value: Any) -> Span:
    """Parse a duration above 0: `3d`, `15m`, `1h30m`, `500ms`."""
    # A number without a unit would be guessed: 60 may be seconds or minutes.
    if not isinstance(value, str) or _DURATION.fullmatch(value.strip()) is None:
        raise InvalidSettingValue(
            'must be a duration with its unit, such as "3d", "15m", "60s" or "500ms"'
        )
    span = Span(sum(int(n) * _UNITS[unit] for n, unit in _DURATION_PART.findall(value)))
    if not 0 < span <= SPAN_MAX:
        raise InvalidSettingValue("must be a duration above 0 and at most 3650d")
    return span


def format_span(span: Span) -> str:
    """Format a span for `parse_span`: `3d`, `1h30m`, and in seconds below two minutes: `60s`."""
    # `60s` and `90s`, as people write them.
    if span < 2 * clock.MINUTE and span % clock.SECOND == 0:
        return f"{span // clock.SECOND}s"
    parts = []
    rest = int(span)
    for unit, length in _UNITS.items():
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")

    return "".join(parts)


def to_seconds(span: Span) -> float:
    """Return the span in seconds, as Trio's deadlines need it."""
    return span / clock.SECOND


def from_seconds(seconds: float) -> Span:
    """Return the span of so many seconds, to the microsecond."""
    return Span(round(seconds * clock.SECOND))


def _parse_span_or_off(value: Any) -> Span | None:
    if value in ("off", "never"):
        return None
    try:
        return parse_span(value)
    except InvalidSettingValue as fault:
        raise InvalidSettingValue(f'{fault}, or "off"') from None


def parse_size(value: Any) -> int:
    """Parse a number of octets: `64KiB`, `1MiB`, or a whole number."""
    # Python's true is a number, too.
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value}B"
    match = None
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
    if match is None or (size := int(match[1]) * _SIZES[match[2]]) == 0:
        raise InvalidSettingValue('must be a size with its unit, such as "64KiB" or "1MiB"')
    return size


def format_size(size: int) -> str:
    """Format a size in the largest unit that divides it."""
    # The largest first, and bytes divide everything.
    unit, length = next((unit, n) for unit, n in _SIZES.items() if size % n == 0)
    return f"{size // length}{unit}"


def parse_count(value: Any, *, least: int = 1) -> int:
    """Parse a whole number, at least 1 or what else is the least."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip(), re.ASCII):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 10**9:
        raise InvalidSettingValue(f"must be a whole number, at least {least}")
    return value


def _parse_ratio(value: Any) -> float:
    try:
        # Python would take true for 1.
        ratio = -1.0
        if not isinstance(value, bool):
            ratio = float(value)
    except (TypeError, ValueError):
        ratio = -1.0
    if not 0 < ratio <= 1:
        raise InvalidSettingValue("must be a ratio above 0 and at most 1, such as 0.5")
    return ratio


def _parse_switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value

    # Environment variables have text only.
    word = ""
    if isinstance(value, str):
        word = value.strip().lower()
    if word not in _BOOLEAN_WORDS:
        raise InvalidSettingValue("must be true or false")
    return _BOOLEAN_WORDS[word]


def one_of(*words: str) -> ValueKind:
    """Return the kind of a value that is one of these words."""
    name = " or ".join(f'"{word}"' for word in words)

    def read(value: Any) -> str:
        if value not in words:
            raise InvalidSettingValue(f"must be {name}")
        return str(value)

    return ValueKind(name, read, str)


def parse_listen_address(value: Any) -> ListenAddress:
    """Parse `HOST:PORT`; an IPv6 address has brackets; port 0 picks a free one."""
    if isinstance(value, str):
        text = value.strip()
    else:
        text = ""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})", text, re.ASCII)
    if match is None or int(match[3]) > 65_535:
        raise InvalidSettingValue('must be HOST:PORT, such as "127.0.0.1:8080" or "[::1]:8080"')
    return ListenAddress(match[1] or match[2], int(match[3]))


def _parse_url(value: Any) -> str:
    if isinstance(value, str):
        text = value.strip().rstrip("/")
    else:
        text = ""

    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False

    # Paths of ours are put behind it, and a password would stand in every URL.
    if not good or parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidSettingValue(
            'must be an http or https address, such as "https://pay.example.com"'
        )

    try:
        parse_url(text)
    except UrlError as error:
        raise InvalidSettingValue(f"can't be used. {str(error).removesuffix('.')}") from None

    return text


def _parse_webhook_url(value: Any) -> str:
    if isinstance(value, str):
        text = value.strip()
    else:
        text = ""

    try:
        is_https = parse_url(text).scheme == "https"
    except UrlError:
        is_https = False

    if not is_https:
        raise InvalidSettingValue(
            'must be an https address, such as "https://chat.example.com/hooks/x"'
        )

    return text


def mask_webhook_url(url: str) -> str:
    """Return scheme and host of an address whose path may hold a secret."""
    return f"https://{parse_url(url).authority}/{MASK}"


_DATABASE_URL_FORM = (
    '"sqlite:///FILE" (sqlite:////var/lib/mmo/gateway.db for an absolute path) or '
    '"postgresql://USER@HOST/DATABASE"'
)


def _parse_database_url(value: Any) -> str:
    if isinstance(value, str):
        text = value.strip()
    else:
        text = ""

    scheme, _, rest = text.partition("://")
    if not scheme or not rest or (scheme == "sqlite" and not re.match("/.", rest)):
        raise InvalidSettingValue(f"must be {_DATABASE_URL_FORM}")

    if scheme not in STORE_SCHEMES:
        fault = f"must be {_DATABASE_URL_FORM}; no store has the scheme {scheme!r}"
        raise InvalidSettingValue(f"{fault}. Known are: {', '.join(STORE_SCHEMES)}")

    return text


# What the name of a parameter with a secret holds, such as `password` and `sslpassword` of
# PostgreSQL.
_SECRET_PARAMETERS = ("password", "passwd", "pwd", "secret", "token")

MASK = "***"


def mask_database_url(url: str) -> str:
    """Return the address of a database without passwords, before the host and in the query
    alike."""
    scheme, separator, rest = url.partition("://")

    # 1. A password before the host.
    if scheme != "sqlite" and "@" in rest.partition("?")[0]:
        user, at, host = rest.partition("?")[0].rpartition("@")
        name, colon, _ = user.partition(":")
        if colon:
            rest = f"{name}:{MASK}@{host}{rest[len(user) + len(at) + len(host) :]}"

    # 2. One among the parameters, as libpq takes it as well.
    before, mark, query = rest.partition("?")
    parameters = [_mask_parameter(parameter) for parameter in query.split("&")]
    return f"{scheme}{separator}{before}{mark}{'&'.join(parameters)}"


def _mask_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    plain = unquote(name).lower()
    if equals and any(secret_parameter in plain for secret_parameter in _SECRET_PARAMETERS):
        return f"{name}={MASK}"
    return parameter


def _parse_title(value: Any) -> str:
    if isinstance(value, str):
        text = " ".join(value.split())
    else:
        text = ""
    if not 1 <= len(text) <= TITLE_CHARACTERS_MAX or not text.isprintable():
        raise InvalidSettingValue(f"must be text of 1 to {TITLE_CHARACTERS_MAX} characters")
    return text


def _parse_file(value: Any) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise InvalidSettingValue("must be the path of a file")
    return Path(value.strip()).expanduser()


def _list_of(what: str, parse: Callable[[str], T]) -> Callable[[Any], tuple[T, ...]]:
    """Return the parser of a list, or of text with commas; of an element it raises ValueError or
    KeyError."""

    def read(value: Any) -> tuple[T, ...]:
        # The environment has text only: a list is written with commas there.
        if isinstance(value, str):
            parts = [part for part in value.split(",") if part.strip()]
        else:
            parts = value
        try:
            if not isinstance(parts, list):
                raise ValueError("it is no list")
            return tuple(parse(str(part).strip()) for part in parts)
        except (ValueError, KeyError):
            raise InvalidSettingValue(f"must be a list of {what}") from None

    return read


# Parses a list of addresses and networks.
parse_networks: Callable[[Any], tuple[Network, ...]] = _list_of(
    'addresses or networks, such as ["10.0.0.0/8", "192.0.2.7"]', ip_network
)


def _parse_amount(text: str) -> Money:
    """Parse an amount as all settings have it, such as KES 50000."""
    currency, number = text.split()
    return written_money(number, currency)


_AMOUNTS = 'amounts, one for a currency, such as ["KES 50000", "UGX 2000000"]'


def parse_amounts(value: Any) -> tuple[Money, ...]:
    """Parse a list of amounts, one at most for each currency."""
    amounts = _list_of(_AMOUNTS, _parse_amount)(value)
    if len({amount.currency for amount in amounts}) < len(amounts):
        raise InvalidSettingValue(f"must be a list of {_AMOUNTS}")
    return amounts


def _parse_port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) or not 1 <= int(text) <= 65_535:
        raise ValueError(f"{text} is no port")
    return int(text)


def _parse_host_name(text: str) -> str:
    name = text.lower().rstrip(".")
    if not _HOST_NAME.fullmatch(name):
        raise ValueError(f"{name} is no host name")
    return name


@frozen
class ReversalLimit:
    """Says what one user with a role may ask back in a day, of one brand's payments."""

    role: str
    amount: Money

    def __str__(self) -> str:
        return f"{self.role} {self.amount.currency} {self.amount.text}"


def _parse_reversal_limit(text: str) -> ReversalLimit:
    role, _, amount = text.partition(" ")
    return ReversalLimit(Role(role).value, _parse_amount(amount))


def _format_list(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values)) or "(none)"


SPAN = ValueKind('duration, e.g. "15m"', parse_span, format_span)
SPAN_OR_OFF = ValueKind(
    'duration or "off"', _parse_span_or_off, lambda s: "off" if s is None else format_span(s)
)
SIZE = ValueKind('size, e.g. "64KiB"', parse_size, format_size)
COUNT = ValueKind("number", parse_count, str)
SECONDS = ValueKind("seconds", partial(parse_count, least=0), str)
RATIO = ValueKind("ratio, e.g. 0.5", _parse_ratio, str)
SWITCH = ValueKind("true or false", _parse_switch, lambda value: str(value).lower())
LISTEN_ADDRESS = ValueKind("HOST:PORT", parse_listen_address, str)
URL = ValueKind("address (URL)", _parse_url, str)
DATABASE = ValueKind("address (URL)", _parse_database_url, mask_database_url, is_private=True)
WEBHOOK_URL = ValueKind("address (URL)", _parse_webhook_url, mask_webhook_url, is_private=True)
TITLE = ValueKind("text", _parse_title, str)
FILE = ValueKind("file", _parse_file, str)
NETWORKS = ValueKind("list of networks", parse_networks, _format_list)
PORTS = ValueKind(
    "list of ports", _list_of("port numbers, such as [443, 8443]", _parse_port), _format_list
)
_LIMITS = 'limits, such as ["support KES 5000", "approver KES 50000"]'
REVERSAL_LIMITS = ValueKind(
    'list of limits, e.g. ["support KES 5000"]',
    _list_of(_LIMITS, _parse_reversal_limit),
    _format_list,
)
_HOST_NAMES = 'host names, such as ["console.example.com"], without scheme or port'
HOST_NAMES = ValueKind("list of host names", _list_of(_HOST_NAMES, _parse_host_name), _format_list)
