"""perf_analyzer, unmodified: it ends well, and what it counted is what the server counted. STOKER_PERF_ANALYZER is the command."""

import os
import re
import shlex
import subprocess

import pytest

from model_files import Repository, identity_config
from stoker_server import Server

COMMAND = shlex.split(os.environ.get("STOKER_PERF_ANALYZER", ""))
pytestmark = pytest.mark.skipif(not COMMAND, reason="STOKER_PERF_ANALYZER is not set")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    models = Repository(tmp_path_factory.mktemp("measured") / "models")
    models.add("vector", identity_config(dims="16", extra="dynamic_batching { }\n"))
    models.add("text", identity_config("BYTES", dims="1"))
    with Server(models) as server:
        yield server


def analyze(server, model, protocol, *options):
    """Its output, once it ended with 0. Any scatter counts as stable: this is no measurement of speed."""
    address = server.http_address if protocol == "http" else server.grpc_address
    done = subprocess.run([*COMMAND, "-m", model, "-i", protocol, "-u", address, "-s", "999", *options],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def counts(output):
    """(what the client says, what it read from the server's statistics)."""
    return (int(re.search(r"Request count: (\d+)", output).group(1)),
            int(re.search(r"Successful request count: (\d+)", output).group(1)))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("load", [["--concurrency-range", "4"], ["--concurrency-range", "1", "-b", "4"], ["--request-rate-range", "100"]])
def test_counts_match(measured, protocol, load):
    before = measured.statistics("vector")["inference_stats"]["success"]["count"]
    output = analyze(measured, "vector", protocol, *load, "--request-count", "200")
    by_client, by_server = counts(output)
    sent = measured.statistics("vector")["inference_stats"]["success"]["count"] - before
    assert by_client == 200
    # The server's own numbers, as read by the client around its window: requests at the edges fall on either side.
    assert abs(by_server - by_client) <= 8
    assert sent >= by_client


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_windows_of_time(measured, protocol):
    by_client, by_server = counts(analyze(measured, "vector", protocol, "--concurrency-range", "2", "-p", "300"))
    assert by_client > 0 and abs(by_server - by_client) <= 0.05 * by_client + 8


def test_stream(measured):
    output = analyze(measured, "vector", "grpc", "--streaming", "--concurrency-range", "2", "--request-count", "200")
    assert counts(output)[0] == 200


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_texts(measured, protocol):
    assert counts(analyze(measured, "text", protocol, "--request-count", "100", "--string-length", "20"))[0] == 100


def test_reads_the_metrics(measured):
    output = analyze(measured, "vector", "http", "--concurrency-range", "1", "-p", "300", "--collect-metrics",
                     "--metrics-url", f"127.0.0.1:{measured.metrics}/metrics", "--metrics-interval", "100")
    assert counts(output)[0] > 0
