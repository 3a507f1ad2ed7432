"""The progress of a driver."""
import sys
import time

from streams import counted


class Bar:
    """A line on a terminal, and one line at the end."""
    WIDTH = 24

    def __init__(self, driver):
        self.driver = driver
        self.total = sum(c.source.frames for c in driver.clips)
        self.resumed = sum(c.resumed for c in driver.clips)
        self.terminal = sys.stderr.isatty()

    def rate(self):
        done = sum(c.written for c in self.driver.clips)
        spent = time.monotonic() - self.driver.started
        return done, spent, (done - self.resumed) / max(spent, 1e-3)

    def show(self):
        if not self.terminal:
            return
        done, _, fps = self.rate()
        left = f"{(self.total - done) / fps:.0f} s left" if fps > 0 else "starting"
        filled = self.WIDTH * done // self.total
        print(f"\r[{'#' * filled}{'.' * (self.WIDTH - filled)}] {done}/{self.total} "
              f"frames, {counted(self.driver.alive, 'worker')}, {fps:.2f} fps, "
              f"{left}\033[K", end="", file=sys.stderr, flush=True)

    def end(self):
        _, spent, fps = self.rate()
        d = self.driver
        print(("\n" if self.terminal else "") +
              f"{d.options.prog}: {counted(self.total, 'frame')} in {spent:.1f} s, "
              f"{fps:.2f} fps; {counted(d.lost, 'worker')} lost, {d.handed} of them "
              f"handed over; the driver used {time.process_time() - d.used:.2f} s of a CPU",
              file=sys.stderr)
