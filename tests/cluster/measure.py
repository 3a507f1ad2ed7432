"""Measures decode.py on a Ray cluster of two nodes on this machine, workers of one thread.

    sh tests/cluster/ray.sh . build build/tests/cluster/ray measure.py [OPTION...]

Decodes one clip by vaetool, with one worker and with two, in turns, compares all bytes,
and then kills workers and nodes during runs. The workers write their frames themselves,
except for one row, where they send them through Ray, as from another machine. Prints the
tables of docs/measurements/cpu.md, of medians, and the simulation with the times that were
measured. Use an idle machine with at least two cores. Options:
    --latents 400   --size 208x120  --runs 3   --kills 20
    --model WEIGHTS (default: the demo model)
"""
import argparse
import math
import os
import platform
import re
import signal
import statistics
import sys
import tempfile
import time

import clips
from nodes import Nodes

import cut
import gst_vae
import simulate
import streams

SENT = "1 worker, frames through Ray"
DRIVER = re.compile(r"(\d+) frames in ([\d.]+) s.*the driver used ([\d.]+) s")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = re.findall(r"model name\s*: (.*)", file.read())
    return (f"{names[0] if names else platform.machine()}, "
            f"{len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")


class Measure:
    def __init__(self, options, folder, nodes):
        self.options, self.nodes = options, nodes
        self.clip, self.one, self.whole, self.out = (
            os.path.join(folder, name + ".safetensors") for name in
            ("clip", "one", "whole", "out"))
        for path, latents in ((self.clip, options.latents), (self.one, 1)):
            clips.make_clip(path, latents, options.size[1] // 8, options.size[0] // 8,
                            trim=0, crop=0)

    def time_vaetool(self, clip):
        begin = time.monotonic()
        clips.vaetool("decode", "--threads", "1", "--model", self.options.model, clip,
                      self.whole)
        return time.monotonic() - begin

    def vaetool(self):
        """Its start is the time of one latent."""
        start, whole = map(self.time_vaetool, (self.one, self.clip))
        return {"seconds": whole - start, "whole": whole, "driver": 0}

    def ended(self, process):
        said = process.communicate()[1]
        if process.returncode:
            sys.exit(said)
        if clips.read(self.out) != clips.read(self.whole):
            sys.exit(f"the frames differ from those of vaetool; decode.py said: {said}")
        os.unlink(self.out)
        _, seconds, used = DRIVER.search(said).groups()
        return {"seconds": float(seconds), "driver": float(used)}

    def start(self, workers, sent=False):
        """sent: the workers do not find the output."""
        folder, name = os.path.split(self.out)
        return self.nodes.start("--workers", str(workers), "--model", self.options.model,
                                self.clip, "--to", os.path.join(
                                    "/proc/self/cwd" if sent else folder, name),
                                cwd=folder)

    def ray(self, workers, sent=False):
        begin = time.monotonic()
        found = self.ended(self.start(workers, sent))
        return {**found, "whole": time.monotonic() - begin}

    def kills(self):
        done, runs, seconds = [0, 0], 0, 0.0
        while sum(done) < self.options.kills:
            runs += 1
            process = self.start(2)
            now = self.nodes.kill(process, self.out + ".part", signal.SIGKILL,
                                  self.options.kills - sum(done), runs)
            done = [a + b for a, b in zip(done, now)]
            seconds += self.ended(process)["seconds"]
        return (f"Killed workers: {done[0]}, nodes: {done[1]}, in {runs} runs of 2 workers "
                f"that took {seconds / max(1, runs):.1f} s on average.")

    def video(self):
        """One worker to a .webm, which it encodes."""
        if not clips.has_elements("vp8enc", "webmmux", "gdppay"):
            return None
        self.out += ".webm"
        process = self.start(1)
        said = process.communicate()[1]
        if process.returncode:
            sys.exit(said)
        _, seconds, used = DRIVER.search(said).groups()
        return {"seconds": float(seconds), "driver": float(used),
                "bytes": os.path.getsize(self.out)}


class Report:
    """rows: {name: [run]}"""

    def __init__(self, options, rows, video):
        self.options, self.rows, self.video = options, rows, video
        model = gst_vae.open(options.model)
        self.history = model.model.history("decode")
        self.cost = streams.Stream(model, *options.size, threads=1).history_cost()
        self.frames = model.frames_of(options.latents)

    def median(self, name, key):
        return statistics.median(run[key] for run in self.rows[name])

    def cut_allows(self, workers):
        latents = self.options.latents
        n = cut.count_segments(latents, workers, self.cost)
        return workers * latents / (latents + (n - 1) * self.cost)

    def overhead(self, name, workers):
        """The share of one CPU that the driver's process uses, and the time of the run
        beside that of vaetool, divided as the cut allows. It also has what Ray's own
        processes take from the workers, and what the workers take from each other."""
        seconds = self.median(name, "seconds")
        ideal = self.median("vaetool", "seconds") / self.cut_allows(workers)
        return (f"- Overhead with {name}: the driver uses "
                f"{100 * self.median(name, 'driver') / seconds:.1f} % of one CPU, and the "
                f"run takes {100 * seconds / ideal:.1f} % of the {ideal:.1f} s that "
                "`vaetool` and the cut allow. The start takes "
                f"{self.median(name, 'whole') - seconds:.1f} s more.")

    def measured(self, killed):
        options, one = self.options, self.median("1 worker", "seconds")
        print(f"{machine()}:\n\n"
              f"| {options.latents} latents of {options.size[0]}x{options.size[1]}, "
              f"median of {options.runs} | seconds | with start-up | frames per second | "
              "CPU time of the driver |\n|---|---|---|---|---|")
        for name in self.rows:
            seconds = self.median(name, "seconds")
            print(f"| {name} | {seconds:.1f} | {self.median(name, 'whole'):.1f} | "
                  f"{self.frames / seconds:.1f} | "
                  f"{100 * self.median(name, 'driver') / seconds:.1f} % |")
        print(f"\n{self.overhead('1 worker', 1)}\n{self.overhead('2 workers', 2)}\n"
              "- Two workers are "
              f"{one / self.median('2 workers', 'seconds'):.2f} times as fast as one. The "
              f"cut allows {self.cut_allows(2):.2f}, because each segment looks back "
              f"{self.history} latents at the cost of {self.cost}.\n"
              f"- {killed}\n- The bytes were those of `vaetool` in all runs.\n")

    def simulated(self):
        """A call has 8 latents, and one worker has one segment."""
        latents = self.options.latents
        width, height = self.options.size
        kinds = {"F32 frames": (self.median(SENT, "seconds"), self.median(SENT, "driver"),
                                12 * width * height)}
        if self.video:
            kinds[".webm"] = (self.video["seconds"], self.video["driver"],
                              self.video["bytes"] / self.frames)
        for kind, (seconds, driver, frame) in kinds.items():
            call = driver / math.ceil(latents / cut.CHUNK)
            words = ["--step", f"{seconds / latents:.3f}", "--call", f"{call:.4f}",
                     "--history", str(self.history), "--cost", str(self.cost),
                     "--frame", f"{frame:.0f}"]
            print(f"A 2-hour clip of {width}x{height} as {kind}:\n\n```\n"
                  f"pipelines/cluster/simulate.py {' '.join(words)}\n```\n", flush=True)
            simulate.main(words)
            print()


def size(text):
    width, height = map(int, text.split("x"))
    return width, height


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="measure.py", description="Measures decode.py on a Ray cluster of two nodes on "
        "this machine, beside vaetool, and prints tables.")
    parser.add_argument("--latents", type=int, default=400, metavar="N",
                        help="latents of the clip; default: 400")
    parser.add_argument("--size", type=size, default=(208, 120), metavar="WxH",
                        help="size of its pictures; default: 208x120")
    parser.add_argument("--runs", type=int, default=3, metavar="N",
                        help="runs of each kind; default: 3")
    parser.add_argument("--kills", type=int, default=20, metavar="N",
                        help="workers and nodes to kill; default: 20")
    parser.add_argument("--model", default=clips.DEMO, metavar="WEIGHTS",
                        help="default: the demo model")
    options = parser.parse_args(arguments)
    nodes = Nodes(2)
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure = Measure(options, folder, nodes)
            rows = {"vaetool": [], "1 worker": [], "2 workers": [], SENT: []}
            for i in range(options.runs):
                rows["vaetool"].append(measure.vaetool())
                rows["1 worker"].append(measure.ray(1))
                rows["2 workers"].append(measure.ray(2))
                rows[SENT].append(measure.ray(1, sent=True))
                print(f"run {i + 1}: " + ", ".join(
                    f"{name} {found[-1]['seconds']:.1f} s" for name, found in
                    rows.items()), file=sys.stderr, flush=True)
            killed = measure.kills()
            report = Report(options, rows, measure.video())
            report.measured(killed)
            report.simulated()
    finally:
        nodes.close()


if __name__ == "__main__":
    main(sys.argv[3:])
