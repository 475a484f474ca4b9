#!/usr/bin/env python3
"""Runs scripts/fetch_cats_dogs.sh against a server on loopback: a plain download, one that resumes
after half the bytes, a wrong checksum, a folder that is there already, and a name that leads out of the archive.

usage: fetch_test.py SOURCE
"""
import hashlib
import http.server
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile

SOURCE = pathlib.Path(sys.argv[1])
IMAGES = 20  # per class: one in ten of all goes to val


def archive():
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file:
        for label in ("Cat", "Dog"):
            for i in range(IMAGES):
                file.writestr(f"PetImages/{label}/{i}.jpg", os.urandom(2000))
            file.writestr(f"PetImages/{label}/Thumbs.db", b"no image")
        file.writestr("../../outside.jpg", b"belongs to no class")
    return memory.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    content = archive()
    ranges = []

    def do_GET(self):
        start = 0
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if match:
            start = int(match.group(1))
        Handler.ranges.append(start)
        body = Handler.content[start:]
        self.send_response(206 if match else 200)
        if match:
            self.send_header("Content-Range", f"bytes {start}-{len(Handler.content) - 1}/{len(Handler.content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def fetch(folder, url, digest, **environment):
    environment = dict(os.environ, CATS_DOGS_URL=url, CATS_DOGS_SHA256=digest, **environment)
    return subprocess.run([SOURCE / "scripts/fetch_cats_dogs.sh", *([folder] if folder else [])], env=environment, capture_output=True, text=True,
                          cwd=tempfile.gettempdir())


def count(folder):
    return sum(1 for path in pathlib.Path(folder).rglob("*.jpg"))


def check(condition, what, result=None):
    if not condition:
        sys.exit(f"FAILED: {what}\n{result.stdout + result.stderr if result else ''}")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/cats.zip"
    digest = hashlib.sha256(Handler.content).hexdigest()
    with tempfile.TemporaryDirectory() as scratch:
        whole = pathlib.Path(scratch, "whole set")
        result = fetch(whole, url, digest)
        check(result.returncode == 0, "plain download", result)
        check(count(whole / "train") == 36 and count(whole / "val") == 4, "nine tenths in train", result)
        again = fetch(whole, url, digest)
        check(again.returncode == 0 and "already" in again.stderr, "a second call does nothing", again)

        half = pathlib.Path(scratch, "half")
        half.mkdir()
        middle = len(Handler.content) // 2
        (half / "cats_dogs.zip.part").write_bytes(Handler.content[:middle])
        Handler.ranges.clear()
        result = fetch(half, url, digest)
        check(result.returncode == 0 and count(half) == 2 * IMAGES, "resumed download", result)
        check(Handler.ranges == [middle], f"asked for the second half only, got {Handler.ranges}", result)

        result = fetch(None, url, digest, WHISKER_DATA=f"{scratch}/sets")
        check(result.returncode == 0 and count(f"{scratch}/sets/cats_dogs") == 2 * IMAGES, "WHISKER_DATA", result)

        installed = pathlib.Path(scratch, "share/scripts/fetch_cats_dogs.sh")
        installed.parent.mkdir(parents=True)
        shutil.copy(SOURCE / "scripts/fetch_cats_dogs.sh", installed)
        environment = {key: value for key, value in os.environ.items() if key != "WHISKER_DATA"}
        result = subprocess.run([installed], env=environment, capture_output=True, text=True)
        check(result.returncode == 2 and "expected FOLDER" in result.stderr, "an installation has no default", result)

        wrong = pathlib.Path(scratch, "wrong")
        result = fetch(wrong, url, "0" * 64)
        check(result.returncode == 3 and "expected 0000" in result.stderr, "a wrong checksum is refused", result)
        check(not (wrong / "train").exists(), "nothing is unpacked then", result)
        check(not list(pathlib.Path(scratch).rglob("outside*")), "no name leads out of the archive", result)
    print("5 downloads behaved")


main()
