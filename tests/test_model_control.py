"""Loading, unloading, reloading, polling; what is refused; what keeps serving."""

import base64
import http.client
import json
import os
import shutil
import threading

import pytest

from model_files import Repository, identity_config, onnx_affine
from stoker_server import Server, until

EXPLICIT = "--model-control-mode=explicit"
AFFINE = 'backend: "onnxruntime"\nmax_batch_size: 8\n'


def config_json(**fields):
    """An identity configuration in its JSON form."""
    return json.dumps({"backend": "identity", "max_batch_size": 8,
                       "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
                       "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}], **fields})


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(where, name), folder) for where, folders, names in os.walk(folder)
                  for name in (*folders, *names))


@pytest.fixture
def explicit(models):
    models.add("floats", identity_config())
    models.add("other", identity_config())
    with Server(models, EXPLICIT, "--load-model=other") as server:
        server.models = models
        yield server


def affine(server, x, model="affine"):
    answer = server.infer(model, x, name="x")
    assert answer.status == 200, answer.body
    return answer.json()["outputs"][0]["data"]


# ---- explicit

def test_load_and_unload(explicit):
    assert explicit.is_ready("other") and not explicit.is_ready("floats")
    assert explicit.infer("floats", [1]).status == 404
    assert "state" not in explicit.index()["floats", None]
    answer = explicit.load("floats")
    assert answer.status == 200 and answer.body == b""
    assert explicit.infer("floats", [1]).status == 200
    assert explicit.index()["floats", "1"]["state"] == "READY"
    assert explicit.unload("floats").status == 200
    assert not explicit.is_ready("floats") and explicit.infer("floats", [1]).status == 404
    until(lambda: explicit.index()["floats", "1"]["state"] == "UNAVAILABLE", "unloaded")
    assert explicit.index()["floats", "1"]["reason"] == "unloaded"
    assert explicit.get("/v2/health/ready").status == 200  # a deliberate unload harms nobody
    assert explicit.load("floats").status == 200 and explicit.is_ready("floats")


def test_load_of_all(models):
    for i in range(5):
        models.add(f"m{i}", identity_config())
    with Server(models, EXPLICIT, "--load-model=*") as server:
        assert all(server.is_ready(f"m{i}") for i in range(5))


def test_load_of_unknown_model(explicit):
    answer = explicit.load("nobody")
    assert answer.status >= 400 and "nobody" in answer.error()
    assert explicit.get("/v2/health/ready").status == 200


def test_config_override(explicit):
    assert explicit.load("floats", config=config_json(max_batch_size=2)).status == 200
    assert explicit.get("/v2/models/floats/config").json()["max_batch_size"] == 2
    assert explicit.infer("floats", [1, 2, 3], shape=[3, 1]).status == 400
    wrong = explicit.load("floats", config='{"max_batch_size": "many"}')
    assert wrong.status >= 400
    assert explicit.get("/v2/models/floats/config").json()["max_batch_size"] == 2  # the old one serves on


def test_file_override(explicit):
    network = onnx_affine(scale=5, offset=0)
    parameters = {"config": json.dumps({"backend": "onnxruntime", "max_batch_size": 8}),
                  "file:7/model.onnx": base64.b64encode(network).decode()}
    answer = explicit.load("floats", **parameters)
    assert answer.status == 200, answer.body
    assert affine(explicit, [1, 2, 3, 4], "floats") == [5, 10, 15, 20]
    assert explicit.is_ready("floats", 7) and not explicit.is_ready("floats", 1)


@pytest.mark.parametrize("path", ["1/../../../x", "../x", "/x", "1//../x", "1/./../../x", "1/x\0y", "\0", "", "1", "1/", "..",
                                  "1/a/../../../x", "1/..", "x/model.onnx", "1\\..\\x", "1/" + "a" * 5000])
def test_file_override_cannot_leave_its_folder(explicit, path, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    parameters = {"config": config_json(), f"file:{path}": base64.b64encode(b"secret-" + path[:9].encode()).decode()}
    before = files_below(tmp_path)
    answer = explicit.load("floats", **parameters)
    assert 400 <= answer.status < 600 and "error" in answer.json()
    assert files_below(tmp_path) == before
    assert not os.path.exists("/x") and not os.path.exists("/tmp/x")
    assert explicit.infer("other", [1]).status == 200


def test_absolute_file_override(explicit, tmp_path):
    target = tmp_path / "written"
    for path in (str(target), f"1/{target}", f"1/../../../../../../../../{target}"):
        explicit.load("floats", **{"config": config_json(), f"file:{path}": base64.b64encode(b"x").decode()})
        assert not target.exists()


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..%2fetc", ".hidden", "a%00b"])
def test_model_names_cannot_leave_the_repository(explicit, name):
    answer = explicit.load(name)
    assert answer.status >= 400


def test_broken_base64_is_refused(explicit):
    answer = explicit.load("floats", config=config_json(), **{"file:1/x": "not base64!"})
    assert answer.status >= 400 and "base64" in answer.error()


def test_failed_reload_keeps_the_old_one(explicit):
    assert explicit.load("floats").status == 200
    explicit.models.configure("floats", "max_batch_size: nonsense\n")
    failed = explicit.load("floats")
    assert failed.status >= 400 and "floats" in failed.error()
    assert explicit.infer("floats", [1, 2]).status == 200
    assert explicit.is_ready("floats") and explicit.get("/v2/health/ready").status == 200
    explicit.models.configure("floats", identity_config(batch=3))
    assert explicit.load("floats").status == 200
    assert explicit.get("/v2/models/floats/config").json()["max_batch_size"] == 3


def test_unload_lets_running_requests_end(explicit):
    explicit.models.add("slow", identity_config(batch=1, delay_ms=300))
    assert explicit.load("slow").status == 200
    got = []
    runners = [threading.Thread(target=lambda: got.append(explicit.infer("slow", [1]).status)) for _ in range(2)]
    for runner in runners:
        runner.start()
    until(lambda: 'nv_inference_pending_request_count{model="slow",version="1"} 1' in explicit.metrics_text(), "one waits")
    assert explicit.unload("slow").status == 200
    assert explicit.infer("slow", [1]).status == 404
    for runner in runners:
        runner.join()
    assert got == [200, 200]


class Hammer:
    """Sends requests without pause from some threads; what was not 200, and what kinds of answers came."""

    def __init__(self, server, model, x, name="x", threads=3):
        self.body = json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": [1, len(x)], "data": x}]})
        self.server, self.model = server, model
        self.answers, self.wrong, self.count = set(), [], 0
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http, timeout=60)
        while not self.stop.is_set():
            try:
                connection.request("POST", f"/v2/models/{self.model}/infer", self.body)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    self.wrong.append(body)
                else:
                    self.answers.add(tuple(json.loads(body)["outputs"][0]["data"]))
                self.count += 1
            except OSError as error:
                self.wrong.append(error)
                connection.close()
        connection.close()

    def wait_for(self, more):
        goal = self.count + more
        until(lambda: self.count >= goal, f"{more} more requests")


def test_reload_has_no_gap(models):
    models.add("affine", AFFINE, file=("model.onnx", onnx_affine(scale=1, offset=0)))
    with Server(models, EXPLICIT, "--load-model=affine") as server, Hammer(server, "affine", [1, 2, 3, 4]) as hammer:
        for scale in range(2, 8):
            hammer.wait_for(20)
            models.add("affine", file=("model.onnx", onnx_affine(scale=scale, offset=0)))
            assert server.load("affine").status == 200
            assert affine(server, [1, 1, 1, 1]) == [scale] * 4  # answered: from now on it is the new one
        hammer.wait_for(20)
    assert not hammer.wrong
    assert hammer.answers == {tuple(scale * i for i in (1, 2, 3, 4)) for scale in range(1, 8)}


def test_reload_by_config_has_no_gap(models):
    models.add("floats", identity_config())
    with Server(models, EXPLICIT, "--load-model=floats") as server, Hammer(server, "floats", [1, 2], "INPUT0") as hammer:
        for i in range(20):
            hammer.wait_for(5)
            assert server.load("floats", config=config_json(max_batch_size=4 + i)).status == 200
    assert not hammer.wrong and hammer.answers == {(1.0, 2.0)}


def test_version_policies(models):
    models.add("newest", identity_config(), versions=(1, 2, 10))
    models.add("two", identity_config(extra="version_policy { latest { num_versions: 2 } }\n"), versions=(1, 2, 10))
    models.add("all", identity_config(extra="version_policy { all { } }\n"), versions=(1, 2, 10, "03", "x"))
    with Server(models) as server:
        def served(model):
            return server.get(f"/v2/models/{model}").json()["versions"]

        assert served("newest") == ["10"] and served("two") == ["2", "10"] and served("all") == ["1", "2", "10"]


# ---- poll

@pytest.fixture
def polled(models):
    models.add("floats", identity_config(extra="version_policy { all { } }\n"))
    with Server(models, "--model-control-mode=poll", "--repository-poll-secs=1") as server:
        server.models = models
        yield server


def test_poll_follows_versions(polled):
    assert polled.is_ready("floats", 1) and not polled.is_ready("floats", 2)
    (polled.models.path / "floats" / "2").mkdir()
    until(lambda: polled.is_ready("floats", 2), "version 2")
    assert polled.is_ready("floats", 1)
    shutil.rmtree(polled.models.path / "floats" / "1")
    until(lambda: not polled.is_ready("floats", 1), "version 1 gone")
    assert polled.is_ready("floats", 2)


def test_poll_follows_models_and_configs(polled):
    polled.models.add("late", identity_config())
    until(lambda: polled.is_ready("late"), "the new model")
    polled.models.configure("late", identity_config(batch=5))
    until(lambda: polled.get("/v2/models/late/config").json()["max_batch_size"] == 5, "the new configuration")
    polled.models.configure("late", "rubbish: 1\n")
    polled.models.add("marker", identity_config())
    until(lambda: polled.is_ready("marker"), "a later look at the folders")
    assert polled.is_ready("late") and polled.infer("late", [1]).status == 200
    shutil.rmtree(polled.models.path / "late")
    until(lambda: not polled.is_ready("late"), "the model gone")


def test_poll_does_nothing_when_nothing_changed(polled):
    loads = polled.log().count("model ready")
    polled.models.add("marker", identity_config())
    until(lambda: polled.is_ready("marker"), "the marker")
    polled.models.add("marker2", identity_config())
    until(lambda: polled.is_ready("marker2"), "the second marker")
    assert polled.log().count("model ready") == loads + 2


def test_poll_refuses_control(polled):
    for answer in (polled.load("floats"), polled.unload("floats")):
        assert answer.status == 503 and "not allowed" in answer.error()
    assert polled.is_ready("floats")


# ---- what is refused at the start

def test_same_name_in_two_repositories(tmp_path):
    first, second = Repository(tmp_path / "a"), Repository(tmp_path / "b")
    for models in (first, second):
        models.add("twin", identity_config())
    first.add("single", identity_config())
    second.add("mine", identity_config())
    with Server(f"--model-repository={first}", f"--model-repository={second}", "--exit-on-error=false",
                "--strict-readiness=false") as server:
        assert not server.is_ready("twin") and server.is_ready("single") and server.is_ready("mine")
        assert server.infer("twin", [1]).status >= 400
        entry = [e for (name, _), e in server.index().items() if name == "twin"]
        assert all(e.get("state") != "READY" for e in entry)
        assert "twin" in server.log()


@pytest.mark.parametrize("strict,status", [("true", 400), ("false", 200)])
def test_strict_readiness(models, strict, status):
    models.add("good", identity_config())
    models.add("bad", identity_config(extra="unknown_field: 1\n"))
    with Server(models, "--exit-on-error=false", f"--strict-readiness={strict}", ready=False) as server:
        assert server.get("/v2/health/ready").status == status
        assert server.get("/v2/health/live").status == 200
        assert server.is_ready("good") and not server.is_ready("bad")


def test_exit_on_error_names_the_model(models):
    models.add("good", identity_config())
    models.add("broken_one", identity_config(extra="unknown_field: 1\n"))
    server = Server(models, ready=False, own_ports=False)
    try:
        assert server.process.wait(60) == 1
        assert "broken_one" in server.log()
    finally:
        server.kill()


@pytest.mark.parametrize("line,field", [
    ("unknown_field: 1", "unknown_field"),
    ("sequence_batching { }", "sequence_batching"),
    ('ensemble_scheduling { step { model_name: "a" } }', "ensemble_scheduling"),
    ("response_cache { enable: true }", "response_cache"),
    ("model_transaction_policy { decoupled: true }", "decoupled"),
    ('model_repository_agents { agents { name: "a" } }', "model_repository_agents"),
    ('instance_group { rate_limiter { resources { name: "r" count: 1 } } }', "rate_limiter"),
    ("instance_group { kind: KIND_GPU }", "KIND_GPU"),
    ("dynamic_batching { preferred_batch_size: [ 99 ] }", "preferred_batch_size"),
    ("dynamic_batching { priority_levels: 2 preserve_ordering: true default_priority_level: 1 }", "preserve_ordering"),
    ('parameters { key: "stoker.unheard_of" value { string_value: "1" } }', "stoker.unheard_of"),
])
def test_refused_field_is_named_and_others_serve(models, line, field):
    models.add("good", identity_config())
    config = identity_config()
    models.add("bad", config + line + "\n")
    with Server(models, "--exit-on-error=false", "--strict-readiness=false") as server:
        assert server.infer("good", [1]).status == 200
        assert not server.is_ready("bad")
        reason = server.index()["bad", "1"].get("reason", "") if ("bad", "1") in server.index() else ""
        text = reason + server.log()
        assert field in text
        assert "config.pbtxt" in text
        assert f"config.pbtxt:{config.count(chr(10)) + 1}" in text or f"line {config.count(chr(10)) + 1}" in text, text


def test_hints_warn_and_serve(models):
    models.add("hinted", identity_config(extra="optimization { cuda { graphs: true } input_pinned_memory { enable: true } }\n"))
    with Server(models) as server:
        assert server.infer("hinted", [1]).status == 200
        assert "cuda" in server.log()


def test_several_repositories_and_model_store(tmp_path):
    first, second = Repository(tmp_path / "a"), Repository(tmp_path / "b")
    first.add("one", identity_config())
    second.add("two", identity_config())
    with Server(f"--model-store={first}", "--model-repository", second) as server:
        assert server.is_ready("one") and server.is_ready("two")


def test_config_name_option(models):
    folder = models.add("floats", identity_config())
    (folder / "configs").mkdir()
    (folder / "configs" / "small.pbtxt").write_text(identity_config(batch=2))
    models.add("plain", identity_config())
    with Server(models, "--model-config-name=small") as server:
        assert server.get("/v2/models/floats/config").json()["max_batch_size"] == 2
        assert server.get("/v2/models/plain/config").json()["max_batch_size"] == 8
