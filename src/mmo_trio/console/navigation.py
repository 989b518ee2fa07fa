"""The navigation of the console: its pages in groups, with counts of what waits for staff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from mmo_trio.console.context import console
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import CurrentUser
from mmo_trio.storage.interface.admin_types import UNFINISHED_STATES
from mmo_trio.storage.interface.configuration_types import ChangeState
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

COUNT_MAX = 99
"""What waits is counted up to this number, so that no page costs more however much waits."""


@frozen
class NavigationEntry:
    """Describes a page of the navigation."""

    endpoint: str
    title: str
    icon: str
    """The name of its icon among those of the design system."""
    key: str
    """The letter that opens the page, typed after `g`."""
    permission: Permission | None = None
    """What a user needs to see the page; None for every user."""


NAVIGATION: Mapping[str, Sequence[NavigationEntry]] = {
    "": (
        NavigationEntry("overview.show", "Overview", "chart", "o"),
        NavigationEntry("payments.list_payments", "Payments", "list", "p"),
    ),
    "Waiting": (
        NavigationEntry("work_lists.stuck", "Stuck", "clock", "s"),
        NavigationEntry("resolutions.list_proposals", "Proposals", "check", "r"),
        NavigationEntry("configuration.list_changes", "Configuration", "settings", "f"),
        NavigationEntry("work_lists.suspense", "Suspense", "inbox", "u"),
        NavigationEntry("work_lists.callbacks", "Failed callbacks", "alert", "c"),
    ),
    "Gateway": (
        NavigationEntry("providers.list_providers", "Providers", "phone", "v"),
        NavigationEntry("brand_limits.list_brands", "Brands", "shop", "b"),
        NavigationEntry("providers.list_breakers", "Breakers", "pause", "k"),
        NavigationEntry("work_lists.audit", "Audit log", "lock", "a", Permission.READ_AUDIT),
    ),
}
"""The pages by the titles of their groups."""


@frozen
class ShownEntry:
    """Describes a page of the navigation as a user sees it."""

    entry: NavigationEntry
    waiting: str
    """How much waits on the page, such as `3` or `99+`; empty when nothing does."""


def format_count(count: int) -> str:
    """Return the text of a count of what waits; empty for 0."""
    return "" if count == 0 else str(count) if count <= COUNT_MAX else f"{COUNT_MAX}+"


async def load_navigation(user: CurrentUser) -> dict[str, list[ShownEntry]]:
    """Return the navigation of a user; without counts when the store can't serve."""
    try:
        waiting = await _count_waiting()
    except (StoreUnavailable, OutcomeUnknown):
        waiting = {}
    return {
        group: [
            ShownEntry(each, format_count(waiting.get(each.endpoint, 0)))
            for each in entries
            if each.permission is None or user.has_permission(each.permission)
        ]
        for group, entries in NAVIGATION.items()
    }


async def _count_waiting() -> dict[str, int]:
    """Count what waits on each page, up to one more than COUNT_MAX."""
    admin, limit = console().store.admin, COUNT_MAX + 1
    return {
        "work_lists.stuck": len(await admin.stuck_transactions(console().gateway_time(), limit=limit)),
        "work_lists.suspense": len(await admin.suspense_entries(limit=limit)),
        "resolutions.list_proposals": sum(
            [len(await admin.proposals(state=state, limit=limit)) for state in UNFINISHED_STATES]
        ),
        "configuration.list_changes": len(await admin.configuration_changes(state=ChangeState.OPEN, limit=limit)),
    }
