"""The completion scripts in real shells: keys typed into bash and zsh, fish asked for its completions.

    completion_test.py [-v]              with $WHISKER naming the program
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import unittest

from harness import PROGRAM, ProgramTest

# What is typed, with <Tab> where it is pressed, and the words that come of it.
TYPED = [
    ("stu<Tab>", ["study"]),
    ("devices --ch<Tab>", ["devices", "--check"]),
    ("study trace --st<Tab>", ["study", "trace", "--steps"]),
    ("--color al<Tab>", ["--color", "always"]),
    ("devices --color nev<Tab>", ["devices", "--color", "never"]),
    ("completion f<Tab>", ["completion", "fish"]),
    ("train --resume somewh<Tab>", ["train", "--resume", "somewhere.yaml"]),
    ("train c.yaml schedule.ki<Tab>", ["train", "c.yaml", "schedule.kind="]),
    ("train c.yaml schedule.ki<Tab>cos<Tab>", ["train", "c.yaml", "schedule.kind=cosine"]),
    ("train c.yaml schedule.kind=one<Tab>", ["train", "c.yaml", "schedule.kind=one_cycle"]),
    ("study gradcheck x.yaml data.text.lev<Tab>wo<Tab>", ["study", "gradcheck", "x.yaml", "data.text.level=words"]),
    ("summary c.yaml runtime.winograd=f<Tab>", ["summary", "c.yaml", "runtime.winograd=false"]),
    ("summary c.yaml train.batch_size=a<Tab>", ["summary", "c.yaml", "train.batch_size=auto"]),
    ("train c.yaml init.from=somewh<Tab>", ["train", "c.yaml", "init.from=somewhere.yaml"]),
    ("train --model squeezenet1<Tab>", ["train", "--model", "squeezenet1_1"]),
    ("classify --device ref<Tab>", ["classify", "--device", "reference"]),
    ("train --device au<Tab>", ["train", "--device", "auto"]),
    ("summary squeezenet1<Tab>", ["summary", "squeezenet1_1"]),
    ("summary some<Tab>", ["summary", "somewhere.yaml"]),
    ("study trace vgg1<Tab>", ["study", "trace", "vgg16"]),
    ("study step lstm_<Tab>", ["study", "step", "lstm_cell"]),
    ("study trace sm<Tab>", ["study", "trace", "small.yaml"]),  # files go before presets
    ("study roofline lstm_<Tab>", ["study", "roofline", "lstm_cell"]),
    ("study gradcheck embedd<Tab>", ["study", "gradcheck", "embedding"]),
    ("study gradcheck squeezen<Tab>", ["study", "gradcheck", "squeezenet1_1"]),
    ("study grade chain<Tab>", ["study", "grade", "chain_rule"]),
    ("classify schedule.ki<Tab>", ["classify", "schedule.ki"]),  # takes no keys
]


class Terminal:
    """An interactive shell whose `whisker` prints its arguments."""

    def __init__(self, folder, command, prepare):
        environment = {"PATH": f"{pathlib.Path(PROGRAM).parent}:{os.environ['PATH']}", "TERM": "dumb",
                       "HOME": str(folder), "INPUTRC": "/dev/null", "LC_ALL": "C.UTF-8"}
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        # Split texts: what the terminal echoes of this line is no answer.
        self.send(prepare + "; whisker() { printf 'BE''GIN'; printf ' <%s>' \"$@\"; echo ' E''ND'; }; whisker ready\n")
        self.read()

    def send(self, text):
        os.write(self.terminal, text.encode())

    def read(self):
        text = ""
        while not (found := re.search(r"BEGIN((?: <[^>]*>)*) END", text)):
            if not select.select([self.terminal], [], [], 60)[0]:
                raise AssertionError(f"the shell does not answer: {text!r}")
            text += os.read(self.terminal, 65536).decode(errors="replace")
        return re.findall(r"<([^>]*)>", found[1])

    def complete(self, line):
        self.send(f"whisker {line.replace('<Tab>', chr(9))}\n")
        return self.read()

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.child, 0)


def schema_keys(node, prefix=""):
    """(path, what a shell can offer) of every key of the schema."""
    for name, child in node["properties"].items():
        path = prefix + name
        if "properties" in child:
            yield from schema_keys(child, path + ".")
        elif child.get("items", {}).get("type") != "object":
            words = child.get("enum", [])
            if child.get("type") == "boolean":
                words = ["true", "false"]
            for option in child.get("anyOf", child.get("oneOf", [])):
                words = words + option.get("enum", [option["const"]] if "const" in option else [])
            yield path, sorted(words)


class Completion(ProgramTest):
    """Commands, options, configuration keys, their values and file names."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("somewhere.yaml", "small.yaml"):
            (cls.folder / name).write_text("")

    def script(self, shell):
        return self.whisker("completion", shell).stdout

    def need(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"no {shell}")

    def typed_into(self, command, prepare):
        terminal = Terminal(self.folder, command, prepare)
        for line, expected in TYPED:
            with self.subTest(line=line):
                self.assertEqual(terminal.complete(line), expected)
        terminal.close()

    def test_bash(self):
        self.need("bash")
        self.typed_into(["bash", "--norc", "--noprofile", "-i"], "source <(whisker completion bash)")

    def test_zsh(self):
        self.need("zsh")
        self.typed_into(["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source <(whisker completion zsh)")

    def test_zsh_finds_it_in_its_path_of_functions(self):
        self.need("zsh")
        (self.folder / "functions").mkdir()
        (self.folder / "functions/_whisker").write_text(self.script("zsh"))
        terminal = Terminal(self.folder, ["zsh", "-f", "-i"],
                            "fpath=(functions $fpath); autoload -U compinit; compinit -u -D")
        for _ in range(2):  # the first one loads the file
            self.assertEqual(terminal.complete("stu<Tab>"), ["study"])
        terminal.close()

    def test_fish(self):
        self.need("fish")
        (self.folder / "whisker.fish").write_text(self.script("fish"))
        for line, expected in TYPED:
            *before, word = line.removesuffix("<Tab>").split("<Tab>")[-1].split(" ")
            if "<Tab>" in line.removesuffix("<Tab>"):  # from what the first key gave
                before, word = expected[:-1], expected[-1].split("=")[0] + "=" + word
            with self.subTest(line=line):
                asked = " ".join(["whisker", *before, word])
                done = subprocess.run(["fish", "--no-config", "-c", f"source whisker.fish; complete -C '{asked}'"],
                                      cwd=self.folder, capture_output=True, text=True, timeout=60,
                                      env={**os.environ, "HOME": str(self.folder)})
                offered = [one.split("\t")[0] for one in done.stdout.splitlines()]
                self.assertEqual(offered, [expected[-1]] if expected[-1] != word else [], done.stderr)

    def test_an_empty_word_is_offered_commands_and_options(self):
        self.need("bash")
        ask = f"{self.script('bash')}\n_whisker_offer '' config; printf '%s\\n' $offer"
        words = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(words[:3], ["print", "schema", "keys"])
        self.assertLessEqual({"--help", "--quiet", "-v", "--color"}, set(words[3:]))

    def test_every_key_and_every_value(self):
        self.need("bash")
        expected = dict(schema_keys(json.loads(self.whisker("config", "schema").stdout)))
        self.assertEqual(expected["schedule.kind"], sorted(["constant", "step", "multi_step", "exponential", "cosine",
                                                            "one_cycle", "plateau"]))
        ask = (f"{self.script('bash')}\n_whisker_offer d train; printf '%s\\n' \"$offer\"\n"
               + "".join(f"_whisker_offer {key}= train c.yaml; printf '%s\\n' \"$offer\"\n" for key in expected))
        words = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual([word[:-1] for word in words[0].split() if word.endswith("=")], list(expected))
        self.assertEqual({key: sorted(line.split()) for key, line in zip(expected, words[1:])}, expected)


if __name__ == "__main__":
    unittest.main()
