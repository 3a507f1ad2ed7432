"""Measures decode.py on a Ray cluster of two nodes on this machine, workers of one thread.

    sh tests/cluster/ray.sh . build build/tests/cluster/ray measure.py [OPTION...]

Decodes one clip by vaetool, with one worker and with two, in turns, compares all bytes,
and then kills workers and nodes during a run. Prints a table of medians. Use an idle
machine with at least two cores. Options:
    --latents 400   --size 208x120  --runs 3   --kills 20
    --model WEIGHTS (default: the demo model)
"""
import argparse
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

import libvae

DRIVER = re.compile(r"(\d+) frames in ([\d.]+) s.*the driver used ([\d.]+) s")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = re.findall(r"model name\s*: (.*)", file.read())
    return (f"{names[0] if names else platform.machine()}, "
            f"{len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")


class Measure:
    def __init__(self, options, folder, nodes):
        self.options, self.nodes = options, nodes
        self.clip, self.whole, self.out = (
            os.path.join(folder, name) for name in
            ("clip.safetensors", "whole.safetensors", "out.safetensors"))
        clips.make_clip(self.clip, options.latents, options.size[1] // 8,
                        options.size[0] // 8)

    def vaetool(self):
        begin = time.monotonic()
        clips.vaetool("decode", "--threads", "1", "--model", self.options.model,
                      self.clip, self.whole)
        seconds = time.monotonic() - begin
        return {"seconds": seconds, "whole": seconds, "driver": 0}

    def ended(self, process):
        said = process.communicate()[1]
        if process.returncode:
            sys.exit(said)
        if clips.read(self.out) != clips.read(self.whole):
            sys.exit(f"the frames differ from those of vaetool; decode.py said: {said}")
        os.unlink(self.out)
        _, seconds, used = DRIVER.search(said).groups()
        return {"seconds": float(seconds), "driver": float(used)}

    def start(self, workers):
        return self.nodes.start("--workers", str(workers), "--model", self.options.model,
                                self.clip, "--to", self.out)

    def ray(self, workers):
        begin = time.monotonic()
        found = self.ended(self.start(workers))
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
        print(f"{done[0]} workers and {done[1]} nodes killed in {runs} runs of "
              f"{seconds / max(1, runs):.1f} s: bytes identical")


def report(options, rows):
    """rows: {name: [run]}"""
    def median(name, key):
        return statistics.median(run[key] for run in rows[name])

    latents = options.latents
    model = libvae.Model(options.model)
    history = model.history(libvae.DECODE)
    frames = model.frames_of(latents)
    print(f"{latents} latents of {options.size[0]}x{options.size[1]}, {frames} frames, "
          f"looks back {history} latents; medians of {options.runs} runs\n{machine()}\n"
          "| | seconds | with start-up | frames per second | CPU time of the driver |\n"
          "|---|---|---|---|---|")
    for name in rows:
        seconds = median(name, "seconds")
        print(f"| {name} | {seconds:.1f} | {median(name, 'whole'):.1f} | "
              f"{frames / seconds:.1f} | {100 * median(name, 'driver') / seconds:.1f} % |")
    one = median("1 worker", "seconds")
    print(f"two workers are {one / median('2 workers', 'seconds'):.2f} times as fast as "
          f"one; the cut allows {2 * latents / (latents + history):.2f}\n"
          "one worker takes "
          f"{100 * (one / median('vaetool', 'seconds') - 1):.1f} % more than vaetool")


def size(text):
    width, height = map(int, text.split("x"))
    return width, height


def main(arguments):
    parser = argparse.ArgumentParser(prog="measure.py")
    parser.add_argument("--latents", type=int, default=400)
    parser.add_argument("--size", type=size, default=(208, 120))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--model", default=clips.DEMO)
    options = parser.parse_args(arguments)
    nodes = Nodes(2)
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure = Measure(options, folder, nodes)
            rows = {"vaetool": [], "1 worker": [], "2 workers": []}
            for _ in range(options.runs):
                rows["vaetool"].append(measure.vaetool())
                rows["1 worker"].append(measure.ray(1))
                rows["2 workers"].append(measure.ray(2))
            report(options, rows)
            measure.kills()
    finally:
        nodes.close()


if __name__ == "__main__":
    main(sys.argv[3:])
