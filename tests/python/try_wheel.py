"""Uses the installed package as a new user would, in the folder of this file. With the
argument cuda, the CUDA backend must work or tell that there is no driver or GPU."""
import os
import platform
import shutil
import subprocess
import sys

import gst_vae

os.chdir(os.path.dirname(os.path.abspath(__file__)))
vae = gst_vae.open(gst_vae.demo())
clip = gst_vae.Latents("latents.safetensors")
small = clip.latents.moved(1, 2, 3, 0).part(0, 2).moved(3, 0, 1, 2)
frames = vae.decode(small, backend="cpu")
assert frames.shape == (5, 240, 416, 3), frames
latents = vae.encode(frames, backend="cpu")
assert latents.shape == (16, 2, 30, 52), latents
assert not {"numpy", "torch"} & set(sys.modules)
said = subprocess.run([sys.executable, "-m", "gst_vae", "info", gst_vae.demo()], check=True,
                      capture_output=True, text=True).stdout
assert "seedvr2" in said, said
plays = "no GStreamer"
player = shutil.which("gst-launch-1.0")
if player:
    # The plugin finds the demo model beside it, and on Windows libvae in PATH.
    subprocess.run(
        [player, *"-q videotestsrc num-buffers=5 ! "
        "video/x-raw,width=64,height=48,framerate=16/1 ! vaeencode ! vaedecode ! "
        "filesink location=frames".split()], check=True, env={
            **os.environ, "GST_PLUGIN_PATH": gst_vae.plugin_path(),
            "PATH": os.path.dirname(gst_vae.tool_path()) + os.pathsep + os.environ["PATH"]})
    assert os.path.getsize("frames") > 0
    plays = "the plugin plays"
without_gpu = gst_vae.available("cuda")
if "cuda" in sys.argv and without_gpu:
    assert "there is no NVIDIA" in without_gpu, without_gpu
    plays += "; " + without_gpu
elif "cuda" in sys.argv:
    assert vae.decode(small, backend="cuda").shape == frames.shape
print(f"gst_vae {gst_vae.__version__}, Python {platform.python_version()}, "
      f"{' '.join(platform.libc_ver())}: {plays}")
