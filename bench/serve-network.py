"""What a server makes of a real network: light_squeezenet (ONNX) and a small perceptron, on the OpenVINO engine.

  ./dev bench serve-network --peer-command 'tritonserver --model-repository={repository} --http-port={http} ...'

Compared with OpenVINO alone (no server, same precision, same batch), with the same server without batching, and with three
configurations of the peer's openvino backend. wrk shares the cores. Last line: images/s with 32 in flight.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import urllib.request

import side_by_side as side

BATCHES = (1, 2, 4, 8, 16, 32)
IN_FLIGHT = (1, 4, 32)
INPUT_WIDTH, HIDDEN = 784, 2048

OURS = 'backend: "openvino"\nmax_batch_size: 32\n{}'
IMAGE = 'input [ {{ name: "data_0" data_type: TYPE_FP32 dims: [ {0}3, 224, 224 ] }} ]\n' \
        'output [ {{ name: "softmaxout_1" data_type: TYPE_FP32 dims: [ {0}1000, 1, 1 ] }} ]\n'
PADDED = 'parameters [ { key: "ENABLE_BATCH_PADDING" value: { string_value: "YES" } }, ' \
         '{ key: "RESHAPE_IO_LAYERS" value: { string_value: "true" } } ]\n'
# The peer: one instance on all cores, two instances of one thread each, and padded batches of eight.
PEERS = {
    "plain": ("max_batch_size: 0\ninstance_group [ { kind: KIND_CPU count: 1 } ]\n", "1, "),
    "two": ("max_batch_size: 0\ninstance_group [ { kind: KIND_CPU count: 2 } ]\n"
            'parameters [ { key: "INFERENCE_NUM_THREADS" value: { string_value: "1" } } ]\n', "1, "),
    "padded": ("max_batch_size: 8\ndynamic_batching { }\ninstance_group [ { kind: KIND_CPU count: 1 } ]\n" + PADDED, ""),
}


def add_model(repository, name, config, file, target="model.onnx"):
    os.makedirs(os.path.join(repository, name, "1"))
    with open(os.path.join(repository, name, "config.pbtxt"), "w", encoding="utf-8") as out:
        out.write(config)
    shutil.copyfile(file, os.path.join(repository, name, "1", target))


def make_perceptron(folder):
    """784 → 2048 → 2048 → 10 with random weights: bound by memory at batch 1, so that batching pays."""
    import numpy
    import openvino
    from openvino import opset13

    random = numpy.random.default_rng(1)
    x = opset13.parameter([-1, INPUT_WIDTH], numpy.float32, name="x")
    at, width = x, INPUT_WIDTH
    for out in (HIDDEN, HIDDEN, 10):
        weights = (random.random((width, out), dtype=numpy.float32) - 0.5) * 0.05
        at = opset13.relu(opset13.matmul(at, opset13.constant(weights), False, False))
        width = out
    at.output(0).set_names({"y"})
    x.output(0).set_names({"x"})
    path = os.path.join(folder, "perceptron.xml")
    openvino.save_model(openvino.Model([at], [x], "perceptron"), path, compress_to_fp16=False)
    return path


def body(folder, name, tensor, shape):
    import numpy

    data = numpy.random.default_rng(2).random(shape, dtype=numpy.float32).tobytes()
    head = json.dumps({"inputs": [{"name": tensor, "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    path = os.path.join(folder, name)
    with open(path, "wb") as out:
        out.write(head + data)
    return path, len(head)


def alone(model, seconds):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "openvino_alone.py")
    done = subprocess.run([sys.executable, program, model, str(seconds), *map(str, BATCHES)], check=True, capture_output=True, text=True)
    return {int(batch): figures for batch, figures in json.loads(done.stdout).items()}


def counts(server, model):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http}/v2/models/{model}/stats") as answer:
        stats = json.load(answer)["model_stats"][0]
    return int(stats["inference_count"]), int(stats["execution_count"])


class Contender:
    """One model of one server, to take turns with others."""

    def __init__(self, name, server, model):
        self.name, self.server, self.model, self.pid = name, server, model, server.pid

    def cpu(self):
        return self.server.cpu()


def measure(contenders, request, in_flight, arguments, folder):
    def run(contender):
        before = counts(contender.server, contender.model)
        figures = side.wrk(contender.server.http, f"/v2/models/{contender.model}/infer", *request, in_flight, arguments.seconds, folder)
        after = counts(contender.server, contender.model)
        figures["batch"] = (after[0] - before[0]) / max(1, after[1] - before[1])
        return figures

    return side.interleave(contenders, arguments.rounds, run)


def nearest(figures, batch):
    return figures[min(figures, key=lambda b: abs(b - batch))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    side.add_peer_options(parser)
    arguments = parser.parse_args()
    with side.temporary_folder() as folder:
        network = os.path.join(os.environ["STOKER_MODELS"], "light_squeezenet.onnx")
        perceptron = make_perceptron(folder)
        ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
        add_model(ours, "batched", OURS.format("dynamic_batching { }\n") + IMAGE.format(""), network)
        add_model(ours, "unbatched", OURS.format("") + IMAGE.format(""), network)
        for name, (config, leading) in PEERS.items():
            add_model(theirs, name, f'backend: "openvino"\ndefault_model_filename: "model.onnx"\n{config}{IMAGE.format(leading)}', network)
        add_model(ours, "perceptron", OURS.format("dynamic_batching { }\n"), perceptron, "model.xml")
        shutil.copyfile(perceptron[:-4] + ".bin", os.path.join(ours, "perceptron", "1", "model.bin"))
        bare = {"squeezenet": alone(network, arguments.seconds), "perceptron": alone(perceptron, arguments.seconds)}
        image = body(folder, "image", "data_0", [1, 3, 224, 224])
        row = body(folder, "row", "x", [1, INPUT_WIDTH])
        servers = []
        try:
            servers.append(side.stoker(ours))
            contenders = [Contender("batching", servers[0], "batched"), Contender("no batching", servers[0], "unbatched")]
            triton = side.peer(arguments, theirs)
            if triton:
                servers.append(triton)
                contenders += [Contender(f"triton {name}", triton, name) for name in PEERS]
            found = {n: measure(contenders, image, n, arguments, folder) for n in IN_FLIGHT}
            rows = measure([Contender("perceptron", servers[0], "perceptron")], row, 64, arguments, folder)["perceptron"]
        finally:
            for server in servers:
                server.stop()
        report(found, bare, rows, arguments)


def report(found, bare, perceptron, arguments):
    lines = [[f"batch {batch}", f["rate"], f["cpu"] * 1e3] for batch, f in bare["squeezenet"].items()]
    side.table("light_squeezenet, OpenVINO alone", lines, ["", "images/s", "CPU ms per image"])
    more = {}
    for in_flight, figures in found.items():
        lines = [[name, f["rate"], f["p50"] * 1e3, f["p99"] * 1e3, f["cpu"] * 1e3, f["batch"]] for name, f in figures.items()]
        side.table(f"light_squeezenet, {in_flight} in flight", lines, ["", "images/s", "median ms", "p99 ms", "CPU ms per image", "mean batch"])
        ours = figures["batching"]
        more[f"cpu_of_alone_{in_flight}"] = ours["cpu"] / nearest(bare["squeezenet"], ours["batch"])["cpu"]
        more[f"of_unbatched_{in_flight}"] = ours["rate"] / figures["no batching"]["rate"]
        peers = [f["rate"] for name, f in figures.items() if name.startswith("triton")]
        if peers:
            more[f"of_best_peer_{in_flight}"] = ours["rate"] / max(peers)
    gain = bare["perceptron"][32]["rate"] / bare["perceptron"][1]["rate"]
    lines = [["OpenVINO alone, batch 1", bare["perceptron"][1]["rate"]], ["OpenVINO alone, batch 32", bare["perceptron"][32]["rate"]],
             ["Stoker, 64 in flight", perceptron["rate"]]]
    side.table(f"perceptron (batch 32 gains {gain:.1f}x; mean batch {perceptron['batch']:.1f})", lines, ["", "rows/s"])
    more["perceptron_gain_alone"] = gain
    more["perceptron_of_gain"] = perceptron["rate"] / bare["perceptron"][32]["rate"]
    last = found[IN_FLIGHT[-1]]
    peers = [f["rate"] for name, f in last.items() if name.startswith("triton")]
    limit = max(f["rate"] for f in bare["squeezenet"].values())
    side.result("serve-network", last["batching"]["rate"], max(peers) if peers else None, limit, "images/s", **more)


if __name__ == "__main__":
    main()
