#!/usr/bin/env bash
# Runs the gates that need no compiler, cheapest first. All of them run; the exit code is 1 when any failed.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
# shellcheck source=tools/paths.sh
source tools/paths.sh

gates=(format arrows sizes dormant docs words scripts)
usage() {
  cat <<END
Usage: ./dev check [--fix] [--room ROOM] [GATE]...     gates: ${gates[*]}

  ./dev check                 all gates
  ./dev check --fix           formats the C++ files first
  ./dev check --room net      only what is found in src/net
  ./dev check arrows sizes    only these; each is tools/check_GATE.sh or .py and runs alone too
END
}

fix=() chosen=()
while [ $# -gt 0 ]; do
  argument=$1; shift
  case $argument in
    --fix) fix=(--fix);;
    --room)
      [ -n "${1:-}" ] && [ -d "src/$1" ] || { echo "check: --room wants a folder of src/, got '${1:-}'" >&2; exit 2; }
      export STOKER_CHECK_BELOW=src/$1/
      shift;;
    -h|--help) usage; exit 0;;
    *)
      if ! printf '%s\n' "${gates[@]}" | grep -qx -- "$argument"; then
        echo "check: no gate '$argument'; there are: ${gates[*]}" >&2
        exit 2
      fi
      chosen+=("$argument");;
  esac
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${gates[@]}")

failed=()
for gate in "${chosen[@]}"; do
  started=$(date +%s%N)
  code=0
  case $gate in
    format) tools/check_format.sh "${fix[@]}" || code=$?;;
    scripts) tools/check_scripts.sh || code=$?;;
    *) /usr/bin/python3 -B "tools/check_$gate.py" || code=$?;;
  esac
  verdict=ok
  [ $code = 0 ] || { verdict=FAILED; failed+=("$gate"); }
  printf 'check: %-8s %-6s %4d ms\n' "$gate" "$verdict" $((($(date +%s%N) - started) / 1000000))
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "check: failed: ${failed[*]}" >&2
  exit 1
fi
