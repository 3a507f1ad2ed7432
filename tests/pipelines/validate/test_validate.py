"""Runs scenarios of gst-validate on a file of latents. The test fails if a scenario
fails or gives a report with latents, but not with the same clip as VP8.

usage: test_validate.py SOURCE BUILD quick|slow [SCENARIO...]

Exits with 77 if gst-validate-1.0 is not in PATH. tests/gst_validate.sh builds it.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD, WHICH = sys.argv[1:4]
MODEL = os.path.join(SOURCE, "pipelines", "demo", "demo.safetensors")
SECONDS = 8
# Scenarios that need sound, subtitles or a server are left out.
SCENARIOS = {
    "quick": ["trick_modes", "fast_forward", "seek_forward", "simple_seeks",
              "change_state_intensive"],
    "slow": ["trick_mode_seeks", "scrub_forward_seeking",
             "scrub_backward_seeking", "scrub_forward_seeking_full",
             "scrub_backward_seeking_full", "seek_backward",
             "seek_with_stop", "seek_forward_backward", "reverse_playback",
             "fast_backward", "alternate_fast_backward_forward",
             "update_start", "update_stop", "force_key_unit", "pause_resume",
             "play_5s", "play_15s"],
}
# gst-validate compares the time at which an event arrived with the times of the
# buffers that leave before it. It assumes that time runs forward, so backward it
# reports each element that has a queue.
BACKWARD = {"reverse_playback", "fast_backward",
            "alternate_fast_backward_forward", "trick_modes"}
KNOWN = "a serialized event received should be pushed in the same 'time'"
REPORT = re.compile(r" *(?:critical|warning|issue) : (.*)")
# The scenario seeks beyond the end of a short clip, so it gets a clip of 61 seconds
# with one frame a second. alternate_fast_backward_forward would need a clip of 470
# seconds, but keeps the short one: it plays at 32 times the speed, and on a busy
# machine the sink would warn of late frames.
LONG = {"seek_forward_backward": 61}
# These scenarios need an encoder. A queue makes VP8 as asynchronous as vaeencode.
ENCODERS = {"force_key_unit"}
# With QoS events, a busy machine would make elements drop frames, also the last one, for
# whose time a scenario waits, and vaedecode warn that it is slow.
SINK = "videoconvert ! fakevideosink qos=false"
VIDEO = "video/x-raw,width=64,height=48"


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def encoders():
    source = f"videotestsrc num-buffers=65 ! {VIDEO},framerate=16/1"
    return (f"{source} ! vaeencode model={MODEL} ! fakesink sync=true",
            f"{source} ! vp8enc deadline=1 ! queue ! fakesink sync=true")


def make_clips(folder, frames=16 * SECONDS + 1, rate="16/1"):
    """Writes the same moving picture as latents and as VP8."""
    latents = os.path.join(folder, "clip.safetensors")
    vp8 = os.path.join(folder, "clip.webm")
    queue = "queue max-size-buffers=0 max-size-bytes=0 max-size-time=0"
    text = (f"videotestsrc pattern=ball num-buffers={frames} ! "
            f"{VIDEO},framerate={rate} ! tee name=t ! "
            f"{queue} ! vaeencode model={MODEL} ! latentmux ! "
            f"filesink location={latents} t. ! {queue} ! "
            "vp8enc deadline=1 keyframe-max-dist=16 ! webmmux ! "
            f"filesink location={vp8}")
    made = run("gst-launch-1.0", "-q", *text.split())
    if made.returncode != 0:
        sys.exit(made.stdout.decode(errors="replace"))
    return (f"filesrc location={latents} ! latentdemux ! "
            f"vaedecode model={MODEL} ! {SINK}",
            f"filesrc location={vp8} ! matroskademux ! vp8dec ! {SINK}")


class Result:
    """The exit status, the reports and the text of one scenario."""

    def __init__(self, scenario, pipeline):
        done = run("gst-validate-1.0", "--set-scenario=" + scenario,
                   *pipeline.split())
        text = done.stdout.decode(errors="replace")
        lines = [line for line in text.split("\n")
                 if not line.startswith("<position")]
        self.status = done.returncode
        self.text = "\n".join(lines[-40:])
        self.reports = {found.group(1) for found in map(REPORT.match, lines)
                        if found}
        if scenario in BACKWARD:
            self.reports = {report for report in self.reports
                            if not report.startswith(KNOWN)}

    def passed(self):
        return self.status == 0 and not self.reports

    def no_worse_than(self, other):
        return (self.status == 0 or other.status != 0) and \
            self.reports <= other.reports


def main():
    if not shutil.which("gst-validate-1.0"):
        print("skipped: gst-validate-1.0 is not in PATH; Debian has no package "
              "of it, tests/gst_validate.sh builds it")
        return 77
    here = os.path.dirname(os.path.abspath(__file__))
    known = os.environ.get("GST_VALIDATE_SCENARIOS_PATH")
    os.environ["GST_VALIDATE_SCENARIOS_PATH"] = \
        f"{known}:{here}" if known else here
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        short = make_clips(folder)
        for name in sys.argv[4:] or SCENARIOS[WHICH]:
            if name in ENCODERS:
                ours, vp8 = encoders()
            elif name in LONG:
                long = os.path.join(folder, name)
                os.mkdir(long)
                ours, vp8 = make_clips(long, LONG[name], "1/1")
            else:
                ours, vp8 = short
            result = Result(name, ours)
            word = "ok"
            if not result.passed():
                same = result.no_worse_than(Result(name, vp8))
                word = "as VP8" if same else "FAILED, unlike VP8"
                failed += not same
                word += f": exit status {result.status}\n{result.text}"
            print(f"{name}: {word}", flush=True)
    return 1 if failed else 0


sys.exit(main())
