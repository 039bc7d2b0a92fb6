"""curl: JSON, chunked uploads, Expect, gzip, HTTP/1.0, methods."""

import gzip
import json
import subprocess

import pytest


def curl(*arguments, body=None):
    """(status, headers in lower case, body) of one request."""
    done = subprocess.run(["curl", "-sS", "--max-time", "60", "-D", "-", *arguments], input=body, capture_output=True,
                          check=True)
    rest = done.stdout
    status, headers = 100, {}
    while status == 100:
        head, rest = rest.split(b"\r\n\r\n", 1)
        first, *lines = head.decode().split("\r\n")
        status = int(first.split()[1])
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    return status, headers, rest


def request(elements):
    return json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, elements], "datatype": "FP32",
                                   "data": [i % 100 for i in range(elements)]}]}).encode()


def values(body):
    return json.loads(body)["outputs"][0]["data"]


INFER = "/v2/models/floats/infer"


def test_json(server):
    status, headers, body = curl(server.url(INFER), "-d", request(3).decode())
    assert status == 200 and headers["content-type"] == "application/json"
    assert json.loads(body) == {"model_name": "floats", "model_version": "1", "outputs": [
        {"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 3], "data": [0.0, 1.0, 2.0]}]}


@pytest.mark.parametrize("elements", [1, 10_000, 300_000])
@pytest.mark.parametrize("framing", [[], ["-H", "Transfer-Encoding: chunked"],
                                     ["-H", "Expect: 100-continue"],
                                     ["-H", "Expect: 100-continue", "-H", "Transfer-Encoding: chunked"]])
def test_framing(server, framing, elements):
    status, _, body = curl(server.url(INFER), "--data-binary", "@-", *framing, body=request(elements))
    assert status == 200
    assert values(body) == [i % 100 for i in range(elements)]


def test_chunked_upload_from_a_pipe(server):
    status, _, body = curl(server.url(INFER), "-X", "POST", "-T", "-", body=request(50_000))
    assert status == 200 and len(values(body)) == 50_000


def test_expect_is_answered_before_the_body(server):
    done = subprocess.run(["curl", "-sSv", "-o", "/dev/null", "--expect100-timeout", "50", "--max-time", "45",
                           "-H", "Expect: 100-continue", "--data-binary", "@-", server.url(INFER)],
                          input=request(100), capture_output=True, check=True)
    assert b"100 Continue" in done.stderr


def test_gzip_both_ways(server):
    packed = gzip.compress(request(10_000))
    status, headers, body = curl(server.url(INFER), "--data-binary", "@-", "-H", "Content-Encoding: gzip",
                                 "-H", "Accept-Encoding: gzip", body=packed)
    assert status == 200 and headers["content-encoding"] == "gzip"
    assert len(values(gzip.decompress(body))) == 10_000
    status, _, body = curl("--compressed", server.url(INFER), "--data-binary", "@-", body=request(5))
    assert status == 200 and values(body) == [0, 1, 2, 3, 4]


def test_unknown_coding_is_refused(server):
    status, headers, body = curl(server.url(INFER), "--data-binary", "@-", "-H", "Content-Encoding: br", body=b"x")
    assert status == 501 and "gzip" in headers["accept-encoding"] and "error" in json.loads(body)


def test_http_1_0(server):
    status, headers, body = curl("--http1.0", server.url(INFER), "-d", request(2).decode())
    assert status == 200 and values(body) == [0, 1]
    assert "transfer-encoding" not in headers
    status, _, _ = curl("--http1.0", server.url("/v2/health/ready"))
    assert status == 200


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "DELETE", "PUT", "PATCH"])
@pytest.mark.parametrize("path", ["/v2", "/v2/health/ready", "/v2/models/floats", INFER])
def test_other_methods_are_405(server, method, path):
    arguments = ["--head", "-o", "/dev/null"] if method == "HEAD" else ["-X", method]
    status, _, body = curl(*arguments, server.url(path))
    assert status == 405
    if method != "HEAD":
        assert json.loads(body) == {"error": "Method Not Allowed"}


def test_unknown_path_is_404(server):
    status, _, body = curl(server.url("/v2/nothing"))
    assert status == 404 and json.loads(body) == {"error": "Not Found"}


def test_two_requests_on_one_connection(server):
    done = subprocess.run(["curl", "-sSv", "--max-time", "60", server.url("/v2"), server.url("/v2/health/live")],
                          capture_output=True, check=True)
    assert b"Re-using existing connection" in done.stderr


def test_disconnect_is_survived(server):
    done = subprocess.run(["curl", "-sS", "--max-time", "0.05", "-d", request(1).decode(),
                           server.url("/v2/models/slow_alone/infer")], capture_output=True, check=False)
    assert done.returncode == 28
    assert curl(server.url(INFER), "-d", request(2).decode())[0] == 200
