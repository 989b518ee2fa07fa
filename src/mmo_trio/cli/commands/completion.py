"""`mmo completion` prints what a shell needs to complete the commands of `mmo` and their
options."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

_COMPLETIONS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}

# The variable by which click knows that a shell asks for completions.
_VARIABLE = "_MMO_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(sorted(_COMPLETIONS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: add to ~/.bashrc                      eval "$(mmo completion bash)"
    zsh:  add to ~/.zshrc, after `compinit`     eval "$(mmo completion zsh)"
    fish: mmo completion fish > ~/.config/fish/completions/mmo.fish
    """
    click.echo(_COMPLETIONS[shell](ctx.find_root().command, {}, "mmo", _VARIABLE).source())
