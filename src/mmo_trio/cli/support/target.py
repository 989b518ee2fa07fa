"""Finds the gateway that a command is for and who runs the command, and waits until the gateway
uses a change."""

from __future__ import annotations

import json
import os
import pwd
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, assert_never

import click
import platformdirs
import trio
from attrs import frozen

from mmo_sansio.resilience.store_mark import Recognition
from mmo_sansio.values.model import Brand
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.resolution import ResolutionUser, command_user_name
from mmo_trio.brands.in_force import wait_until_in_force
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import load_master_keys, open_keyring
from mmo_trio.cli.support.errors import NegativeAnswer, NotYetInForce
from mmo_trio.cli.support.options import Command, config_option, data_option
from mmo_trio.cli.support.output import print_status
from mmo_trio.sandbox.demo_brand import DEMO_BRAND_ID
from mmo_trio.service.store_recognition import counted_commits
from mmo_trio.settings import Settings, load_settings
from mmo_trio.settings.secret_files import readable_secret_files
from mmo_trio.settings.service import (
    CLOCK_OFFSET_FILE,
    RUNNING_FILE,
    elsewhere_providers,
    provider_titles,
    sandbox_presets,
)
from mmo_trio.storage.interface.admin_types import AuditEvent, AuditKey
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock, read_offset

ResultT = TypeVar("ResultT")

DATABASE_VARIABLE = "MMO_DATABASE_URL"

# Seconds for which a command waits for the processes: longer than the lease of one that was killed
# runs on.
IN_FORCE_WAIT_S = 15.0

# Holds the id of the user who logged in (Linux, proc(5)); `su` and `sudo` keep it, and only root
# can set it.
LOGIN_USER_FILE = Path("/proc/self/loginuid")

# The id of a process that no login began, such as a service's.
_NO_LOGIN = 2**32 - 1


@frozen
class CommandTarget:
    """Gives access to the gateway that a command administers."""

    settings: Settings
    data_directory: Path | None
    """The sandbox's directory; None when `mmo.toml` or the environment describe the gateway."""

    def clock(self) -> GatewayClock:
        """Return the clock of the gateway; a sandbox's may be ahead of the machine's."""
        if self.data_directory is None:
            return GatewayClock()
        return GatewayClock(offset=read_offset(self.data_directory / CLOCK_OFFSET_FILE))

    def keyring(self) -> KeyRing:
        """Return the keyring of the gateway, without a look at the store. Raises SettingsError."""
        return KeyRing(*load_master_keys(self.settings.keys.master_key_file))

    async def open_keyring(self, store: Store) -> KeyRing:
        """Return the keyring of the store, with a new master key if the store has never been used
        with one.

        Raises SettingsError when the master key file can't be used, or is not this store's."""
        return await open_keyring(
            store, self.settings.keys.master_key_file, may_create=True, now=self.clock().wall_time()
        )

    def with_store(
        self,
        use: Callable[[Store], Awaitable[ResultT]],
        *,
        create: bool = False,
        compares: bool = True,
    ) -> ResultT:
        """Open the store, run `use` with it and close it; `create` makes a missing store.

        Unless it `compares` nothing, the store is compared with the mark of this machine: what is
        committed is in the mark afterwards, and who uses a store that the gateway would not serve,
        such as a restored one that nobody has prepared, is told so. Raises StoreUnavailable."""

        async def use_store() -> ResultT:
            async with open_store(
                self.settings.database.url, serving=False, create=create
            ) as store:
                # A sandbox has no mark: its store may be removed and made again at any time.
                if not compares or self.data_directory is not None:
                    return await use(store)
                async with counted_commits(store, self.settings) as recognition:
                    if (warning := _store_warning(recognition)) is not None:
                        print_status(f"Warning: {warning}")
                    return await use(store)

        return trio.run(use_store)

    async def record(
        self, store: Store, action: str, about: str = "", user: str | None = None, **detail: object
    ) -> None:
        """Append an audit event: what the command is about to do. The actor is the user of the
        machine; `user`, the name that was typed, is a detail. Raises SettingsError when the master
        key can't be read."""
        await store.admin.append_audit(*await self.event(store, action, about, user, **detail))

    async def event(
        self, store: Store, action: str, about: str = "", user: str | None = None, **detail: object
    ) -> tuple[AuditEvent, AuditKey]:
        """Return the event that `record` appends, for a store that appends it together with what
        the command does. Raises SettingsError when the master key can't be read."""
        # The name that was typed proves nothing: the actor is the one whom the kernel knows.
        machine = machine_user()
        audit_log = await self.open_audit_log(store)
        actor = command_user_name(machine.name)
        return audit_log.event(actor, action, about, **detail, **machine.people(user))

    async def open_audit_log(self, store: Store) -> AuditLog:
        """Return the store's audit log. Raises SettingsError when the master key can't be read."""
        return AuditLog(
            store.admin, (await self.open_keyring(store)).audit_key, self.clock().wall_time
        )

    def elsewhere_providers(self) -> frozenset[str]:
        """Return the names of the providers whose payers do not confirm on the phone."""
        return elsewhere_providers(self.settings)

    def provider_titles(self) -> Mapping[str, str]:
        """Return the display names of the configured providers, by name."""
        return provider_titles(self.settings, is_sandbox=self.data_directory is not None)


def _store_warning(recognition: Recognition | None) -> str | None:
    """Return what to know of a store that the gateway would not serve; None for one that it would.

    `recognition`: what the store is by its mark; None where that can't be read."""
    remedy = f"run `mmo db restored{chosen_gateway()}`"
    match recognition:
        case Recognition.CURRENT | Recognition.BEHIND:
            return None
        case Recognition.RESTORED:
            return (
                "this store was restored from a backup, or is another one, and is not prepared: "
                f"{remedy}."
            )
        case Recognition.UNMARKED:
            return (
                "the file database.mark_file is missing, so this store may be a backup that lacks "
                "payments: copy the file from the machine that served the store last; if a backup "
                f"was restored, or nobody knows, {remedy}."
            )
        case None:
            return (
                "the mark of this store can't be read, so it may be a backup that lacks payments: "
                "let this user read the file; if it is damaged and a backup was restored, "
                f"{remedy}."
            )
        case _:
            assert_never(recognition)


def find_target(
    data: Path | None, config: Path | None, options: Mapping[str, str] | None = None
) -> CommandTarget:
    """Return the sandbox in `data`, or the gateway that `config` and the environment describe.

    Without any of them it is the sandbox in the user's own directory. Raises SettingsError.
    """
    directory = data
    if data is None and config is None and DATABASE_VARIABLE not in os.environ:
        directory = default_data_directory()

    presets: Mapping[str, str] = {}
    if directory is not None:
        presets = sandbox_presets(directory.absolute())

    settings = load_settings(file=config, environment=os.environ, options=options, presets=presets)
    return CommandTarget(settings, directory)


def target_options(command: Command) -> Command:
    """Add the options `--data` and `--config`; the command receives their gateway as `target`."""

    @wraps(command)
    def run(*, data: Path | None, config: Path | None, **arguments: Any) -> None:
        command(target=find_target(data, config), **arguments)

    return data_option(config_option(run))


def chosen_gateway() -> str:
    """Return the options by which the command that runs has chosen its gateway, for another command
    to copy."""
    given = click.get_current_context().params
    return "".join(
        f" --{name} {shlex.quote(str(given[name]))}"
        for name in ("data", "config")
        if given.get(name)
    )


def default_data_directory() -> Path:
    """Return the user's own directory for a sandbox."""
    return Path(platformdirs.user_data_dir("mmo-gateway", appauthor=False)) / "sandbox"


def running_address(directory: Path, listener: str) -> str | None:
    """Return the address of a listener of the sandbox that runs in this directory; None if none."""
    try:
        return str(json.loads((directory / RUNNING_FILE).read_bytes())[listener])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # No file: none runs. Anything else in it: it was killed while it wrote, or is another
        # version's.
        return None


def load_sandbox_keys(directory: Path) -> Sequence[tuple[Brand, bytes]]:
    """Return the keys in use of all brands, oldest first, with their brands, the demo brand before
    others. Raises NegativeAnswer when there are none."""
    target = find_target(directory, None)
    try:
        records = target.with_store(lambda store: store.admin.brands())
    except StoreUnavailable:
        # No store yet, as no sandbox was started: that is told below.
        records = ()

    sealed = [
        (record.brand, key) for record in records for key in record.keys if key.retired_at is None
    ]
    if not sealed:
        raise NegativeAnswer(
            f"There are no API keys in {directory}. Start `mmo sandbox` first, or give --key."
        )

    keyring = target.keyring()
    # A stable sort: within a brand the oldest key stays first.
    sealed.sort(key=lambda pair: pair[0].id != DEMO_BRAND_ID)
    return [(brand, keyring.unseal(key.brand, key.sealed)) for brand, key in sealed]


def report_in_force(target: CommandTarget) -> None:
    """Wait until every process that serves uses what the store holds now, and say on how many that
    is. Raises NotYetInForce, with the names of those that have not said so in time."""
    # Only the processes are asked about: who has changed the store was told of its state already.
    state = target.with_store(
        lambda store: wait_until_in_force(store, timeout_s=IN_FORCE_WAIT_S), compares=False
    )
    if state.waiting:
        raise NotYetInForce(
            f"It is stored, but not known to be in force on: {', '.join(state.waiting)} (waited "
            f"{IN_FORCE_WAIT_S:g} s). A process that can't reach the database takes it over within "
            "limits.api_key_cache (a minute); restart one that hangs. Run the command again to see."
        )

    count = len(state.processes)
    if not count:
        print_status("No process serves now: it is in force from the next start on.")
        return

    noun = "process" if count == 1 else "processes"
    print_status(f"In force on {count} {noun}.")


@frozen
class MachineUser:
    """The user of the machine who runs a command."""

    name: str
    """The name of the process's real user id, whatever the environment says."""
    login_user: str | None = None
    """Who logged in, where the kernel knows it and it is somebody else."""
    sudo_user: str | None = None
    """Who ran `sudo`, as `SUDO_USER` says; the environment may be wrong, so this is never the
    actor."""

    def acting_for(self, user: str | None) -> str:
        """Return the name for the journal and the suspense book; `user` is the name that was
        typed."""
        if user in (None, "", self.name):
            return self.name
        return f"{self.name} for {user}"

    def people(self, user: str | None) -> Mapping[str, str | None]:
        """Return the details of an audit event beside its actor; `user` is the name that was
        typed."""
        return {"user": user, "loginUser": self.login_user, "sudoUser": self.sudo_user}

    def as_staff(self, user: str | None) -> ResolutionUser:
        """Return who takes part in decisions with the console's users; `user` is the name that was
        typed, which is no other pair of eyes."""
        name = command_user_name(self.name)
        return ResolutionUser(
            name,
            name,
            can_propose=True,
            can_approve=True,
            people=self.people(user),
            is_command=True,
        )


def machine_user() -> MachineUser:
    """Return the user who runs this process."""
    # Not os.getlogin() or USER: a terminal or the environment may say anything.
    name = _user_name(os.getuid())
    login_user = _login_user()
    if login_user == name:
        login_user = None
    return MachineUser(name, login_user, os.environ.get("SUDO_USER"))


def _login_user() -> str | None:
    try:
        id = int(LOGIN_USER_FILE.read_text("ascii"))
    except (OSError, ValueError):
        return None
    if id == _NO_LOGIN:
        return None
    return _user_name(id)


def _user_name(id: int) -> str:
    """Return the name of a user id; the id itself where the machine has no name for it, as in some
    containers."""
    try:
        return pwd.getpwuid(id).pw_name
    except KeyError:
        return str(id)


def report_readable_secrets(config: Path | None, brands: Path | None, settings: Settings) -> None:
    """Print a remark for each of these files that holds secrets and that everybody can read."""
    for file in readable_secret_files(config, brands, settings.provider_kinds):
        print_status(
            f"Everybody on this machine can read {file}, which holds secrets. Run: chmod 600 {file}"
        )
