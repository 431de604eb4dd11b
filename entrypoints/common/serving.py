"""What the commands that serve other machines share: where they listen, TLS, the token, and the wait for their end.

The token is from a file, or from the environment; without either a new one is made.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import click

from podtide.adapters.http_server.certificate import Certificate
from podtide.adapters.http_server.settings import loopback
from podtide.adapters.text.safe import cause, escaped
from podtide.entrypoints.common.option_groups import Command, together
from podtide.entrypoints.common.output import Misused

FILE: Final = click.Path(path_type=Path)
TOKEN_MIN: Final = 16
TOKEN_MAX: Final = 1_000
LOOK_S: Final = 0.5
"""A signal that comes just before a wait does not end it, so no wait is longer."""


@dataclass(frozen=True)
class ListenOptions:
    """What the command line says of the server itself."""

    address: str
    port: int
    tls_cert: Path | None
    tls_key: Path | None
    plain: bool
    token_file: Path | None


def listening(port: int, *, in_clear: str, purpose: str) -> Callable[[Command], Command]:
    """The options of a server. ``port``: the default; ``in_clear``: what is sent unencrypted without TLS, with its verb;
    ``purpose``: what the token is for."""
    return together(
        click.option(
            "--address", default="127.0.0.1", show_default=True, metavar="ADDR",
            help="Address to listen on; 0.0.0.0 lets other machines in.",
        ),
        click.option(
            "--port", type=click.IntRange(0, 65_535), default=port, show_default=True, metavar="PORT",
            help="Port to listen on; 0: a free one.",
        ),
        click.option(
            "--tls-cert", type=FILE, metavar="FILE", help="Serve HTTPS with this certificate (PEM); needs --tls-key."
        ),
        click.option("--tls-key", type=FILE, metavar="FILE", help="The key of --tls-cert (PEM)."),
        click.option(
            "--plain", is_flag=True, help=f"Let other machines in without TLS; {in_clear} then sent unencrypted."
        ),
        click.option(
            "--token-file", type=FILE, metavar="FILE", help=f"File with the token {purpose}; created if missing."
        ),
    )  # fmt: skip


def given_certificate(options: ListenOptions, in_clear: str) -> Certificate | None:
    """The certificate that is named. ``in_clear``: what other machines would send unencrypted. Raises Misused."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise Misused("--tls-cert and --tls-key go together")
    if options.tls_cert is not None and options.tls_key is not None:
        return Certificate(options.tls_cert, options.tls_key)
    if not options.plain and not loopback(options.address):
        raise Misused(
            f"other machines reach {options.address}, where {in_clear} would travel in clear: "
            "name --tls-cert and --tls-key, or --plain"
        )
    return None


def server_token(file: Path | None, variable: str, name: str) -> tuple[str, str]:
    """The token of a server, and a line about one that is new. Raises Misused."""
    if file is not None and not file.exists():
        return _made_token(file), f"# {name} is in {file}"
    token = given_token(file, variable)
    if token is not None:
        return token, ""
    token = _made_token(None)
    return token, f"export {variable}={token}"


def given_token(file: Path | None, variable: str) -> str | None:
    """The token that the user names; None where none is named. Raises Misused."""
    if file is None:
        text = os.environ.get(variable)
        return None if text is None else _checked(text, f"${variable}")
    try:
        with file.open(encoding="utf-8") as stream:
            return _checked(stream.read(TOKEN_MAX + 1), escaped(str(file)))
    except (OSError, UnicodeDecodeError) as problem:
        raise Misused(f"the token cannot be read from {escaped(str(file))}: {cause(problem)}") from None


def stay(check: Callable[[], None] = lambda: None) -> NoReturn:
    """Wait for a signal's exception. ``check`` is called now and then, and may raise another."""
    end = threading.Event()
    while True:
        end.wait(LOOK_S)
        check()


def _made_token(file: Path | None) -> str:
    """A new token, in the file that only its owner can read, if one is named. Raises Misused."""
    token = secrets.token_urlsafe(32)
    if file is not None:
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
                out.write(token + "\n")
        except OSError as problem:
            raise Misused(f"the token cannot be written to {escaped(str(file))}: {cause(problem)}") from None
    return token


def _checked(text: str, place: str) -> str:
    token = text.strip()
    if not TOKEN_MIN <= len(token) <= TOKEN_MAX or not token.isascii() or not token.isprintable() or " " in token:
        raise Misused(f"{place} holds no token: {TOKEN_MIN} printable ASCII characters or more, without blanks")
    return token
