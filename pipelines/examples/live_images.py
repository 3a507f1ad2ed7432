#!/usr/bin/env python3
"""Changes live video in the latents of a network of images, and shows it.

    live_images.py taesd.safetensors
    live_images.py taef2_encoder.pth,taef2_decoder.pth --camera /dev/video0

step() stands for a diffusion model. A frame that comes while an older one waits
takes its place. Each second, and at the end, the program prints whether the picture
keeps up with the source. GStreamer's tracer measures the latency.
"""
import argparse
import collections
import os
import re
import sys
import threading
import time

# GStreamer writes the lines of its tracer to a pipe, if told so before it is loaded.
LINES, _end = os.pipe()
os.environ.update(GST_TRACERS="latency(flags=pipeline)", GST_DEBUG="GST_TRACER:7",
                  GST_DEBUG_NO_COLOR="1", GST_DEBUG_FILE=f"/dev/fd/{_end}")
from decode_file import Gst, check, exit_code, numpy  # noqa: E402  beside this file

WITHOUT = ("no MODEL: expected the weights of a network of images, such as taesd. To "
           "try it without any, write random ones: vaetool make-weights taesd "
           "taesd.safetensors")
NOWHERE = ("no display: neither DISPLAY nor WAYLAND_DISPLAY is set. --sink=fakesink shows "
           "nothing, and measures; --sink=ELEMENT takes any other sink")
ENOUGH = 0.95  # of the rate of the source


def step(latent):
    """The stand-in. latent: normalized, float32 [C, h, w]; returns the same."""
    return 0.9 * latent + 0.1 * latent[:, :, ::-1]


class Times:
    """When pictures were shown, and seconds of each part: from the source to the
    latents, in step(), and from there to the screen."""

    def __init__(self):
        self.shown = []
        self.parts = {name: collections.deque(maxlen=32)
                      for name in ("encode", "step", "decode")}

    def read(self):
        """Reads the lines of the tracer; runs in a thread of its own."""
        for line in os.fdopen(LINES):
            found = re.search(r" latency, .*sink-element=\(string\)([^,]+),.* "
                              r"time=\(guint64\)(\d+)", line)
            if not found:
                continue
            part = "encode" if found[1] == "latents" else "decode"
            self.parts[part].append(int(found[2]) / 1e9)
            if part == "decode":
                self.shown.append(time.monotonic())

    def say(self, first, rate):
        """Prints the values of the pictures from number `first` on. Returns the
        number of the first picture of the next line."""
        shown = self.shown[first:]
        if len(shown) < 2:
            return first
        fps = (len(shown) - 1) / (shown[-1] - shown[0])
        means = {name: 1000 * sum(v) / len(v) for name, v in self.parts.items() if v}
        print(f"{fps:.1f} of {rate} frames/s; latency {sum(means.values()):.0f} ms (" +
              ", ".join(f"{name} {ms:.0f}" for name, ms in means.items()) + ")" +
              ("" if fps >= ENOUGH * rate else "; the picture does not keep up"),
              flush=True)
        return first + len(shown) - 1


def change(buffer, caps):
    """The buffer of a latent with the result of step()."""
    fields = caps.get_structure(0)
    frames = fields.get_int("temporal-factor")[1]
    if frames > 1:
        raise RuntimeError(f"MODEL is a network of videos, with {frames} frames for a "
                           "latent; expected one of images, such as taesd")
    shape = [fields.get_int(name)[1] for name in
             ("channels", "latent-height", "latent-width")]
    data = buffer.extract_dup(0, buffer.get_size())
    latent = step(numpy.frombuffer(data, numpy.float32).reshape(shape))
    changed = Gst.Buffer.new_wrapped(latent.astype(numpy.float32).tobytes())
    changed.pts, changed.duration, changed.offset = (buffer.pts, buffer.duration,
                                                     buffer.offset)
    changed.set_flags(buffer.get_flags() & Gst.BufferFlags.DELTA_UNIT)
    return changed


def work(latents, source, times, failures):
    """Takes latents from the encoder and gives them to the decoder."""
    try:
        while sample := latents.pull_sample():
            begun = time.monotonic()
            changed = change(sample.get_buffer(), sample.get_caps())
            times.parts["step"].append(time.monotonic() - begun)
            source.set_caps(sample.get_caps())
            if source.push_buffer(changed) != Gst.FlowReturn.OK:
                return  # the bus has the error
    except Exception as error:  # of step()
        failures.append(error)


def run(model, source, sink, size, rate, frames):
    """Plays until so many pictures were shown; 0: until Ctrl-C."""
    times, failures, said = Times(), [], 0
    Gst.init(None)
    threading.Thread(target=times.read, daemon=True).start()
    width, height = size
    pipeline = Gst.parse_launch(
        f"{source} ! videoconvert ! videoscale ! videorate ! "
        f"video/x-raw,width={width},height={height},framerate={rate}/1 ! "
        "queue leaky=downstream max-size-buffers=1 ! vaeencode name=encode "
        "queue-depth=1 ! video/x-vae-latent,type=float32 ! "
        "appsink name=latents async=false sync=false max-buffers=1 "
        "appsrc name=changed format=time is-live=true block=true max-buffers=1 "
        "max-bytes=0 ! vaedecode name=decode queue-depth=1 qos=false ! "
        f"videoconvert ! {sink} sync=false")
    for name in "encode", "decode":
        pipeline.get_by_name(name).props.model = model
    worker = threading.Thread(target=work, daemon=True, args=(
        pipeline.get_by_name("latents"), pipeline.get_by_name("changed"), times,
        failures))
    try:
        pipeline.set_state(Gst.State.PLAYING)
        worker.start()
        next_report = time.monotonic() + 1
        while worker.is_alive() and (not frames or len(times.shown) < frames):
            time.sleep(0.02)
            check(pipeline)
            if time.monotonic() > next_report:
                said, next_report = times.say(said, rate), next_report + 1
    except KeyboardInterrupt:
        pass
    finally:
        pipeline.set_state(Gst.State.NULL)
    worker.join()
    if failures:
        raise failures[0]
    print("all:", end=" ")
    times.say(0, rate)


def may_show():
    """False if there is no display; what autovideosink then finds may crash."""
    return sys.platform != "linux" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def main(arguments):
    parser = argparse.ArgumentParser(description="Changes live video in the latents of "
                                     "a network of images, and shows it.")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="the weights")
    parser.add_argument("--camera", metavar="DEVICE", help="such as /dev/video0; "
                        "default: a test picture")
    parser.add_argument("--size", default="256x256", help="default: %(default)s")
    parser.add_argument("--rate", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--frames", type=int, default=0, help="ends after so many")
    parser.add_argument("--sink", default="autovideosink", help="default: %(default)s")
    options = parser.parse_args(arguments)
    if not options.model:
        parser.error(WITHOUT)
    if not re.fullmatch("[1-9][0-9]*x[1-9][0-9]*", options.size) or options.rate < 1:
        parser.error(f"size {options.size}, rate {options.rate}: expected WIDTHxHEIGHT "
                     "and frames per second")
    if options.sink == "autovideosink" and not may_show():
        parser.error(NOWHERE)
    source = (f'v4l2src device="{options.camera}"' if options.camera else
              "videotestsrc is-live=true pattern=ball")
    return exit_code(run, options.model, source, options.sink, options.size.split("x"),
                     options.rate, options.frames)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
