#!/usr/bin/env bash
# Runs fuzz targets (libFuzzer, address and undefined behaviour sanitizers) from their committed seeds.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
# shellcheck source=tools/paths.sh
source tools/paths.sh

usage() {
  cat <<'END'
Usage: ./dev fuzz TARGET [--seconds N] | --all [--seconds N] | --list

  ./dev fuzz --list
  ./dev fuzz json --seconds 600        from src/*/fuzz_corpus/json, into build/fuzz/json
  ./dev fuzz --all --seconds 15        each target for 15 s, as ./dev test does

An input that breaks something is left in build/fuzz/crash-TARGET-*: make it a unit test and a seed.
END
}

declared() {
  grep -rhoE 'fuzz_target\(NAME [a-z0-9_]+' src --include=CMakeLists.txt | sed 's/.*NAME //' | sort || true
}

build=1 all=0 seconds=60 target=
while [ $# -gt 0 ]; do
  case $1 in
    --no-build) build=0; shift;;
    --all) all=1; shift;;
    --list) declared; exit 0;;
    --seconds)
      [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "fuzz: --seconds wants a number, got '${2:-}'" >&2; exit 2; }
      seconds=$2; shift 2;;
    -h|--help) usage; exit 0;;
    -*) echo "fuzz: unknown option '$1'" >&2; usage >&2; exit 2;;
    *) target=$1; shift;;
  esac
done
[ $all = 1 ] || [ -n "$target" ] || { usage >&2; exit 2; }
[ $build = 0 ] || tools/build.sh --preset asan

targets=()
for binary in build/asan/bin/fuzz_*; do
  [ -x "$binary" ] || continue
  name=${binary##*/fuzz_}
  [ $all = 1 ] || [ "$name" = "$target" ] || continue
  targets+=("$name")
done
if [ $all = 1 ] && [ ${#targets[@]} -lt "$(declared | wc -l)" ]; then
  echo "fuzz: of the targets $(declared | tr '\n' ' ')only '${targets[*]}' are built" >&2
  exit 1
fi
if [ ${#targets[@]} -eq 0 ]; then
  [ $all = 0 ] || { echo "fuzz: there are no fuzz targets yet"; exit 0; }
  echo "fuzz: no target '$target' (see ./dev fuzz --list)" >&2
  exit 2
fi

# One target; its new inputs grow in build/fuzz/NAME, its seeds are only read.
fuzz_one() {
  local name=$1 seeds work=build/fuzz/$1
  mkdir -p "$work"
  seeds=$(find src -type d -path "*/fuzz_corpus/$name" | head -n 1)
  local options=(-max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
                 -artifact_prefix="build/fuzz/crash-$name-")
  if ! "build/asan/bin/fuzz_$name" "${options[@]}" "$work" ${seeds:+"$seeds"} >"build/fuzz/$name.log" 2>&1; then
    tail -n 40 "build/fuzz/$name.log"
    echo "fuzz: $name FAILED; the input lies in build/fuzz/crash-$name-*, the log in build/fuzz/$name.log"
    return 1
  fi
  printf 'fuzz: %s ok, %s inputs tried\n' "$name" \
    "$(sed -n 's/stat::number_of_executed_units: *//p' "build/fuzz/$name.log")"
}
export -f fuzz_one
mkdir -p build/fuzz
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one "$@"' fuzz {} "$seconds"
