"""The driver of decode.py and encode.py: a queue of segments, and Ray actors that take
them."""
import collections
import os
import pickle
import resource
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass

import cut
import segments
import streams
from cut import Segment
from driver.bar import Bar
from streams import Error, gst_vae
from worker import Leaving

ERRORS_MAX = 3    # of one segment, until the run ends
FAILED_MAX = 2    # errors of one worker in a row, until it gets no more segments
DEATHS_MAX = 10   # of workers in one segment, without a result in between
REFUSED_MAX = 8   # workers, until the first one that can be used
AHEAD = 2         # calls that a worker has in its queue
FLUSH_SECONDS = 2
JOIN_SECONDS = 5
CONNECT_SECONDS = 10
MODULES = ("streams", "video", "worker")  # those that workers run


def import_ray():
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise Error(f"Ray is missing ({error}): pip install ray, the same version on all "
                    "nodes; segments.py works without it") from None
    return ray


class Actor:
    """A worker of a node. The code comes from the driver, so that it is the same on all
    nodes."""

    def prepare(self, sources, model, settings):
        import types
        import ray
        node = ray.get_runtime_context().get_node_id()[:6]
        self.name = f"{socket.gethostname()} (node {node}, process {os.getpid()})"
        try:
            for name, text in sources.items():
                module = types.ModuleType(name)
                sys.modules[name] = module
                exec(compile(text, name + ".py", "exec"), module.__dict__)
        except ImportError as error:
            raise RuntimeError(f"{self.name}: {error}") from None
        try:
            self.worker = sys.modules["worker"].Worker(model, settings)
        except (sys.modules["streams"].Error, OSError) as error:
            why = sys.modules["streams"].sentence(error)
            raise RuntimeError(f"{self.name}: {why}") from None
        self.worker.node = self.name

    def call(self, name, *arguments):
        try:
            result = getattr(self.worker, name)(*arguments)
        except (sys.modules["streams"].Error, OSError) as error:
            why = sys.modules["streams"].sentence(error)
            raise RuntimeError(f"{self.name}: {why}") from None
        # Ray copies bytes on both sides, but shares the memory of a buffer.
        return (pickle.PickleBuffer(result) if isinstance(result, (bytes, memoryview))
                else result)


@dataclass
class Task:
    clip: int
    segment: Segment
    checkpoint: bytes = None  # carries at segment.first
    errors: int = 0
    deaths: int = 0


class Lost(Exception):
    """The worker is gone."""


class Refused(Exception):
    """The worker's node cannot do this job, and another may."""


class Driver:
    def __init__(self, ray, options, clips):
        self.ray, self.options, self.clips = ray, options, clips
        self.settings = segments.worker_settings(options)
        self.model = clips[0].source.model
        self.history = self.model.model.history(clips[0].source.direction)
        self.fingerprint = self.model.fingerprint()
        self.lock = threading.Condition()
        self.queue = collections.deque()
        self.begun = collections.deque()  # workers that nobody has taken yet
        self.alive, self.slots, self.computing = 0, 0, 1  # 1: makes the tasks
        self.failure = self.forced = self.first = None
        self.lost = self.handed = 0
        self.refused = []  # workers that keep their places
        folder = os.path.dirname(os.path.abspath(streams.__file__))
        self.sources = {}
        for name in MODULES:
            with open(os.path.join(folder, name + ".py"), encoding="utf-8") as file:
                self.sources[name] = file.read()

    # The size of the cluster.

    def count_places(self):
        """How many workers the cluster has room for."""
        nodes = [n["Resources"] for n in self.ray.nodes() if n["Alive"]]
        gpus = sum(int(n.get("GPU", 0)) for n in nodes)
        cpus = [int(n.get("CPU", 0)) for n in nodes if n.get("CPU")]
        o = self.options
        if gpus and o.backend in ("auto", "cuda"):
            self.resources = {"num_gpus": 1, "num_cpus": o.threads or 0}
            return gpus
        if not cpus:
            raise Error("the Ray cluster has neither a CPU nor a GPU")
        threads = o.threads or min(4, min(cpus))
        self.settings["threads"] = threads
        self.resources = {"num_cpus": threads}
        places = sum(n // threads for n in cpus)
        if not places:
            raise Error(f"no node of the Ray cluster has {threads} CPUs (--threads)")
        return places

    # Workers.

    def begin_actor(self):
        """Begins a worker, and returns it with its call that loads the model."""
        actor = self.ray.remote(Actor).options(max_restarts=0, **self.resources).remote()
        return actor, actor.prepare.remote(
            self.sources, os.path.abspath(self.options.model), self.settings)

    def start_actor(self):
        """Returns a worker that holds the model, or None if all is done meanwhile."""
        with self.lock:
            begun = self.begun.popleft() if self.begun else None
        actor, loaded = begun or self.begin_actor()
        while not self.ray.wait([loaded], timeout=0.5)[0]:
            with self.lock:
                if self.over():
                    return None
        try:
            self.get(loaded)
        except Error as error:
            self.refused.append(actor)
            raise Refused(error) from None
        return actor

    def get(self, ref):
        """The result of a call; raises Lost, or the Error of the worker."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(ref)
        except errors.RayTaskError as error:
            raise Error(str(error.cause)) from None
        except errors.RayError as error:
            raise Lost(str(error).splitlines()[0]) from None

    def open(self, actor, clip):
        """Opens the clip's stream on a worker, and compares what decides the bytes."""
        found = self.get(actor.call.remote("open", clip.source.job(), self.forced,
                                           clip.shared()))
        if found["missing"]:
            raise Refused(f"{found['node']} lacks {found['missing']}, which {clip.out} "
                          "needs")
        for key, expected, what in (
                ("gst_vae", gst_vae.__version__, "gst_vae {}"),
                ("model", self.fingerprint,
                 self.options.model + " with the fingerprint {}")):
            if found[key] != expected:
                raise Refused(f"{found['node']} has {what.format(found[key])}, the driver "
                              f"has {expected}")
        first = self.first or found
        for key in ("backend", "precision", "threads", "device"):
            if found[key] != first[key]:
                raise Refused(f"{found['node']} has the {key} {found[key]}, and "
                              f"{first['node']} has {first[key]}: their bytes may differ")
        return found

    def open_first(self, places):
        """The first worker chooses the backend and the precision for all. One of a node
        that cannot be used keeps its place there, so that the next one is elsewhere."""
        lost = 0
        while True:
            try:
                return self.try_first()
            except Lost:
                lost += 1
                if lost == DEATHS_MAX:
                    raise
            except Refused as error:
                if len(self.refused) == min(places, REFUSED_MAX):
                    raise
                self.say_refused(error)

    def try_first(self):
        actor = self.start_actor()
        try:
            found = self.open(actor, self.clips[0])
        except Refused:
            self.refused.append(actor)
            raise
        self.forced = {**{k: found[k] for k in ("backend", "precision", "threads")},
                       "deterministic": found["backend"] == "cuda"}
        self.first = self.open(actor, self.clips[0])
        return actor

    def say_refused(self, error, what="is not used"):
        print(f"\n{self.options.prog}: this worker {what}: {error}",
              file=sys.stderr)

    # Tasks.

    def over(self):
        return self.failure or (not self.queue and not self.computing)

    def take(self):
        """The next task, or None if there is none and none can come back."""
        with self.lock:
            while not self.queue and self.computing and not self.failure:
                self.lock.wait()
            if self.over():
                return None
            self.computing += 1
            return self.queue.popleft()

    def put_back(self, task):
        with self.lock:
            self.computing -= 1
            if task:
                self.queue.appendleft(task)
            self.lock.notify_all()

    def fail(self, sentence):
        with self.lock:
            self.failure = self.failure or sentence
            self.lock.notify_all()

    def run_task(self, actor, task):
        """Computes a segment. task.segment.first is kept at what is written. Raises Lost
        if the worker is gone."""
        clip = self.clips[task.clip]
        source = clip.source
        self.open(actor, clip)
        first = task.segment.first
        point, task.checkpoint = task.checkpoint, None
        try:
            if point:
                self.get(actor.call.remote("begin", first, point))
        except Error:
            point = None  # of a worker that differs: without it
        if not point:
            start = max(0, first - self.history)
            self.get(actor.call.remote("begin", start, None, first - start))
        calls = iter(cut.chunks(source, task.segment, self.history, bool(point)))
        sent = collections.deque()
        while True:
            while len(sent) < AHEAD and (call := next(calls, None)):
                a, b, wanted = call
                sent.append((call, actor.call.remote(
                    "run", source.inputs(a, b), b - a,
                    wanted and source.units(b) - source.units(a), clip.offset(a))))
            if not sent or self.failure:
                return
            (a, b, wanted), ref = sent.popleft()
            result = self.get(ref)
            if isinstance(result, Leaving):
                if result.checkpoint and a >= task.segment.first:
                    task.checkpoint = result.checkpoint
                    self.handed += 1
                raise Lost("the worker was told to end")
            if wanted:
                self.write(clip, a, b, memoryview(result))
                task.segment = Segment(b, task.segment.end)
                task.deaths = 0

    def write(self, clip, first, end, data):
        with clip.lock:
            clip.output.write(first, end, data)
            clip.written += clip.source.units(end) - clip.source.units(first)

    def run_worker(self, actor):
        """The life of one slot: a worker, and the one that replaces it."""
        refused, what, failed = None, "is not used", 0
        while not self.failure:
            task = None
            try:
                actor = actor or self.start_actor()
                if not actor:
                    break
                with self.lock:
                    self.alive += 1
                try:
                    while (task := self.take()):
                        self.run_task(actor, task)
                        self.put_back(None)
                        task, failed = None, 0
                    break
                finally:
                    with self.lock:
                        self.alive -= 1
            except Lost:
                self.lost += 1
                self.give_up(task, None)
            except Refused as error:
                refused = str(error)
                if task:
                    self.put_back(task)
                break
            except Error as error:
                self.give_up(task, str(error))
                failed += 1
                if failed == FAILED_MAX and self.slots > 1:
                    refused, what = str(error), "gets no more segments"
                    self.refused.append(actor)
                    break
            except Exception as error:  # a bug of ours must not hang the others
                self.fail(f"{type(error).__name__}: {error}")
                break
            kill(self.ray, actor)
            actor = None
        with self.lock:
            self.slots -= 1
            if refused:
                self.say_refused(refused, what)
                if not self.slots and not self.failure:
                    self.failure = (f"no worker is left: {refused}; what is done is "
                                    "kept, continue with --resume")
            self.lock.notify_all()

    def give_up(self, task, error):
        """Puts a task back after its worker failed, or ends the run."""
        if not task:
            return
        task.errors += bool(error)
        task.deaths += not error
        clip = self.clips[task.clip]
        if error and clip.out + ".part" in error:
            self.fail(error)  # the disk of the driver
        elif task.errors >= ERRORS_MAX or task.deaths >= DEATHS_MAX:
            what = (f"failed {task.errors} times: {error}" if error else
                    f"lost {task.deaths} workers without a result")
            self.fail(f"{clip.source.path}: the segment from latent {task.segment.first} "
                      f"to {task.segment.end - 1} {what}; what is done is kept, continue "
                      "with --resume")
        left = task.segment.first < task.segment.end
        self.put_back(task if left else None)

    # The whole run.

    def make_tasks(self, workers):
        total = sum(c.source.latents for c in self.clips)
        computed, cost = 0, self.first["cost"]
        cuts = cut.cut_clips([c.source.latents for c in self.clips], workers, cost)
        for i, (clip, found) in enumerate(zip(self.clips, cuts)):
            computed += clip.source.latents + (len(found) - 1) * cost
            for segment in found:
                for part in clip.output.missing(segment):
                    self.queue.append(Task(i, part))
        longest = max((t.segment.end - t.segment.first for t in self.queue), default=0)
        plan = self.first
        print(f"{self.options.prog}: workers: {workers}, threads of each: "
              f"{plan['threads']}, {plan['backend']}, {plan['precision']}, "
              f"{plan['memory'] / 2**20:.0f} MiB each; segments: {len(self.queue)}, of at "
              f"most {longest} latents, which look back {self.history} at the cost of "
              f"{cost}: efficiency {100 * total / computed:.0f} %", file=sys.stderr)

    def run(self):
        places = self.count_places()
        for _ in range(self.options.workers or places):
            self.begun.append(self.begin_actor())
        actor = self.open_first(places)
        workers = self.options.workers or places - len(self.refused)
        for clip in self.clips:
            clip.open(segments.description_of(clip.source, self.first),
                      self.options.resume)
        self.make_tasks(workers)
        self.slots, self.computing = workers, 0
        self.started, self.used = time.monotonic(), time.process_time()
        threads = [threading.Thread(target=self.run_worker, daemon=True,
                                    args=(actor if i == 0 else None,))
                   for i in range(workers)]
        for thread in threads:
            thread.start()
        bar, flushed = Bar(self), time.monotonic()
        while True:
            with self.lock:
                if self.over():
                    break
                self.lock.wait(0.5)
            bar.show()
            if time.monotonic() - flushed > FLUSH_SECONDS:
                flushed = time.monotonic()
                self.flush()
        for thread in threads:
            thread.join(JOIN_SECONDS)
        if self.failure:
            raise Error(self.failure)
        self.flush()
        bar.end()

    def flush(self):
        """Says in the journals what is done, and completes the clips that are."""
        for clip in self.clips:
            with clip.lock:
                if clip.complete():
                    clip.finish()
                elif clip.output:
                    clip.output.flush()


def kill(ray, actor):
    if actor:
        try:
            ray.kill(actor)
        except (ray.exceptions.RayError, ValueError):
            pass  # it is gone


def raise_limits():
    """Each clip has some open files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def on_signal(*_):
    raise KeyboardInterrupt


def run(options, make_clips):
    """make_clips: returns the Clips. Returns the exit code."""
    ray = driver = None
    clips = []
    signal.signal(signal.SIGTERM, on_signal)
    try:
        raise_limits()
        clips = make_clips()
        if not clips:
            return 0
        ray = import_ray()
        connect(ray, options)
        signal.signal(signal.SIGTERM, on_signal)  # Ray has set its own
        driver = Driver(ray, options, clips)
        driver.run()
        return 0
    except KeyboardInterrupt:
        print(f"\n{options.prog}: interrupted; continue with --resume", file=sys.stderr)
    except (Error, Lost, Refused, OSError) as error:
        print(f"{options.prog}: {streams.sentence(error)}", file=sys.stderr)
    finally:
        for clip in clips:
            clip.stop()
        if ray and ray.is_initialized():
            ray.shutdown()
    return 3


def check_address(address):
    """Ray itself would try for minutes, and names no address in the end."""
    host, _, port = (address or "").rpartition(":")
    if not host or "/" in host or not port.isdigit():
        return  # auto, local, or ray://HOST:PORT
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise Error(f"{address}: no Ray cluster answers: {error.strerror or error}; start "
                    "one there with ray start --head") from None


def connect(ray, options):
    check_address(options.address or os.environ.get("RAY_ADDRESS"))
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        ray.init(address=options.address, log_to_driver=False, logging_level="ERROR",
                 include_dashboard=False if not (
                     options.address or os.environ.get("RAY_ADDRESS")) else None)
    except (RuntimeError, ConnectionError, ValueError) as error:
        said = " ".join(str(error).split())[:300]
        if "Failed to connect" in said and os.environ.get("RAY_AUTH_MODE") != "token":
            said += "; if this cluster asks for a token, set RAY_AUTH_MODE=token"
        raise Error(f"Ray: {said}") from None
