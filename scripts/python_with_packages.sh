#!/usr/bin/env bash
# Runs Python with the packages from PyPI that some tests compare with, where they are installed.
#   scripts/python_with_packages.sh --make          makes build/python; exit code 1, with the reason, where it cannot
#   scripts/python_with_packages.sh SCRIPT [ARGUMENT...]
# Without build/python the system's Python runs the script: it skips what it lacks packages for.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/build/python
packages=(onnxruntime==1.32.0 numpy==2.4.6 tensorboard==2.21.0)

if [ "${1:-}" = --make ]; then
  [ "$(cat "$folder/installed" 2>/dev/null)" = "${packages[*]}" ] && exit 0
  rm -rf "$folder"
  log=$(python3 -m venv "$folder" 2>&1) && log=$("$folder/bin/python" -m pip install -q --disable-pip-version-check \
    --timeout 20 --retries 1 "${packages[@]}" 2>&1) || {
    rm -rf "$folder"
    echo "no packages from PyPI: $(printf '%s' "$log" | tail -n 1)"
    exit 1
  }
  echo "${packages[*]}" >"$folder/installed"
  exit 0
fi
python=$folder/bin/python
[ -f "$folder/installed" ] || python=python3
exec "$python" "$@"
