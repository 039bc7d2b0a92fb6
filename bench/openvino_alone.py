"""OpenVINO without any server: images/s and CPU per image of a model by batch size, as JSON. Run as a process of its own.

  openvino_alone.py MODEL SECONDS BATCH [BATCH...]
"""

import json
import sys
import time

import numpy
import openvino


def measure(core, path, batch, seconds):
    model = core.read_model(path)
    shape = model.input(0).get_partial_shape()
    shape[0] = batch
    model.reshape({model.input(0): shape})
    # Plain settings, the best that one synchronous caller gets: all cores, the precision that OpenVINO chooses for the
    # processor, as models of the openvino backend get it from both servers.
    compiled = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    data = numpy.random.default_rng(1).random(tuple(compiled.input(0).shape), dtype=numpy.float32)
    tensor = openvino.Tensor(data)
    request.set_input_tensor(tensor)
    for _ in range(3):
        request.infer()
    runs, start, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        request.infer()
        runs += 1
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"rate": runs * batch / wall, "cpu": cpu / (runs * batch)}


def main():
    core = openvino.Core()
    path, seconds, batches = sys.argv[1], float(sys.argv[2]), [int(text) for text in sys.argv[3:]]
    print(json.dumps({batch: measure(core, path, batch, seconds) for batch in batches}))


if __name__ == "__main__":
    main()
