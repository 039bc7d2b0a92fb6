"""Starts the binary under test and talks plain HTTP to it. STOKER_BINARY names it (default build/bin/stoker)."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BINARY = os.environ.get("STOKER_BINARY", os.path.join(ROOT, "build", "bin", "stoker"))
PATIENCE_S = 60


def until(condition, what, patience_s=PATIENCE_S):
    """Asks until the condition holds and returns what it gave; fails when it does not within the patience."""
    end = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {patience_s} s: {what}"
        time.sleep(0.02)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.json()["error"]


class Server:
    """A running server; its ports are free ones. A context manager: the end stops it and wants exit code 0."""

    def __init__(self, *arguments, ready=True, environment=None, own_ports=True):
        self.folder = tempfile.TemporaryDirectory(prefix="stoker-test-")
        self.stdout_path, self.stderr_path = (os.path.join(self.folder.name, name) for name in ("out", "err"))
        self.command = [BINARY, "serve", *map(str, arguments)]
        if own_ports:
            self.command += ["--http-port=0", "--grpc-port=0", "--metrics-port=0"]
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env=dict(os.environ, **(environment or {})))
        try:
            if own_ports:
                self.http, self.grpc, self.metrics = until(self.ports, "the banner")
            if ready:
                until(lambda: self.get("/v2/health/ready").status == 200, f"ready; its log:\n{self.log()}")
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind is None:
                assert self.stop() == 0, self.log()
            else:
                self.kill()
        self.folder.cleanup()

    def ports(self):
        """Of HTTP, gRPC and metrics, out of the banner, which comes when the models were loaded."""
        assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.log()}"
        found = re.search(r"HTTP +http://\S+:(\d+)\s+gRPC +\S+:(\d+)\s+metrics +http://\S+:(\d+)/metrics", self.banner())
        return found and tuple(int(port) for port in found.groups())

    def banner(self):
        with open(self.stdout_path, encoding="utf-8") as text:
            return text.read()

    def log(self):
        with open(self.stderr_path, encoding="utf-8", errors="replace") as text:
            return text.read()

    def stop(self, patience_s=PATIENCE_S):
        """Ends it by SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still there {patience_s} s after SIGTERM:\n{self.log()}") from None

    def kill(self):
        self.process.kill()
        self.process.wait()

    @property
    def http_address(self):
        return f"127.0.0.1:{self.http}"

    @property
    def grpc_address(self):
        return f"127.0.0.1:{self.grpc}"

    def url(self, path):
        return f"http://{self.http_address}{path}"

    @contextlib.contextmanager
    def connection(self, timeout_s=PATIENCE_S):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=timeout_s)
        try:
            yield connection
        finally:
            connection.close()

    def ask(self, method, path, body=None, headers=None, port=None):
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", port or self.http, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.ask("GET", path, headers=headers)

    def post(self, path, body=None, headers=None):
        return self.ask("POST", path, body, headers)

    def infer(self, model, data, datatype="FP32", shape=None, name="INPUT0", **fields):
        """One JSON inference of one tensor; the answer, whatever its status."""
        tensor = {"name": name, "datatype": datatype, "shape": list(shape or [1, len(data)]), "data": list(data)}
        return self.post(f"/v2/models/{model}/infer", {"inputs": [tensor], **fields})

    def load(self, model, **parameters):
        return self.post(f"/v2/repository/models/{model}/load", {"parameters": parameters} if parameters else None)

    def unload(self, model):
        return self.post(f"/v2/repository/models/{model}/unload")

    def is_ready(self, model, version=None):
        path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "") + "/ready"
        return self.get(path).status == 200

    def index(self):
        return {(entry["name"], entry.get("version")): entry for entry in self.post("/v2/repository/index").json()}

    def statistics(self, model):
        (entry,) = self.get(f"/v2/models/{model}/stats").json()["model_stats"]
        return entry

    def metrics_text(self, accept=None):
        answer = self.ask("GET", "/metrics", headers={"Accept": accept} if accept else {}, port=self.metrics)
        assert answer.status == 200
        return answer.body.decode()

    def memory_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024
