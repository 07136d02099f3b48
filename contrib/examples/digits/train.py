#!/usr/bin/env python3
"""Trains a small neural network on the digits data set, preemptible through the unisched helper.

The network, its gradients, its checkpoints and its accuracy are real. Only the speed is declared, because the GPUs of
a test cluster are not real: each iteration is one step of SGD with momentum on 32 images, and then sleeps for the rest
of

    step-time x scaling(GPUs) x cross-node (when the GPUs span nodes).

An interrupted and resumed training ends with the very same weights as an uninterrupted one: weights, momentum, the
state of the random generator and the iteration are all in the checkpoint.

Data: digits.csv.gz as the Debian package python3-sklearn ships it (1,797 images of 8x8 pixels; from the UCI machine
learning repository, CC BY 4.0), found without importing scikit-learn. Needs numpy.
"""

import argparse
import gzip
import hashlib
import importlib.util
import json
import math
import os
import re
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # many jobs share few cores; a 64x48 matrix needs no threads
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_here = os.path.dirname(os.path.abspath(__file__))
for _dir in (os.path.join(_here, "..", "..", "..", "hooks", "python"), "/usr/share/unisched-node/python"):
    if os.path.exists(os.path.join(_dir, "unisched.py")):
        sys.path.insert(0, _dir)
        break
import unisched  # noqa: E402

HIDDEN, BATCH = 48, 32
DEBIAN_DATA = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"


def flags(argv):
    p = argparse.ArgumentParser(description="Train a digits classifier; preemptible.")
    p.add_argument("--iters", type=int, default=1000, help="iterations at most (default 1000)")
    p.add_argument("--target", type=target, default=None, help="stop early when reached, e.g. val_acc>=0.92 or loss<=0.3")
    p.add_argument("--eval-every", type=int, default=50, help="iterations between evaluations (default 50)")
    p.add_argument("--ckpt", default="ckpt", help="checkpoint directory (default ckpt)")
    p.add_argument("--ckpt-every", type=float, default=None, help="also checkpoint every so many seconds")
    p.add_argument("--step-time", type=float, default=0.0, help="seconds per iteration on 1 GPU (default 0: no sleep)")
    p.add_argument("--scaling", type=scaling, default={1: 1.0}, help="GPUs:factor of the step time, e.g. 1:1.0,2:0.55,4:0.30")
    p.add_argument("--cross-node", type=float, default=1.0, help="factor when the GPUs span nodes (default 1)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--lr", type=float, default=0.01, help="learning rate (default 0.01)")
    p.add_argument("--data", default=None, help="digits.csv.gz, or synthetic")
    return p.parse_args(argv)


def target(text):
    """"val_acc>=0.92" -> ("val_acc", ">=", 0.92)."""
    m = re.match(r"^(val_acc|val_loss|loss)(>=|<=)([0-9.eE+-]+)$", text)
    if not m:
        raise argparse.ArgumentTypeError("want val_acc>=X, val_loss<=X or loss<=X")
    return m.group(1), m.group(2), float(m.group(3))


def scaling(text):
    """"1:1.0,2:0.55" -> {1: 1.0, 2: 0.55}."""
    try:
        out = {int(k): float(v) for k, v in (part.split(":") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError("want GPUs:factor,GPUs:factor")
    if not out or min(out) < 1 or min(out.values()) <= 0:
        raise argparse.ArgumentTypeError("GPU counts and factors must be positive")
    return out


def placement(env):
    """GPUs and nodes of this run, from what Slurm exports to a batch script; (1, 1) outside Slurm."""

    def number(*names):
        for n in names:
            if env.get(n, "").isdigit() and int(env[n]) > 0:
                return int(env[n])
        return 0

    def listed(*names):
        for n in names:
            if env.get(n):
                return len(env[n].split(","))
        return 0

    # SLURM_GPUS would count uneven splits right, but sbatch exports it once, at submission: it is stale after the
    # GPUs of an elastic job were changed.
    nodes = number("SLURM_JOB_NUM_NODES", "SLURM_NNODES") or 1
    here = number("SLURM_GPUS_ON_NODE") or listed("SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES") or 1
    return here * nodes, nodes


def step_time(args, gpus, nodes):
    """Declared seconds per iteration: geometric interpolation in log2(GPUs) between the declared counts, the nearest
    one's factor outside them."""
    known = sorted(args.scaling)
    lo = max([k for k in known if k <= gpus], default=known[0])
    hi = min([k for k in known if k >= gpus], default=known[-1])
    f = args.scaling[lo]
    if lo < gpus < hi:
        part = math.log2(gpus / lo) / math.log2(hi / lo)
        f *= (args.scaling[hi] / f) ** part
    return args.step_time * f * (args.cross_node if nodes > 1 else 1.0)


def load_data(np, path):
    """Training and validation images and labels. The split depends on nothing but the data."""
    if path == "synthetic":
        rng = np.random.default_rng(7)
        label = rng.integers(0, 10, 1797)
        x = np.clip(rng.normal(8, 4, (10, 64))[label] + rng.normal(0, 4, (1797, 64)), 0, 16)
    else:
        with gzip.open(find_data(path), "rt") as f:
            table = np.loadtxt(f, delimiter=",")
        x, label = table[:, :-1], table[:, -1].astype(int)
    order = np.random.default_rng(0).permutation(len(label))
    x, label = x[order] / 16.0, label[order]
    cut = len(label) * 4 // 5
    return (x[:cut], label[:cut]), (x[cut:], label[cut:])


def find_data(path):
    if path:
        return path
    spec = importlib.util.find_spec("sklearn")  # finds the package without running it: importing it takes seconds
    dirs = list(spec.submodule_search_locations) if spec and spec.submodule_search_locations else []
    for p in [os.path.join(d, "datasets", "data", "digits.csv.gz") for d in dirs] + [DEBIAN_DATA]:
        if os.path.exists(p):
            return p
    sys.exit("train.py: digits.csv.gz not found: install python3-sklearn, or pass --data FILE or --data synthetic")


class Network:
    """64 inputs, one hidden layer of ReLU, 10 classes; SGD with momentum 0.9."""

    def __init__(self, np, seed, lr):
        self.np, self.lr = np, lr
        self.rng = np.random.default_rng(seed)
        self.w = [
            self.rng.normal(0, math.sqrt(2 / 64), (64, HIDDEN)),
            np.zeros(HIDDEN),
            self.rng.normal(0, math.sqrt(1 / HIDDEN), (HIDDEN, 10)),
            np.zeros(10),
        ]
        self.v = [np.zeros_like(w) for w in self.w]

    def forward(self, x):
        np = self.np
        h = np.maximum(x @ self.w[0] + self.w[1], 0)
        z = h @ self.w[2] + self.w[3]
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return h, e / e.sum(axis=1, keepdims=True)

    def step(self, x, label):
        """One SGD step on a random batch."""
        np = self.np
        pick = self.rng.integers(0, len(label), BATCH)
        xb, yb = x[pick], label[pick]
        h, p = self.forward(xb)
        p[np.arange(BATCH), yb] -= 1
        p /= BATCH
        dh = (p @ self.w[2].T) * (h > 0)
        grad = [xb.T @ dh, dh.sum(axis=0), h.T @ p, p.sum(axis=0)]
        for w, v, g in zip(self.w, self.v, grad):
            v *= 0.9
            v -= self.lr * g
            w += v

    def evaluate(self, x, label):
        """Accuracy and mean cross-entropy."""
        np = self.np
        _, p = self.forward(x)
        loss = -np.log(np.maximum(p[np.arange(len(label)), label], 1e-12)).mean()
        return float((p.argmax(axis=1) == label).mean()), float(loss)

    def save(self, directory):
        parts = {"w%d" % i: w for i, w in enumerate(self.w)}
        parts.update({"v%d" % i: v for i, v in enumerate(self.v)})
        self.np.savez(os.path.join(directory, "state.npz"), **parts)
        with open(os.path.join(directory, "rng.json"), "w") as f:
            json.dump(self.rng.bit_generator.state, f)

    def load(self, directory):
        with self.np.load(os.path.join(directory, "state.npz"), allow_pickle=False) as z:
            self.w = [z["w%d" % i] for i in range(4)]
            self.v = [z["v%d" % i] for i in range(4)]
        with open(os.path.join(directory, "rng.json")) as f:
            self.rng.bit_generator.state = json.load(f)

    def digest(self):
        return hashlib.sha256(b"".join(w.tobytes() for w in self.w)).hexdigest()[:16]


def reached(goal, values):
    if goal is None:
        return False
    name, op, want = goal
    return values[name] >= want if op == ">=" else values[name] <= want


def main(argv=None):
    args = flags(argv)
    run = unisched.Run(checkpoint=args.ckpt, every=args.ckpt_every)  # first: from here on a signal is not deadly

    import numpy as np

    gpus, nodes = placement(os.environ)
    pace = step_time(args, gpus, nodes)
    (x, label), (vx, vlabel) = load_data(np, args.data)
    net = Network(np, args.seed, args.lr)
    path = run.resume()
    if path:
        net.load(path)
    print("start iter=%d gpus=%d nodes=%d step=%.4fs" % (run.start, gpus, nodes, pace), flush=True)
    run.ready(batch=BATCH, grad_bytes=sum(w.nbytes for w in net.w))
    values = {}
    for it in run.steps(args.iters):
        begin = time.monotonic()
        net.step(x, label)
        if it % args.eval_every == 0 or it == args.iters:
            acc, loss = net.evaluate(vx, vlabel)
            values = {"val_acc": acc, "val_loss": loss, "loss": net.evaluate(x, label)[1]}
            run.metric(epoch=it * BATCH / len(label), **values)
            if reached(args.target, values):
                run.done("target")
                break
        run.wait(pace - (time.monotonic() - begin))
        if run.should_checkpoint:
            try:
                safe = run.save(net.save)
            except SystemExit:  # it was asked for, and is on disk
                print("checkpoint iter=%d" % it, flush=True)
                raise
            if safe:
                print("checkpoint iter=%d" % it, flush=True)
    print("end iter=%d val_acc=%.4f weights=%s" % (run.iter, values.get("val_acc", math.nan), net.digest()), flush=True)


if __name__ == "__main__":
    main()
