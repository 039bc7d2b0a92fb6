#!/usr/bin/env bash
# cmake --install puts down what a package holds, and the installed command runs from its new place.
#   tools/install_test.sh BUILD
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
[ $# -eq 1 ] || { echo "Usage: tools/install_test.sh BUILD" >&2; exit 2; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$1" --prefix "$place" >/dev/null
for file in share/doc/stoker/LICENSE share/doc/stoker/README.md; do
  [ -s "$place/$file" ] || { echo "install_test: $file was not installed" >&2; exit 1; }
done
if [ -e src/apps/CMakeLists.txt ]; then
  [ -x "$place/bin/stoker" ] || { echo "install_test: bin/stoker was not installed" >&2; exit 1; }
  "$place/bin/stoker" --version
fi
find "$place" -type f -printf '%P %s bytes\n' | sort
