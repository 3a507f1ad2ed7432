#!/usr/bin/env python3
"""Cuts a clip into segments, decodes or encodes them, and joins the results.

A segment begins as many latents early as the network looks back, and discards their
results. The joined bytes are those of one process. decode.py and encode.py send segments
to the workers of a Ray cluster. As a program, this file computes one segment of a clip
and needs no Ray: jobs of Kubernetes and Slurm run it for each index, and the last one
joins the segments.
"""
import argparse
import fractions
import json
import os
import re
import shutil
import socket
import sys
import time
from dataclasses import asdict, dataclass, field

import streams
from cut import Segment, chunks, cut
from output import Output, check_names, replace
from sources import Decoding, end_of
from streams import DECODE, Error
from worker import Leaving, Worker

INT_MAX = 2**31 - 1  # of the library's numbers


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
        "pixels": source.pixels, "video": source.video,
        "size": f"{source.width}x{source.height}"}


def read_settings(path):
    """Waits while the process that made the file has not written it. None: it was killed
    before."""
    for _ in range(50):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if text.endswith("}"):
            return json.loads(text)
        time.sleep(0.1)
    return None


def agree(folder, settings):
    """The first process writes its settings beside the segments. Others must have the
    same: the cut depends on the backend, and so do the bytes."""
    path = os.path.join(folder, "settings")
    try:
        with open(path, "x", encoding="utf-8") as file:
            json.dump(settings, file, sort_keys=True)
    except FileExistsError:
        pass
    except OSError as error:
        if os.path.exists(path):
            os.unlink(path)
        raise Error(f"{path}: cannot write: {error.strerror}; the same command goes "
                    "on") from None
    found = read_settings(path)
    if found is None:
        os.unlink(path)
        agree(folder, settings)
        return
    for key, value in settings.items():
        if found.get(key) != value:
            raise Error(f"{path}: the {key} of the other segments is {found.get(key)}, "
                        f"and is {value} here; use the same for all, or remove {folder} "
                        "to start again")


def keep(checkpoint, carries):
    try:
        replace(checkpoint, carries)
    except OSError as error:
        print(f"segments: {checkpoint}: cannot write: {error.strerror}; the latents "
              "before will be computed again", file=sys.stderr)


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
            start = max(0, missing.first - history)
            worker.begin(start, warm_up=missing.first - start)
        for first, end, wanted in chunks(source, missing, history, begun):
            frames = source.units(end) - source.units(first)
            result = worker.run(source.inputs(first, end), end - first, wanted and frames)
            if isinstance(result, Leaving):
                if result.checkpoint and first >= missing.first:
                    keep(checkpoint, result.checkpoint)
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
                        f"the header, expected {len(source.header) + source.size}; "
                        "remove the folder to start again")
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
    check_names(options.out, [options.latents], model)
    source = decoding(model, options, options.latents, options.out)
    history = model.model.history(DECODE)
    plan = worker.open(source.job())
    all_segments = cut(source.latents, options.count, plan["cost"])
    n = len(all_segments)
    folder, names = names_of(options.out, n)
    if os.path.exists(options.out):
        print(f"segments: {options.out} is complete", file=sys.stderr)
        return 0
    if options.index >= n:
        print(f"segments: {options.latents} has {streams.counted(n, 'segment')}: nothing "
              f"to do for index {options.index}", file=sys.stderr)
        return 0
    os.makedirs(folder, exist_ok=True)
    description = json.loads(json.dumps(description_of(source, plan)))
    agree(folder, {**description, "cut": [s.end for s in all_segments]})
    name = names[options.index]
    if not os.path.exists(name):
        segment = all_segments[options.index]
        description["segment"] = asdict(segment)
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

def count(text):
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: expected a count from 1")
    return int(text)


def index(text):
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > INT_MAX:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number, 0 to "
                                         f"{INT_MAX}")
    return int(text)


def frame_rate(text):
    if not re.fullmatch("0*[1-9][0-9]*(/0*[1-9][0-9]*)?", text):
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number or a fraction, "
                                         "such as 24 or 30000/1001")
    if any(len(word) > 10 or int(word) > INT_MAX for word in text.split("/")):
        raise argparse.ArgumentTypeError(f"{text}: expected numbers up to {INT_MAX}")
    return fractions.Fraction(text)


def add_worker_options(parser, threads):
    parser.add_argument("--model", required=True, metavar="WEIGHTS",
                        help="file of weights, under the same path on all nodes")
    parser.add_argument("--variant", metavar="NAME", help="name of the network, if the "
                        "weights fit several networks")
    parser.add_argument("--backend", choices=streams.BACKENDS, default="auto")
    parser.add_argument("--precision", choices=streams.PRECISIONS, default="auto")
    parser.add_argument("--threads", type=count, metavar="N",
                        help=threads)
    parser.add_argument("--slice", type=int, default=0, metavar="N",
                        help="steps that are computed together; default: as many as "
                        "vaetool chooses")
    parser.add_argument("--memory-limit", default="auto", metavar="M",
                        help="most memory of a process: a size such as 12G, or a share of the "
                        "free memory such as 75%%; auto (default): 90 percent of the "
                        "free memory")


def add_reading_options(parser):
    parser.add_argument("--tensor", metavar="NAME", help="name of the tensor to read")
    parser.add_argument("--batch-index", type=index, metavar="N",
                        help="index of the clip in a batch, from 0")
    parser.add_argument("--layout", choices=streams.LAYOUTS, default="auto",
                        help="order of the dimensions; auto (default): as the file "
                        "states, else by the shape")
    parser.add_argument("--normalization", choices=["auto", *streams.NORMALIZATIONS],
                        default="auto", help="scale of the latents; auto (default): as "
                        "their file states, else normalized")
    parser.add_argument("--latent-space", metavar="NAME",
                        help="latent space; it must be that of the model")
    parser.add_argument("--framerate", type=frame_rate, metavar="RATE",
                        help="frame rate of the video, such as 24 or 30000/1001")


def decoding(model, options, path, out):
    """The latents of a file, read as add_reading_options() says."""
    rate, own = options.framerate, options.normalization
    return Decoding(model, path, out, tensor=options.tensor,
                    batch_index=options.batch_index, layout=options.layout,
                    normalization=None if own == "auto" else own, space=options.latent_space,
                    rate=(rate.numerator, rate.denominator) if rate else None)


def worker_settings(options):
    return {"backend": options.backend, "precision": options.precision,
            "threads": options.threads or 0, "slice_size": options.slice,
            "deterministic": options.backend == "cuda",
            "variant": options.variant, "memory_limit": options.memory_limit}


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="segments.py", description="Decodes segment INDEX of a clip that is cut "
        "into COUNT segments. The process that finds all segments complete joins them to "
        "OUT. After a crash, run the same command again, also on another node: it "
        "continues. After SIGTERM it computes nothing twice.")
    add_worker_options(parser, "number of threads; default: one for each logical "
                       "processor that the process may use")
    parser.add_argument("--index", type=int, required=True, help="the segment, from 0")
    parser.add_argument("--count", type=count, required=True, help="number of segments")
    add_reading_options(parser)
    parser.add_argument("latents", metavar="LATENTS", help="a file of latents")
    parser.add_argument("out", metavar="OUT", help="the frames: .safetensors, or .rgb "
                        "(packed bytes without a header)")
    options = parser.parse_args(arguments)
    if options.index < 0:
        parser.error("--index is from 0")
    try:
        if end_of(options.out) not in (".safetensors", ".rgb"):
            raise Error(f"{options.out}: the name must end in .safetensors or .rgb")
        return run_index(options)
    except (Error, OSError) as error:
        print(f"segments: {socket.gethostname()}: {streams.sentence(error)}",
              file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("segments: interrupted; the same command goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
