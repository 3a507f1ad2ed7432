#!/usr/bin/env python3
"""Cuts a clip into segments, decodes or encodes them, and joins the results.

A segment begins as many latents early as the network looks back, and discards their
results. The joined bytes are those of one process. decode.py and encode.py send segments
to the workers of a Ray cluster. As a program, this file computes one segment of a clip
and needs no Ray: jobs of Kubernetes and Slurm run it for each index, and the last one
joins the segments.
"""
import argparse
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
from dataclasses import asdict, dataclass, field

import libvae
from libvae import DECODE, ENCODE, I420, RGB, RGB_F32, Error

ROUNDS_MAX = 8
CHUNK = 8  # latents of one call of a worker, at most
CHUNK_BYTES = 64 << 20


# The cut. engine/tool/segments.c cuts in the same way.

@dataclass(frozen=True)
class Segment:
    first: int  # latent
    end: int


def count_segments(latents, workers, history):
    """More segments than workers lose less time if one of them fails, and level out
    workers of different speed. They may cost 10 % more."""
    def work(n):
        return latents + (n - 1) * history

    most = (latents - history) // max(1, (history + 1) // 2)
    n = min(workers, most)
    if n < 2:
        return 1
    rounds = 1
    while (rounds < ROUNDS_MAX and n * (rounds + 1) <= most and
           10 * work(n * (rounds + 1)) <= 11 * work(n)):
        rounds += 1
    return n * rounds


def cut(latents, n, history):
    """n segments of equal work. The first one recomputes nothing, so it is longer."""
    n = max(1, min(n, latents - history))
    shared = latents - history if n > 1 else latents
    before = latents - shared
    return [Segment(0 if i == 0 else before + shared * i // n,
                    before + shared * (i + 1) // n) for i in range(n)]


def efficiency(segments, history):
    """The useful part of the work."""
    latents = segments[-1].end
    return latents / (latents + (len(segments) - 1) * history)


# What is decoded or encoded.

def safetensors_header(tensors, metadata):
    """tensors: [(name, type, dims, bytes)]. As vaetool writes it."""
    at, entries = 0, {"__metadata__": metadata}
    for name, kind, dims, size in tensors:
        entries[name] = {"dtype": kind, "shape": dims, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


class Decoding:
    """The latents of a file, and how their frames are written."""
    direction = DECODE

    def __init__(self, model, path, pixels=RGB_F32, header=True, tensor=None,
                 batch_index=-1, normalization=None):
        self.model, self.path, self.pixels = model, path, pixels
        self.clip = libvae.Clip(path, tensor, batch_index)
        clip, info = self.clip.info, model.info
        if not info.has_decoder:
            raise Error(f"{model.path}: has no decoder")
        if info.look_ahead:
            raise Error(f"{model.path}: its decoder looks ahead, and segments are for "
                        "causal decoders")
        if clip.channels != info.latent_channels:
            raise Error(f"{path}: the latents have {clip.channels} channels, the model "
                        f"{model.path} wants {info.latent_channels}")
        if clip.space and info.space and clip.space != info.space:
            raise Error(f"{path}: states the latent space {clip.space.decode()}, the "
                        f"model {model.path} wants {info.space.decode()}")
        self.latents = clip.t
        self.width = clip.width_px or clip.width * info.spatial
        self.height = clip.height_px or clip.height * info.spatial
        grid = [-(-self.width // info.spatial), -(-self.height // info.spatial)]
        if grid != [clip.width, clip.height]:
            raise Error(f"{path}: the latents have a grid of {clip.width}x{clip.height} "
                        f"for {self.width}x{self.height} pixels, the model {model.path} "
                        f"wants {grid[0]}x{grid[1]}")
        self.frames = model.frames_of(self.latents)
        if clip.frames:
            self.frames = min(self.frames, clip.frames)
        self.normalization = clip.normalization if normalization is None else normalization
        self.rate = ((clip.fps_n, clip.fps_d) if clip.fps_n
                     else (info.fps_n, info.fps_d))
        self.frame = libvae.frame_bytes(pixels, self.width, self.height)
        self.header = self.make_header() if header and pixels == RGB_F32 else b""
        self.size = self.frames * self.frame

    def make_header(self):
        info, clip = self.model.info, self.clip.info
        metadata = {"vae.pixel_range": f"{info.pixel_low:g} {info.pixel_high:g}"}
        if clip.fps_n:
            metadata["vae.framerate"] = f"{clip.fps_n}/{clip.fps_d}"
        dims = [self.frames, self.height, self.width, 3]
        return safetensors_header([("frames", "F32", dims, self.frames * self.frame)],
                                  metadata)

    def job(self):
        """What a worker must know."""
        return {"direction": DECODE, "width": self.width, "height": self.height,
                "normalization": self.normalization, "pixels": self.pixels,
                "kind": self.clip.info.type}

    def inputs(self, first, end):
        return self.clip.read(first, end)

    def units(self, latents):
        """Frames of the latents before this one, as far as they are kept."""
        return min(self.frames, self.model.frames_of(latents))

    def places(self, first, end, data):
        """[(offset, bytes)] of the frames of these latents. Frames past the end of the
        clip are left out."""
        begin = self.units(first)
        return [(begin * self.frame,
                 memoryview(data)[:(self.units(end) - begin) * self.frame])]

    def identity(self):
        """A hash of all latents."""
        digest = hashlib.sha256()
        for k in range(self.latents):
            digest.update(self.clip.read(k, k + 1))
        return f"{self.latents} latents, {digest.hexdigest()[:16]}"


class Encoding:
    """The frames of a file, and how their latents are written."""
    direction = ENCODE

    def __init__(self, model, path, normalization=0, posterior=0, seed=0, rate=None):
        self.model, self.path = model, path
        self.settings = {"posterior": posterior, "seed": seed}
        info = model.info
        if not info.has_encoder:
            raise Error(f"{model.path}: has no encoder")
        self.file, self.begin, shape, kind, metadata = self.find(path)
        self.frames, self.height, self.width = shape[:3]
        if not self.frames:
            raise Error(f"{path}: has no frames")
        self.pixels = RGB if kind == "U8" else RGB_F32
        wanted = f"{info.pixel_low:g} {info.pixel_high:g}"
        if kind == "F32" and metadata.get("vae.pixel_range", wanted) != wanted:
            raise Error(f"{path}: the frames have the range "
                        f"{metadata['vae.pixel_range']}, the model {model.path} wants "
                        f"{wanted}")
        self.rate = rate or metadata.get("vae.framerate")
        self.normalization = normalization
        self.latents = model.latents_of(self.frames)
        self.frame = libvae.frame_bytes(self.pixels, self.width, self.height)
        self.header, self.plane, self.outputs = self.make_header()
        self.size = self.outputs * self.latents * self.plane * info.latent_channels

    def __del__(self):
        if hasattr(self, "file"):
            self.file.close()

    @staticmethod
    def find(path):
        """Finds video_u8 or frames, [T, H, W, 3], in a safetensors file."""
        file = open(path, "rb")
        try:
            length, = struct.unpack("<Q", file.read(8))
            entries = json.loads(file.read(min(length, 100 << 20)))
            metadata = entries.pop("__metadata__", {})
            name = next(n for n in ("video_u8", "frames") if n in entries)
            entry = entries[name]
            shape, kind = entry["shape"], entry["dtype"]
            if len(shape) != 4 or shape[3] != 3 or kind not in ("U8", "F32"):
                raise Error(f'{path}: tensor "{name}" is {kind} {shape}, wanted U8 or '
                            "F32 [T, H, W, 3]")
        except (struct.error, ValueError, StopIteration, KeyError, TypeError):
            raise Error(f"{path}: wanted a safetensors file with video_u8 or frames, "
                        "[T, H, W, 3]; pipelines/video-to-latents.sh encodes a video "
                        "file") from None
        return file, 8 + length + entry["data_offsets"][0], shape, kind, metadata

    def make_header(self):
        info = self.model.info
        grid = [-(-self.height // info.spatial), -(-self.width // info.spatial)]
        plane = 4 * grid[0] * grid[1]
        names = ["latent", "mean", "logvar"][:3 if info.has_posterior else 1]
        dims = [info.latent_channels, self.latents, *grid]
        metadata = {"vae.normalization": libvae.NORMALIZATIONS[self.normalization],
                    "vae.layout": "cthw", "vae.width": str(self.width),
                    "vae.height": str(self.height), "vae.frames": str(self.frames)}
        if self.rate:
            metadata["vae.framerate"] = self.rate
        if info.space:
            metadata["vae.latent_space"] = info.space.decode()
        size = info.latent_channels * self.latents * plane
        return (safetensors_header([(n, "F32", dims, size) for n in names], metadata),
                plane, len(names))

    def job(self):
        return {"direction": ENCODE, "width": self.width, "height": self.height,
                "normalization": self.normalization, "pixels": self.pixels,
                **self.settings}

    def inputs(self, first, end):
        """The frames of these latents; after the last frame, copies of it."""
        steps = self.model.info.encode

        def frame_of(k):
            return steps.first_in + (k - 1) * steps.step_in if k else 0

        here = [min(i, self.frames - 1) for i in range(frame_of(first), frame_of(end))]
        file, at = self.file.fileno(), self.begin
        data = os.pread(file, (here[-1] - here[0] + 1) * self.frame,
                        at + here[0] * self.frame)
        if len(data) < (here[-1] - here[0] + 1) * self.frame:
            raise Error(f"{self.path}: ends before its last frame")
        return data + data[-self.frame:] * (len(here) - 1 - here[-1] + here[0])

    def units(self, latents):
        return min(self.frames, self.model.frames_of(latents))

    def places(self, first, end, data):
        """A latent's channels are `latents` planes apart in the file."""
        data, plane = memoryview(data), self.plane
        channels = self.model.info.latent_channels
        for k in range(end - first):
            for row in range(self.outputs * channels):
                here = (k * self.outputs * channels + row) * plane
                yield ((row * self.latents + first + k) * plane,
                       data[here:here + plane])

    def identity(self):
        digest = hashlib.sha256()
        self.file.seek(self.begin)
        for _ in range(self.frames):
            digest.update(self.file.read(self.frame))
        return f"{self.frames} frames, {digest.hexdigest()[:16]}"


# The worker, which Ray runs as an actor.

@dataclass
class Leaving:
    """The answer of a worker that ends: its state behind the last answer."""
    checkpoint: bytes = None  # None: the carries went with an earlier answer
    error: str = None


class Worker:
    """Holds a model, and takes segment after segment. settings: backend, precision,
    threads, device, memory_limit, memory_share, spill, variant."""

    def __init__(self, model, settings):
        self.settings = dict(settings)
        self.node = socket.gethostname()
        self.leaving = False
        self.left = False
        self.key = self.stream = None
        try:
            signal.signal(signal.SIGTERM, self.on_term)
        except ValueError:
            pass  # not the main thread
        self.model = libvae.Model(model, self.settings.pop("variant", None))

    def on_term(self, *_):
        self.leaving = True

    def open(self, job, forced=None):
        """Makes the stream for a job. Returns what must be equal on all nodes. forced:
        settings that the first worker has chosen."""
        settings = {**self.settings, **(forced or {})}
        key = json.dumps([job, settings], sort_keys=True)
        if key != self.key:
            self.key = self.stream = None
            members = {k: v for k, v in job.items() if k not in ("kind", "pixels")}
            self.stream = libvae.Stream(self.model, **members, **settings)
            self.key = key
        self.job = job
        plan = self.stream.plan
        return {"node": self.node, "pid": os.getpid(), "libvae": libvae.version(),
                "model": self.model.fingerprint(),
                "backend": libvae.BACKENDS[plan.backend],
                "precision": libvae.PRECISIONS[plan.precision], "threads": plan.threads,
                "device": self.stream.device, "slice": plan.slice_size,
                "memory": plan.total}

    def begin(self, unit, checkpoint=None):
        """The next run() starts at latent `unit`: without context, or with the carries
        of another worker."""
        if not checkpoint:
            self.stream.start(unit)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint")
            with open(path, "wb") as file:
                file.write(checkpoint)
            if self.stream.load(path) != unit:
                raise Error(f"{self.node}: the checkpoint of another worker is not at "
                            f"latent {unit}")

    def save(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint")
            self.stream.save(path)
            with open(path, "rb") as file:
                return file.read()

    def run(self, inputs, n, wanted):
        """Computes n latents. Returns bytes, or Leaving after SIGTERM."""
        if self.leaving:
            if self.left:
                return Leaving()
            self.left = True
            try:
                return Leaving(self.save())
            except Error as error:
                return Leaving(error=str(error))
        if self.job["direction"] == DECODE:
            return self.stream.decode((self.job["kind"], inputs), n, self.job["pixels"],
                                      wanted) or b""
        result = self.stream.encode(inputs, n, self.job["pixels"])
        return result if wanted else b""


# The output.

class Output:
    """OUT.part, which is written in any order, and OUT.journal, which says what of it is
    there. description: what must be the same to continue."""

    def __init__(self, path, source, description, resume=False):
        self.path, self.source = path, source
        self.part, self.journal = path + ".part", path + ".journal"
        self.head = json.dumps(description, sort_keys=True)
        self.done = []     # [first, end) of latents, merged and sorted
        self.pending = []  # written, not yet in the journal
        known = resume and os.path.exists(self.journal)
        if known:
            self.read_journal(description)
        self.file = os.open(self.part, os.O_RDWR | os.O_CREAT |
                            (0 if known else os.O_TRUNC), 0o666)
        self.write_journal()
        self.pwrite(source.header, 0)

    def read_journal(self, description):
        with open(self.journal, encoding="utf-8") as file:
            lines = file.read().split("\n")[:-1]  # the last one may be torn
        try:
            found = json.loads(lines[0])
            ranges = [tuple(map(int, line.split())) for line in lines[1:]]
        except (ValueError, IndexError):
            raise Error(f"{self.journal}: is damaged; remove it to start again") from None
        for key in sorted(set(found) | set(description)):
            if found.get(key) != description.get(key):
                raise Error(f"{self.journal}: the {key} was {found.get(key)} and is "
                            f"{description.get(key)} now; continue with the same, or "
                            "remove it to start again")
        if not os.path.exists(self.part):
            raise Error(f"{self.part}: is not there, but there is {self.journal}; remove "
                        "this to start again")
        for first, end in ranges:
            self.add(first, end)

    def write_journal(self):
        with open(self.journal + ".tmp", "w", encoding="utf-8") as file:
            file.write(self.head + "\n")
            file.writelines(f"{a} {b}\n" for a, b in self.done)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.journal + ".tmp", self.journal)
        self.log = open(self.journal, "a", encoding="utf-8")

    def pwrite(self, data, offset):
        data = memoryview(data)
        while data:
            try:
                n = os.pwrite(self.file, data, offset)
            except OSError as error:
                raise Error(f"{self.part}: cannot write: {error.strerror}; what is "
                            "done is kept, continue with --resume") from None
            data, offset = data[n:], offset + n

    def add(self, first, end):
        """Adds a range to `done`."""
        merged = []
        for a, b in sorted(self.done + [(first, end)]):
            if merged and a <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
            else:
                merged.append((a, b))
        self.done = merged

    def write(self, first, end, data):
        """The results of latents first to end - 1. The caller locks."""
        for offset, part in self.source.places(first, end, data):
            self.pwrite(part, len(self.source.header) + offset)
        self.add(first, end)
        self.pending.append((first, end))

    def flush(self):
        """Brings the data to the disk, then says so in the journal."""
        pending, self.pending = self.pending, []
        if pending:
            os.fdatasync(self.file)
            self.log.writelines(f"{a} {b}\n" for a, b in pending)
            self.log.flush()

    def missing(self, segment):
        """The parts of a segment that are not written yet."""
        at, found = segment.first, []
        for a, b in self.done:
            if b <= at or a >= segment.end:
                continue
            if a > at:
                found.append(Segment(at, a))
            at = max(at, b)
        return found + ([Segment(at, segment.end)] if at < segment.end else [])

    def count(self, units):
        """What is written, in units(latents)."""
        return sum(units(b) - units(a) for a, b in self.done)

    def contiguous(self):
        """Latents from the start without a gap."""
        return self.done[0][1] if self.done and self.done[0][0] == 0 else 0

    def commit(self):
        os.fsync(self.file)
        os.close(self.file)
        os.rename(self.part, self.path)
        self.log.close()
        os.unlink(self.journal)

    def close(self):
        try:
            self.flush()
        except OSError:
            pass
        os.close(self.file)
        self.log.close()


def chunks(source, segment, history, begun=False):
    """[(first, end, wanted)] of the calls for a segment. begun: a checkpoint has the
    context. A call has only latents that are wanted, or none of them."""
    size = max(1, min(CHUNK, CHUNK_BYTES // max(1, source.frame *
                                                source.model.info.temporal)))
    start = segment.first if begun else max(0, segment.first - history)
    at = start
    while at < segment.end:
        wanted = at >= segment.first
        end = min(at + size, segment.end if wanted else segment.first)
        yield at, end, wanted
        at = end


# One segment, for jobs without Ray.

@dataclass
class Part:
    """A segment as a source of its own, for Output."""
    source: object
    segment: Segment
    header: bytes = b""
    size: int = field(init=False)

    def __post_init__(self):
        self.begin = self.source.units(self.segment.first) * self.source.frame
        self.size = self.source.units(self.segment.end) * self.source.frame - self.begin

    def places(self, first, end, data):
        for offset, part in self.source.places(first, end, data):
            yield offset - self.begin, part


def description_of(source, plan):
    return {"input": source.identity(), **{k: plan[k] for k in (
        "model", "backend", "precision")}, "threads": plan["threads"],
        "pixels": source.pixels, "size": f"{source.width}x{source.height}"}


def compute(source, worker, output, segment, history, checkpoint):
    """Computes what is missing of a segment. False after SIGTERM: the carries are then
    in the file `checkpoint`, if there are any."""
    point = None
    for missing in output.missing(segment):
        begun = False
        if os.path.exists(checkpoint):
            with open(checkpoint, "rb") as file:
                point = file.read()
            os.unlink(checkpoint)
            try:
                worker.begin(missing.first, point)
                begun = True
            except Error as error:
                print(f"segments: {checkpoint}: {error}; the latents before are computed "
                      "again", file=sys.stderr)
        if not begun:
            worker.begin(max(0, missing.first - history))
        for first, end, wanted in chunks(source, missing, history, begun):
            result = worker.run(source.inputs(first, end), end - first, wanted)
            if isinstance(result, Leaving):
                if result.checkpoint and first >= missing.first:
                    with open(checkpoint + ".tmp", "wb") as file:
                        file.write(result.checkpoint)
                    os.replace(checkpoint + ".tmp", checkpoint)
                return False
            if wanted:
                output.write(first, end, result)
                output.flush()
    return True


def names_of(out, n):
    folder = out + ".segments"
    return folder, [os.path.join(folder, f"{i:05}-of-{n:05}") for i in range(n)]


def join(source, out, n):
    """Joins the segments if all are there. Two processes may do it at the same time:
    both write the same bytes, and the last one to rename wins. Returns False if segments
    are missing."""
    folder, names = names_of(out, n)
    if os.path.exists(out):
        return True
    if not all(map(os.path.exists, names)):
        return False
    part = f"{out}.part-{socket.gethostname()}-{os.getpid()}"
    try:
        with open(part, "wb") as file:
            file.write(source.header)
            for name in names:
                with open(name, "rb") as segment:
                    shutil.copyfileobj(segment, file, 4 << 20)
            file.flush()
            os.fsync(file.fileno())
        if os.path.getsize(part) != len(source.header) + source.size:
            raise Error(f"{folder}: the segments have {os.path.getsize(part)} bytes with "
                        f"the header, wanted {len(source.header) + source.size}; remove "
                        "the folder to start again")
        os.rename(part, out)
    except FileNotFoundError:
        if os.path.exists(out):
            return True  # another process has joined them meanwhile
        raise
    except OSError as error:
        raise Error(f"{out}: cannot write: {error.strerror}; the segments are kept in "
                    f"{folder}, and the same command joins them") from None
    finally:
        if os.path.exists(part):
            os.unlink(part)
    shutil.rmtree(folder, ignore_errors=True)
    return True


def run_index(options):
    """One segment of a clip, and the join if it was the last."""
    worker = Worker(options.model, worker_settings(options))
    model = worker.model
    source = Decoding(model, options.latents, pixels_of(options.out),
                      tensor=options.tensor, batch_index=options.batch_index)
    history = model.history(DECODE)
    all_segments = cut(source.latents, options.count, history)
    n = len(all_segments)
    folder, names = names_of(options.out, n)
    if os.path.exists(options.out):
        print(f"segments: {options.out} is complete", file=sys.stderr)
        return 0
    if options.index >= n:
        print(f"segments: {options.latents} has {n} segments: nothing to do for index "
              f"{options.index}", file=sys.stderr)
        return 0
    os.makedirs(folder, exist_ok=True)
    name = names[options.index]
    if not os.path.exists(name):
        segment = all_segments[options.index]
        plan = worker.open(source.job())
        description = {**description_of(source, plan), "segment": asdict(segment)}
        output = Output(name, Part(source, segment), description, resume=True)
        if not compute(source, worker, output, segment, history, name + ".checkpoint"):
            output.close()
            print(f"segments: {name}: ended by a signal; the same command goes on",
                  file=sys.stderr)
            return 143
        output.commit()
    if join(source, options.out, n):
        print(f"segments: {options.out} is complete", file=sys.stderr)
    return 0


# The command line, also of decode.py and encode.py.

def memory_limit(text):
    """Bytes, or a share of what is free: 12G, 75%."""
    if text == "auto":
        return {}
    try:
        if text.endswith("%"):
            return {"memory_share": float(text[:-1]) / 100}
        unit = "KMGT".find(text[-1].upper()) + 1
        return {"memory_limit": int(float(text[:-1] if unit else text) * 1024 ** unit)}
    except (ValueError, IndexError):
        raise argparse.ArgumentTypeError("wanted auto, a size such as 12G, or a share "
                                         "such as 75%") from None


def add_worker_options(parser):
    parser.add_argument("--model", required=True, metavar="WEIGHTS",
                        help="weights, under the same path on all nodes")
    parser.add_argument("--variant", help="the model, if shapes alone do not tell it")
    parser.add_argument("--backend", choices=libvae.BACKENDS, default="auto")
    parser.add_argument("--precision", choices=libvae.PRECISIONS, default="auto")
    parser.add_argument("--threads", type=int, metavar="N",
                        help="of each worker; default: as many as the process may use")
    parser.add_argument("--slice", type=int, default=0, metavar="N")
    parser.add_argument("--memory-limit", type=memory_limit, default={}, metavar="M",
                        help="of each worker: auto, a size such as 12G, or a share such "
                        "as 75%%")


def worker_settings(options):
    return {"backend": libvae.BACKENDS.index(options.backend),
            "precision": libvae.PRECISIONS.index(options.precision),
            "threads": options.threads or 0, "slice_size": options.slice, "device": -1,
            "deterministic": options.backend == "cuda",
            "variant": options.variant, **options.memory_limit}


def pixels_of(out):
    """F32 for safetensors, RGB bytes for .rgb, I420 for all that is encoded."""
    end = os.path.splitext(out)[1]
    kinds = {".safetensors": RGB_F32, ".rgb": RGB, ".mp4": I420, ".webm": I420}
    if end not in kinds:
        raise Error(f"{out}: the name must end in {', '.join(kinds)}")
    return kinds[end]


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="segments.py", description="Decodes segment INDEX of a clip that is cut "
        "into COUNT segments. The process that finds all segments complete joins them to "
        "OUT. Run the same command again after a crash, also on another node: it goes "
        "on. After SIGTERM it continues with the saved carries.")
    add_worker_options(parser)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--tensor")
    parser.add_argument("--batch-index", type=int, default=-1)
    parser.add_argument("latents", metavar="LATENTS")
    parser.add_argument("out", metavar="OUT", help=".safetensors, or .rgb without header")
    options = parser.parse_args(arguments)
    if not 0 <= options.index or options.count < 1:
        parser.error("--index is from 0, --count from 1")
    try:
        if pixels_of(options.out) == I420:
            raise Error(f"{options.out}: the name must end in .safetensors or .rgb")
        return run_index(options)
    except (Error, OSError) as error:
        print(f"segments: {socket.gethostname()}: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
