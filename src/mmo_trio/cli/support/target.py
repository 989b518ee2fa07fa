"""Which gateway a command is about: the settings, the data directory, and the store, opened for administration."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import platformdirs
import trio
from attrs import frozen

from mmo_trio.brands.keyring import KeyRing, load_master_key
from mmo_trio.settings import Settings, load_settings
from mmo_trio.settings.service import CLOCK_OFFSET_FILE, sandbox_presets
from mmo_trio.storage.interface.store import Store
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import WallClock, read_offset

ResultT = TypeVar("ResultT")
CommandT = TypeVar("CommandT", bound=Callable[..., Any])

DATABASE_VARIABLE = "MMO_DATABASE_URL"


def default_data_directory() -> Path:
    """The user's own folder for the sandbox."""
    return Path(platformdirs.user_data_dir("mmo-gateway", appauthor=False)) / "sandbox"


@frozen
class CommandTarget:
    """The gateway that a command is about."""

    settings: Settings
    data_directory: Path | None
    """The sandbox's; None when file or environment say where everything is."""

    def clock(self) -> WallClock:
        """The clock of that gateway: a sandbox's may be ahead."""
        if self.data_directory is None:
            return WallClock()
        return WallClock(offset=read_offset(self.data_directory / CLOCK_OFFSET_FILE))

    def keyring(self, *, create: bool = False) -> KeyRing:
        """What opens and seals that gateway's API keys; with `create` its master key is made when there is none.

        Raises SettingsError.
        """
        return KeyRing(load_master_key(self.settings.keys.master_key_file, create=create))

    def with_store(
        self,
        use: Callable[[Store], Awaitable[ResultT]],
        *,
        create: bool = False,
        serving: bool = False,
    ) -> ResultT:
        """Open the store, use it, close it. Raises StoreUnavailable when there is none and none shall be made."""

        async def within() -> ResultT:
            url, kinds = self.settings.database.url, self.settings.store_kinds
            async with open_store(url, serving=serving, create=create, kinds=kinds) as store:
                return await use(store)

        return trio.run(within)


def find_target(
    data: Path | None, config: Path | None, options: Mapping[str, str] | None = None
) -> CommandTarget:
    """The sandbox in this data directory, or what file and environment describe; raises SettingsError.

    Without any of them it is the sandbox in the user's own data directory.
    """
    directory = data
    if data is None and config is None and DATABASE_VARIABLE not in os.environ:
        directory = default_data_directory()
    presets = {} if directory is None else sandbox_presets(directory.absolute())
    settings = load_settings(file=config, environment=os.environ, options=options, presets=presets)
    return CommandTarget(settings, directory)


def target_options(command: CommandT) -> CommandT:
    """`--data` and `--config`, in this order of meaning: a sandbox's folder, or any gateway's settings."""
    file = click.Path(path_type=Path, dir_okay=False)
    folder = click.Path(path_type=Path, file_okay=False)
    command = click.option("--config", type=file, help="The gateway's mmo.toml.")(command)
    return click.option(
        "--data", type=folder, help="The sandbox's data directory; by default the user's own."
    )(command)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
