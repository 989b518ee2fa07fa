"""Finds out which user of the machine runs a command, for the audit log."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from attrs import frozen

LOGIN_USER_FILE = Path("/proc/self/loginuid")
"""Holds the id of the user who logged in (Linux, proc(5)); `su` and `sudo` keep it, and only root can set it."""

_NO_LOGIN = 2**32 - 1
"""The id of a process that no login began, such as a service's."""


@frozen
class MachineUser:
    """The user of the machine who runs a command."""

    name: str
    """The name of the process's real user id, whatever the environment says."""
    login_user: str | None = None
    """Who logged in, where the kernel knows it and it is somebody else."""
    sudo_user: str | None = None
    """Who ran `sudo`, as `SUDO_USER` says; the environment may be wrong, so this is never the actor."""

    def acting_for(self, user: str | None) -> str:
        """Return the name for the journal and the suspense book; `user` is the name that was typed."""
        return self.name if user in (None, "", self.name) else f"{self.name} for {user}"


def machine_user() -> MachineUser:
    """Return the user who runs this process."""
    name, login_user = _user_name(os.getuid()), _login_user()
    return MachineUser(name, None if login_user == name else login_user, os.environ.get("SUDO_USER"))


def _login_user() -> str | None:
    try:
        id = int(LOGIN_USER_FILE.read_text("ascii"))
    except (OSError, ValueError):
        return None
    return None if id == _NO_LOGIN else _user_name(id)


def _user_name(id: int) -> str:
    """Return the name of a user id; the id itself where the machine has no name for it, as in some containers."""
    try:
        return pwd.getpwuid(id).pw_name
    except KeyError:
        return str(id)
