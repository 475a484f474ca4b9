#!/usr/bin/env bash
# ./run-tests in CI starts no stage behind its limit, and says which it left out.
#   run_tests_test.sh SOURCE
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/scripts"
cp "$1/run-tests" "$scratch"
# Neither packages nor CUDA are looked for.
for script in install_packages.sh python_with_packages.sh; do
  printf '#!/bin/sh\n' >"$scratch/scripts/$script"
done
printf '#!/bin/sh\necho none; exit 1\n' >"$scratch/scripts/find_cuda.sh"
printf 'print("checked")\n' | tee "$scratch/scripts/check_words.py" >"$scratch/scripts/check_includes.py"
chmod +x "$scratch"/scripts/*.sh

fail() { echo "FAILED: $1"; cat "$scratch/out"; exit 1; }
status=0
CI=true WHISKER_CI_MINUTES=0 "$scratch/run-tests" >"$scratch/out" 2>&1 || status=$?
[ $status -eq 0 ] || fail "exit code $status"
grep -q '^Left out after 0 minutes: structure; words; release: build; release: tests; asan and ubsan: build; ' \
  "$scratch/out" || fail "the stages are not named"
tail -n 1 "$scratch/out" | grep -qxE '0 passed, 0 failed, 1[0-9] skipped' || fail "the stages are not counted"

# Control: elsewhere, and within the limit, they run; a build that fails is told.
PATH=/usr/bin:/bin CI=true WHISKER_CI_MINUTES=10 "$scratch/run-tests" --quick >"$scratch/out" 2>&1 && fail "no failure"
grep -qx checked "$scratch/out" || fail "no stage ran within the limit"
CI=false WHISKER_CI_MINUTES=0 "$scratch/run-tests" --quick >"$scratch/out" 2>&1 && fail "no failure outside CI"
grep -qx checked "$scratch/out" || fail "no stage ran outside CI"
grep -q 'Left out' "$scratch/out" && fail "stages were left out outside CI"
tail -n 1 "$scratch/out" | grep -qE '^2 passed, [1-9][0-9]* failed, 1 skipped$' || fail "wrong counts"
