"""Networks: answers equal onnxruntime's, whatever was batched with what."""

import json
import os
import threading

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from model_files import MODELS, Repository, ir_affine, onnx_affine
from stoker_server import Server

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
MAGIKA = """backend: "onnxruntime"
max_batch_size: 32
dynamic_batching { }
parameters { key: "stoker.batch_mode" value { string_value: "dynamic" } }
"""
SQUEEZENET = """backend: "openvino"
max_batch_size: 4
input [ { name: "data_0" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
output [ { name: "softmaxout_1" data_type: TYPE_FP32 dims: [ 1000, 1, 1 ] } ]
dynamic_batching { max_queue_delay_microseconds: 2000 }
"""


def trained(name):
    path = os.path.join(MODELS, name)
    if not os.path.exists(path):
        pytest.skip(f"no {name} (tools/models.py)")
    return path


def reference(path, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    models = Repository(tmp_path_factory.mktemp("networks") / "models")
    models.add("magika", MAGIKA, file=("model.onnx", trained("magika.onnx")))
    models.add("squeezenet", SQUEEZENET, file=("model.onnx", trained("light_squeezenet.onnx")))
    models.add("affine", 'backend: "onnxruntime"\nmax_batch_size: 16\ninstance_group { count: 1 }\n'
                         "dynamic_batching { max_queue_delay_microseconds: 20000 }\n",
               file=("model.onnx", onnx_affine()))
    models.add("fixed", 'backend: "onnxruntime"\nmax_batch_size: 8\ndynamic_batching { }\n',
               file=("model.onnx", onnx_affine(scale=3, batch=1)))
    models.add("ir", 'backend: "openvino"\nmax_batch_size: 8\n', content=ir_affine(scale=-1, offset=0.5))
    models.add("ir_bare", content=ir_affine(scale=4, offset=0))
    with Server(models) as server:
        yield server


def http_infer(server, model, name, output, value):
    tensor = http_client.InferInput(name, list(value.shape), {"f": "FP32", "i": "INT32"}[value.dtype.kind])
    tensor.set_data_from_numpy(value)
    with http_client.InferenceServerClient(server.http_address, network_timeout=120) as client:
        return client.infer(model, [tensor], outputs=[http_client.InferRequestedOutput(output)]).as_numpy(output)


def file_like_rows(count, seed=2):
    """Rows of 2048 tokens as magika takes them: bytes of one alphabet each, padded by 256."""
    rng = np.random.default_rng(seed)
    rows = np.full((count, 2048), 256, np.int32)
    for row in rows:
        length = int(rng.integers(10, 1024))
        alphabet = rng.integers(9, 256, int(rng.integers(2, 90)))
        row[:length] = rng.choice(alphabet, length)
        row[2048 - length:] = rng.choice(alphabet, length)
    return rows


def test_magika_equals_onnxruntime(networks):
    rows = file_like_rows(8)
    (expected,) = reference(trained("magika.onnx"), {"bytes": rows})
    assert len({int(row.argmax()) for row in expected}) > 1  # rows differ, or this would show little
    np.testing.assert_allclose(http_infer(networks, "magika", "bytes", "target_label", rows), expected, **TOLERANCE)


def test_mixed_requests_in_parallel_get_their_own_rows(networks):
    """64 requests of 1 to 4 rows at once: what they are batched with changes nothing."""
    rows = file_like_rows(160, seed=3)
    (expected,) = reference(trained("magika.onnx"), {"bytes": rows})
    before = networks.statistics("magika")
    slices, start = [], 0
    for i in range(64):
        slices.append(slice(start, start + 1 + i % 4))
        start = slices[-1].stop
    assert start == 160
    answers = [None] * 64

    def ask(i):
        tensor = grpc_client.InferInput("bytes", [slices[i].stop - slices[i].start, 2048], "INT32")
        tensor.set_data_from_numpy(rows[slices[i]])
        with grpc_client.InferenceServerClient(networks.grpc_address) as client:
            answers[i] = client.infer("magika", [tensor], client_timeout=120).as_numpy("target_label")

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, answer in enumerate(answers):
        np.testing.assert_allclose(answer, expected[slices[i]], err_msg=f"request {i}", **TOLERANCE)
    after = networks.statistics("magika")
    assert after["inference_count"] - before["inference_count"] == 160
    assert after["execution_count"] - before["execution_count"] <= 64


def test_batches_form_and_come_apart(networks):
    """Small requests of mixed sizes run together, and each gets what is its own."""
    def ask(i):
        rows = 1 + i % 5
        value = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4) + 100 * i
        got = networks.infer("affine", value.ravel().tolist(), shape=[rows, 4], name="x")
        results[i] = got.status == 200 and got.json()["outputs"][0]["data"] == (value * 2 + 1).ravel().tolist()

    before = networks.statistics("affine")["execution_count"]
    results = [None] * 64
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 64
    assert networks.statistics("affine")["execution_count"] - before < 60


def test_small_network_equals_onnxruntime(networks, tmp_path):
    (tmp_path / "m.onnx").write_bytes(onnx_affine())
    value = np.random.default_rng(5).normal(size=(16, 4)).astype(np.float32)
    (expected,) = reference(str(tmp_path / "m.onnx"), {"x": value})
    np.testing.assert_allclose(http_infer(networks, "affine", "x", "y", value), expected, rtol=1e-6)


def test_file_of_batch_one_takes_batches(networks):
    image = np.random.default_rng(7).random((3, 3, 224, 224), dtype=np.float32)
    together = http_infer(networks, "squeezenet", "data_0", "softmaxout_1", image)
    alone = [http_infer(networks, "squeezenet", "data_0", "softmaxout_1", image[i:i + 1]) for i in range(3)]
    np.testing.assert_allclose(together, np.concatenate(alone), **TOLERANCE)
    # Its weights are constants: classes are as good as equal, so that a rounding decides who gets a share at all.
    np.testing.assert_allclose(together.sum(axis=1), np.ones((3, 1, 1)), rtol=1e-3)


def test_small_file_of_batch_one_takes_batches(networks):
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(http_infer(networks, "fixed", "x", "y", value), value * 3 + 1)


@pytest.mark.parametrize("model,scale,offset", [("ir", -1, 0.5), ("ir_bare", 4, 0)])
def test_ir(networks, model, scale, offset):
    value = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(http_infer(networks, model, "x", "y", value), value * scale + offset)
    about = networks.get(f"/v2/models/{model}").json()
    assert about["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]


def test_config_is_completed_from_the_file(networks):
    config = networks.get("/v2/models/magika/config").json()
    assert config["input"][0]["name"] == "bytes" and config["input"][0]["data_type"] == "TYPE_INT32"
    assert config["input"][0]["dims"] == [2048] and config["output"][0]["dims"] == [214]


def test_wrong_shape_names_both(networks):
    answer = networks.infer("affine", [1, 2, 3], name="x")
    assert answer.status == 400 and "[-1,4]" in answer.error().replace(" ", "") and "[1,3]" in answer.error().replace(" ", "")


def test_config_that_disagrees_with_its_file(models):
    models.add("affine", """backend: "onnxruntime"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 5 ] } ]
""", file=("model.onnx", onnx_affine()))
    models.add("broken", 'backend: "onnxruntime"\n', file=("model.onnx", b"no network at all"))
    models.add("empty", 'backend: "onnxruntime"\n')
    models.add("good", file=("model.onnx", onnx_affine()))
    with Server(models, "--exit-on-error=false", "--strict-readiness=false") as server:
        assert not any(server.is_ready(name) for name in ("affine", "broken", "empty"))
        assert server.infer("good", [1, 2, 3, 4], name="x").json()["outputs"][0]["data"] == [3, 5, 7, 9]
        log = server.log()
        assert "model.onnx" in log and "'x'" in log or '"x"' in log or "x" in json.dumps(log)


def test_reload_of_a_network_under_load(models):
    """Another network serves while one is reloaded; nobody notices."""
    models.add("steady", file=("model.onnx", onnx_affine()))
    models.add("changing", 'backend: "onnxruntime"\nmax_batch_size: 8\n', file=("model.onnx", onnx_affine(scale=1, offset=0)))
    with Server(models, "--model-control-mode=explicit", "--load-model=*") as server:
        stop, wrong, count = threading.Event(), [], [0]

        def ask():
            while not stop.is_set():
                answer = server.infer("steady", [1, 2, 3, 4], name="x")
                count[0] += 1
                if answer.status != 200:
                    wrong.append(answer.body)

        thread = threading.Thread(target=ask)
        thread.start()
        for scale in (2, 3, 4):
            models.add("changing", file=("model.onnx", onnx_affine(scale=scale, offset=0)))
            assert server.load("changing").status == 200
            assert server.infer("changing", [1, 2, 3, 4], name="x").json()["outputs"][0]["data"] == [scale, 2 * scale, 3 * scale, 4 * scale]
        stop.set()
        thread.join()
        assert not wrong and count[0] > 0
