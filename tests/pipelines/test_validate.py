"""Scenarios of gst-validate on a file of latents. One that fails there and
passes on the same clip as VP8 is a failure.

usage: test_validate.py SOURCE BUILD quick|slow [SCENARIO...]

Exits with 77 where gst-validate-1.0 is not in PATH; tests/gst_validate.sh
builds it.
"""
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD, WHICH = sys.argv[1:4]
MODEL = os.path.join(SOURCE, "pipelines", "demo", "demo.safetensors")
SECONDS = 8
# Not all that gst-validate has: those that need sound, subtitles or a server,
# and those for clips of minutes, are left out.
SCENARIOS = {
    "quick": ["trick_modes", "fast_forward", "seek_forward", "simple_seeks",
              "change_state_intensive"],
    "slow": ["trick_mode_seeks", "scrub_forward_seeking",
             "scrub_backward_seeking", "seek_backward", "seek_with_stop",
             "reverse_playback", "pause_resume", "play_5s"],
}
SINK = "videoconvert ! fakevideosink"


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def make_clips(folder):
    """The same moving picture as latents and as VP8."""
    latents = os.path.join(folder, "clip.safetensors")
    vp8 = os.path.join(folder, "clip.webm")
    queue = "queue max-size-buffers=0 max-size-bytes=0 max-size-time=0"
    text = (f"videotestsrc pattern=ball num-buffers={16 * SECONDS + 1} ! "
            "video/x-raw,width=64,height=48,framerate=16/1 ! tee name=t ! "
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


def failure(scenario, pipeline):
    """None, or the text of the failure."""
    done = run("gst-validate-1.0", "--set-scenario=" + scenario,
               *pipeline.split())
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.decode(errors="replace").split("\n")
             if not line.startswith("<position")]
    return f"exit status {done.returncode}\n" + "\n".join(lines[-40:])


def main():
    if not shutil.which("gst-validate-1.0"):
        print("skipped: gst-validate-1.0 is not in PATH; Debian has no package "
              "of it, tests/gst_validate.sh builds it")
        return 77
    here = os.path.join(SOURCE, "tests", "pipelines")
    known = os.environ.get("GST_VALIDATE_SCENARIOS_PATH")
    os.environ["GST_VALIDATE_SCENARIOS_PATH"] = \
        f"{known}:{here}" if known else here
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        latents, vp8 = make_clips(folder)
        for name in sys.argv[4:] or SCENARIOS[WHICH]:
            why = failure(name, latents)
            word = "ok"
            if why and failure(name, vp8):
                word = "passes on neither"
            elif why:
                failed += 1
                word = "FAILED, but passes on VP8"
            print(name + ": " + word + ("\n" + why if why else ""), flush=True)
    return 1 if failed else 0


sys.exit(main())
