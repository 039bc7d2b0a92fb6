"""Start, options, banner, exit codes; what SIGTERM does to requests, connections and readiness."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from model_files import identity_config, onnx_affine
from stoker_server import BINARY, Server, until


def run(*arguments, patience_s=60):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=patience_s, check=False)


def waiting(server, model):
    return int(re.search(rf'nv_inference_pending_request_count{{model="{model}".*}} (\d+)', server.metrics_text()).group(1))


@pytest.fixture
def slow(models):
    """Half a second for each request, one at a time."""
    models.add("slow", identity_config(batch=1, delay_ms=500, extra="instance_group { count: 1 }\n"))
    models.add("floats", identity_config())
    return models


# ---- options and start

@pytest.mark.parametrize("arguments,fragment", [
    (["serve", "--nonsense"], "--nonsense"), (["serve", "--http-port"], "--http-port"),
    (["serve", "--http-port=99999", "."], "--http-port"), (["serve", "-x"], "-x"), (["serve"], "nothing to serve"),
    (["serve", "/does/not/exist"], "/does/not/exist"), (["serve", "--log-format=xml", "."], "--log-format"),
    (["serve", ".", "--model-control-mode=sometimes"], "--model-control-mode"), (["bake"], "bake"),
    (["serve", ".", "--load-model=a"], "--model-control-mode"), (["serve", ".", "--grpc-use-ssl=true"], "--grpc-use-ssl"),
    (["serve", ".", "--http-restricted-api=health:a=b"], "--http-restricted-api")])
def test_wrong_arguments(arguments, fragment):
    done = run(*arguments)
    assert done.returncode == 2
    assert fragment in done.stderr


def test_help_and_version():
    done = run("serve", "--help")
    assert done.returncode == 0 and "--model-repository" in done.stdout
    done = run("--version")
    assert done.returncode == 0 and re.search(r"\d+\.\d+", done.stdout)


@pytest.mark.parametrize("option", ["http", "grpc", "metrics"])
def test_busy_port_names_its_option(models, option):
    models.add("floats", identity_config())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = [f"--{name}-port={port if name == option else 0}" for name in ("http", "grpc", "metrics")]
        done = run("serve", str(models), *ports)
    assert done.returncode == 1
    assert f"--{option}-port" in done.stderr and str(port) in done.stderr


def test_options_without_effect_warn(models):
    models.add("floats", identity_config())
    with Server(models, "--pinned-memory-pool-byte-size=1024", "--allow-gpu-metrics=false",
                "--http-thread-count", "4") as server:
        for name in ("--pinned-memory-pool-byte-size", "--http-thread-count"):
            assert name in server.log()


def test_banner(models):
    models.add("floats", identity_config(extra="dynamic_batching { max_queue_delay_microseconds: 2000 }\n"
                                               "instance_group { count: 3 }\n"))
    with Server(models) as server:
        banner = server.banner()
        assert f"serves 1 model from {models}" in banner
        assert re.search(rf"\b{len(os.sched_getaffinity(0))} cores?, [\d.]+ .iB of memory", banner) or "cores" in banner
        (line,) = [line for line in banner.splitlines() if line.strip().startswith("floats")]
        assert "identity" in line and "3 instances" in line and re.search(r"batch|up to 8", line)
        assert "127.0.0.1" in banner  # the short form is local


def test_long_form_listens_on_all_addresses(models):
    models.add("floats", identity_config())
    with Server(f"--model-repository={models}") as server:
        assert f"http://0.0.0.0:{server.http}" in server.banner()
    with Server(f"--model-repository={models}", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1") as server:
        assert "0.0.0.0" not in server.banner()


def test_single_model_file(tmp_path):
    (tmp_path / "affine.onnx").write_bytes(onnx_affine())
    with Server(tmp_path / "affine.onnx") as server:
        assert server.is_ready("affine")
        answer = server.infer("affine", [1, 2, 3, 4], name="x")
        assert answer.json()["outputs"][0]["data"] == [3, 5, 7, 9]
        model = server.get("/v2/models/affine").json()
        assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]


def test_no_config_at_all(models):
    models.add("bare", file=("model.onnx", onnx_affine()))
    with Server(models) as server:
        answer = server.infer("bare", [1, 2, 3, 4] * 3, shape=[3, 4], name="x")
        assert answer.json()["outputs"][0]["data"] == [3, 5, 7, 9] * 3
        assert server.get("/v2/models/bare/config").json()["max_batch_size"] > 0


@pytest.mark.parametrize("format_name", ["default", "ISO8601", "json"])
def test_log_formats(models, format_name, tmp_path):
    models.add("floats", identity_config())
    log = tmp_path / "log"
    with Server(models, f"--log-format={format_name}", f"--log-file={log}", "--access-log=true") as server:
        server.infer("floats", [1])
    lines = log.read_text().splitlines()
    assert len(lines) >= 2
    pattern = {"default": r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ .+", "ISO8601": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ .+"}
    for line in lines:
        if format_name == "json":
            assert {"@timestamp", "level", "message"} <= json.loads(line).keys()
        else:
            assert re.fullmatch(pattern[format_name], line), line
    assert any("/v2/models/floats/infer" in line for line in lines)


def test_access_log_is_off_by_default(models):
    models.add("floats", identity_config())
    with Server(models) as server:
        server.infer("floats", [1])
        assert "/infer" not in server.log()


def test_doors_that_are_off(models):
    models.add("floats", identity_config())
    server = Server(models, "--allow-grpc=false", "--allow-metrics=false", "--http-port=0", own_ports=False, ready=False)
    try:
        until(lambda: "HTTP" in server.banner(), "the banner")
        assert "gRPC" not in server.banner() and "metrics" not in server.banner()
        assert server.stop() == 0
    finally:
        server.kill()


# ---- the end

class Request:
    """A JSON inference on a connection of its own, which stays open."""

    def __init__(self, server, model="slow"):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60)
        body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [4]}]})
        self.connection.request("POST", f"/v2/models/{model}/infer", body)

    def answer(self):
        response = self.connection.getresponse()
        return response.status, response.read(), response.headers

    def is_closed(self):
        self.connection.sock.settimeout(60)
        return self.connection.sock.recv(1) == b""


def test_sigterm_answers_what_runs(slow):
    with Server(slow) as server:
        idle = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60)
        idle.request("GET", "/v2/health/ready")
        assert idle.getresponse().read() == b""
        requests = [Request(server) for _ in range(3)]
        until(lambda: waiting(server, "slow") == 2, "one runs, two wait")
        watcher = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60)
        watcher.request("GET", "/v2/health/ready")
        assert watcher.getresponse().read() == b""
        server.process.send_signal(signal.SIGTERM)
        for request in requests:
            status, body, headers = request.answer()
            assert status == 200 and json.loads(body)["outputs"][0]["data"] == [4]
            assert headers.get("Connection", "").lower() == "close"
        assert server.process.wait(60) == 0
        assert idle.sock is None or idle.sock.recv(1) == b""


def test_readiness_drops_first(slow):
    """While requests still run: not ready, but live; a new request is told that the server is going."""
    with Server(slow) as server:
        requests = [Request(server) for _ in range(4)]
        until(lambda: waiting(server, "slow") == 3, "one runs, three wait")
        with grpc.insecure_channel(server.grpc_address) as channel:
            stub = grpc_client.service_pb2_grpc.GRPCInferenceServiceStub(channel)
            assert stub.ServerReady(grpc_client.service_pb2.ServerReadyRequest()).ready
            server.process.send_signal(signal.SIGTERM)
            seen = []

            def dropped():
                try:
                    seen.append(server.get("/v2/health/ready").status)
                except OSError:
                    seen.append("closed")  # no new connections
                return seen[-1] != 200

            until(dropped, "not ready")
            assert server.process.poll() is None  # not since it ended
        for request in requests:
            assert request.answer()[0] == 200
        assert server.process.wait(60) == 0


def test_grpc_calls_in_flight_are_answered(slow):
    with Server(slow) as server:
        client = grpc_client.InferenceServerClient(server.grpc_address)
        done, answers = threading.Event(), []

        def take(result, error):
            answers.append((result, error))
            if len(answers) == 3:
                done.set()

        tensor = grpc_client.InferInput("INPUT0", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.full((1, 1), 4, np.float32))
        for _ in range(3):
            client.async_infer("slow", [tensor], take)
        until(lambda: waiting(server, "slow") == 2, "one runs, two wait")
        server.process.send_signal(signal.SIGTERM)
        assert done.wait(60)
        for result, error in answers:
            assert error is None and result.as_numpy("OUTPUT0").tolist() == [[4]]
        client.close()
        assert server.process.wait(60) == 0


def test_keep_alive_connections_do_not_hold_it_up(models):
    models.add("floats", identity_config())
    with Server(models) as server:
        idle = []
        for _ in range(20):
            connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60)
            connection.request("GET", "/v2")
            connection.getresponse().read()
            idle.append(connection)
        never_asked = [socket.create_connection(("127.0.0.1", port)) for port in (server.http, server.grpc, server.metrics)]
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0  # far below the grace of 30 s
        for connection in (*idle, *never_asked):
            connection.close()


def test_second_signal_ends_at_once(models):
    models.add("slow", identity_config(batch=1, delay_ms=60_000))
    with Server(models) as server:
        request = Request(server)
        until(lambda: server.is_ready("slow"), "ready")
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "shutting down" in server.log(), "the first signal")
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        server.process.wait(30)
        assert time.monotonic() - started < 25  # neither the minute of the request nor the grace
        request.connection.close()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_idle_server_ends_with_zero(models, ending):
    models.add("floats", identity_config())
    with Server(models) as server:
        server.process.send_signal(ending)
        assert server.process.wait(30) == 0


@pytest.mark.parametrize("grace_s", [0, 1])
def test_grace_is_bounded(models, grace_s):
    """What does not finish in time is refused, so that its client may ask elsewhere."""
    models.add("slow", identity_config(batch=1, delay_ms=60_000, extra="instance_group { count: 1 }\n"))
    with Server(models, f"--exit-timeout-secs={grace_s}") as server:
        requests = [Request(server) for _ in range(2)]
        until(lambda: waiting(server, "slow") == 1, "one runs, one waits")
        server.process.send_signal(signal.SIGTERM)
        for request in requests:
            status, body, _ = request.answer()
            assert status == 503 and "stopping" in json.loads(body)["error"]
        assert server.process.wait(30) == 0, server.log()


def test_ending_while_models_load(models):
    models.add("slow_to_load", identity_config(delay_ms=60_000, extra="""model_warmup { name: "w" batch_size: 1
  inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }
"""))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(models, f"--http-port={port}", "--grpc-port=0", "--metrics-port=0", own_ports=False, ready=False)
    server.http = port

    def is_live():
        try:
            return server.get("/v2/health/live").status == 200
        except OSError:
            assert server.process.poll() is None, server.log()
            return False

    try:
        until(is_live, "live")
        assert server.get("/v2/health/ready").status == 400  # it loads
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    finally:
        server.kill()
