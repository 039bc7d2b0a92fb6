"""tritonclient in its four kinds (HTTP, gRPC, each blocking and asyncio) and its gRPC stream, used as their users do."""

import asyncio
import queue
import threading
import time

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http_client
import tritonclient.http.aio as http_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from model_files import DATATYPES
from stoker_server import until

KINDS = ["http", "grpc", "http.aio", "grpc.aio"]


class Client:
    """One way of calling for the four kinds: call(method, …) waits for the answer."""

    def __init__(self, kind, server):
        self.kind = kind
        self.is_http = kind.startswith("http")
        self.module = http_client if self.is_http else grpc_client
        address = server.http_address if self.is_http else server.grpc_address
        self.loop = asyncio.new_event_loop() if kind.endswith("aio") else None
        if self.loop:
            maker = http_aio if self.is_http else grpc_aio

            async def make():
                return maker.InferenceServerClient(address)

            self.client = self.loop.run_until_complete(make())
        elif self.is_http:
            self.client = http_client.InferenceServerClient(address, concurrency=8, network_timeout=60)
        else:
            self.client = grpc_client.InferenceServerClient(address)

    def call(self, method, *arguments, **options):
        answer = getattr(self.client, method)(*arguments, **options)
        return self.loop.run_until_complete(answer) if self.loop else answer

    def tensor(self, name, value, datatype=None, binary=True):
        tensor = self.module.InferInput(name, list(value.shape), datatype or np_to_triton_dtype(value.dtype))
        if self.is_http:
            tensor.set_data_from_numpy(value, binary_data=binary)
        else:
            tensor.set_data_from_numpy(value)
        return tensor

    def output(self, name, classes=0, binary=True):
        if self.is_http:
            return http_client.InferRequestedOutput(name, binary_data=binary, class_count=classes)
        return grpc_client.InferRequestedOutput(name, class_count=classes)

    def infer(self, model, value, outputs=("OUTPUT0",), **options):
        return self.call("infer", model, [self.tensor("INPUT0", value)], outputs=[self.output(o) for o in outputs],
                         **options)

    def answer(self, method, *arguments, **options):
        """The answer as a dict, whether it came as JSON or as a message."""
        if not self.is_http:
            options["as_json"] = True
        return self.call(method, *arguments, **options)

    def close(self):
        self.call("close")
        if self.loop:
            self.loop.close()


@pytest.fixture(params=KINDS)
def client(request, server):
    client = Client(request.param, server)
    yield client
    client.close()


def sample(datatype):
    """Values with the extremes of their type."""
    if datatype == "BOOL":
        return np.array([True, False, True])
    if datatype == "BYTES":
        return np.array([b"", b"plain", "zwölf".encode(), bytes(range(256)), b"\0" * 1000], dtype=np.object_)
    if datatype == "BF16":
        return np.array([0, 1.5, -2.25, 3e38, np.nan, np.inf], ml_dtypes.bfloat16)
    numpy_type = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64}.get(datatype)
    if numpy_type:
        limits = np.finfo(numpy_type)
        return np.array([0, -0.0, 1.5, limits.min, limits.max, limits.tiny, np.nan, np.inf, -np.inf], numpy_type)
    limits = np.iinfo(datatype.lower())
    return np.array([0, 1, limits.min, limits.max], datatype.lower())


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_comes_back(client, datatype):
    i = DATATYPES.index(datatype)
    value = sample(datatype)
    answer = client.call("infer", "every", [client.tensor(f"INPUT{i}", value, datatype)],
                         outputs=[client.output(f"OUTPUT{i}")])
    got = answer.as_numpy(f"OUTPUT{i}")
    assert got.dtype == value.dtype
    np.testing.assert_array_equal(got.astype(np.float32) if datatype == "BF16" else got,
                                  value.astype(np.float32) if datatype == "BF16" else value)


@pytest.mark.parametrize("kind", ["http", "http.aio"])
@pytest.mark.parametrize("datatype", [d for d in DATATYPES if d not in ("FP16", "BF16", "BYTES")])
def test_every_datatype_as_json(server, kind, datatype):
    client = Client(kind, server)
    i = DATATYPES.index(datatype)
    value = sample(datatype)
    value = value[np.isfinite(value)] if value.dtype.kind == "f" else value  # the client's own JSON writer takes no NaN
    answer = client.call("infer", "every", [client.tensor(f"INPUT{i}", value, datatype, binary=False)],
                         outputs=[client.output(f"OUTPUT{i}", binary=False)])
    np.testing.assert_array_equal(answer.as_numpy(f"OUTPUT{i}"), value)
    client.close()


def test_several_tensors_of_mixed_kinds(client):
    numbers = np.arange(1000, dtype=np.int64)
    texts = np.array(["%d ü" % i for i in range(100)], dtype=np.object_)
    inputs = [client.tensor("INPUT8", numbers), client.tensor("INPUT13", texts, "BYTES")]
    answer = client.call("infer", "every", inputs, outputs=[client.output("OUTPUT13"), client.output("OUTPUT8")])
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT8"), numbers)
    assert [text.decode() for text in answer.as_numpy("OUTPUT13")] == list(texts)


@pytest.mark.parametrize("elements", [1, 1000, 3_000_000])
def test_sizes(client, elements):
    value = np.random.default_rng(elements).random((1, elements), dtype=np.float32)
    np.testing.assert_array_equal(client.infer("floats", value).as_numpy("OUTPUT0"), value)


def test_request_id_version_and_parameters_come_through(client):
    value = np.ones((1, 2), np.float32)
    answer = client.infer("versions", value, request_id="id-ü-1", model_version="1",
                          parameters={"text": "a", "number": 7, "flag": True})
    response = answer.get_response() if client.is_http else answer.get_response(as_json=True)
    assert response["id"] == "id-ü-1"
    assert response["model_name"] == "versions" and response["model_version"] == "1"
    newest = client.infer("versions", value)
    response = newest.get_response() if client.is_http else newest.get_response(as_json=True)
    assert response["model_version"] == "3" and not response.get("id")


def test_classification(client):
    value = np.array([[0.5, 4, 1, 3], [9, 1, 2, 3]], np.float32)
    answer = client.call("infer", "classes", [client.tensor("INPUT0", value)],
                         outputs=[client.output("OUTPUT0", classes=2)])
    got = [[text.decode() for text in row] for row in answer.as_numpy("OUTPUT0")]
    assert got == [["4.000000:1:bee", "3.000000:3:dog"], ["9.000000:0:ant", "3.000000:3:dog"]]


@pytest.mark.parametrize("request_coding,answer_coding", [("gzip", None), ("deflate", None), (None, "gzip"),
                                                          (None, "deflate"), ("gzip", "deflate"), ("deflate", "gzip")])
def test_compression_over_http(server, request_coding, answer_coding):
    value = np.tile(np.arange(100, dtype=np.float32), (2, 500))
    for kind in ("http", "http.aio"):
        client = Client(kind, server)
        answer = client.infer("floats", value, request_compression_algorithm=request_coding,
                              response_compression_algorithm=answer_coding)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), value)
        client.close()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compression_over_grpc(server, coding):
    value = np.tile(np.arange(100, dtype=np.float32), (2, 500))
    for kind in ("grpc", "grpc.aio"):
        client = Client(kind, server)
        answer = client.infer("floats", value, compression_algorithm=coding)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), value)
        client.close()


def test_http_async_infer(server):
    with http_client.InferenceServerClient(server.http_address, concurrency=8) as client:
        pending = []
        for i in range(40):
            tensor = http_client.InferInput("INPUT0", [1, 3], "FP32")
            tensor.set_data_from_numpy(np.full((1, 3), i, np.float32))
            pending.append(client.async_infer("batched", [tensor], request_id=str(i)))
        for i, one in enumerate(pending):
            answer = one.get_result()
            assert answer.get_response()["id"] == str(i)
            np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), np.full((1, 3), i, np.float32))


def test_grpc_async_infer(server):
    answers = queue.SimpleQueue()
    with grpc_client.InferenceServerClient(server.grpc_address) as client:
        for i in range(40):
            tensor = grpc_client.InferInput("INPUT0", [1, 3], "FP32")
            tensor.set_data_from_numpy(np.full((1, 3), i, np.float32))
            client.async_infer("batched", [tensor], lambda result, error: answers.put((result, error)),
                               request_id=str(i))
        seen = set()
        for _ in range(40):
            result, error = answers.get(timeout=60)
            assert error is None
            i = int(result.get_response().id)
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), np.full((1, 3), i, np.float32))
            seen.add(i)
        assert seen == set(range(40))


def test_grpc_async_infer_cancelled(server):
    answers = queue.SimpleQueue()
    with grpc_client.InferenceServerClient(server.grpc_address) as client:
        tensor = grpc_client.InferInput("INPUT0", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
        call = client.async_infer("slow_alone", [tensor], lambda result, error: answers.put((result, error)))
        call.cancel()
        _, error = answers.get(timeout=60)
        assert "Locally cancelled" in str(error)


@pytest.mark.parametrize("kind", ["http.aio", "grpc.aio"])
def test_many_at_once_by_asyncio(server, kind):
    client = Client(kind, server)

    async def one(i):
        value = np.full((1, 5), i, np.float32)
        answer = await client.client.infer("batched", [client.tensor("INPUT0", value)])
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), value)

    async def all_of_them():
        await asyncio.gather(*(one(i) for i in range(64)))

    client.loop.run_until_complete(all_of_them())
    client.close()


def test_unknown_model_is_said(client):
    with pytest.raises(InferenceServerException) as caught:
        client.infer("nobody", np.ones((1, 1), np.float32))
    assert caught.value.status() in ("404", "StatusCode.NOT_FOUND")
    assert "nobody" in caught.value.message()


@pytest.mark.parametrize("value,fragment", [(np.ones((1, 1), np.float64), "FP64"), (np.ones((9, 1), np.float32), "8"),
                                            (np.ones((1, 1, 1), np.float32), "shape")])
def test_wrong_tensors_are_said(client, value, fragment):
    with pytest.raises(InferenceServerException) as caught:
        client.infer("floats", value)
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert fragment in caught.value.message()


def test_health_and_metadata(client):
    assert client.call("is_server_live") and client.call("is_server_ready")
    assert client.call("is_model_ready", "floats") and client.call("is_model_ready", "versions", "3")
    assert not client.call("is_model_ready", "versions", "2") and not client.call("is_model_ready", "nobody")
    about = client.answer("get_server_metadata")
    assert about["name"] == "triton" and "binary_tensor_data" in about["extensions"]
    model = client.answer("get_model_metadata", "versions")
    assert model["versions"] == ["1", "3"]
    assert model["inputs"][0]["name"] == "INPUT0" and [int(d) for d in model["inputs"][0]["shape"]] == [-1, -1]


def test_config(client):
    config = client.answer("get_model_config", "slow")
    config = config.get("config", config)
    assert config["max_batch_size"] == 1
    assert config["dynamic_batching"]["default_queue_policy"]["max_queue_size"] == 16


def test_statistics(client):
    def count():
        (entry,) = client.answer("get_inference_statistics", "floats")["model_stats"]
        return (int(entry.get("inference_count", 0)), int(entry.get("execution_count", 0)),
                int(entry["inference_stats"]["success"].get("count", 0)))

    before = count()
    client.infer("floats", np.ones((3, 2), np.float32))
    client.infer("floats", np.ones((1, 2), np.float32))
    assert [b - a for a, b in zip(before, count())] == [4, 2, 2]


def test_repository_index_and_refused_control(client):
    index = client.answer("get_model_repository_index")
    index = index if client.is_http else index["models"]
    assert {"floats", "text", "versions"} <= {entry["name"] for entry in index}
    with pytest.raises(InferenceServerException) as caught:
        client.call("load_model", "floats")
    assert caught.value.status() in ("503", "StatusCode.UNAVAILABLE")


def test_log_settings(client):
    def number(settings):
        settings = settings.get("settings", settings)
        value = settings["log_verbose_level"]
        return int(value["uint32_param"] if isinstance(value, dict) else value)

    assert number(client.answer("update_log_settings", {"log_verbose_level": 1})) == 1
    assert number(client.answer("get_log_settings")) == 1
    assert number(client.answer("update_log_settings", {"log_verbose_level": 0})) == 0


@pytest.mark.parametrize("calls", [
    ("register_system_shared_memory", "a", "/a", 64), ("get_system_shared_memory_status",),
    ("unregister_system_shared_memory",), ("register_cuda_shared_memory", "a", b"x" * 64, 0, 64),
    ("get_cuda_shared_memory_status",), ("unregister_cuda_shared_memory",)])
def test_shared_memory_is_not_supported(client, calls):
    with pytest.raises(InferenceServerException) as caught:
        client.call(*calls)
    assert "not supported" in caught.value.message() and "shared memory" in caught.value.message()


def test_tensor_in_shared_memory_is_refused(client):
    tensor = client.module.InferInput("INPUT0", [1, 4], "FP32")
    tensor.set_shared_memory("region", 16)
    with pytest.raises(InferenceServerException) as caught:
        client.call("infer", "floats", [tensor])
    assert "shared memory" in caught.value.message()


def test_trace_settings_are_not_supported(client):
    with pytest.raises(InferenceServerException) as caught:
        client.call("get_trace_settings")
    assert "not supported" in caught.value.message()


def test_client_side_deadline(server):
    value = np.ones((1, 1), np.float32)
    client = Client("grpc", server)
    with pytest.raises(InferenceServerException) as caught:
        client.infer("slow_alone", value, client_timeout=0.05)
    assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    np.testing.assert_array_equal(client.infer("floats", value, client_timeout=60).as_numpy("OUTPUT0"), value)
    client.close()
    with http_client.InferenceServerClient(server.http_address, network_timeout=0.05) as client:
        tensor = http_client.InferInput("INPUT0", [1, 1], "FP32")
        tensor.set_data_from_numpy(value)
        with pytest.raises(Exception, match="timed out"):
            client.infer("slow_alone", [tensor])


class Busy:
    """Keeps the model 'slow' running while the block lasts; requests made inside it have to wait."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.threads = [threading.Thread(target=self.server.infer, args=("slow", [0])) for _ in range(3)]
        for thread in self.threads:
            thread.start()
        until(lambda: pending(self.server, "slow") >= 2, "two requests waiting")

    def __exit__(self, *_):
        for thread in self.threads:
            thread.join()


def pending(server, model):
    return gauge(server.metrics_text(), "nv_inference_pending_request_count", model)


def arrived(server, model):
    """Requests that ended or wait: one more for each that arrives, whatever ends meanwhile."""
    text = server.metrics_text()
    return gauge(text, "nv_inference_pending_request_count", model) + gauge(text, "nv_inference_request_success", model)


def gauge(text, name, model):
    (line,) = [line for line in text.splitlines() if line.startswith(f'{name}{{model="{model}"')]
    return int(line.split()[-1])


def test_queue_timeout_of_a_request(client, server):
    with Busy(server):
        started = time.monotonic()
        with pytest.raises(InferenceServerException) as caught:
            client.infer("slow", np.ones((1, 1), np.float32), timeout=1000)
        assert time.monotonic() - started < 30
    assert "Request timeout expired" in caught.value.message()
    assert caught.value.status() in ("503", "StatusCode.UNAVAILABLE")


def test_priority_overtakes(client, server):
    """With two of the middle level waiting, one of level 1 ends before one of level 3 sent ahead of it."""
    order = []

    def send(level):
        one = Client(client.kind, server)
        one.infer("slow", np.ones((1, 1), np.float32), priority=level)
        order.append(level)
        one.close()

    with Busy(server):
        before = arrived(server, "slow")
        low = threading.Thread(target=send, args=(3,))
        low.start()
        until(lambda: arrived(server, "slow") > before, "the low one waits too")
        high = threading.Thread(target=send, args=(1,))
        high.start()
        low.join()
        high.join()
    assert order == [1, 3]


# ---- The gRPC stream.

class Stream:
    def __init__(self, server, **options):
        self.answers = queue.SimpleQueue()
        self.client = grpc_client.InferenceServerClient(server.grpc_address)
        self.client.start_stream(lambda result, error: self.answers.put((result, error)), **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()

    def send(self, model, value, **options):
        tensor = grpc_client.InferInput("INPUT0", list(value.shape), np_to_triton_dtype(value.dtype))
        tensor.set_data_from_numpy(value)
        self.client.async_stream_infer(model, [tensor], **options)

    def take(self):
        return self.answers.get(timeout=60)


def test_stream_answers_in_order_of_requests(server):
    with Stream(server) as stream:
        for i in range(100):
            stream.send("slow_alone" if i == 0 else "batched", np.full((1, 2), i, np.float32), request_id=str(i))
        for i in range(100):
            result, error = stream.take()
            assert error is None
            response = result.get_response()
            assert response.id == str(i) and response.parameters["triton_final_response"].bool_param
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), np.full((1, 2), i, np.float32))


def test_stream_lives_on_after_an_error(server):
    with Stream(server) as stream:
        stream.send("nobody", np.ones((1, 2), np.float32))
        stream.send("floats", np.ones((1, 2), np.float64))
        stream.send("floats", np.ones((1, 2), np.float32), request_id="good")
        errors = [stream.take()[1] for _ in range(2)]
        assert "nobody" in errors[0].message() and "FP64" in errors[1].message()
        result, error = stream.take()
        assert error is None and result.get_response().id == "good"


def test_stream_of_the_asyncio_client(server):
    async def run():
        async with grpc_aio.InferenceServerClient(server.grpc_address) as client:
            async def requests():
                for i in range(20):
                    tensor = grpc_client.InferInput("INPUT0", [1, 2], "FP32")
                    tensor.set_data_from_numpy(np.full((1, 2), i, np.float32))
                    yield {"model_name": "floats", "inputs": [tensor], "request_id": str(i)}

            seen = []
            async for result, error in client.stream_infer(requests()):
                assert error is None
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"),
                                              np.full((1, 2), int(result.get_response().id), np.float32))
                seen.append(result.get_response().id)
            assert seen == [str(i) for i in range(20)]

    asyncio.run(run())
