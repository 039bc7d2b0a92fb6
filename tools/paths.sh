# shellcheck shell=bash
# Where things lie outside the checkout. Sourced by ./dev and tools/*.sh from the repository's root.
STOKER_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/stoker
# Models taken out of packages (tools/models.py).
export STOKER_MODELS=$STOKER_CACHE/models
# Programs unpacked from Debian packages that would start a service when installed (tools/install.sh).
STOKER_ASIDE=$STOKER_CACHE/aside
export PATH=$PATH:$STOKER_ASIDE/usr/bin:$STOKER_ASIDE/usr/sbin
# One C locale everywhere, so that what tools print can be read by scripts.
export LC_ALL=C.UTF-8
# A user's own Python settings must not leak into the pinned environments.
unset PYTHONPATH PYTHONHOME
export PYTHONDONTWRITEBYTECODE=1

# The Python environment of a kind (build, demo, test, bench): named after what it holds.
venv_folder() {
  local sum
  sum=$(sha256sum "tools/requirements-$1.txt")
  printf '%s/venv-%s-%s' "$STOKER_CACHE" "$1" "${sum:0:12}"
}
venv_python() { printf '%s/bin/python' "$(venv_folder "$1")"; }

# The folder with OpenVINO's CMake package, or nothing when it is not installed.
openvino_cmake() {
  local folder
  for folder in "$(venv_folder build)"/lib/python3*/site-packages/openvino/cmake; do
    [ ! -e "$folder/OpenVINOConfig.cmake" ] || printf '%s' "$folder"
  done
}
