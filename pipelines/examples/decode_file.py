#!/usr/bin/env python3
"""Decodes a file of latents to frames in numpy.

Needs python3-gi, gir1.2-gst-plugins-base-1.0 and python3-numpy of Debian.
"""
import argparse
import sys

try:
    import gi
    gi.require_version("Gst", "1.0")
    gi.require_version("GstApp", "1.0")
    gi.require_version("GstVideo", "1.0")
    from gi.repository import Gst, GstApp, GstVideo  # noqa: F401  GstApp adds methods
    import numpy
except (ImportError, ValueError) as missing:
    sys.exit(f"{sys.argv[0]}: {missing}; needed, by their names in Debian: python3-gi, "
             "gir1.2-gst-plugins-base-1.0 and python3-numpy")


def to_numpy(sample):
    """A copy of the frame in a sample of RGB video: uint8 [H, W, 3]."""
    info = GstVideo.VideoInfo.new_from_caps(sample.get_caps())
    found, memory = sample.get_buffer().map(Gst.MapFlags.READ)
    if not found:
        raise MemoryError("a frame cannot be read")
    try:
        # Rows begin at multiples of 4 bytes.
        return numpy.ndarray((info.height, info.width, 3), numpy.uint8,
                             memory.data, strides=(info.stride[0], 3, 1)).copy()
    finally:
        sample.get_buffer().unmap(memory)


def check(pipeline):
    """Raises RuntimeError if the pipeline has posted an error."""
    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    if message:
        error, details = message.parse_error()
        # Some elements name the file only in the last line of the details.
        raise RuntimeError(f"{message.src.get_name()}: {error.message} "
                           f"({(details or '').rpartition(chr(10))[2]})")


def frames_of(pipeline, sink):
    """The frames of a pipeline with an appsink, as they arrive, until its end.
    The decoder waits while the caller is busy."""
    try:
        pipeline.set_state(Gst.State.PLAYING)
        while True:
            # With a limit: after some errors no frame and no end arrives.
            sample = sink.try_pull_sample(Gst.SECOND // 10)
            if sample:
                yield to_numpy(sample)
                continue
            check(pipeline)
            if sink.is_eos():
                return
    finally:
        pipeline.set_state(Gst.State.NULL)


def decode(path, model=None):
    """The frames of a file of latents: uint8 [H, W, 3], one after another."""
    Gst.init(None)
    pipeline = Gst.parse_launch(
        "filesrc name=file ! latentdemux ! vaedecode name=decode ! "
        "video/x-raw,format=RGB ! appsink name=sink sync=false max-buffers=8")
    pipeline.get_by_name("file").props.location = path
    if model:
        pipeline.get_by_name("decode").props.model = model
    yield from frames_of(pipeline, pipeline.get_by_name("sink"))


def exit_code(function, *arguments):
    """Calls the function. Returns 0, or 1 after it has printed an error."""
    try:
        function(*arguments)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def convert(latents, model, out):
    frames = list(decode(latents, model))
    if not frames:
        raise RuntimeError(f"{latents}: has no frames")
    video = numpy.stack(frames)
    print("frames, height, width, colours:", *video.shape)
    if out:
        numpy.save(out, video)


def main(arguments):
    parser = argparse.ArgumentParser(
        description="Decodes a file of latents to frames in numpy.")
    parser.add_argument("latents", metavar="LATENTS", help=".safetensors, .latent "
                        "of ComfyUI, .npy, or saved by PyTorch")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="the VAE; default: "
                        "the installed model of the file's latent space")
    parser.add_argument("out", metavar="OUT.npy", nargs="?",
                        help="all frames, uint8 [T, H, W, 3]")
    options = parser.parse_args(arguments)
    return exit_code(convert, options.latents, options.model, options.out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
