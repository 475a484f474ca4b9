"""`whisker models`, scripts/fetch_weights.sh against a server on loopback, and `train --pretrained`."""

import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import unittest

from harness import ProgramTest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CONTENT = os.urandom(300_000)
HALF = len(CONTENT) // 2
SUM = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.BaseHTTPRequestHandler):
    """/MODE/NAME: CONTENT, with the faults that MODE names."""

    requests = []  # (method, mode, first byte)

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        modes = self.path.split("/")[1].split("-")
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        Server.requests.append((self.command, "-".join(modes), start))
        if "missing" in modes:
            return self.send_error(404)
        if "redirect" in modes:
            self.send_response(302)
            self.send_header("Location", self.path.replace("redirect", "whole"))
            if "stated" in modes:
                self.send_header("X-Linked-ETag", f'"{SUM}"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if "norange" in modes:
            start = 0
        if start >= len(CONTENT):
            return self.send_error(416)
        cut = "dies" in modes or ("cut" in modes and start < HALF)
        body = CONTENT[start:HALF if cut else None]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_):
        pass


class Pretrained(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        # The script beside a table of its own, as in a checkout and in an installation.
        cls.checkout = cls.folder / "a checkout"
        (cls.checkout / "scripts").mkdir(parents=True)
        shutil.copy(SOURCE / "scripts/fetch_weights.sh", cls.checkout / "scripts")
        table = cls.checkout / "configs/presets/pretrained.yaml"
        table.parent.mkdir(parents=True)
        rows = {"net": ("whole", SUM), "net/8": ("whole", SUM[:8]), "cut": ("cut", SUM), "dies": ("dies", SUM),
                "moved": ("redirect", SUM), "norange": ("norange", SUM), "wrong": ("whole", "0" * 64),
                "wrong8": ("whole", "0" * 8), "missing": ("missing", SUM), "stated": ("redirect-stated", ""),
                "unstated": ("whole", "")}
        table.write_text("".join(
            f"{name}:\n  file: {name.replace('/', '_')}.pth\n  licence: BSD-3-Clause\n"
            f"  url: http://127.0.0.1:{cls.server.server_port}/{mode}/x.pth\n" + (f"  sha256: {digits}\n" if digits else "")
            for name, (mode, digits) in rows.items()))

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()
        super().tearDownClass()

    def setUp(self):
        self.home = self.folder / "data of one test"
        shutil.rmtree(self.home, ignore_errors=True)
        self.weights = self.home / "whisker/weights"
        Server.requests.clear()

    def fetch(self, *names, code=0, **environment):
        environment = {**os.environ, "XDG_DATA_HOME": str(self.home), "no_proxy": "127.0.0.1", **environment}
        done = subprocess.run([self.checkout / "scripts/fetch_weights.sh", *names], env=environment, text=True,
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def put(self, name, content):
        self.weights.mkdir(parents=True, exist_ok=True)
        (self.weights / name).write_bytes(content)

    def assert_fetched(self, name, requests):
        self.assertEqual((self.weights / name).read_bytes(), CONTENT)
        self.assertEqual([path.name for path in self.weights.iterdir()], [name])
        self.assertEqual([start for _, _, start in Server.requests], requests)

    def test_a_file_is_fetched_checked_and_kept(self):
        said = self.fetch("net")
        self.assertIn(f"{self.weights / 'net.pth'}: its SHA-256 is right. Licence: BSD-3-Clause.", said)
        self.assert_fetched("net.pth", [0])
        self.assertIn("is there already: kept. Its SHA-256 is right", self.fetch("net"))
        self.assertEqual(len(Server.requests), 1)
        self.assertIn(f"SHA-256 begins with {SUM[:8]}", self.fetch("net/8"))
        self.assertEqual((self.weights / "net_8.pth").read_bytes(), CONTENT)

    def test_a_cut_download_goes_on(self):
        self.fetch("cut")
        self.assert_fetched("cut.pth", [0, HALF])
        # A later call goes on, too, where the connection is lost for good.
        said = self.fetch("dies", code=3)
        self.assertIn(f"The same command goes on behind the {HALF} bytes", said)
        self.assertEqual((self.weights / "dies.pth.part").read_bytes(), CONTENT[:HALF])
        (self.weights / "cut.pth").rename(self.weights / "dies.pth.part")
        self.fetch("dies")  # all of it was there
        self.assertEqual((self.weights / "dies.pth").read_bytes(), CONTENT)

    def test_a_part_that_does_not_fit_starts_again(self):
        self.put("norange.pth.part", CONTENT[:1000])
        self.assertIn("is no part of the server's file: the download starts again", self.fetch("norange"))
        self.assert_fetched("norange.pth", [1000, 0])
        shutil.rmtree(self.weights)
        Server.requests.clear()
        self.put("net.pth.part", CONTENT + b"more")
        self.fetch("net")
        self.assert_fetched("net.pth", [len(CONTENT) + 4, 0])
        shutil.rmtree(self.weights)
        self.put("net.pth.part", b"of another file")
        self.fetch("net")
        self.assertEqual((self.weights / "net.pth").read_bytes(), CONTENT)

    def test_a_redirect_is_followed(self):
        self.fetch("moved")
        self.assert_fetched("moved.pth", [0, 0])

    def test_another_file_gets_no_name(self):
        for name in ("wrong", "wrong8"):
            said = self.fetch(name, code=3)
            self.assertIn(f"the SHA-256 of the download is {SUM}, expected 0000", said)
            self.assertEqual(list(self.weights.iterdir()), [])
        self.put("net.pth", b"my own")
        self.assertIn("it is not the file at http", self.fetch("net", code=3))
        self.assertEqual((self.weights / "net.pth").read_bytes(), b"my own")

    def test_the_server_states_the_sum(self):
        self.assertIn("SHA-256 is the one that its server states", self.fetch("stated"))
        self.assertEqual((self.weights / "stated.pth").read_bytes(), CONTENT)
        self.assertIn("states no SHA-256", self.fetch("unstated", code=3))
        self.assertNotIn(("GET", "whole", 0), Server.requests[-1:])
        self.put("unstated.pth", b"anything")
        self.assertIn("kept, but not checked", self.fetch("unstated"))

    def test_refusals(self):
        said = self.fetch("missing", code=3)
        self.assertIn("cannot be downloaded (curl ended with 22, HTTP status 404). A copy of it from elsewhere belongs at "
                      f"{self.weights}/missing.pth.", said)
        self.assertIn("no weights file of 'nothing' is known", self.fetch("nothing", code=2))
        self.assertIn("fetch_weights.sh NAME...", self.fetch(code=2))
        self.assertIn("unknown option --all", self.fetch("--all", code=2))
        tools = self.folder / "tools"
        tools.mkdir()
        for tool in ("bash", "readlink", "dirname"):
            (tools / tool).symlink_to(shutil.which(tool))
        self.assertIn("curl is missing: apt-get install curl", self.fetch("net", code=1, PATH=str(tools)))

    def test_the_folder_follows_xdg(self):
        self.fetch("net", XDG_DATA_HOME="relative", HOME=str(self.home))
        self.assertTrue((self.home / ".local/share/whisker/weights/net.pth").exists())
        self.assertIn("set XDG_DATA_HOME", self.fetch("net", code=2, XDG_DATA_HOME="", HOME=""))

    def test_models(self):
        models = json.loads(self.whisker("models", "--json").stdout)["models"]
        rows = {row["name"]: row for row in models}
        self.assertGreater(len(rows), 80)
        net = rows["mobilenet_v2"]
        self.assertEqual((net["parameters"], net["classes"], net["image_size"]), (3504872, 1000, 224))
        self.assertEqual((net["pretrained"]["top1"], net["pretrained"]["path"]), (71.878, None))
        self.assertNotIn("pretrained", rows["small_resnet"])
        self.assertNotIn("parameters", rows["lstm"])
        self.assertEqual(rows["vit_b_16_384"]["pretrained"]["licence"], "CC-BY-NC-4.0")
        table = self.whisker("models", "resnet1*")
        self.assertEqual([line.split()[0] for line in table.stdout.splitlines()[2:]],
                         ["resnet18", "resnet101", "resnet152"])
        self.assertIn("whisker models NAME", table.stderr)
        self.assertLessEqual(max(map(len, self.whisker("models").stdout.splitlines())), 80)
        self.assertIn("Did you mean 'resnet18'?", self.whisker("models", "resnet19", code=2).stderr)
        self.whisker("models", "nothing*", code=2)

    def test_one_model_says_how_to_get_its_weights(self):
        said = self.whisker("models", "mobilenet_v2", cwd=SOURCE).stdout
        self.assertRegex(said, r"(?m)^download it:\n  (.*/)?scripts/fetch_weights.sh mobilenet_v2$")
        self.assertIn("whisker train --data DIR --model mobilenet_v2 --pretrained", said)
        self.assertIn("  licence     BSD-3-Clause\n", said)
        data = self.folder / "own data"
        (data / "whisker/weights").mkdir(parents=True)
        (data / "whisker/weights/mobilenet_v2-b0353104.pth").touch()
        environment = {**os.environ, "XDG_DATA_HOME": str(data)}
        said = self.whisker("models", "mobilenet_v2", env=environment).stdout
        self.assertIn(f"  here        {data}/whisker/weights/mobilenet_v2-b0353104.pth\n", said)
        self.assertNotIn("download it", said)
        self.assertRegex(self.whisker("models", "mobile*", env=environment).stdout, r"(?m)^mobilenet_v2 .* yes$")

    def test_train_begins_with_them(self):
        small = ["train.epochs=1", "data.image_size=32", "data.resize_short=36", "device=cpu"]
        missing = self.whisker("train", "--data", "train", "--pretrained", code=4).stderr
        self.assertRegex(missing, r"no weights of mobilenet_v2 at .*/mobilenet_v2-b0353104.pth. "
                                  r"This command downloads them: .*scripts/fetch_weights.sh mobilenet_v2\n$")
        self.assertEqual(missing.count("\n"), 1)
        for arguments, text in ((["--data", "train", "--pretrained", "--weights", "w.pth"], "leave one out"),
                                (["c.yaml", "--pretrained"], "--pretrained and --model go with --data DIR"),
                                (["--data", "train", "--pretrained", "resnet18"],
                                 "'resnet18': a network is named by --model resnet18."),
                                (["--data", "train", "--model", "chollet", "--pretrained"],
                                 "no weights file of 'chollet' is known"),
                                (["--data", "train", "--model", "resnet18.a7_in1k", "--pretrained"],
                                 "expected the name of a network"),
                                (["--data", "train", "--model", "resnet19", "--pretrained"], "Did you mean 'resnet18'")):
            self.assertIn(text, self.whisker("train", *arguments, code=2).stderr)

        made = self.folder / self.whisker("train", "--data", "train", "--model", "mobilenet_v2", "name=made",
                                          *small).stdout.strip()
        self.assertNotIn("pretrained", (made / "log.txt").read_text())
        data = self.folder / "made data"
        (data / "whisker/weights").mkdir(parents=True)
        shutil.copy(made / "best.safetensors", data / "whisker/weights/mobilenet_v2-b0353104.pth")
        environment = {**os.environ, "XDG_DATA_HOME": str(data)}
        for name, arguments in (("plain", []), ("named", ["--model", "mobilenet_v2"])):
            self.whisker("train", "--data", "train", *arguments, "--pretrained", f"name={name}", *small, env=environment)
            log = (self.folder / "runs" / name / "log.txt").read_text()
            self.assertIn(f"tensors loaded from {data}/whisker/weights/mobilenet_v2-b0353104.pth", log)
            self.assertEqual("--pretrained without --model: mobilenet_v2 is assumed; --model NAME takes another" in log,
                             not arguments)
        dry = self.whisker("train", "--data", "train", "--pretrained", "--dry-run", *small, env=environment)
        self.assertIn("mobilenet_v2 is assumed", dry.stderr)
        self.assertNotIn("fused:", dry.stdout)  # which is for log.txt
        self.whisker("train", "--data", "train", "name=unused", *small, env=environment)
        self.assertIn("a new network is trained, although pretrained weights of mobilenet_v2 are here: --pretrained "
                      "starts from them", (self.folder / "runs/unused/log.txt").read_text())
        self.whisker("train", "--data", "train", "--model", "keras_small", "name=other", *small, env=environment)
        self.assertNotIn("although pretrained", (self.folder / "runs/other/log.txt").read_text())


if __name__ == "__main__":
    unittest.main()
