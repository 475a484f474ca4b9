#!/usr/bin/env python3
"""Breaks one token of a source at a time and counts how many of these mutations the tests catch.

usage: mutate.py BUILD [--count N] [--seed S] [--limit SECONDS] [--results FILE] [--areas FILE] [--only AREA ...]
                 [--again]

BUILD is a built Ninja tree with tests and without CUDA. Each mutated source is compiled to an object of its own, which
is linked in front of the libraries of those test programs of its area that hold code of that source: the tree itself
stays as it is. An area (scripts/mutation_areas.json) is a list of sources and the programs that test them, the nearest
first; areas take turns, the sites within one are drawn by the seed. Tests with a word of the source's name in theirs run
before all of a program's, so that what is caught is caught soon. A program may take the limit (60 s), or ten times
what it takes without a mutation, whichever is longer.

One JSON line per mutation is appended to the results (BUILD/mutations.jsonl): caught (with the program), timeout,
survived, not compiled, or same code (the compiler made the same object of both). A later call with the same file and
seed goes on behind the last line, and with --again first repeats those that survived; the last line of a number counts.
Not compiled and same code are not tried: the last line printed is "caught N of M tried". Exit code 1 when one survived.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

TOKEN = re.compile(r"""
    (?P<skip> //[^\n]* | /\*.*?\*/ | R"(?P<mark>[^(\n]*)\(.*?\)(?P=mark)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+'
            | ^[ \t]*\#(?:\\\n|[^\n])* )
  | (?P<number> (?:0[xX][\da-fA-F']+ | (?:\d[\d']*\.?\d* | \.\d+)(?:[eE][+-]?\d+)?) ) [uUlLfFzZ]*
  | (?P<word> [A-Za-z_]\w* )
  | (?P<operator> <=> | <<= | >>= | -> | :: | \+\+ | -- | << | >> | <= | >= | == | != | && | \|\| | [-+*/%&|^]=
            | [-+*/%<>=!&|^] )""", re.X | re.S | re.M)
OPERATORS = {
    "<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="], "==": ["!="], "!=": ["=="], "&&": ["||"],
    "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "&": ["|"], "|": ["&"], "<<": [">>"],
    ">>": ["<<"], "+=": ["-="], "-=": ["+="], "*=": ["/="], "/=": ["*="], "++": ["--"], "--": ["++"], "!": [""],
}
# As operators between two operands these stand between spaces; else they belong to a type, a pointer or a sign.
SPACED = {"<", ">", "*", "&", "&&", "+", "-", "/", "%", "|", "<<", ">>"}
WORDS = [("min", "max"), ("sin", "cos"), ("width", "height"), ("rows", "columns"), ("row", "column"), ("low", "high"),
         ("floor", "ceil"), ("true", "false"), ("first", "last"), ("left", "right"), ("top", "bottom"), ("x", "y"),
         ("horizontal", "vertical"), ("break", "continue"), ("front", "back"), ("beta1", "beta2"), ("any", "all")]
OTHER_WORD = dict(WORDS) | {b: a for a, b in WORDS}

Site = collections.namedtuple("Site", "source line column old new")


def replacements(match, text):
    token = match.group()
    if match.lastgroup == "operator":
        spaced = text[match.start() - 1] == " " and text[match.end():match.end() + 1] in (" ", "\n")
        return OPERATORS.get(token, []) if spaced or token not in SPACED else []
    if match.lastgroup == "word":  # one part of a name: shift_vertical becomes shift_horizontal
        parts = token.split("_")
        return ["_".join(parts[:i] + [OTHER_WORD[part]] + parts[i + 1:])
                for i, part in enumerate(parts) if part in OTHER_WORD]
    if match.lastgroup == "number":
        digits, suffix = match["number"].replace("'", ""), token[len(match["number"]):]
        if digits[:2].lower() == "0x" or digits.isdigit():
            value = int(digits, 0 if digits[:2].lower() == "0x" else 10)
            return [f"{other}{suffix}" for other in (value + 1, value - 1) if other >= 0]
        return [f"{2 * float(digits) or 1.0!r}{suffix}"]
    return []


def sites_of(root, source):
    text = (root / source).read_text(encoding="utf-8")
    for match in TOKEN.finditer(text):
        for new in replacements(match, text):
            line = text.count("\n", 0, match.start()) + 1
            yield Site(source, line, match.start() - text.rfind("\n", 0, match.start()), match.group(), new)


def planned(root, areas, seed):
    """(area, site) without end of repetition: the areas in turn, each one's sites in the order of the seed."""
    orders = {}
    for area, of in areas.items():
        sources = sorted({path.relative_to(root).as_posix() for pattern in of["sources"] for path in root.glob(pattern)})
        orders[area] = [site for source in sources for site in sites_of(root, source)]
        random.Random(f"{seed} {area}").shuffle(orders[area])
    for turn in range(max(map(len, orders.values()))):
        yield from ((area, order[turn]) for area, order in orders.items() if turn < len(order))


def near_filter(source):
    """GoogleTest's filter for the tests that a source's name suggests."""
    words = [word for word in pathlib.Path(source).stem.split("_") if len(word) > 3]
    return "--gtest_filter=" + ":".join(f"*{word}*:*{word.capitalize()}*" for word in words)


def fail(text):
    print(f"mutate.py: {text}", file=sys.stderr)
    sys.exit(2)


class Tree:
    """A built Ninja tree: how a source is compiled and a program linked, and what a program holds."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        if not (self.build / "build.ninja").is_file():
            fail(f"no Ninja build tree at '{build}': expected a built preset, for example build/release.")
        cache = (self.build / "CMakeCache.txt").read_text(encoding="utf-8")
        self.root = pathlib.Path(re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.M)[1])
        self.compiled = {}
        for entry in json.loads(self.ninja("-t", "compdb")):
            source = pathlib.Path(os.path.normpath(self.build / entry["file"]))
            if " -c " in entry["command"] and source.is_relative_to(self.root):
                self.compiled.setdefault(source.relative_to(self.root).as_posix(), []).append(entry)
        self.folder = tempfile.TemporaryDirectory(prefix="mutate.")
        self.scratch = pathlib.Path(self.folder.name)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.scratch / "cache"), GTEST_FAIL_FAST="1",
                                GTEST_BRIEF="1", OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "2"))
        self.paths, self.symbols = {}, {}

    def ninja(self, *words):
        done = subprocess.run(["ninja", "-C", str(self.build), *words], capture_output=True, text=True)
        if done.returncode != 0:
            fail(f"ninja {' '.join(words)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return re.sub(r"\Aninja: Entering directory.*\n", "", done.stdout)

    def shell(self, command):
        return subprocess.run(command, shell=True, cwd=self.build, capture_output=True).returncode == 0

    def compile(self, source, text, name):
        """The object of this text in the place of the source, in the scratch folder; None when it does not compile."""
        copy, made = self.scratch / "source" / source, self.scratch / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
        # The library's object, not that of a test program that compiles the source once more.
        entry = min(self.compiled[source], key=lambda e: e["output"].startswith("tests/"))
        command = re.sub(r" -MD -MT \S+ -MF \S+", "", entry["command"])
        command = command.replace(f" -o {entry['output']} ", f" -w -iquote {(self.root / source).parent} -o {made} ")
        command = command.replace(f" -c {entry['file']}", f" -c {copy}")
        return made if self.shell(command) else None

    def names(self, path):
        """Names of functions and data that others can link to."""
        if path not in self.symbols:
            listed = subprocess.run(["nm", "--defined-only", str(path)], capture_output=True, text=True, check=True)
            self.symbols[path] = {line.split()[2] for line in listed.stdout.splitlines() if line.split()[1] in "TDBR"}
        return self.symbols[path]

    def path(self, program):
        if program not in self.paths:
            link = self.ninja("-t", "commands", program).splitlines()[-1]
            self.paths[program] = (self.build / re.search(r" -o (\S+) ", link)[1], link)
        return self.paths[program][0]

    def holds(self, program, made):
        self.symbols.pop(made, None)
        return not self.names(made).isdisjoint(self.names(self.path(program)))

    def link(self, program, made):
        linked = self.scratch / "program"
        command = re.sub(r" -o \S+ ", f" -o {linked} {made} ", self.paths[program][1], count=1)
        return linked if self.shell(command) else None

    def run(self, program, path, limit, *words):
        """passed, failed or timeout, and the seconds it took."""
        start = time.monotonic()
        child = subprocess.Popen([str(path), *words], cwd=self.path(program).parent, env=self.environment, start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ended = "passed" if child.wait(limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            ended = "timeout"
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)  # what it started, too
            except ProcessLookupError:
                pass
            child.wait()
        return ended, time.monotonic() - start


class Campaign:
    def __init__(self, tree, areas, limit):
        self.tree, self.areas, self.limit = tree, areas, limit
        self.limits = {}

    def limit_of(self, program):
        """Seconds that a program may take; it must pass as it is."""
        if program not in self.limits:
            ended, seconds = self.tree.run(program, self.tree.path(program), 3600)
            if ended != "passed":
                fail(f"{program} {ended} without a mutation: expected tests that pass.")
            self.limits[program] = max(self.limit, 10 * seconds)
        return self.limits[program]

    def mutate(self, area, site):
        lines = (self.tree.root / site.source).read_text(encoding="utf-8").splitlines(keepends=True)
        before, start = lines[site.line - 1], site.column - 1
        lines[site.line - 1] = before[:start] + site.new + before[start + len(site.old):]
        result, by = self.judge(area, site.source, "".join(lines))
        return {"area": area, **site._asdict(), "text": before.strip(), "result": result, "by": by}

    def judge(self, area, source, text):
        mutant = self.tree.compile(source, text, "mutant.o")
        if not mutant:
            return "not compiled", None
        for program in self.areas[area]["programs"]:
            if not self.tree.holds(program, mutant):
                continue
            limit = self.limit_of(program)
            linked = self.tree.link(program, mutant)
            if not linked:
                return "not compiled", program
            for words in ([near_filter(source)], []):
                ended, _ = self.tree.run(program, linked, limit, *words)
                if ended != "passed":
                    return {"failed": "caught"}.get(ended, ended), program
        code = mutant.read_bytes()
        original = self.tree.compile(source, (self.tree.root / source).read_text(encoding="utf-8"), "original.o")
        return ("same code" if original and original.read_bytes() == code else "survived"), None


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("BUILD is")[0].strip())
    parser.add_argument("build")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--areas", type=pathlib.Path, default=pathlib.Path(__file__).with_name("mutation_areas.json"))
    parser.add_argument("--only", nargs="+", metavar="AREA", help="leave out the turns of other areas")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    tree = Tree(options.build)
    areas = json.loads(options.areas.read_text(encoding="utf-8"))
    tree.ninja(*sorted({program for of in areas.values() for program in of["programs"]}))
    campaign = Campaign(tree, areas, options.limit)
    results = options.results or tree.build / "mutations.jsonl"
    known = {}
    if results.exists():
        for line in map(json.loads, results.read_text(encoding="utf-8").splitlines()):
            known[line["n"]] = line
    tried = collections.Counter()
    for n, (area, site) in enumerate(planned(tree.root, areas, options.seed)):
        if sum(tried[r] for r in ("caught", "timeout", "survived")) >= options.count:
            break
        if options.only and area not in options.only:
            continue
        line = known.get(n)
        if line and any(line[key] != value for key, value in site._asdict().items()):
            fail(f"{results}: line of mutation {n} is not that of these sources and seed {options.seed}: "
                 f"expected {site.source}:{site.line}, got {line['source']}:{line['line']}. Name another file.")
        if not line or (options.again and line["result"] == "survived"):
            line = {"n": n, **campaign.mutate(area, site)}
            with results.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")
            print(f"{n} {site.source}:{site.line}:{site.column} '{site.old}' -> '{site.new}': {line['result']}"
                  f"{' by ' + line['by'] if line['by'] else ''}", flush=True)
        tried[line["result"]] += 1
    total = sum(tried[r] for r in ("caught", "timeout", "survived"))
    print(f"caught {tried['caught'] + tried['timeout']} of {total} tried ({tried['timeout']} by the time limit), "
          f"{tried['survived']} survived; {tried['not compiled']} not compiled, {tried['same code']} same code")
    return 1 if tried["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
