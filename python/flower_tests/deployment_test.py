"""fedmrn.flower against the real thing: a SuperLink with TLS and three
SuperNodes with registered keys.
"""

import json
import unittest

import fedmrn
from flower_util import CLIENTS, CONFIG, OF, FlowerTest, Rounds, stage


class DeploymentTest(FlowerTest):
    """Its tests share a deployment and the model of the undisturbed run; so
    they run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.start(simulation=False)

    def test_1_three_rounds(self):
        out = self.make_folder("whole")
        done = self.deployment.submit(
            stage(self.deployment, "example"), {**CONFIG, "out": str(out)},
            len(CLIENTS))
        self.check_completed(done)
        model = (out / "model.frame").read_bytes()
        here = Rounds()
        for _ in range(3):
            here.next()
        self.assertEqual(model, here.down())
        type(self).model = model

        rows = list(map(json.loads,
                        (out / "rounds.jsonl").read_text().splitlines()))
        self.assertEqual([row["round"] for row in rows], [0, 1, 2, 3])
        uploaded = sum(row.get("upload-bytes", 0) for row in rows)
        self.assertEqual(uploaded, sum(here.frame_lengths))
        # Flower's own count of what the SuperLink got: the frames, and about
        # 1.6 kB around each of nine answers and three introductions.
        counted = done["network-traffic"]["inbound-bytes"]
        print(f"\nFlower counted {counted} bytes of upload, frames are "
              f"{uploaded}", flush=True)
        self.assertGreater(counted, uploaded)
        self.assertLess(counted, uploaded + 12 * 3000)

    def test_2_an_unregistered_key(self):
        self.deployment.make_key("stranger")
        process = self.deployment.start_node("stranger", 0, OF)
        self.assertNotEqual(process.wait(timeout=900), 0)
        self.assertIn("Failed to activate SuperNode",
                      self.deployment.log("stranger"))
        self.deployment.end("stranger")

    def test_3_a_killed_server_resumes(self):
        out = self.make_folder("resumed")
        app = stage(self.deployment, "dying", "dying_server.py",
                    serverapp="fmnist.dying_server:app")
        self.deployment.begin(app, {**CONFIG, "out": str(out)}, len(CLIENTS))
        self.wait_for(out / "dying")
        self.deployment.end("run")
        self.assertEqual(
            fedmrn.parse((out / "model.frame").read_bytes()).round, 2)
        done = self.deployment.submit(
            app, {**CONFIG, "out": str(out), "resume": True}, len(CLIENTS))
        self.check_completed(done)
        self.assertIn("goes on after round 1", done["log"])
        self.assertNotIn("[ROUND 1/3]", done["log"])
        self.assertEqual((out / "model.frame").read_bytes(), self.model)


if __name__ == "__main__":
    unittest.main()
