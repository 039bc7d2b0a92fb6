#!/usr/bin/env python3
"""Puts light_squeezenet.onnx of the onnx package into models_openvino/squeeze/1; the package itself is not installed."""

import glob
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ONNX = "onnx==1.23.2"
INSIDE = "onnx/backend/test/data/light/light_squeezenet.onnx"
TARGET = pathlib.Path(__file__).resolve().parent / "models_openvino/squeeze/1/model.onnx"


def main():
    if TARGET.exists():
        print(f"{TARGET} is there already")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder, ONNX],
            check=True,
        )
        with zipfile.ZipFile(glob.glob(f"{folder}/onnx-*.whl")[0]) as wheel:
            data = wheel.read(INSIDE)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(data)
    print(f"{TARGET}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
