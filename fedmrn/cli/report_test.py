#!/usr/bin/env python3
"""Tests of fedmrn report, as its users see it: the files it writes, and the
page in a browser (headless Chromium).

ctest sets the environment: FEDMRN_PROGRAM.
"""

import base64
import copy
import csv
import json
import os
import re
import shutil
import subprocess
import unittest

from program_test import ProgramTest

CHROMIUM = shutil.which("chromium")
PARAMS, DENSE = 389920, 1920
CONFIG = {
    "seed": 1,
    "data": {"name": "fmnist", "dir": "", "train_examples": 0,
             "test_examples": 0},
    "partition": {"kind": "iid", "clients": 100, "labels_per_client": 3,
                  "labels_assignment": "random", "alpha": 0.3,
                  "min_examples": 10},
    "model": {"name": "cnn4"},
    "method": {"name": "fedavg", "noise": "uniform", "stochastic": True,
               "progressive": True, "dense": "float32"},
    "train": {"epochs": 2, "batch": 64, "lr": 0.03, "momentum": 0.0,
              "weight_decay": 0.0},
    "rounds": {"count": 20, "clients_per_round": 10, "min_clients": 1,
               "weight": "batches"},
    "run": {"workers": 1, "eval_every": 1},
}
# Name: payload bits per parameter, accuracy.
METHODS = {
    "fedavg": (32, 0.90), "fedpm": (1, 0.78), "fedsparsify": (1.5, 0.81),
    "signsgd": (1, 0.87), "topk": (1.2, 0.87), "terngrad": (1.6, 0.885),
    "drive": (1, 0.888), "eden": (1, 0.889), "fedmrn": (1, 0.895),
    "fedmrns": (1, 0.897), "fedbat": (1, 0.89), "fedavg-sm": (1, 0.80),
    "fedavg-sms": (1, 0.82),
}
MAGNITUDES = {"fedmrn": 0.01, "fedmrns": 0.005}  # their defaults
CSV_HEADER = ("round,accuracy,loss,uplink_bytes,payload_bytes,dense_bytes,"
              "downlink_bytes,uplink_bits_per_param,clients,dropped,train_s,"
              "encode_s,aggregate_s,eval_s,wall_s\n")


def fake_run(folder, method, accuracy=None, finished=True, **settings):
    """A run folder as fedmrn run leaves it. The accuracy of its best round,
    the one before the last, is `accuracy`; settings are section__key=value."""
    config = copy.deepcopy(CONFIG)
    bits, usual = METHODS.get(method, (1, 0.5))
    config["method"]["name"] = method
    if method in MAGNITUDES:
        config["method"]["magnitude"] = MAGNITUDES[method]
    for name, value in settings.items():
        *section, key = name.split("__")
        (config[section[0]] if section else config)[key] = value
    best = usual if accuracy is None else accuracy
    payload, dense, header = int(PARAMS * bits / 8) * 10, DENSE * 40, 800
    rows = []
    rounds = config["rounds"]["count"]
    for n in range(1, rounds + 1):
        climb = best * (1 - 0.6 / (n + 1)) if n < rounds - 1 else best
        value = climb if n < rounds else best - 0.001
        rows.append(f"{n},{value},0.5,{payload + dense + header},{payload},"
                    f"{dense},1,{bits},10,0,20.000,{0.01 * bits:.3f},0.1,0.2,"
                    "21.000\n")
    if not finished:
        rows = rows[:rounds // 2]
    folder.mkdir(parents=True)
    (folder / "rounds.csv").write_text(CSV_HEADER + "".join(rows))
    (folder / "run.json").write_text(json.dumps({
        "fedmrn_version": "0.1.0", "started": "2024-05-17T12:00:00Z",
        "ended": "2024-05-17T13:00:00Z" if finished else None,
        "finished": finished, "rounds_done": len(rows),
        "masked_params": PARAMS, "dense_values": DENSE,
        "model_sha256": "ab" * 32, "config": config,
        "machine": {"cpu": "A <fast> CPU", "cores": 2, "os": "Debian"}}))
    return folder


def fake_study(folder):
    """Runs for every section of the page, with gaps."""
    for kind in ("iid", "dirichlet", "labels"):
        for method in METHODS:
            if (kind, method) == ("dirichlet", "fedpm"):
                continue
            for seed in (1, 2, 3):
                fake_run(folder / kind / f"{method}-{seed}", method,
                         METHODS[method][1] + 0.001 * seed, seed=seed,
                         partition__kind=kind)
    both = {"partition__kind": "labels"}
    for name in ("fedmrn", "fedmrns"):
        for stochastic, progressive in ((False, True), (True, False),
                                        (False, False)):
            fake_run(folder / f"{name}-{stochastic}-{progressive}", name,
                     0.86 + 0.01 * stochastic, method__stochastic=stochastic,
                     method__progressive=progressive, **both)
        for noise in ("uniform", "gaussian", "bernoulli"):
            for n in range(6):
                magnitude = 6.25e-4 * 2 ** n
                if (noise, magnitude) == ("uniform", MAGNITUDES[name]):
                    continue
                fake_run(folder / f"{name}-{noise}-{n}", name,
                         0.9 - 0.01 * abs(n - 3), method__noise=noise,
                         method__magnitude=magnitude, **both)
    fake_run(folder / "svhn", "fedmrn", data__name="svhn",
             data__dir="/no/such/folder", rounds__count=100,
             train__epochs=10)
    fake_run(folder / "unfinished", "eden", finished=False, seed=9)
    for seed in (1, 2):
        fake_run(folder / f"synthetic-{seed}", "fedmrn", seed=seed,
                 data__name="synthetic", data__train_examples=3000,
                 partition__kind="labels")


# The run in a folder of a strange name has this one.
HTML_COMMAND = ("fedmrn run 'runs/&lt;i&gt;'\\''a b/config.toml' "
                "--out 'runs/&lt;i&gt;'\\''a b-again'")


class ReportVerbTest(ProgramTest):
    """What all tests here use."""

    words = ["report"]

    def setUp(self):
        super().setUp()
        self.runs = self.folder / "runs"

    def succeed(self, *args):
        done = self.run_it(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def fail_with(self, message, *args, **kwargs):
        out = super().fail_with(f"fedmrn report: {message}", *args, **kwargs)
        self.assertEqual(out, "")

    def files(self):
        return [name for name in super().files() if name != "runs"]


class ReportTest(ReportVerbTest):

    def rows(self):
        with open(self.folder / "a.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_target_and_classes(self):
        fake_run(self.runs / "a", "fedmrn", 0.9)
        path = self.runs / "a" / "run.json"
        run = json.loads(path.read_text())
        run["last"] = {"round": 20, "confusion": [[8, 2], [1, 9]]}
        path.write_text(json.dumps(run))
        self.succeed("runs", "--csv", "a.csv", "--target", "0.7")
        # A round n before the last two has 0.9 * (1 - 0.6 / (n + 1)).
        row, = self.rows()
        self.assertEqual(
            (row["target_accuracy"], row["reached_seeds"],
             row["rounds_to_target"]), ("0.7", "1", "2"))
        self.assertAlmostEqual(float(row["uploaded_mb_to_target"]),
                               float(row["uploaded_mb"]) / 10, 5)
        page = (self.folder / "report.html").read_text()
        self.assertIn("to 70 %", page)
        self.assertIn("in the test after round 20; macro F1 0.850:", page)
        self.assertIn('--shade:0.80">8</td>', page)

    def test_tables(self):
        for seed, accuracy in ((1, 0.88), (2, 0.89), (3, 0.9)):
            fake_run(self.runs / str(seed), "fedmrn", accuracy, seed=seed,
                     partition__kind="labels")
        fake_run(self.runs / "again" / "3", "fedmrn", 0.1, seed=3,
                 partition__kind="labels")
        fake_run(self.runs / "ef", "topk", partition__kind="labels",
                 method__made_up=1)
        fake_run(self.runs / "plain", "topk", 0.5, partition__kind="labels",
                 method__made_up=2)
        fake_run(self.runs / "half", "eden", finished=False)
        out = self.succeed("runs", "--csv", "a.csv", "--markdown", "a.md")
        self.assertEqual(
            out, "CSV       a.csv\nMarkdown  a.md\nreport    report.html\n"
            "runs      7, 1 not finished and only listed, 1 with the config "
            "of another\n")
        self.assertEqual(self.files(), ["a.csv", "a.md", "report.html"])
        rows = {row["label"]: row for row in self.rows()}
        self.assertEqual(list(rows), ["Top-k made_up=1", "Top-k made_up=2",
                                      "FedMRN"])
        mine = rows["FedMRN"]
        self.assertEqual(
            [mine[key] for key in ("data", "partition", "method", "seeds",
                                   "best_mean", "best_std", "last_mean",
                                   "paper_mean", "paper_std")],
            ["fmnist", "3 labels per client, label sets at random", "fedmrn",
             "3", "89", "1", "88.9", "", ""])
        self.assertAlmostEqual(float(mine["payload_bits"]), 1, 5)
        self.assertAlmostEqual(float(mine["dense_bits"]), 32 * DENSE / PARAMS,
                               5)
        self.assertAlmostEqual(float(mine["header_bits"]), 640 / PARAMS, 5)
        self.assertAlmostEqual(
            float(mine["uploaded_mb"]),
            20 * (PARAMS * 10 / 8 + DENSE * 40 + 800) / 1e6, 3)
        self.assertEqual((mine["train_s"], mine["encode_s"]), ("2", "0.001"))
        text = (self.folder / "a.md").read_text()
        self.assertIn("1 to 3 seeds, and each asks other clients: between "
                      "rows of other seeds only differences compare; "
                      "train.lr not as usual: FedMRN 0.03. Not the paper's "
                      "protocol (its values in brackets): rounds.count=20 "
                      "(100), train.epochs=2 (10), "
                      "partition.labels_assignment=random (cyclic).", text)
        self.assertIn("| FedMRN | 3 | **89.00 ± 1.00** | the best | "
                      "**86.17 ± 0.97** | 1.55 | the best |", text)
        self.assertIn("| Top-k made_up=2 | 1 | 50.00 | one seed |", text)
        self.assertIn("| FedMRN | **1.159** | 1.000 | 0.158 | 0.002 | **27.7** "
                      "| **11.3** |", text)
        self.assertIn("| FedMRN | 2.000 | **1.00** | **0.05** |", text)

    def test_replaces_only_reports(self):
        fake_run(self.runs / "a", "fedavg")
        for _ in range(2):
            self.succeed("runs", "--csv", "a.csv", "--markdown", "a.md")
        for option, name in (("--out", "a.html"), ("--csv", "b.csv"),
                             ("--markdown", "b.md")):
            (self.folder / name).write_text("mine")
            self.fail_with(f"{name}: is there already, and not made by fedmrn "
                           "report: remove it or choose another name",
                           "runs", option, name)
            self.assertEqual((self.folder / name).read_text(), "mine")

    def test_mistakes(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 2)
        self.assertIn("DIR is required", done.stderr)
        self.fail_with("no: cannot read it: No such file or directory", "no")
        self.runs.mkdir()
        self.fail_with("runs: no run here or below: none has a run.json; "
                       "fedmrn run --out DIR makes one", "runs")
        folder = fake_run(self.runs / "a", "fedavg")
        whole = {name: (folder / name).read_text()
                 for name in ("run.json", "rounds.csv")}
        for name, text, message in (
                ("rounds.csv", whole["rounds.csv"][:-5],
                 "line 21: is cut off: the file ends in it"),
                ("rounds.csv", CSV_HEADER,
                 "has 0 rounds, but run.json tells of 20"),
                ("run.json", whole["run.json"][:-5],
                 "is damaged: it is not a JSON object"),
                ("run.json", "{}", "has no config.method.name; it is no run "
                 "of fedmrn, or damaged")):
            (folder / name).write_text(text)
            self.fail_with(f"runs/a/{name}: {message}", "runs")
            (folder / name).write_text(whole[name])
        (folder / "rounds.csv").unlink()
        self.fail_with("runs/a/rounds.csv: cannot read it: No such file or "
                       "directory", "runs")
        (folder / "rounds.csv").write_text(whole["rounds.csv"])
        self.fail_with("no/a.html: cannot write it: No such file or directory",
                       "runs", "--out", "no/a.html")
        self.fail_with("gnuplot draws the pictures and is not installed "
                       "(Debian: apt install gnuplot-nox)", "runs", code=1,
                       env={**os.environ, "PATH": str(self.folder)})
        self.assertEqual(self.files(), [])
        # A full disk is nobody's mistake.
        (self.folder / "a.csv.tmp").symlink_to("/dev/full")
        self.fail_with("a.csv: cannot write it: No space left on device",
                       "runs", "--csv", "a.csv", code=1)
        self.assertEqual(self.files(), [])

    def test_names_from_outside_stay_text(self):
        evil = "<s>\"'\n`$(touch owned)"
        fake_run(self.runs / "<i>'a b", evil, data__name=evil,
                 partition__kind=evil)
        self.succeed("runs", "--markdown", "a.md")
        page = (self.folder / "report.html").read_text()
        self.assertFalse("<s>" in page or "<i>" in page)
        self.assertTrue(HTML_COMMAND in page)
        self.assertEqual(self.files(), ["a.md", "report.html"])

    def test_a_grid_gives_the_titles(self):
        for name, noise in (("one", "uniform"), ("two", "bernoulli")):
            folder = fake_run(self.runs / name, "fedmrn", method__noise=noise)
            (folder / "grid.json").write_text(json.dumps(
                {"summary": "Dice & coins", "labels": {"method": name}}))
        self.succeed("runs", "--csv", "a.csv")
        page = (self.folder / "report.html").read_text()
        self.assertIn("<title>Dice &amp; coins</title>", page)
        self.assertIn("<h1>Dice &amp; coins</h1>", page)
        self.assertNotIn("the paper where the protocol", page)
        self.assertEqual([row["label"] for row in self.rows()], ["one", "two"])

    def test_pictures(self):
        fake_run(self.runs / "a", "fedavg")
        self.succeed("runs", "--plots", "pictures")
        names = {path.stem: path for path in
                 (self.folder / "pictures").glob("*.png")}
        for name in ("round-curve", "upload-curve"):
            data = names.pop(f"fmnist-20x2-iid-{name}").read_bytes()
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        for path in names.values():
            self.assertTrue(path.with_suffix(".svg").exists())


class Browser:
    """Headless Chromium, spoken to through a pair of pipes."""

    def __init__(self, profile):
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()

        def use_pipes():  # Chromium takes 3 and 4
            os.dup2(to_read, 103)
            os.dup2(back_write, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)
        self.program = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run",
             f"--user-data-dir={profile}", "--remote-debugging-pipe",
             "about:blank"],
            pass_fds=(3, 4), preexec_fn=use_pipes, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(back_write)
        self.bytes, self.count, self.events = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")
        self.session = None
        self.session = self.call("Target.attachToTarget", flatten=True,
                                 targetId=target["targetId"])["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    session = None

    def read(self):
        while b"\0" not in self.bytes:
            more = os.read(self.back, 1 << 20)
            if not more:
                raise EOFError("Chromium has gone")
            self.bytes += more
        message, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width, dark=False):
        """What the page caused while it was loaded."""
        self.events = []
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired"
                      for event in self.events):
            self.events.append(self.read())
        return self.events

    def evaluate(self, script):
        return self.call("Runtime.evaluate", expression=script,
                         returnByValue=True)["result"].get("value")

    def screenshot(self, path, whole=True):
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("innerWidth")
        path.write_bytes(base64.b64decode(self.call(
            "Page.captureScreenshot", captureBeyondViewport=whole,
            clip={"x": 0, "y": 0, "width": width, "height": height,
                  "scale": 1})["data"]))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.program.wait(timeout=60)
        os.close(self.to)
        os.close(self.back)


@unittest.skipUnless(CHROMIUM, "no chromium")
class PageTest(ReportVerbTest):

    def open_browser(self):
        browser = Browser(self.folder / "profile")
        self.addCleanup(browser.close)
        return browser

    def test_page(self):
        fake_study(self.runs)
        self.succeed("runs")
        path = self.folder / "report.html"
        browser = self.open_browser()
        for width, dark in ((1280, False), (390, True)):
            events = browser.open(path, width, dark)
            said = [event for event in events if event.get("method") in
                    ("Log.entryAdded", "Runtime.consoleAPICalled",
                     "Runtime.exceptionThrown")]
            self.assertEqual(said, [])
            asked = [event["params"]["request"]["url"] for event in events
                     if event.get("method") == "Network.requestWillBeSent"]
            self.assertEqual([url for url in asked
                              if not url.startswith(("file:", "data:"))], [])
            self.assertEqual(browser.evaluate(
                "document.documentElement.scrollWidth - "
                "document.documentElement.clientWidth"), 0)
            # Text of the plots, as people see it: on a phone, too.
            self.assertGreater(browser.evaluate(
                "Math.min(...[...document.querySelectorAll('svg text')]"
                ".filter(t => t.textContent.trim()).map(t => t.getBoundingClientRect().height))"), 9)
            ground, ink = (browser.evaluate(
                f"getComputedStyle({what}") for what in (
                    "document.body).backgroundColor",
                    "document.querySelector('svg text')).fill"))
            light = [sum(map(int, re.findall(r"\d+", colour)[:3])) > 384
                     for colour in (ground, ink)]
            self.assertEqual(light, [not dark, dark], (ground, ink))
        self.check_contents(browser)

    def check_contents(self, browser):
        count = lambda what: browser.evaluate(
            f"document.querySelectorAll({json.dumps(what)}).length")
        self.assertEqual(
            browser.evaluate("[...document.querySelectorAll('h2')]"
                             ".map(h => h.textContent)"),
            ["Accuracy", "Accuracy against FedAvg", "Convergence",
             "Accuracy against upload", "Ablation", "Noise",
             "Time of a client", "Upload", "Clients and their labels",
             "Every run"])
        self.assertEqual(count("nav a"), 10)
        self.assertEqual(count("script"), 0)
        # Five cells with accuracies, three settings with two tables each, and
        # the accuracies lost.
        self.assertEqual(count("table"), 12)
        # Curves: five cells on a sheet each, and the variants of two methods on
        # two; against upload not where there is one method alone. Ablation: three, noise: two methods in one. Three
        # settings with times and upload. Labels: fmnist, synthetic, not svhn.
        sheets = 5 + 2 * 2
        weighed = sheets - 2
        labels = count(".sideways svg") - weighed
        self.assertIn(labels, (1, 4))  # without and with fmnist's files
        self.assertEqual(count("figure svg"),
                         2 * sheets + weighed + 3 + 2 + 3 * 3 + labels)
        # No text of a plot reaches beyond it.
        self.assertEqual(browser.evaluate(
            "[...document.querySelectorAll('figure svg')].flatMap(s => "
            "[...s.querySelectorAll('text')].filter(t => "
            "t.textContent.trim() && (t.getBoundingClientRect().left < "
            "s.getBoundingClientRect().left - 1 || "
            "t.getBoundingClientRect().right > "
            "s.getBoundingClientRect().right + 1))"
            ".map(t => t.textContent.trim()))"), [])
        self.assertEqual(browser.evaluate(
            "const ids = [...document.querySelectorAll('[id]')]"
            ".map(e => e.id); ids.length - new Set(ids).size"), 0)
        # What a picture refers to is in itself.
        self.assertEqual(browser.evaluate(
            "[...document.querySelectorAll('use')].filter(u => "
            "u.closest('svg').querySelector("
            "u.getAttribute('xlink:href')) === null).length"), 0)
        row = browser.evaluate(
            "[...[...document.querySelectorAll('tbody tr')].find(r => "
            "r.cells[0].textContent === 'FedPM').cells]"
            ".map(c => c.textContent)")
        self.assertEqual(row, [
            "FedPM", "3", "78.20 ± 0.10", "−12.00", "75.71 ± 0.10", "1.36",
            "−11.62"])
        bars = browser.evaluate(
            "document.querySelector("
            "'[aria-labelledby=fmnist-20x2-labels-ablation-title]')"
            ".textContent")
        for label in ("FedAvg", "SignSGD", "FedMRN", "FedMRN w/o SM",
                      "FedMRN w/o PM", "FedMRN w/o PSM", "FedAvg w. SM",
                      "FedMRNS w/o PSM", "FedAvg w. SM (signed)"):
            self.assertIn(label, bars)
        self.assertEqual(count(".run"), 3 * 3 * 13 - 3 + 2 * (3 + 17) + 4)
        self.assertIn("/no/such/folder", browser.evaluate(
            "document.querySelector('#labels ~ p.note').textContent"))


if __name__ == "__main__":
    unittest.main()
