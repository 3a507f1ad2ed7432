"""The output: a file that is written in any order, with a journal of what is there, and a
video that is encoded from it meanwhile."""
import json
import os
import subprocess
import threading

import libvae
from cut import Segment
from libvae import Error


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


class Encoder(threading.Thread):
    """Sends the frames of OUT.part, as they become complete, to one pipeline that makes
    a video."""
    ENDS = {".mp4": "x264enc ! h264parse ! mp4mux",
            ".webm": "vp8enc deadline=1 cpu-used=4 target-bitrate=4000000 ! webmmux"}

    def __init__(self, clip):
        super().__init__(daemon=True)
        self.clip, self.error = clip, None
        self.out = clip.out
        self.video = f"{self.out}.video{os.getpid()}"
        source = clip.source
        matrix = "bt601" if source.height < 720 else "bt709"
        end = self.ENDS[os.path.splitext(self.out)[1]]
        words = (f"fdsrc ! rawvideoparse format=i420 width={source.width} "
                 f"height={source.height} framerate={source.rate[0]}/{source.rate[1]} "
                 f"colorimetry={matrix} ! queue ! videoconvert ! {end} ! filesink").split()
        try:
            self.process = subprocess.Popen(
                ["gst-launch-1.0", "-q", *words, f"location={self.video}"],
                stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        except FileNotFoundError:
            raise Error("gst-launch-1.0 is missing: install gstreamer1.0-tools") from None
        self.start()

    def run(self):
        source, sent = self.clip.source, 0
        try:
            while sent < source.frames:
                ready = self.clip.wait_for_frames(sent)
                while sent < ready:
                    n = min(8, ready - sent)
                    self.process.stdin.write(os.pread(
                        self.clip.output.file, n * source.frame, sent * source.frame))
                    sent += n
            self.process.stdin.close()
        except (OSError, ValueError) as error:
            self.error = error

    def finish(self):
        """Waits for the video, and gives it its name."""
        self.join()
        said = self.process.stderr.read().decode(errors="replace").strip()
        if self.process.wait() != 0 or self.error or not os.path.exists(self.video):
            line = (said.splitlines() or [str(self.error)])[0]
            raise Error(f"{self.out}: the video was not written: {line}; the frames are "
                        "kept, continue with --resume")
        os.rename(self.video, self.out)

    def stop(self):
        self.process.kill()
        self.process.wait()
        if os.path.exists(self.video):
            os.unlink(self.video)


class Clip:
    """A source, its output, and how far it is."""

    def __init__(self, source, out):
        self.source, self.out = source, out
        self.written = 0  # frames
        self.output = self.encoder = None
        self.ready = threading.Condition()
        self.stopped = False

    def open(self, description, resume):
        self.output = Output(self.out, self.source, description, resume)
        self.resumed = self.written = self.output.count(self.source.units)
        if self.source.direction == libvae.DECODE and self.source.pixels == libvae.I420:
            self.encoder = Encoder(self)

    def wait_for_frames(self, sent):
        """Frames from the start that are written, more than `sent`."""
        with self.ready:
            while not self.stopped:
                found = self.source.units(self.output.contiguous())
                if found > sent:
                    return found
                self.ready.wait()
        raise OSError("the driver ended")

    def finish(self):
        """Gives the output its name."""
        self.output.flush()
        if not self.encoder:
            self.output.commit()
            self.output = None
            return
        self.encoder.finish()
        self.encoder = None
        self.output.close()
        os.unlink(self.output.part)
        os.unlink(self.output.journal)
        self.output = None

    def stop(self):
        with self.ready:
            self.stopped = True
            self.ready.notify_all()
        if self.encoder:
            self.encoder.stop()
        if self.output:
            self.output.close()
