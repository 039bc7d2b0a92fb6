#!/usr/bin/env bash
# Installs what a verb of ./dev needs on Debian 12: Debian packages, a Python environment pinned by hash,
# and models that packages ship. Says what and how much first; does nothing when nothing is missing.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
# shellcheck source=tools/paths.sh
source tools/paths.sh

usage() {
  cat <<'END'
Usage: tools/install.sh build|demo|test|bench [--dry-run]

  tools/install.sh build              compilers, libraries, OpenVINO
  tools/install.sh demo --dry-run     only says what is missing and how much would be downloaded

Packages come from the machine's own apt and pip configuration. Root is needed (sudo is used) only when a
Debian package is missing. Everything else goes to $XDG_CACHE_HOME/stoker (default ~/.cache/stoker).
END
}

if [ "$(uname -m)" != x86_64 ]; then
  echo "install: Stoker is built for x86-64, and this machine is $(uname -m)" >&2
  exit 1
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install: made for Debian 12, and here is no apt; what is needed is listed in docs/dependencies.md" >&2
  exit 1
fi
say() { printf 'install: %s\n' "$*" >&2; }

kind='' dry_run=0
for argument in "$@"; do
  case $argument in
    build|demo|test|bench) kind=$argument;;
    --dry-run) dry_run=1;;
    -h|--help) usage; exit 0;;
    *) say "unknown argument '$argument'"; usage >&2; exit 2;;
  esac
done
[ -n "$kind" ] || { usage >&2; exit 2; }

# --- What is wanted. One line of reason for each in docs/dependencies.md.
packages=(g++ cmake ninja-build pkg-config libnghttp2-dev zlib1g-dev libprotobuf-dev protobuf-compiler
          python3 python3-venv)
environments=(build) aside=() models=0
case $kind in
  demo) packages+=(curl); environments+=(demo); models=1;;
  test)
    packages+=(curl libgtest-dev clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev valgrind
               shellcheck pyflakes3)
    environments+=(test); aside=(prometheus); models=1;;
  bench) packages+=(curl wrk nghttp2-client); environments+=(bench); aside=(nginx); models=1;;
esac

# --- Two installs at once wait for each other; the lock goes with the process.
mkdir -p "$STOKER_CACHE"
exec 9>"$STOKER_CACHE/install.lock"
if ! flock -n 9; then
  say "another install is running; waiting for it"
  flock 9
fi

# --- What of it is missing.
missing=()
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
for package in "${packages[@]}"; do
  grep -qx -- "$package" <<<"$installed" || missing+=("$package")
done
missing_aside=()
for package in "${aside[@]}"; do
  command -v "$package" >/dev/null || missing_aside+=("$package")
done
missing_environments=()
for environment in "${environments[@]}"; do
  [ -e "$(venv_folder "$environment")/complete" ] || missing_environments+=("$environment")
done
missing_models=0
[ $models = 0 ] || /usr/bin/python3 tools/models.py --check 2>/dev/null || missing_models=1

if [ ${#missing[@]} -eq 0 ] && [ ${#missing_aside[@]} -eq 0 ] && [ ${#missing_environments[@]} -eq 0 ] &&
   [ $missing_models = 0 ]; then
  [ $dry_run = 0 ] || say "nothing is missing for '$kind'"
  exit 0
fi

# --- Root, where Debian packages need it.
as_root=()
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" != 0 ] && [ $dry_run = 0 ]; then
  if ! command -v sudo >/dev/null; then
    say "Debian packages are missing, and there is neither root nor sudo. Have an administrator run:"
    say "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    exit 1
  fi
  as_root=(sudo)
fi
# Runs apt-get without the lock's descriptor (what it starts must not hold it); on failure shows why and stops.
apt() {
  local log
  log=$(mktemp)
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >"$log" 2>&1 </dev/null 9>&-; then
    tail -n 30 "$log" >&2
    say "'apt-get $*' failed; the whole output is in $log"
    return 1
  fi
  rm -f "$log"
}
have_lists() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }
if [ $((${#missing[@]} + ${#missing_aside[@]})) -gt 0 ] && ! have_lists && [ $dry_run = 0 ]; then
  say "fetching apt's package lists first (about 10 MB)"
  apt update || exit 1
fi

# --- Say it first.
megabytes() { awk -v bytes="$1" 'BEGIN { printf "%.0f MB", bytes / 1e6 + 0.5 }'; }
pinned_bytes() { awk -F'# ' '/ --hash=/ { sum += $NF } END { print sum + 0 }' "tools/requirements-$1.txt"; }
apt_bytes() { apt-get "$@" --print-uris -qq 2>/dev/null | awk '{ sum += $3 } END { print sum + 0 }'; }
apt_size() {
  local bytes
  bytes=$(apt_bytes "$@" || true)
  if [ "${bytes:-0}" = 0 ]; then echo "size unknown until apt's lists are fetched"; else echo "about $(megabytes "$bytes")"; fi
}

say "needed for '$kind' and missing:"
if [ ${#missing[@]} -gt 0 ]; then
  say "  Debian packages: ${missing[*]} (with what they depend on: $(apt_size install --no-install-recommends "${missing[@]}"))"
fi
for package in "${missing_aside[@]}"; do
  say "  $package, unpacked aside without starting a service ($(apt_size download "$package"))"
done
for environment in "${missing_environments[@]}"; do
  say "  Python packages for '$environment' (about $(megabytes "$(pinned_bytes "$environment")"), into $(venv_folder "$environment"))"
done
if [ $missing_models = 1 ]; then
  say "  models shipped in Python packages (about $(megabytes "$(pinned_bytes models)"), into $STOKER_MODELS)"
fi
[ $dry_run = 0 ] || exit 0

# --- Debian packages. Lists may be older than the archive: then they are fetched anew, once.
if [ ${#missing[@]} -gt 0 ]; then
  say "apt-get install: a minute or two"
  if ! apt install -y --no-install-recommends "${missing[@]}"; then
    say "trying once more with fresh lists"
    apt update || exit 1
    apt install -y --no-install-recommends "${missing[@]}" || exit 1
  fi
fi

# --- Programs unpacked aside: installing these packages would start a service.
for package in "${missing_aside[@]}"; do
  say "unpacking $package"
  work=$(mktemp -d)
  if ! (cd "$work" && apt-get -q download "$package" >"$work/log" 2>&1 && dpkg-deb -x "$package"_*.deb "$work/root"); then
    cat "$work/log" >&2
    say "could not download $package; try 'apt-get update' first"
    exit 1
  fi
  mkdir -p "$STOKER_ASIDE/usr/bin" "$STOKER_ASIDE/usr/sbin"
  for folder in usr/bin usr/sbin; do
    [ ! -d "$work/root/$folder" ] || cp -p "$work/root/$folder"/* "$STOKER_ASIDE/$folder/"
  done
  rm -rf "$work"
done

# --- Python environments: `complete` is written last, so that one cut short is made anew.
for environment in "${missing_environments[@]}"; do
  folder=$(venv_folder "$environment")
  say "Python environment '$environment'"
  version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  if [ "$version" != 3.11 ]; then
    say "the pins are for Debian 12's Python 3.11, and /usr/bin/python3 is $version"
    exit 1
  fi
  rm -rf "$folder"
  /usr/bin/python3 -m venv "$folder"
  "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-deps --only-binary=:all: \
    --require-hashes -r "tools/requirements-$environment.txt" </dev/null
  : > "$folder/complete"
  # Environments of older pins are not needed by this checkout; they stay for other checkouts.
done

[ $missing_models = 0 ] || /usr/bin/python3 tools/models.py --python "$(venv_python "${environments[-1]}")"
say "all there"
