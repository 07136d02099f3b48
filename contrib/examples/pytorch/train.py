#!/usr/bin/env python3
"""Trains a digits classifier with PyTorch DistributedDataParallel, preemptible through the unisched helper.

Started by srun (one task per GPU) or by torchrun; see ddp-srun.sbatch and ddp-torchrun.sbatch. On GPUs it uses NCCL,
without them gloo, so that it can be tried on any laptop:

    torchrun --nproc-per-node=2 train.py --iters 200

What makes it preemptible, and what a training of one's own has to do too:

  * model, optimizer, scheduler and random state are in the checkpoint;
  * which samples an iteration sees is a function of its number (`batch_of`), so that nothing is seen twice or left out
    after a restart, on any number of ranks;
  * ranks agree on the signal (`agree`): one that stops an iteration early leaves the others waiting in an all-reduce;
  * the ready line comes after the process group stands: a signal during the rendezvous would be lost on some ranks.

The global batch stays the same on any number of ranks, so an interrupted training ends with the loss of an
uninterrupted one, up to the order in which floating-point numbers are added.

Data: digits.csv.gz of the Debian package python3-sklearn (1,797 images of 8x8 pixels, from the UCI machine learning
repository, CC BY 4.0), else synthetic.
"""

import argparse
import gzip
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

_here = os.path.dirname(os.path.abspath(__file__))
for _dir in (os.path.join(_here, "..", "..", "..", "hooks", "python"), "/usr/share/unisched-node/python"):
    if os.path.exists(os.path.join(_dir, "unisched.py")):
        sys.path.insert(0, _dir)
        break
import unisched  # noqa: E402

BATCH = 64  # of all ranks together
DEBIAN_DATA = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"


def flags():
    p = argparse.ArgumentParser(description="Train a digits classifier with DDP; preemptible.")
    p.add_argument("--iters", type=int, default=1000)
    p.add_argument("--eval-every", type=int, default=50)
    p.add_argument("--ckpt", default="ckpt", help="checkpoint directory, shared by all nodes and all runs of the job")
    p.add_argument("--ckpt-every", type=float, default=None, help="also checkpoint every so many seconds")
    p.add_argument("--step-time", type=float, default=0.0, help="least seconds per iteration, to make a small model last")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def rendezvous():
    """Joins the process group; returns (rank, ranks, device). torchrun sets RANK and its kin, srun its own names."""
    env = os.environ
    for name, slurm in (("RANK", "SLURM_PROCID"), ("WORLD_SIZE", "SLURM_NTASKS"), ("LOCAL_RANK", "SLURM_LOCALID")):
        env.setdefault(name, env.get(slurm, "1" if name == "WORLD_SIZE" else "0"))
    env.setdefault("MASTER_ADDR", "127.0.0.1")
    env.setdefault("MASTER_PORT", "29500")
    gpus = torch.cuda.device_count()
    dist.init_process_group("nccl" if gpus else "gloo")
    device = torch.device("cuda", int(env["LOCAL_RANK"]) % gpus) if gpus else torch.device("cpu")
    return dist.get_rank(), dist.get_world_size(), device


def load(seed):
    """(images, labels) as tensors, shuffled by the seed; the last fifth is for evaluation."""
    if os.path.exists(DEBIAN_DATA):
        with gzip.open(DEBIAN_DATA) as f:
            table = numpy.loadtxt(f, delimiter=",", dtype=numpy.float32)
    else:
        rng = numpy.random.default_rng(0)
        labels = rng.integers(0, 10, 1797)
        table = numpy.hstack([rng.normal(0, 4, (10, 64))[labels] + rng.normal(8, 4, (1797, 64)), labels[:, None]])
    table = table[numpy.random.default_rng(seed).permutation(len(table))]
    return torch.tensor(table[:, :64] / 16, dtype=torch.float32), torch.tensor(table[:, 64], dtype=torch.long)


def batch_of(it, samples, seed):
    """Indices of iteration `it`, the same on every rank, in every run, on any number of ranks."""
    per_epoch = samples // BATCH
    order = numpy.random.default_rng([seed, (it - 1) // per_epoch]).permutation(samples)
    first = (it - 1) % per_epoch * BATCH
    return order[first : first + BATCH]


def main():
    args = flags()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    rank, ranks, device = rendezvous()
    if BATCH % ranks:
        sys.exit("the batch of %d does not divide among %d ranks" % (BATCH, ranks))

    def agree(flag):
        both = torch.tensor(int(flag), device=device)
        dist.all_reduce(both, dist.ReduceOp.MAX)
        return bool(both.item())

    run = unisched.Run(checkpoint=args.ckpt, every=args.ckpt_every, agree=agree, barrier=dist.barrier)
    images, labels = load(args.seed)
    images, labels = images.to(device), labels.to(device)
    cut = len(images) * 4 // 5
    net = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 10)).to(device)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.iters)
    parts = {"model": net, "optimizer": optimizer, "schedule": schedule}
    path = run.resume()
    if path:
        state = torch.load(os.path.join(path, "state.pt"), map_location=device)
        for name, part in parts.items():
            part.load_state_dict(state[name])
    if rank == 0:
        print("start iter=%d ranks=%d nodes=%s" % (run.start, ranks, os.environ.get("SLURM_JOB_NUM_NODES", "1")), flush=True)

    def write(directory):
        torch.save({name: part.state_dict() for name, part in parts.items()}, os.path.join(directory, "state.pt"))
        print("checkpoint iter=%d" % run.iter, flush=True)

    for it in run.steps(args.iters):
        begin = time.monotonic()
        mine = batch_of(it, cut, args.seed)[rank::ranks]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
        optimizer.step()
        schedule.step()
        if it % args.eval_every == 0:
            run.metric(**evaluate(net, images[cut:], labels[cut:]))
        run.wait(max(0.0, args.step_time - (time.monotonic() - begin)))
        if run.should_checkpoint:
            run.save(write)  # a checkpoint that was asked for ends the process here
    if rank == 0:
        print("end iter=%d loss=%.6f" % (run.iter, evaluate(net, images[:cut], labels[:cut])["val_loss"]), flush=True)
    dist.destroy_process_group()


def evaluate(net, images, labels):
    with torch.no_grad():
        out = net(images)
        loss = torch.nn.functional.cross_entropy(out, labels)
    return {"val_loss": loss.item(), "val_acc": (out.argmax(1) == labels).float().mean().item()}


if __name__ == "__main__":
    main()
