#!/usr/bin/env python3
"""What scripts/mutate.py makes of a scratch project whose few mutations are known: caught, without effect, endless,
not C++, the same machine code, and in a source that no test program holds.

usage: mutate_test.py SOURCE
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MUTATE = pathlib.Path(sys.argv[1]) / "scripts" / "mutate.py"
LIBRARY = r"""#include <cstring>
static_assert(sizeof(char) == 1);
int larger(int a, int b) { return a < b ? b : a; }  // where 5 < 6 is no code
const char* halve(volatile unsigned n) {
  while (n != 0) n /= 2;
  return "1 < 2" + 1;
  n = 7;
}
"""
LONELY = "int lonely(int a) { return a + 1; }\n"
PROGRAM = r"""#include <cstring>
int larger(int, int);
const char* halve(unsigned);
int lonely(int);
int main() {
  return larger(2, 3) == 3 && larger(5, 5) == 5 && std::strcmp(halve(9), " < 2") == 0%s ? 0 : 1;
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.24)
project(Known LANGUAGES CXX)
add_library(known STATIC known.cpp lonely.cpp)
add_executable(known_tests program.cpp)
target_link_libraries(known_tests PRIVATE known)
"""
EXPECTED = {  # line of known.cpp, before, after
    (2, "==", "!="): "not compiled",
    (2, "1", "2"): "not compiled",
    (2, "1", "0"): "not compiled",
    (3, "<", ">"): "caught",
    (3, "<", "<="): "survived",  # of two equal numbers either is the larger
    (5, "!=", "=="): "survived",  # nobody sees how far it came
    (5, "0", "1"): "survived",
    (5, "/=", "*="): "survived",
    (5, "2", "3"): "survived",
    (5, "2", "1"): "timeout",
    (6, "+", "-"): "caught",
    (6, "1", "2"): "caught",
    (6, "1", "0"): "caught",
    (7, "7", "8"): "same code",
    (7, "7", "6"): "same code",
}
ALONE = {(1, "+", "-"), (1, "1", "2"), (1, "1", "0")}  # of lonely.cpp


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "known.cpp").write_text(LIBRARY)
        (scratch / "lonely.cpp").write_text(LONELY)
        (scratch / "program.cpp").write_text(PROGRAM % "")
        (scratch / "CMakeLists.txt").write_text(CMAKE)
        areas, results, build = scratch / "areas.json", scratch / "results.jsonl", scratch / "build"
        areas.write_text(json.dumps({"known": {"sources": ["k*.cpp"], "programs": ["known_tests"]},
                                     "lonely": {"sources": ["lonely.cpp"], "programs": ["known_tests"]}}))
        subprocess.run(["cmake", "-S", scratch, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None"], check=True,
                       capture_output=True)

        def mutate(status, *words):
            done = subprocess.run([sys.executable, MUTATE, build, "--areas", areas, "--results", results, "--limit", "5",
                                   *words], capture_output=True, text=True)
            said = done.stdout + done.stderr
            expect(done.returncode == status, f"{words}: expected exit {status}, got {done.returncode}\n{said}")
            return said

        # A part of it, then the rest: each mutation once, and what was there stays.
        mutate(1, "--count", "4")
        begun = results.read_text()
        said = mutate(1)
        expect(results.read_text().startswith(begun), "lines of the first call were changed")
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        expect([line["n"] for line in lines] == list(range(len(EXPECTED) + len(ALONE))), f"not each once: {lines}")
        got = {(line["line"], line["old"], line["new"]): line["result"] for line in lines if line["area"] == "known"}
        expect(got == EXPECTED, f"expected {EXPECTED}\ngot {got}")
        alone = {(line["line"], line["old"], line["new"]) for line in lines if line["area"] == "lonely"}
        expect(alone == ALONE, f"expected {ALONE}, got {alone}")
        last = "caught 5 of 13 tried (1 by the time limit), 8 survived; 3 not compiled, 2 same code"
        expect(said.splitlines()[-1] == last, f"expected '{last}', got '{said}'")

        # One area alone, under the same numbers.
        only = scratch / "only.jsonl"
        mutate(1, "--only", "lonely", "--results", only)
        expect(only.read_text().splitlines() == [line for line in results.read_text().splitlines() if "lonely.cpp" in line],
               f"--only: {only.read_text()}")

        # The same draws in the same order for a seed; others for another, for which this file is the wrong one.
        again = scratch / "again.jsonl"
        mutate(1, "--count", "4", "--results", again)
        expect(again.read_text() == begun, f"expected {begun}\ngot {again.read_text()}")
        expect("is not that of these sources and seed 2" in mutate(2, "--seed", "2"), "took another seed's file")

        # Survivors once more, after a test was written; what it catches now is counted.
        (scratch / "program.cpp").write_text(PROGRAM % " && lonely(1) == 2")
        last = "caught 8 of 13 tried (1 by the time limit), 5 survived; 3 not compiled, 2 same code"
        expect(mutate(1, "--again").splitlines()[-1] == last, f"expected '{last}' with --again")
        expect(mutate(1).splitlines()[-1] == last, f"expected '{last}' of the file")

        # Tests that fail as they are say nothing about a mutation.
        (scratch / "program.cpp").write_text(PROGRAM % " && false")
        expect("known_tests failed without a mutation" in mutate(2, "--again"), "a failing test counted")
    print("mutations are told apart")


main()
