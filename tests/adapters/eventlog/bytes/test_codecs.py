"""Every framing, as the real libraries write it and as hostile hands might: whole, cut at every byte, damaged."""

from __future__ import annotations

import gzip
import io
import struct
import sys
import tracemalloc
from collections.abc import Callable

import cramjam
import lz4.block
import lz4.frame
import pytest
import xxhash
import zstandard
from hypothesis import given, strategies as st

from podtide.adapters.eventlog.bytes.codecs import Codec, Decoded, foreign, sniff, suffix_codec
from podtide.adapters.eventlog.bytes.errors import CodecMissing, LogCorrupt, LogError, LogUndecodable
from podtide.adapters.eventlog.bytes.framing import BLOCK_MAX, Intake
from podtide.adapters.eventlog.bytes.java_codecs import lz4_blocks, lzf_block, lzf_chunks, xerial_blocks

LINE = b'{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n'
TEXT = LINE * 4

# TEXT as Spark 4.3.0's compress-lzf 1.2.0, lz4-java 1.11.0, snappy-java 1.1.10.8 and zstd-jni 1.5.7 write it.
JAVA_LZF = bytes.fromhex(
    "5a5601003f00e81f7b224576656e74223a22537061726b4c697374656e65724c6f67537461727422002c8017072056657273696f6e20"
    "2707342e332e30227d0ae0a339017d0a"
)
JAVA_LZ4 = bytes.fromhex(
    "4c5a34426c6f636b2543000000e8000000e222f506f2127b224576656e74223a22537061726b4c697374656e65724c6f675374617274"
    "222c1800ff042056657273696f6e223a22342e332e30227d0a3a0096502e30227d0a4c5a34426c6f636b15000000000000000000000000"
)
JAVA_SNAPPY = bytes.fromhex(
    "82534e4150505900000000010000000100000043e801807b224576656e74223a22537061726b4c697374656e65724c6f675374617274"
    "222c0918482056657273696f6e223a22342e332e30227d0afe3a00fe3a00b63a00"
)
JAVA_ZSTD = bytes.fromhex(
    "28b52ffd00481d0200a4037b224576656e74223a22537061726b4c697374656e65724c6f675374617274222c22537061726b20566572"
    "73696f6e223a22342e332e30227d0a0100baea948202"
)


def lz4_block(data: bytes, *, raw: bool = False) -> bytes:
    packed = data if raw else lz4.block.compress(data, store_size=False)
    check = xxhash.xxh32_intdigest(data, 0x9747B28C) & 0x0FFFFFFF
    return struct.pack("<8sBIII", b"LZ4Block", 0x15 if raw else 0x25, len(packed), len(data), check) + packed


LZ4_END = struct.pack("<8sBIII", b"LZ4Block", 0x15, 0, 0, 0)
XERIAL_HEADER = b"\x82SNAPPY\0" + struct.pack(">II", 1, 1)


def xerial_block(data: bytes) -> bytes:
    packed = bytes(cramjam.snappy.compress_raw(data))
    return struct.pack(">I", len(packed)) + packed


def lzf_chunk(data: bytes) -> bytes:
    """Literals only, which every LZF decoder must take."""
    packed = b"".join(bytes([len(data[at : at + 32]) - 1]) + data[at : at + 32] for at in range(0, len(data), 32))
    return b"ZV\1" + struct.pack(">HH", len(packed), len(data)) + packed


def zstd_frame(data: bytes, *, checksum: bool = False, level: int = 1) -> bytes:
    return zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(data)


def zstd_repeats(blocks: int, window: int = 0x50) -> bytes:
    """A frame that repeats one byte 128 Ki times a block: 4 bytes each."""
    block = struct.pack("<I", (128 * 1024 << 3 | 2))[:3] + b"x"
    last = struct.pack("<I", (1 << 3 | 2 | 1))[:3] + b"\n"
    return b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + block * blocks + last


HALVES = (TEXT[:100], TEXT[100:])
STREAMS = {
    "gzip": (Codec.GZIP, gzip.compress(TEXT, mtime=0)),
    "gzip members": (Codec.GZIP, b"".join(map(gzip.compress, HALVES))),
    "gzip padded": (Codec.GZIP, gzip.compress(TEXT, mtime=0) + b"\0" * 40),
    "zstd": (Codec.ZSTD, zstd_frame(TEXT)),
    "zstd frames": (Codec.ZSTD, b"".join(map(zstd_frame, HALVES))),
    "zstd checksum": (Codec.ZSTD, b"".join(zstd_frame(half, checksum=True) for half in HALVES)),
    "zstd skippable": (Codec.ZSTD, b"\x5a\x2a\x4d\x18\x03\0\0\0abc" + zstd_frame(TEXT)),
    "zstd empty frame": (Codec.ZSTD, zstd_frame(b"") + zstd_frame(TEXT)),
    "zstd of Java": (Codec.ZSTD, JAVA_ZSTD),
    "lz4": (Codec.LZ4_BLOCK, b"".join(map(lz4_block, HALVES)) + LZ4_END),
    "lz4 raw block": (Codec.LZ4_BLOCK, lz4_block(TEXT, raw=True) + LZ4_END),
    "lz4 streams": (Codec.LZ4_BLOCK, b"".join(lz4_block(half) + LZ4_END for half in HALVES)),
    "lz4 of Java": (Codec.LZ4_BLOCK, JAVA_LZ4),
    "lz4 frame": (Codec.LZ4_FRAME, lz4.frame.compress(TEXT)),
    "lz4 frames": (Codec.LZ4_FRAME, b"".join(map(lz4.frame.compress, HALVES))),
    "snappy": (Codec.SNAPPY, XERIAL_HEADER + b"".join(map(xerial_block, HALVES))),
    "snappy streams": (Codec.SNAPPY, b"".join(XERIAL_HEADER + xerial_block(half) for half in HALVES)),
    "snappy of Java": (Codec.SNAPPY, JAVA_SNAPPY),
    "lzf": (Codec.LZF, b"".join(map(lzf_chunk, HALVES))),
    "lzf raw": (Codec.LZF, b"ZV\0" + struct.pack(">H", len(TEXT)) + TEXT),
    "lzf of Java": (Codec.LZF, JAVA_LZF),
}


def decode(data: bytes, codec: Codec) -> tuple[bytes, str | None]:
    stream = Decoded(io.BytesIO(data).read, codec, "log")
    return b"".join(stream), stream.cut


def decode_far(data: bytes, codec: Codec) -> tuple[bytes, LogError | None]:
    """What is decoded before the error, and the error."""
    blocks: list[bytes] = []
    try:
        blocks.extend(Decoded(io.BytesIO(data).read, codec, "log"))
    except LogError as problem:
        return b"".join(blocks), problem
    return b"".join(blocks), None


@pytest.mark.parametrize("name", STREAMS)
def test_decodes_the_whole_stream(name: str) -> None:
    codec, data = STREAMS[name]
    assert sniff(data) is codec
    assert decode(data, codec) == (TEXT, None)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("step", [1, 7])
def test_decodes_whatever_the_pipe_gives_at_once(name: str, step: int) -> None:
    codec, data = STREAMS[name]
    source = io.BytesIO(data)
    assert b"".join(Decoded(lambda _: source.read(step), codec, "log")) == TEXT


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_at_any_byte_gives_what_was_whole_and_says_so(name: str) -> None:
    codec, data = STREAMS[name]
    whole = {len(data)}
    for end in range(len(data)):
        text, cut = decode(data[:end], codec)
        assert TEXT.startswith(text)
        if cut is None:
            whole.add(end)
    # Complete only at the end of a frame, a member, or - without end marks - a block; and where nothing was begun.
    assert len(whole) <= {"gzip padded": 42, "snappy streams": 5}.get(name, 4)


@pytest.mark.parametrize("name", STREAMS)
def test_a_damaged_byte_is_an_error_with_its_place_or_other_text(name: str) -> None:
    codec, data = STREAMS[name]
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
            text, problem = decode_far(damaged, codec)
            assert problem is None or isinstance(problem, LogCorrupt | LogUndecodable)
            if isinstance(problem, LogCorrupt):
                assert 0 <= problem.offset <= len(data)
            assert len(text) <= 1 << 20


@pytest.mark.parametrize("name", ["gzip members", "zstd frames", "lz4 streams", "lz4 frames", "snappy streams", "lzf"])
def test_damage_in_the_middle_comes_after_what_was_before_it(name: str) -> None:
    codec, data = STREAMS[name]
    text, problem = decode_far(data + b"?" * 64, codec)
    assert text == TEXT
    assert isinstance(problem, LogCorrupt)
    assert problem.offset == len(data)
    assert f"damaged at byte {len(data):,}" in str(problem)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("app-1.zstd", Codec.ZSTD),
        ("app-1.zst", Codec.ZSTD),
        ("app-1.lz4.inprogress", Codec.LZ4_BLOCK),
        ("events_3_app-1.snappy.compact", Codec.SNAPPY),
        ("app-1.LZF", Codec.LZF),
        ("app.json.gz", Codec.GZIP),
        ("app-1", None),
        ("app-1.inprogress", None),
        ("zstd", None),
    ],
)
def test_a_name_claims_a_codec(name: str, codec: Codec | None) -> None:
    assert suffix_codec(name) is codec


@pytest.mark.parametrize(
    ("head", "name", "codec"),
    [
        (b'{"Event":', "app.zstd", Codec.PLAIN),  # the content is right, the suffix is not
        (JAVA_ZSTD, "app.lz4", Codec.ZSTD),
        (JAVA_LZ4, "app", Codec.LZ4_BLOCK),
        (b"\x28\xb5", "app.zstd", Codec.ZSTD),  # too short to speak: the suffix does
        (b"LZ4", "app.lz4.inprogress", Codec.LZ4_BLOCK),
        (b"\x28\xb5", "app", Codec.PLAIN),
        (b"", "app.zstd", Codec.ZSTD),
        (b"ZV of course", "app", Codec.PLAIN),
        (b"garbage", "app.zstd", Codec.PLAIN),
    ],
)
def test_the_content_decides_before_the_name(head: bytes, name: str, codec: Codec) -> None:
    assert sniff(head, name) is codec


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"\xfd7zXZ\0\0", "an xz file"),
        (b"BZh91AY&SY", "a bzip2 file"),
        (b"PAR1", "a Parquet file"),
        (b"\xff\xfe{\0", "UTF-16 text"),
        (b"name".ljust(257, b"\0") + b"ustar\x0000", "a tar archive"),
        (b"PK\x03\x04", "a ZIP archive"),
        (LINE, None),
        (b"", None),
    ],
)
def test_what_no_event_log_is_written_in_is_named(head: bytes, what: str | None) -> None:
    assert foreign(head) == what


@pytest.mark.parametrize(
    ("inner", "what"), [(zstd_frame(TEXT), "a zstd stream"), (b"n".ljust(257, b"\0") + b"ustar", "a tar archive")]
)
def test_a_stream_inside_a_stream_is_refused_by_name(inner: bytes, what: str) -> None:
    with pytest.raises(LogUndecodable, match=f"^log: {what} inside gzip: unpack it once"):
        decode(gzip.compress(inner), Codec.GZIP)


@pytest.mark.parametrize(
    ("codec", "module", "package"),
    [
        (Codec.ZSTD, "zstandard", "zstandard"),
        (Codec.LZ4_BLOCK, "lz4.block", "lz4"),
        (Codec.LZ4_FRAME, "lz4.frame", "lz4"),
        (Codec.SNAPPY, "cramjam", "cramjam"),
    ],
)
def test_a_codec_that_is_not_installed_says_what_to_install(
    codec: Codec, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    data = next(data for one, data in STREAMS.values() if one is codec)
    with pytest.raises(CodecMissing, match=f"pip install {package}") as missing:
        decode(data, codec)
    assert missing.value.package == package


# --- checksums -------------------------------------------------------------------------------------------------------


def test_the_checksum_of_lz4_java_is_verified() -> None:
    assert decode(JAVA_LZ4, Codec.LZ4_BLOCK) == (TEXT, None)
    # A literal of the block: without the checksum this would be other text.
    at = JAVA_LZ4.index(b"Listener")
    damaged = JAVA_LZ4[:at] + b"l" + JAVA_LZ4[at + 1 :]
    with pytest.raises(LogCorrupt, match="checksum"):
        decode(damaged, Codec.LZ4_BLOCK)


def test_without_xxhash_the_checksum_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    unchecked = lz4_block(TEXT)
    assert decode(unchecked[:17] + b"\0\0\0\0" + unchecked[21:] + LZ4_END, Codec.LZ4_BLOCK) == (TEXT, None)


# --- hostile lengths and bombs ---------------------------------------------------------------------------------------

HOSTILE = {
    "lz4 larger than its stream's blocks": (Codec.LZ4_BLOCK, "<8sBIII", (b"LZ4Block", 0x25, 9, 1 << 31, 0)),
    "lz4 packed larger than any": (Codec.LZ4_BLOCK, "<8sBIII", (b"LZ4Block", 0x2F, 0xFFFFFFFF, 1 << 25, 0)),
    "lz4 raw of two lengths": (Codec.LZ4_BLOCK, "<8sBIII", (b"LZ4Block", 0x15, 3, 4, 0)),
    "lz4 packed nothing": (Codec.LZ4_BLOCK, "<8sBIII", (b"LZ4Block", 0x25, 3, 0, 0)),
    "lz4 of an unknown method": (Codec.LZ4_BLOCK, "<8sBIII", (b"LZ4Block", 0x35, 3, 3, 0)),
    "snappy packed": (Codec.SNAPPY, ">8sIII", (b"\x82SNAPPY\0", 1, 1, 0x7FFFFFFF)),
    "snappy negative": (Codec.SNAPPY, ">8sIII", (b"\x82SNAPPY\0", 1, 1, 0xFFFFFFFF)),
    "snappy of nothing": (Codec.SNAPPY, ">8sIII", (b"\x82SNAPPY\0", 1, 1, 0)),
    "snappy decoded": (Codec.SNAPPY, ">8sIII5s", (b"\x82SNAPPY\0", 1, 1, 5, b"\xff\xff\xff\xff\x0f")),
    "snappy of another version": (Codec.SNAPPY, ">8sIII", (b"\x82SNAPPY\0", 9, 9, 1)),
    "zstd window of 2 GB": (Codec.ZSTD, "<I2s3s", (0xFD2FB528, b"\0\xa8", b"\1\0\0")),
    "zstd single segment of 4 GB": (Codec.ZSTD, "<IsI3s", (0xFD2FB528, b"\xa0", 0xFFFFFFFF, b"\1\0\0")),
    "zstd reserved block": (Codec.ZSTD, "<I2s3s", (0xFD2FB528, b"\0\x50", b"\7\0\0")),
    "zstd block of 2 MB": (Codec.ZSTD, "<I2s3s", (0xFD2FB528, b"\0\x50", b"\xf8\xff\xff")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_length_is_refused_before_anything_is_reserved(name: str) -> None:
    codec, layout, fields = HOSTILE[name]
    tracemalloc.start()
    text, problem = decode_far(struct.pack(layout, *fields) + b"\0" * 64, codec)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text == b""
    assert isinstance(problem, LogCorrupt)
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("codec", "build"),
    [
        (Codec.ZSTD, lambda: zstd_repeats(800)),
        (Codec.GZIP, lambda: gzip.compress(bytes(100 << 20), 1)),
        (Codec.LZ4_FRAME, lambda: lz4.frame.compress(bytes(100 << 20))),
    ],
    ids=["zstd", "gzip", "lz4"],
)
def test_a_bomb_comes_in_small_pieces(codec: Codec, build: Callable[[], bytes]) -> None:
    bomb = build()
    tracemalloc.start()
    total = sum(map(len, Decoded(io.BytesIO(bomb).read, codec, "log")))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total >= 100 << 20
    assert peak < 24 << 20


def test_a_bomb_is_refused_once_its_expansion_is_absurd() -> None:
    total = 0
    blocks = Decoded(io.BytesIO(zstd_repeats(20_000)).read, Codec.ZSTD, "log")

    def drain() -> None:
        nonlocal total
        for block in blocks:
            total += len(block)

    with pytest.raises(LogCorrupt, match="expands more than 500-fold"):
        drain()
    assert total <= (1 << 30) + (1 << 20)


def test_blocks_of_a_byte_are_joined() -> None:
    stream = XERIAL_HEADER + xerial_block(b"x") * 100_000
    blocks = list(Decoded(io.BytesIO(stream).read, Codec.SNAPPY, "log"))
    assert sum(map(len, blocks)) == 100_000
    assert len(blocks) == 2


# --- properties ------------------------------------------------------------------------------------------------------


@st.composite
def lzf_blocks(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A block of random literals and matches, and what it stands for."""
    packed, text = bytearray(), bytearray()
    for literal, back, length in draw(
        st.lists(st.tuples(st.binary(min_size=1, max_size=32), st.integers(1, 8192), st.integers(3, 264)), max_size=12)
    ):
        packed += bytes([len(literal) - 1]) + literal
        text += literal
        distance = min(back, len(text))
        code, extra = min(length - 2, 7), length - 9
        packed += bytes([code << 5 | (distance - 1) >> 8])
        packed += bytes([extra]) if code == 7 else b""
        packed += bytes([(distance - 1) & 0xFF])
        for _ in range(length):
            text.append(text[-distance])
    return bytes(packed), bytes(text)


@given(lzf_blocks())
def test_lzf_decodes_every_mix_of_literals_and_matches(block: tuple[bytes, bytes]) -> None:
    packed, text = block
    assert lzf_block(packed, len(text)) == text


@given(st.binary(max_size=300), st.integers(0, 65535))
def test_lzf_never_raises_anything_but_its_error(packed: bytes, size: int) -> None:
    try:
        text = lzf_block(packed, size)
    except ValueError:
        return
    assert len(text) == size


@given(st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=8), st.integers(1, 700), st.data())
def test_every_block_framing_round_trips_and_cuts_to_a_prefix(
    parts: list[bytes], step: int, data: st.DataObject
) -> None:
    for build, decoder in (
        (lambda part: lz4_block(part) + LZ4_END, lz4_blocks),
        (lambda part: XERIAL_HEADER + xerial_block(part), xerial_blocks),
        (lzf_chunk, lzf_chunks),
    ):
        stream = b"".join(map(build, parts))
        source = io.BytesIO(stream)
        assert list(decoder(Intake(lambda _, source=source: source.read(step)))) == parts  # type: ignore[misc]
        end = data.draw(st.integers(0, len(stream)))
        codec = {lz4_blocks: Codec.LZ4_BLOCK, xerial_blocks: Codec.SNAPPY, lzf_chunks: Codec.LZF}[decoder]
        text, problem = decode_far(stream[:end], codec)
        assert b"".join(parts).startswith(text) or isinstance(problem, LogUndecodable)


@given(st.sampled_from(list(Codec)), st.binary(max_size=400), st.integers(0, 200))
def test_no_bytes_raise_anything_but_a_log_error(codec: Codec, noise: bytes, keep: int) -> None:
    beginning = next((data for one, data in STREAMS.values() if one is codec), b"")[:keep]
    text, problem = decode_far(beginning + noise, codec)
    assert len(text) <= BLOCK_MAX
    assert problem is None or "\n" not in str(problem)
