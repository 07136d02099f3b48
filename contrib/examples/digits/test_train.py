"""Unit tests of the example training. Run: python3 -m unittest discover -s contrib/examples/digits"""

import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import train  # noqa: E402


class Training(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name
        os.environ["UNISCHED_PROGRESS"] = os.path.join(self.dir, "progress.jsonl")
        self.addCleanup(os.environ.pop, "UNISCHED_PROGRESS")
        for s in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
            self.addCleanup(signal.signal, s, signal.getsignal(s))

    def train(self, ckpt, *more, interrupt_at=()):
        """Exit code and last line of one run, in which a signal arrives during the given iterations' steps."""
        done = [0]
        real = train.Network.step

        def step(net, x, label):
            real(net, x, label)
            done[0] += 1
            if done[0] in interrupt_at:
                os.kill(os.getpid(), signal.SIGUSR1)

        out, code = io.StringIO(), 0
        train.Network.step = step
        try:
            with contextlib.redirect_stdout(out):
                train.main(["--data", "synthetic", "--ckpt", os.path.join(self.dir, ckpt), *more])
        except SystemExit as e:
            code = e.code
        finally:
            train.Network.step = real
        return code, out.getvalue().splitlines()[-1]

    def test_interrupted_and_uninterrupted_end_with_the_same_weights(self):
        args = ["--iters", "120", "--eval-every", "30"]
        _, want = self.train("whole", *args)
        self.assertTrue(want.startswith("end iter=120 "), want)
        self.assertEqual(self.train("parts", *args, interrupt_at=[31])[0], 99)
        self.assertEqual(self.train("parts", *args, interrupt_at=[1])[0], 99)
        self.assertEqual(self.train("parts", *args, interrupt_at=[60]), (99, "checkpoint iter=92"))
        self.assertEqual(self.train("parts", *args), (0, want))
        with open(os.environ["UNISCHED_PROGRESS"]) as f:
            saved = [x["iter"] for x in map(json.loads, f) if "checkpoint" in x]
        self.assertEqual(saved, [31, 32, 92])

    def test_another_seed_gives_other_weights(self):
        one, two = (self.train(s, "--iters", "3", "--seed", s) for s in "12")
        self.assertNotEqual(one, two)

    def test_learns_and_stops_at_the_target(self):
        code, last = self.train("t", "--iters", "5000", "--target", "val_acc>=0.9", "--eval-every", "20")
        self.assertEqual(code, 0)
        words = dict(w.split("=") for w in last.split()[1:])
        self.assertLess(int(words["iter"]), 5000)
        self.assertGreaterEqual(float(words["val_acc"]), 0.9)
        with open(os.environ["UNISCHED_PROGRESS"]) as f:
            end = json.loads(f.readlines()[-1])
        self.assertEqual(end["reason"], "target")

    def test_the_pace_does_not_delay_a_checkpoint(self):
        """A step that lasts an hour ends at the signal; the test would hang otherwise."""
        self.assertEqual(self.train("h", "--iters", "5", "--step-time", "3600", interrupt_at=[1])[0], 99)

    def test_real_data_when_installed(self):
        if not os.path.exists(train.DEBIAN_DATA):
            self.skipTest("python3-sklearn is not installed")
        import numpy

        (x, y), (vx, vy) = train.load_data(numpy, None)
        self.assertEqual((x.shape, y.shape, vx.shape, vy.shape), ((1437, 64), (1437,), (360, 64), (360,)))
        self.assertEqual((float(x.min()), float(x.max())), (0.0, 1.0))


class Speed(unittest.TestCase):
    def test_placement(self):
        for env, want in [
            ({}, (1, 1)),
            ({"SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_NUM_NODES": "2"}, (8, 2)),
            ({"SLURM_JOB_GPUS": "0,1,5", "SLURM_NNODES": "1"}, (3, 1)),
            ({"CUDA_VISIBLE_DEVICES": "2,3"}, (2, 1)),
            ({"SLURM_GPUS": "6", "SLURM_GPUS_ON_NODE": "2", "SLURM_NNODES": "1"}, (2, 1)),
            ({"SLURM_GPUS_ON_NODE": "x", "SLURM_NNODES": "0"}, (1, 1)),
        ]:
            self.assertEqual(train.placement(env), want, env)

    def test_step_time(self):
        args = train.flags(["--step-time", "0.1", "--scaling", "1:1.0,2:0.5,8:0.125", "--cross-node", "1.25"])
        for gpus, nodes, want in [(1, 1, 0.1), (2, 1, 0.05), (2, 2, 0.0625), (4, 1, 0.025), (8, 2, 0.015625), (16, 1, 0.0125)]:
            self.assertAlmostEqual(train.step_time(args, gpus, nodes), want)

    def test_bad_flags(self):
        for argv in (["--target", "val_acc"], ["--scaling", "1"], ["--scaling", "0:1"], ["--scaling", "1:-1"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                train.flags(argv)


if __name__ == "__main__":
    unittest.main()
