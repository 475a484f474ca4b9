#!/usr/bin/env bash
# Installs a build into a scratch prefix, builds the library document's program against it, runs it,
# and asks the installed program for its help.
#   install_test.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
# Sources of the tree must not be needed: only the snippet itself is taken from there.
cmake -S "$source/tests/install" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$scratch/prefix" -DWHISKER_SOURCE_DIR="$source" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
cmake --build "$scratch/build" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/build/learn"
"$scratch/build/images"
"$scratch/prefix/bin/whisker" --help >/dev/null
# The command that it names for weights is one of the installation, with its table.
fetch=$("$scratch/prefix/bin/whisker" models mobilenet_v2 | grep fetch_weights.sh)
[ "$fetch" = "  $scratch/prefix/share/whisker/scripts/fetch_weights.sh mobilenet_v2" ] || { echo "got: $fetch"; exit 1; }
mkdir -p "$scratch/data/whisker/weights"
echo other >"$scratch/data/whisker/weights/mobilenet_v2-b0353104.pth"
XDG_DATA_HOME=$scratch/data $fetch 2>"$scratch/log" && { echo "another file counts as the weights"; exit 1; }
grep -q 'expected b0353104' "$scratch/log" || { cat "$scratch/log"; exit 1; }
