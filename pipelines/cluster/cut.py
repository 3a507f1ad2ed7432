"""Cuts a clip into segments. engine/tool/segments.c cuts in the same way."""
import heapq
import math
from dataclasses import dataclass

ROUNDS_MAX = 8
CHUNK = 8  # latents of one call of a worker, at most
CHUNK_BYTES = 64 << 20
ENCODED_BYTES = 512 << 20  # of frames that the worker encodes


@dataclass(frozen=True)
class Segment:
    first: int  # latent
    end: int


def count_segments(latents, workers, cost):
    """Returns the number of segments. With more segments than workers, less time is lost
    if one fails, and workers of different speed end at the same time. They may cost 3 %
    more. cost: the number of latents that take as long as those that the network looks
    back to."""
    def work(n):
        return latents + (n - 1) * cost

    most = (latents - cost) // max(1, (cost + 1) // 2)
    n = min(workers, most)
    if n < 2:
        return 1
    rounds = 1
    while (rounds < ROUNDS_MAX and n * (rounds + 1) <= most and
           100 * work(n * (rounds + 1)) <= 103 * work(n)):
        rounds += 1
    return n * rounds


def cut(latents, n, cost):
    """Returns n segments of equal work. The first one has no latents to discard, so it is
    longer."""
    n = max(1, min(n, latents - cost))
    shared = latents - cost if n > 1 else latents
    before = latents - shared
    return [Segment(0 if i == 0 else before + shared * i // n,
                    before + shared * (i + 1) // n) for i in range(n)]


def cut_clips(lengths, workers, cost):
    """Returns a list of segments for each clip. The clips share the workers by their
    lengths. A share is rounded down or up, so that all workers end as early as possible.
    """
    def cut_all(rounded):
        shares = (max(1, rounded(workers * n / max(1, sum(lengths)))) for n in lengths)
        return [cut(n, count_segments(n, share, cost), cost)
                for n, share in zip(lengths, shares)]

    def ends(found):
        busy = [0] * workers
        for s in (s for segments in found for s in segments):
            heapq.heapreplace(busy, busy[0] + s.end - s.first + (cost if s.first else 0))
        return max(busy)

    return min(map(cut_all, (math.floor, math.ceil)), key=ends)


def chunks(source, segment, history, begun=False):
    """Yields (first, end, wanted) for the calls of a segment. begun: a checkpoint has the
    context. The results of a call are all wanted, or none."""
    most = ENCODED_BYTES if source.video else CHUNK_BYTES
    size = max(1, min(CHUNK, most // max(1, source.frame * source.model.info.temporal)))
    start = segment.first if begun else max(0, segment.first - history)
    at = start
    while at < segment.end:
        wanted = at >= segment.first
        end = min(at + size, segment.end if wanted else segment.first)
        yield at, end, wanted
        at = end
