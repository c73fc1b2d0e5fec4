"""What goes wrong on nodes: frames that are damaged or of another round, a node
that is killed, two nodes that say they are the same client, and a client that
is back on another node.
"""

import signal
import threading
import unittest

from flower_util import CLIENTS, CONFIG, OF, FlowerTest, Rounds, stage


class FaultsTest(FlowerTest):
    @classmethod
    def setUpClass(cls):
        cls.start(simulation=False)

    def test_the_rounds_go_on(self):
        out = self.make_folder("faults")
        app = stage(self.deployment, "faulty", "faulty_client.py",
                    "patient_server.py", clientapp="fmnist.faulty_client:app",
                    serverapp="fmnist.patient_server:app")
        with open(app / "pyproject.toml", "a") as project:
            project.write('faults = ""\n')
        plan = "damage 3 1, replay 11 2, hang 17 2"
        self.deployment.add_node("twin", 3, OF)

        def kill_and_return():
            self.wait_for(out / "hanging")
            self.deployment.end("node17", signal.SIGKILL)
            self.wait_for(out / "waiting")
            self.deployment.add_node("another17", 17, OF)

        killer = threading.Thread(target=kill_and_return)
        killer.start()
        done = self.deployment.submit(
            app, {**CONFIG, "rounds": 4, "out": str(out), "faults": plan},
            len(CLIENTS))
        killer.join()
        self.check_completed(done)
        for said in (r"client 3 \(node \d+\) refused: offset \d+: the checksum",
                     r"client 11 \(node \d+\) refused: the frame is of round 1",
                     r"client 17 \(node \d+\) has not answered",
                     r"client 17 \(node \d+\) is away",
                     r"node \d+ refused: client 3 is node \d+"):
            self.assertRegex(done["log"], said)
        self.assertNotRegex(done["log"], "refused: client 17")
        model = (out / "model.frame").read_bytes()
        here = Rounds()
        here.next([11, 17])
        here.next([3])
        here.next([3, 11])
        here.next([3, 11, 17])
        self.assertEqual(model, here.down())


if __name__ == "__main__":
    unittest.main()
