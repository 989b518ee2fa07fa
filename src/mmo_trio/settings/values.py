"""Defines the kinds of values that settings have beside those of the core: durations, sizes,
addresses and lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from attrs import frozen

from mmo_sansio.http.egress_rules import UrlError, parse_url
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span
from mmo_sansio.values.fields import InvalidValue, Kind, of_list, of_text, whole_number
from mmo_sansio.values.money import Money, written_money
from mmo_trio.storage.interface.admin_types import Role
from mmo_trio.storage.open_store import STORE_SCHEMES

Network: TypeAlias = IPv4Network | IPv6Network


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


def _span(text: str) -> Span:
    # A number without a unit would be guessed: 60 may be seconds or minutes.
    if _DURATION.fullmatch(text) is None:
        raise ValueError("it has no unit")
    span = Span(sum(int(n) * _UNITS[unit] for n, unit in _DURATION_PART.findall(text)))
    if not 0 < span <= SPAN_MAX:
        raise InvalidValue("must be a duration above 0 and at most 3650d.", 'Write it like "15m".')
    return span


def format_span(span: Span) -> str:
    """Format a span as `SPAN` reads it: `3d`, `1h30m`, and in seconds below two minutes: `60s`."""
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


def _span_or_off(text: str) -> Span | None:
    if text in ("off", "never"):
        return None
    return _span(text)


def _size(value: Any) -> int:
    # A number without a unit is one of octets; Python's true is a number, too.
    if type(value) is int:
        value = f"{value}B"
    match = of_text(_SIZE.fullmatch)(value)
    if match is None or (size := int(match[1]) * _SIZES[match[2]]) == 0:
        raise ValueError("it is no size")
    return size


def format_size(size: int) -> str:
    """Format a size in the largest unit that divides it."""
    # The largest first, and bytes divide everything.
    unit, length = next((unit, n) for unit, n in _SIZES.items() if size % n == 0)
    return f"{size // length}{unit}"


def _ratio(value: Any) -> float:
    # Python would take true for 1.
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise ValueError("it is no number")
    if not 0 < (ratio := float(value)) <= 1:
        raise ValueError("it is out of range")
    return ratio


def _listen_address(text: str) -> ListenAddress:
    """Parse `HOST:PORT`; an IPv6 address has brackets; port 0 picks a free one."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})", text, re.ASCII)
    if match is None or int(match[3]) > 65_535:
        raise ValueError("it is no such address")
    return ListenAddress(match[1] or match[2], int(match[3]))


def _url(text: str) -> str:
    text = text.rstrip("/")
    parts = urlsplit(text)
    good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0

    # Paths of ours are put behind it, and a password would stand in every URL.
    if not good or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("it is none that paths can be put behind")

    try:
        parse_url(text)
    except UrlError as error:
        raise InvalidValue(f"can't be used. {error}") from None

    return text


def _webhook_url(text: str) -> str:
    if parse_url(text).scheme != "https":
        raise ValueError("it is no https address")
    return text


def mask_webhook_url(url: str) -> str:
    """Return scheme and host of an address whose path may hold a secret."""
    return f"https://{parse_url(url).authority}/{MASK}"


_DATABASE_FORM = '"sqlite:///FILE" or "postgresql://USER@HOST/DATABASE"'


def _database_url(text: str) -> str:
    scheme, _, rest = text.partition("://")
    if not scheme or not rest or (scheme == "sqlite" and not re.match("/.", rest)):
        raise ValueError("it is no such address")

    if scheme not in STORE_SCHEMES:
        fault = f"must be {_DATABASE_FORM}; no store has the scheme {scheme!r}."
        raise InvalidValue(fault, f"Known are: {', '.join(STORE_SCHEMES)}.")

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


def _title(text: str) -> str:
    text = " ".join(text.split())
    if not 1 <= len(text) <= TITLE_CHARACTERS_MAX or not text.isprintable():
        raise ValueError("it is too long, or can't be printed")
    return text


def _file(text: str) -> Path:
    if "\0" in text:
        raise ValueError("no path has that character")
    return Path(text).expanduser()


def _amount(text: str) -> Money:
    """Parse an amount as all settings have it, such as KES 50000."""
    currency, number = text.split()
    return written_money(number, currency)


def _amounts(value: Any) -> tuple[Money, ...]:
    amounts = of_list(_amount)(value)
    if len({amount.currency for amount in amounts}) < len(amounts):
        raise ValueError("a currency is there twice")
    return amounts


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) or not 1 <= int(text) <= 65_535:
        raise ValueError(f"{text} is no port")
    return int(text)


def _host_name(text: str) -> str:
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


def _reversal_limit(text: str) -> ReversalLimit:
    role, _, amount = text.partition(" ")
    return ReversalLimit(Role(role).value, _amount(amount))


def _list_kind(
    name: str, parse: Callable[[Any], tuple[Any, ...]], demand: str, example: str
) -> Kind:
    return Kind(
        name, parse, demand, example, lambda values: ", ".join(map(str, values)) or "(none)"
    )


SPAN = Kind(
    'duration, e.g. "15m"',
    of_text(_span),
    "a duration with its unit",
    '"3d", "15m", "60s" or "500ms"',
    format_span,
)
SPAN_OR_OFF = Kind(
    'duration or "off"',
    of_text(_span_or_off),
    'a duration with its unit, or "off"',
    SPAN.example,
    lambda span: "off" if span is None else format_span(span),
)
SIZE = Kind('size, e.g. "64KiB"', _size, "a size with its unit", '"64KiB" or "1MiB"', format_size)
COUNT = whole_number(least=1)
SECONDS = whole_number(name="seconds")
RATIO = Kind("ratio, e.g. 0.5", _ratio, "a ratio above 0 and at most 1", "0.5")
LISTEN_ADDRESS = Kind(
    "HOST:PORT", of_text(_listen_address), "HOST:PORT", '"127.0.0.1:8080" or "[::1]:8080"'
)
URL = Kind("address (URL)", of_text(_url), "an http or https address", '"https://pay.example.com"')
DATABASE = Kind(
    "address (URL)",
    of_text(_database_url),
    _DATABASE_FORM,
    '"sqlite:////var/lib/mmo/gateway.db" for an absolute path',
    mask_database_url,
    is_secret=True,
)
WEBHOOK_URL = Kind(
    "address (URL)",
    of_text(_webhook_url),
    "an https address",
    '"https://chat.example.com/hooks/x"',
    mask_webhook_url,
    is_secret=True,
)
TITLE = Kind(
    "text", of_text(_title), f"text of 1 to {TITLE_CHARACTERS_MAX} characters", '"Acme Pay"'
)
FILE = Kind("file", of_text(_file), "the path of a file", '"/etc/mmo/file"')
NETWORKS = _list_kind(
    "list of networks",
    of_list(ip_network),
    "a list of addresses or networks",
    '["10.0.0.0/8", "192.0.2.7"]',
)
AMOUNTS = _list_kind(
    'list of amounts, e.g. ["KES 50000"]',
    _amounts,
    "a list of amounts, one for a currency",
    '["KES 50000", "UGX 2000000"]',
)
PORTS = _list_kind("list of ports", of_list(_port), "a list of port numbers", "[443, 8443]")
REVERSAL_LIMITS = _list_kind(
    'list of limits, e.g. ["support KES 5000"]',
    of_list(_reversal_limit),
    "a list of limits",
    '["support KES 5000", "approver KES 50000"]',
)
HOST_NAMES = _list_kind(
    "list of host names",
    of_list(_host_name),
    "a list of host names, without scheme or port",
    '["console.example.com"]',
)
