"""What the engine reports: sentences for warnings and the log, plans, progress."""
import logging
import sys
import types
import warnings

from . import _engine

log = logging.getLogger("gst_vae")


class GstVaeWarning(UserWarning):
    """A request that is not met, or input that looks wrong."""


def callers_level():
    """The stacklevel of the code that called the package."""
    level, frame = 1, sys._getframe(1)
    while frame and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level


def say(stream, source=""):
    """Passes on what the engine has said since the last call. source: names the input,
    for doubts about it."""
    for kind, text in stream.lines():
        text = _engine.spell(text)
        if kind == "doubt" and source:
            text = f"{source}: {text}"
        if kind != "log":
            warnings.warn(text, GstVaeWarning, stacklevel=callers_level())
        else:
            log.info("%s", text)


class Report(types.SimpleNamespace):
    """Values with names. As text: one line each."""

    def __str__(self):
        return "\n".join(f"{name}: {value}" for name, value in vars(self).items())


def size(n):
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            break
        n, unit = n / 1024, "GiB"
    return f"{n:.4g} {unit}"


class Plan(Report):
    """The memory and the settings of a stream. ladder: the plans of all settings, the
    fastest first; chosen is true for one of them."""

    def __init__(self, values):
        ladder = values.pop("ladder", None)
        super().__init__(**values)
        if ladder is not None:
            self.ladder = [Plan(rung) for rung in ladder]

    def __str__(self):
        line = (f"{self.setting}: {size(self.total)} ({self.backend}, {self.precision}, "
                f"{self.threads} threads)")
        marks = [f"{'*' if rung.chosen else ' '} {rung.setting}: {size(rung.total)}"
                 for rung in getattr(self, "ladder", [])]
        return "\n".join([line, *marks])


class Progress:
    """Calls progress(done, total). True: shows a bar if tqdm is installed."""

    def __init__(self, progress, total, unit):
        self.call = progress if callable(progress) else None
        self.total, self.bar = total, None
        if progress is True:
            try:
                from tqdm.auto import tqdm
                self.bar = tqdm(total=total, unit=unit)
            except ImportError:
                log.info("progress=True shows a bar if tqdm is installed")
        elif progress and not self.call:
            raise TypeError(f"progress is {progress!r}, expected True or a function")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.bar is not None:
            self.bar.close()

    def at(self, done):
        if self.bar is not None:
            self.bar.update(done - self.bar.n)
        if self.call:
            self.call(done, self.total)
