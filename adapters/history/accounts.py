"""The account of a run (``domain.comparison``) as the history keeps it: MessagePack under zstd, a few kilobytes."""

from __future__ import annotations

from typing import Final

import msgspec
import zstandard

from podtide.domain.comparison.account import RunAccount

ACCOUNT_MAX: Final = 64 * 1024 * 1024
"""Bytes of an account, unpacked; one of 2,000 stages has two million."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(RunAccount)


def account_bytes(account: RunAccount) -> bytes:
    """An account, packed."""
    return zstandard.ZstdCompressor(level=3).compress(_encoder.encode(account))


def account_from(data: bytes | None) -> RunAccount | None:
    """What ``account_bytes`` packed; None where nothing was, or what another version of podtide packed."""
    if data is None:
        return None
    try:
        return _decoder.decode(zstandard.ZstdDecompressor().decompress(data, max_output_size=ACCOUNT_MAX))
    except (msgspec.DecodeError, zstandard.ZstdError):
        return None
