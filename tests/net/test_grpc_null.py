"""The gRPC layer alone, through gRPC's own client: bench_grpc_null (STOKER_GRPC_NULL names the binary)."""

import os
import queue
import random
import signal
import subprocess
import threading

import grpc
import pytest

BINARY = os.environ.get("STOKER_GRPC_NULL") or os.path.join(
    os.path.dirname(os.environ.get("STOKER_BINARY", "build/bin/stoker")), "bench_grpc_null")
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]

pytestmark = pytest.mark.skipif(not os.path.exists(BINARY), reason=f"{BINARY} is not built (STOKER_BENCH=ON)")


class Server:
    def __init__(self, *flags):
        self.process = subprocess.Popen([BINARY, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = "127.0.0.1:" + self.process.stdout.readline().split()[-1]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)


@pytest.fixture(scope="module")
def server():
    server = Server("--loops", "2")
    yield server
    server.stop()


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.address, options=UNLIMITED) as channel:
        yield channel


def bytes_of(size, seed=5):
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize("method", ["Echo", "Hop"])
@pytest.mark.parametrize("size", [0, 1, 500, 16384, 1 << 20, 50_000_000])
def test_unary(channel, method, size):
    message = bytes_of(size)
    assert channel.unary_unary(f"/stoker.Null/{method}")(message) == message


@pytest.mark.parametrize("method", ["Echo", "Hop"])
def test_bidirectional_stream_answers_while_it_is_open(channel, method):
    requests = queue.SimpleQueue()
    answers = channel.stream_stream(f"/stoker.Null/{method}")(iter(requests.get, None))
    for i in range(300):
        message = bytes_of(i * 37, seed=i)
        requests.put(message)
        assert next(answers) == message
    requests.put(None)
    assert list(answers) == []
    assert answers.code() == grpc.StatusCode.OK


def test_half_closed_stream_of_many(channel):
    messages = [bytes_of(1000, seed=i) for i in range(2000)]
    assert list(channel.stream_stream("/stoker.Null/Echo")(iter(messages))) == messages


def test_a_thousand_calls_at_once(channel):
    for method in ("Echo", "Hop"):
        call = channel.unary_unary(f"/stoker.Null/{method}")
        futures = [(call.future(b"%d" % i), b"%d" % i) for i in range(1000)]
        for future, expected in futures:
            assert future.result(timeout=60) == expected


def test_deadline(channel):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/stoker.Null/Silent")(b"x", timeout=0.2)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_cancellation_reaches_the_server(server, channel):
    future = channel.unary_unary("/stoker.Null/Silent").future(b"x")
    echo = channel.unary_unary("/stoker.Null/Echo")
    echo(b"so that the other call has arrived")
    seen = threading.Event()

    def watch():
        for line in server.process.stderr:
            if "cancelled" in line:
                seen.set()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    future.cancel()
    assert seen.wait(timeout=30)
    assert echo(b"y") == b"y"


def test_unknown_method(channel):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/stoker.Null/Nothing")(b"x")
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("text", ["plain", "100 % sure", "zwei\nZeilen: äöü €"])
def test_status(channel, text):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/stoker.Null/Fail")(f"5 {text}".encode())
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == text


def test_metadata(channel):
    sent = [("x-a", "value with spaces"), ("x-a", "again"), ("x-b-bin", bytes(range(256))), ("x-c-bin", b"")]
    call = channel.unary_unary("/stoker.Null/Metadata")
    for _ in range(3):
        answer, state = call.with_call(b"x", metadata=sent)
        assert answer == b"x"
        assert [(key, value) for key, value in state.trailing_metadata() if key.startswith("x-")] == sent


@pytest.mark.parametrize("coding", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_requests(server, coding):
    with grpc.insecure_channel(server.address, compression=coding) as channel:
        for message in (b"", b"a" * 1_000_000, bytes_of(100_000)):
            assert channel.unary_unary("/stoker.Null/Echo")(message) == message


def test_compressed_answers():
    server = Server("--gzip", "1")
    try:
        with grpc.insecure_channel(server.address, compression=grpc.Compression.Gzip) as channel:
            call = channel.unary_unary("/stoker.Null/Echo")
            for message in (b"", b"short", b"a" * 1_000_000, bytes_of(100_000)):
                assert call(message) == message
            stream = channel.stream_stream("/stoker.Null/Hop")
            messages = [b"b" * size for size in (0, 10, 5000, 100_000)]
            assert list(stream(iter(messages))) == messages
    finally:
        server.stop()


def test_message_beyond_the_limit():
    server = Server("--message-bytes-max", "1000")
    try:
        with grpc.insecure_channel(server.address) as channel:
            call = channel.unary_unary("/stoker.Null/Echo")
            assert call(b"x" * 1000) == b"x" * 1000
            with pytest.raises(grpc.RpcError) as caught:
                call(b"x" * 1001)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            with pytest.raises(grpc.RpcError) as caught:
                call(b"x" * 100_000, compression=grpc.Compression.Gzip)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert call(b"still there") == b"still there"
    finally:
        server.stop()


def test_drain_lets_calls_end():
    server = Server()
    requests = queue.SimpleQueue()
    with grpc.insecure_channel(server.address) as channel:
        answers = channel.stream_stream("/stoker.Null/Echo")(iter(requests.get, None))
        requests.put(b"before")
        assert next(answers) == b"before"
        server.process.send_signal(signal.SIGTERM)
        for i in range(20):
            requests.put(b"%d" % i)
            assert next(answers) == b"%d" % i
        requests.put(None)
        assert list(answers) == []
        assert server.process.wait(timeout=30) == 0
