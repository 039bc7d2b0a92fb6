#!/usr/bin/env bash
# Shell scripts pass shellcheck, Python files pass pyflakes.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

for program in shellcheck pyflakes3; do
  if ! command -v "$program" >/dev/null; then
    echo "check_scripts: $program is missing (tools/install.sh test installs it)" >&2
    exit 1
  fi
done
folders=()
for folder in tools bench tests conformance src python; do
  [ ! -d "$folder" ] || folders+=("$folder")
done
mapfile -t shell < <(find "${folders[@]}" -type f -name '*.sh' | sort; printf '%s\n' dev .ci/run)
mapfile -t python < <(find "${folders[@]}" -type f -name '*.py' -not -path '*/conformance/models/*' | sort)
code=0
shellcheck -x --severity=info --exclude=SC2015 "${shell[@]}" || code=1
[ ${#python[@]} -eq 0 ] || pyflakes3 "${python[@]}" || code=1
exit $code
