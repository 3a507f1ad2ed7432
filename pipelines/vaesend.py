#!/usr/bin/env python3
"""Sends latents from a running program to vaedecode.

    import vaesend

    with vaesend.Sender("tcp://render-box:5000", space="wan2.1") as sender:
        for latent in sampler:          # [C, h, w], or [C, T, h, w] for several
            sender.send(latent)         # waits while the receiver is busy

Start the receiver first:

    gst-launch-1.0 tcpserversrc host=0.0.0.0 port=5000 ! gdpdepay ! \\
        vaedecode model=Wan2.1_VAE.pth ! videoconvert ! videoscale ! \\
        clocksync ! autovideosink sync=false

Needs only Python's standard library, and latent_spaces.json beside it. Latents are arrays of numpy, objects with
its array interface, or tensors of PyTorch on any device, in float32, float16 or
bfloat16. They travel as buffers of GStreamer's data protocol, with caps and
timestamps, over TCP, a Unix socket, a pipe or a file.

As a command it sends a file of latents, by vaesend_file.py and vaesend_read.py.
"""
import collections
import ctypes
import difflib
import errno
import fractions
import json
import math
import os
import re
import select
import socket
import stat
import struct
import sys
import time

__all__ = ["Sender", "ReceiverGone", "ReceiverBusy", "Array"]

Space = collections.namedtuple("Space", "channels temporal fps chunk", defaults=(0,))


def known_spaces():
    """By name: the channels of a latent, its frames after the first latent, the
    usual frame rate, and after how many latents one is a single frame again (0:
    only after the start of a sequence). latent_spaces.json is what vaetool info
    --spaces --json prints; without it no space is known."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "latent_spaces.json")
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
    except FileNotFoundError:
        return {}
    return {row["name"]: Space(row["channels"], row["temporal"], row["framerate"],
                               row["chunk"]) for row in rows}


SPACES = known_spaces()


def nearest(space):
    """Says which known space a name may mean."""
    names = difflib.get_close_matches(space, SPACES, 1)
    return f" (the nearest is {names[0]})" if names else ""


NORMALIZATIONS = ["normalized", "raw", "comfyui"]
NAME = r"[\w.-]{1,63}"  # of a latent space
A_NAME = "a name of at most 63 letters, digits, and . - _"

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}

SECOND = 1000000000

UNIX_PATH = 107  # bytes of the path of a Unix socket
INT_MAX = 2**31 - 1  # of numbers in caps

# Constants of GStreamer's data protocol, version 1.0: kinds of packets (that of an
# event is its type plus 64), flags of buffers, and "not known".
CAPS = 2
BUFFER = 1
STREAM_START = 64 + (40 << 8 | 14)
SEGMENT = 64 + (70 << 8 | 14)
TAG = 64 + (80 << 8 | 30)
GROUP = 64 + (270 << 8 | 6) & 0xffff  # a custom event, cut as gdppay cuts it
EOS = 64 + (110 << 8 | 6)
DISCONT = 1 << 6
DELTA_UNIT = 1 << 13
NONE = 2**64 - 1


class ReceiverGone(ConnectionError):
    """The receiver has closed the connection, or cannot be reached."""


class ReceiverBusy(TimeoutError):
    """The receiver has taken nothing for `timeout` seconds."""


# A latent, or several: the name of the type, the dimensions, and the bytes in
# C order.
Array = collections.namedtuple("Array", "type shape data")


def packet_header(kind, length, pts=NONE, duration=NONE, offset=NONE, flags=0):
    """The 62 bytes in front of a packet's payload; no checksums."""
    after = offset + 1 if offset != NONE else NONE
    return struct.pack(">BBBBHIQQQQHQ10x", 1, 0, 0, 0, kind, length, pts,
                       duration, offset, after, flags, NONE)


def text_packet(kind, text):
    payload = text.encode() + b"\0"
    # Events have a time in this field, caps have none.
    return packet_header(kind, len(payload), 0 if kind == CAPS else NONE,
                         0, 0) + payload


def stream_start():
    name = os.urandom(16).hex()
    return text_packet(STREAM_START,
                       f"GstEventStreamStart, stream-id=(string){name}, "
                       "flags=(GstStreamFlags)GST_STREAM_FLAG_NONE, "
                       "group-id=(uint)1;")


def segment():
    return text_packet(SEGMENT,
                       'GstEventSegment, segment=(GstSegment)"segment, '
                       "flags=(GstSegmentFlags)GST_SEGMENT_FLAG_NONE, "
                       "rate=(double)1, applied-rate=(double)1, "
                       "format=(GstFormat)time, base=(guint64)0, "
                       "offset=(guint64)0, start=(guint64)0, "
                       f"stop=(guint64){NONE}, time=(guint64)0, "
                       f'position=(guint64)0, duration=(guint64){NONE};";')


def quoted(text):
    """A text as structures of GStreamer write it."""
    return '"' + "".join(
        chr(b) if re.match(r"[\w+/:.-]", chr(b), re.ASCII) else
        "\\" + (chr(b) if 32 <= b < 127 else f"{b:03o}")
        for b in text.encode()) + '"'


def tag_list(tags):
    text = quoted("taglist" + "".join(f", {k}={v}" for k, v in tags.items()) + ";")
    return text_packet(TAG, f"GstTagList-stream, taglist=(taglist){text};")


def group(frames, duration):
    """What GstVaeGroupMeta says of the next latent."""
    return text_packet(GROUP, f"GstVaeGroup, frames=(uint){frames}, "
                       f"duration=(guint64){duration};")


def known_type(name):
    if name not in SIZES:
        raise TypeError(f"the latents are {name}, expected float32, float16 or "
                        "bfloat16")
    return name


def from_tensor(tensor):
    """A tensor of PyTorch as an Array. Its memory is read without numpy, which
    has no bfloat16."""
    name = known_type(str(tensor.dtype).rpartition(".")[2])
    tensor = tensor.detach().cpu().contiguous()
    shape = tuple(int(n) for n in tensor.shape)
    size = math.prod(shape) * SIZES[name]
    # A copy: the tensor may be a view of what the caller writes next.
    data = ctypes.string_at(tensor.data_ptr(), size) if size else b""
    return Array(name, shape, data)


def from_array(array):
    """An object with numpy's array interface, as an Array."""
    facts = array.__array_interface__
    name = {"<f4": "float32", "<f2": "float16"}.get(facts["typestr"])
    if name is None:
        # numpy reports registered types, such as bfloat16, as "V2".
        name = getattr(getattr(array, "dtype", None), "name", facts["typestr"])
        if facts["typestr"][0] == ">":
            name += ", big endian"
    known_type(name)
    shape = tuple(facts["shape"])
    if hasattr(array, "tobytes"):
        return Array(name, shape, array.tobytes())
    if facts.get("strides") is not None or facts.get("data") is None:
        raise TypeError("the latents are not contiguous in memory")
    return Array(name, shape, ctypes.string_at(
        facts["data"][0], math.prod(shape) * SIZES[name]))


def as_array(latents):
    """The caller's latents as an Array."""
    if isinstance(latents, Array):
        return latents
    if hasattr(latents, "data_ptr") and hasattr(latents, "detach"):
        return from_tensor(latents)
    if hasattr(latents, "__array_interface__"):
        return from_array(latents)
    if hasattr(latents, "__array__"):
        return from_array(latents.__array__())
    raise TypeError(f"{type(latents).__name__} is no array: expected a tensor of "
                    "PyTorch or something with numpy's array interface")


# The shapes of arrays, by the layout of those with several latents.
SHAPES = {"cthw": "[C, h, w], [C, T, h, w] or [1, C, T, h, w]",
          "tchw": "[C, h, w], [T, C, h, w] or [1, T, C, h, w]"}


def axes_advice(shape, layout, channels):
    """What to do if another dimension than that of the layout has the channels, or ""."""
    batch = len(shape) == 5
    other = "cthw" if layout == "tchw" else "tchw"
    if len(shape) > 3 and shape[batch + other.index("c")] == channels:
        return (f"; the other dimension has {channels}: if these are the channels, set "
                f"layout=\"{other}\"")
    if shape[-1] == channels:
        to = f"[{'B, ' * batch}C, {'T, ' * (len(shape) > 3)}h, w]"
        return (f"; the last dimension has {channels}: if these are the channels, "
                f"permute the array to {to}, by moveaxis(x, -1, {int(batch)}) of numpy "
                "or torch")
    return ""


def split(array, layout):
    """The latents of an Array one after another: (shape, bytes)."""
    shape = array.shape
    if len(shape) == 5 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 3:
        shape = (shape[0], 1) + shape[1:]
        layout = "cthw"
    if len(shape) != 4 or 0 in shape:
        raise ValueError(f"latents of shape {list(array.shape)}: expected "
                         f"{SHAPES[layout]}")
    view = memoryview(array.data)
    if layout == "tchw":
        count, shape = shape[0], shape[1:]
    else:
        count, shape = shape[1], (shape[0],) + shape[2:]
    plane = shape[1] * shape[2] * SIZES[array.type]
    if view.nbytes != count * shape[0] * plane:
        raise ValueError(f"{view.nbytes} bytes are no {array.type} latents of "
                         f"shape {list(array.shape)}")
    for i in range(count):
        if layout == "tchw" or count == 1:
            size = shape[0] * plane
            yield shape, view[i * size:(i + 1) * size]
        else:
            yield shape, b"".join(view[(c * count + i) * plane:][:plane]
                                  for c in range(shape[0]))


def counted(n, word):
    return f"{n} {word}{'' if n == 1 else 's'}"


def whole(name, value, least=1, most=INT_MAX):
    """The number, which must be whole and within the bounds."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} {value!r}: expected a whole number")
    if not least <= value.__index__() <= most:
        raise ValueError(f"{name} {value}: expected {least} to {most}")
    return value.__index__()


def rate(fps):
    """A frame rate as a fraction, as in caps."""
    try:
        fraction = fractions.Fraction(fps).limit_denominator(1001)
    except (ValueError, TypeError, ArithmeticError):
        fraction = 0
    if fraction <= 0 or fraction.numerator > INT_MAX:
        raise ValueError(f"{fps!r} frames per second: expected a number above 0 "
                         "or a fraction such as 30000/1001")
    return fraction


def visible(size):
    """(width, height), or None if there is no size."""
    if size is None:
        return None
    try:
        width, height = size
    except (TypeError, ValueError):
        raise ValueError(f"size {size!r}: expected (width, height)") from None
    return whole("width", width), whole("height", height)


def seconds(name, value, least):
    """A finite time to wait."""
    if not isinstance(value, (int, float)) or not least <= value < 1e6:
        raise ValueError(f"{name} {value!r}: expected seconds, {least} or more")
    return value


class Link:
    """The target of the bytes: a socket, or a file with a descriptor."""

    def __init__(self, target, listen, retry, timeout, send_buffer):
        self.name = target if isinstance(target, str) else str(
            getattr(target, "name", target))
        self.socket = self.file = None
        if hasattr(target, "sendall"):
            self.socket = target
        elif hasattr(target, "fileno"):
            self.file = target
        elif "://" in target:
            self.socket = accept(target) if listen else connect(target, retry)
        else:
            # Opening a named pipe waits for its reader.
            self.file = open(target, "wb", buffering=0)
        if self.socket is not None:
            if send_buffer:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF,
                                       send_buffer)
            if self.socket.family != socket.AF_UNIX:
                self.socket.setsockopt(socket.IPPROTO_TCP,
                                       socket.TCP_NODELAY, 1)
            self.socket.settimeout(timeout)

    def write(self, data):
        if self.socket is not None:
            if self.closed_by_peer(0):
                raise ConnectionResetError
            self.socket.sendall(data)
            return
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self.file.fileno(), view):]

    def closed_by_peer(self, seconds):
        """A receiver sends nothing, so a readable socket is a closed one."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        readable = poll.poll(None if seconds is None else 1000 * seconds)
        return bool(readable) and not self.socket.recv(1)

    def finish(self):
        """Ends the sending; returns when the receiver has closed its end."""
        if self.socket is not None:
            self.socket.shutdown(socket.SHUT_WR)
            while not self.closed_by_peer(None):
                pass

    def close(self):
        (self.socket or self.file).close()


def addresses(target):
    """[(family, address)] of "tcp://HOST:PORT" or "unix://PATH"."""
    scheme, _, rest = target.partition("://")
    if scheme == "unix" and rest:
        if len(os.fsencode(rest)) > UNIX_PATH:
            raise ValueError(f"{target}: the path of a Unix socket has at most "
                             f"{UNIX_PATH} bytes, this one "
                             f"{len(os.fsencode(rest))}")
        return [(socket.AF_UNIX, rest)]
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not re.fullmatch("[0-9]+", port):
        raise ValueError(f"{target}: expected tcp://HOST:PORT, unix://PATH, or "
                         "the path of a pipe or file")
    if not 1 <= int(port[:6]) <= 65535:
        raise ValueError(f"{target}: port {port}, expected 1 to 65535")
    return [(facts[0], facts[4]) for facts in socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_STREAM)]


def connect(target, retry=0):
    """A socket connected to a receiver; tries for `retry` seconds."""
    until = time.monotonic() + retry
    while True:
        for family, where in addresses(target):
            link = socket.socket(family, socket.SOCK_STREAM)
            try:
                link.connect(where)
                return link
            except OSError as failure:
                link.close()
                error = failure
        absent = isinstance(error, (ConnectionRefusedError, FileNotFoundError))
        if not absent or time.monotonic() >= until:
            raise ReceiverGone(f"{target}: no receiver is reached there "
                               f"({error.strerror})") from error
        time.sleep(0.1)


def bound(where):
    """True if a process has bound that Unix socket. The receiver would take a
    connection for a sender, so this connects a socket of another kind, which the
    kernel refuses with another error than a socket that nobody has."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        return other.connect_ex(where) != errno.ECONNREFUSED


def remove_stale(where):
    """Removes a Unix socket that a killed receiver left behind."""
    if (os.path.exists(where) and stat.S_ISSOCK(os.stat(where).st_mode) and
            not bound(where)):
        os.unlink(where)


def bind(listener, where, target):
    if listener.family == socket.AF_UNIX:
        remove_stale(where)
    else:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(where)
    except OSError as error:
        raise OSError(error.errno, error.strerror, target) from error


def accept(target):
    """A socket from the first peer that connects. Removes the Unix socket that it made,
    also after Ctrl-C."""
    family, where = addresses(target)[0]
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        try:
            bind(listener, where, target)
            listener.listen(1)
            return listener.accept()[0]
        finally:
            if family == socket.AF_UNIX and listener.getsockname():
                os.unlink(where)


class Sender:
    """Sends latents of one stream. Use it from one thread at a time.

    target         "tcp://HOST:PORT", "unix://PATH", the path of a named pipe
                   or file, or an open socket or file
    space          latent space, such as "wan2.1"; a known space sets channels,
                   temporal and fps
    fps            of the decoded video: a number or "30000/1001"
    normalization  "normalized", as the diffusion model gives latents; "raw", as
                   the original VAE gives them; or "comfyui", which is the one
                   of both that ComfyUI saves for this space. None: not stated
    channels       of a latent
    temporal       frames of every latent after the first of a sequence
    size           visible (width, height) of the video, if less than the
                   latents' grid
    picture        what else the caps say of the video: a dict of fields, each
                   with its type, such as {"colorimetry": "(string)bt709"}
    layout         of arrays with several latents: "cthw" or "tchw"
    listen         waits for the receiver to connect, instead of connecting
    retry          seconds for which to try to connect
    timeout        seconds after which a receiver that takes nothing raises
                   ReceiverBusy; None: send() waits, which is the back-pressure
    send_buffer    bytes that the kernel may hold; None: the system's default

    Raises ReceiverGone if it reaches no receiver.
    """

    def __init__(self, target, space=None, *, fps=None,
                 normalization="normalized", channels=None, temporal=None,
                 size=None, picture=None, tags=None, layout="cthw", listen=False, retry=0,
                 timeout=None, send_buffer=None):
        usual = SPACES.get(space, Space(None, None, None))
        if space is not None and not re.fullmatch(NAME, space):
            raise ValueError(f"latent space {space!r}: expected {A_NAME}{nearest(space)}")
        self.space = space
        self.channels = usual.channels if channels is None else channels
        self.temporal = usual.temporal if temporal is None else temporal
        self.fps_assumed = fps is None
        fps = usual.fps if fps is None else fps
        if self.temporal is None or fps is None:
            known = ("no latent space is stated: expected space, or"
                     if space is None else
                     f"the latent space {space!r} is not known here{nearest(space)}: "
                     "expected"
                     if SPACES else "latent_spaces.json, which knows the latent "
                     "spaces, is not beside vaesend.py: expected it, or")
            raise ValueError(known + " temporal and fps")
        self.temporal = whole("temporal", self.temporal, 1, 64)
        if self.channels is not None:
            self.channels = whole("channels", self.channels, 1, 4096)
        for name in ("channels", "temporal"):
            if getattr(usual, name) not in (None, getattr(self, name)):
                raise ValueError(f"{name} {getattr(self, name)}: expected "
                                 f"{getattr(usual, name)}, as of the latent space "
                                 f"{space!r}")
        self.fps = rate(fps)
        seconds("retry", retry, 0)
        if timeout is not None:
            seconds("timeout", timeout, 0.001)
        if send_buffer is not None:
            whole("send_buffer", send_buffer)
        if normalization not in (None, *NORMALIZATIONS):
            raise ValueError(f"normalization {normalization!r}: expected "
                             "normalized, raw or comfyui")
        if layout not in ("cthw", "tchw"):
            raise ValueError(f"layout {layout!r}: expected cthw or tchw, also of "
                             "arrays with a batch of 1 in front")
        self.normalization = normalization
        self.size = visible(size)
        self.picture = dict(picture or {})
        self.tags = dict(tags or {})
        self.layout = layout
        self.layout_guessed = False  # for the caps
        self.shape = self.type = None
        self.latents = 0  # sent
        self.frame = 0  # at which the next latent begins
        self.starts = True
        self.chunk = usual.chunk
        self.begun = 0  # latents of the sequence
        self.broken = None
        self.timeout = timeout
        self.link = Link(target, listen, retry, timeout, send_buffer)

    def send(self, latents, frames=None, time=None):
        """Sends one latent, or several, in order; waits for the receiver.

        latents  [C, h, w]; [C, T, h, w] or [1, C, T, h, w] for T of them
        frames   number of frames to show of the last latent, for a clip that
                 ends in the middle of a group
        time     start and duration, in nanoseconds, of the frames of the last
                 latent; None: by the frame rate

        Raises TypeError or ValueError, and sends nothing, if type or shape
        differ from those of earlier latents. Raises ReceiverGone, ReceiverBusy
        or, for a file, OSError. These end the stream: every later send() raises
        them again.
        """
        if self.broken:
            raise self.broken
        array = as_array(latents)
        parts = list(split(array, self.layout))
        self.check(array, parts[0][0])
        if frames is not None and not 1 <= frames <= self.temporal:
            raise ValueError(f"frames={frames}: expected 1 to {self.temporal}")
        if self.shape is None:
            self.shape, self.type = parts[0][0], array.type
            self.write(stream_start() + text_packet(CAPS, self.caps()) +
                       segment() + (tag_list(self.tags) if self.tags else b""))
        for _, data in parts[:-1]:
            self.send_one(data)
        self.send_one(parts[-1][1], frames, time)

    def restart(self):
        """Starts a new sequence: the next latent has no context and gives one
        frame, as the first one does."""
        self.starts = True

    def close(self, wait=False):
        """Ends the stream. wait: waits until the receiver has closed its end,
        as a pipeline does after its last frame."""
        if self.link is None:
            return
        try:
            if self.broken is None and self.shape is not None:
                self.write(packet_header(EOS, 0, NONE, 0, 0))
                if wait:
                    self.guard(self.link.finish)
        finally:
            self.link.close()
            self.link = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and self.broken is None:
            self.broken = ReceiverGone("the sender was closed by an error")
        self.close()

    def check(self, array, shape):
        """array: the caller's; shape: that of one of its latents."""
        if self.channels and shape[0] != self.channels:
            raise ValueError(f"latents of shape {list(array.shape)} have "
                             f"{shape[0]} channels, those of "
                             f"{self.space or 'this stream'} {self.channels}: "
                             f"expected {SHAPES[self.layout]}" +
                             axes_advice(array.shape, self.layout, self.channels))
        if self.shape is not None and (array.type, shape) != (self.type,
                                                              self.shape):
            raise ValueError(f"{array.type} latents of shape {list(shape)}: "
                             f"those before are {self.type}, "
                             f"{list(self.shape)}")
        if math.prod(shape) * SIZES[array.type] >= 2**32:
            raise ValueError(f"latents of shape {list(shape)}: one has 4 GiB "
                             "or more")

    def caps(self):
        channels, height, width = self.shape
        text = (f"video/x-vae-latent, type=(string){self.type}, "
                "layout=(string)chw, frames=(int)1, "
                f"channels=(int){channels}, latent-width=(int){width}, "
                f"latent-height=(int){height}, "
                f"temporal-factor=(int){self.temporal}, first-frames=(int)1, "
                f"framerate=(fraction){self.fps.numerator}/"
                f"{self.fps.denominator}")
        if self.fps_assumed:
            text += ", framerate-assumed=(boolean)true"
        if self.layout_guessed:
            text += ", layout-guessed=(boolean)true"
        if self.normalization:
            text += f", normalization=(string){self.normalization}"
        if self.size:
            text += f", width=(int){self.size[0]}, height=(int){self.size[1]}"
        if self.space:
            text += f", latent-space=(string)\"{self.space}\""
        return text + "".join(f", {k}={v}" for k, v in self.picture.items())

    def time_of(self, frame):
        return frame * SECOND * self.fps.denominator // self.fps.numerator

    def frames_at(self, k):
        """Frames of latent k of a sequence."""
        alone = k % self.chunk == 0 if self.chunk else k == 0
        return 1 if alone else self.temporal

    def send_one(self, data, frames=None, time=None):
        self.begun = 0 if self.starts else self.begun
        count = self.frames_at(self.begun)
        count = min(count, frames or count)
        start = self.time_of(self.frame)
        pts, duration = time or (start, self.time_of(self.frame + count) - start)
        flags = 0 if self.starts else DELTA_UNIT
        if self.latents == 0:
            flags |= DISCONT
        header = packet_header(BUFFER, memoryview(data).nbytes, pts, duration,
                               self.latents, flags)
        self.write(b"".join((group(count, duration) if time else b"", header, data)))
        self.starts = False
        self.begun += 1
        self.frame += count
        self.latents += 1

    def write(self, data):
        self.guard(self.link.write, data)

    def guard(self, function, *args):
        """Calls the function. An error becomes a message and ends the stream,
        which may have stopped in the middle of a packet."""
        sent = f"{self.link.name}: after {counted(self.latents, 'latent')}"
        try:
            function(*args)
            return
        except ConnectionError as error:
            self.broken = ReceiverGone(f"{sent} the receiver has closed the "
                                       "connection")
            self.broken.__cause__ = error
        except socket.timeout as error:
            self.broken = ReceiverBusy(f"{sent} the receiver takes nothing "
                                       f"for {self.timeout} s")
            self.broken.__cause__ = error
        except OSError as error:
            self.broken = OSError(error.errno,
                                  f"{sent}: {error.strerror or error}")
            self.broken.__cause__ = error
        except BaseException: # such as Ctrl-C
            self.broken = ReceiverGone(f"{sent} the sender was interrupted")
            raise
        raise self.broken


if __name__ == "__main__":
    try:
        from vaesend_file import main
    except ImportError:
        sys.exit("vaesend: vaesend_file.py and vaesend_read.py, which read files, must "
                 "be beside vaesend.py")
    sys.exit(main(sys.argv[1:]))
