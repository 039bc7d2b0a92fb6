"""What the server itself costs over gRPC: unary ModelInfer of the identity model.

  ./dev bench serve-identity-grpc --peer-command 'tritonserver --model-repository={repository} --grpc-port={grpc} ...'
  ./dev bench serve-identity-grpc --peer-http 8000 --peer-grpc 8001 --peer-pid 4711 [--perf-analyzer PROGRAM]

The load is h2load with a framed body, since clients that are written for convenience are the limit themselves;
--perf-analyzer adds such a one. nginx over h2c shows the limit. Last line: requests/s, 4 connections x 16 calls.
"""

import argparse
import os
import re
import shlex
import struct
import subprocess

import side_by_side as side

PATH = "/inference.GRPCInferenceService/ModelInfer"


def framed_request(folder):
    """A ModelInferRequest of 16 floats behind gRPC's five bytes, made by the real client's messages."""
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferRequest(model_name="ident")
    message.inputs.add(name="INPUT0", datatype="FP32", shape=[1, 16])
    message.raw_input_contents.append(struct.pack("<16f", *range(16)))
    data = message.SerializeToString()
    path = os.path.join(folder, "request")
    with open(path, "wb") as out:
        out.write(struct.pack(">BI", 0, len(data)) + data)
    return path


def check_answer(server):
    """h2load cannot see a call's status: one real call makes sure that the answers are right."""
    import numpy
    from tritonclient import grpc

    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
        tensor = grpc.InferInput("INPUT0", [1, 16], "FP32")
        values = numpy.arange(16, dtype=numpy.float32).reshape(1, 16)
        tensor.set_data_from_numpy(values)
        answer = client.infer("ident", [tensor]).as_numpy("OUTPUT0")
    if not numpy.array_equal(answer, values):
        raise SystemExit(f"bench: {server.name} answers wrongly: {answer}")


def perf_analyzer(program, server, seconds):
    command = shlex.split(program) + ["-m", "ident", "-u", f"127.0.0.1:{server.grpc}", "-i", "grpc", "--concurrency-range", "16", "-a",
                                      "--measurement-interval", str(seconds * 1000), "--max-trials", "3", "--stability-percentage", "50"]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    return {"rate": float(re.search(r"throughput: ([\d.]+) infer/sec", text).group(1))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    side.add_peer_options(parser)
    parser.add_argument("--perf-analyzer", help="the program, to measure with it too")
    arguments = parser.parse_args()
    with side.temporary_folder() as folder:
        repository = side.identity_repository(folder)
        body = framed_request(folder)
        servers = []
        try:
            servers.append(side.stoker(repository))
            triton = side.peer(arguments, repository)
            servers += [triton] if triton else []
            for server in servers:
                check_answer(server)
            models = list(servers)
            servers.append(side.nginx(folder))
            figures = {}
            for streams in (1, 16):
                figures[streams] = side.interleave(servers, arguments.rounds, lambda server: side.h2load(server.grpc, PATH, body, 4, streams, arguments.seconds))
            analysed = {}
            if arguments.perf_analyzer:
                analysed = side.interleave(models, 3, lambda server: perf_analyzer(arguments.perf_analyzer, server, arguments.seconds))
        finally:
            for server in servers:
                server.stop()
        report(figures, analysed)


def report(figures, analysed):
    for streams, found in figures.items():
        rows = [[name, f["rate"], f.get("cpu", 0) * 1e6] for name, f in found.items()]
        side.table(f"identity, ModelInfer, 4 connections x {streams} in flight", rows, ["", "requests/s", "server CPU us"])
    if analysed:
        side.table("identity by perf_analyzer, concurrency 16", [[name, f["rate"]] for name, f in analysed.items()], ["", "infer/s"])
    best = figures[16]
    ours, triton = best["stoker"], best.get("triton")
    more = {"of_nginx": ours["rate"] / best["nginx"]["rate"], "of_nginx_1": figures[1]["stoker"]["rate"] / figures[1]["nginx"]["rate"]}
    if triton:
        more["ratio_1"] = figures[1]["stoker"]["rate"] / figures[1]["triton"]["rate"]
        more["cpu_ratio"] = ours["cpu"] / triton["cpu"]
    if "triton" in analysed:
        more["perf_analyzer_ratio"] = analysed["stoker"]["rate"] / analysed["triton"]["rate"]
    side.result("serve-identity-grpc", ours["rate"], triton["rate"] if triton else None, best["nginx"]["rate"], "requests/s", **more)


if __name__ == "__main__":
    main()
