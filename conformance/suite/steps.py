"""Runs the steps of a case against a server and returns their answers in recorded form."""

import os
import pathlib
import shutil
import threading
import time

from . import capture, gauges, grpc_wire
from .http_wire import Closed, Connection
from .payload import compact_json, to_bytes

_TIMEOUT_S = 15.0


class Target:
    """Addresses of the server under test, and its repository folder where it is known."""

    def __init__(self, http, grpc, metrics, repository=None):
        self.http = http
        self.grpc = grpc
        self.metrics = metrics
        self.repository = repository
        self._client = None
        self._lock = threading.Lock()

    def client(self):
        with self._lock:
            if self._client is None:
                self._client = grpc_wire.Client(self.grpc)
            return self._client

    def close(self):
        if self._client is not None:
            self._client.close()
            self._client = None


def _request_body(step):
    """(body, extra headers) of an HTTP step."""
    if "infer" in step:
        head = to_bytes({"json": step["infer"]["json"]}) if "json" in step["infer"] else to_bytes(step["infer"]["head"])
        return head + to_bytes(step["infer"].get("data")), {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(len(head)),
        }
    if "json" in step:
        return compact_json(step["json"]).encode(), {"Content-Type": "application/json"}
    return to_bytes(step.get("body")), {}


def request_bytes(step, address):
    """The exact bytes of a structured HTTP request."""
    method, target = step.get("http", step.get("metrics")).split(" ", 1)
    body, extra = _request_body(step)
    headers = {"Host": address, **extra}
    framing = step.get("framing", "length" if method not in ("GET", "HEAD") or body else "none")
    if framing == "chunked":
        size = step.get("chunk_bytes", max(1, len(body)))
        body = to_bytes({"chunks": [body[i:i + size] for i in range(0, len(body), size)]})
        headers["Transfer-Encoding"] = "chunked"
    elif framing == "length":
        headers["Content-Length"] = str(len(body))
    for name, value in step.get("headers", {}).items():
        headers = {k: v for k, v in headers.items() if k.lower() != name.lower()}
        if value is not None:
            headers[name] = str(value)
    head = f"{method} {target} {step.get('version', 'HTTP/1.1')}\r\n"
    head += "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    return head.encode() + b"\r\n" + body


def _failed(error):
    if isinstance(error, Closed):
        return {"closed": True}
    if isinstance(error, TimeoutError):
        return {"timed_out": True}
    return {"unreachable": str(error)}


def _run_http(step, target):
    address = target.metrics if "metrics" in step else target.http
    timeout_s = step.get("timeout_ms", _TIMEOUT_S * 1000) / 1000
    try:
        connection = Connection(address, timeout_s)
    except OSError as error:
        return _failed(error)
    try:
        connection.send(request_bytes(step, address))
        method = step.get("http", step.get("metrics")).split(" ", 1)[0]
        return capture.http(connection.read(method, timeout_s))
    except (Closed, TimeoutError, OSError) as error:
        return _failed(error)
    finally:
        connection.close()


def _wire_part(part, address):
    if isinstance(part, dict) and "http" in part:
        return request_bytes(part, address)
    if isinstance(part, dict) and set(part) == {"together"}:
        return b"".join(_wire_part(p, address) for p in part["together"])
    if isinstance(part, dict) and set(part) == {"lines"}:
        return "".join(line + "\r\n" for line in part["lines"]).replace("{host}", address).encode()
    return to_bytes(part)


def _run_wire(step, target):
    """Sends exact bytes on one connection; collects answers until so many came, the end, or the time limit."""
    wire = step["wire"]
    timeout_s = wire.get("timeout_ms", 2000) / 1000
    answers = []
    result = {"answers": answers}
    try:
        connection = Connection(target.http, timeout_s)
    except OSError as error:
        return _failed(error)
    try:
        for part in wire["send"]:
            if isinstance(part, dict) and "pause_ms" in part:
                time.sleep(part["pause_ms"] / 1000)
            elif isinstance(part, dict) and "read" in part:
                answers.append(capture.http(connection.read(part["read"], timeout_s)))
            elif part == "half-close":
                connection.half_close()
            else:
                connection.send(_wire_part(part, target.http))
        while len(answers) < wire.get("answers", 1):
            answers.append(capture.http(connection.read(wire.get("method", "POST"), timeout_s)))
        if wire.get("closes"):
            connection.read("GET", timeout_s)
    except Closed:
        result["closed"] = True
    except (TimeoutError, OSError):
        result["closed"] = False
    finally:
        connection.close()
    return result


def _metadata(step):
    return [(k, str(v)) for k, v in step.get("metadata", {}).items()]


def _run_grpc(step, target):
    method = step["grpc"]
    answer = target.client().unary(
        method, step.get("message"), _metadata(step), step.get("timeout_ms", _TIMEOUT_S * 1000) / 1000,
        grpc_wire.compression_of(step.get("compression")),
    )
    return capture.grpc(answer, method)


def _run_stream(step, target):
    return capture.stream(target.client().stream(step["stream"], _metadata(step), _TIMEOUT_S))


def _run_parallel(step, target):
    """Runs steps at once, each after its own delay; answers in the order of the list. order: who finished when."""
    answers = [None] * len(step["parallel"])
    finished = []

    def one(index, inner):
        time.sleep(inner.get("after_ms", 0) / 1000)
        answers[index] = run_step(inner, target)
        finished.append(index)

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(step["parallel"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"parallel": answers, "finished": finished} if step.get("order") else {"parallel": answers}


def _reading(spec, target):
    reading = {}
    if "statistics" in spec:
        reading["statistics"] = {m: gauges.read_statistics(target.http, m) for m in spec["statistics"]}
    if "samples" in spec:
        reading["samples"] = gauges.samples_of(target.metrics, spec["samples"], spec.get("model"))
    return reading


def _run_change(step, target):
    spec = step["change"]
    before = gauges.settled(lambda: _reading(spec, target))
    answers = [run_step(inner, target) for inner in spec["steps"]]
    after = gauges.settled(lambda: _reading(spec, target))
    return {"steps": answers, "change": gauges.change(before, after)}


def _run_until(step, target):
    """Repeats a step until its answer has the wanted status, at most so long."""
    spec = step["until"]
    end = time.monotonic() + spec.get("at_most_ms", 10000) / 1000
    while True:
        answer = run_step(spec["step"], target)
        if answer.get("status", answer.get("code")) == spec["status"] or time.monotonic() > end:
            return answer
        time.sleep(0.05)


def _run_files(step, target):
    """Changes files of the repository; only where the suite itself started the server on a copy."""
    root = pathlib.Path(target.repository)
    for action in step["files"]:
        (kind, value), = action.items()
        if kind == "write":
            path = root / value["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(to_bytes(value.get("content", "")))
        elif kind == "make":
            (root / value).mkdir(parents=True)
        elif kind == "remove":
            shutil.rmtree(root / value)
        elif kind == "touch":
            os.utime(root / value)
        else:
            raise ValueError(f"unknown file action '{kind}'")
    return {}


_KINDS = {
    "http": _run_http, "metrics": _run_http, "wire": _run_wire, "grpc": _run_grpc, "stream": _run_stream,
    "parallel": _run_parallel, "change": _run_change, "until": _run_until, "files": _run_files,
}


def kind_of(step):
    found = [k for k in (*_KINDS, "families", "samples", "sleep_ms") if k in step]
    if len(found) != 1:
        raise ValueError(f"a step has exactly one of {sorted(_KINDS)}, families, samples, sleep_ms; got {found}")
    return found[0]


def run_step(step, target):
    """Answer of one step."""
    kind = kind_of(step)
    if kind == "sleep_ms":
        time.sleep(step["sleep_ms"] / 1000)
        return {}
    if kind == "samples":
        spec = step["samples"]
        return {"samples": gauges.samples_of(target.metrics, spec["names"], spec.get("model"))}
    if kind == "families":
        return {"families": gauges.families(target.metrics, step["families"])}
    return _KINDS[kind](step, target)


def run_case(case, target):
    """Answers of all steps of a case, in order."""
    return [run_step(step, target) for step in case.steps]
