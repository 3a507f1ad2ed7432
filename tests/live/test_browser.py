"""The live page in a headless browser, light, dark and on a phone.

test_browser.py SOURCE BUILD [FOLDER]

FOLDER receives screenshots.
"""

import os
import sys
import tempfile

import browser
from served import Live, MODELS, check, make_latents, need_modules, skip

SIZES = (
    ("light", 1280, 860, False),
    ("dark", 1280, 860, True),
    ("phone", 390, 844, False),
)


def text(page, name):
    return page.value("document.getElementById('%s').textContent" % name)


def numbers(page):
    """The page shows what the program sends."""
    page.until("Number(document.getElementById('fps').textContent) > 0")
    page.until("Number(document.getElementById('latency').textContent) > 0")
    page.until("document.getElementById('size').textContent.includes('×')")
    check(text(page, "size") == "64 × 48", "the picture, 64x48, is shown")
    check(text(page, "state") == "playing", "playing")
    bars = page.value(
        "[...document.querySelectorAll('#memory .bar-text')]"
        ".map(e => e.firstChild.textContent).join()"
    )
    check(
        bars == "weights,carries,activations,scratch,staging,library,ops",
        "seven memory bars",
    )
    page.until(
        "document.querySelector('#fps-line polyline')"
        ".getAttribute('points').split(' ').length > 3"
    )
    check(True, "a line of the speed")


def fits(page, width):
    check(
        page.value("document.documentElement.scrollWidth") <= width,
        "as wide as the window",
    )
    wrong = page.value(
        "performance.getEntriesByType('resource').map(r => r.name)"
        ".filter(n => !n.startsWith(location.origin) && !n.startsWith('data:'))"
        ".join()"
    )
    check(wrong == "", "nothing is loaded from elsewhere")


def controls(page):
    page.value("document.getElementById('play').click()")
    page.until("document.getElementById('state').textContent === 'paused'")
    check(text(page, "play") == "Play", "the button pauses")
    page.value("document.getElementById('play').click()")
    page.until("document.getElementById('state').textContent === 'playing'")
    for name in ("demo", "demo-tiny"):
        button = "document.querySelector('#models [data-key=\"%s\"]')" % name
        page.value(button + ".click()")
        page.until(button + ".getAttribute('aria-pressed') === 'true'")
    check(True, "the buttons switch the model")


def look(live, name, width, height, dark, folder):
    page = browser.Browser(width, height, dark)
    try:
        page.open(live.url)
        numbers(page)
        fits(page, width)
        back = page.value("getComputedStyle(document.body).backgroundColor")
        check((sum(map(int, back[4:-1].split(","))) < 200) == dark, name)
        if name == "light":
            controls(page)
        if folder:
            page.screenshot(os.path.join(folder, name + ".png"))
    finally:
        page.close()


def lost(live):
    """The program ends while a page looks at it."""
    page = browser.Browser(800, 600, False)
    try:
        page.open(live.url)
        page.until("document.getElementById('state').textContent === 'playing'")
        status, words = live.end()
        check(status == 0 and words == "", "Ctrl-C with a page open")
        page.until("document.getElementById('state').dataset.state === 'lost'")
        check(True, "the page says that the connection is lost")
    finally:
        page.close()


def main():
    need_modules()
    if not browser.find():
        skip("no chromium: sh tests/deps.sh browser")
    out = sys.argv[3] if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as folder:
        latents = os.path.join(folder, "clip.safetensors")
        make_latents(latents, fps=16)
        live = Live("--model", MODELS[0], "--model", MODELS[1], latents)
        try:
            for size in SIZES:
                look(live, *size, out)
            lost(live)
        finally:
            if live.process.poll() is None:
                live.process.kill()
                live.process.wait()


main()
