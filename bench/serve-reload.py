"""Does reloading one model hurt another? light_resnet50 is reloaded again and again while light_squeezenet serves an open-loop
load at 30 % of its capacity.

  ./dev bench serve-reload --peer-command 'tritonserver --model-control-mode=explicit --load-model=* --model-repository={repository} ...'

Last line: p99 in ms while reloading; limit is the quiet p99.
"""

import argparse
import json
import os
import shutil
import time
import urllib.request

import open_loop
import side_by_side as side

TENSORS = 'input [ {{ name: "{0}" data_type: TYPE_FP32 dims: [ {2}3, 224, 224 ] }} ]\noutput [ {{ name: "{1}" data_type: TYPE_FP32 dims: [ {3} ] }} ]\n'


def add_model(repository, name, file, names, output):
    models = os.environ["STOKER_MODELS"]
    os.makedirs(os.path.join(repository, name, "1"))
    shutil.copyfile(os.path.join(models, file), os.path.join(repository, name, "1", "model.onnx"))
    with open(os.path.join(repository, name, "config.pbtxt"), "w", encoding="utf-8") as out:
        out.write('backend: "openvino"\ndefault_model_filename: "model.onnx"\nmax_batch_size: 0\n' + TENSORS.format(*names, "1, ", output) +
                  "instance_group [ { kind: KIND_CPU count: 1 } ]\n")


def post(server, path, body=b""):
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{server.http}{path}", body, method="POST"), timeout=120) as answer:
        return answer.status


def tensor_names(file):
    import openvino

    model = openvino.Core().read_model(os.path.join(os.environ["STOKER_MODELS"], file))
    return model.input(0).get_any_name(), model.output(0).get_any_name(), list(model.output(0).shape)


def measure(server, repository, body, json_bytes, rate, arguments):
    path = "/v2/models/squeezenet/infer"
    model = os.path.join(repository, "resnet50", "1", "model.onnx")
    with open_loop.OpenLoop(server.http, path, body, json_bytes, rate) as load:
        time.sleep(arguments.quiet_seconds)
        quiet_end = time.perf_counter()
        for _ in range(arguments.reloads):
            os.utime(model)
            post(server, "/v2/repository/models/resnet50/load")
        busy_end = time.perf_counter()
        time.sleep(1)
    quiet = [latency for due, latency in load.samples if due < quiet_end]
    busy = [latency for due, latency in load.samples if quiet_end <= due < busy_end]
    return {"quiet": open_loop.percentile(quiet, 0.99), "busy": open_loop.percentile(busy, 0.99), "failures": len(load.failures),
            "requests": len(load.samples), "reload_s": (busy_end - quiet_end) / arguments.reloads, "first_failures": load.failures[:3]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    side.add_peer_options(parser)
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--quiet-seconds", type=float, default=15)
    arguments = parser.parse_args()
    import numpy

    with side.temporary_folder() as folder:
        repository = os.path.join(folder, "models")
        for name in ("squeezenet", "resnet50"):
            first, last, shape = tensor_names(f"light_{name}.onnx")
            add_model(repository, name, f"light_{name}.onnx", (first, last), ", ".join(map(str, shape)))
            if name == "squeezenet":
                data = numpy.random.default_rng(2).random((1, 3, 224, 224), dtype=numpy.float32).tobytes()
                head = json.dumps({"inputs": [{"name": first, "shape": [1, 3, 224, 224], "datatype": "FP32",
                                               "parameters": {"binary_data_size": len(data)}}],
                                   "parameters": {"binary_data_output": True}}).encode()
        image = os.path.join(folder, "image")
        with open(image, "wb") as out:
            out.write(head + data)
        found = {}
        for name in ("stoker", "triton"):  # one after the other: each needs the machine to itself while idle models still hold threads
            if name == "stoker":
                server = side.stoker(repository, options=["--model-control-mode=explicit", "--load-model=*"])
            else:
                server = side.peer(arguments, repository)
            if not server:
                continue
            try:
                capacity = side.wrk(server.http, "/v2/models/squeezenet/infer", image, len(head), 4, arguments.seconds, folder)["rate"]
                found[name] = measure(server, repository, head + data, len(head), 0.3 * capacity, arguments)
                found[name]["capacity"] = capacity
            finally:
                server.stop()
    rows = [[n, f["capacity"], f["quiet"] * 1e3, f["busy"] * 1e3, f["reload_s"], f["requests"], f["failures"]] for n, f in found.items()]
    side.table("light_squeezenet at 30 % while light_resnet50 reloads", rows,
               ["", "capacity/s", "quiet p99 ms", "p99 ms while reloading", "s per reload", "requests", "failed"])
    ours, theirs = found["stoker"], found.get("triton")
    for fault in ours["first_failures"]:
        print("failed:", fault)
    side.result("serve-reload", ours["busy"] * 1e3, theirs["busy"] * 1e3 if theirs else None, ours["quiet"] * 1e3, "ms p99",
                of_quiet=ours["busy"] / ours["quiet"], failed=ours["failures"])


if __name__ == "__main__":
    main()
