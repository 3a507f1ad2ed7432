"""The output: a file that is written in any order, with a journal of what is there, and a
video that is joined from it."""
import contextlib
import errno
import fcntl
import json
import os
import threading

import frames
import video
import worker
from cut import Segment
from streams import DECODE, Error


def check_names(out, inputs, model):
    """Refuses an output if it, or a file that is written beside it, is read, or if its
    folder does not exist."""
    folder = os.path.dirname(out) or "."
    if not os.path.isdir(folder):
        raise Error(f"{out}: there is no folder {folder}")
    for path in (out, out + ".part", out + ".journal", out + frames.SPOOL):
        if not os.path.exists(path):
            continue
        if any(os.path.exists(one) and os.path.samefile(one, path) for one in inputs):
            raise Error(f"{path}: is the input; write to another file")
        model.model.check_output(path)


def replace(path, data):
    """Writes a file, or leaves the one that is there."""
    try:
        with open(path + ".tmp", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ".tmp")
        raise


class Output:
    """OUT.part, which is written in any order, and OUT.journal, which says what of it is
    there. description: what must be the same to continue."""

    def __init__(self, path, source, description, resume=False, alone=False):
        """alone: of a driver; another process must not write it at the same time."""
        self.cure = "continue with --resume" if alone else "the same command goes on"
        self.path, self.source = path, source
        self.part, self.journal = path + ".part", path + ".journal"
        self.head = json.dumps(description, sort_keys=True)
        self.done = []     # [first, end) of latents, merged and sorted
        self.pending = []  # written, not yet in the journal
        known = resume and os.path.exists(self.journal)
        if known:
            self.read_journal(description)
        self.file = self.open_part(alone)
        if alone and not known:
            # Workers of a driver that was killed may still write the old file.
            os.unlink(self.part)
            os.close(self.file)
            self.file = self.open_part(alone)
        try:
            if not known:
                os.truncate(self.file, 0)
            self.write_journal()
        except BaseException:
            os.close(self.file)
            raise
        self.pwrite(source.header, 0)

    def open_part(self, alone):
        file = os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666)
        if alone and not self.lock(file):
            os.close(file)
            raise Error(f"{self.part}: another process is writing it")
        return file

    def lock(self, file):
        """False if another process has locked the file, or replaced it meanwhile."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Others than this one: the file system has no locks.
            if error.errno == errno.EWOULDBLOCK:
                return False
        return (os.path.exists(self.part) and
                os.path.samestat(os.fstat(file), os.stat(self.part)))

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
        for values in ranges:
            self.add(*values)

    def write_journal(self):
        lines = [self.head + "\n", *map(line_of, self.entries())]
        try:
            replace(self.journal, "".join(lines).encode())
        except OSError as error:
            raise self.unwritten(self.journal, error) from None
        self.log = open(self.journal, "a", encoding="utf-8")

    def pwrite(self, data, offset):
        data = memoryview(data)
        while data:
            try:
                n = os.pwrite(self.file, data, offset)
            except OSError as error:
                raise self.unwritten(self.part, error) from None
            data, offset = data[n:], offset + n

    def entries(self):
        """The ranges in the journal."""
        return self.done

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
        try:
            if pending:
                os.fdatasync(self.file)
                self.log.writelines(map(line_of, pending))
                self.log.flush()
        except OSError as error:
            raise self.unwritten(self.journal, error) from None

    def unwritten(self, path, error):
        return Error(f"{path}: cannot write: {error.strerror}; what is done is kept, "
                     f"{self.cure}")

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
        """The length that is written, in units(latents)."""
        return sum(units(b) - units(a) for a, b in self.done)

    def commit(self):
        os.fsync(self.file)
        os.rename(self.part, self.path)
        os.unlink(self.journal)
        self.close()

    def close(self):
        os.close(self.file)
        with contextlib.suppress(OSError):
            self.log.close()


def line_of(values):
    return " ".join(map(str, values)) + "\n"


class Runs(Output):
    """OUT.part of a video: the encoded pictures of runs of latents, in the order in which
    they came. The journal says where each run is."""

    def __init__(self, *arguments, **more):
        self.places = {}  # first latent: (end, offset, bytes)
        super().__init__(*arguments, **more)

    def entries(self):
        return [(first, *place) for first, place in sorted(self.places.items())]

    def add(self, first, end, offset, size):
        self.places[first] = (end, offset, size)
        super().add(first, end)

    def write(self, first, end, data):
        offset = max((o + n for _, o, n in self.places.values()), default=0)
        self.pwrite(data, offset)
        self.add(first, end, offset, len(data))
        self.pending.append((first, *self.places[first]))

    def commit(self):
        video.join(((self.source.units(first), os.pread(self.file, size, offset))
                    for first, _, offset, size in self.entries()),
                   self.source.rate, self.path)
        os.unlink(self.part)
        os.unlink(self.journal)
        self.close()


class Clip:
    """A source, its output, and how far it is."""

    def __init__(self, source, out):
        self.source, self.out = source, out
        self.written = 0  # frames
        self.output = None
        self.lock = threading.Lock()

    def open(self, description, resume):
        if self.source.video and (name := video.missing(self.source.video, muxer=True)):
            raise Error(f"{self.out}: the driver lacks {name}")
        kind = Runs if self.source.video else Output
        self.output = kind(self.out, self.source, description, resume, alone=True)
        self.resumed = self.written = self.output.count(self.source.units)

    def shared(self):
        """The output, which workers on this machine write themselves, or None."""
        if not self.output or self.source.video or self.source.direction != DECODE:
            return None
        return {"path": os.path.abspath(self.output.part),
                "file": worker.identify(self.output.file)}

    def offset(self, latent):
        """The offset of its frames in the output."""
        return len(self.source.header) + self.source.units(latent) * self.source.frame

    def complete(self):
        return self.output and self.output.done == [(0, self.source.latents)]

    def finish(self):
        """Gives the output its name."""
        self.output.flush()
        self.output.commit()
        self.output = None

    def stop(self):
        if self.output:
            with contextlib.suppress(Error):
                self.output.flush()
            self.output.close()
