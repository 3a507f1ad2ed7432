#!/usr/bin/env python3
"""Moves a playing stream of latents from one host to another.

The relay runs beside the source of the latents, and sends them to one host. A line
HOST:PORT on its standard input moves the stream. The old host decodes the latents that it
has and saves its carries, the state of the network. The new host loads them and continues
with the next latent; then the old host ends. If the new host refuses the carries, the old
host continues. No frame is lost or doubled, and the bytes are those of one host.

    move.py host --listen 5001 'vaedecode name=decode model=W precision=bf16 ! ... ! sink'
    move.py relay --listen 5000 --to HOST_A:5001
    vaesend.py clip.safetensors tcp://127.0.0.1:5000
"""
import argparse
import os
import select
import socket
import struct
import sys
import tempfile
import threading
import time

# Kinds of packets of GStreamer's data protocol, and two of our own.
BUFFER, CAPS = 1, 2
SAVE, LOAD = 0xFFFF, 0xFFFE
HEADER = 62


class Gone(ConnectionError):
    """The other end closed the connection."""


def say(text):
    print(f"move: {text}", file=sys.stderr, flush=True)


def receive(link, size, at_start=False):
    """Reads `size` bytes. at_start: b"" if the connection ends before the first one."""
    data = bytearray()
    while len(data) < size:
        part = link.recv(min(1 << 20, size - len(data)))
        if not part:
            if at_start and not data:
                return b""
            raise Gone("the connection ended within a packet")
        data += part
    return bytes(data)


def packet(link):
    """(kind, bytes) of the next packet, or None at the end."""
    header = receive(link, HEADER, at_start=True)
    if not header:
        return None
    kind, length = struct.unpack_from(">HI", header, 4)
    if header[0] != 1 or length > 1 << 31:
        raise Gone("the sender does not write GStreamer's data protocol 1.0")
    return kind, header + receive(link, length)


def own(kind, payload=b""):
    return struct.pack(">BBBBHI52x", 1, 0, 0, 0, kind, len(payload)) + payload


def listen(port, host):
    server = socket.create_server((host, port))
    say(f"listening on {host}:{server.getsockname()[1]}")
    return server


def connect(where):
    host, _, port = where.rpartition(":")
    try:
        link = socket.create_connection((host.strip("[]"), int(port)))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Gone(f"{where}: {why}") from None
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


class Relay:
    """Sends the packets of a source to one host, and to another one after a move."""

    def __init__(self, source, where):
        self.source, self.where = source, where
        self.headers = {}  # the newest packet of each kind but buffers, in order
        self.latents = 0
        self.link = connect(where)
        self.old = None  # (link, where, latents), until the new host has a frame
        self.held = []   # packets that the new host has and the old one would need

    def run(self):
        commands = [sys.stdin]
        while True:
            answer = [self.link] if self.old else []
            ready = select.select([self.source, *commands, *answer], [], [])[0]
            if self.old and self.link in ready:
                self.read_answer()
                continue
            if sys.stdin in ready:
                # readline() would keep a second line where select() does not see it.
                lines = os.read(sys.stdin.fileno(), 4096)
                if not lines:
                    commands = []
                for where in lines.decode(errors="replace").split():
                    self.move(where)
                continue
            found = packet(self.source)
            if not found:
                break
            kind, data = found
            if kind == BUFFER:
                self.latents += 1
            else:
                self.headers[kind] = data
            if self.old:
                self.try_new(data)
            else:
                self.send(data)
        if self.old:
            self.link.shutdown(socket.SHUT_WR)
            self.read_answer()
        self.link.shutdown(socket.SHUT_WR)
        say(f"all {self.latents} latents have been sent")
        while self.link not in select.select([self.link, *commands], [], [])[0]:
            if os.read(sys.stdin.fileno(), 4096):
                say(f"not moved: {self.where} has all latents")
            else:
                commands = []
        self.link.recv(1)  # until the host is done

    def send(self, data):
        try:
            self.link.sendall(data)
        except OSError as error:
            raise Gone(f"{self.where}: {error.strerror}") from None

    def try_new(self, data):
        self.held.append(data)
        try:
            self.link.sendall(data)
        except OSError:
            self.read_answer()

    def read_answer(self):
        """With its first frame the new host says that it has loaded the carries."""
        try:
            answer, text = packet(self.link) or (None, b"")
            why = text[HEADER:].decode(errors="replace") or "it closed the connection"
        except OSError as error:
            answer, why = None, str(error)
        link, where, latents = self.old
        if answer == LOAD:
            say(f"moved after latent {latents} from {where} to {self.where}")
            link.close()
        else:
            say(f"not moved: {self.where} refused the carries: {why}")
            self.link.close()
            self.link, self.where = link, where
            self.send(b"".join(self.held))
        self.old, self.held = None, []

    def move(self, where):
        """If the new host or the save fails, the old host goes on."""
        if self.old:
            say(f"not moved: {self.where} has no frame yet since the move before")
            return
        try:
            link = connect(where)
            # The new host opens its stream meanwhile.
            link.sendall(b"".join(self.headers.values()))
        except OSError as error:
            say(f"not moved: {error}")
            return
        if not self.latents:
            say(f"moved before the first latent from {self.where} to {where}")
            self.link.close()
            self.link, self.where = link, where
            return
        begin = time.monotonic()
        self.send(own(SAVE))
        kind, data = packet(self.link) or (None, b"")
        if kind != LOAD:
            why = data[HEADER:].decode(errors="replace") or "it closed the connection"
            say(f"not moved: {self.where} did not save its carries: {why}")
            link.close()
            return
        saved = time.monotonic()
        self.old = self.link, self.where, self.latents
        self.link, self.where = link, where
        try:
            link.sendall(data)
        except OSError:
            self.read_answer()  # the new host has failed, and says why
            return
        say(f"carries for {where}: saved in {saved - begin:.3f} s, sent {len(data)} "
            f"bytes in {time.monotonic() - saved:.3f} s")


class Host:
    """A pipeline that decodes the latents of one connection."""

    def __init__(self, pipeline):
        import gi
        gi.require_version("Gst", "1.0")
        from gi.repository import Gst
        Gst.init(None)
        self.gst = Gst
        read, self.write = os.pipe()
        self.pipeline = Gst.parse_launch(f"fdsrc fd={read} ! gdpdepay ! {pipeline}")
        self.decode = self.pipeline.get_by_name("decode")
        if not self.decode:
            raise ValueError(f'no element "decode" in the pipeline: {pipeline}')
        self.decode.set_property("checkpoint-carries", True)
        self.sent, self.arrived = 0, 0
        self.change = threading.Condition()
        # After the queue of the pad the element has the latent.
        self.decode.get_static_pad("sink").add_probe(
            Gst.PadProbeType.BUFFER, self.on_buffer)
        self.decode.get_static_pad("src").add_probe(
            Gst.PadProbeType.BUFFER, self.on_frame)
        self.loading = None  # the connection, until the relay knows of the carries
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "carries")
        self.failed = self.warning = None
        self.saved = None  # or whether the checkpoint was written
        threading.Thread(target=self.watch, daemon=True).start()
        self.done = threading.Event()
        self.pipeline.set_state(Gst.State.PLAYING)

    def on_buffer(self, *_):
        with self.change:
            self.arrived += 1
            self.change.notify_all()
        return self.gst.PadProbeReturn.OK

    def watch(self):
        """The messages of the pipeline."""
        types = self.gst.MessageType
        bus = self.pipeline.get_bus()
        while True:
            message = bus.timed_pop_filtered(
                self.gst.CLOCK_TIME_NONE,
                types.ERROR | types.EOS | types.ELEMENT | types.WARNING)
            with self.change:
                if message.type == types.WARNING:
                    self.warning = message.parse_warning()[0].message
                    say(self.warning)
                elif message.type == types.ERROR:
                    self.failed = self.failed or message.parse_error()[0].message
                elif message.type == types.ELEMENT:
                    found = message.get_structure()
                    if found.get_name() != "vae-checkpoint":
                        continue
                    self.saved = found.get_value("saved")
                self.change.notify_all()
            if message.type == types.ERROR:
                self.answer(SAVE, self.failed.encode())
            if message.type in (types.ERROR, types.EOS):
                self.done.set()

    def save(self):
        """The carries behind the last latent; raises ValueError."""
        with self.change:
            self.change.wait_for(lambda: self.failed or self.arrived >= self.sent)
        # The probe runs in front of the element, whose streaming thread still has the
        # latent. An empty event of our own travels behind it.
        self.wait_for_element()
        self.saved = None
        if not self.failed:
            self.decode.emit("save-checkpoint", self.path)
        with self.change:
            self.change.wait_for(lambda: self.failed or self.saved is not None)
        if self.failed or not self.saved:
            raise ValueError(self.failed or self.warning)
        with open(self.path, "rb") as file:
            return file.read()

    def hand_over(self, link):
        """Sends the carries, or why there are none. The stream goes on here unless the
        relay closes the connection."""
        try:
            link.sendall(own(LOAD, self.save()))
        except ValueError as error:
            link.sendall(own(SAVE, str(error).encode()))

    def answer(self, kind, payload=b""):
        """Tells the relay once whether the element has loaded the carries."""
        with self.change:
            link, self.loading = self.loading, None
        if link:
            try:
                link.sendall(own(kind, payload))
            except OSError:
                pass  # the relay is gone, which serve() finds out

    def on_frame(self, *_):
        self.answer(LOAD)
        return self.gst.PadProbeReturn.OK

    def wait_for_element(self):
        pad = self.decode.get_static_pad("sink")
        pad.query(self.gst.Query.new_drain())

    def serve(self, link):
        """Forwards packets to the pipeline until the stream ends or moves on."""
        carries_came = False
        try:
            while not self.failed and (found := packet(link)):
                kind, data = found
                if kind == LOAD:
                    with open(self.path, "wb") as file:
                        file.write(data[HEADER:])
                    self.decode.emit("load-checkpoint", self.path)
                    self.loading, carries_came = link, True
                elif kind == SAVE:
                    self.hand_over(link)
                else:
                    self.sent += kind == BUFFER
                    view = memoryview(data)
                    while view:
                        view = view[os.write(self.write, view):]
        finally:
            os.close(self.write)
        self.done.wait()
        self.pipeline.set_state(self.gst.State.NULL)
        if self.failed:
            # It may have failed before the carries came, while nothing was loading.
            if not carries_came:
                self.loading = link
            self.answer(SAVE, self.failed.encode())
            raise ValueError(self.failed)
        self.answer(LOAD)  # there was no frame


def main(arguments):
    parser = argparse.ArgumentParser(prog="move.py", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    roles = parser.add_subparsers(dest="role", required=True)
    relay = roles.add_parser("relay", help="beside the source of the latents")
    relay.add_argument("--to", required=True, metavar="HOST:PORT", help="the first host")
    host = roles.add_parser("host", help="decodes a part of the stream")
    host.add_argument("pipeline", metavar="PIPELINE",
                      help='the elements behind gdpdepay, with "vaedecode name=decode"')
    for one in (relay, host):
        one.add_argument("--listen", type=int, required=True, metavar="PORT",
                         help="port to listen on")
        one.add_argument("--address", default="127.0.0.1",
                         help="address to listen on; 0.0.0.0: all addresses")
    options = parser.parse_args(arguments)
    try:
        made = Host(options.pipeline) if options.role == "host" else None
        with listen(options.listen, options.address) as server:
            link, _ = server.accept()
        if made:
            made.serve(link)
        else:
            Relay(link, options.to).run()
        return 0
    except KeyboardInterrupt:
        say("interrupted")
    except ImportError as error:
        say(f"python3-gi and gir1.2-gstreamer-1.0 are missing ({error})")
    except Exception as error:  # GLib.Error is no subclass of these
        say(error)
    return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
