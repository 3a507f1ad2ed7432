"""stream(): video leaves through a pipeline of GStreamer, while later latents do not
exist yet."""
from __future__ import annotations

import itertools
import os
import queue
import warnings
from typing import Any

from . import _engine
from ._engine import Error, OutOfMemory
from .decoding import clips_of
from .frameworks import dims, fail, to_host, view
from .latents import is_path, rate_of
from .reports import GstVaeWarning, callers_level
from .vae import VAE, open_vae

SECOND = 10**9
# The encoders by codec, the preferred one first. They add no delay.
ENCODERS = (
    ("h264", "x264enc", "tune=zerolatency speed-preset=veryfast pass=qual quantizer=20 "
                        "key-int-max=48"),
    ("h264", "openh264enc", "complexity=low bitrate=8000000 gop-size=48 ! h264parse"),
    ("vp8", "vp8enc", "deadline=1 cpu-used=-4 end-usage=cq cq-level=16 "
                      "target-bitrate=20000000 keyframe-max-dist=48"),
    ("vp9", "vp9enc", "deadline=1 cpu-used=8 end-usage=cq cq-level=16 row-mt=true "
                      "target-bitrate=20000000 keyframe-max-dist=48"))
# What takes the video of which codecs, the preferred one first. A file of mp4mux plays
# also if nothing ends it.
TARGETS = {
    "mp4": (("h264",), "mp4mux fragment-duration=1000 "
                       "fragment-mode=first-moov-then-finalise"),
    "mkv": (("h264", "vp8", "vp9"), "matroskamux"),
    "webm": (("vp8", "vp9"), "webmmux"),
    "rtsp": (("h264", "vp8"), "clocksync ! rtspclientsink name=to location={}"),
    "rtsps": (("h264", "vp8"), "clocksync ! rtspclientsink name=to location={}"),
    "whip+http": ((), "clocksync ! whipclientsink name=to signaller::whip-endpoint={}"),
    "whip+https": ((), "clocksync ! whipclientsink name=to signaller::whip-endpoint={}")}
# As above for an object with write(), in pieces that are as short as possible.
CHUNKS = {"mp4": "mp4mux fragment-duration=1 streamable=true",
          "mkv": "matroskamux streamable=true", "webm": "webmmux streamable=true"}
# Packages other than gstreamer1.0-plugins-good.
PACKAGES = {"x264enc": "Debian's gstreamer1.0-plugins-ugly",
            "openh264enc": "Debian's gstreamer1.0-plugins-bad",
            "h264parse": "Debian's gstreamer1.0-plugins-bad",
            "rtspclientsink": "Debian's gstreamer1.0-rtsp",
            "whipclientsink": "gst-plugins-rs"}
EXPECTED = ("a path that ends with .mp4, .mkv or .webm, an address that begins with "
            "rtsp:// or whip+https://, elements such as \"autovideosink\", or an object "
            "with write()")


class PipelineError(Error):
    """GStreamer or a part of it is missing, or an element failed. element: the name of
    the element, or ""."""
    element = ""


def refuse(message, found="", expected="", element="", kind=PipelineError):
    error = kind(message)
    error.status, error.tensor, error.element = "pipeline", "", element
    error.found, error.expected = found, expected
    return error


def load():
    """GStreamer, for this process."""
    try:
        import gi
        gi.require_version("Gst", "1.0")
        from gi.repository import Gst
    except (ImportError, ValueError) as error:
        raise refuse(
            f"stream() needs GStreamer and PyGObject in this Python ({error}): install "
            "Debian's python3-gi, gir1.2-gstreamer-1.0 and gstreamer1.0-plugins-good, "
            "and make a virtual environment with --system-site-packages",
            str(error)) from None
    Gst.init(None)
    return Gst


def quoted(text):
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def aligned(data, row):
    """A picture whose rows begin at multiples of 4 bytes, as GStreamer expects."""
    rows = range(0, len(data), row) if row % 4 else ()
    return b"".join(data[at:at + row] + bytes(-row % 4) for at in rows) or data


class Job:
    """One call of stream(): what it decodes, at which size and rate. aspect: of the
    pixels, (4, 3), or None."""

    def __init__(self, gst, vae, units, size, rate, aspect, frames, settings):
        self.gst, self.vae, self.units, self.settings = gst, vae, units, settings
        self.rate, self.aspect = rate, aspect
        self.first = next(units, None)
        if self.first is None:
            raise fail("there are no latents to decode", "0")
        self.size = size or tuple(n * vae.info.spatial for n in self.first.shape[:1:-1])
        vae.plan(*self.size, **settings)  # refuses what does not work
        self.frames = frames or float("inf")

    def properties(self):
        """The settings as properties of vaedecode, or None if it lacks one, cannot read
        the weights or cannot have the size."""
        if any(n % self.vae.info.scale for n in self.size):
            return None
        if self.vae.file is None or self.gst.ElementFactory.find("vaedecode") is None:
            return None
        element = self.gst.ElementFactory.make("vaedecode")
        path, variant = self.vae.file
        values = {"model": os.path.abspath(path), "variant": variant}
        for name, value in self.settings.items():
            values[{"device": "cuda-device-id"}.get(name, name.replace("_", "-"))] = (
                str(value).lower() if isinstance(value, bool) else value)
        if not all(element.find_property(name) for name in values):
            return None
        return " ".join(f"{name}={quoted(value)}" for name, value in values.items()
                        if value is not None)

    def source(self, alpha):
        """The elements that give the frames, and an iterator of what they get: (data,
        first frame, frame after the last, whether it continues a sequence). alpha: that
        of the network is wanted."""
        width, height = self.size
        common = f"framerate={self.rate.numerator}/{self.rate.denominator}"
        if self.aspect:
            common += ",pixel-aspect-ratio={}/{}".format(*self.aspect)
        head = "appsrc name=from format=time caps="
        properties = self.properties()
        if properties is None:
            kind = "RGBA" if alpha and self.vae.info.out_channels == 4 else "RGB"
            return (head + quoted(f"video/x-raw,format={kind},width={width},"
                                  f"height={height},{common}") + " ! videoconvert",
                    self.pictures(alpha))
        _, channels, rows, columns = self.first.shape
        width, height = (n // self.vae.info.scale for n in self.size)  # as caps have it
        return (head + quoted(
            f"video/x-vae-latent,type={self.first.dtype},channels={channels},"
            f"latent-width={columns},latent-height={rows},"
            f"width={width},height={height},{common}") +
            f" ! vaedecode name=decode {properties}", self.latents())

    def clips(self):
        """The latents, each [1, C, h, w], which are all alike."""
        for unit in itertools.chain([self.first], self.units):
            if (unit.shape, unit.dtype) != (self.first.shape, self.first.dtype):
                found, expected = (f"{t.dtype} {dims(t[0])}" for t in (unit, self.first))
                raise fail(f"a latent is {found}, expected {expected} as before", found,
                           expected)
            yield unit

    def latents(self):
        for k, unit in enumerate(self.clips()):
            begin = self.vae.frames_of(k)
            end = min(self.vae.frames_of(k + 1), self.frames)
            if begin >= end:
                return
            yield unit.tobytes(), begin, end, k > 0

    def pictures(self, alpha):
        """Frames that this process decodes."""
        with self.vae.decoder(*self.size, alpha=alpha, **self.settings) as decoder:
            parts = itertools.chain((decoder(unit[0]) for unit in self.clips()),
                                    (decoder.finish() for _ in range(1)))
            for k, frame in enumerate(itertools.chain.from_iterable(parts)):
                if k >= self.frames:
                    return
                yield (aligned(frame.tobytes(), decoder.channels * self.size[0]), k, k + 1,
                       False)


class Player:
    """A pipeline that begins with an appsrc. Its threads put what happens into a queue,
    from which the caller's thread takes it."""

    def __init__(self, gst, text, rate, write):
        self.gst, self.rate, self.write = gst, rate, write
        self.events, self.ended = queue.SimpleQueue(), False
        try:
            self.pipeline = gst.parse_launch(text)
        except Exception as error:  # GLib.Error
            said = getattr(error, "message", str(error))
            raise refuse(f"the pipeline cannot be made: {said}; its text is: {text}",
                         said) from None
        self.source = self.pipeline.get_by_name("from")
        self.source.connect("need-data", lambda *_: self.events.put(None))
        self.pipeline.get_bus().set_sync_handler(self.on_message)
        if write:
            self.pipeline.get_by_name("to").connect("new-sample", self.on_sample)

    def on_message(self, _, message):
        kinds = self.gst.MessageType
        if message.type == kinds.EOS:
            self.events.put(("eos",))
        elif message.type == kinds.LATENCY:
            self.events.put(("latency",))
        elif message.type == kinds.WARNING:
            self.events.put(("warning", _engine.spell(message.parse_warning()[0].message)))
        elif message.type == kinds.ERROR:
            error, details = message.parse_error()[0], message.parse_error_details()
            parts = {name: details and details.get_string(name) or ""
                     for name in ("tensor", "found", "expected")}
            full = error.matches(self.gst.ResourceError.quark(),
                                 self.gst.ResourceError.NO_SPACE_LEFT)
            self.events.put(("error", message.src.get_name(), error.message, full, parts))
        return self.gst.BusSyncReply.DROP

    def on_sample(self, sink):
        data = sink.emit("pull-sample").get_buffer()
        try:
            self.write(data.extract_dup(0, data.get_size()))
        except Exception as error:
            self.events.put(("raised", error))
            return self.gst.FlowReturn.ERROR
        return self.gst.FlowReturn.OK

    def take(self):
        """Waits until something happens."""
        kind, *rest = self.events.get() or ("room",)
        if kind == "eos":
            self.ended = True
        elif kind == "latency":
            self.pipeline.recalculate_latency()
        elif kind == "warning":
            warnings.warn(*rest, GstVaeWarning, stacklevel=callers_level())
        elif kind == "raised":
            self.ended = True
            raise rest[0]
        elif kind == "error":
            self.ended = True
            name, message, full, parts = rest
            made = refuse(f"{name}: {_engine.spell(message)}", element=name, kind=OutOfMemory
                          if full and name == "decode" else PipelineError)
            vars(made).update(parts)
            raise made

    def push(self, data, begin, end, continues):
        # One buffer waits at most, so that the caller's generator waits, too.
        while not self.ended and self.source.get_property("current-level-buffers"):
            self.take()
        begin, end = (int(n * SECOND / self.rate) for n in (begin, end))
        buffer = self.gst.Buffer.new_wrapped(data)
        buffer.pts, buffer.duration = begin, end - begin
        if continues:
            buffer.set_flags(self.gst.BufferFlags.DELTA_UNIT)
        self.source.emit("push-buffer", buffer)

    def finish(self):
        """Ends the stream: what was pushed comes out, and a file gets its end."""
        self.source.emit("end-of-stream")
        while not self.ended:
            self.take()

    def play(self, items):
        self.pipeline.set_state(self.gst.State.PLAYING)
        try:
            try:
                for item in items:
                    self.push(*item)
                    if self.ended:
                        break
            finally:
                self.finish()
        finally:
            self.pipeline.set_state(self.gst.State.NULL)


def install(gst, names, what):
    """Refuses if none of these elements is installed; returns the installed ones."""
    found = [name for name in names if gst.ElementFactory.find(name)]
    if found:
        return found
    needed = " or ".join(dict.fromkeys(
        PACKAGES.get(name, "Debian's gstreamer1.0-plugins-good") for name in names))
    raise refuse(f"{what} needs {' or '.join(names)}, and none is installed: install "
                 f"{needed}", "", " or ".join(names))


def place(to):
    """What sentences call the video."""
    return to if isinstance(to, str) and " ! " not in to else "the video"


def cut_of(size, to):
    """What H.264 leaves out on the right and at the bottom, as it takes no odd sizes,
    and a sentence about it or ""."""
    right, bottom = (n % 2 for n in size)
    said = (f"{size[0]}x{size[1]} is odd, which H.264 cannot be: {to} has "
            f"{size[0] - right}x{size[1] - bottom}; .webm keeps all")
    return right, bottom, said if right or bottom else ""


def encoder(gst, codecs, to, size, lost):
    """The elements that encode. Their first caps make vaedecode tell that alpha is lost,
    which videoconvert would drop. Adds to `lost` a sentence about odd sizes."""
    what = f"to={to!r}"
    i420 = "video/x-raw,format=I420 ! "
    if not codecs:
        return i420
    rows = [row for codec in codecs for row in ENCODERS if row[0] == codec]
    name = install(gst, [row[1] for row in rows], what)[0]
    rest = next(row[2] for row in rows if row[1] == name)
    for other in rest.split(" ! ")[1:]:
        install(gst, [other], what)
    cut = ""
    right, bottom, said = cut_of(size, place(to))
    if said and name.endswith("264enc"):
        cut = f"videocrop right={right} bottom={bottom} ! "
        lost.append(said)
    return f"{i420}{cut}{name} {rest} ! "


def target(gst, to, container, size, lost):
    """The elements after the source. lost: as for encoder()."""
    if hasattr(to, "write"):
        if container not in CHUNKS:
            expected = ", ".join(CHUNKS)
            raise fail(f"container is {container}, expected one of {expected}",
                       str(container), expected)
        kind, rest = container, f"{CHUNKS[container]} ! appsink name=to sync=false " \
                                "emit-signals=true"
    else:
        to = os.fspath(to)
        scheme, _, address = to.partition("://")
        if address and scheme in TARGETS:
            kind = scheme
            rest = TARGETS[kind][1].format(quoted(to.removeprefix("whip+")))
        else:
            kind = os.path.splitext(to)[1][1:].lower()
            if " ! " in to or kind not in CHUNKS:
                if " ! " in to or gst.ElementFactory.find((to.split() or [""])[0]):
                    return to
                raise refuse(f"to is {to!r}, expected {EXPECTED}", to, EXPECTED)
            rest = f"{TARGETS[kind][1]} ! filesink location={quoted(to)}"
    for element in rest.split(" ! "):
        install(gst, [element.split()[0]], f"to={to!r}")
    return encoder(gst, TARGETS[kind][0], to, size, lost) + rest


def units_of(latents, info, layout):
    """Each latent [1, C, h, w] of a clip, or of the clips that an iterable gives."""
    try:
        parts = [view(to_host(latents))]
    except TypeError:
        if not hasattr(latents, "__iter__"):
            raise
        parts = latents
    for part in parts:
        clips = clips_of(part, info, layout)
        if len(clips) != 1:
            raise fail(f"the latents are a batch of {len(clips)} clips, expected 1",
                       str(len(clips)), "1")
        yield from (clips[0].part(k, k + 1) for k in range(len(clips[0])))


def stream(latents: Any, to: Any, vae: Any, *, framerate: Any = None,
           size: tuple[int, int] | None = None, frames: int | None = None,
           container: str = "mp4", layout: str = "auto", tensor: str | None = None,
           batch_index: int | None = None, latent_space: str | None = None,
           variant: str | None = None, **settings: Any) -> None:
    """Decodes latents to a video that leaves at once. Returns at its end.

    latents: as for VAE.decode(), or an iterable, such as a generator, of latents
    [C, h, w] or [C, n, h, w]. to: a path (.mp4, .mkv or .webm), an address (rtsp:// or
    whip+https://), elements such as "autovideosink", or an object with write(), which
    gets a video of the type of container in pieces. vae: a VAE, or what open() takes,
    also with variant. framerate: such as 16 or "30000/1001", instead of that of the
    file or the usual one. Other arguments: as for VAE.decode().

    The video has the frame rate and the pixel aspect ratio that a file of latents
    states. What else is lost is a warning.

    An exception of the generator, or Ctrl-C, ends the video after the latents so far;
    then it is raised. A second Ctrl-C ends it at once: a file may lack its end."""
    from . import plugin_path
    gst = load()
    if isinstance(vae, VAE) and variant is not None:
        raise TypeError("variant: for weights; a VAE is opened with its own")
    vae = vae if isinstance(vae, VAE) else open_vae(vae, variant=variant)
    if framerate is not None:
        framerate = rate_of(framerate)
    latents, size, frames, settings, layout, clip = vae.settle(
        latents, size, frames, settings, layout, tensor=tensor, batch_index=batch_index,
        latent_space=latent_space, framerate=framerate if is_path(latents) else None)
    stated = clip.info if clip else None
    if framerate is None:
        framerate = rate_of(stated.framerate if stated and stated.framerate[0]
                            else vae.info.framerate)
    try:
        gst.Registry.get().scan_path(plugin_path())
    except Error:
        pass  # an installed plugin is found without this
    job = Job(gst, vae, units_of(latents, vae.info, layout), size, framerate,
              stated and stated.pixel_aspect_ratio, frames, settings)
    lost = [clip.clip.lost(place(to))] if clip else []
    end = target(gst, to, container, job.size, lost)
    said = "; ".join(filter(None, lost))
    if said:
        warnings.warn(said, GstVaeWarning, stacklevel=callers_level())
    text, items = job.source(alpha=end == to)
    Player(gst, f"{text} ! {end}", job.rate, getattr(to, "write", None)).play(items)
