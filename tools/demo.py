"""Serves trained models and asks them real questions.

  ./dev demo            builds, serves, asks, compares with onnxruntime, measures; leaves the server up
  ./dev demo --check    the same, then stops the server; exit code 1 when an answer is wrong

The models: magika (which kind of file is this?), silero-vad (is this speech?) and light_squeezenet (constant weights:
good for measuring speed, not for answers). Everything is written below build/demo.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEMO = os.path.join(ROOT, "build", "demo")
REPOSITORY = os.path.join(DEMO, "models")
PID_FILE = os.path.join(DEMO, "server.pid")
LOG_FILE = os.path.join(DEMO, "server.log")
STOKER = os.path.join(ROOT, "build", "bin", "stoker")
PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
START_SECONDS = 120
TOLERANCE = 1e-4

MAGIKA_CONFIG = """# Which kind of file is this? Rows of 2048 tokens: the first and last 1024 bytes.
backend: "onnxruntime"
max_batch_size: 64
input [ { name: "bytes" data_type: TYPE_INT32 dims: [ 2048 ] } ]
output [ { name: "target_label" data_type: TYPE_FP32 dims: [ 214 ] label_filename: "labels.txt" } ]
dynamic_batching { }
"""
VAD_CONFIG = """# Is this speech? 36 ms of sound, and the state that the chunk before left. OpenVINO wants fixed shapes here.
backend: "onnxruntime"
max_batch_size: 0
input [
  { name: "input" data_type: TYPE_FP32 dims: [ 1, 576 ] },
  { name: "state" data_type: TYPE_FP32 dims: [ 2, 1, 128 ] },
  { name: "sr" data_type: TYPE_INT64 dims: [ 1 ] reshape { shape: [ ] } }
]
"""
SQUEEZENET_CONFIG = """# A network for load. Its weights are constants, so only its speed says something.
backend: "onnxruntime"
max_batch_size: 32
input [ { name: "data_0" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
output [ { name: "softmaxout_1" data_type: TYPE_FP32 dims: [ 1000, 1, 1 ] } ]
dynamic_batching { }
"""


def say(text=""):
    print(text, flush=True)


def step(text):
    say(f"\n== {text}")


def models_folder():
    return os.environ["STOKER_MODELS"]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def make_repository():
    """A repository as Triton takes it."""
    shutil.rmtree(REPOSITORY, ignore_errors=True)
    for model, file, config in (
        ("magika", "magika.onnx", MAGIKA_CONFIG),
        ("silero_vad", "silero_vad_16k_op15.onnx", VAD_CONFIG),
        ("squeezenet", "light_squeezenet.onnx", SQUEEZENET_CONFIG),
    ):
        folder = os.path.join(REPOSITORY, model, "1")
        os.makedirs(folder)
        shutil.copyfile(os.path.join(models_folder(), file), os.path.join(folder, "model.onnx"))
        write(os.path.join(REPOSITORY, model, "config.pbtxt"), config)
    write(os.path.join(REPOSITORY, "magika", "labels.txt"), "\n".join(magika_settings()["target_labels_space"]) + "\n")


def magika_settings():
    with open(os.path.join(models_folder(), "magika_config.json"), encoding="utf-8") as text:
        return json.load(text)


def port_is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_ports():
    """Triton's ports, or the first three free ones beyond them."""
    offset = 0
    while not all(port_is_free(port + offset) for port in PORTS.values()):
        offset += 10
        if offset > 20000:
            sys.exit("demo: no three free ports between 8000 and 28000")
    if offset:
        say(f"ports {', '.join(map(str, PORTS.values()))} are taken: using {', '.join(str(p + offset) for p in PORTS.values())}")
    return {name: port + offset for name, port in PORTS.items()}


def stop_earlier_server():
    """A server that an earlier demo left up, when it still is that server."""
    try:
        with open(PID_FILE, encoding="utf-8") as text:
            pid = int(text.read())
        if os.readlink(f"/proc/{pid}/exe") not in (STOKER, STOKER + " (deleted)"):
            return
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError):
        return
    say(f"stopping the server that an earlier demo left up (pid {pid})")
    for _ in range(600):
        if not os.path.exists(f"/proc/{pid}"):
            return
        time.sleep(0.05)


class Server:
    def __init__(self, ports):
        self.ports = ports
        self.command = [STOKER, "serve", REPOSITORY] + [f"--{name}-port={port}" for name, port in ports.items()]
        self.log = open(LOG_FILE, "w", encoding="utf-8")
        # A session of its own: Ctrl-C reaches this script alone, which then stops the server.
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        start_new_session=True)
        write(PID_FILE, str(self.process.pid))

    def url(self, path):
        return f"http://127.0.0.1:{self.ports['http']}{path}"

    def wait_until_ready(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            if curl_status(self.url("/v2/health/ready")) == "200":
                return
            time.sleep(0.05)
        with open(LOG_FILE, encoding="utf-8") as text:
            sys.exit("demo: the server is not ready; it said:\n" + text.read())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        os.unlink(PID_FILE)
        return code


def curl(*arguments):
    return subprocess.run(["curl", "-sS", *arguments], check=True, capture_output=True, text=True).stdout


def curl_status(url):
    done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url], capture_output=True, text=True)
    return done.stdout


def file_tokens(path, settings):
    """magika's input: the first and last 1024 bytes of the stripped content, padded with 256."""
    with open(path, "rb") as data:
        content = data.read()
    block = settings["block_size"]
    begin = content[:block].lstrip()[: settings["beg_size"]]
    end = content[-block:].rstrip()[-settings["end_size"]:]
    pad = settings["padding_token"]
    head = list(begin) + [pad] * (settings["beg_size"] - len(begin))
    tail = [pad] * (settings["end_size"] - len(end)) + list(end)
    return head + tail


class Demo:
    """The questions. Imports of the clients wait until here so that --help needs nothing."""

    def __init__(self, server):
        import numpy
        import onnxruntime

        self.np = numpy
        self.ort = onnxruntime
        self.server = server
        self.wrong = []

    def reference(self, file, feeds):
        options = self.ort.SessionOptions()
        options.log_severity_level = 3
        session = self.ort.InferenceSession(os.path.join(models_folder(), file), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    def compare(self, what, ours, theirs):
        difference = float(self.np.max(self.np.abs(self.np.asarray(ours) - self.np.asarray(theirs))))
        good = difference <= TOLERANCE
        say(f"   {what}: largest difference to onnxruntime {difference:.1e} {'(equal enough)' if good else 'WRONG'}")
        if not good:
            self.wrong.append(what)

    def show_curl(self):
        step("curl: what is served")
        for path in ("/v2", "/v2/models/silero_vad"):
            say(f"$ curl {self.server.url(path)}")
            say(curl(self.server.url(path)))

    def kinds_of_files(self):
        step("magika by tritonclient (HTTP, binary): which kind of file is this?")
        import tritonclient.http as client

        settings = magika_settings()
        names = ["README.md", "dev", "CMakeLists.txt", "tools/demo.py", "src/base/status.cc", "build/bin/stoker"]
        rows = self.np.array([file_tokens(os.path.join(ROOT, name), settings) for name in names], dtype=self.np.int32)
        with client.InferenceServerClient(f"127.0.0.1:{self.server.ports['http']}") as server:
            tensor = client.InferInput("bytes", list(rows.shape), "INT32")
            tensor.set_data_from_numpy(rows)
            scores = server.infer("magika", [tensor]).as_numpy("target_label")
            best = server.infer("magika", [tensor], outputs=[client.InferRequestedOutput("target_label", class_count=1)])
        for name, entry in zip(names, best.as_numpy("target_label").flatten()):
            score, _, label = entry.decode().split(":")
            say(f"   {name:24} {label:12} {float(score):.3f}")
        self.compare("magika", scores, self.reference("magika.onnx", {"bytes": rows})[0])

    def sound(self):
        """Half a second of silence, then a buzz with the formants of an open vowel. 16 kHz."""
        t = self.np.arange(16000) / 16000.0
        buzz = sum(self.np.sin(2 * self.np.pi * 120 * k * t) / k * self.np.exp(-((120 * k - 700) / 500.0) ** 2) for k in range(1, 30))
        return self.np.concatenate([self.np.zeros(8000), 0.6 * buzz]).astype(self.np.float32)

    def speech(self):
        step("silero-vad by tritonclient (gRPC): is this speech? The state of each chunk goes into the next")
        import tritonclient.grpc as client

        wave, size = self.sound(), 576
        state = self.np.zeros((2, 1, 128), self.np.float32)
        expected_state = state
        rate = self.np.array([16000], self.np.int64)
        ours, theirs = [], []
        with client.InferenceServerClient(f"127.0.0.1:{self.server.ports['grpc']}") as server:
            for start in range(0, len(wave) - size, size):
                chunk = wave[start:start + size].reshape(1, size)
                inputs = []
                for name, value in (("input", chunk), ("state", state), ("sr", rate)):
                    inputs.append(client.InferInput(name, list(value.shape), "INT64" if name == "sr" else "FP32"))
                    inputs[-1].set_data_from_numpy(value)
                answer = server.infer("silero_vad", inputs)
                state = answer.as_numpy("stateN")
                ours.append(answer.as_numpy("output")[0, 0])
                feeds = {"input": chunk, "state": expected_state, "sr": self.np.array(16000, self.np.int64)}
                probability, expected_state = self.reference_vad(feeds)
                theirs.append(probability[0, 0])
        say("   chance of speech, 36 ms apart: " + " ".join(f"{p:.2f}" for p in ours[::4]))
        self.compare("silero-vad", ours, theirs)

    def reference_vad(self, feeds):
        if not hasattr(self, "vad"):
            self.vad = self.ort.InferenceSession(os.path.join(models_folder(), "silero_vad_16k_op15.onnx"),
                                                 providers=["CPUExecutionProvider"])
        return self.vad.run(None, feeds)

    def json_by_curl(self):
        step("magika by curl (JSON): this script, best three")
        tokens = file_tokens(os.path.abspath(__file__), magika_settings())
        body = {"inputs": [{"name": "bytes", "shape": [1, 2048], "datatype": "INT32", "data": tokens}],
                "outputs": [{"name": "target_label", "parameters": {"classification": 3}}]}
        write(os.path.join(DEMO, "request.json"), json.dumps(body))
        answer = curl("-d", "@" + os.path.join(DEMO, "request.json"), self.server.url("/v2/models/magika/infer"))
        say("   " + answer)
        if ":python" not in answer:
            self.wrong.append("classification by curl")

    def load(self, in_flight, seconds=2.0):
        """Sends images from `in_flight` threads; prints latency and what the batches were."""
        import tritonclient.http as client

        image = self.np.random.default_rng(7).random((1, 3, 224, 224), dtype=self.np.float32)
        before = self.batches()
        times, lock = [], threading.Lock()
        end = time.monotonic() + seconds

        def caller():
            tensor = client.InferInput("data_0", [1, 3, 224, 224], "FP32")
            tensor.set_data_from_numpy(image)
            outputs = [client.InferRequestedOutput("softmaxout_1", binary_data=True)]
            with client.InferenceServerClient(f"127.0.0.1:{self.server.ports['http']}") as server:
                while time.monotonic() < end:
                    start = time.monotonic()
                    server.infer("squeezenet", [tensor], outputs=outputs)
                    with lock:
                        times.append(time.monotonic() - start)

        threads = [threading.Thread(target=caller) for _ in range(in_flight)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.sort()
        sizes = {size: count - before.get(size, 0) for size, count in self.batches().items() if count > before.get(size, 0)}
        shown = ", ".join(f"{size}×{count}" for size, count in sorted(sizes.items()))
        say(f"   {in_flight:3} in flight: {len(times) / seconds:7.1f} images/s, median {times[len(times) // 2] * 1e3:6.1f} ms, "
            f"p99 {times[int(len(times) * 0.99)] * 1e3:6.1f} ms; batch size×runs: {shown}")

    def batches(self):
        stats = json.loads(curl(self.server.url("/v2/models/squeezenet/stats")))["model_stats"][0]
        return {entry["batch_size"]: entry["compute_infer"]["count"] for entry in stats["batch_stats"]}

    def metrics(self):
        step("metrics (a part)")
        text = curl(f"http://127.0.0.1:{self.server.ports['metrics']}/metrics")
        for line in text.splitlines():
            if line.startswith(("nv_inference_count", "nv_inference_exec_count", "nv_inference_request_success")):
                say("   " + line)

    def run(self):
        self.show_curl()
        self.kinds_of_files()
        self.json_by_curl()
        self.speech()
        step("squeezenet under load (HTTP, binary; the Python client takes its share of the cores)")
        for in_flight in (1, 4, 32):
            self.load(in_flight)
        self.metrics()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="stop the server at the end")
    arguments = parser.parse_args()
    os.makedirs(DEMO, exist_ok=True)
    stop_earlier_server()
    step(f"a model repository: {os.path.relpath(REPOSITORY, ROOT)}")
    make_repository()
    server = Server(choose_ports())
    demo = None
    finished = False
    try:
        step("stoker " + " ".join(server.command[1:]).replace(ROOT + "/", ""))
        server.wait_until_ready()
        with open(LOG_FILE, encoding="utf-8") as text:
            say(text.read().rstrip())
        demo = Demo(server)
        demo.run()
        finished = True
    except KeyboardInterrupt:
        say("\ninterrupted: stopping the server")
        return 130
    finally:
        if arguments.check or not finished:
            code = server.stop()
            say(f"\nserver stopped with exit code {code}")
            if code != 0 and demo is not None:
                demo.wrong.append(f"exit code {code} of the server")
    if demo.wrong:
        say("WRONG: " + ", ".join(demo.wrong))
        return 1
    say("\nall answers equal onnxruntime's")
    if not arguments.check:
        say(f"""
The server is still up (pid {server.process.pid}, log {os.path.relpath(LOG_FILE, ROOT)}). Try:

  curl {server.url('/v2/models/magika/infer')} -d @build/demo/request.json
  curl http://127.0.0.1:{server.ports['metrics']}/metrics
  kill {server.process.pid}""")
    return 0


if __name__ == "__main__":
    sys.exit(main())
