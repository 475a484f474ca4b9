#!/usr/bin/env bash
# Installs a build into a scratch prefix, builds the programs of docs/guide/library.md against it with the CMake code of
# that page, runs them, and compares the classes with the installed program's.
#   install_test.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME="$scratch/cache"
logged() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }; }
cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
whisker=$scratch/prefix/bin/whisker

# Sources of the tree must not be needed, and no setting but where the package is.
mkdir "$scratch/programs"
awk -v folder="$scratch/programs" -f "$source/tests/install/page_code.awk" "$source/docs/guide/library.md"
logged cmake -S "$scratch/programs" -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix"
logged cmake --build "$scratch/build"
"$scratch/build/learn" >"$scratch/learned" || { cat "$scratch/learned"; exit 1; }
# The page shows what it prints; the digits are the machine's.
shown() { sed -E 's/ -?[0-9][0-9.e-]*(,|$)/ N\1/g' "$@"; }
awk '/^```text$/ {inside = 1; next} /^```/ {inside = 0} inside' "$source/docs/guide/library.md" >"$scratch/page"
diff <(shown "$scratch/page") <(shown "$scratch/learned")

# What the page's program says of files, a buffer, a batch and in threads is what `whisker classify` says.
pushd "$scratch" >/dev/null
logged "$whisker" data generate drawn --per-class 8 --val-per-class 2 --seed 7
logged "$whisker" train --data drawn train.epochs=1 data.image_size=32
mapfile -t images < <(find drawn/val -type f | sort)
build/classify runs/drawn/best.safetensors "${images[@]}" >classes 2>log || { cat classes log; exit 1; }
"$whisker" classify runs/drawn/best.safetensors "${images[@]}" --jsonl >expected 2>log || { cat log; exit 1; }
# As lines of the program: "file class probability", then the first of them, then rows of two probabilities, cat's first.
sed -E 's/.*"path":"([^"]*)".*"class":"([^"]*)","probability":([0-9.]+).*/\1 \2 \3/' expected >files
{
  cat files
  sed -n '1s/^[^ ]*/buffer/p' files
  rows=$(awk '{print $2 == "cat" ? $3 ", " 1 - $3 : 1 - $3 ", " $3}' files | paste -sd, | sed 's/,\([^ ]\)/, \1/g')
  for name in batch thread thread; do echo "$name (4,2) f32: $rows"; done
} >wanted
paste -d' ' classes wanted | tr -d , | awk '
  {
    if (NF % 2) wrong = 1
    for (i = 1; i <= NF / 2; ++i) {
      apart = $i - $(i + NF / 2)
      if ($i ~ /^[0-9.]+$/ ? apart > 1e-3 || apart < -1e-3 : $i != $(i + NF / 2)) wrong = 1
    }
  }
  END {exit wrong || NR != 8}' || { echo "expected:"; cat wanted; echo "got:"; cat classes; exit 1; }
popd >/dev/null

"$whisker" --help >/dev/null
# The command that it names for weights is one of the installation, with its table.
fetch=$("$whisker" models mobilenet_v2 | grep fetch_weights.sh)
[ "$fetch" = "  $scratch/prefix/share/whisker/scripts/fetch_weights.sh mobilenet_v2" ] || { echo "got: $fetch"; exit 1; }
mkdir -p "$scratch/data/whisker/weights"
echo other >"$scratch/data/whisker/weights/mobilenet_v2-b0353104.pth"
XDG_DATA_HOME=$scratch/data $fetch 2>"$scratch/log" && { echo "another file counts as the weights"; exit 1; }
grep -q 'expected b0353104' "$scratch/log" || { cat "$scratch/log"; exit 1; }
# The course: an answer is graded with the installed headers, and a lesson's program builds against the package.
cd "$scratch"
export XDG_STATE_HOME=$scratch/state
course=$scratch/prefix/share/whisker/course
logged "$whisker" study grade mul "$course/solutions/mul.cpp"
"$whisker" study exercises 2>/dev/null | grep -q '^mul .*done' || { echo "mul is not noted as done"; exit 1; }
logged "$course/gpu/run_all.sh" --cpu --small vector_addition
logged cmake -S "$course" -B "$scratch/lessons" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix"
logged cmake --build "$scratch/lessons" --target 01_chain_rule
"$scratch/lessons/01_chain_rule" | grep -q '^Whisker     dx -1.437648' || { echo "01_chain_rule prints something else"; exit 1; }
