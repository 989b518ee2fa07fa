"""Reads the address of a database for what people have to know of it: where it leads, and without its passwords."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import unquote

from mmo_trio.storage.open_store import POSTGRES_SCHEMES, url_scheme

SECRET_PARAMETERS = ("password", "passwd", "pwd", "secret", "token")
"""What the name of a parameter with a secret holds, such as `password` and `sslpassword` of PostgreSQL."""
MASK = "***"


def mask_database_url(url: str) -> str:
    """Return the address of a database without passwords, before the host and in the query alike."""
    scheme, separator, rest = url.partition("://")
    if scheme != "sqlite" and "@" in rest.partition("?")[0]:
        user, at, host = rest.partition("?")[0].rpartition("@")
        name, colon, _ = user.partition(":")
        rest = f"{name}:{MASK}@{host}{rest[len(user) + len(at) + len(host) :]}" if colon else rest
    before, mark, query = rest.partition("?")
    return f"{scheme}{separator}{before}{mark}{'&'.join(_mask_parameter(each) for each in query.split('&'))}"


def _mask_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    plain = unquote(name).lower()
    return f"{name}={MASK}" if equals and any(each in plain for each in SECRET_PARAMETERS) else parameter


def has_unescaped_user(url: str) -> bool:
    """Return whether the user name or the password in a PostgreSQL address has an `@` or a `/` as it is: what follows
    would be read as the host, and shown in messages."""
    scheme, _, rest = url.partition("://")
    address = rest.partition("?")[0]
    return scheme in POSTGRES_SCHEMES and (address.count("@") > 1 or "@" in address.partition("/")[2])


def unverified_postgres_host(url: str) -> str | None:
    """Return the host of another machine to which this address connects without `sslmode=verify-full`, so that somebody
    between could read and change everything; None when there is none. Other databases than PostgreSQL have none."""
    if url_scheme(url) not in POSTGRES_SCHEMES:
        return None
    # Imported here, as no other setting needs it: libpq itself reads the address, its own variables and its services.
    import trio_asyncio  # noqa: F401  Before psycopg: see `mmo_trio.storage.postgres.trio_connection`.
    from psycopg import ProgrammingError, pq
    from psycopg.conninfo import conninfo_to_dict

    defaults = {each.keyword.decode(): each.val.decode() for each in pq.Conninfo.get_defaults() if each.val}
    try:
        given = {**defaults, **conninfo_to_dict(url)}
    except ProgrammingError:
        return None  # The store says what is wrong with it.
    if given.get("sslmode") == "verify-full" or given.get("sslrootcert") == "system":
        return None
    hosts = str(given.get("hostaddr") or given.get("host") or "").split(",")
    return next((each for each in hosts if not _is_on_this_machine(each)), None)


def _is_on_this_machine(host: str) -> bool:
    """Whether the host is a socket's directory, an abstract socket, or a loopback name or address."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
