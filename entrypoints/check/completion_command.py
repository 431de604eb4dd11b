"""``podtide completion``: the script that completes commands and options in a shell."""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import get_completion_class

from podtide.entrypoints.common.old_names import COMPLETION
from podtide.entrypoints.common.output import check_streams, printed

SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the script that completes podtide's commands and options in SHELL.

    \b
    bash: podtide completion bash > ~/.local/share/bash-completion/completions/podtide
    zsh:  podtide completion zsh > a file _podtide in a folder of $fpath
    fish: podtide completion fish > ~/.config/fish/completions/podtide.fish
    """
    check_streams()
    kind = get_completion_class(shell)
    assert kind is not None, shell
    # Not ``source``: for bash it starts one to see its version, which is not needed to write the script.
    made = kind(click.Command("podtide"), {}, "podtide", COMPLETION)
    with printed():
        sys.stdout.write(made.source_template % made.source_vars())
    return 0
