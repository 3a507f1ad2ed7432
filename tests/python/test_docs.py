"""Runs each example of docs/python.md, in order."""
import contextlib
import io
import os
import re
import sys
import urllib.request

import small
from small import gst_vae

PAGE = sys.argv.pop()


class Docs(small.Test):
    def test_examples(self):
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        examples = re.findall(r"^```python *(\w*)\n(.*?)^```$", text, re.M | re.S)
        self.assertGreater(len(examples), 3)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        os.symlink(small.weights("wan21"), "wan2.1_vae.safetensors")
        small.write("latents.safetensors", "latent", small.tensor([16, 2, 4, 6]))
        names = {}
        for needs, code in examples:
            with self.subTest(code), contextlib.redirect_stdout(io.StringIO()):
                try:
                    __import__(needs or "sys")
                except ImportError:
                    continue
                try:
                    exec(compile(code, PAGE, "exec"), names)
                except gst_vae.PipelineError as error:
                    if "installed" not in str(error):
                        raise
        if "server" in names:
            self.ask(names["server"])

    def ask(self, server):
        address = f"http://127.0.0.1:{server.server_port}"
        with contextlib.redirect_stderr(io.StringIO()):  # its log
            with urllib.request.urlopen(address) as page:
                self.assertIn(b"moof", page.read())
        server.shutdown()
        server.server_close()

    def test_settings(self):
        self.assertIn("memory_limit", gst_vae.SETTINGS)
        with open(os.path.join(os.path.dirname(PAGE), "../engine/include/vae/stream.h"),
                  encoding="utf-8") as file:
            header = file.read()
        for name, text in gst_vae.SETTINGS.items():
            self.assertRegex(header, rf"\b{name}\b")
            self.assertRegex(text, r"^[A-Z].{10,}: [-\w]")


if __name__ == "__main__":
    small.main()
