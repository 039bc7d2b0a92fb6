"""Statistics and metrics of a server, and how much they changed over some steps. Times are left out: they differ every time."""

import json
import re
import time

from .http_wire import Connection

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SETTLE_S = 3.0


def get(address, target, timeout_s=10):
    connection = Connection(address, timeout_s)
    try:
        connection.send(f"GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        return connection.read("GET", timeout_s)
    finally:
        connection.close()


def parse_metrics(text):
    """(samples {(family, labels) → value}, types {family → type}) of an exposition text."""
    samples, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")[:4]
            types[family] = kind
        elif line and not line.startswith("#"):
            found = _SAMPLE.match(line)
            if found:
                labels = tuple(sorted(_LABEL.findall(found[2] or "")))
                samples[(found[1], labels)] = float(found[3])
    return samples, types


def read_metrics(address):
    return parse_metrics(get(address, "/metrics").body.decode())


def families(address, patterns):
    """Type and sets of label names per family whose name matches one of the patterns."""
    samples, types = read_metrics(address)
    result = {}
    for family, kind in types.items():
        if any(re.fullmatch(p, family) for p in patterns):
            labels = {tuple(k for k, _ in pairs) for (name, pairs) in samples if name == family}
            result[family] = {"type": kind, "labels": sorted(map(list, labels))}
    return result


def samples_of(address, patterns, model):
    """Samples of a model as {family{labels}: value}, by patterns of family names."""
    samples, _ = read_metrics(address)
    result = {}
    for (family, labels), value in samples.items():
        if any(re.fullmatch(p, family) for p in patterns) and (model is None or ("model", model) in labels):
            inside = ",".join(f'{k}="{v}"' for k, v in labels)
            result[f"{family}{{{inside}}}"] = value
    return result


def read_statistics(address, model):
    """Counts of a model by version; nanoseconds and moments left out."""
    answer = get(address, f"/v2/models/{model}/stats")
    if answer.status != 200:
        return {}
    result = {}
    for stats in json.loads(answer.body)["model_stats"]:
        counts = {
            "inference_count": stats["inference_count"],
            "execution_count": stats["execution_count"],
        }
        for name, value in stats["inference_stats"].items():
            counts[f"inference_stats.{name}"] = value["count"]
        for batch in stats["batch_stats"]:
            for name in ("compute_input", "compute_infer", "compute_output"):
                counts[f"batch_stats.{batch['batch_size']}.{name}"] = batch[name]["count"]
        result[stats["version"]] = counts
    return result


def settled(read):
    """A reading that stays the same for a moment: servers may count after they answer."""
    end = time.monotonic() + _SETTLE_S
    before = read()
    while time.monotonic() < end:
        time.sleep(0.06)
        now = read()
        if now == before:
            return now
        before = now
    return before


def change(before, after):
    """after − before, of nested mappings of numbers; what did not change is left out."""
    result = {}
    for key, value in after.items():
        if isinstance(value, dict):
            inner = change(before.get(key, {}), value)
            if inner:
                result[key] = inner
        else:
            difference = value - before.get(key, 0)
            if difference:
                result[key] = int(difference) if difference == int(difference) else difference
    return result
