"""Sends a file of latents to vaedecode: the command line of vaesend.py."""
import argparse
import os
import re
import struct
import sys

import vaesend
from vaesend import SIZES, SPACES, Array, Sender, counted
from vaesend_read import is_torch, open_latents, open_torch, stated, whole

__all__ = ["open_latents", "main"]

# What a file states of the picture: the field of caps, its type, and its form.
WORD = r"[\w.:+-]{1,120}"
PICTURE = {
    "vae.pixel_aspect_ratio": ("pixel-aspect-ratio", "fraction",
                               "[1-9][0-9]{0,8}/[1-9][0-9]{0,8}"),
    "vae.colorimetry": ("colorimetry", "string", WORD),
    "vae.chroma_site": ("chroma-site", "string", WORD),
    "vae.mastering_display_info": ("mastering-display-info", "string", WORD),
    "vae.content_light_level": ("content-light-level", "string", WORD)}

# The tags that a file may state, by their type in GStreamer.
TAGS = {name: kind for kind, names in {
    "string": "title comment application-name album album-artist album-artist-sortname "
    "album-sortname artist artist-sortname composer composer-sortname conductor contact "
    "copyright copyright-uri description device-manufacturer device-model encoded-by "
    "extended-comment genre geo-location-city geo-location-country geo-location-name "
    "geo-location-sublocation grouping homepage image-orientation interpreted-by isrc "
    "keywords language-code language-name license license-uri location lyrics organization "
    "performer publisher show-name show-sortname title-sortname version",
    "double": "beats-per-minute geo-location-capture-direction geo-location-elevation "
    "geo-location-horizontal-error geo-location-latitude geo-location-longitude "
    "geo-location-movement-direction geo-location-movement-speed replaygain-album-gain "
    "replaygain-album-peak replaygain-reference-level replaygain-track-gain "
    "replaygain-track-peak",
    "uint": "album-disc-count album-disc-number encoder-version midi-base-note serial "
    "show-episode-number show-season-number track-count track-number user-rating",
    "guint64": "duration", "date": "date", "datetime": "datetime"}.items()
    for name in names.split()}
# Tags whose keys have not the prefix "vae.tag.".
KEYS = {"vae.title": "title", "vae.comment": "comment",
        "vae.application": "application-name"}


def tell(words):
    """Prints the words; names from files may have characters that control a terminal."""
    print("vaesend:", "".join(c if c.isprintable() else "?" for c in words),
          file=sys.stderr)


def finite(array):
    """False if a number is NaN or infinite. Of each number it looks at the 16 bits
    with the exponent."""
    mask = 0x7c00 if array.type == "float16" else 0x7f80
    mask = int.from_bytes(struct.pack("<H", mask), sys.byteorder)
    step = SIZES[array.type] // 2
    found = set(memoryview(array.data).cast("H")[step - 1::step])
    return all(number & mask != mask for number in found)


def refuse_file(latents, target):
    """Refuses a target that is a file with data."""
    if os.path.exists(target) and os.path.samefile(latents, target):
        raise ValueError(f"{target}: is the input; write to another file")
    if os.path.isfile(target):
        raise ValueError(f"{target}: is there already; write to a new file or a "
                         "named pipe")


# With a batch in front, "b".
LAYOUTS = ("cthw", "tchw", "bcthw", "btchw")


def guess_of(options, facts):
    """The layout that the writer of the file guessed, or None."""
    word = facts.get("vae.layout_guess")
    if word is None or word in LAYOUTS:
        return word and word[-4:]
    tell(f"warning: {options.latents}: vae.layout_guess is {word!r}, expected cthw or "
         "tchw; it is ignored")
    return None


def order_by_channels(first, second, space, comfyui):
    """The layout of latents with these dimensions, and True if both layouts are possible:
    as find_order() of the engine."""
    if space and (first == space.channels) != (second == space.channels):
        return "tchw" if second == space.channels else "cthw", False
    usual = {row.channels for row in SPACES.values()}
    if (comfyui and second != 1) or (
            first == 1 and second in usual) or (first > 1024 and second > 1):
        return "tchw", False  # no latent has so many channels
    known = {row.channels for row in SPACES.values() if row.temporal > 1}
    images = space and space.temporal == 1 and second == space.channels
    tchw = images or (second in known and first not in known)
    chosen, other = (second, first) if tchw else (first, second)
    return "tchw" if tchw else "cthw", second != 1 and bool(
        space or chosen not in usual or other in usual)


def layout_by_channels(options, array, facts):
    """"cthw" or "tchw", as vae_axes_find() finds it."""
    if len(array.shape) != 4:
        return "cthw"
    first, second = array.shape[:2]
    space = SPACES.get(facts.get("vae.latent_space")) or SPACES.get(options.space)
    layout, both = order_by_channels(first, second, space, "usual normalization" in facts)
    if both:
        layout = guess_of(options, facts) or layout
    chosen, other = (second, first) if layout == "tchw" else (first, second)
    if both and (not space or chosen == space.channels):
        facts["layout guessed"] = True
        tell(f'warning: {options.latents}: tensor "{facts["tensor"]}", '
             f"{'x'.join(map(str, array.shape))}: no layout is stated; {layout}, "
             f"{counted(other, 'latent')} of {counted(chosen, 'channel')}, is a guess: set "
             "layout to cthw or tchw")
    return layout


def tell_override(options, word, stated, value):
    """Warns if the option says something else than the file."""
    if value and stated and value != stated:
        tell(f"warning: {options.latents} states {word} {stated}; {word} {value} "
             "overrides it")


def layout_of(options, array, facts):
    """"cthw" or "tchw": from the options, from the file, or by the shape."""
    word = facts.get("vae.layout")
    if options.layout not in (None, "auto"):
        tell_override(options, "layout", word and word[-4:], options.layout[-4:])
        return options.layout[-4:]
    if word is None:
        return layout_by_channels(options, array, facts)
    if word not in LAYOUTS:
        raise ValueError(f"{options.latents}: vae.layout is {word!r}, expected "
                         "cthw or tchw, or with a batch of 1 in front bcthw or "
                         "btchw; to override it, use --layout")
    if word[0] == "b" and len(array.shape) == 4:
        tell(f"{options.latents}: vae.layout is {word}, but the "
             f"latents, {list(array.shape)}, have no batch in front: taken as "
             f"{word[1:]}")
    return word[-4:]


def clip_of(options, array):
    """The clip of a batch that the option names."""
    k = options.batch_index
    count = array.shape[0] if len(array.shape) == 5 else 1
    if k is None and count > 1:
        raise ValueError(f"{options.latents}: {list(array.shape)} is a batch of {count} "
                         "clips, expected 1: select one by --batch-index")
    if k is None:
        return array
    if not 0 <= k < count:
        raise ValueError(f"{options.latents}: the batch index is {k}, expected 0 to "
                         f"{count - 1} for {list(array.shape)}")
    size = len(array.data) // count
    return Array(array.type, (1,) * (len(array.shape) - 4) + array.shape[-4:],
                 array.data[k * size:(k + 1) * size])


def rate_of(options, facts):
    """Frame rate of the video; None: the usual one of the latent space."""
    if options.fps is not None or "vae.framerate" not in facts:
        return options.fps
    try:
        return vaesend.rate(facts["vae.framerate"])
    except ValueError as error:
        raise ValueError(f"{options.latents}: vae.framerate: {error}; "
                         "to override it, use --framerate") from None


def shown_of_last(options, facts, latents, sender):
    """Number of frames of the last latent that the clip has; None: all."""
    text = facts.get("vae.frames")
    total = whole(text)
    most = sum(map(sender.frames_at, range(latents)))
    least = most - sender.frames_at(latents - 1) + 1
    if text is not None and not least <= total <= most:
        of = (f"{latents} latents are {least} to {most} frames"
              if latents > 1 else "1 latent is 1 frame")
        tell(f"{options.latents}: vae.frames is {text!r}, but {of}: all are sent")
        return None
    return total - least + 1 if total else None


def sequences_of(options, facts, latents, sender):
    """[(number of latents, frames of the last one or None for all)] of the sequences."""
    table = facts.get("latent_sequences")
    if table is None:
        return [(latents, shown_of_last(options, facts, latents, sender))]
    rows = list(struct.iter_unpack("<qq", table)) if table and len(table) % 16 == 0 else []
    firsts = [first for first, _ in rows]
    if firsts[:1] != [0] or any(a >= b for a, b in zip(firsts, firsts[1:] + [latents])):
        raise ValueError(f"{options.latents}: latent_sequences begin at latents {firsts}, "
                         f"expected numbers that grow, from 0 to less than {latents}")
    found = []
    for (first, shown), end in zip(rows, firsts[1:] + [latents]):
        most = sum(map(sender.frames_at, range(end - first)))
        last = shown - most + sender.frames_at(end - first - 1)
        if not 1 <= last <= sender.frames_at(end - first - 1):
            raise ValueError(f"{options.latents}: latent_sequences state {shown} frames "
                             f"of {counted(end - first, 'latent')}, which are {most}")
        found.append((end - first, last))
    return found


def stated_or(option, name, form, expected, options, facts):
    """What the option says, else what the file states, which must have the form."""
    value, stated = getattr(options, option), facts.get("vae." + name)
    value = None if value == "auto" else value
    if not value and stated is not None and not re.fullmatch(form, stated):
        raise ValueError(f"{options.latents}: vae.{name} is {stated!r}, expected "
                         f"{expected}; to override it, use --{option}")
    tell_override(options, name.replace("_", "-"), stated, value)
    return value or stated


def picture_of(facts):
    """The fields of caps that say how the picture is to be shown."""
    return {field: f"({kind}){facts[key]}" for key, (field, kind, form) in PICTURE.items()
            if re.fullmatch(form, facts.get(key, ""))}


def tags_of(facts):
    """The tags that the file states: a dict of typed texts, as Sender takes it, and the
    names of those that cannot be sent."""
    words, lost = {}, []
    for key, text in facts.items():
        name = KEYS.get(key) or key.removeprefix("vae.tag.").split(".")[0]
        kind = TAGS.get(name)
        if not (key in KEYS or key.startswith("vae.tag.")) or name == "encoder":
            continue  # no tag, or one of the file and not of the video
        if kind == "string":
            words.setdefault(name, []).append(vaesend.quoted(text))
        elif kind and re.fullmatch(WORD, text):
            words.setdefault(name, []).append(text)
        elif name not in lost:
            lost.append(name)
    return {name: f"({TAGS[name]})" + (texts[0] if len(texts) == 1 else
                                       "{ " + ", ".join(texts) + " }")
            for name, texts in words.items()}, lost


def times_of(options, facts, latents):
    """[(start, duration)] of the latents, in nanoseconds, or None: by the frame rate."""
    table = facts.get("latent_times")
    if table is None or options.fps is not None:
        return None
    times = list(struct.iter_unpack("<qq", table)) if len(table) == 16 * latents else []
    starts = [-1] + [start for start, _ in times]
    if not times or min(duration for _, duration in times) < 0 or any(
            a >= b for a, b in zip(starts, starts[1:])):
        tell(f"warning: {options.latents}: the numbers in latent_times are no "
             "valid times; the frame rate is used")
        return None
    return times


def tell_lost(path, facts, tags):
    """Names what the file states and this program does not send."""
    lost = [key for key in PICTURE if key in facts and PICTURE[key][0] not in
            picture_of(facts)]
    if tags:
        lost.append("the tags " + ", ".join(tags))
    if lost:
        tell(f"warning: {path} has {' and '.join(lost)}, which are not sent; "
             "gst-launch-1.0 filesrc ! latentdemux ! gdppay ! tcpclientsink, or another "
             "sink, sends them")


def normalization_of(options, facts):
    """From the options, from the file, or what is usual; None: nothing says it."""
    word = stated_or("normalization", "normalization", "|".join(vaesend.NORMALIZATIONS),
                     "normalized, raw or comfyui", options, facts)
    if not word and "no mark of ComfyUI" in facts:
        tell(f'warning: {options.latents}: tensor "latent_tensor" has the name that '
             "ComfyUI writes, but the file has no latent_format_version_0: it is taken "
             "as normalized, as the first files of ComfyUI were; if it is a later one, "
             "set normalization to comfyui")
    return word or facts.get("usual normalization")


def opened(options):
    """The latents and what their file states."""
    if not is_torch(options.latents):
        return open_latents(options.latents, options.tensor, tell)
    reading = {"batch_index": options.batch_index, "layout": options.layout or "auto",
               "latent_space": options.space}
    options.batch_index = options.layout = None  # what follows is one clip, cthw
    return open_torch(options.latents, options.tensor, tell, **reading)


def send_file(options):
    refuse_file(options.latents, options.target)
    array, facts = opened(options)
    tags, lost = tags_of(facts)
    tell_lost(options.latents, facts, lost)
    array = clip_of(options, array)
    if not finite(array):
        tell(f"{options.latents}: has numbers that are not finite, or too "
             "large for float32: all are sent")
    layout = layout_of(options, array, facts)
    size = tuple(stated(facts, f"vae.{side}", options.latents)
                 for side in ("width", "height"))
    fps = rate_of(options, facts)
    target = sys.stdout.buffer if options.target == "-" else options.target
    settings = {"space": stated_or("space", "latent_space", vaesend.NAME, vaesend.A_NAME,
                                   options, facts),
                "fps": fps, "normalization": normalization_of(options, facts),
                "temporal": options.temporal, "layout": layout,
                "size": size if all(size) else None,
                "picture": picture_of(facts), "tags": tags, "listen": options.listen,
                "retry": options.retry}
    # To open the target may make a file, or wait for a receiver.
    try:
        with open(os.devnull, "wb") as nothing, Sender(nothing, **settings) as sender:
            parts = list(vaesend.split(array, layout))
            sender.check(array, parts[0][0])
    except ValueError as error:
        raise ValueError(f"{options.latents}: {error}") from None
    sequences = sequences_of(options, facts, len(parts), sender)
    times = times_of(options, facts, len(parts)) or [None] * len(parts)
    try:
        with Sender(target, **settings) as sender:
            sender.layout_guessed = "layout guessed" in facts
            latents = zip(parts, times)
            for count, last in sequences:
                sender.restart()
                for i in range(count):
                    (shape, data), time = next(latents)
                    sender.send(Array(array.type, shape, data),
                                last if i + 1 == count else None, time)
            sender.close(wait=True)
    except BaseException:  # such as Ctrl-C
        if os.path.isfile(options.target):
            os.remove(options.target)  # which this program made
        raise
    tell(f"{counted(sender.latents, 'latent')}, "
         f"{counted(sender.frame, 'frame')}")


def receive(target, command):
    """Waits for a sender, then executes the command, which reads from it."""
    link = vaesend.accept(target)
    os.dup2(link.fileno(), 0)
    os.execvp(command[0], command)


def frame_rate(text):
    if not re.fullmatch("0*[1-9][0-9]*(/0*[1-9][0-9]*)?", text):
        raise argparse.ArgumentTypeError(
            f"{text}: expected a whole number or a fraction, such as 24 or 30000/1001")
    return text


def in_options(words):
    """The words of an error, with the arguments of Sender as options."""
    words = re.sub(r'\blayout="(\w+)"', r"--layout \1", words)
    return re.sub(r"expected (space, or )?temporal and fps",
                  lambda found: "expected " + ("--space, or " if found[1] else "") +
                  "--temporal and --fps", words)


def text_of(error):
    """The words of an error, without the number of an OSError."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    return (f"{error.filename}: " if error.filename else "") + error.strerror


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="vaesend.py", usage="""vaesend.py [OPTION...] LATENTS TARGET
       vaesend.py --receive TARGET COMMAND...""",
        description="Sends a file of latents (.safetensors, .latent of "
        "ComfyUI, .npy; with the package gst_vae also .pt of PyTorch) to a receiver such as: gst-launch-1.0 tcpserversrc "
        "host=127.0.0.1 port=5000 ! gdpdepay ! vaedecode ! ...",
        epilog="TARGET is tcp://HOST:PORT, unix://PATH, the path of a named "
        "pipe (read by filesrc) or of a new file, or - for the standard output "
        "(read by fdsrc). --receive waits for a sender at TARGET, and then "
        "starts COMMAND, which reads the stream from its standard input. To "
        "receive from a Unix socket, run vaesend.py --receive unix://PATH "
        "gst-launch-1.0 fdsrc ! gdpdepay ! vaedecode ! ...")
    parser.add_argument("latents", metavar="LATENTS",
                        help="a file of latents")
    parser.add_argument("target", metavar="TARGET",
                        help="the place to send to, see below")
    parser.add_argument("--space", "--latent-space", metavar="NAME",
                        help="latent space, such as wan2.1")
    parser.add_argument("--fps", "--framerate", metavar="RATE", type=frame_rate,
                        help="frame rate of the video, such as 16 or 30000/1001")
    parser.add_argument("--normalization", choices=["auto", *vaesend.NORMALIZATIONS],
                        help="scale of the latents; auto (default): as their file states, "
                        "else normalized")
    parser.add_argument("--temporal", type=int, metavar="N",
                        help="frames of every latent after the first")
    parser.add_argument("--tensor", metavar="NAME",
                        help="name of the tensor in the file")
    parser.add_argument("--layout", choices=["auto", *LAYOUTS],
                        help="order of the dimensions of the tensor; auto (default): as "
                        "the file states, else by the shape")
    parser.add_argument("--batch-index", type=int, metavar="N",
                        help="index of the clip in a batch, from 0")
    parser.add_argument("--listen", action="store_true",
                        help="wait until the receiver connects (tcpclientsrc)")
    parser.add_argument("--retry", type=float, default=0, metavar="SECONDS",
                        help="repeat a failed connection for this time; "
                        "default: one attempt")
    return parser.parse_args(arguments)


def main(arguments):
    try:
        if arguments[:1] == ["--receive"] and len(arguments) > 2:
            receive(arguments[1], arguments[2:])
        send_file(parse(arguments))
    except (OSError, ValueError, TypeError) as error:
        tell(in_options(text_of(error)))
        return 1
    except KeyboardInterrupt:
        tell("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
