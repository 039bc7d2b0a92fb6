"""Counts the instructions that the server spends on one request and holds them to a committed budget.

  tools/check_instructions.py BUILD             BUILD/bin/stoker against bench/instructions.json
  tools/check_instructions.py BUILD --update    writes what it measured as the new budgets

Counting instead of timing gives the same number on a busy machine. The server runs under valgrind (cachegrind
without its cache model) on the identity model; each case is run with two numbers of requests, one at a time on
one connection, and the difference counts: start and stop cancel out. Instructions of the kernel are not seen.
A number more than 5 % above its budget fails; one more than 10 % below asks for a lower budget.
"""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUDGETS = os.path.join(ROOT, "bench", "instructions.json")
FEW, MANY = 200, 1200
MODEL = """name: "identity"
backend: "identity"
max_batch_size: 0
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""


def http_binary(ports, count):
    values = struct.pack("<16f", *range(16))
    head = json.dumps({
        "inputs": [{"name": "INPUT0", "shape": [16], "datatype": "FP32",
                    "parameters": {"binary_data_size": len(values)}}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]}).encode()
    post(ports, count, head + values, {"Inference-Header-Content-Length": str(len(head))},
         lambda body: body.endswith(values))


def http_json(ports, count):
    numbers = [i * 0.37 - 100 for i in range(1000)]
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1000], "datatype": "FP32", "data": numbers}]}).encode()

    def right(answer):
        data = json.loads(answer)["outputs"][0]["data"]
        return all(abs(a - b) < 1e-4 for a, b in zip(data, numbers, strict=True))
    post(ports, count, body, {}, right)


def http_ready(ports, count):
    connection = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=60)
    for _ in range(count):
        connection.request("GET", "/v2/health/ready")
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"readiness answered {response.status}")


def post(ports, count, body, headers, right):
    connection = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=60)
    for index in range(count):
        connection.request("POST", "/v2/models/identity/infer", body, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200 or (index == 0 and not right(answer)):
            raise RuntimeError(f"infer answered {response.status}: {answer[:300]!r}")


def grpc_infer(ports, count):
    import numpy
    import tritonclient.grpc as client
    values = numpy.arange(16, dtype=numpy.float32)
    tensor = client.InferInput("INPUT0", [16], "FP32")
    tensor.set_data_from_numpy(values)
    with client.InferenceServerClient(f"127.0.0.1:{ports[1]}") as server:
        for index in range(count):
            answer = server.infer("identity", [tensor])
            if index == 0 and not (answer.as_numpy("OUTPUT0") == values).all():
                raise RuntimeError("the identity model answered something else")


CASES = {"http-ready": http_ready, "http-binary-16-floats": http_binary, "http-json-1000-floats": http_json,
         "grpc-16-floats": grpc_infer}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_ready(server, port, log):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with {server.returncode}:\n{log.read()}")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/v2/health/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError("the server was not ready within 120 s")


def instructions(binary, repository, case, count):
    """Instructions of a server that answered `count` requests, from start to stop."""
    ports = free_ports(3)
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(
            ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", binary, "serve",
             f"--model-repository={repository}", f"--http-port={ports[0]}", f"--grpc-port={ports[1]}",
             f"--metrics-port={ports[2]}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_ready(server, ports[0], log)
            CASES[case](ports, count)
            server.send_signal(signal.SIGTERM)
            code = server.wait(timeout=60)
        finally:
            server.kill()
            server.wait()
        log.seek(0)
        text = log.read()
    found = re.search(r"I\s+refs:\s+([\d,]+)", text)
    if code != 0 or not found:
        raise RuntimeError(f"the server ended with {code}:\n{text[-2000:]}")
    return int(found.group(1).replace(",", ""))


def make_repository(folder):
    os.makedirs(os.path.join(folder, "identity", "1"))
    with open(os.path.join(folder, "identity", "config.pbtxt"), "w", encoding="utf-8") as config:
        config.write(MODEL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    binary = os.path.join(ROOT, options.build, "bin", "stoker")
    try:
        with open(BUDGETS, encoding="utf-8") as text:
            budgets = json.load(text)
    except FileNotFoundError:
        budgets = {}
    measured, failures = {}, 0
    with tempfile.TemporaryDirectory() as repository:
        make_repository(repository)
        for case in CASES:
            few = instructions(binary, repository, case, FEW)
            many = instructions(binary, repository, case, MANY)
            measured[case] = round((many - few) / (MANY - FEW))
            budget = budgets.get(case)
            verdict = "no budget" if budget is None else f"{measured[case] / budget:.3f} of its budget {budget}"
            print(f"check_instructions: {case}: {measured[case]} instructions per request, {verdict}", flush=True)
            if not options.update and (budget is None or measured[case] > budget * 1.05):
                failures += 1
            elif budget and measured[case] < budget * 0.9:
                print(f"check_instructions: {case}: better than its budget; lower it (--update)")
    if options.update:
        with open(BUDGETS, "w", encoding="utf-8") as out:
            json.dump(measured, out, indent=2)
            out.write("\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
