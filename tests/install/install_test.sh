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
