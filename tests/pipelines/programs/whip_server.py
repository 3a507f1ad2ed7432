"""A server of WebRTC that takes one client by WHIP. It writes the frames that it gets into a
file, and ends after DELETE.

usage: whip_server.py PORT FILE
"""
import http.server
import os
import sys
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstSdp", "1.0")
gi.require_version("GstWebRTC", "1.0")
from gi.repository import Gst, GstSdp, GstWebRTC


class Whip(http.server.BaseHTTPRequestHandler):
    def answer(self, status, text=b""):
        self.send_response(status)
        self.send_header("Content-Type", "application/sdp")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Location", "/session")
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(201, self.server.accept(text.decode()).encode())

    def do_DELETE(self):
        while not os.path.exists(self.server.file):  # a jitter buffer keeps frames
            time.sleep(0.05)
        self.server.pipeline.set_state(Gst.State.NULL)
        self.answer(200)
        self.server.live = False


class Server(http.server.HTTPServer):
    live = True

    def __init__(self, port, file):
        super().__init__(("127.0.0.1", port), Whip)
        self.file, self.pipeline = file, Gst.Pipeline()
        self.rtc = Gst.ElementFactory.make("webrtcbin")
        self.pipeline.add(self.rtc)
        self.rtc.connect("pad-added", self.write)
        self.pipeline.set_state(Gst.State.PLAYING)

    def write(self, _, pad):
        rest = Gst.parse_bin_from_description(
            "rtpvp8depay ! vp8dec ! filesink buffer-mode=unbuffered "
            f"location={self.file}", True)
        self.pipeline.add(rest)
        rest.sync_state_with_parent()
        pad.link(rest.get_static_pad("sink"))

    def ask(self, signal, argument):
        promise = Gst.Promise.new()
        self.rtc.emit(signal, argument, promise)
        promise.wait()
        return promise

    def accept(self, offer):
        """Returns the answer, with all candidates, to an offer."""
        _, sdp = GstSdp.SDPMessage.new_from_text(offer)
        self.ask("set-remote-description", GstWebRTC.WebRTCSessionDescription.new(
            GstWebRTC.WebRTCSDPType.OFFER, sdp))
        promise = self.ask("create-answer", None)
        reply = promise.get_reply()  # owns the answer
        self.ask("set-local-description", reply.get_value("answer"))
        complete = GstWebRTC.WebRTCICEGatheringState.COMPLETE
        while self.rtc.get_property("ice-gathering-state") != complete:
            time.sleep(0.05)
        return self.rtc.get_property("local-description").sdp.as_text()


Gst.init(None)
server = Server(int(sys.argv[1]), sys.argv[2])
while server.live:
    server.handle_request()
