"""Models and repositories that tests write: identity configurations, small ONNX and OpenVINO IR networks, trained models."""

import os
import pathlib
import shutil
import struct

MODELS = os.environ.get("STOKER_MODELS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "stoker", "models")

DATATYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
             "FP16", "FP32", "FP64", "BF16", "BYTES"]


def config_type(datatype):
    return "TYPE_STRING" if datatype == "BYTES" else "TYPE_" + datatype


def identity_config(datatype="FP32", dims="-1", batch=8, delay_ms=0, extra=""):
    """One input, one output, by the identity engine."""
    text = f"""backend: "identity"
max_batch_size: {batch}
input [ {{ name: "INPUT0" data_type: {config_type(datatype)} dims: [ {dims} ] }} ]
output [ {{ name: "OUTPUT0" data_type: {config_type(datatype)} dims: [ {dims} ] }} ]
"""
    if delay_ms:
        text += f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{delay_ms}" }} }}\n'
    return text + extra


def every_type_config():
    """A tensor of each datatype, all optional, without batching."""
    lines = ['backend: "identity"', "max_batch_size: 0"]
    for i, datatype in enumerate(DATATYPES):
        lines.append(f'input {{ name: "INPUT{i}" data_type: {config_type(datatype)} dims: [ -1 ] optional: true }}')
        lines.append(f'output {{ name: "OUTPUT{i}" data_type: {config_type(datatype)} dims: [ -1 ] }}')
    return "\n".join(lines) + "\n"


class Repository:
    """A folder of models."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    def __fspath__(self):
        return str(self.path)

    def __str__(self):
        return str(self.path)

    def add(self, model, config=None, versions=(1,), file=None, content=None, labels=None):
        """file: (name in the version folder, path or bytes)."""
        folder = self.path / model
        folder.mkdir(exist_ok=True)
        if config is not None:
            self.configure(model, config)
        if labels is not None:
            (folder / "labels.txt").write_text("\n".join(labels) + "\n")
        for version in versions:
            (folder / str(version)).mkdir(exist_ok=True)
            for name, what in (content or ({file[0]: file[1]} if file else {})).items():
                target = folder / str(version) / name
                if isinstance(what, bytes):
                    target.write_bytes(what)
                else:
                    shutil.copyfile(what, target)
        return folder

    def configure(self, model, config):
        """Replaces the configuration at once, as an editor or a deployment would."""
        folder = self.path / model
        part = folder / ".config.part"
        part.write_text(config)
        os.replace(part, folder / "config.pbtxt")


# ---- ONNX, written by its wire format: a field is a number, a text, or a message.

_ONNX_TYPES = {"FP32": 1, "INT32": 6, "INT64": 7}


def _varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _number(field, value):
    return _varint(field << 3) + _varint(value)


def _bytes(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _value_info(name, datatype, dims):
    shape = b"".join(_bytes(1, _bytes(2, dim) if isinstance(dim, str) else _number(1, dim)) for dim in dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, _ONNX_TYPES[datatype]) + _bytes(2, shape)))


def onnx_affine(scale=2.0, offset=1.0, width=4, batch="N", datatype="FP32"):
    """y = x * scale + offset over [batch, width]; a batch given as a number is fixed."""
    def constant(name, value):
        return _bytes(5, _number(2, 1) + _bytes(8, name) + _bytes(9, struct.pack("<f", value)))

    def node(operator, inputs, output):
        return _bytes(1, b"".join(_bytes(1, name) for name in inputs) + _bytes(2, output) + _bytes(3, output)
                      + _bytes(4, operator))

    graph = (node("Mul", ["x", "scale"], "scaled") + node("Add", ["scaled", "offset"], "y") + _bytes(2, "affine")
             + constant("scale", scale) + constant("offset", offset)
             + _bytes(11, _value_info("x", datatype, [batch, width]))
             + _bytes(12, _value_info("y", datatype, [batch, width])))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _number(2, 13))


def ir_affine(scale=2.0, offset=1.0, width=4):
    """The same as an OpenVINO IR with an open batch dimension: (model.xml, model.bin)."""
    dims = f"<dim>-1</dim><dim>{width}</dim>"
    scalar = "<dim>1</dim><dim>1</dim>"

    def port(tag, number, shape):
        return f'<{tag}><port id="{number}" precision="FP32">{shape}</port></{tag}>'

    def constant(number, name, place):
        return (f'<layer id="{number}" name="{name}" type="Const" version="opset1">'
                f'<data element_type="f32" shape="1, 1" offset="{place}" size="4"/>'
                f'{port("output", 0, scalar)}</layer>')

    def binary(number, name, operator, left, right):
        return (f'<layer id="{number}" name="{name}" type="{operator}" version="opset1">'
                f'<data auto_broadcast="numpy"/><input><port id="0" precision="FP32">{left}</port>'
                f'<port id="1" precision="FP32">{right}</port></input>'
                f'<output><port id="2" precision="FP32" names="{name}">{dims}</port></output></layer>')

    layers = (f'<layer id="0" name="x" type="Parameter" version="opset1"><data shape="?,{width}" element_type="f32"/>'
              f'<output><port id="0" precision="FP32" names="x">{dims}</port></output></layer>'
              + constant(1, "scale", 0) + constant(2, "offset", 4)
              + binary(3, "scaled", "Multiply", dims, scalar) + binary(4, "y", "Add", dims, scalar)
              + f'<layer id="5" name="result" type="Result" version="opset1">{port("input", 0, dims)}</layer>')
    edges = "".join(f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>' for a, b, c, d in
                    [(0, 0, 3, 0), (1, 0, 3, 1), (3, 2, 4, 0), (2, 0, 4, 1), (4, 2, 5, 0)])
    xml = f'<?xml version="1.0"?><net name="affine" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>'
    return {"model.xml": xml.encode(), "model.bin": struct.pack("<ff", scale, offset)}
