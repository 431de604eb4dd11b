"""The token of uploads: from a file, or from the environment."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from podtide.adapters.text.safe import cause, escaped
from podtide.entrypoints.common.output import Misused

VARIABLE: Final = "PODTIDE_STAGE_TOKEN"
TOKEN_MIN: Final = 16
TOKEN_MAX: Final = 1_000


def given_token(file: Path | None, environment: Mapping[str, str], variable: str = VARIABLE) -> str | None:
    """The token that the user names; None where none is named. Raises Misused."""
    if file is None:
        text = environment.get(variable)
        return None if text is None else _checked(text, f"${variable}")
    try:
        with file.open(encoding="utf-8") as stream:
            return _checked(stream.read(TOKEN_MAX + 1), escaped(str(file)))
    except (OSError, UnicodeDecodeError) as problem:
        raise Misused(f"the token cannot be read from {escaped(str(file))}: {cause(problem)}") from None


def made_token(file: Path | None) -> str:
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
