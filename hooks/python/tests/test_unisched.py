"""Unit tests of the training helper. Run: python3 -m unittest discover -s hooks/python -t hooks/python"""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import unisched  # noqa: E402


class Base(unittest.TestCase):
    def setUp(self):
        self._tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self._tmp.cleanup)
        self.dir = self._tmp.name
        self.ckpt = os.path.join(self.dir, "ckpt")
        self.progress = os.path.join(self.dir, "progress.jsonl")
        saved = {s: signal.getsignal(s) for s in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)}
        self.addCleanup(lambda: [signal.signal(s, h) for s, h in saved.items()])
        env = {k: os.environ.pop(k) for k in list(os.environ) if k.startswith(("UNISCHED_", "SLURM_", "RANK"))}
        self.addCleanup(os.environ.update, env)
        self.addCleanup(lambda: [os.environ.pop(k) for k in list(os.environ) if k.startswith(("UNISCHED_", "SLURM_"))])
        os.environ["UNISCHED_PROGRESS"] = self.progress
        os.environ["UNISCHED_RUN"] = "7.0"

    def run_(self, **kw):
        return unisched.Run(checkpoint=self.ckpt, **kw)

    def lines(self):
        """The progress lines without their times."""
        if not os.path.exists(self.progress):
            return []
        with open(self.progress) as f:
            out = [json.loads(x) for x in f]
        for x in out:
            x.pop("t")
            x.pop("seconds", None)
        return out

    def put(self, it, text="weights"):
        self.run_().save(lambda d: write(d, "w", text), it)
        return os.path.join(self.ckpt, "iter-%012d" % it)


def write(d, name, text):
    with open(os.path.join(d, name), "w") as f:
        f.write(text)


class Loop(Base):
    def test_lines_of_a_whole_run(self):
        run = self.run_()
        self.assertIsNone(run.resume())
        seen = []
        for it in run.steps(3):
            seen.append(it)
            run.metric(epoch=it, loss=0.5)
        self.assertEqual(seen, [1, 2, 3])
        self.assertEqual(
            self.lines(),
            [
                {"ready": True, "iter": 0, "resumed": False},
                {"iter": 3, "epoch": 3.0, "loss": 0.5},
                {"done": True, "iter": 3, "reason": "iters"},
            ],
        )

    def test_target(self):
        run = self.run_()
        for it in run.steps(10):
            if it == 4:
                run.done("target")
                break
        self.assertEqual(self.lines()[-1], {"done": True, "iter": 4, "reason": "target"})

    def test_signal_checkpoint_exit_resume(self):
        run = self.run_()
        run.resume()
        with self.assertRaises(SystemExit) as end:
            for it in run.steps(10):
                if it == 4:
                    os.kill(os.getpid(), signal.SIGUSR1)
                if run.should_checkpoint:
                    run.save(lambda d: write(d, "w", "four"))
        self.assertEqual(end.exception.code, 99)
        self.assertEqual(
            self.lines(),
            [
                {"ready": True, "iter": 0, "resumed": False},
                {"signal": "USR1"},
                {"checkpoint": True, "iter": 4, "bytes": 4},
            ],
        )
        again = self.run_()
        path = again.resume()
        self.assertEqual((again.start, again.resumed), (4, True))
        with open(os.path.join(path, "w")) as f:
            self.assertEqual(f.read(), "four")
        self.assertEqual(list(again.steps(6)), [5, 6])
        self.assertEqual(self.lines()[3], {"ready": True, "iter": 4, "resumed": True})

    def test_a_second_signal_does_not_kill_who_has_saved_or_is_done(self):
        """Python puts the default handlers back while it shuts down: only an ignored signal stays harmless to the very end."""
        run = self.run_()
        os.kill(os.getpid(), signal.SIGUSR1)
        with self.assertRaises(SystemExit):
            run.save(lambda d: write(d, "w", "x"), 1)
        self.assertEqual(signal.getsignal(signal.SIGUSR1), signal.SIG_IGN)
        run = self.run_()
        self.assertEqual(signal.getsignal(signal.SIGUSR1), run._on_signal)
        list(run.steps(1))
        self.assertEqual(signal.getsignal(signal.SIGUSR1), signal.SIG_IGN)
        for _ in run.steps(1):
            self.assertEqual(signal.getsignal(signal.SIGUSR1), run._on_signal)

    def test_exit_code_and_signal_choice(self):
        for env, code, names in [
            ({}, 99, ["USR1", "USR2", "TERM"]),
            ({"UNISCHED_SIGNAL": "B:TERM+85"}, 85, ["TERM"]),
            ({"UNISCHED_SIGNAL": "SIGUSR2,KILL,FOO", "UNISCHED_EXIT": "12"}, 12, ["USR2"]),
        ]:
            for s in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
                signal.signal(s, signal.SIG_DFL)
            os.environ.pop("UNISCHED_SIGNAL", None)
            os.environ.update(env)
            run = self.run_()
            handled = [n for n in ("USR1", "USR2", "TERM") if signal.getsignal(getattr(signal, "SIG" + n)) == run._on_signal]
            self.assertEqual((run.exit_code, handled), (code, names))

    def test_wait_ends_at_the_signal(self):
        run = self.run_()
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        run.wait(3600)  # the test would hang if the signal did not end it
        self.assertTrue(run.should_checkpoint)

    def test_case_35_values_that_are_not_finite(self):
        run = self.run_()
        for _ in run.steps(1):
            run.metric(a=math.nan, b=math.inf, c=None, d="nan", e="0.25", iter=3, **{"x y": 1, "z" * 65: 1})
        self.assertEqual(self.lines()[1], {"iter": 1, "e": 0.25})

    def test_many_metrics_make_one_bounded_line(self):
        run = self.run_()
        for _ in run.steps(1):
            run.metric(**{"m%02d" % i + "n" * 60: 1 / 3 for i in range(40)})
        self.assertEqual(len(self.lines()[1]), 17)

    def test_no_progress_file(self):
        del os.environ["UNISCHED_PROGRESS"]
        run = self.run_()
        self.assertEqual(list(run.steps(2)), [1, 2])
        self.assertEqual(self.lines(), [])

    def test_progress_never_breaks_training(self):
        for path in (self.dir, os.path.join(self.dir, "missing", "p"), "/dev/full"):
            os.environ["UNISCHED_PROGRESS"] = path
            run = self.run_()
            self.assertEqual(list(run.steps(2)), [1, 2])

    def test_symlink_is_not_followed(self):
        victim = os.path.join(self.dir, "victim")
        write(self.dir, "victim", "precious")
        os.symlink(victim, self.progress)
        list(self.run_().steps(1))
        with open(victim) as f:
            self.assertEqual(f.read(), "precious")

    def test_other_ranks_are_silent_and_follow_rank_0(self):
        path = self.put(5)
        os.unlink(self.progress)
        os.environ["SLURM_PROCID"] = "1"
        run = self.run_(agree=lambda asked: True)
        self.assertTrue(run.should_checkpoint)
        with self.assertRaises(SystemExit):
            run.save(lambda d: self.fail("rank 1 writes no checkpoint"), 5)
        self.assertEqual(self.lines(), [])
        self.assertTrue(os.path.exists(path))

    def test_workers_of_one_torchrun_go_by_RANK(self):
        os.environ.update(SLURM_PROCID="0", RANK="1")
        self.assertEqual(self.run_().rank, 1)
        del os.environ["RANK"]
        self.assertEqual(self.run_().rank, 0)

    def test_agree_is_called_the_same_number_of_times_on_every_rank(self):
        counts = []
        for asked in (False, True):
            calls = []
            run = self.run_(agree=lambda want: calls.append(want) or True, every=3600, barrier=lambda: calls.append("barrier"))
            run._asked = signal.SIGUSR1 if asked else 0
            self.assertTrue(run.should_checkpoint)
            with self.assertRaises(SystemExit):
                run.save(lambda d: write(d, "w", "x"), 1)
            counts.append(len(calls))
        self.assertEqual(counts, [3, 3])


class Checkpoints(Base):
    def test_keeps_two(self):
        for it in (1, 2, 3, 10):
            self.put(it)
        self.assertEqual(sorted(os.listdir(self.ckpt)), ["iter-000000000003", "iter-000000000010"])

    def test_same_iteration_twice(self):
        self.put(3, "old")
        path = self.put(3, "new")
        self.assertIsNone(unisched.verify(path, 3))
        with open(os.path.join(path, "w")) as f:
            self.assertEqual(f.read(), "new")

    def test_manifest(self):
        def files(d):
            os.makedirs(os.path.join(d, "sub", "deep"))
            write(d, "sub/deep/a", "aa")
            write(d, "b", "")

        self.run_().save(files, 5)
        with open(os.path.join(self.ckpt, "iter-000000000005", "manifest.json")) as f:
            m = json.load(f)
        self.assertEqual((m["iter"], m["run"]), (5, "7.0"))
        self.assertEqual([(f["path"], f["size"]) for f in m["files"]], [("b", 0), ("sub/deep/a", 2)])

    def test_case_34_falls_back_to_the_previous_good_one(self):
        def empty_file(p):
            write(p, "w", "")

        def no_manifest(p):
            os.unlink(os.path.join(p, "manifest.json"))

        def empty_manifest(p):
            write(p, "manifest.json", "")

        def binary_manifest(p):
            with open(os.path.join(p, "manifest.json"), "wb") as f:
                f.write(b"\x00\xff\xfe")

        def flipped(p):
            write(p, "w", "WEIGHTS")

        def missing(p):
            os.unlink(os.path.join(p, "w"))

        def other_iteration(p):
            with open(os.path.join(p, "manifest.json")) as f:
                m = json.load(f)
            write(p, "manifest.json", json.dumps(dict(m, iter=3)))

        def outside(p):
            with open(os.path.join(p, "manifest.json")) as f:
                m = json.load(f)
            m["files"][0]["path"] = "../../victim"
            write(p, "manifest.json", json.dumps(m))

        def not_a_manifest(p):
            write(p, "manifest.json", "[1]")

        def deep_manifest(p):
            write(p, "manifest.json", "[" * 100000)

        for damage in (deep_manifest, empty_file, no_manifest, empty_manifest, binary_manifest, flipped, missing, other_iteration, outside, not_a_manifest):
            with self.subTest(damage.__name__):
                self.ckpt = os.path.join(self.dir, damage.__name__)
                good = self.put(4)
                damage(self.put(8))
                os.mkdir(os.path.join(self.ckpt, ".tmp-000000000009-1"))
                write(self.ckpt, "iter-000000000010", "a file, not a directory")
                os.mkdir(os.path.join(self.ckpt, "iter-latest"))
                run = self.run_()
                self.assertEqual((run.resume(), run.start), (good, 4))
                run.save(lambda d: write(d, "w", "six"), 6)  # the damaged one goes, the good one stays
                dirs = sorted(e for e in os.listdir(self.ckpt) if e.startswith("iter-0000") or e.startswith(".tmp"))
                self.assertEqual(dirs, ["iter-000000000004", "iter-000000000006", "iter-000000000010"])

    def test_all_damaged(self):
        write(self.put(4), "w", "x")
        run = self.run_()
        self.assertEqual((run.resume(), run.start, run.resumed), (None, 0, False))

    def test_failure_leaves_nothing_behind(self):
        self.put(1)
        run = self.run_()

        def full(d):
            write(d, "w", "part")
            raise OSError("no space left on device")

        with self.assertRaises(OSError):
            run.save(full, 2)
        self.assertEqual(os.listdir(self.ckpt), ["iter-000000000001"])
        run._asked = signal.SIGUSR1
        self.assertFalse(run.save(full, 2))  # asked for and failed: go on, do not exit
        self.assertFalse(run.should_checkpoint)
        with self.assertRaises(ValueError):
            run.save(lambda d: None, 3)  # no file

    def test_killed_while_writing(self):
        """Killed at any point of the write, the previous checkpoint is what resume finds."""
        self.put(1)
        child = (
            "import os, signal, sys; sys.path.insert(0, %r); import unisched\n"
            "def w(d):\n    open(os.path.join(d, 'w'), 'w').write('x'); os.kill(os.getpid(), signal.SIGKILL)\n"
            "unisched.Run(%r).save(w, 2)\n" % (os.path.dirname(HERE), self.ckpt)
        )
        p = subprocess.run([sys.executable, "-c", child])
        self.assertEqual(p.returncode, -signal.SIGKILL)
        self.assertEqual(len([n for n in os.listdir(self.ckpt) if n.startswith(".tmp-")]), 1)
        run = self.run_()
        run.resume()
        self.assertEqual(run.start, 1)

    def test_a_start_given_up_for_lost_that_lives_on_does_not_hurt_the_next_one(self):
        """Its node was down for Slurm, not for it: both write into one directory, in turns that only chance decides."""
        lost = self.run_()
        os.environ["UNISCHED_RUN"] = "7.1"
        later = self.run_()

        def while_the_later_one_writes(d):
            write(d, "w", "later")
            lost.save(lambda d: write(d, "w", "lost"), 7)  # the same iteration, and it clears up

        self.assertTrue(later.save(while_the_later_one_writes, 7))
        path = os.path.join(self.ckpt, "iter-000000000007")
        self.assertIsNone(unisched.verify(path, 7))
        with open(os.path.join(path, "w")) as f:
            self.assertEqual(f.read(), "later")
        self.assertEqual(os.listdir(self.ckpt), ["iter-000000000007"])

    def test_leftovers_of_this_start_and_of_those_before_go(self):
        os.environ["UNISCHED_RUN"] = "7.2"
        os.makedirs(self.ckpt)
        for name in (".tmp-000000000001-3", ".tmp-000000000001-r1-3", ".tmp-000000000001-r2-3", ".tmp-000000000001-r3-3"):
            os.mkdir(os.path.join(self.ckpt, name))
        self.run_().save(lambda d: write(d, "w", "x"), 1)
        self.assertEqual(sorted(os.listdir(self.ckpt)), [".tmp-000000000001-r3-3", "iter-000000000001"])

    def test_which_start_it_is(self):
        for env, want in (
            ({}, None),
            ({"SLURM_JOB_ID": "7"}, 0),
            ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "4"}, 4),
            ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "4", "UNISCHED_RUN": "7.5"}, 5),
            ({"UNISCHED_RUN": "x"}, None),
        ):
            self.assertEqual(unisched._restart(env), want, env)

    def test_case_34_killed_while_replacing(self):
        """A second save of the only checkpoint's iteration, killed at any of its renames, leaves a good one of it."""
        for point in (1, 2, 3):
            with self.subTest(point):
                self.ckpt = os.path.join(self.dir, "replace%d" % point)
                self.put(8, "first")
                child = (
                    "import os, signal, sys; sys.path.insert(0, %r); import unisched\n"
                    "n, rename, rmtree = [0], os.rename, unisched.shutil.rmtree\n"
                    "def dies(f):\n"
                    "    def g(*a, **k):\n"
                    "        f(*a, **k)\n"
                    "        if not a[0].endswith('-%%d' %% os.getpid()) or f is rename:\n"
                    "            n[0] += 1\n"
                    "        if n[0] == %d:\n"
                    "            os.kill(os.getpid(), signal.SIGKILL)\n"
                    "    return g\n"
                    "os.rename, unisched.shutil.rmtree = dies(rename), dies(rmtree)\n"
                    "unisched.Run(%r, keep=1).save(lambda d: open(os.path.join(d, 'w'), 'w').write('second'), 8)\n"
                    % (os.path.dirname(HERE), point, self.ckpt)
                )
                p = subprocess.run([sys.executable, "-c", child])
                self.assertEqual(p.returncode, -signal.SIGKILL)
                run = self.run_()
                path = run.resume()
                self.assertEqual(run.start, 8)
                with open(os.path.join(path, "w")) as f:
                    self.assertEqual(f.read(), "second" if point == 3 else "first")
                run.save(lambda d: write(d, "w", "third"), 9)
                self.assertEqual([n for n in os.listdir(self.ckpt) if n.startswith(".")], [])

    def test_case_34_the_one_aside_outlives_a_damaged_successor(self):
        os.rename(self.put(8, "first"), os.path.join(self.dir, "aside"))
        write(self.put(8, "second"), "w", "")
        aside = os.path.join(self.ckpt, ".old-000000000008")
        os.rename(os.path.join(self.dir, "aside"), aside)
        run = self.run_()
        self.assertEqual((run.resume(), run.start), (aside, 8))

        def killed(src, dst):
            raise OSError("killed here")

        with unittest.mock.patch("os.rename", killed), self.assertRaises(OSError):
            run.save(lambda d: write(d, "w", "third"), 8)
        self.assertEqual(self.run_().resume(), aside)

    def test_every(self):
        run = self.run_(every=0)
        self.assertTrue(run.should_checkpoint)
        self.assertTrue(run.save(lambda d: write(d, "w", "x"), 1))


if __name__ == "__main__":
    unittest.main()
