#!/usr/bin/env python3
"""Runs what the pages of docs/course show: the lessons' programs and commands print what stands there, and the images
are drawn again with the same bytes. No level of the matrix product has more than 160 lines.

    course_test.py SOURCE BUILD            exit code 1 and the difference for what is not current
    course_test.py SOURCE BUILD --write    writes the output and the images into the pages
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
WRITE = sys.argv[3:] == ["--write"]
IMAGE = re.compile(r"-o (docs/course/images/\w+\.svg)$")
faults = []


def run(command, folder):
    """The output of a bash command in a folder where docs/ and build/release are those of the checkout."""
    environment = dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}", XDG_STATE_HOME=str(folder / "state"))
    result = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True, timeout=120,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.returncode, result.stdout


def compare(where, expected, got):
    if expected != got:
        lines = difflib.unified_diff(expected.splitlines(), got.splitlines(), "page", "now", lineterm="")
        faults.append(f"{where}\n" + "\n".join(lines))


def console(page, text, folder):
    """`text` with the output of each block of one command or more."""
    def block(match):
        shown = ""
        for part in re.split(r"^(?=\$ )", match.group(1), flags=re.M):
            if not part:
                continue
            command = part.split("\n", 1)[0][2:]
            shown += f"$ {command}\n" + re.sub(r"[ \t]+$", "", run(command, folder)[1], flags=re.M)
        compare(page.name, match.group(1), shown)
        return f"```console\n{shown}```"
    return re.sub(r"^```console\n(.*?)^```", block, text, flags=re.M | re.S)


def commands(page, text, folder):
    for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S):
        for command in block.splitlines():
            image = IMAGE.search(command)
            drawn = folder / "drawn.svg"
            drawn.unlink(missing_ok=True)
            code, output = run(command.replace(image.group(1), str(drawn)) if image else command, folder)
            if code != 0:
                faults.append(f"{page.name}: exit code {code}: {command}\n{output}")
            elif image and WRITE:
                (SOURCE / image.group(1)).parent.mkdir(exist_ok=True)
                (SOURCE / image.group(1)).write_bytes(drawn.read_bytes())
            elif image and (SOURCE / image.group(1)).read_bytes() != drawn.read_bytes():
                faults.append(f"{page.name}: {image.group(1)} is not what its command draws")


with tempfile.TemporaryDirectory() as name:
    scratch = pathlib.Path(name)
    (scratch / "docs").symlink_to(SOURCE / "docs")
    (scratch / "build").mkdir()
    (scratch / "build/release").symlink_to(BUILD)
    for page in sorted((SOURCE / "docs/course").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        current = console(page, text, scratch)
        commands(page, text, scratch)
        if WRITE:
            page.write_text(current, encoding="utf-8")
for level in (SOURCE / "docs/course/gpu/matrix_product").iterdir():
    if len(level.read_text(encoding="utf-8").splitlines()) > 160:
        faults.append(f"{level.name}: more than 160 lines")
print("\n".join(faults))
sys.exit(1 if faults and not WRITE else 0)
