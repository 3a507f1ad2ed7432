#!/usr/bin/env python3
"""Decodes latents in numpy to frames in numpy, while the latents are generated.

    for frame in decode_arrays.decode(latents, "wan2.1"):

latents is an iterable of arrays [C, h, w], float32 or float16, of one clip. Run as
a program, this file decodes noise and prints the shapes of the frames.
"""
import argparse
import sys
import threading

from decode_file import Gst, exit_code, frames_of, numpy  # beside this file


def wrap(latent, k, fps, temporal):
    """Latent k as a buffer: one frame for k = 0, else `temporal` frames."""
    def time(frame):
        return frame * Gst.SECOND // fps

    first = 0 if k == 0 else 1 + temporal * (k - 1)
    buffer = Gst.Buffer.new_wrapped(latent.tobytes())
    buffer.pts = time(first)
    buffer.duration = time(1 + temporal * k) - buffer.pts
    buffer.offset = k
    # Without this flag every latent would start a new sequence.
    if k > 0:
        buffer.set_flags(Gst.BufferFlags.DELTA_UNIT)
    return buffer


def caps_of(latent, space, fps):
    channels, height, width = latent.shape
    return Gst.Caps.from_string(
        f"video/x-vae-latent,type={latent.dtype},channels={channels},"
        f"latent-width={width},latent-height={height},latent-space={space},"
        f"framerate={fps}/1")


def feed(source, latents, space, fps, temporal, failures):
    """Pushes the latents; push_buffer() waits while the decoder is busy."""
    try:
        for k, latent in enumerate(latents):
            if k == 0:
                source.set_caps(caps_of(latent, space, fps))
            buffer = wrap(latent, k, fps, temporal)
            if source.push_buffer(buffer) != Gst.FlowReturn.OK:
                return  # the bus has the error
    except Exception as error:  # of the caller's iterator
        failures.append(error)
    source.end_of_stream()


def decode(latents, space, model=None, fps=16, temporal=4):
    """The frames of latents of one clip: uint8 [H, W, 3], one after another.

    latents   iterable of arrays [C, h, w] of one shape; runs in another thread
    space     latent space, such as "wan2.1"
    model     the VAE's file; None: the installed model of the space
    temporal  frames of every latent after the first
    """
    Gst.init(None)
    pipeline = Gst.parse_launch(
        "appsrc name=src format=time block=true max-buffers=2 max-bytes=0 ! "
        "vaedecode name=decode ! video/x-raw,format=RGB ! "
        "appsink name=sink sync=false max-buffers=8")
    if model:
        pipeline.get_by_name("decode").props.model = model
    failures = []
    threading.Thread(target=feed, daemon=True, args=(
        pipeline.get_by_name("src"), latents, space, fps, temporal,
        failures)).start()
    yield from frames_of(pipeline, pipeline.get_by_name("sink"))
    if failures:
        raise failures[0]


def show(space, model):
    """Prints the shapes of the frames of noise."""
    noise = numpy.random.default_rng(1)
    latents = (noise.standard_normal((16, 12, 20), numpy.float32)
               for _ in range(5))
    for frame in decode(latents, space, model):
        print(frame.shape, "mean", round(float(frame.mean()), 1))


def main(arguments):
    parser = argparse.ArgumentParser(
        description="Decodes noise to frames in numpy and prints their shapes.")
    parser.add_argument("space", metavar="SPACE", nargs="?", default="gst-vae-demo",
                        help="latent space of 16 channels; default: %(default)s")
    parser.add_argument("model", metavar="MODEL", nargs="?",
                        help="the VAE; default: the installed model of the space")
    options = parser.parse_args(arguments)
    return exit_code(show, options.space, options.model)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
