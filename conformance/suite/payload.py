"""Turns payload specifications of case files into bytes.

A payload is a string (UTF-8 text), a list (its parts joined) or a mapping with one key:

  text: str                  json: value (compact)        hex: "00ff"
  fp32 / fp64 / fp16 / int8 … uint64 / bool: [numbers]    little-endian array
  bf16: [numbers]            truncated float32
  bytes: [payload, …]        elements of a BYTES tensor, each behind its 4-byte length
  zeros: n                   n zero bytes
  repeat: {of: payload, times: n}
  cut: {of: payload, to: n}  the first n bytes
  gzip / deflate: payload    compressed (gzip member, zlib stream)
  chunks: [payload, …]       HTTP chunked coding, with the last chunk
"""

import gzip
import json
import struct
import zlib

_ARRAYS = {
    "fp16": "e", "fp32": "f", "fp64": "d",
    "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "bool": "?",
}


def compact_json(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _bf16(numbers):
    return b"".join(struct.pack("<f", x)[2:] for x in numbers)


def _chunks(parts):
    coded = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in map(to_bytes, parts))
    return coded + b"0\r\n\r\n"


def to_bytes(spec):
    """Bytes of a payload specification; raises ValueError for an unknown form."""
    if spec is None:
        return b""
    if isinstance(spec, bytes):
        return spec
    if isinstance(spec, str):
        return spec.encode()
    if isinstance(spec, list):
        return b"".join(map(to_bytes, spec))
    if not isinstance(spec, dict) or len(spec) != 1:
        raise ValueError(f"payload must be text, a list or a mapping with one key, got {spec!r}")
    kind, value = next(iter(spec.items()))
    if kind in _ARRAYS:
        return struct.pack(f"<{len(value)}{_ARRAYS[kind]}", *value)
    makers = {
        "text": lambda: value.encode(),
        "json": lambda: compact_json(value).encode(),
        "hex": lambda: bytes.fromhex(value),
        "bf16": lambda: _bf16(value),
        "bytes": lambda: b"".join(struct.pack("<I", len(b)) + b for b in map(to_bytes, value)),
        "zeros": lambda: bytes(value),
        "repeat": lambda: to_bytes(value["of"]) * value["times"],
        "cut": lambda: to_bytes(value["of"])[: value["to"]],
        "gzip": lambda: gzip.compress(to_bytes(value), mtime=0),
        "deflate": lambda: zlib.compress(to_bytes(value)),
        "chunks": lambda: _chunks(value),
    }
    if kind == "hex" and not isinstance(value, str):
        raise ValueError(f"hex must be quoted, got {value!r}")
    if kind not in makers:
        raise ValueError(f"unknown payload kind '{kind}'")
    return makers[kind]()
