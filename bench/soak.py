"""Does memory stay flat? A model is loaded and unloaded again and again while others answer a large number of requests.

  ./dev soak                                   200 load/unload cycles, a million requests: some minutes
  ./dev soak --cycles 20 --requests 50000      the short form of the tests
  ./dev soak --minutes 120                     repeats until then

Fails (exit code 1) when a request fails, or when the mean resident memory of the last third of the run is more than the given
share above that of the middle third.
"""

import argparse
import os
import shutil
import statistics
import struct
import subprocess
import sys
import time
import urllib.request

import side_by_side as side

HEAD = b'{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32","parameters":{"binary_data_size":64}}]}'


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def control(server, action):
    url = f"http://127.0.0.1:{server.http}/v2/repository/models/network/{action}"
    with urllib.request.urlopen(urllib.request.Request(url, b"", method="POST"), timeout=120) as answer:
        if answer.status != 200:
            raise SystemExit(f"soak: {action} was answered with {answer.status}")


def burst(server, body, count, folder):
    """Sends about `count` requests over 32 connections."""
    seconds = 1
    sent = 0
    while sent < count:
        sent += side.wrk(server.http, "/v2/models/ident/infer", body, len(HEAD), 32, seconds, folder)["count"]
    return sent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=0, help="go on until then")
    parser.add_argument("--growth", type=float, default=0.01, help="largest share of growth [0.01]")
    parser.add_argument("--model", help="ONNX file to load and unload [light_squeezenet.onnx]")
    arguments = parser.parse_args()
    model = arguments.model or os.path.join(os.environ["STOKER_MODELS"], "light_squeezenet.onnx")
    with side.temporary_folder() as folder:
        repository = side.identity_repository(folder)
        os.makedirs(os.path.join(repository, "network", "1"))
        shutil.copyfile(model, os.path.join(repository, "network", "1", "model.onnx"))
        body = os.path.join(folder, "body")
        with open(body, "wb") as out:
            out.write(HEAD + struct.pack("<16f", *range(16)))
        server = side.stoker(repository, options=["--model-control-mode=explicit", "--load-model=ident", "--load-model=wide"])
        try:
            samples, sent = run(server, body, arguments, folder)
        finally:
            server.stop()
        code = server.process.returncode
    third = len(samples) // 3
    middle, last = statistics.fmean(samples[third:2 * third]), statistics.fmean(samples[2 * third:])
    growth = last / middle - 1
    print(f"{len(samples)} cycles, {sent} requests: resident {middle / 2**20:.1f} MiB in the middle third, {last / 2**20:.1f} MiB in "
          f"the last ({growth:+.2%}, at most {arguments.growth:+.2%}); server ended with {code}")
    return 0 if growth <= arguments.growth and code == 0 else 1


def run(server, body, arguments, folder):
    samples, sent, end = [], 0, time.monotonic() + arguments.minutes * 60
    share = arguments.requests // arguments.cycles
    owed = 0
    while len(samples) < arguments.cycles or time.monotonic() < end:
        control(server, "load")
        control(server, "unload")
        owed += share
        if owed > 20000:
            sent += burst(server, body, owed, folder)
            owed = 0
        samples.append(resident(server.pid))
        if len(samples) % 20 == 0:
            print(f"  {len(samples)} cycles, {sent} requests, {samples[-1] / 2**20:.1f} MiB", flush=True)
    return samples, sent + (burst(server, body, owed, folder) if owed else 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"soak: {error}")
