"""Which codec a stream is in, and its bytes, block by block, whatever the codec.

The content decides: every codec that Spark writes has a magic number, and logs are renamed, unpacked and
re-packed by people and by object stores, so a suffix is only believed where the content is too short to speak
(a log cut off after its first bytes). Anything unknown is text; what can be told not to be an event log at
all (xz, tar, Parquet, ...) is refused by name. ``Decoded`` then yields blocks of bounded size and tells
afterwards whether the stream was ``cut``.

zstd   Spark closes a frame at every flush: a log is many frames. They are walked here, block by block, because
       the library reads across frames but does not say whether the last one was complete, and because a block
       (at most 128 KiB decoded) is the unit that bounds what one call can produce. The window is bounded too.
gzip   members follow each other; zeros may pad the end.
lz4    both the LZ4Block stream that Spark writes and the LZ4 frame that the command-line tool writes.

What bounds a decompression bomb: blocks of at most 32 MiB, and beyond one gibibyte of output no stream may
expand more than 500-fold (event logs reach 10- to 60-fold).
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from podtide.adapters.eventlog.bytes import java_codecs as java_streams
from podtide.adapters.eventlog.bytes.errors import CodecMissing, LogCorrupt, LogUndecodable
from podtide.adapters.eventlog.bytes.framing import BOMB, READ_BYTES, Cut, Damage, Intake, PackageMissing, is_bomb, need

HEAD_BYTES: Final = 512
"""How much of a stream ``sniff`` wants to see: tar's magic number stands at byte 257."""

OUT_BYTES: Final = 1024 * 1024
"""Most that one call of a stream codec (gzip, lz4 frame) may produce."""

PLAIN_BYTES: Final = 1024 * 1024
"""Read size of plain files: the copy that cuts lines out of it still finds it in the processor's cache."""

SMALL_BYTES: Final = 64 * 1024
"""Blocks below this are joined: one-byte blocks must not cost a hundred bytes of bookkeeping each."""

WINDOW_MAX: Final = 128 * 1024 * 1024
"""Largest zstd window accepted, as the zstd tool's own default; Spark's level 1 uses 512 KiB."""

_GZIP_FEED: Final = 16 * 1024
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK_MAX: Final = 128 * 1024


class Codec(enum.StrEnum):
    """A compression that event logs come in; the value is the word for people."""

    PLAIN = "plain"
    GZIP = "gzip"
    ZSTD = "zstd"
    LZ4_BLOCK = "lz4"
    LZ4_FRAME = "lz4 frame"
    SNAPPY = "snappy"
    LZF = "lzf"


SUFFIXES: Final = {
    ".gz": Codec.GZIP,
    ".zstd": Codec.ZSTD,
    ".zst": Codec.ZSTD,
    ".lz4": Codec.LZ4_BLOCK,
    ".snappy": Codec.SNAPPY,
    ".lzf": Codec.LZF,
}
STATE_SUFFIXES: Final = (".compact", ".inprogress")
"""What Spark appends after the codec."""

_MAGICS: Final = (
    (_ZSTD_MAGIC, Codec.ZSTD),
    (b"\x1f\x8b\x08", Codec.GZIP),
    (java_streams.LZ4_BLOCK_MAGIC, Codec.LZ4_BLOCK),
    (b"\x04\x22\x4d\x18", Codec.LZ4_FRAME),
    (java_streams.XERIAL_MAGIC, Codec.SNAPPY),
    (java_streams.LZF_MAGIC + b"\0", Codec.LZF),
    (java_streams.LZF_MAGIC + b"\1", Codec.LZF),
)
_SKIPPABLE: Final = b"\x2a\x4d\x18"

ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_FOREIGN: Final = (
    (0, b"\xfd7zXZ\0", "an xz file"),
    (0, b"BZh", "a bzip2 file"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!", "a rar archive"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"\xff\x06\x00\x00sNaPpY", "a Snappy framing format file"),
    (0, b"\x02\x21\x4c\x18", "a legacy lz4 file"),
    (0, b"\xff\xfe", "UTF-16 text"),
    (0, b"\xfe\xff", "UTF-16 text"),
    (257, b"ustar", "a tar archive"),
)


def suffix_codec(name: str) -> Codec | None:
    """The codec that a file name claims, also ``app.lz4.inprogress`` and ``events_1_app.zstd.compact``."""
    name = bare_name(name).lower()
    return next((codec for suffix, codec in SUFFIXES.items() if name.endswith(suffix)), None)


def bare_name(name: str) -> str:
    """The name without ``.compact`` and ``.inprogress``."""
    for suffix in STATE_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def sniff(head: bytes, name: str = "") -> Codec:
    """The codec of a stream that begins with ``head`` (``HEAD_BYTES``, or all there is).

    The name decides only where the content is shorter than a magic number.
    """
    for magic, codec in _MAGICS:
        if head.startswith(magic):
            return codec
    # A skippable frame may come first; zstd's tools write them (pzstd), lz4's hardly ever do.
    if len(head) >= 4 and _is_skippable(head[:4]):
        return Codec.ZSTD
    claimed = suffix_codec(name)
    if claimed and len(head) < 8 and any(c is claimed and magic.startswith(head) for magic, c in _MAGICS):
        return claimed
    return Codec.PLAIN


def foreign(head: bytes) -> str | None:
    """What the content is, where it can be told that it is no event log in any codec known here."""
    for at, magic, what in _FOREIGN:
        if head.startswith(magic, at):
            return what
    return "a ZIP archive" if head.startswith(ZIP_MAGICS) else None


class Decoded(Iterator[bytes]):
    """The decoded bytes of one stream: an iterator of blocks of at most 32 MiB, none of them empty.

    ``read(n)`` gives at most n compressed bytes, nothing only at the end. ``path`` and ``file`` name the log
    and the file in errors. When the iteration has ended, ``cut`` says why the stream is incomplete, or None;
    everything that was whole before the cut has been yielded. Raises ``LogCorrupt`` after what came before
    the damage, ``LogUndecodable`` and ``CodecMissing``.
    """

    def __init__(self, read: Callable[[int], bytes], codec: Codec, path: str, file: str | None = None) -> None:
        self.codec = codec
        self.cut: str | None = None
        self._path = path
        self._file = file or path
        self._intake = Intake(read)
        self._blocks = self._guarded(_plain(read) if codec is Codec.PLAIN else _DECODERS[codec](self._intake))

    def __next__(self) -> bytes:
        return next(self._blocks)

    def _guarded(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The codec's blocks, small ones joined, its ends translated and its expansion watched."""
        if self.codec is Codec.PLAIN:
            yield from blocks
            return
        gathered: list[bytes] = []
        size = total = 0
        try:
            for block in blocks:
                if not total:
                    self._refuse_nested(block)
                total += len(block)
                self._watch(total)
                size += len(block)
                gathered.append(block)
                if size >= SMALL_BYTES:
                    yield block if len(gathered) == 1 else b"".join(gathered)
                    gathered.clear()
                    size = 0
        except Cut as end:
            self.cut = end.why
        except Damage as damage:
            if gathered:
                yield b"".join(gathered)
            raise LogCorrupt(self._path, self._file, damage.at, damage.why) from None
        except PackageMissing as missing:
            raise CodecMissing(self._path, self.codec, str(missing)) from None
        if gathered:
            yield b"".join(gathered)

    def _watch(self, total: int) -> None:
        if is_bomb(total, self._intake.position):
            raise Damage(self._intake.position, f"the {self.codec} stream {BOMB}")

    def _refuse_nested(self, block: bytes) -> None:
        inner = sniff(block[:HEAD_BYTES])
        what = foreign(block[:HEAD_BYTES]) or (f"a {inner} stream" if inner is not Codec.PLAIN else None)
        if what:
            raise LogUndecodable(self._path, f"{what} inside {self.codec}: unpack it once, then give the log itself")


def _plain(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while block := read(PLAIN_BYTES):
        yield block


def _gzip_members(intake: Intake) -> Iterator[bytes]:
    data = intake.some(_GZIP_FEED)
    while data:
        # 31: a gzip header is required, and its checksum is verified.
        engine = zlib.decompressobj(31)
        while not engine.eof:
            try:
                out = engine.decompress(data, OUT_BYTES)
            except zlib.error:
                raise Damage(intake.position - len(data), "the gzip stream does not decode") from None
            if out:
                yield out
            if engine.eof:
                break
            data = engine.unconsumed_tail or intake.some(_GZIP_FEED)
            if not data and not out:
                raise Cut("the gzip stream is cut off")
        data = engine.unused_data
        # gzip allows zeros behind the last member (tapes, block-aligned stores).
        while not (data := data.lstrip(b"\0")):
            data = intake.some(_GZIP_FEED)
            if not data:
                return


def _lz4_frames(intake: Intake) -> Iterator[bytes]:
    frame = need("lz4.frame", "lz4")
    data = intake.some(SMALL_BYTES)
    while data:
        engine = frame.LZ4FrameDecompressor()
        while not engine.eof:
            try:
                out = engine.decompress(data, max_length=OUT_BYTES)
            except Exception:  # RuntimeError with the C library's code, or MemoryError for absurd sizes
                raise Damage(intake.position - len(data), "the lz4 frame does not decode") from None
            if out:
                yield out
            if engine.eof:
                break
            data = intake.some(SMALL_BYTES) if engine.needs_input else b""
            if not data and engine.needs_input:
                raise Cut("an lz4 frame is cut off")
        data = engine.unused_data or intake.some(SMALL_BYTES)


def _zstd_frames(intake: Intake) -> Iterator[bytes]:
    """Walk the frames (RFC 8878 section 3.1) and decode each block as its bytes are complete."""
    zstandard = need("zstandard", "zstandard")
    maker = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX)
    while True:
        at = intake.position
        magic = intake.take(4)
        if not magic:
            return
        if _is_skippable(magic):
            _skip_frame(intake, magic)
            continue
        if not magic.startswith(_ZSTD_MAGIC[: len(magic)]):
            raise Damage(at, "a zstd frame was expected")
        header, checksum = _zstd_header(intake, at)
        frame = maker.decompressobj()
        pending = magic + header
        last = False
        while not last:
            at = intake.position
            mark = intake.take(3)
            bits = int.from_bytes(mark, "little")
            last, kind, size = bool(bits & 1), bits >> 1 & 3, bits >> 3
            if len(mark) == 3 and (kind == 3 or size > _ZSTD_BLOCK_MAX):
                raise Damage(at, "a zstd block of an unknown kind or of more than 128 KiB")
            # Kind 1 repeats a single byte; 0 is raw and 2 compressed, both of the size given.
            wanted = 1 if kind == 1 else size
            body = intake.take(wanted) if len(mark) == 3 else b""
            if len(mark) < 3 or len(body) < wanted:
                raise Cut("a zstd frame is cut off")
            trailer = intake.take(checksum) if last else b""
            try:
                out = frame.decompress(b"".join((pending, mark, body, trailer)))
            except zstandard.ZstdError:
                raise Damage(at, "the zstd block does not decode") from None
            pending = b""
            if out:
                yield out
            if last and len(trailer) < checksum:
                raise Cut("the checksum of a zstd frame is cut off")


def _zstd_header(intake: Intake, at: int) -> tuple[bytes, int]:
    """The frame header after its magic number, and how many bytes of checksum follow the last block."""
    first = intake.take(1)
    if not first:
        raise Cut("the header of a zstd frame is cut off")
    flags = first[0]
    single = flags >> 5 & 1
    dictionary = (0, 1, 2, 4)[flags & 3]
    content = (single, 2, 4, 8)[flags >> 6]
    rest = intake.take(1 - single + dictionary + content)
    if len(rest) < 1 - single + dictionary + content:
        raise Cut("the header of a zstd frame is cut off")
    if flags & 8:
        raise Damage(at, "a zstd frame with a reserved flag")
    if single:
        window = int.from_bytes(rest[dictionary:], "little") + (256 if content == 2 else 0)
    else:
        base = 1 << (10 + (rest[0] >> 3))
        window = base + base // 8 * (rest[0] & 7)
    if window > WINDOW_MAX:
        raise Damage(at, f"a zstd window of {window:,} bytes; at most {WINDOW_MAX:,} are accepted")
    return first + rest, 4 if flags & 4 else 0


def _is_skippable(magic: bytes) -> bool:
    """Whether these are the first bytes, at most four, of a skippable frame (0x184D2A50 to 0x184D2A5F)."""
    return magic[0] & 0xF0 == 0x50 and _SKIPPABLE.startswith(magic[1:])


def _skip_frame(intake: Intake, magic: bytes) -> None:
    size = intake.take(4) if len(magic) == 4 else b""
    left = int.from_bytes(size, "little")
    while left and (part := intake.some(min(left, READ_BYTES))):
        left -= len(part)
    if left or len(size) < 4:
        raise Cut("a skippable zstd frame is cut off")


_DECODERS: Final[dict[Codec, Callable[[Intake], Iterator[bytes]]]] = {
    Codec.GZIP: _gzip_members,
    Codec.ZSTD: _zstd_frames,
    Codec.LZ4_BLOCK: java_streams.lz4_blocks,
    Codec.LZ4_FRAME: _lz4_frames,
    Codec.SNAPPY: java_streams.xerial_blocks,
    Codec.LZF: java_streams.lzf_chunks,
}
