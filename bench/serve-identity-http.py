"""What the server itself costs over HTTP: the identity model with binary and JSON tensors.

  ./dev bench serve-identity-http --peer-command 'tritonserver --model-repository={repository} --http-port={http} ...'
  ./dev bench serve-identity-http --peer-http 8000 --peer-pid 4711

Beside Stoker and the peer run nginx (return 200) and a bare epoll echo: the limit of this machine and load generator. One
thread of wrk shares the cores with the server. Last line: requests/s with binary tensors on 64 connections.
"""

import argparse
import json
import os
import random
import struct

import side_by_side as side

BINARY_JSON = b'{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32","parameters":{"binary_data_size":64}}],' \
              b'"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]}'
INFER = "/v2/models/{}/infer"


def bodies(folder):
    binary = os.path.join(folder, "binary")
    with open(binary, "wb") as out:
        out.write(BINARY_JSON + struct.pack("<16f", *range(16)))
    text = os.path.join(folder, "json")
    numbers = [struct.unpack("f", struct.pack("f", random.Random(1).uniform(-10, 10)))[0] for _ in range(1000)]
    with open(text, "w", encoding="ascii") as out:
        json.dump({"inputs": [{"name": "INPUT0", "shape": [1, 1000], "datatype": "FP32", "data": numbers}]}, out)
    return binary, text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    side.add_peer_options(parser)
    arguments = parser.parse_args()
    with side.temporary_folder() as folder:
        repository = side.identity_repository(folder)
        binary, text = bodies(folder)
        servers = []
        try:
            ours = side.stoker(repository)
            servers.append(ours)
            triton = side.peer(arguments, repository)
            servers += [triton] if triton else []
            floor = [side.nginx(folder), side.echo(os.path.getsize(binary))]
            servers += floor

            def run(connections, model, body, json_bytes):
                return lambda server: side.wrk(server.http, INFER.format(model), body, json_bytes, connections, arguments.seconds, folder)

            models = [server for server in servers if server not in floor]
            many = side.interleave(servers, arguments.rounds, run(64, "ident", binary, len(BINARY_JSON)))
            one = side.interleave(servers, arguments.rounds, run(1, "ident", binary, len(BINARY_JSON)))
            floats = side.interleave(models, arguments.rounds, run(16, "wide", text, 0))
        finally:
            for server in servers:
                server.stop()
        report(many, one, floats)


def report(many, one, floats):
    rows = [[name, f["rate"], f["p50"] * 1e6, f["p99"] * 1e6, f.get("cpu", 0) * 1e6] for name, f in many.items()]
    side.table("identity, binary, 64 connections", rows, ["", "requests/s", "median us", "p99 us", "server CPU us"])
    rows = [[name, f["p50"] * 1e6, f["p99"] * 1e6] for name, f in one.items()]
    side.table("identity, binary, 1 connection", rows, ["", "median us", "p99 us"])
    rows = [[name, f["rate"], f["p99"] * 1e6, f.get("cpu", 0) * 1e6] for name, f in floats.items()]
    side.table("identity, JSON, 1000 floats in and out, 16 connections", rows, ["", "requests/s", "p99 us", "server CPU us"])
    ours = many["stoker"]
    more = {"of_nginx": ours["rate"] / many["nginx"]["rate"], "of_echo": ours["rate"] / many["epoll echo"]["rate"]}
    triton = many.get("triton")
    if triton:
        echo = one["epoll echo"]["p50"]
        more["p99_ratio"] = ours["p99"] / triton["p99"]
        more["json_ratio"] = floats["stoker"]["rate"] / floats["triton"]["rate"]
        more["added_latency_ratio"] = (one["stoker"]["p50"] - echo) / (one["triton"]["p50"] - echo)
    side.result("serve-identity-http", ours["rate"], triton["rate"] if triton else None, many["epoll echo"]["rate"], "requests/s", **more)


if __name__ == "__main__":
    main()
