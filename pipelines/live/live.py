#!/usr/bin/python3
"""Decodes latents and serves a page with the pictures and the statistics."""

import argparse
import os
import re
import signal
import sys

PIPELINES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INT_MAX = 2**31 - 1  # of numbers in caps and properties
DEMO = os.path.join(PIPELINES, "demo")


def die(words):
    sys.exit("live.py: %s" % words)


def host_and_port(text):
    host, colon, port = text.rpartition(":")
    if not host or not colon:
        raise argparse.ArgumentTypeError("%s: expected HOST:PORT" % text)
    return host.strip("[]"), port_number(port, 1)


def port_number(text, least=0):
    if not re.fullmatch("[0-9]{1,5}", text) or not least <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(
            "port %s, expected %d to 65535" % (text, least))
    return int(text)


def value(text):
    if not text:
        raise argparse.ArgumentTypeError("expected a value")
    return text


def index(text):
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > INT_MAX:
        raise argparse.ArgumentTypeError(
            "%s: expected a whole number, 0 to %d" % (text, INT_MAX))
    return int(text)


def seed(text):
    if not re.fullmatch("[0-9]{1,20}", text) or int(text) >= 2 ** 64:
        raise argparse.ArgumentTypeError(
            "%s: expected a whole number, 0 to %d" % (text, 2 ** 64 - 1))
    return int(text)


def frame_rate(text):
    if not re.fullmatch("0*[1-9][0-9]*(/0*[1-9][0-9]*)?", text):
        raise argparse.ArgumentTypeError(
            "%s: expected a whole number or a fraction, such as 24 or 30000/1001" % text)
    if any(len(word) > 10 or int(word) > INT_MAX for word in text.split("/")):
        raise argparse.ArgumentTypeError("%s: expected numbers up to %d" % (text, INT_MAX))
    return text


# How to read latents: options that are properties of an element.
READING = (
    ("demux", "latent-space", {"metavar": "NAME", "type": value}, "latent space of a file that does not state "
     "it, such as wan2.1"),
    ("demux", "tensor", {"metavar": "NAME", "type": value}, "name of the tensor, if the file has several"),
    ("demux", "layout", {"choices": ("auto", "cthw", "tchw", "bcthw", "btchw")}, "order of the dimensions; auto "
     "(default): as the file states, else by the shape"),
    ("demux", "batch-index", {"metavar": "N", "type": index}, "clip of a batch, from 0"),
    ("demux", "framerate", {"metavar": "RATE", "type": frame_rate},
     "frame rate of the video, such as 24 or 30000/1001"),
    ("decode", "normalization", {"choices": ("auto", "normalized", "raw", "comfyui")},
     "scale of the latents; comfyui: the one that ComfyUI saves; auto (default): as the "
     "latents state"),
    ("decode", "variant", {"metavar": "NAME", "type": value}, "network of the WEIGHTS, if their shapes fit "
     "several"),
    ("decode", "tile-plan", {"choices": ("diffusers", "official")}, "tiles of latents "
     "of hunyuan1.0; default: diffusers"),
    ("decode", "seed", {"metavar": "N", "type": seed}, "seed of the noise of ltx2.5_diff; "
     "default: 0"),
)


def options():
    p = argparse.ArgumentParser(
        prog="live.py",
        description="Decodes latents, paced by their timestamps, and serves a page "
        "with the pictures, the speed, the memory and the queues. /metrics has "
        "the same values for Prometheus. Press Ctrl-C to end it. It also ends "
        "at the end of a stream that is not a file.",
    )
    p.add_argument(
        "latents",
        nargs="?",
        metavar="LATENTS",
        help="a file of latents, played in a loop; - for a stream of gdppay on "
        "the standard input; default: the bundled demo latents",
    )
    p.add_argument(
        "--from",
        dest="source",
        type=host_and_port,
        metavar="HOST:PORT",
        help="receives a stream of ... ! gdppay ! tcpserversink",
    )
    p.add_argument(
        "--model",
        type=value,
        action="append",
        default=[],
        metavar="WEIGHTS",
        help="the VAE to decode with; with several models of one latent space "
        "the page can switch between them; default: the installed model of the "
        "latent space, or for the demo latents both demo models",
    )
    for _, name, how, words in READING:
        p.add_argument("--" + name, help=words, **how)
    p.add_argument(
        "--host",
        type=value,
        default="127.0.0.1",
        help="address to serve at; 0.0.0.0 shows the page to the whole network, "
        "without a password (%(default)s)",
    )
    p.add_argument(
        "--port",
        type=port_number,
        default=8080,
        help="port to serve at; 0 selects a free one (%(default)s)",
    )
    p.add_argument(
        "--name",
        type=value,
        action="append",
        default=[],
        help="a further name by which browsers reach this host, such as that of "
        "a proxy",
    )
    o = p.parse_args()
    if o.source and o.latents:
        p.error("--from and a file exclude each other")
    words = vars(o)
    o.reading = {
        (element, name): words[name.replace("-", "_")]
        for element, name, _, _ in READING
        if words[name.replace("-", "_")] is not None
    }
    of_files = [name for element, name in o.reading if element == "demux"]
    if of_files and (o.source or o.latents == "-"):
        p.error("--%s is for files; the stream states its own" % of_files[0])
    return o


def tell(words):
    """Prints a message of an element, and the options for the properties that it
    names. Fields of caps have a type, as in variant=(string)hq."""
    print("live.py: %s" % words, file=sys.stderr)
    words = re.sub(r"[a-z-]*=\([^)]*\)", "", words)
    names = ["--" + name for name in ["model", *(row[1] for row in READING)]
             if re.search("%s=|set %s (to|of) |one with %s" % (name, name, name), words)]
    if names:
        print("live.py: set %s by the option%s %s; see --help" % (
            "it" if len(names) == 1 else "them", "s" * (len(names) > 1),
            " and ".join(names)), file=sys.stderr)


def find_plugin():
    """Selects the plugin of GST_PLUGIN_PATH, else of a build of this checkout."""
    names = ("GST_PLUGIN_PATH", "GST_PLUGIN_PATH_1_0")
    if any(os.environ.get(name) for name in names):
        return
    for build in ("build", "build-demo"):
        folder = os.path.join(os.path.dirname(PIPELINES), build, "gst")
        if os.path.exists(os.path.join(folder, "libgstvae.so")):
            os.environ["GST_PLUGIN_PATH_1_0"] = folder
            return


def check_files(o):
    if not o.source and not o.latents:
        o.latents = os.path.join(DEMO, "latents.safetensors")
        o.model = o.model or [
            os.path.join(DEMO, name + ".safetensors")
            for name in ("demo", "demo-tiny")
        ]
    for path in o.model + ([o.latents] if o.latents not in (None, "-") else []):
        if path in o.model and "," in path:
            continue  # ENCODER,DECODER: the element says which one is missing
        if not os.path.exists(path):
            die("%s: no such file" % path)
        if not os.access(path, os.R_OK):
            die("%s: cannot be read" % path)


def need_gi():
    try:
        import gi

        gi.require_version("Gst", "1.0")
        from gi.repository import Gst  # noqa: F401
    except (ImportError, ValueError) as e:
        die(
            "%s: install Debian's python3-gi and gir1.2-gstreamer-1.0, and run "
            "this with /usr/bin/python3" % e
        )


def on_signal(number, call):
    """Calls it in the main loop. Newer PyGObject has this function elsewhere."""
    import gi
    from gi.repository import GLib

    try:
        gi.require_version("GLibUnix", "2.0")
        from gi.repository import GLibUnix

        add = GLibUnix.signal_add
    except (ValueError, ImportError, AttributeError):
        add = GLib.unix_signal_add
    add(GLib.PRIORITY_HIGH, number, call)


def main():
    o = options()
    check_files(o)
    need_gi()  # after the options, so that --help does not need it
    from gi.repository import GLib, Gst

    import player
    import web

    find_plugin()
    Gst.init(None)
    loop = GLib.MainLoop()
    try:
        live = player.Player(o.latents, o.source, o.model, o.reading, tell)
    except player.Missing as e:
        die(e)
    try:
        server = web.Server((o.host, o.port), live, o.name)
    except OSError as e:
        hint = "; choose another with --port" if e.errno == 98 else ""
        die("%s, port %d: %s%s" % (o.host, o.port, e.strerror, hint))
    for number in (signal.SIGINT, signal.SIGTERM):
        on_signal(number, loop.quit)
    server.start()
    print("live.py: %s" % server.url(), flush=True)
    live.start(loop.quit)
    loop.run()
    live.stop()
    server.stop()
    if live.error:
        tell(live.error)
        sys.exit(1)


if __name__ == "__main__":
    main()
