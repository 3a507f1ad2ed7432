"""Encodes runs of frames, each to a closed group of pictures, and joins these to a video
without encoding again. GStreamer's data protocol (GDP) carries them."""
import os
import struct
import subprocess

from streams import Error

# Constant quality, so that neighbouring runs look the same. No picture needs another run.
# The same frames give the same pictures on every node: the number of threads is that of
# all workers, and a negative cpu-used does not depend on the time that is left.
ENCODERS = {".mp4": "x264enc pass=qual quantizer=20 bframes=0 threads={threads} ! "
                    "h264parse ! video/x-h264,stream-format=avc,alignment=au",
            ".webm": "vp8enc deadline=1 cpu-used=-4 end-usage=cq cq-level=16 "
                     "target-bitrate=20000000 threads={threads}"}
MUXERS = {".mp4": "video/x-h264 ! mp4mux", ".webm": "video/x-vp8 ! webmmux"}
HEADER = 62  # bytes of a packet
BUFFER, CAPS, EVENTS = 1, 2, 64
STREAM_START, SEGMENT = 40, 70
NONE = (1 << 64) - 1


def elements(description):
    words = description.split(" ! ")
    return [w.split()[0] for w in words if "/" not in w.split()[0]]


def missing(end, muxer=False):
    """The elements that this machine lacks to encode, or to join, such a video, or ""."""
    needed = elements((MUXERS if muxer else ENCODERS)[end]) + [
        "gdpdepay" if muxer else "gdppay", "rawvideoparse", "videocrop"]
    try:
        return next((name for name in needed if subprocess.run(
            ["gst-inspect-1.0", name], check=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL).returncode), "")
    except FileNotFoundError:
        return "gstreamer1.0-tools"


def launch(words):
    try:
        return subprocess.Popen(["gst-launch-1.0", "-q", *words], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise Error("gst-launch-1.0 is missing: install gstreamer1.0-tools") from None


def encode(frames, end, width, height, rate, threads, aspect=(1, 1)):
    """Packed I420 frames to packets of GDP. The last column or row of an odd size is left
    out of .mp4, as pipelines/latents-to-video.sh does."""
    half, rows = (width + 1) // 2, (height + 1) // 2
    chroma = width * height
    size = chroma + 2 * half * rows
    matrix = "bt601" if height < 720 else "bt709"
    if not 1 / 100 <= aspect[0] / aspect[1] <= 100:  # of rawvideoparse
        aspect = (1, 1)
    odd = (width % 2, height % 2) if end == ".mp4" else (0, 0)
    process = launch([
        *"fdsrc ! rawvideoparse format=i420".split(), f"width={width}",
        f"height={height}", f"framerate={rate[0]}/{rate[1]}",
        f"pixel-aspect-ratio={aspect[0]}/{aspect[1]}", f"colorimetry={matrix}",
        f"frame-size={size}", f"plane-strides=<{width},{half},{half}>",
        f"plane-offsets=<0,{chroma},{chroma + half * rows}>", "!", "videocrop",
        f"right={odd[0]}", f"bottom={odd[1]}", "!", *ENCODERS[end].format(threads=max(1, threads)).split(),
        *"! gdppay crc-header=false ! fdsink".split()])
    packed, said = process.communicate(frames)
    count = sum(kind == BUFFER for kind, _ in packets(packed))
    if process.returncode or count != len(frames) // size:
        why = (said.decode(errors="replace").strip().splitlines() or
               [f"it gave {count} pictures for {len(frames) // size} frames"])[0]
        raise Error(f"the encoder failed: {why}")
    return packed


def packets(data):
    """[(kind, packet)]"""
    at = 0
    while at + HEADER <= len(data):
        kind, length = struct.unpack_from(">HI", data, at + 4)
        yield kind, data[at:at + HEADER + length]
        at += HEADER + length
    if at != len(data):
        raise Error(f"the packets of a video end at byte {len(data)} within a packet")


def timed(packet, begin, end):
    """A buffer with this time in ns."""
    made = bytearray(packet)
    struct.pack_into(">QQQQ", made, 10, begin, end - begin, NONE, NONE)
    struct.pack_into(">Q", made, 44, begin)
    return made


def retime(runs, rate):
    """The packets of one stream. runs: [(first frame, packets)] in order."""
    head, base = None, 0

    def time_of(frame):
        return base + frame * 10**9 * rate[1] // rate[0]

    for first, data in runs:
        frame, caps = first, None
        for kind, packet in packets(data):
            if kind == BUFFER:
                if frame == 0:
                    base, = struct.unpack_from(">Q", packet, 10)
                yield timed(packet, time_of(frame), time_of(frame + 1))
                frame += 1
            elif kind == CAPS:
                caps = packet[HEADER:]
                if head is None:
                    head = caps
                    yield packet
                elif caps != head:
                    raise Error(f"the pictures from frame {first} on have other caps than "
                                "those before: use the same encoder on all nodes, and "
                                "start again")
            elif first == 0 and (kind - EVENTS) >> 8 in (STREAM_START, SEGMENT):
                yield packet


def join(runs, rate, out):
    """Writes a video of [(first frame, packets)]."""
    process = launch([*"fdsrc ! gdpdepay !".split(), *MUXERS[os.path.splitext(out)[1]]
                      .split(), "!", "filesink", f"location={out}.video"])
    failed = None
    try:
        for packet in retime(runs, rate):
            process.stdin.write(packet)
    except (OSError, Error) as error:
        failed = error
    said = process.communicate()[1].decode(errors="replace").strip()
    if process.returncode or failed:
        line = (said.splitlines() or [str(failed)])[0]
        raise Error(f"{out}: the video was not written: {line}; the frames are kept, "
                    "continue with --resume")
    os.rename(out + ".video", out)
