"""The gRPC door where tritonclient does not reach: raw messages, stream metadata, cancellation, deadlines, health."""

import queue

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from model_files import identity_config
from stoker_server import Server, until


UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.grpc_address, options=UNLIMITED) as channel:
        yield channel


def request_of(model, values=(1.0,), request_id="", shape=None):
    request = service_pb2.ModelInferRequest(model_name=model, id=request_id)
    data = np.array(values, np.float32)
    request.inputs.add(name="INPUT0", datatype="FP32", shape=shape or [1, len(data)])
    request.raw_input_contents.append(data.tobytes())
    return request


def raw_infer(channel):
    return channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")


def stream_of(channel, requests, **options):
    return service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter(requests), **options)


def test_message_that_is_no_protobuf(channel):
    with pytest.raises(grpc.RpcError) as error:
        raw_infer(channel)(b"\xff\xff\xff\xff")
    assert error.value.code() == grpc.StatusCode.INTERNAL
    assert error.value.details() == "Unable to parse request"


def test_unknown_fields_are_skipped(channel):
    message = request_of("floats").SerializeToString() + b"\xa2\x06\x02xy" + b"\x98\x06\x05"
    answer = service_pb2.ModelInferResponse.FromString(raw_infer(channel)(message))
    assert answer.raw_output_contents[0] == np.float32(1).tobytes()


def test_unary_call_with_two_messages(channel):
    call = channel.stream_unary("/inference.GRPCInferenceService/ModelInfer")
    message = request_of("floats").SerializeToString()
    with pytest.raises(grpc.RpcError) as error:
        call(iter([message, message]))
    assert error.value.code() == grpc.StatusCode.INTERNAL
    with pytest.raises(grpc.RpcError) as error:
        call(iter([]))
    assert error.value.code() == grpc.StatusCode.INTERNAL


def test_unknown_method(channel):
    with pytest.raises(grpc.RpcError) as error:
        channel.unary_unary("/inference.GRPCInferenceService/Nothing")(b"")
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("size", [1, 5000, 300_000, 3_000_000])
def test_sizes_typed_and_raw(channel, size):
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    values = np.arange(size, dtype=np.float32)
    raw = stub.ModelInfer(request_of("floats", values))
    typed_request = request_of("floats", values)
    del typed_request.raw_input_contents[:]
    typed_request.inputs[0].contents.fp32_contents.extend(values.tolist())
    assert raw.raw_output_contents[0] == values.tobytes()
    assert stub.ModelInfer(typed_request).raw_output_contents[0] == values.tobytes()


def test_error_messages_of_a_stream(channel):
    answers = list(stream_of(channel, [request_of("floats", request_id="a"), request_of("nobody", request_id="b"),
                                       request_of("floats", request_id="c")]))
    assert [answer.infer_response.id for answer in answers] == ["a", "b", "c"]
    assert "unknown model" in answers[1].error_message
    assert [answer.error_message for answer in answers if answer.infer_response.id != "b"] == ["", ""]
    assert answers[2].infer_response.parameters["triton_final_response"].bool_param


@pytest.mark.parametrize("bad, code", [(request_of("nobody"), grpc.StatusCode.NOT_FOUND),
                                       (request_of("floats", shape=[1, 7]), grpc.StatusCode.INVALID_ARGUMENT)])
def test_errors_end_the_stream_when_asked(channel, bad, code):
    call = stream_of(channel, [request_of("floats", request_id="a"), bad, request_of("floats", request_id="c")],
                     metadata=[("triton_grpc_error", "true")])
    got = []
    with pytest.raises(grpc.RpcError) as error:
        for answer in call:
            got.append(answer.infer_response.id)
    assert error.value.code() == code
    assert got == ["a"]


def test_slow_requests_keep_the_order_of_a_stream(channel):
    ids = [f"{model}{i}" for i in range(3) for model in ("slow", "floats")]
    answers = list(stream_of(channel, [request_of(i[:-1], request_id=i) for i in ids]))
    assert [answer.infer_response.id for answer in answers] == ids
    assert all(not answer.error_message for answer in answers)


def test_answers_come_while_the_stream_is_open(channel):
    requests = queue.SimpleQueue()
    answers = stream_of(channel, iter(requests.get, None))
    for i in range(100):
        requests.put(request_of("floats", values=range(i + 1), request_id=str(i)))
        assert next(answers).infer_response.id == str(i)
    requests.put(None)
    assert list(answers) == []


def test_cancelled_calls_never_run(server, channel):
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    before = server.statistics("slow_alone")["inference_count"]
    running = stub.ModelInfer.future(request_of("slow_alone"))
    waiting = [stub.ModelInfer.future(request_of("slow_alone")) for _ in range(6)]
    for call in waiting:
        call.cancel()
    assert running.result().model_name == "slow_alone"
    stub.ModelInfer(request_of("slow_alone"))
    assert server.statistics("slow_alone")["inference_count"] - before < 2 + len(waiting)


def test_deadline_ends_a_waiting_request(channel):
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    running = stub.ModelInfer.future(request_of("slow_alone"))
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(request_of("slow_alone"), timeout=0.1)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert running.result().model_name == "slow_alone"


def test_health_service(channel):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"") == b"\x08\x01"
    assert check(b"\x0a\x0cany.service1") == b"\x08\x01"


def test_load_and_unload(models):
    models.add("floats", identity_config())
    with Server(models, "--model-control-mode=explicit") as server, grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert not stub.ModelReady(service_pb2.ModelReadyRequest(name="floats")).ready
        stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name="floats"))
        assert stub.ModelReady(service_pb2.ModelReadyRequest(name="floats")).ready
        assert stub.ModelInfer(request_of("floats")).raw_output_contents[0] == np.float32(1).tobytes()
        config = stub.ModelConfig(service_pb2.ModelConfigRequest(name="floats")).config
        assert config.name == "floats" and config.input[0].name == "INPUT0"
        request = service_pb2.RepositoryModelLoadRequest(model_name="floats")
        request.parameters["colour"].string_param = "red"
        with pytest.raises(grpc.RpcError) as error:
            stub.RepositoryModelLoad(request)
        assert "colour" in error.value.details()
        with pytest.raises(grpc.RpcError) as error:
            stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name="nobody"))
        assert error.value.code() != grpc.StatusCode.OK
        stub.RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name="floats"))
        until(lambda: not stub.ModelReady(service_pb2.ModelReadyRequest(name="floats")).ready, "unloaded")
