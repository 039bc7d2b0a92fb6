"""gRPC calls with messages given as plain values. Message classes come from the tritonclient package."""

import importlib.util
import sys
import types

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .payload import to_bytes

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]


def _load_messages():
    """Imports the generated messages without the client around them, which would need numpy."""
    spec = importlib.util.find_spec("tritonclient")
    if spec is None:
        raise SystemExit("conformance: the package tritonclient is missing: pip install -r conformance/requirements.txt")
    root = list(spec.submodule_search_locations)
    for name, path in (("tritonclient", root), ("tritonclient.grpc", [p + "/grpc" for p in root])):
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__path__ = path
            sys.modules[name] = module
    return importlib.import_module("tritonclient.grpc.service_pb2")


def _health_messages():
    file = descriptor_pb2.FileDescriptorProto(name="stoker_health.proto", package="grpc.health.v1", syntax="proto3")
    request = file.message_type.add(name="HealthCheckRequest")
    request.field.add(name="service", number=1, type=9, label=1)
    response = file.message_type.add(name="HealthCheckResponse")
    status = response.enum_type.add(name="ServingStatus")
    for number, name in enumerate(("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")):
        status.value.add(name=name, number=number)
    response.field.add(
        name="status", number=1, type=14, label=1, type_name=".grpc.health.v1.HealthCheckResponse.ServingStatus"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return tuple(
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"grpc.health.v1.{name}"))
        for name in ("HealthCheckRequest", "HealthCheckResponse")
    )


_messages = _load_messages()
_health = _health_messages()


def classes_of(method):
    """Path of a method and its request and response classes. 'Health/Check' is the health service."""
    if method == "Health/Check":
        return ("/grpc.health.v1.Health/Check",) + _health
    service = _messages.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    path = f"/inference.GRPCInferenceService/{method}"
    if method not in service:
        return path, None, None
    found = service[method]
    get = message_factory.GetMessageClass
    return path, get(found.input_type), get(found.output_type)


def _repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _is_map(field):
    return field.type == field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry


def _scalar(field, value):
    if field.type == field.TYPE_BYTES:
        return to_bytes(value)
    if field.type == field.TYPE_ENUM and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return value


def fill(message, values):
    """Sets the fields of message from plain values; bytes fields take payloads."""
    for name, value in values.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        target = getattr(message, name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            for key, item in value.items():
                if inner.type == inner.TYPE_MESSAGE:
                    target[key].SetInParent()
                    fill(target[key], item)
                else:
                    target[key] = _scalar(inner, item)
        elif _repeated(field):
            for item in value:
                if field.type == field.TYPE_MESSAGE:
                    fill(target.add(), item)
                else:
                    target.append(_scalar(field, item))
        elif field.type == field.TYPE_MESSAGE:
            target.SetInParent()
            fill(target, value)
        else:
            setattr(message, name, _scalar(field, value))
    return message


def _plain(field, value):
    if field.type == field.TYPE_MESSAGE:
        return dump(value)
    if field.type == field.TYPE_BYTES:
        return {"hex": value.hex()}
    if field.type == field.TYPE_ENUM:
        found = field.enum_type.values_by_number.get(value)
        return found.name if found else value
    return value


def dump(message):
    """Plain values of the fields that are set."""
    result = {}
    for field, value in message.ListFields():
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            result[field.name] = {str(k): _plain(inner, value[k]) for k in value}
        elif _repeated(field):
            result[field.name] = [_plain(field, v) for v in value]
        else:
            result[field.name] = _plain(field, value)
    return result


def encode(method, message):
    """Wire bytes of a request. A mapping {wire: payload} is taken as it is."""
    _, request, _ = classes_of(method)
    if request is None:
        return b""
    if isinstance(message, dict) and set(message) == {"wire"}:
        return to_bytes(message["wire"])
    return fill(request(), message or {}).SerializeToString()


class Client:
    """Calls on one channel. Thread-safe as a channel is."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)

    def close(self):
        self._channel.close()

    def unary(self, method, message, metadata, timeout_s, compression):
        """Answer of a unary call as {code, message} or {code, details}."""
        path, _, response = classes_of(method)
        call = self._channel.unary_unary(path)
        try:
            data = call(encode(method, message), metadata=metadata, timeout=timeout_s, compression=compression)
        except grpc.RpcError as error:
            return {"code": error.code().name, "details": error.details() or ""}
        return {"code": "OK", "message": dump(response.FromString(data)) if response else {"hex": data.hex()}}

    def stream(self, messages, metadata, timeout_s):
        """Answer of ModelStreamInfer: every message that came, and the final code."""
        path, _, response = classes_of("ModelStreamInfer")
        call = self._channel.stream_stream(path)
        encoded = iter([encode("ModelStreamInfer", m) for m in messages])
        result = {"messages": []}
        try:
            for data in call(encoded, metadata=metadata, timeout=timeout_s):
                result["messages"].append(dump(response.FromString(data)))
            result["code"] = "OK"
        except grpc.RpcError as error:
            result["code"] = error.code().name
            result["details"] = error.details() or ""
        return result


def compression_of(name):
    return {None: grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}[name]
