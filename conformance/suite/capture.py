"""Brings answers into the form that is recorded and compared."""

import gzip
import hashlib
import zlib

from . import lenient_json

# Headers that mean something to a client of the protocol; all others are left out.
_HEADERS = ("content-type", "content-encoding", "accept-encoding", "allow")
# Four demonstration parameters that the identity backend attaches to every answer.
_DEMONSTRATION = ("param0", "param1", "param2", "param3")
# Text longer than this is cut, tensor bytes longer than that are told by their digest.
_LONG_TEXT = 65536
_LONG_TENSOR = 2048
_LONG_ERROR = 1000


def _hex(data):
    if len(data) <= _LONG_TENSOR:
        return data.hex()
    return f"sha256 of {len(data)} bytes: {hashlib.sha256(data).hexdigest()}"


def _without_demonstration(answer):
    parameters = answer.get("parameters")
    if isinstance(parameters, dict):
        kept = {k: v for k, v in parameters.items() if k not in _DEMONSTRATION}
        answer.pop("parameters")
        if kept:
            answer["parameters"] = kept
    return answer


def _by_name(tensors):
    """Outputs may come in any order: a mapping if the names are good for it, else as they are."""
    names = [t.get("name") for t in tensors if isinstance(t, dict)]
    if len(names) != len(tensors) or None in names or len(set(names)) != len(names):
        return tensors
    return {t["name"]: {k: v for k, v in t.items() if k != "name"} for t in tensors}


def _sorted_index(entries):
    """Entries of a repository index, which may come in any order."""
    if not all(isinstance(e, dict) and "name" in e for e in entries):
        return entries
    return sorted(entries, key=lambda e: (e["name"], str(e.get("version", ""))))


def _infer_answer(value):
    if isinstance(value, list):
        return _sorted_index(value)
    if isinstance(value, dict) and isinstance(value.get("error"), str):
        return {**value, "error": value["error"][:_LONG_ERROR]}
    if isinstance(value, dict) and "outputs" in value and "model_name" in value:
        value = _without_demonstration(dict(value))
        if isinstance(value["outputs"], list):
            value["outputs"] = _by_name(value["outputs"])
    elif isinstance(value, dict) and "model_name" in value:
        value = {k: v for k, v in value.items() if k not in _DEMONSTRATION}
    return value


def _split_binary(body, json_size):
    """JSON part and, per output, its bytes as hex; whatever is left over is told."""
    value = lenient_json.parse(body[:json_size])
    rest = body[json_size:]
    for output in value.get("outputs", []):
        size = output.get("parameters", {}).get("binary_data_size")
        if size is not None:
            output["binary"] = _hex(rest[:size])
            rest = rest[size:]
    if rest:
        value["$left_over"] = _hex(rest)
    return value


def _unpack(answer):
    coding = answer.header("content-encoding")
    if coding == "gzip":
        return gzip.decompress(answer.body)
    if coding == "deflate":
        return zlib.decompress(answer.body)
    return answer.body


def _body(answer):
    try:
        data = _unpack(answer)
    except (OSError, EOFError, zlib.error):
        return {"hex": answer.body.hex(), "unreadable": True}
    if not data:
        return {"empty": True}
    size = answer.header("inference-header-content-length")
    try:
        if size is not None:
            return {"binary": _infer_answer(_split_binary(data, int(size)))}
        return {"json": _infer_answer(lenient_json.parse(data))}
    except (ValueError, AttributeError):
        pass
    text = data.decode("utf-8", "backslashreplace")
    return {"text": text[:_LONG_TEXT]}


def http(answer):
    """{status, headers, body} of an HTTP answer; types of errors and of empty bodies are without a rule: left out."""
    headers = {}
    for name in _HEADERS:
        value = answer.header(name)
        if value is None or (name == "content-type" and (answer.status != 200 or not answer.body)):
            continue
        headers[name] = value.split(";")[0] if name == "content-type" else value
    result = {"status": answer.status, "headers": headers, "body": _body(answer)}
    if answer.interim:
        result["interim"] = answer.interim
    return result


def _grpc_infer(message):
    message = _without_demonstration(dict(message))
    raw = message.pop("raw_output_contents", [])
    outputs = [dict(o) for o in message.get("outputs", [])]
    for output, data in zip(outputs, raw):
        output["raw"] = _hex(bytes.fromhex(data["hex"]))
    if len(raw) > len(outputs):
        message["$left_over"] = raw[len(outputs):]
    if outputs:
        message["outputs"] = _by_name(outputs)
    return message


def grpc(answer, method):
    """A unary answer, outputs joined with their bytes."""
    if answer["code"] == "OK" and method == "ModelInfer":
        return {"code": "OK", "message": _grpc_infer(answer["message"])}
    if answer["code"] == "OK" and method == "RepositoryIndex" and "models" in answer["message"]:
        return {"code": "OK", "message": {"models": _sorted_index(answer["message"]["models"])}}
    return answer


def stream(answer):
    """A stream's messages, each {error} or {response}."""
    messages = []
    for message in answer["messages"]:
        item = {}
        if message.get("error_message"):
            item["error"] = message["error_message"]
        if "infer_response" in message:
            item["response"] = _grpc_infer(message["infer_response"])
        messages.append(item)
    result = {"messages": messages, "code": answer["code"]}
    if "details" in answer:
        result["details"] = answer["details"]
    return result
