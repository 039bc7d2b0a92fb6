#!/usr/bin/env bash
# Installs what a build needs, configures and builds one preset.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
# shellcheck source=tools/paths.sh
source tools/paths.sh

usage() {
  cat <<'END'
Usage: ./dev build [--preset NAME] [--bench] [--target NAME]... [--jobs N] [--no-install]

  ./dev build                           build/bin/stoker, optimised
  ./dev build --preset test             build/test: with the unit tests
  ./dev build --preset asan             build/asan: clang, address + undefined behaviour, fuzz targets
  ./dev build --preset tsan             build/tsan: clang, data races
  ./dev build --bench                   with the measuring programs of bench/
  ./dev build --target stoker_base      only this target
END
}

preset=release jobs=$(nproc) install=1
targets=() options=()
value() { [ $# -ge 2 ] || { echo "build: $1 wants a value" >&2; exit 2; }; }
while [ $# -gt 0 ]; do
  case $1 in
    --preset) value "$@"; preset=$2; shift 2;;
    --target) value "$@"; targets+=("$2"); shift 2;;
    --jobs) value "$@"; jobs=$2; shift 2;;
    --bench) options+=(-DSTOKER_BENCH=ON); shift;;
    --no-install) install=0; shift;;
    -h|--help) usage; exit 0;;
    *) echo "build: unknown option '$1' (see ./dev build --help)" >&2; exit 2;;
  esac
done

case $preset in
  release) folder=build kind=build;;
  test|asan|tsan) folder=build/$preset kind=test;;
  *) echo "build: no preset '$preset'; one of release, test, asan, tsan" >&2; exit 2;;
esac
[ $install = 0 ] || tools/install.sh "$kind"

case $preset in
  # Sanitizer builds do without OpenVINO: its plugin reports races and leaks of its own.
  asan|tsan) ;;
  *)
    openvino=$(openvino_cmake)
    [ -n "$openvino" ] || { echo "build: OpenVINO is not there; run tools/install.sh build" >&2; exit 1; }
    options+=("-DOpenVINO_DIR=$openvino");;
esac
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi

mkdir -p "$folder"
log=$folder/configure.log
if ! cmake --preset "$preset" "${options[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  echo "build: configuring failed (see $log)" >&2
  exit 1
fi
started=$SECONDS
export NINJA_STATUS='[%f/%t %es] '
ninja -C "$folder" -j "$jobs" "${targets[@]}"
echo "build: $folder ready in $((SECONDS - started)) s"
