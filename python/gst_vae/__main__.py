"""python3 -m gst_vae is vaetool."""
import os
import subprocess
import sys

from . import tool_path

if os.name == "nt":  # whose exec() does not wait for the program
    sys.exit(subprocess.call([tool_path(), *sys.argv[1:]]))
os.execv(tool_path(), ["vaetool", *sys.argv[1:]])
