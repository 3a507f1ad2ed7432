#!/usr/bin/env python3
"""Estimates from measured times how decode.py scales, in seconds.

A worker takes segment after segment, and call after call of a segment, at most AHEAD of
them before the driver has the result of the first one. The results go over one link to the
driver, which handles them one after another. Lost workers are not part of it.

    simulate.py --step 0.4 --call 0.005 --latents 28800 --frame 600000
"""
import argparse
import collections
import heapq
import sys

import cut

AHEAD = 2


def calls_of(segment, options):
    """[(latents of work, latents whose frames are wanted)], as cut.chunks() for small
    frames."""
    before = min(options.history, segment.first)
    each = options.cost / max(1, options.history)
    parts = [(before, each, 0), (segment.end - segment.first, 1, 1)]
    return collections.deque(
        (min(cut.CHUNK, n - at) * work, min(cut.CHUNK, n - at) * wanted)
        for n, work, wanted in parts for at in range(0, n, cut.CHUNK))


class Worker:
    def __init__(self):
        self.calls = collections.deque()
        self.received = collections.deque([0.0] * AHEAD, maxlen=AHEAD)
        self.free = 0.0
        self.wanted = 0

    def begin_call(self, queue, options):
        """When the next call ends, or None if all is done."""
        if not self.calls:
            if not queue:
                return None
            self.calls = calls_of(queue.popleft(), options)
            self.free = self.received[-1]
        work, self.wanted = self.calls.popleft()
        self.free = max(self.free, self.received[0]) + work * options.step
        return self.free


def simulate(options, workers):
    """(segments, latents of work, seconds, seconds of the link, of the driver)"""
    n = cut.count_segments(options.latents, workers, options.cost)
    queue = collections.deque(cut.cut(options.latents, n, options.cost))
    all_workers = [Worker() for _ in range(workers)]
    ends = [(end, i) for i, w in enumerate(all_workers)
            if (end := w.begin_call(queue, options)) is not None]
    heapq.heapify(ends)
    link = driver = link_time = driver_time = 0.0
    while ends:
        now, i = heapq.heappop(ends)
        worker = all_workers[i]
        if worker.wanted:
            took = worker.wanted * options.rate * options.frame / options.link
            link_time += took
            link = now = max(link, now) + took
        driver_time += options.call
        driver = now = max(driver, now) + options.call
        worker.received.append(now)
        if (end := worker.begin_call(queue, options)) is not None:
            heapq.heappush(ends, (end, i))
    return n, options.latents + (n - 1) * options.cost, driver, link_time, driver_time


def main(arguments):
    parser = argparse.ArgumentParser(prog="simulate.py",
                                     description=__doc__.split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--step", type=float, required=True, metavar="S",
        help="seconds in which a worker decodes a latent, and encodes its frames")
    add("--call", type=float, default=0.0, metavar="S",
        help="seconds of the driver for each call of %d latents" % cut.CHUNK)
    add("--latents", type=int, default=28800, metavar="N",
        help="length of the clip; default: 28800, 2 hours at 16 fps")
    add("--history", type=int, default=37, metavar="N",
        help="latents that a segment looks back, as decode.py prints them; default: 37")
    add("--cost", type=int, metavar="N",
        help="latents that take as long as these, as decode.py prints them; default: "
        "--history, as on a GPU")
    add("--rate", type=int, default=4, metavar="N",
        help="frames of a latent; default: 4")
    add("--frame", type=float, required=True, metavar="BYTES",
        help="size of a frame on the link to the driver")
    add("--link", type=float, default=1.25e9, metavar="BYTES",
        help="bytes per second of this link; default: 1.25e9")
    add("--workers", default="1,8,64,512", metavar="LIST",
        help="numbers of workers; default: 1,8,64,512")
    options = parser.parse_args(arguments)
    if options.cost is None:
        options.cost = options.history
    if options.step <= 0 or options.link <= 0 or options.latents < 1:
        parser.error("--step, --link and --latents must be greater than 0")
    print("| workers | segments | efficiency of the cut | time | times as fast | link busy "
          "| driver busy |\n|---|---|---|---|---|---|---|")
    alone = options.latents * options.step
    for workers in map(int, options.workers.split(",")):
        n, computed, end, link, driver = simulate(options, workers)
        print(f"| {workers} | {n} | {100 * options.latents / computed:.0f} % | "
              f"{end / 60:.1f} min | {alone / end:.1f} | {100 * link / end:.1f} % | "
              f"{100 * driver / end:.1f} % |")


if __name__ == "__main__":
    main(sys.argv[1:])
