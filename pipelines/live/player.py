"""The pipeline: latents in, JPEG pictures and statistics out."""

import collections
import os
import threading
import time

from gi.repository import GLib, Gst

TICK_MS = 500
# Number of ticks over which rates are measured.
WINDOW = 4
# Number of frames that are decoded ahead of time.
AHEAD = 8
PURPOSES = ("weights", "carries", "activations", "scratch", "staging", "library",
            "ops")

# The sink tells the decoder how late it is. No element drops a late frame.
PICTURES = (
    "vaedecode name=decode slice-size=1 qos=false ! "
    "queue name=ahead max-size-buffers=%d "
    "max-size-bytes=0 max-size-time=0 ! videoconvert qos=false ! "
    "videoflip video-direction=auto qos=false ! "
    "videoscale qos=false ! video/x-raw,pixel-aspect-ratio=1/1 ! "
    "jpegenc quality=85 qos=false ! "
    "appsink name=pictures emit-signals=true sync=true qos=true max-buffers=1 "
    "drop=true"
    % AHEAD
)


class Missing(Exception):
    """An element that is not installed."""


class Latest:
    """The newest of some values, for threads that wait for it. A slow thread
    misses values in between, and delays nobody."""

    def __init__(self):
        self._changed = threading.Condition()
        self._number = 0
        self._value = None

    def put(self, value):
        with self._changed:
            self._number += 1
            self._value = value
            self._changed.notify_all()

    def count(self):
        with self._changed:
            return self._number

    def get(self, seen, timeout):
        """Number and value of the newest one after number `seen`; the value is
        None if none arrives in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > seen, timeout)
            if self._number > seen:
                return self._number, self._value
            return seen, None


def stem(path):
    """The name of a model on the page."""
    return os.path.splitext(os.path.basename(path.rstrip("/")))[0]


def fields(structure):
    names = map(structure.nth_field_name, range(structure.n_fields()))
    return {name: structure.get_value(name) for name in names}


class Player:
    def __init__(self, latents, source, models, reading, tell):
        """latents: a file, "-" or None; then source is (host, port). reading: words
        of properties by the name of the element and that of the property. tell is
        called with the text of each warning."""
        self.pictures = Latest()
        self.states = Latest()
        self.error = None
        self.models = {stem(path): path for path in models}
        self._loops = False
        self._playing = True
        self._begun = False
        self._model = models[0] if models else None
        self._note = ""
        self._tell = tell
        self._told = set()
        self._history = collections.deque(maxlen=WINDOW + 1)
        self._pipeline = self._make(latents, source, reading)
        self._decode = self._pipeline.get_by_name("decode")
        self._ahead = self._pipeline.get_by_name("ahead")
        if self._model:
            self._decode.set_property("model", self._model)
        sink = self._pipeline.get_by_name("pictures")
        sink.connect("new-sample", self._on_sample)

    def _make(self, latents, source, reading):
        if source:
            text = "tcpclientsrc name=in ! gdpdepay"
        elif latents == "-":
            text = "fdsrc name=in fd=0 ! gdpdepay"
        else:
            text = "filesrc name=in ! latentdemux name=demux"
            self._loops = True
        try:
            pipeline = Gst.parse_launch("%s ! %s" % (text, PICTURES))
        except GLib.Error as e:
            raise Missing(
                "%s (build the plugin with meson, and install Debian's "
                "gstreamer1.0-plugins-good and, for streams, -bad)" % e.message
            ) from None
        first = pipeline.get_by_name("in")
        if source:
            first.set_property("host", source[0])
            first.set_property("port", source[1])
        elif self._loops:
            first.set_property("location", latents)
        for (element, name), word in reading.items():
            Gst.util_set_object_arg(pipeline.get_by_name(element), name, str(word))
        return pipeline

    # These methods run on the main loop's thread.

    def start(self, quit_loop):
        self._quit = quit_loop
        bus = self._pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message", self._on_message)
        # A file plays as a segment, so that the loop has no gap.
        self._pipeline.set_state(
            Gst.State.PAUSED if self._loops else Gst.State.PLAYING
        )
        # The decoder has statistics from here on.
        GLib.timeout_add(TICK_MS, self._tick)
        self._tick()

    def stop(self):
        self._pipeline.get_bus().remove_signal_watch()
        self._pipeline.set_state(Gst.State.NULL)

    def _seek_to_start(self, flags):
        self._pipeline.seek(
            1.0,
            Gst.Format.TIME,
            flags | Gst.SeekFlags.SEGMENT,
            Gst.SeekType.SET,
            0,
            Gst.SeekType.NONE,
            -1,
        )

    def _on_message(self, bus, message):
        kind = message.type
        if kind == Gst.MessageType.ERROR:
            error, details = message.parse_error()
            # Such as which address refused. The head names a line of GStreamer.
            _, _, reason = (details or "").partition("\n")
            self.error = ": ".join([error.message.rstrip("."), *reason.splitlines()[:1]])
            self._quit()
        elif kind in (Gst.MessageType.WARNING, Gst.MessageType.INFO):
            is_warning = kind == Gst.MessageType.WARNING
            error, _ = message.parse_warning() if is_warning else message.parse_info()
            self._note = error.message
            if error.message not in self._told:  # not again in each loop
                self._told.add(error.message)
                self._tell(error.message)
            self._model = self._decode.get_property("model")
        elif kind == Gst.MessageType.PROGRESS:
            _, code, text = message.parse_progress()
            if code in ("load-model", "open-stream"):
                self._note = text
        elif kind == Gst.MessageType.ELEMENT:
            if message.get_structure().get_name() == "vae-switch":
                self._model = message.get_structure().get_string("model")
        elif kind == Gst.MessageType.ASYNC_DONE and not self._begun:
            self._begun = True
            if self._loops:
                self._seek_to_start(Gst.SeekFlags.FLUSH)
                self._set_playing(self._playing)
        elif kind == Gst.MessageType.SEGMENT_DONE:
            self._seek_to_start(Gst.SeekFlags.NONE)
        elif kind == Gst.MessageType.LATENCY:
            self._pipeline.recalculate_latency()
        elif kind == Gst.MessageType.EOS:
            self._quit()

    def _set_playing(self, playing):
        self._playing = playing
        if self._begun or not self._loops:
            self._pipeline.set_state(
                Gst.State.PLAYING if playing else Gst.State.PAUSED
            )
        self._tick()

    def _set_model(self, path):
        self._decode.set_property("model", path)
        self._decode.emit("restart")

    def _rates(self, stats):
        """Frames per second, and the seconds that a latent takes through the
        decoder, over the last ticks; None: no frame arrived."""
        now = (time.monotonic(), stats)
        self._history.append(now)
        then = self._history[0]
        seconds = now[0] - then[0]
        slices = stats["slices"] - then[1]["slices"]
        if slices <= 0:
            return 0.0, None
        spent = sum(
            stats[name] - then[1][name]
            for name in ("total-queue-wait-ns", "total-slice-ns")
        )
        fps = (stats["frames"] - then[1]["frames"]) / seconds
        return fps, spent / slices / 1e9

    def _tick(self):
        stats = fields(self._decode.get_property("stats"))
        fps, latency = self._rates(stats)
        self.states.put(
            {
                "playing": self._playing,
                "note": self._note,
                "model": stem(self._model or stats["model"] or "") or "installed",
                "models": list(self.models),
                "fps": fps,
                "latency": latency,
                "waiting_frames": self._ahead.get_property(
                    "current-level-buffers"
                ),
                "room_frames": AHEAD,
                "room_steps": self._decode.get_property("queue-depth")
                * max(stats["slice-size"], 1),
                "pictures": self.pictures.count(),
                "stats": stats,
            }
        )
        return GLib.SOURCE_CONTINUE

    # These methods may run on any thread.

    def play(self, playing):
        GLib.idle_add(self._set_playing, playing)

    def use_model(self, name):
        GLib.idle_add(self._set_model, self.models[name])

    def state(self):
        """The newest state, for the page and the metrics."""
        return self.states.get(0, None)[1]

    # This method runs on the sink's streaming thread.

    def _on_sample(self, sink):
        buffer = sink.emit("pull-sample").get_buffer()
        self.pictures.put(buffer.extract_dup(0, buffer.get_size()))
        return Gst.FlowReturn.OK
