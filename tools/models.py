"""Takes the trained models of the demo and the tests out of the Python packages that ship them.

  tools/models.py --check             exit 0 when all are there
  tools/models.py --python PYTHON     downloads with that environment's pip what is missing

The packages themselves are not installed; they are pinned in tools/requirements-models.txt.
Models go to $STOKER_MODELS (default ~/.cache/stoker/models).
"""

import argparse
import glob
import os
import subprocess
import sys
import tempfile
import zipfile

# Name below the folder: (package, file in its wheel).
MODELS = {
    "silero_vad.onnx": ("silero_vad", "silero_vad/data/silero_vad.onnx"),
    "silero_vad_16k_op15.onnx": ("silero_vad", "silero_vad/data/silero_vad_16k_op15.onnx"),
    "magika.onnx": ("magika", "magika/models/standard_v3_3/model.onnx"),
    "magika_config.json": ("magika", "magika/models/standard_v3_3/config.min.json"),
    "light_squeezenet.onnx": ("onnx", "onnx/backend/test/data/light/light_squeezenet.onnx"),
    "light_resnet50.onnx": ("onnx", "onnx/backend/test/data/light/light_resnet50.onnx"),
}
PINS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "requirements-models.txt")


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("STOKER_MODELS") or os.path.join(cache, "stoker", "models")


def pins():
    with open(PINS, encoding="utf-8") as lines:
        return lines.read()


def complete():
    try:
        with open(os.path.join(folder(), "complete"), encoding="utf-8") as stamp:
            return stamp.read() == pins() + repr(MODELS)
    except OSError:
        return False


def extract(wheels):
    for name, (package, member) in MODELS.items():
        (wheel,) = glob.glob(os.path.join(wheels, package + "-*.whl"))
        target = os.path.join(folder(), name)
        with zipfile.ZipFile(wheel) as archive, open(target + ".part", "wb") as out:
            out.write(archive.read(member))
        os.replace(target + ".part", target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--python", help="the environment whose pip downloads")
    options = parser.parse_args()
    if options.check:
        return 0 if complete() else 1
    if not options.python:
        parser.error("--python is needed")
    if complete():
        return 0
    os.makedirs(folder(), exist_ok=True)
    with tempfile.TemporaryDirectory() as wheels:
        subprocess.run(
            [options.python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--require-hashes", "-d", wheels, "-r", PINS],
            check=True, stdin=subprocess.DEVNULL)
        extract(wheels)
    with open(os.path.join(folder(), "complete"), "w", encoding="utf-8") as stamp:
        stamp.write(pins() + repr(MODELS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
