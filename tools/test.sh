#!/usr/bin/env bash
# Everything that must hold before a change lands: installs what is missing, then runs tools/test.py.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
# shellcheck source=tools/paths.sh
source tools/paths.sh
case ${1:-} in
  -h|--help|--list) exec /usr/bin/python3 -B tools/test.py "$@";;
esac
started=$SECONDS
tools/install.sh test </dev/null
STOKER_PYTHON=$(venv_python test)
OpenVINO_DIR=$(openvino_cmake)
export STOKER_PYTHON OpenVINO_DIR
exec /usr/bin/python3 -B -u tools/test.py --install-seconds $((SECONDS - started)) "$@"
