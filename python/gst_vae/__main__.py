"""python3 -m gst_vae is vaetool."""
import os
import sys

from . import tool_path

os.execv(tool_path(), ["vaetool", *sys.argv[1:]])
