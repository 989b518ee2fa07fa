"""Defines the permissions of each role: what a user of the console may do and see."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from attrs import frozen

from mmo_trio.admin.timeline import HIDDEN_TEXT
from mmo_trio.storage.interface.admin_types import Role
from mmo_trio.system.display_text import mask_name, mask_number, mask_query, mask_text


class Permission(StrEnum):
    """An action that is not open to every user who may look."""

    SEE_PERSONAL_DATA = "see personal data"
    CLOSE_SUSPENSE = "close suspense entries"
    PROPOSE = "propose to end a payment by hand"
    APPROVE = "decide on proposals"
    CHANGE_CONFIGURATION = "change the limits and flows of brands"
    SWITCH_PROVIDERS = "close and open providers"
    READ_AUDIT = "read the audit log"


_SUPPORT = frozenset({Permission.SEE_PERSONAL_DATA, Permission.CLOSE_SUSPENSE, Permission.PROPOSE})
_APPROVER = _SUPPORT | {Permission.APPROVE, Permission.CHANGE_CONFIGURATION}

# The permissions of each role; each role includes those of the one before.
PERMISSIONS: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {
        Role.VIEWER: frozenset(),
        Role.SUPPORT: _SUPPORT,
        Role.APPROVER: _APPROVER,
        Role.ADMIN: _APPROVER | {Permission.SWITCH_PROVIDERS, Permission.READ_AUDIT},
    }
)


def is_permitted(role: Role, permission: Permission) -> bool:
    return permission in PERMISSIONS[role]


@frozen
class PersonalDataMask:
    """Shows personal data to a user who may see it, and masks it for all others."""

    can_see_personal_data: bool

    def number(self, msisdn: str) -> str:
        """Mask a phone number, or the merchant's id of a customer."""
        if self.can_see_personal_data:
            return msisdn
        return mask_number(msisdn)

    def name(self, text: str | None) -> str | None:
        """Mask a name or an e-mail address."""
        if self.can_see_personal_data or text is None:
            return text
        return mask_name(text)

    def text(self, text: str) -> str:
        """Mask the numbers and e-mail addresses in a text that is not hidden as a whole."""
        if self.can_see_personal_data:
            return text
        return mask_text(text)

    def url(self, url: str) -> str:
        """Mask the query of a merchant's URL."""
        if self.can_see_personal_data:
            return url
        return mask_query(url)

    def free_text(self, text: str | None) -> str | None:
        """Hide what a provider, a merchant or a colleague wrote about a payment, which may contain
        anything."""
        if self.can_see_personal_data or not text:
            return text
        return HIDDEN_TEXT


# The mask of lists: nobody sees personal data there, so that the audit log can say whose data a
# user saw.
MASKED = PersonalDataMask(can_see_personal_data=False)
