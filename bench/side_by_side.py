"""What the benchmarks share: servers to compare, load generators, interleaved rounds, and the table at the end.

A figure is the median of rounds in which all contenders take turns, so that a noisy machine is noisy for all of them.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get("STOKER_BIN") or os.path.join(ROOT, "build", "bin")
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def family(pid):
    """The process and all below it."""
    found, at = [pid], 0
    while at < len(found):
        try:
            with open(f"/proc/{found[at]}/task/{found[at]}/children", encoding="ascii") as text:
                found += [int(child) for child in text.read().split()]
        except OSError:
            pass
        at += 1
    return found


def cpu_seconds(pid):
    """User and system time of a process and its children so far."""
    total = 0
    for member in family(pid):
        try:
            with open(f"/proc/{member}/stat", encoding="ascii", errors="replace") as text:
                fields = text.read().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return total / TICKS


class Server:
    """A contender: something that listens. `http` and `grpc` are its ports, 0 when it has none."""

    def __init__(self, name, command=None, http=0, grpc=0, pid=0, log=None):
        self.name, self.http, self.grpc, self.pid, self.process = name, http, grpc, pid, None
        if command:
            out = open(log, "w", encoding="utf-8") if log else subprocess.DEVNULL
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
            self.pid = self.process.pid

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process and self.process.poll() is not None:
                break
            if all(self._answers(port) for port in (self.http, self.grpc) if port):
                return self
            time.sleep(0.1)
        self.stop()
        sys.exit(f"bench: {self.name} does not listen")

    def wait_ready(self, seconds=300):
        """Until the protocol's ready route says so."""
        self.wait(seconds)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                                   f"http://127.0.0.1:{self.http}/v2/health/ready"], capture_output=True, text=True)
            if done.stdout == "200":
                return self
            time.sleep(0.2)
        self.stop()
        sys.exit(f"bench: {self.name} does not become ready")

    @staticmethod
    def _answers(port):
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def cpu(self):
        return cpu_seconds(self.pid) if self.pid else float("nan")

    def stop(self):
        if not self.process or self.process.poll() is not None:
            return
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def stoker(repository, name="stoker", options=()):
    http, grpc, metrics = free_port(), free_port(), free_port()
    command = [os.path.join(BIN, "stoker"), "serve", repository, f"--http-port={http}", f"--grpc-port={grpc}",
               f"--metrics-port={metrics}", "--log-info=false", *options]
    return Server(name, command, http, grpc).wait_ready()


def add_peer_options(parser):
    parser.add_argument("--peer-command", help="starts the peer (a Triton server) in the foreground; {repository}, {http}, {grpc} and "
                                               "{metrics} are filled in")
    parser.add_argument("--peer-http", type=int, default=0, help="HTTP port of a peer that runs already and serves the same models")
    parser.add_argument("--peer-grpc", type=int, default=0, help="its gRPC port")
    parser.add_argument("--peer-pid", type=int, default=0, help="its process, for its CPU time")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds [5]")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement [3]")


def peer(arguments, repository, name="triton"):
    """The peer that was asked for, or None."""
    if arguments.peer_command:
        http, grpc, metrics = free_port(), free_port(), free_port()
        filled = arguments.peer_command.format(repository=repository, http=http, grpc=grpc, metrics=metrics)
        return Server(name, shlex.split(filled), http, grpc).wait_ready()
    if arguments.peer_http or arguments.peer_grpc:
        return Server(name, None, arguments.peer_http, arguments.peer_grpc, arguments.peer_pid)
    print("no peer: give --peer-command or --peer-http and --peer-grpc to compare with a running Triton")
    return None


def nginx(folder, workers=2):
    """nginx that answers every request with 200 and two bytes, over HTTP/1.1 and over h2c."""
    http, grpc = free_port(), free_port()
    config = os.path.join(folder, "nginx.conf")
    with open(config, "w", encoding="utf-8") as out:
        out.write(f"""worker_processes {workers}; daemon off; pid {folder}/nginx.pid; error_log /dev/null;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000000; client_max_body_size 100m;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{http}; location / {{ return 200 "ok"; }} }}
  server {{ listen 127.0.0.1:{grpc} http2; http2_max_concurrent_streams 1024; location / {{ return 200 "ok"; }} }} }}
""")
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    return Server("nginx", [program, "-c", config, "-p", folder], http, grpc).wait()


def echo(body_bytes, threads=2):
    """The floor: a bare epoll loop that reads a request of known size and writes a fixed answer."""
    http = free_port()
    return Server("epoll echo", [os.path.join(BIN, "bench_echo_epoll"), str(http), str(threads), str(body_bytes)], http).wait()


def wrk(port, path, body_file, json_bytes, connections, seconds, folder):
    """One run of wrk with one thread. {"rate": requests/s, "p50": s, "p99": s}; fails on any answer but 200."""
    script = os.path.join(folder, "post.lua")
    header = f'wrk.headers["Inference-Header-Content-Length"] = "{json_bytes}"' if json_bytes else 'wrk.headers["Content-Type"] = "application/json"'
    with open(script, "w", encoding="utf-8") as out:
        out.write(f"""local file = io.open("{body_file}", "rb"); local body = file:read("*a"); file:close()
wrk.method = "POST"; wrk.body = body
{header}
""")
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "30s", "-s", script, f"http://127.0.0.1:{port}{path}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text:
        sys.exit(f"bench: answers that are not 200 from port {port}:\n{text}")
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
    latency = {share: float(value) * units[unit] for share, value, unit in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s|m)\b", text)}
    return {"rate": float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)), "p50": latency["50"], "p99": latency["99"],
            "count": int(re.search(r"(\d+) requests in", text).group(1))}


def h2load(port, path, body_file, clients, streams, seconds):
    """One run of h2load with one thread. {"rate": requests/s, "count": requests}."""
    command = ["h2load", "-t1", f"-c{clients}", f"-m{streams}", f"-D{seconds}", "--warm-up-time=0", "-d", body_file,
               "-H", "content-type: application/grpc", "-H", "te: trailers", f"http://127.0.0.1:{port}{path}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    good, others = re.search(r"status codes: (\d+) 2xx, (.*)", text).groups()
    if re.search(r"[1-9]\d* [345]xx", others) or int(good) == 0:
        sys.exit(f"bench: answers that are not 200 from port {port}:\n{text}")
    return {"rate": float(re.search(r"finished in [\d.]+\w+, ([\d.]+) req/s", text).group(1)), "count": int(good)}


def interleave(servers, rounds, run):
    """Calls run(server) for each server in turn, `rounds` times. {name: {figure: median}}; adds the server's CPU per request."""
    found = {server.name: [] for server in servers}
    for turn in range(rounds):
        order = servers if turn % 2 == 0 else list(reversed(servers))
        for server in order:
            before = server.cpu()
            figures = run(server)
            if "count" in figures and figures["count"]:
                figures["cpu"] = (server.cpu() - before) / figures["count"]
            found[server.name].append(figures)
    return {name: {key: statistics.median(run_[key] for run_ in runs) for key in runs[0]} for name, runs in found.items()}


def table(title, rows, columns):
    """rows: [[text or number…]]."""
    print(f"\n{title}")
    texts = [list(columns)] + [[cell if isinstance(cell, str) else f"{cell:,.4g}" if abs(cell) < 1000 else f"{cell:,.0f}" for cell in row] for row in rows]
    widths = [max(len(row[c]) for row in texts) for c in range(len(columns))]
    for row in texts:
        print("  " + "  ".join(cell.ljust(width) if c == 0 else cell.rjust(width) for c, (cell, width) in enumerate(zip(row, widths))))


def result(name, ours, peer_figure, limit, unit, **more):
    """The last line: one JSON object."""
    ratio = ours / peer_figure if peer_figure else None
    print(json.dumps({"name": name, "ours": ours, "peer": peer_figure, "ratio": ratio, "limit": limit, "unit": unit, **more}))


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="stoker-bench-")


def identity_repository(folder):
    """A repository with the identity model: what comes in goes out."""
    models = os.path.join(folder, "models")
    for name, dims in (("ident", "16"), ("wide", "-1")):
        os.makedirs(os.path.join(models, name, "1"))
        with open(os.path.join(models, name, "config.pbtxt"), "w", encoding="utf-8") as out:
            out.write(f"""backend: "identity"
max_batch_size: 64
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
""")
    return models
