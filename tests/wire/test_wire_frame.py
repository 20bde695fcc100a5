"""Cutting a byte stream into commands: every golden frame, every way to break one, and any bytes at all."""

import random
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hostile_bytes import HEADERS, framed
from namesrv_stream.errors import FrameError, NamesrvError
from namesrv_stream.wire.codes import Flag, SerializeType
from namesrv_stream.wire.frame import LARGE_FRAME_BYTES, MAX_FRAME_BYTES, MAX_HEADER_BYTES, FrameDecoder
from namesrv_stream.wire.remoting_command import MAX_HEADER_FIELDS, PreparedAnswer, RemotingCommand, encode_command
from tests.examples import examples
from tests.wire.binary import encode_binary
from tests.wire.golden import FRAMES, REQUESTS, decode_one

HEADER = b'{"code":105,"opaque":1}'


def frame_of(header=HEADER, body=b"", header_word=None, length=None):
    word = len(header) if header_word is None else header_word
    return struct.pack(">iI", 4 + len(header) + len(body) if length is None else length, word) + header + body


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_golden_frame_is_read_as_its_capturer_read_it(frame):
    command, said = frame.command, frame.said["header"]
    assert (command.code, command.opaque) == (said["code"], said["opaque"])
    assert command.version == said.get("version", 0)
    assert (command.ext_fields or {}) == said.get("extFields", {})
    assert command.remark == said.get("remark")
    assert command.serialize_type == frame.said["serializeType"]
    assert command.language in ("JAVA", "GO")
    assert command.is_response is not frame.is_request
    assert len(command.body) == frame.said["bodyLength"]
    if "body" in frame.said and "probe-319" not in frame.name:
        assert command.body.decode() == frame.said["body"]


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_golden_frame_survives_a_round_trip(frame):
    again = (encode_command if frame.command.serialize_type is SerializeType.JSON else encode_binary)(frame.command)
    assert decode_one(again) == frame.command
    if frame.is_as_java_writes_it:
        assert again == frame.raw


@pytest.mark.parametrize("large", [0, LARGE_FRAME_BYTES])
def test_all_bytes_of_an_incomplete_frame_count_as_buffered(large):
    raw = frame_of(body=b"{}")
    for size in range(1, len(raw)):
        decoder = FrameDecoder(large_frame_bytes=large)
        assert list(decoder.feed(raw[:size])) == []
        assert decoder.buffered_bytes == size


@pytest.mark.parametrize("large", [0, 300, LARGE_FRAME_BYTES])
def test_pipelined_frames_come_out_in_their_order_whatever_the_pieces(large):
    stream, expected, pieces = b"".join(f.raw for f in FRAMES), [f.command for f in FRAMES], random.Random(1)
    decoder, taken = FrameDecoder(large_frame_bytes=large), []
    while stream:
        size = pieces.choice([1, 3, 100, 5000])
        taken += decoder.feed(stream[:size])
        stream = stream[size:]
    assert taken == expected


@pytest.mark.parametrize("large", [0, LARGE_FRAME_BYTES])
def test_commands_that_were_not_taken_come_with_the_next_feed(large):
    first, second = REQUESTS["probe-105"], REQUESTS["probe-106"]
    decoder = FrameDecoder(large_frame_bytes=large)
    decoder.feed(first.raw[:-1])
    decoder.feed(first.raw[-1:] + second.raw[:-1])
    decoder.feed(second.raw[-1:])
    assert list(decoder.feed(b"")) == [first.command, second.command]
    assert next(decoder.feed(first.raw + second.raw)) == first.command
    decoder.feed(first.raw)
    assert list(decoder.feed(b"")) == [second.command, first.command]


def test_commands_ahead_of_a_break_come_first_and_the_error_stays():
    good = REQUESTS["probe-105"]
    decoder = FrameDecoder()
    commands = decoder.feed(good.raw + frame_of(length=0))
    assert next(commands) == good.command
    for more in (commands, decoder.feed(good.raw), decoder.feed(b"")):
        with pytest.raises(FrameError, match="leaves no room"):
            next(more)
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_hostile_header_is_refused(header):
    with pytest.raises(FrameError, match=r"header(: | of \d+ fields)"):
        list(FrameDecoder().feed(framed(header)))


@pytest.mark.parametrize("encode", [encode_command, encode_binary])
def test_a_header_has_as_many_fields_as_are_allowed_and_no_more(encode):
    def fed(fields):
        ext_fields = {f"key{number}": 'a text with {"more",[1,2]}' for number in range(fields)}
        (decoded,) = FrameDecoder().feed(encode(RemotingCommand(code=105, ext_fields=ext_fields)))
        return len(decoded.ext_fields)

    assert fed(MAX_HEADER_FIELDS) == MAX_HEADER_FIELDS
    with pytest.raises(FrameError, match="what is large goes in the body"):
        fed(MAX_HEADER_FIELDS + 1)


def test_frame_at_the_limit_is_taken_and_one_byte_more_is_not():
    fits = frame_of(body=b"x" * (100 - 8 - len(HEADER)))
    assert len(fits) == 100
    assert len(list(FrameDecoder(max_frame_bytes=100).feed(fits))) == 1
    with pytest.raises(FrameError, match="frame of 100 bytes is over the limit of 99"):
        list(FrameDecoder(max_frame_bytes=99).feed(fits[:4]))


def test_header_beyond_the_limit_is_refused_before_it_is_held():
    decoder = FrameDecoder()
    announced = struct.pack(">iI", MAX_FRAME_BYTES - 4, MAX_HEADER_BYTES)
    assert list(decoder.feed(announced)) == []
    with pytest.raises(FrameError, match=f"header of {MAX_HEADER_BYTES + 1} bytes is over the limit"):
        list(FrameDecoder().feed(struct.pack(">iI", MAX_FRAME_BYTES - 4, MAX_HEADER_BYTES + 1)))


def test_large_body_in_small_pieces_takes_no_more_memory_than_a_few_of_it():
    raw = frame_of(body=bytes(8 * 1024 * 1024))
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        commands = [c for at in range(0, len(raw), 1000) for c in decoder.feed(raw[at : at + 1000])]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(commands[0].body) == 8 * 1024 * 1024
    assert peak_bytes < 4 * len(raw)


def test_announced_length_takes_no_memory_before_its_bytes_are_there():
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        list(decoder.feed(frame_of(length=MAX_FRAME_BYTES - 4)))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000


@pytest.mark.parametrize("opaque", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_prepared_answer_is_the_answer_with_another_opaque(opaque):
    fields = {"opaque": "0", 'a"opaque":0': '"opaque":0'}
    answer = RemotingCommand(code=0, flag=1, opaque=77, remark='x"opaque":0', ext_fields=fields, body=b'{"opaque":0}')
    request = RemotingCommand(code=105, opaque=opaque)
    expected = request.answer(0, answer.remark, fields, answer.body)
    assert PreparedAnswer(answer).frame(opaque) == encode_command(expected)


def test_answer_to_a_binary_request_is_json_with_the_requests_opaque():
    answer = REQUESTS["acting2-901"].command.answer(17, "no")
    assert answer.serialize_type is SerializeType.JSON
    assert (answer.flag, answer.opaque) == (Flag.RESPONSE, REQUESTS["acting2-901"].command.opaque)


sizes_of_large = st.sampled_from([0, LARGE_FRAME_BYTES])


@given(st.lists(st.binary(max_size=200), max_size=20), sizes_of_large)
def test_any_bytes_give_commands_or_a_frame_error_and_never_grow(chunks, large):
    assert_decoder_is_sane(chunks, FrameDecoder(300, large), max_frame_bytes=300)


@given(st.sampled_from(FRAMES), st.data(), sizes_of_large)
def test_damaged_golden_frame_gives_commands_or_a_frame_error(frame, data, large):
    raw = bytearray(frame.raw)
    for at in data.draw(st.lists(st.integers(0, min(len(raw), 600) - 1), max_size=5)):
        raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    chunks = [bytes(raw[:cut]), bytes(raw[cut:]), frame.raw]
    assert_decoder_is_sane(chunks, FrameDecoder(large_frame_bytes=large), MAX_FRAME_BYTES)


def assert_decoder_is_sane(chunks, decoder, max_frame_bytes):
    """Assert that only a NamesrvError is raised, and stays; that the buffer has at most one frame.

    A command that was read can be written.
    """
    broken, fed, taken = False, 0, 0
    for chunk in chunks:
        fed += len(chunk)
        try:
            for command in decoder.feed(chunk):
                assert not broken
                taken += 1
                encode_command(command)
        except NamesrvError as error:
            assert isinstance(error, FrameError)
            broken = True
        assert decoder.buffered_bytes <= (0 if broken else max_frame_bytes)
    assert taken <= fed / 8


texts = st.text(max_size=30)
int16, int32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)


@examples(50)
@given(
    st.builds(
        RemotingCommand,
        code=int32,
        opaque=int32,
        flag=int32,
        version=int32,
        language=st.sampled_from(["JAVA", "CPP", "OTHER"]),
        remark=st.none() | st.text(min_size=1),
        ext_fields=st.none() | st.dictionaries(texts, texts, max_size=5),
        body=st.binary(max_size=100),
    )
)
def test_command_survives_a_round_trip_in_json(command):
    assert decode_one(encode_command(command)) == command


@examples(50)
@given(
    st.builds(
        RemotingCommand,
        code=int16,
        opaque=int32,
        flag=int32,
        version=int16,
        remark=st.none() | st.text(min_size=1),
        ext_fields=st.none() | st.dictionaries(st.text(min_size=1), st.text(min_size=1), min_size=1, max_size=5),
        body=st.binary(max_size=100),
        serialize_type=st.just(SerializeType.ROCKETMQ),
    )
)
def test_command_survives_a_round_trip_in_binary(command):
    assert decode_one(encode_binary(command)) == command
