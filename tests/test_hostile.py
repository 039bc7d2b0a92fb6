"""Clients that mean harm, or behave as if they did: the server lives, serves the others and stays small."""

import gzip
import http.client
import json
import os
import random
import re
import socket
import struct
import threading
import time
import zlib

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from model_files import Repository, every_type_config, identity_config
from stoker_server import Server, until

MEBIBYTE = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_HEADERS = 4
ENHANCE_YOUR_CALM = 11


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """Meets everything in this file; memory is looked at over its whole life."""
    models = Repository(tmp_path_factory.mktemp("hostile") / "models")
    models.add("floats", identity_config())
    models.add("every", every_type_config())
    with Server(models, "--http-max-input-size=8388608", "--model-control-mode=explicit", "--load-model=*") as server:
        for _ in range(3):
            assert server.infer("floats", [1, 2]).status == 200
        server.memory_at_start = server.memory_bytes()
        yield server


@pytest.fixture(autouse=True)
def unharmed(target):
    """After each test: alive, serving over both doors, memory bounded."""
    yield
    assert target.process.poll() is None, target.log()
    answer = target.infer("floats", [1, 2])
    assert answer.status == 200 and answer.json()["outputs"][0]["data"] == [1, 2]
    with grpc_client.InferenceServerClient(target.grpc_address) as client:
        tensor = grpc_client.InferInput("INPUT0", [1, 2], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 2), np.float32))
        assert client.infer("floats", [tensor]).as_numpy("OUTPUT0").tolist() == [[1, 1]]
    until(lambda: target.memory_bytes() < target.memory_at_start + 200 * MEBIBYTE, "memory given back")


def send(server, *pieces, port=None, timeout_s=60):
    """Sends the pieces on a connection of its own and returns all that comes back until the server closes."""
    received = b""
    with socket.create_connection(("127.0.0.1", port or server.http), timeout=timeout_s) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it closed early: fine, when it answered first
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:
            pass
    return received


def post(*headers, path="/v2/models/floats/infer"):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: a", *headers, "", ""]).encode()


def statuses(received):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def body_of(elements=2, **tensor):
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, elements], "data": [1] * elements, **tensor}
    return json.dumps({"inputs": [tensor]}).encode()


# ---- framing

@pytest.mark.parametrize("headers,body", [
    (["Content-Length: 5", "Transfer-Encoding: chunked"], b"0\r\n\r\nGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (["Transfer-Encoding: chunked", "Content-Length: 5"], b"0\r\n\r\nGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (["Content-Length: 5", "Content-Length: 6"], b"aaaaaa"),
    (["Content-Length: 5, 6"], b"aaaaaa"),
    (["Content-Length: +5"], b"aaaaa"), (["Content-Length: -1"], b""), (["Content-Length: 0x5"], b"aaaaa"),
    (["Content-Length: 99999999999999999999"], b""),
    (["Transfer-Encoding: chunked, identity"], b"0\r\n\r\n"), (["Transfer-Encoding: xchunked"], b"0\r\n\r\n"),
    (["Transfer-Encoding : chunked"], b"0\r\n\r\n"), (["Transfer-Encoding: chunked"], b"g\r\n"),
    (["Transfer-Encoding: chunked"], b"ffffffffffffffffff\r\n"), (["Transfer-Encoding: chunked"], b"5\r\naaaaaXX"),
    ([" Folded: header"], b""), (["No colon here"], b""), (["Bad\x00Name: x"], b""), (["Host: b"], b"")])
def test_ambiguous_framing_is_refused_once(target, headers, body):
    """One refusal, and what follows is not taken for a request."""
    received = send(target, post(*headers), body)
    assert len(statuses(received)) == 1 and statuses(received)[0] in (400, 413, 501), received
    assert b"extensions" not in received


@pytest.mark.parametrize("line", [b"\r\n\r\n\r\n\r\nJUNK\r\n\r\n", b"GET\r\n\r\n", b"GET /v2 HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
                                  b"\x00" * 100, b"GET http://[ HTTP/1.1\r\n\r\n", b"A" * 70_000])
def test_no_request_at_all(target, line):
    assert all(400 <= status < 600 for status in statuses(send(target, line)))


def test_huge_header(target):
    received = send(target, post("X: " + "a" * MEBIBYTE))
    assert statuses(received) in ([431], [400], [])
    received = send(target, post(*(f"X-{i}: a" for i in range(50_000))))
    assert statuses(received) in ([431], [400], [])
    received = send(target, b"GET /" + b"a" * MEBIBYTE + b" HTTP/1.1\r\n\r\n")
    assert statuses(received) in ([414], [431], [400], [])


def test_endless_header(target):
    with socket.create_connection(("127.0.0.1", target.http), timeout=60) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\n")
        # It may throw away for a while what comes after its refusal, and then it closes.
        end = time.monotonic() + 60
        with pytest.raises(OSError):
            while time.monotonic() < end:
                connection.sendall((b"X-1: " + b"a" * 1000 + b"\r\n") * 100)


def test_body_beyond_the_limit(target):
    assert statuses(send(target, post("Content-Length: 900000000000"))) == [413]
    assert statuses(send(target, post("Content-Length: 8388609"))) == [413]
    chunk = b"100000\r\n" + b" " * MEBIBYTE + b"\r\n"
    assert statuses(send(target, post("Transfer-Encoding: chunked"), *[chunk] * 16)) in ([413], [])


def test_100_000_tiny_chunks(target):
    body = body_of(40_000)
    assert len(body) > 100_000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body[:100_000])
    received = send(target, post("Transfer-Encoding: chunked"), chunks, b"0\r\n\r\n")
    assert statuses(received) in ([400], [413]) and b"chunk" in received


def test_chunk_extensions_and_trailers_are_bounded(target):
    assert statuses(send(target, post("Transfer-Encoding: chunked"), b"1;" + b"a" * MEBIBYTE)) in ([400], [413], [431], [])
    assert statuses(send(target, post("Transfer-Encoding: chunked"), b"0\r\n" + b"X: " + b"a" * MEBIBYTE)) in ([400], [413], [431], [])


def test_pipelined_requests_are_all_answered(target):
    body = body_of()
    one = post(f"Content-Length: {len(body)}") + body
    assert statuses(send(target, one * 200)) == [200] * 200


# ---- content

@pytest.mark.parametrize("depth", [101, 10_000, 1_000_000])
@pytest.mark.parametrize("opening,closing", [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_json(target, depth, opening, closing):
    body = opening * depth + b"1" + closing * depth
    answer = target.post("/v2/models/floats/infer", body)
    assert 400 <= answer.status < 600 and "error" in answer.json()
    answer = target.post("/v2/models/floats/infer", b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,1],"data":' + body + b"}]}")
    assert 400 <= answer.status < 600


@pytest.mark.parametrize("shape", [[2 ** 62, 4], [2 ** 32, 2 ** 32], [2 ** 63 - 1, 1], [8, 2 ** 61], [0, 2 ** 63 - 1], [-1, 2], [-1, -2],
                                   [1, -1], [2 ** 64, 1], [1] * 100_000, [1.5, 2], ["1", 2], [None], [], [[1, 2]]])
def test_shapes_that_overflow_or_lie(target, shape):
    for model in ("floats", "every"):
        answer = target.post(f"/v2/models/{model}/infer", body_of(shape=shape))
        assert 400 <= answer.status < 600 and "error" in answer.json()
        tensor = {"name": "INPUT0", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": 8}}
        head = json.dumps({"inputs": [tensor]}).encode()
        answer = target.post(f"/v2/models/{model}/infer", head + b"\0" * 8, {"Inference-Header-Content-Length": str(len(head))})
        assert 400 <= answer.status < 600


@pytest.mark.parametrize("size", [-1, -8, 2 ** 63, 2 ** 64 - 8, 2 ** 40, 7, 9, 1.5, "8", None, True])
def test_binary_sizes_that_lie(target, size):
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [tensor]}).encode()
    answer = target.post("/v2/models/floats/infer", head + b"\0" * 8, {"Inference-Header-Content-Length": str(len(head))})
    assert 400 <= answer.status < 600


@pytest.mark.parametrize("length", ["-1", "99999999999999999999", "1000", "1e3", " ", "0x10"])
def test_header_length_that_lies(target, length):
    answer = target.post("/v2/models/floats/infer", body_of(), {"Inference-Header-Content-Length": length})
    assert 400 <= answer.status < 600


@pytest.mark.parametrize("lengths", [[2 ** 32 - 1], [100], [3, 2 ** 31], [0xFFFFFFF0, 0xFFFFFFF0]])
def test_texts_whose_lengths_lie(target, lengths):
    blob = b"".join(struct.pack("<I", length) + b"abc" for length in lengths)
    tensor = {"name": "INPUT13", "datatype": "BYTES", "shape": [len(lengths)], "parameters": {"binary_data_size": len(blob)}}
    head = json.dumps({"inputs": [tensor], "outputs": [{"name": "OUTPUT13"}]}).encode()
    answer = target.post("/v2/models/every/infer", head + blob, {"Inference-Header-Content-Length": str(len(head))})
    assert answer.status == 400


def test_many_tensors(target):
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [1]}
    answer = target.post("/v2/models/floats/infer", {"inputs": [tensor] * 20_000})
    assert answer.status == 400
    outputs = [{"name": "OUTPUT0"}] * 20_000
    assert target.post("/v2/models/floats/infer", {"inputs": [tensor], "outputs": outputs}).status == 400


def test_classification_of_texts(target):
    answer = target.post("/v2/models/every/infer", {
        "inputs": [{"name": "INPUT13", "datatype": "BYTES", "shape": [1], "data": ["a"]}],
        "outputs": [{"name": "OUTPUT13", "parameters": {"classification": 2 ** 31}}]})
    assert answer.status == 400


# ---- compression

@pytest.mark.parametrize("coding,pack", [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_bomb(target, coding, pack):
    """A gigabyte of spaces in a megabyte."""
    bomb = pack(b" " * (1 << 30)) if coding == "deflate" else pack(b" " * (1 << 30), 6)
    assert len(bomb) < 2 * MEBIBYTE
    answer = target.post("/v2/models/floats/infer", bomb, {"Content-Encoding": coding})
    assert answer.status in (400, 413)
    assert target.memory_bytes() < target.memory_at_start + 300 * MEBIBYTE


@pytest.mark.parametrize("harm", ["cut", "flipped", "empty", "noise", "twice", "trailing"])
def test_broken_gzip(target, harm):
    packed = gzip.compress(body_of(1000))
    body = {"cut": packed[:-9], "flipped": packed[:30] + bytes([packed[30] ^ 255]) + packed[31:], "empty": b"",
            "noise": random.Random(3).randbytes(500), "twice": packed + packed, "trailing": packed + b"junk"}[harm]
    answer = target.post("/v2/models/floats/infer", body, {"Content-Encoding": "gzip"})
    assert 400 <= answer.status < 600 and "error" in answer.json()


# ---- connections

def test_slow_clients_are_cut(models):
    """A connection that asks nothing, and one that never ends its header, do not stay; others are served."""
    models.add("floats", identity_config())
    with Server(models, "--http-idle-timeout-secs=1") as server:
        silent = socket.create_connection(("127.0.0.1", server.http), timeout=60)
        assert silent.recv(1) == b""
        silent.close()
        assert server.infer("floats", [1]).status == 200


def test_1000_idle_connections(target):
    idle = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(500) for port in (target.http, target.grpc)]
    for connection in idle[:200]:
        connection.sendall(b"POST /v2/models/floats/infer HT")
    try:
        for _ in range(20):
            assert target.infer("floats", [1, 2]).status == 200
        assert target.memory_bytes() < target.memory_at_start + 100 * MEBIBYTE
    finally:
        for connection in idle:
            connection.close()


def test_too_many_connections(models):
    models.add("floats", identity_config())
    with Server(models, "--http-max-connections=10") as server:
        first = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60)
        first.request("GET", "/v2")
        first.getresponse().read()
        crowd = [socket.create_connection(("127.0.0.1", server.http), timeout=60) for _ in range(50)]
        first.request("GET", "/v2/health/ready")  # one that is in keeps being served
        assert first.getresponse().status == 200
        for connection in crowd:
            connection.close()
        first.close()
        until(lambda: tolerant_status(server) == 200, "room again")


def tolerant_status(server):
    try:
        return server.get("/v2/health/ready").status
    except (OSError, http.client.HTTPException):
        return 0


def test_clients_that_leave_in_the_middle(target):
    body = body_of(50_000)
    request = post(f"Content-Length: {len(body)}") + body
    for cut in random.Random(1).sample(range(1, len(request)), 100):
        with socket.create_connection(("127.0.0.1", target.http)) as connection:
            connection.sendall(request[:cut])
            # Leaves with a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_clients_that_do_not_read(target):
    """Answers pile up for a client that only sends; what waits for it is bounded."""
    body = body_of(100_000)
    request = post(f"Content-Length: {len(body)}") + body
    with socket.create_connection(("127.0.0.1", target.http), timeout=2) as connection:
        try:
            for _ in range(400):
                connection.sendall(request)
        except TimeoutError:
            pass  # the server stopped reading: that is the bound
        assert target.memory_bytes() < target.memory_at_start + 150 * MEBIBYTE


# ---- HTTP/2

def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call_headers(path=b"/inference.GRPCInferenceService/ServerLive"):
    return b"".join(literal(n, v) for n, v in [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path),
                                               (b":authority", b"a"), (b"content-type", b"application/grpc"), (b"te", b"trailers")])


class H2:
    """A raw HTTP/2 client."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.grpc), timeout=60)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))
        self.received = b""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.reader.join()
        self.socket.close()

    def read(self):
        """All that comes, until the server closes."""
        try:
            while part := self.socket.recv(65536):
                self.received += part
        except OSError:
            pass

    def flood(self, piece, bytes_max=64 * MEBIBYTE, wait_s=30):
        """Sends until the server ended the connection, and says whether it did within `wait_s` of the last byte."""
        sent = 0
        try:
            while sent < bytes_max and self.reader.is_alive():
                self.socket.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
        self.reader.join(wait_s)
        return not self.reader.is_alive()

    def frames(self):
        """(kind, flags, stream, payload) of what came."""
        rest = self.received
        while len(rest) >= 9:
            size = int.from_bytes(rest[:3], "big")
            yield rest[3], rest[4], int.from_bytes(rest[5:9], "big"), rest[9:9 + size]
            rest = rest[9 + size:]

    def reason(self):
        """The error code of the last GOAWAY; None without one."""
        codes = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in self.frames() if kind == GOAWAY]
        return codes[-1] if codes else None


def test_half_a_preface(target):
    sockets = [socket.create_connection(("127.0.0.1", target.grpc), timeout=60) for _ in range(50)]
    for i, connection in enumerate(sockets):
        connection.sendall(PREFACE[:i % len(PREFACE)])
    assert target.infer("floats", [1]).status == 200
    with grpc_client.InferenceServerClient(target.grpc_address) as client:
        assert client.is_server_live()
    for connection in sockets:
        connection.close()


@pytest.mark.parametrize("opening", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + b"\0" * 100, b"\xff" * 1000,
                                     PREFACE + b"\xff" * 1000, PREFACE + frame(DATA, 0, 1, b"x" * 100)])
def test_no_http2(target, opening):
    with socket.create_connection(("127.0.0.1", target.grpc), timeout=60) as connection:
        connection.sendall(opening)
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass


def test_rapid_reset(target):
    """Streams opened and reset at once: the connection is ended, long before all were sent."""
    block = call_headers()
    streams = b"".join(frame(HEADERS, END_HEADERS, s, block) + frame(RST_STREAM, 0, s, struct.pack(">I", 8))
                       for s in range(1, 200_000, 2))
    with H2(target) as client:
        assert client.flood(streams, len(streams))
        assert client.reason() == ENHANCE_YOUR_CALM
        assert sum(kind in (HEADERS, RST_STREAM) for kind, *_ in client.frames()) < 10_000


@pytest.mark.parametrize("flood", ["ping", "settings", "empty data", "continuation"])
def test_floods_are_ended(target, flood):
    piece = {"ping": frame(PING, 0, 0, b"12345678"), "settings": frame(SETTINGS, 0, 0),
             "empty data": frame(DATA, 0, 1), "continuation": frame(CONTINUATION, 0, 1, literal(b"x-a", b"b" * 100))}[flood]
    with H2(target) as client:
        if flood in ("empty data", "continuation"):
            client.socket.sendall(frame(HEADERS, END_HEADERS if flood == "empty data" else 0, 1, call_headers()))
        assert client.flood(piece * 1000)
        assert client.reason() != 0


@pytest.mark.parametrize("piece", [frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)), frame(2, 0, 3, b"\0\0\0\0\x10")])
def test_floods_that_cost_nothing(target, piece):
    with H2(target) as client:
        client.flood(piece * 1000, 8 * MEBIBYTE, wait_s=0)


def test_huge_grpc_message_is_not_believed(target):
    """A length of two gigabytes, and then only a byte: nothing is set aside for it."""
    for length in (2 ** 31 - 1, 2 ** 32 - 1):
        with H2(target) as client:
            client.socket.sendall(frame(HEADERS, END_HEADERS, 1, call_headers(b"/inference.GRPCInferenceService/ModelInfer"))
                                  + frame(DATA, 0, 1, b"\0" + struct.pack(">I", length) + b"x"))
            assert target.infer("floats", [1]).status == 200
            assert target.memory_bytes() < target.memory_at_start + 150 * MEBIBYTE


@pytest.mark.parametrize("payload", [b"", b"\0", b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f", b"\x2a\x80", b"\x0a\x06floats" + b"\x2a\x00" * 5000])
def test_broken_messages(target, payload):
    import grpc
    with grpc.insecure_channel(target.grpc_address) as channel:
        for method in ("ModelInfer", "ModelMetadata", "RepositoryIndex", "ModelConfig", "ServerLive"):
            call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
            try:
                call(payload, timeout=30)
            except grpc.RpcError as error:
                assert error.code() not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED), (method, error)


def test_random_bytes_on_each_door(target):
    rng = random.Random(11)
    for port in (target.http, target.grpc, target.metrics):
        for _ in range(100):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                prefix = rng.choice([b"", b"GET ", b"POST /v2/models/floats/infer HTTP/1.1\r\n", PREFACE])
                connection.sendall(prefix + rng.randbytes(rng.randrange(1, 2000)))


def test_all_of_it_while_others_work(target):
    """A good client beside many bad ones gets each of its answers."""
    stop, wrong, count = threading.Event(), [], [0]

    def good():
        while not stop.is_set():
            answer = target.infer("floats", [3, 4])
            count[0] += 1
            if answer.status != 200 or answer.json()["outputs"][0]["data"] != [3, 4]:
                wrong.append(answer)

    thread = threading.Thread(target=good)
    thread.start()
    try:
        for round_number in range(3):
            test_clients_that_leave_in_the_middle(target)
            test_random_bytes_on_each_door(target)
            test_deep_json(target, 10_000, b"[", b"]")
            test_broken_gzip(target, "cut")
    finally:
        stop.set()
        thread.join()
    assert not wrong and count[0] > 10


def test_control_paths_write_nothing_outside(target, tmp_path):
    for name in ("../../etc/x", "..%2f..%2fx", "a/../../x", "%00"):
        answer = target.post(f"/v2/repository/models/{name}/load", {"parameters": {}})
        assert answer.status >= 400
    answer = target.post("/v2/logging", {"log_file": str(tmp_path / "log")})
    assert answer.status >= 400 and not os.path.exists(tmp_path / "log")
