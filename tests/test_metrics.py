"""The metrics page: both formats by three parsers and a real Prometheus, and numbers that add up."""

import collections
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from model_files import Repository, identity_config
from stoker_server import Server, until

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)')
PROMQL_WAIT_S = 60


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A server whose requests are all made here."""
    models = Repository(tmp_path_factory.mktemp("metrics") / "models")
    models.add("plain", identity_config(extra='metric_tags { key: "team" value: "a\\"b" }\n'))
    models.add("queued", identity_config(batch=1, delay_ms=100, extra="""instance_group [ { count: 1 } ]
dynamic_batching { default_queue_policy { max_queue_size: 2 default_timeout_microseconds: 20000000 allow_timeout_override: true } }
"""))
    models.add("faulty", """backend: "stoker_fake"
max_batch_size: 4
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
parameters { key: "stoker.fail_every" value { string_value: "1" } }
""")
    with Server(models) as server:
        yield server


def samples(text):
    """Series -> value; fails at a line that is neither comment nor sample, and at a series that comes twice."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        series = (name, tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))))
        assert series not in found, f"twice: {line}"
        found[series] = float(value)
    return found


def value(server, name, model, **labels):
    series = samples(server.metrics_text())
    (found,) = [v for (n, l), v in series.items()
                if n == name and dict(l).get("model") == model and labels.items() <= dict(l).items()]
    return found


def test_text_format(counted):
    answer = counted.ask("GET", "/metrics", port=counted.metrics)
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.body.decode()
    assert text.endswith("\n") and "\r" not in text
    series = samples(text)
    parsed = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert len(parsed) == len(series)
    families = re.findall(r"^# TYPE (\S+)", text, re.M)
    assert len(families) == len(set(families))


def test_openmetrics_format(counted):
    answer = counted.ask("GET", "/metrics", headers={"Accept": OPENMETRICS}, port=counted.metrics)
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    text = answer.body.decode()
    assert text.endswith("# EOF\n")
    families = list(openmetrics.text_string_to_metric_families(text))
    assert len([s for family in families for s in family.samples]) == len(samples(text))


def test_same_series_in_both_formats(counted):
    plain = samples(counted.metrics_text())
    assert set(plain) == set(samples(counted.metrics_text(OPENMETRICS)))


def test_promtool(counted):
    """It reads the text format only."""
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("no promtool")
    done = subprocess.run([promtool, "check", "metrics"], input=counted.metrics_text(), text=True,
                          capture_output=True, check=False)
    # 1: does not parse; 3: parses, with remarks on names, which are Triton's.
    assert done.returncode in (0, 3), done.stderr
    for remark in done.stderr.splitlines():
        assert remark.startswith("nv_"), remark


def test_histograms_are_cumulative(counted):
    counted.infer("plain", [1])
    buckets = collections.defaultdict(list)
    series = samples(counted.metrics_text())
    for (name, labels), count in series.items():
        if name.endswith("_bucket"):
            rest = tuple(label for label in labels if label[0] != "le")
            buckets[name[:-7], rest].append((float(dict(labels)["le"]), count))
    assert buckets
    for (name, labels), steps in buckets.items():
        assert steps == sorted(steps) and [c for _, c in steps] == sorted(c for _, c in steps)
        assert steps[-1] == (float("inf"), series[name + "_count", labels])


def test_tags_become_labels(counted):
    line = [line for line in counted.metrics_text().splitlines() if line.startswith('nv_inference_count{model="plain"')]
    assert len(line) == 1 and r'_team="a\"b"' in line[0]


def test_counts_are_exact(counted):
    names = ("nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count",
             "nv_inference_request_duration_us")
    before = [value(counted, name, "plain") for name in names]
    for rows in [1, 2, 3] * 20:
        assert counted.infer("plain", [0] * rows * 2, shape=[rows, 2]).status == 200
    for _ in range(5):  # refused before they reach the model: counted nowhere
        assert counted.infer("plain", [1], datatype="FP64").status == 400
    after = [value(counted, name, "plain") for name in names]
    assert [b - a for a, b in zip(before[:3], after[:3])] == [60, 120, 60]
    assert after[3] > before[3]
    statistics = counted.statistics("plain")
    assert [statistics["inference_stats"]["success"]["count"], statistics["inference_count"],
            statistics["execution_count"]] == after[:3]
    for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
        assert value(counted, "nv_inference_request_failure", "plain", reason=reason) == 0


def test_failures_by_reason(counted):
    def failures():
        return {reason: value(counted, "nv_inference_request_failure", "queued", reason=reason)
                for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER")}

    before = failures()
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(counted.infer("queued", [1]).status)) for _ in range(3)]
    threads[0].start()
    threads[1].start()
    threads[2].start()
    until(lambda: value(counted, "nv_inference_pending_request_count", "queued") == 2, "two are waiting")
    full = counted.infer("queued", [1])
    assert full.status == 503 and "Exceeds maximum queue size" in full.error()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 3
    until(lambda: value(counted, "nv_inference_pending_request_count", "queued") == 0, "nobody waits")
    assert failures() == {**before, "REJECTED": before["REJECTED"] + 1}


def test_timeout_counts_as_rejected(counted):
    before = value(counted, "nv_inference_request_failure", "queued", reason="REJECTED")
    runners = [threading.Thread(target=counted.infer, args=("queued", [1])) for _ in range(2)]
    for runner in runners:
        runner.start()
    until(lambda: value(counted, "nv_inference_pending_request_count", "queued") == 1, "one runs, one waits")
    late = counted.infer("queued", [1], parameters={"timeout": 1000})
    for runner in runners:
        runner.join()
    assert late.status == 503 and "Request timeout expired" in late.error()
    assert value(counted, "nv_inference_request_failure", "queued", reason="REJECTED") == before + 1


def test_leaving_client_counts_as_canceled(counted):
    before = value(counted, "nv_inference_request_failure", "queued", reason="CANCELED")
    runners = [threading.Thread(target=counted.infer, args=("queued", [1])) for _ in range(2)]
    for runner in runners:
        runner.start()
    until(lambda: value(counted, "nv_inference_pending_request_count", "queued") == 1, "one waits")
    body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [1]}]})
    with socket.create_connection(("127.0.0.1", counted.http)) as leaving:
        leaving.sendall(f"POST /v2/models/queued/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: value(counted, "nv_inference_pending_request_count", "queued") == 2
              or not any(r.is_alive() for r in runners), "it waits too")
    for runner in runners:
        runner.join()
    until(lambda: value(counted, "nv_inference_request_failure", "queued", reason="CANCELED") == before + 1, "canceled")


def test_failures_of_the_model(counted):
    before = value(counted, "nv_inference_request_failure", "faulty", reason="BACKEND")
    answer = counted.infer("faulty", [1, 2, 3, 4])
    assert answer.status == 500
    assert value(counted, "nv_inference_request_failure", "faulty", reason="BACKEND") == before + 1
    assert value(counted, "nv_inference_request_success", "faulty") == 0
    assert counted.statistics("faulty")["inference_stats"]["fail"]["count"] == before + 1


@pytest.fixture
def prometheus(counted, tmp_path):
    """A real one that scrapes the server each second; answers instant queries."""
    program = shutil.which("prometheus")
    if not program:
        pytest.skip("no prometheus")
    (tmp_path / "prometheus.yml").write_text(f"""global: {{ scrape_interval: 1s }}
scrape_configs:
- job_name: stoker
  static_configs: [ {{ targets: [ "127.0.0.1:{counted.metrics}" ] }} ]
""")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
                                    f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)

    def query(expression):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query=" + urllib.parse.quote(expression)) as answer:
                return [float(entry["value"][1]) for entry in json.load(answer)["data"]["result"]]
        except OSError:
            assert process.poll() is None, (tmp_path / "log").read_text()
            return []

    yield query
    process.kill()
    process.wait()


def test_prometheus_scrapes_everything(counted, prometheus):
    for _ in range(3):
        counted.infer("plain", [1])
    assert until(lambda: prometheus("up"), "a scrape", PROMQL_WAIT_S) == [1]
    expected = len(samples(counted.metrics_text(OPENMETRICS)))
    until(lambda: prometheus("scrape_samples_scraped") == [expected], f"{expected} samples", PROMQL_WAIT_S)
    # What it stored is what the page says.
    wanted = value(counted, "nv_inference_request_success", "plain")
    until(lambda: prometheus('nv_inference_request_success{model="plain"}') == [wanted], f"{wanted}", PROMQL_WAIT_S)
    stored = until(lambda: prometheus('count({job="stoker"})'), "stored series")[0]
    assert stored >= expected


def test_scrapes_while_busy_are_consistent(counted):
    """Counters never run backwards, and an execution is never seen without its request."""
    stop = threading.Event()
    wrong = []

    def hammer():
        while not stop.is_set():
            counted.infer("plain", [1])

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for thread in threads:
        thread.start()
    last = {}
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        now = samples(counted.metrics_text())
        for series, number in now.items():
            if series[0].startswith("nv_inference_") and "pending" not in series[0] and number < last.get(series, 0):
                wrong.append((series, last[series], number))
        last = now
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
