"""Raises the limit of this process on descriptors, and shares them out among what needs them."""

from __future__ import annotations

import resource
from typing import Final

from attrs import frozen

# The highest limit that is asked for; a hard limit may be without bound.
# Linux's default for `fs.nr_open`.
RAISED_MAX: Final = 1_048_576

# Descriptors of a process besides its connections: the store, logs, look-ups, conversations with
# operators.
OTHER_DESCRIPTORS: Final = 128

# Descriptors that are left to the console when the pages have used up theirs.
CONSOLE_DESCRIPTORS: Final = 64


@frozen
class DescriptorShares:
    """Holds the number of open descriptors from which each listener accepts no more connections.

    Each number is lower than that of what is more important: the pages stop first, then the
    console, then the API; the rest stays for the store, the operators and the callbacks."""

    api: int
    console: int
    pages: int


def raise_descriptor_limit() -> int:
    """Raise the soft limit on descriptors to the hard one, and return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        wanted = RAISED_MAX
    else:
        wanted = min(hard, RAISED_MAX)

    if soft == resource.RLIM_INFINITY or soft >= wanted:
        if soft == resource.RLIM_INFINITY:
            return RAISED_MAX
        return soft

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # Some systems have a lower limit of their own.
        return soft

    return wanted


def share_descriptors(limit: int, *, callbacks: int, api_connections: int) -> DescriptorShares:
    """Share out `limit` descriptors, given how many callbacks and API connections may be open at a
    time.

    Neither reserve takes more than a quarter of the limit."""
    api = limit - min(callbacks + OTHER_DESCRIPTORS, limit // 4)
    console = api - min(api_connections, limit // 4)
    return DescriptorShares(api=api, console=console, pages=max(1, console - CONSOLE_DESCRIPTORS))
