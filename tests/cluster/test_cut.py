"""How a clip is cut into segments, here and by vaetool."""
import subprocess
import sys
import types

import clips
from clips import TINY, TOOL

import cut
import simulate
import sources
from worker import Worker


class Cut(clips.Clips):
    LATENTS = 200

    def test_covers_with_equal_work(self):
        for latents in (1, 8, 9, 30, 400, 28800):
            for history in (0, 8, 38):
                for workers in (1, 2, 3, 8, 512):
                    n = cut.count_segments(latents, workers, history)
                    found = cut.cut(latents, n, history)
                    self.assertEqual(len(found), n)
                    self.assertEqual([s.first for s in found] + [latents],
                                     [0] + [s.end for s in found])
                    work = [s.end - max(0, s.first - history) for s in found]
                    self.assertLessEqual(max(work) - min(work), 1)

    def test_rounds(self):
        self.assertEqual(cut.count_segments(400, 2, 38), 2)
        self.assertEqual(cut.count_segments(400, 2, 5), 4)
        self.assertEqual(cut.count_segments(28800, 8, 38), 24)
        self.assertEqual(cut.count_segments(28800, 512, 38), 512)
        self.assertEqual(cut.count_segments(40, 2, 38), 1)

    def test_clips_share_the_workers(self):
        def ends(found, workers, cost):
            busy = [0] * workers
            for s in (s for segments in found for s in segments):
                busy.sort()
                busy[0] += s.end - s.first + (cost if s.first else 0)
            return max(busy)

        for lengths, workers, cost, most in (
                ([90, 33], 2, 8, 86), ([33, 90], 2, 8, 82), ([100], 2, 8, 54),
                ([50] * 10, 2, 8, 250), ([100] * 3, 4, 38, 100), ([1, 400], 8, 8, 65)):
            found = cut.cut_clips(lengths, workers, cost)
            self.assertEqual([s[-1].end for s in found], lengths)
            self.assertLessEqual(ends(found, workers, cost), most, (lengths, found))

    def test_simulation(self):
        def run(workers, **more):
            options = types.SimpleNamespace(**{
                "latents": 400, "history": 38, "cost": 38, "step": 1.0, "call": 0.0, "rate": 4,
                "frame": 0, "link": 1.0, **more})
            return simulate.simulate(options, workers)

        self.assertEqual(run(1), (1, 400, 400.0, 0.0, 0.0))
        self.assertEqual(run(2), (2, 438, 219.0, 0.0, 0.0))
        # A look back that costs less still takes as many calls of the driver.
        n, computed, seconds, _, _ = run(2, cost=8)
        self.assertEqual((n, computed), (2, 408))
        self.assertAlmostEqual(seconds, 204.0)
        self.assertEqual(run(4, cost=8, call=1.0)[4], 68.0)
        # The link, then the driver, is slower than two workers.
        n, _, seconds, link, _ = run(2, frame=0.5)
        self.assertEqual((n, link), (2, 800.0))
        self.assertTrue(800 < seconds < 900, seconds)
        _, _, seconds, _, driver = run(2, call=20.0)
        self.assertTrue(driver <= seconds < driver + 30, (driver, seconds))

    def test_is_that_of_vaetool(self):
        worker = Worker(TINY, {"threads": 1})
        cost = worker.open(sources.Decoding(worker.model, self.clip,
                                            "out.safetensors").job())["cost"]
        self.assertEqual(cost, 2)
        for workers in (2, 3):
            said = subprocess.run(
                [TOOL, "decode", "--verbose", "--threads", "1", "--devices",
                 ",".join(["cpu"] * workers), "--model", TINY, self.clip,
                 self.path("a.safetensors")], check=True, capture_output=True,
                text=True).stderr
            n = cut.count_segments(self.LATENTS, workers, cost)
            for i, s in enumerate(cut.cut(self.LATENTS, n, cost)):
                self.assertIn(f"segment {i}: latents {s.first} to {s.end - 1}, from "
                              f"{max(0, s.first - 8)} on\n", said)


if __name__ == "__main__":
    clips.unittest.main(argv=sys.argv[:1] + sys.argv[3:])
