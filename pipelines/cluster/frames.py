"""The frames of a file, which can be read from anywhere: safetensors, and videos that
GStreamer decodes to a file first."""
import json
import os
import re
import struct
import subprocess
import threading

from streams import I420, PACKED, Error, frame_bytes, warn

SPOOL = ".frames"  # the end of the name of a Video's file


class Frames:
    """Packed frames at equal distances in a file. shape: frames, height, width. rate:
    "16/1" or None."""
    range = rate = None
    colour = None  # of I420
    stated = {}  # metadata for the latents

    def __init__(self, path):
        self.path = path
        self.file = open(path, "rb")
        try:
            self.find()
        except (struct.error, ValueError, KeyError, TypeError):
            raise Error(f"{path}: {self.EXPECTED}") from None
        self.size = frame_bytes(self.pixels, self.shape[2], self.shape[1])

    def __del__(self):
        if hasattr(self, "file"):
            self.file.close()

    def read(self, first, end):
        data = b"".join(
            os.pread(self.file.fileno(), self.size, self.begin + k * self.distance)
            for k in range(first, end))
        if len(data) < (end - first) * self.size:
            raise Error(f"{self.path}: ends before its last frame")
        return data


class Safetensors(Frames):
    """video_u8 or frames, [T, H, W, 3], or [T, H, W, 4] with alpha."""
    EXPECTED = ("expected a safetensors file with video_u8 or frames, U8 or F32 "
                "[T, H, W, 3] or [T, H, W, 4]")
    KINDS = {"U8": "uint8", "F32": "float32"}

    def find(self):
        length, = struct.unpack("<Q", self.file.read(8))
        entries = json.loads(self.file.read(min(length, 100 << 20)))
        metadata = entries.pop("__metadata__", {})
        entry = next((entries[n] for n in ("video_u8", "frames") if n in entries), {})
        shape, kind = entry["shape"], entry["dtype"]
        packed = (self.KINDS.get(kind), shape[-1])
        if len(shape) != 4 or packed not in PACKED.values():
            raise Error(f"{self.path}: the frames are {kind} {shape}, {self.EXPECTED}")
        self.shape = shape[:3]
        self.pixels = next(name for name, row in PACKED.items() if row == packed)
        self.range = metadata.get("vae.pixel_range")
        self.rate = metadata.get("vae.framerate")
        self.begin = 8 + length + entry["data_offsets"][0]
        self.distance = frame_bytes(self.pixels, shape[2], shape[1])


def round_up(n, unit):
    return -(-n // unit) * unit


class Video(Frames):
    """A video that GStreamer decodes to I420 in a file beside the output, which is
    removed at the end."""
    EXPECTED = "GStreamer does not say size, rate and colours of its frames"
    pixels = I420

    def __init__(self, path, out):
        self.spool = out + SPOOL
        self.caps, self.stated = decode(path, self.spool)
        super().__init__(self.spool)
        self.path = path

    def __del__(self):
        super().__del__()
        if os.path.exists(self.spool):
            os.unlink(self.spool)

    def find(self):
        caps, self.begin = self.caps, 0
        width, height = int(caps["width"]), int(caps["height"])
        self.rate = None if caps["framerate"].startswith("0/") else caps["framerate"]
        self.colour = colour_of(caps, height)
        # (bytes of a row, as written; bytes that count; rows, as written; that count)
        half, rows = (width + 1) // 2, round_up(height, 2)
        self.planes = [(round_up(width, 4), width, rows, height)] + 2 * [
            (round_up(half, 4), half, rows // 2, rows // 2)]
        self.distance = sum(p[0] * p[2] for p in self.planes)
        self.shape = [os.path.getsize(self.spool) // self.distance, height, width]

    def read(self, first, end):
        """Without the padding of rows that GStreamer adds."""
        data = os.pread(self.file.fileno(), (end - first) * self.distance,
                        first * self.distance)
        if self.distance == self.size:
            return data
        found, at = [], 0
        for _ in range(first, end):
            for stride, width, rows, height in self.planes:
                found += [data[at + y * stride:][:width] for y in range(height)]
                at += stride * rows
        return b"".join(found)


# Caps of a video that may have transparent pixels.
ALPHA = re.compile(r"codec-alpha=\(boolean\)true|"
                   r"video/x-raw.*format=\(string\)((?!GRAY)\w*A|Y41)")


def colour_of(caps, height):
    """The colour of a stream, as vaeencode takes it from caps."""
    name = caps.get("colorimetry", "")
    default = 0 if height < 720 else 1
    if name.count(":") == 3:
        found, matrix, _, _ = map(int, name.split(":"))
        full, matrix = found == 1, {3: 1, 4: 0, 6: 2}.get(matrix, default)
    else:
        full = False
        matrix = {"bt601": 0, "bt709": 1, "bt2020": 2}.get(name.split("-")[0], default)
    site = caps.get("chroma-site", "")
    return {"matrix": matrix, "full_range": full, "site_center": site == "jpeg",
            "site_top": site == "cosited"}


def launch(command):
    """Runs gst-launch-1.0. Returns its exit status and its lines."""
    # decodebin of GStreamer 1.22 refuses these decoders with the caps; I420 has no alpha.
    ranks = [*filter(None, [os.environ.get("GST_PLUGIN_FEATURE_RANK")]),
             "vp8alphadecodebin:NONE", "vp9alphadecodebin:NONE"]
    try:
        done = subprocess.Popen(command, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env={
                                    **os.environ,
                                    "GST_PLUGIN_FEATURE_RANK": ",".join(ranks)})
    except FileNotFoundError:
        raise Error("gst-launch-1.0 is missing: install gstreamer1.0-tools") from None
    lines = []
    # After an error, gst-launch-1.0 of 1.22 does not always end by itself.
    end = threading.Timer(5, done.kill)
    with done:
        for line in done.stdout:
            lines.append(line.rstrip())
            if line.startswith("ERROR") and end.ident is None:
                end.start()
    end.cancel()
    return done.returncode, lines


def stated_by(lines, caps):
    """What the latents have to state of the video, as latentmux writes it."""
    turned = re.findall(r"^ *image orientation: ([\w-]+)$", "\n".join(lines), re.M)
    aspect = caps.get("pixel-aspect-ratio", "1/1")
    return {**({"vae.pixel_aspect_ratio": aspect} if aspect != "1/1" else {}),
            **({"vae.tag.image-orientation": turned[-1]} if turned else {})}


def is_uneven(lines, caps):
    """True if the frames have other times than those of the frame rate."""
    found = re.findall(r"pts: (\d+):(\d+):([\d.]+), duration", "\n".join(lines))
    times = [3600 * int(h) + 60 * int(m) + float(s) for h, m, s in found]
    n, d = map(int, caps["framerate"].split("/"))
    return len(times) > 1 and (n == 0 or any(
        abs(t - times[0] - k * d / n) > 0.001 for k, t in enumerate(times)))


def decode(path, spool):
    """Writes I420 frames. Returns their caps, and metadata for the latents."""
    if not os.path.getsize(path):
        raise Error(f"{path}: is empty")  # GStreamer would wait
    with open(path, "rb") as file:
        if file.read(4) == b"GIF8":
            raise Error(f"{path}: is a GIF, which GStreamer decodes without an end: "
                        "convert it first, such as by ffmpeg -i in.gif out.mp4")
    command = ["gst-launch-1.0", "-v", "-t", "filesrc", f"location={path}", *(
        "! decodebin caps=video/x-raw(ANY) expose-all-streams=false ! videoconvert ! "
        "deinterlace fields=top ! videoconvert ! "
        "video/x-raw,format=I420 ! identity silent=false ! filesink name=frames").split(),
        f"location={spool}"]
    # Of a file with few frames, gst-launch-1.0 sometimes loses a line, also that of the
    # caps.
    for _ in range(5):
        status, lines = launch(command)
        caps = sorted(set(re.findall(r"GstFileSink:frames.GstPad:sink: caps = (.*)",
                                     "\n".join(lines))))
        if status or caps:
            break
    errors = [line for line in lines if line.startswith("ERROR")]
    missing = [line for line in lines if line.startswith("Missing decoder: ")]
    if missing:
        errors = [line for line in missing if " (video/" in line or " (image/" in line]
        if not errors:
            raise Error(f"{path}: no video in the file")
    if status or errors or len(caps) != 1:
        if os.path.exists(spool):
            os.unlink(spool)
        raise Error(f"{path}: GStreamer cannot decode it: " + (
            errors or [f"{len(caps)} kinds of frames"])[0].removeprefix("ERROR: "))
    if any(map(ALPHA.search, lines)):
        warn(f"{path}: the video may have transparent pixels, which are encoded as if they "
             "were opaque")
    found = dict(re.findall(r"([\w-]+)=\([a-z]+\)([^,]+)", caps[0]))
    if "framerate" in found and is_uneven(lines, found):
        warn(f"{path}: the frames have times of their own, which the latents lose; "
             "video-to-latents.sh keeps them")
    return found, stated_by(lines, found)


def open_frames(path, out):
    if os.path.splitext(path)[1] == ".safetensors":
        return Safetensors(path)
    return Video(path, out)
