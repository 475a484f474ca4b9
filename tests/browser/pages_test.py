"""The HTML pages that the program writes, in Chromium started once: opened, clicked, searched and stepped through at
three widths, in the dark and printed, without an error in the console and without a request."""

import json
import pathlib
import shutil
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "apps"))
from chromium import PROGRAM as CHROMIUM, Chromium
from harness import CONFIG, ProgramTest


class Pages(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Chromium()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def tearDown(self):
        self.assertEqual((self.browser.faults, self.browser.requests), ([], []))

    def graph(self, *target, name="page.html"):
        self.whisker("study", "graph", *target, "-o", name, "--force")
        page = self.folder / name
        self.assertLess(page.stat().st_size, 2000000)
        self.browser.open(page)
        return page

    def value(self, script):
        return self.browser.value(script)

    def text(self, selector):
        return self.value(f"document.querySelector({selector!r}).textContent")

    def nodes(self):
        return self.value("document.querySelectorAll('#graph g > .node').length")

    def click(self, selector):
        self.browser.click(f"document.querySelector({selector!r})")

    def test_gradient_flow_has_a_chart_for_each_question(self):
        self.whisker("train", "c.yaml", *self.data, "name=flow", "train.histogram_every=4")
        self.whisker("study", "gradient-flow", "runs/flow", "-o", "flow.html")
        self.browser.open(self.folder / "flow.html")
        self.assertEqual(self.value("document.querySelectorAll('figure svg').length"), 5)
        self.assertIn("recorded steps, 1 to 9", self.text("pre"))

    def test_steps_by_keys_slider_and_clicks_say_what_study_step_says(self):
        self.graph("residual", "device=reference")
        said = json.loads(self.whisker("study", "step", "residual", "device=reference", "--json").stdout)["frames"]
        self.assertEqual(self.text("#place"), f"1 / {len(said)}")
        self.browser.press("n", "ArrowRight", "p")
        self.assertEqual(self.text("#frame h2"), "forward: 2 matmul")
        self.assertEqual(self.text("#frame .example"), said[1]["example"])
        self.browser.press("b")
        self.assertIn("backward begins here, with dy = 1", self.text("#frame"))
        for frame in said[7:]:
            self.browser.press("n")
            shown = self.value("[...document.querySelectorAll('#frame .example')].map(e => e.textContent)")
            self.assertEqual(shown, [one["example"] for one in frame["operands"] if one.get("example")])
        self.assertEqual(self.text("#place"), f"{len(said)} / {len(said)}")
        self.value("(s => { s.value = 3; s.dispatchEvent(new Event('input')); return 0 })"
                   "(document.getElementById('slider'))")
        self.assertEqual(self.text("#frame h2"), "forward: 4 add")
        self.click("[data-node='5 sub']")
        self.assertEqual(self.text("#frame h2"), "forward: 5 sub")
        self.click(".now")  # what runs is marked, and a click on it stays
        self.assertEqual(self.text("#frame h2"), "forward: 5 sub")

    def test_a_sum_of_gradients_grows_in_the_graph(self):
        self.graph("residual", "device=reference")
        grows = "[...document.querySelectorAll('#frame i')].some(e => e.textContent.includes('grows to'))"
        norms = []
        backward = "[...document.querySelectorAll('[data-node=\"1 matmul\"]')].pop().querySelector('.grad').textContent"
        for _ in range(self.value("frames.length")):
            norms.append(self.value(backward))
            if self.value(grows):
                break
            self.browser.press("n")
        else:
            self.fail("no gradient grows")
        self.assertEqual(len(set(norms)), 3, norms)  # nothing, one way's, both ways'

    def test_heat_maps_have_numbers_and_all_digits_with_v(self):
        self.graph("-e", "sum(x * c)", "x=[1, -2, 0.1]", "c=const([3, 1e39, 0])")
        cells = ("[...document.querySelectorAll('#frame .tensor')]"
                 ".map(t => [...t.querySelectorAll('text')].map(e => e.textContent))")
        self.assertEqual(self.value(cells)[0], ["1", "-2", "0.1"])
        self.assertEqual(self.value(cells)[1], ["3", "inf", "0"])
        self.assertEqual(self.value("document.querySelectorAll('#frame .tensor:nth-of-type(2) .odd').length"), 1)
        self.graph("-e", "sum(x / 3)", "x=[1, 2]")
        self.browser.press("v")
        self.assertEqual(self.value(cells)[1], ["0.33333334", "0.6666667"])

    def test_operators_have_the_names_of_a_formula_s_parts(self):
        self.graph("-e", "h = tanh(x); sum(h * h)", "x=[1, 2]")
        self.assertEqual(self.text("[data-node='1 tanh'] .quiet"), "h")
        self.assertRegex(self.text("#frame"), r"took [0-9.e-]+ (\u00b5s|ms)")
        self.graph("conv", "device=reference")
        self.assertEqual(self.text("#frame h2"), "forward: 1 conv2d")
        self.assertIn("kernel 3 3, stride 1 1", self.text("#frame"))
        # Numbers that are wider than the panel get smaller.
        self.graph("-e", "sum(x * 1.234567)", "x=[[-0.0009468, 0.003618, -0.01273, 0.003504, -0.2198, -0.0227, 1, 2]]")
        self.assertTrue(self.value("[...document.querySelectorAll('.heat')].every(e => "
                                   "e.getBoundingClientRect().right <= document.body.clientWidth)"))

    def test_a_large_network_folds_and_unfolds(self):
        self.graph("resnet50", "data.image_size=32", "--classes", "10", "device=cpu")
        opened = self.nodes()
        self.assertLessEqual(opened, 200)
        self.assertGreater(opened, 20)
        self.click("[data-node='layer1.1']")
        self.assertGreater(self.nodes(), opened)
        self.click("[data-fold='layer1.1']")
        self.assertEqual(self.nodes(), opened)
        # Unfolded far from the frame that is shown, and smaller: it stays in view, as large as before.
        self.browser.press("-")
        width = self.value("drawn.image.clientWidth / drawn.width")
        self.click("[data-node='layer4.1']")
        at = self.value("(e => e.getBoundingClientRect().y)(document.querySelector(\"[data-fold='layer4.1'] text\"))")
        self.assertTrue(0 < at < 800, at)
        self.assertAlmostEqual(self.value("drawn.image.clientWidth / drawn.width"), width, places=2)
        self.assertEqual(self.value("document.activeElement.dataset.fold"), "layer4.1")
        self.click("#fold")
        self.assertLess(self.nodes(), opened)
        self.click("#unfold")
        self.assertGreater(self.nodes(), 200)  # every operator, forward and backward
        self.click("#fold")
        self.browser.press("/", *"layer3.4.conv2", "Enter", "Escape")
        self.assertIn("layer layer3.4.conv2", self.text("#frame h2"))
        self.assertEqual(self.text(".now .quiet"), "layer3.4.conv2")  # unfolded for it
        self.browser.press("/", *"zz", "Enter", "Escape")
        self.assertTrue(self.value("document.getElementById('search').classList.contains('nothing')"))
        self.click("#unfold")
        for _ in range(self.value("frames.length")):  # every frame can be shown
            self.value("goTo(current + 1)")

    def test_widths_darkness_and_print(self):
        page = self.graph("mlp")
        for width in (360, 1280, 1920):
            for dark in (False, True):
                self.browser.open(page, width, dark=dark)
                self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)
                self.browser.press("n")
                self.assertIn("2 add", self.text("#frame h2"))
        self.assertEqual(self.browser.pdf()[:5], b"%PDF-")
        self.browser.open(page, printed=True, dark=True)
        self.assertEqual(self.value("getComputedStyle(document.body).backgroundColor"), "rgb(246, 247, 249)")
        self.assertEqual(self.value("getComputedStyle(document.querySelector('.controls')).display"), "none")

    def test_a_gradient_of_0_is_marked_and_an_address_names_its_frame(self):
        self.graph("-e", "mean(relu(x @ w))", "x=const([[1, 2]])", "w=[[-1], [-1]]", "device=reference")
        self.value("(location.hash = '#4', followAddress(), 0)")
        self.assertEqual(self.text("#place"), "4 / 7")
        self.assertEqual(self.value("document.querySelectorAll('#graph .node.dead').length"), 0)
        self.browser.press("f")
        dead = self.value("[...document.querySelectorAll('#graph .node.dead')].map(e => e.dataset.node)")
        self.assertEqual(sorted(dead), ["1 matmul", "w"])
        strokes = self.value("[...document.querySelectorAll('.node.dead text')].map(e => getComputedStyle(e).stroke)")
        self.assertEqual(set(strokes), {"none"})  # the frame's, which no one could read in letters

    def test_zoom_by_keys(self):
        self.graph("conv")
        before = self.value("drawn.image.clientWidth")
        self.browser.press("+")
        self.assertGreater(self.value("drawn.image.clientWidth"), before)
        self.browser.press("0")
        self.assertLessEqual(self.value("drawn.image.clientHeight"),
                             self.value("document.getElementById('graph').clientHeight"))

    def test_hostile_names_stay_text(self):
        hostile = "</script><img src=http://localhost/x onerror=document.title='won'><!--\u202e\x1b[2J"
        recorded = self.folder / "step.safetensors"
        self.whisker("study", "record", "mlp", "-o", "step.safetensors", "--force")
        content = recorded.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        recording = json.loads(header["__metadata__"]["recording"])
        for entry in recording["entries"]:
            entry["layer"] = hostile
            if entry["kind"] != "op":
                entry["name"] = hostile
        recording["network"] = hostile
        header["__metadata__"]["recording"] = json.dumps(recording)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        recorded.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size:])
        self.graph("step.safetensors")
        self.assertEqual(self.value("document.querySelectorAll('img').length"), 0)
        self.assertIn("</script><img", self.text("#title"))
        self.assertNotEqual(self.value("document.title"), "won")
        self.assertNotIn("\x1b", self.value("document.documentElement.outerHTML"))

    def test_the_worst_mistakes(self):
        (self.folder / "c.yaml").write_text(CONFIG)
        self.train("base", "train.epochs=1")
        self.whisker("evaluate", "runs/base/best.safetensors", "val", "--worst", "4", "--out", "worst.html")
        for width, dark in ((360, False), (1280, True), (1920, False)):
            self.browser.open(self.folder / "worst.html", width, dark=dark)
            self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)
            self.assertGreater(self.value("document.querySelectorAll('.card').length"), 0)
            self.assertGreater(self.value("document.images[0].naturalWidth"), 0)

    def test_pages_of_data_labels_evaluations_and_comparisons(self):
        (self.folder / "c.yaml").write_text(CONFIG)
        for name in ("first", "second"):
            self.train(name, "train.epochs=1", f"seed={len(name)}")
        weights = "runs/first/best.safetensors"
        (self.folder / "s.csv").write_text("load\n" + "".join(f"{i % 7}\n" for i in range(80)))
        (self.folder / "t.tsv").write_text("".join(f"{'ab'[i % 2]}\t{'long ' * (i % 9)}text {i % 30}\n" for i in range(60)))
        for kind, file in (("series", "s.csv, series: {columns: [load]}"), ("text", "t.tsv")):
            (self.folder / f"{kind}.yaml").write_text(f"data: {{kind: {kind}, train: {file}, val_split: 0.3}}\n"
                                                      "model: [{gru: {units: 2}}, {dense: {units: 1}}]\n")
            self.whisker("data", "check", f"{kind}.yaml", "--report", f"{kind}.html")
        self.whisker("data", "check", "train", "--val", "val", "--report", "images.html", code=None)
        self.whisker("data", "label-issues", "train", "--weights", weights, "-o", "labels.html")
        self.whisker("evaluate", weights, "val", "--report", "evaluation.html")
        self.whisker("report", "runs/first", "runs/second", "-o", "both.html")
        for name, sections in (("images", ["classes", "sizes", "examples", "duplicates", "odd"]),
                               ("series", ["series", "columns", "copies", "odd"]),
                               ("text", ["classes", "lengths", "examples", "copies", "odd"]), ("labels", ["issues"]),
                               ("evaluation", ["confusion", "classes", "calibration", "roc", "worst", "confused", "measured"]),
                               ("both", ["curves", "figures", "settings", "disagreements"])):
            for width, dark in ((360, True), (1280, False), (1920, False)):
                self.browser.open(self.folder / f"{name}.html", width, dark=dark)
                self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width, name)
                self.assertEqual(self.value("[...document.querySelectorAll('h2')].map(e => e.id)"), sections)
                self.assertEqual(self.value("[...document.images].filter(e => !e.naturalWidth).length"), 0)
                self.assertEqual((self.browser.faults, self.browser.requests), ([], []), name)

    def test_the_report_of_a_run(self):
        (self.folder / "c.yaml").write_text(CONFIG)
        hostile = "<img src=http:x onerror=document.title='won'>"
        for label, name in ((0, hostile), (1, "'\"&amp;")):
            shutil.copytree(self.folder / f"train/c{label}", self.folder / "hostile" / name)
        run = self.folder / "runs/report"
        self.whisker("train", "c.yaml", "name=report", "data.train=hostile", "data.val_split=0.3", "train.log_every=1")
        for width, dark in ((360, False), (360, True), (1280, True), (1920, False)):
            self.browser.open(run / "report.html", width, dark=dark)
            self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)
            sections = self.value("[...document.querySelectorAll('h2')].map(e => e.id)")
            self.assertEqual(sections, ["curves", "confusion", "classes", "calibration", "roc", "mistakes", "samples",
                                        "time", "data", "config", "environment", "commands"])
            self.assertEqual(self.value("[...document.querySelectorAll('nav a')].map(e => e.hash.slice(1))"), sections)
            self.assertEqual(self.value("[...document.querySelectorAll('svg')].filter(e => e.clientWidth < 150).length"), 0)
            self.assertGreater(self.value("document.images.length"), 4)
            self.assertEqual(self.value("[...document.images].filter(e => !e.naturalWidth).length"), 0)
        self.assertEqual(self.value("document.scripts.length"), 0)
        self.assertNotEqual(self.value("document.title"), "won")
        self.assertIn(hostile, self.text("main"))
        self.browser.open(run / "report.html", 300, printed=True)  # nobody scrolls on paper
        self.assertEqual(self.value("[...document.querySelectorAll('main *')].map(e => e.getBoundingClientRect().right)"
                                    ".filter(right => right > 300)"), [])
        self.browser.open(run / "report.html", printed=True, dark=True)
        self.assertEqual(self.value("getComputedStyle(document.querySelector('nav')).display"), "none")
        self.assertEqual(self.value("getComputedStyle(document.body).backgroundColor"), "rgb(246, 247, 249)")
        self.assertEqual(self.browser.pdf()[:5], b"%PDF-")


if __name__ == "__main__":
    if not CHROMIUM:
        print("skipped: no chromium; scripts/install_packages.sh test installs it on Debian")
        sys.exit(77)
    try:
        Chromium().close()
    except (OSError, RuntimeError) as error:
        print(f"skipped: chromium does not start ({error})")
        sys.exit(77)
    unittest.main()
