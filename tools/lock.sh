#!/usr/bin/env bash
# Resolves tools/requirements-KIND.in into tools/requirements-KIND.txt: every package pinned by version and
# sha256, with the size of its download. Run by hand when a pin shall move; the result is committed.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
# shellcheck source=tools/paths.sh
source tools/paths.sh

case ${1:-} in
  build|demo|test|bench|models) kind=$1;;
  *) echo "Usage: tools/lock.sh build|demo|test|bench|models    (writes tools/requirements-KIND.txt)" >&2; exit 2;;
esac
[ -e "tools/requirements-$kind.in" ] || { echo "lock: no tools/requirements-$kind.in" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 -m venv "$work/venv"
deps=()
case $kind in models|build) deps=(--no-deps);; esac
"$work/venv/bin/pip" download -q --only-binary=:all: "${deps[@]}" -d "$work/wheels" -r "tools/requirements-$kind.in"
/usr/bin/python3 - "$work/wheels" "$kind" > "$work/out" <<'PY'
import hashlib, os, sys
folder, kind = sys.argv[1:]
print(f"# Made by tools/lock.sh {kind} from requirements-{kind}.in; do not edit. After '#': bytes to download.")
for name in sorted(os.listdir(folder), key=str.lower):
    with open(os.path.join(folder, name), "rb") as wheel:
        data = wheel.read()
    package, version = name.split("-")[:2]
    print(f"{package.replace('_', '-').lower()}=={version} --hash=sha256:{hashlib.sha256(data).hexdigest()}  # {len(data)}")
PY
mv "$work/out" "tools/requirements-$kind.txt"
echo "lock: tools/requirements-$kind.txt written"
