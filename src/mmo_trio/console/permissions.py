"""Who may do what: one table, asked on the server for every act."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from mmo_trio.storage.interface.admin_types import Role


class Permission(StrEnum):
    """What not everybody may who may look."""

    SEE_PERSONAL_DATA = "see personal data"
    CLOSE_SUSPENSE = "close suspense entries"
    PROPOSE = "propose to end a payment by hand"
    APPROVE = "decide on proposals"
    SWITCH_PROVIDERS = "close and open providers"
    READ_AUDIT = "read the audit log"


_SUPPORT = frozenset({Permission.SEE_PERSONAL_DATA, Permission.CLOSE_SUSPENSE, Permission.PROPOSE})
_APPROVER = _SUPPORT | {Permission.APPROVE}

PERMISSIONS: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {
        Role.VIEWER: frozenset(),
        Role.SUPPORT: _SUPPORT,
        Role.APPROVER: _APPROVER,
        Role.ADMIN: _APPROVER | {Permission.SWITCH_PROVIDERS, Permission.READ_AUDIT},
    }
)
"""Each role may what the one before may."""


def is_permitted(role: Role, permission: Permission) -> bool:
    """Whether this role may."""
    return permission in PERMISSIONS[role]
