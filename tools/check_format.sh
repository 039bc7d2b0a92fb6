#!/usr/bin/env bash
# Every C++ file is laid out as clang-format 14 lays it out (.clang-format).
#   tools/check_format.sh              names the files that are not
#   tools/check_format.sh --fix [FILE]...    formats them (or only these)
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

fix=0
[ "${1:-}" != --fix ] || { fix=1; shift; }
if ! command -v clang-format-14 >/dev/null; then
  echo "check_format: clang-format-14 is missing (tools/install.sh test installs it)" >&2
  exit 1
fi
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  # shellcheck disable=SC2086  # a list of folders
  mapfile -t files < <(find ${STOKER_CHECK_BELOW:-src bench} -type f \( -name '*.cc' -o -name '*.h' \) 2>/dev/null | sort)
fi
[ ${#files[@]} -gt 0 ] || exit 0
if [ $fix = 1 ]; then
  printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 20 clang-format-14 -i
  exit 0
fi
wrong=$(printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 20 clang-format-14 --dry-run 2>&1 |
        sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning:.*/\1/p' | sort | uniq -c || true)
if [ -n "$wrong" ]; then
  echo "check_format: these files want './dev check --fix format' (places, file):" >&2
  echo "$wrong" >&2
  exit 1
fi
