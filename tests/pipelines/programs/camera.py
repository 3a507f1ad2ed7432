"""Records two seconds of latents with camerabin.

usage: camera.py OUT

Exits with 77 if PyGObject or the types of gst-plugins-base are missing.
"""
import sys

try:
    import gi
    gi.require_version("Gst", "1.0")
    gi.require_version("GstPbutils", "1.0")
    from gi.repository import GLib, Gst, GstPbutils
except (ImportError, ValueError):
    sys.exit(77)


def source(text):
    return Gst.parse_bin_from_description(text, True)


def profile():
    box = GstPbutils.EncodingContainerProfile.new(
        "latents", None, Gst.Caps.from_string("application/x-safetensors"),
        None)
    box.add_profile(GstPbutils.EncodingVideoProfile.new(
        Gst.Caps.from_string("video/x-vae-latent"), None, None, 0))
    return box


def camera(out):
    video = Gst.ElementFactory.make("wrappercamerabinsrc")
    video.set_property("video-source", source(
        "videotestsrc is-live=true ! capsfilter "
        "caps=video/x-raw,width=64,height=64,framerate=16/1"))
    camera_bin = Gst.ElementFactory.make("camerabin")
    for name, value in (
            ("camera-source", video),
            ("audio-source", source("audiotestsrc is-live=true")),
            ("viewfinder-sink", Gst.ElementFactory.make("fakesink")),
            ("mode", 2), ("video-profile", profile()), ("location", out)):
        camera_bin.set_property(name, value)
    return camera_bin


def main():
    Gst.init(None)
    loop = GLib.MainLoop()
    camera_bin = camera(sys.argv[1])
    failed = []

    def on_message(_, message):
        if message.type == Gst.MessageType.ERROR:
            failed.append(message.parse_error()[0].message)
            loop.quit()
        elif message.type == Gst.MessageType.ELEMENT and \
                message.get_structure().get_name() == "video-done":
            loop.quit()

    def after(seconds, call, *words):
        GLib.timeout_add(1000 * seconds, lambda: call(*words) and False)

    def give_up():
        failed.append("the recording does not end")
        loop.quit()

    bus = camera_bin.get_bus()
    bus.add_signal_watch()
    bus.connect("message", on_message)
    camera_bin.set_state(Gst.State.PLAYING)
    after(2, camera_bin.emit, "start-capture")
    after(4, camera_bin.emit, "stop-capture")
    after(120, give_up)
    loop.run()
    camera_bin.set_state(Gst.State.NULL)
    sys.exit(failed[0] if failed else 0)


main()
