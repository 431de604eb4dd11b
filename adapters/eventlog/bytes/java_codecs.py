"""The block streams of Spark's Java codecs: LZ4Block, xerial Snappy and LZF.

Spark names its codecs lz4, snappy and lzf, but what it writes are the framings of three Java libraries, which
the usual tools of the same names do not read: lz4-java's ``LZ4BlockOutputStream`` is no LZ4 frame,
snappy-java's ``SnappyOutputStream`` is no Snappy framing format. Each is a sequence of blocks (Spark's hold
32 KiB; LZF's at most 64 KiB) around a raw block codec, and each may be concatenated: a new header simply
follows.

LZ4Block   ``LZ4Block`` · token (high half: 1 raw, 2 compressed; low half: log2 of the block size less 10) ·
           packed length · original length · checksum, little endian; original length 0 ends a stream.
xerial     ``82 S N A P P Y 0`` · version · compatible version; then packed length · raw Snappy, big endian.
LZF        ``Z V`` · 0 · length · bytes, or ``Z V`` · 1 · packed length · original length · LZF, big endian.

Only LZ4Block marks its end; the other two, cut exactly between blocks, look complete.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from podtide.adapters.eventlog.bytes.framing import BLOCK_MAX, Cut, Damage, Intake, PackageMissing, need

LZ4_BLOCK_MAGIC: Final = b"LZ4Block"
XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
LZF_MAGIC: Final = b"ZV"

_LZ4_HEADER: Final = struct.Struct("<8sBIII")
_LZ4_RAW: Final = 0x10
_LZ4_PACKED: Final = 0x20
_LZ4_SEED: Final = 0x9747B28C
_LZ4_CHECK_MASK: Final = 0x0FFFFFFF
_XERIAL_REST: Final = 8 + 8 - 4
_XERIAL_VERSION: Final = 1


def lz4_blocks(intake: Intake) -> Iterator[bytes]:
    """Decode a LZ4Block stream, one yield per block (at most 32 MiB).

    Raises ``Cut``, ``Damage``, ``PackageMissing``. The checksum (xxHash32, seed 0x9747b28c, 28 bits of it) is
    verified where the package xxhash is installed; without it a damaged block still shows in its length or, at the
    latest, as a malformed line.
    """
    block = need("lz4.block", "lz4")
    checksum = _lz4_checksum()
    ended = False
    while True:
        at = intake.position
        header = intake.take(_LZ4_HEADER.size)
        if not header:
            if ended:
                return
            raise Cut("the lz4 stream has no end mark")
        if not header.startswith(LZ4_BLOCK_MAGIC[: len(header)]):
            raise Damage(at, "an lz4 block (LZ4Block) was expected")
        if len(header) < _LZ4_HEADER.size:
            raise Cut("the header of an lz4 block is cut off")
        _, token, packed, size, check = _LZ4_HEADER.unpack(header)
        _check_lz4_header(at, token, packed, size)
        ended = size == 0
        if ended:
            continue
        body = intake.take(packed)
        if len(body) < packed:
            raise Cut("an lz4 block is cut off")
        data = body if token & 0xF0 == _LZ4_RAW else _lz4_block(block.decompress, body, size, at)
        if checksum is not None and checksum(data) & _LZ4_CHECK_MASK != check:
            raise Damage(at, "the checksum of the lz4 block does not match")
        yield data


def xerial_blocks(intake: Intake) -> Iterator[bytes]:
    """Decode a xerial Snappy stream, one yield per block (at most 32 MiB).

    Raises ``Cut``, ``Damage``, ``PackageMissing``.
    """
    snappy = need("cramjam", "cramjam").snappy
    while True:
        at = intake.position
        word = intake.take(4)
        if not word:
            return
        if len(word) < 4:
            raise Cut("the length of a snappy block is cut off")
        if word == XERIAL_MAGIC[:4]:
            _xerial_header(intake, at)
            continue
        packed = int.from_bytes(word, "big")
        # Raw Snappy grows incompressible input by at most a sixth and 32 bytes.
        if not 0 < packed <= BLOCK_MAX + BLOCK_MAX // 6 + 32:
            raise Damage(at, f"a snappy block of {packed:,} bytes; at most {BLOCK_MAX:,} are accepted")
        body = intake.take(packed)
        if len(body) < packed:
            raise Cut("a snappy block is cut off")
        yield _snappy_block(snappy, body, at)


def lzf_chunks(intake: Intake) -> Iterator[bytes]:
    """Decode a LZF stream, one yield per chunk (at most 65,535 bytes). Raises ``Cut`` and ``Damage``."""
    while True:
        at = intake.position
        header = intake.take(5)
        if not header:
            return
        if not header.startswith(LZF_MAGIC[: len(header)]) or (len(header) > 2 and header[2] > 1):
            raise Damage(at, "an lzf chunk (ZV) was expected")
        original = intake.take(2) if len(header) == 5 and header[2] == 1 else b""
        if len(header) < 5 or (header[2] == 1 and len(original) < 2):
            raise Cut("the header of an lzf chunk is cut off")
        packed = int.from_bytes(header[3:], "big")
        body = intake.take(packed)
        if len(body) < packed:
            raise Cut("an lzf chunk is cut off")
        if header[2] == 0:
            yield body
            continue
        try:
            yield lzf_block(body, int.from_bytes(original, "big"))
        except ValueError as problem:
            raise Damage(at, str(problem)) from None


def lzf_block(packed: bytes, size: int) -> bytes:
    """Decode one LZF block to exactly ``size`` bytes; ``ValueError`` says what is wrong with it.

    LZF (Marc Lehmann's LibLZF): a control byte below 32 announces that many literals plus one; otherwise its
    upper three bits are a match length (7: one more byte adds to it) and its lower five with the next byte a
    distance back.
    """
    out = bytearray()
    at, end = 0, len(packed)
    try:
        while at < end:
            control = packed[at]
            at += 1
            if control < 32:
                literals = packed[at : at + control + 1]
                if len(literals) <= control:
                    raise ValueError("an lzf block ends inside literals")
                out += literals
                at += control + 1
            else:
                length = control >> 5
                if length == 7:
                    length += packed[at]
                    at += 1
                length += 2
                start = len(out) - ((control & 31) << 8) - packed[at] - 1
                at += 1
                if start < 0:
                    raise ValueError("an lzf match points before its block")
                match = out[start : start + length]
                # A match may reach into what it writes: the bytes there are repeated.
                out += match if len(match) == length else (match * (length // len(match) + 1))[:length]
    except IndexError:
        raise ValueError("an lzf block ends inside a match") from None
    if len(out) != size or at != end:
        raise ValueError(f"an lzf block does not hold the {size:,} bytes that it announces")
    return bytes(out)


def _check_lz4_header(at: int, token: int, packed: int, size: int) -> None:
    """lz4-java's own conditions (LZ4BlockInputStream), and the bound on what is taken."""
    method = token & 0xF0
    if method not in (_LZ4_RAW, _LZ4_PACKED):
        raise Damage(at, f"method {method:#x} of an lz4 block; 0x10 or 0x20 was expected")
    # 1 << (10 + 15) is BLOCK_MAX: the token cannot ask for more.
    if size > 1 << (10 + (token & 0x0F)):
        raise Damage(at, f"an lz4 block of {size:,} bytes is larger than its stream's blocks")
    if packed > size + size // 255 + 16 or (size == 0 and packed) or (method == _LZ4_RAW and packed != size):
        raise Damage(at, f"an lz4 block of {size:,} bytes cannot take {packed:,}")


def _lz4_block(decompress: Callable[..., bytes], body: bytes, size: int, at: int) -> bytes:
    try:
        data = decompress(body, uncompressed_size=size)
    except Exception:  # lz4 raises its own class, ValueError or RuntimeError, depending on the damage
        raise Damage(at, "the lz4 block does not decode") from None
    if len(data) != size:
        raise Damage(at, f"the lz4 block holds {len(data):,} bytes instead of {size:,}")
    return data


def _lz4_checksum() -> Callable[[bytes], int] | None:
    try:
        xxh32 = need("xxhash", "xxhash").xxh32_intdigest
    except PackageMissing:
        return None
    return lambda data: int(xxh32(data, _LZ4_SEED))


def _xerial_header(intake: Intake, at: int) -> None:
    rest = intake.take(_XERIAL_REST)
    if not rest.startswith(XERIAL_MAGIC[4 : 4 + len(rest)]):
        raise Damage(at, "a snappy stream header was expected")
    if len(rest) < _XERIAL_REST:
        raise Cut("the header of a snappy stream is cut off")
    if int.from_bytes(rest[8:], "big") > _XERIAL_VERSION:
        raise Damage(at, "a snappy stream of an unknown version")


def _snappy_block(snappy: Any, body: bytes, at: int) -> bytes:
    try:
        size = snappy.decompress_raw_len(body)
        data = bytes(snappy.decompress_raw(body)) if size <= BLOCK_MAX else None
    except Exception:  # cramjam raises its own class
        raise Damage(at, "the snappy block does not decode") from None
    if data is None:
        raise Damage(at, f"a snappy block of {size:,} bytes; at most {BLOCK_MAX:,} are accepted")
    return data
