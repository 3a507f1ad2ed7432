"""Statistics as text for Prometheus, version 0.0.4."""

from player import PURPOSES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Name, type, help, and key in the statistics.
NUMBERS = (
    ("slices_total", "counter", "Slices computed.", "slices"),
    ("steps_total", "counter", "Steps (latents) computed.", "steps"),
    ("frames_total", "counter", "Video frames decoded.", "frames"),
    (
        "dropped_frames_total",
        "counter",
        "Frames that came too late and were not converted.",
        "dropped",
    ),
    (
        "nonfinite_values_total",
        "counter",
        "NaN and infinite values among the latents.",
        "nonfinite",
    ),
    ("in_flight_steps", "gauge", "Steps in the decoder.", "in-flight"),
)

TIMES = (
    ("upload", "Time of a slice to put latents where the network reads them."),
    ("compute", "Time of a slice in the network."),
    ("download", "Time of a slice to make video frames of the result."),
    ("queue-wait", "Time that the first step of a slice waited."),
    ("slice", "Time of a whole slice."),
)


def quoted(value):
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        value = value.replace(plain, escaped)
    return '"%s"' % value


class Text:
    def __init__(self):
        self.lines = []

    def family(self, name, kind, words):
        self.lines.append("# HELP gstvae_%s %s" % (name, words))
        self.lines.append("# TYPE gstvae_%s %s" % (name, kind))

    def sample(self, name, value, **labels):
        inside = ",".join(
            "%s=%s" % (key, quoted(labels[key])) for key in sorted(labels)
        )
        self.lines.append(
            "gstvae_%s%s %s" % (name, "{%s}" % inside if inside else "", value)
        )

    def one(self, name, kind, words, value):
        self.family(name, kind, words)
        self.sample(name, value)


def seconds(ns):
    return repr(ns / 1e9)


def render(state, viewers):
    """The text for a state of the player."""
    stats = state["stats"]
    text = Text()
    text.family("info", "gauge", "Backend, device, precision and model; always 1.")
    text.sample(
        "info",
        1,
        backend=stats["backend"],
        device=stats["device"],
        precision=stats["precision"],
        model=state["model"],
    )
    for name, kind, words, key in NUMBERS:
        text.one(name, kind, words, stats[key])
    text.family(
        "latency_seconds",
        "gauge",
        "Time of a latent through the decoder, as the page shows it; NaN before "
        "the first frames and while nothing is decoded.",
    )
    latency = state["latency"]
    text.sample("latency_seconds", "NaN" if latency is None else repr(latency))
    for key, words in TIMES:
        name = key.replace("-", "_") + "_seconds"
        text.family(name, "summary", words)
        text.sample(name, seconds(stats["p95-%s-ns" % key]), quantile="0.95")
        text.sample(name + "_sum", seconds(stats["total-%s-ns" % key]))
        text.sample(name + "_count", stats["slices"])
    text.family("memory_bytes", "gauge", "Memory of the decoder by purpose.")
    for purpose in PURPOSES:
        text.sample("memory_bytes", stats["bytes-" + purpose], purpose=purpose)
    text.one(
        "spilled_bytes",
        "gauge",
        "State of the decoder in the memory of the host, not in memory_bytes.",
        stats["bytes-spilled"],
    )
    text.one(
        "waiting_frames",
        "gauge",
        "Decoded frames that wait for their time.",
        state["waiting_frames"],
    )
    text.one(
        "pictures_total",
        "counter",
        "Pictures made for the page.",
        state["pictures"],
    )
    text.one("viewers", "gauge", "Pages that show the pictures.", viewers)
    text.one(
        "playing", "gauge", "1 while playing, else 0.", int(state["playing"])
    )
    return "\n".join(text.lines) + "\n"
