"""Makes a training loop preemptible under UniSched for Slurm.

    import unisched
    run = unisched.Run(checkpoint="ckpt")
    path = run.resume()                     # newest good checkpoint directory, or None; sets run.start
    if path: load(path)
    for it in run.steps(total):             # run.start + 1, ..., total
        train_one_iteration()
        run.metric(epoch=3, val_acc=0.71)   # whenever there is one
        if run.should_checkpoint:
            run.save(lambda d: write_files_into(d))

`it` counts from 1, so `it` iterations are complete when the loop body ends, and that is the number a checkpoint and a
progress line carry. When the scheduler has asked for the GPUs (a signal), `save` ends the process with the agreed exit
code after the checkpoint is safe on disk; Slurm then requeues the job.

Checkpoints are directories `iter-000000001200` holding the caller's files and a manifest.json with their sizes and
SHA-256. One appears by a rename after everything is flushed, so that a job killed in the middle leaves only a `.tmp-`
directory, which is never read. A second save of the same iteration puts the first aside as `.old-000000001200` until it
has taken its place. Nothing in here is needed for training itself: without Slurm, a node service or
UNISCHED_PROGRESS it only writes and reads checkpoints. Standard library only, Python 3.8 or newer.

Environment: UNISCHED_PROGRESS (file for progress lines; unset: none are written), UNISCHED_RUN (job.restart, kept in
manifests), UNISCHED_SIGNAL (USR1, B:TERM, USR1+99, several with commas; default USR1,USR2,TERM), UNISCHED_EXIT (exit
code after a checkpoint that was asked for; default 99), RANK or SLURM_PROCID (only rank 0 writes; RANK first, since all
workers of one torchrun have the same SLURM_PROCID).
"""

import hashlib
import json
import math
import os
import re
import select
import shutil
import signal
import sys
import threading
import time

DEFAULT_SIGNALS = "USR1,USR2,TERM"
DEFAULT_EXIT = 99
MANIFEST = "manifest.json"
MAX_LINE = 4096
MAX_METRICS = 16

_DIR = re.compile(r"^iter-(\d{12})$")
_TMP = re.compile(r"^\.tmp-\d{12}-r(\d+)-")
_ANY = re.compile(r"^(?:iter|\.old)-(\d{12})$")
_NAME = re.compile(r"^[A-Za-z0-9_.-]{1,64}$")
_RESERVED = {"ready", "checkpoint", "done", "signal", "iter", "t"}


class Run:
    """One run (start) of a job.

    checkpoint: directory of the checkpoints, shared by all runs of the job.
    keep: how many checkpoints stay.
    every: ask for a checkpoint also every so many seconds (None: only when the scheduler asks).
    agree: for data-parallel ranks, a function bool -> bool that returns True on all ranks when it is True on any (an
        all-reduce with MAX); without it ranks may see the signal one iteration apart and wait for each other for ever.
    barrier: a function called by every rank after rank 0 wrote the checkpoint. Without it the other ranks wait until
        the checkpoint's directory is visible to them.
    """

    def __init__(self, checkpoint="ckpt", keep=2, every=None, agree=None, barrier=None):
        self.start = 0  # iterations that were complete when this run began; set by resume()
        self.iter = 0  # the iteration in progress
        self.resumed = False
        self.rank = _int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID"), 0)
        self.exit_code = _int(os.environ.get("UNISCHED_EXIT"), None)
        self._dir = os.path.abspath(checkpoint)
        self._keep = max(1, keep)
        self._every = every
        self._agree = agree
        self._barrier = barrier
        self._bad = set()
        self._restart = _restart(os.environ)
        self._signals = []
        self._done = False
        self._asked = 0  # signal number, written by the handler only, cleared by save
        self._told = 0  # the signal already reported
        self._agreed = False  # what the ranks last agreed on
        self._last_save = time.monotonic()
        self._progress = _Progress(os.environ.get("UNISCHED_PROGRESS") if self.rank == 0 else None)
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        self._install_handlers()

    def _install_handlers(self):
        names, code = _parse_signals(os.environ.get("UNISCHED_SIGNAL") or DEFAULT_SIGNALS)
        if self.exit_code is None:
            self.exit_code = DEFAULT_EXIT if code is None else code
        if threading.current_thread() is not threading.main_thread():
            _warn("Run() was made outside the main thread: signals will not be seen")
            return
        self._signals = [getattr(signal, "SIG" + name) for name in names]
        self._handle(self._on_signal)

    def _handle(self, how):
        if threading.current_thread() is threading.main_thread():
            for signum in self._signals:
                signal.signal(signum, how)

    def _deaf(self):
        """Ignores the signals from now on: nothing is left to save. Python puts the default handlers back while it shuts down, which takes seconds with
        large libraries: a second signal (Slurm's own and the one that a launcher hands on, say) would kill a process that has saved and is leaving."""
        self._handle(signal.SIG_IGN)
        self._done = True

    def _on_signal(self, signum, frame):
        # Only a flag and a byte that ends wait(): anything more could meet a half-finished write of the main program.
        self._asked = signum
        try:
            os.write(self._wake_w, b"x")
        except OSError:
            pass  # the pipe is full: it will wake wait() anyway

    # -- the loop ---------------------------------------------------------------------------------------------------

    def steps(self, total):
        """Yields start + 1 .. total. Writes the ready line before the first and reports the rest at a bounded rate."""
        self.iter = self.start
        if self._done:  # a second loop after the first one's end
            self._done = False
            self._handle(self._on_signal)
        self.ready()
        for it in range(self.start + 1, total + 1):
            self._tell_signal()
            self.iter = it
            yield it
            self._progress.iteration(it)
        self.done("iters")

    def ready(self, **details):
        """Writes the ready line once: signals are handled from now on. Details: grad_bytes, batch."""
        line = {"ready": True, "iter": self.start, "resumed": self.resumed}
        line.update(details)
        self._progress.ready(line)

    def metric(self, **values):
        """Reports metrics of the iteration in progress. Values that are not finite numbers are left out."""
        self._progress.metrics(self.iter, values)

    def done(self, reason):
        """Says that the job met its own stop criterion: "iters" or "target"."""
        self._progress.done({"done": True, "iter": self.iter, "reason": reason})
        self._deaf()

    def wait(self, seconds):
        """Sleeps, but not beyond a signal that asks for a checkpoint."""
        end = time.monotonic() + seconds
        while not self._asked:
            left = end - time.monotonic()
            if left <= 0:
                return
            if select.select([self._wake_r], [], [], left)[0]:
                os.read(self._wake_r, 64)

    @property
    def asked(self):
        """Whether a signal has asked this process for a checkpoint."""
        return self._asked != 0

    @property
    def should_checkpoint(self):
        """Whether to call save now. Ask once per iteration, on every rank."""
        due = self._every is not None and time.monotonic() - self._last_save >= self._every
        if not self._agree:
            return self.asked or due
        # Every rank makes the same calls, whatever it has seen itself: a collective that one rank skips hangs all.
        self._agreed = bool(self._agree(self.asked))
        if self._every is not None:
            due = bool(self._agree(due))
        return self._agreed or due

    def _tell_signal(self):
        if self._asked and self._asked != self._told:
            self._told = self._asked
            self._progress.write({"signal": signal.Signals(self._asked).name[3:]})

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def save(self, write, it=None):
        """Writes a checkpoint of iteration `it` (default: the one in progress): write(directory) puts the files there.

        Returns True when it is safe on disk. If a signal asked for it, the process ends here with the agreed exit
        code. A save that was asked for and fails returns False and training goes on: losing the lease is better than
        losing the job. Any other failure is raised.
        """
        it = self.iter if it is None else it
        begin = time.monotonic()
        self._tell_signal()
        if self.rank == 0:
            try:
                size = self._write(write, it)
            except Exception as e:
                if not self._must_exit():
                    raise
                return self._stay("checkpoint of iteration %d failed, training goes on: %r" % (it, e))
            self._progress.checkpoint(it, size, time.monotonic() - begin)
        if self._barrier:
            self._barrier()
        if self.rank != 0 and not self._visible(it, 10.0 if self._barrier else 600.0):
            return self._stay("rank 0 wrote no checkpoint of iteration %d" % it)
        self._last_save = time.monotonic()
        if self._must_exit():
            self._deaf()
            raise SystemExit(self.exit_code)
        return True

    def _must_exit(self):
        return self._agreed if self._agree else self.asked

    def _stay(self, why):
        _warn(why)
        self._asked = self._told = 0
        self._agreed = False
        return False

    def _write(self, write, it):
        os.makedirs(self._dir, exist_ok=True)
        final = os.path.join(self._dir, "iter-%012d" % it)
        tmp = os.path.join(self._dir, ".tmp-%012d-r%d-%d" % (it, self._restart or 0, os.getpid()))
        shutil.rmtree(tmp, ignore_errors=True)
        os.mkdir(tmp)
        try:
            write(tmp)
            files = [_describe(tmp, name, sync=True) for name in _walk(tmp)]
            if not files:
                raise ValueError("the checkpoint holds no file")
            manifest = {"schema_version": 1, "iter": it, "run": os.environ.get("UNISCHED_RUN", ""), "files": files}
            with open(os.path.join(tmp, MANIFEST), "w") as f:
                json.dump(manifest, f, indent=1)
                f.flush()
                os.fsync(f.fileno())
            _sync_dirs(tmp)
            if it in self._bad:
                shutil.rmtree(final, ignore_errors=True)
            _replace(tmp, final, _aside(self._dir, it))
            _sync(self._dir)
        except BaseException:
            shutil.rmtree(tmp, ignore_errors=True)
            raise
        self._bad.discard(it)
        self._prune(it)
        return sum(f["size"] for f in files)

    def _prune(self, newest):
        """Keeps this one and the keep - 1 before it. Those that resume() found damaged go and do not count; newer ones
        that were not looked at stay, since they may be the work of a run that this one does not know of."""
        older = [i for i in _iterations(self._dir) if i < newest and i not in self._bad]
        for i in older[self._keep - 1 :] + sorted(self._bad):
            shutil.rmtree(os.path.join(self._dir, "iter-%012d" % i), ignore_errors=True)
        self._bad.clear()
        for e in os.scandir(self._dir):
            if e.name.startswith(".old-") or e.name.startswith(".tmp-") and not self._of_later_start(e.name):
                shutil.rmtree(e.path, ignore_errors=True)

    def _of_later_start(self, name):
        """Whether a half-written checkpoint is of a later start of the job. Then we are what is left of one whose node
        was given up for lost, and the later one must not lose what it is writing to us."""
        m = _TMP.match(name)
        return self._restart is not None and m is not None and int(m.group(1)) > self._restart

    def _visible(self, it, limit):
        path = os.path.join(self._dir, "iter-%012d" % it, MANIFEST)
        end = time.monotonic() + limit
        while not os.path.exists(path):
            if time.monotonic() >= end:
                return False
            time.sleep(0.05)
        return True

    def resume(self):
        """Returns the directory of the newest checkpoint whose files all match its manifest, or None; sets start.

        Damaged ones are named on stderr and passed over.
        """
        for it in _iterations(self._dir, _ANY):
            for path in (os.path.join(self._dir, "iter-%012d" % it), _aside(self._dir, it)):
                if not os.path.lexists(path):
                    continue
                problem = verify(path, it)
                if problem is None:
                    self.start = self.iter = it
                    self.resumed = True
                    return path
                self._bad.add(it)
                _warn("checkpoint %s is passed over: %s" % (path, problem))
        self.start = self.iter = 0
        self.resumed = False
        return None


class _Progress:
    """Appends progress lines, each with one write. A failure costs the line, never the training."""

    def __init__(self, path):
        self._fd = None
        self._ready = self._done = False
        self._begin = self._last = time.monotonic()
        self._pending = None  # (iter, metrics) not yet written
        if path:
            try:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
                self._fd = os.open(path, flags, 0o600)
            except OSError as e:
                _warn("no progress lines: %s" % e)

    def write(self, line):
        if self._fd is None:
            return
        line["t"] = round(time.time(), 3)
        try:
            data = (json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n").encode()
        except (TypeError, ValueError) as e:
            _warn("no progress line of %r: %s" % (line, e))
            return
        if len(data) > MAX_LINE:
            return
        try:
            os.write(self._fd, data)
        except OSError as e:
            _warn("no more progress lines: %s" % e)
            self._fd = None

    def _interval(self):
        """2 s at first, slowly up to 30 s, so that a week of training stays a small file."""
        return min(30.0, max(2.0, (time.monotonic() - self._begin) / 300.0))

    def ready(self, line):
        if not self._ready:
            self._ready = True
            self.write(line)

    def iteration(self, it):
        now = time.monotonic()
        if self._pending and now - self._last >= 0.5:
            self.flush()
        elif now - self._last >= self._interval():
            self._last = now
            self.write({"iter": it})

    def metrics(self, it, values):
        good = {}
        for name, v in values.items():
            try:
                v = float(v)
            except (TypeError, ValueError):
                continue
            if math.isfinite(v) and _NAME.match(name) and name not in _RESERVED and len(good) < MAX_METRICS:
                good[name] = v
        if not good:
            return
        if self._pending and self._pending[0] == it:
            good = dict(list(dict(self._pending[1], **good).items())[:MAX_METRICS])
        self._pending = (it, good)

    def flush(self):
        if self._pending:
            it, values = self._pending
            self._pending = None
            self._last = time.monotonic()
            self.write(dict({"iter": it}, **values))

    def checkpoint(self, it, size, seconds):
        self.flush()
        self.write({"checkpoint": True, "iter": it, "bytes": size, "seconds": round(seconds, 3)})

    def done(self, line):
        if not self._done:
            self._done = True
            self.flush()
            self.write(line)


def verify(path, it=None):
    """Returns None when the checkpoint directory is whole, else what is wrong with it."""
    try:
        with open(os.path.join(path, MANIFEST)) as f:
            manifest = json.load(f)
        if it is not None and manifest["iter"] != it:
            return "its manifest is of iteration %r" % (manifest["iter"],)
        if not manifest["files"]:
            return "its manifest names no file"
        for want in manifest["files"]:
            name = want["path"]
            if os.path.isabs(name) or ".." in name.split("/"):
                return "its manifest names %r" % (name,)
            if _describe(path, name) != want:
                return "%s has changed" % name
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        return repr(e)
    return None


def _replace(tmp, final, old):
    """Renames tmp to final. An earlier save of the same iteration, perhaps the only good one, is put aside whole first.
    What is left of a start that was given up for lost may do the same at the same time: then in turns."""
    for attempt in range(5):
        try:
            os.rename(tmp, final)
            return
        except OSError:
            if attempt == 4 or not os.path.lexists(final):
                raise
        try:
            shutil.rmtree(old, ignore_errors=True)
            os.rename(final, old)
        except OSError:
            continue  # somebody else has moved it


def _restart(env):
    """Which start of the job this is, from what the node service or Slurm exports; None when neither does."""
    tail = env.get("UNISCHED_RUN", "").rpartition(".")[2] or env.get("SLURM_RESTART_COUNT", "")
    if not tail.isdigit() and env.get("SLURM_JOB_ID"):
        return 0  # Slurm exports no count at the first start
    return int(tail) if tail.isdigit() else None


def _describe(base, name, sync=False):
    h, size = hashlib.sha256(), 0
    with open(os.path.join(base, name), "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            h.update(block)
            size += len(block)
        if sync:
            os.fsync(f.fileno())
    return {"path": name, "size": size, "sha256": h.hexdigest()}


def _walk(base):
    """Names of the files below base, with / between, sorted."""
    out = []
    for root, _, names in os.walk(base):
        rel = os.path.relpath(root, base)
        out += [n if rel == "." else rel.replace(os.sep, "/") + "/" + n for n in names]
    return sorted(n for n in out if n != MANIFEST)


def _iterations(base, names=_DIR):
    """Iterations of which a directory exists, newest first. Leftovers (.tmp-...) and foreign names are not among them."""
    try:
        found = [(names.match(e.name), e) for e in os.scandir(base)]
    except OSError:
        return []
    return sorted({int(m.group(1)) for m, e in found if m and e.is_dir(follow_symlinks=False)}, reverse=True)


def _aside(base, it):
    return os.path.join(base, ".old-%012d" % it)


def _sync_dirs(base):
    for root, _, _ in os.walk(base, topdown=False):
        _sync(root)


def _sync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError:
        pass  # some shared file systems refuse fsync on directories
    finally:
        os.close(fd)


def _parse_signals(text):
    """"B:USR1+99,TERM" -> (["USR1", "TERM"], 99). Unknown names are left out with a warning."""
    names, code = [], None
    for part in text.split(","):
        m = re.match(r"^\s*(?:B:)?(?:SIG)?([A-Z0-9]+)(?:\+(\d{1,3}))?\s*$", part)
        if not m or m.group(1) in ("KILL", "STOP") or not hasattr(signal, "SIG" + m.group(1)):
            _warn("UNISCHED_SIGNAL: %r is no signal to handle" % part)
            continue
        names.append(m.group(1))
        code = int(m.group(2)) if m.group(2) else code
    return names, code


def _int(text, default):
    try:
        return int(text)
    except (TypeError, ValueError):
        return default


def _warn(text):
    sys.stderr.write("unisched: %s\n" % text)
    sys.stderr.flush()
