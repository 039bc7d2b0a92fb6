#!/usr/bin/env bash
# Runs the conformance suite against a build of Stoker.
#   tools/conformance.sh BUILD [OPTIONS OF conformance/run.py]
#   tools/conformance.sh build/test --filter '^infer'
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
# shellcheck source=tools/paths.sh
source tools/paths.sh
case ${1:-} in
  ""|-*) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2;;
esac
binary=$PWD/$1/bin/stoker
shift
tools/install.sh test </dev/null
python=$(venv_python test)
model=conformance/models_openvino/squeeze/1/model.onnx
if [ -d conformance/models_openvino/squeeze ] && [ ! -e "$model" ]; then
  mkdir -p "${model%/*}"
  cp "$STOKER_MODELS/light_squeezenet.onnx" "$model"
fi
# Refused by name so far: Python models, keys for parts of the protocols, summaries, forwarded headers.
exec "$python" -B conformance/run.py --without python,restricted,summaries,forward --launch \
  "$binary serve --model-repository={repo} --http-port={http} --grpc-port={grpc} --metrics-port={metrics} {options}" "$@"
