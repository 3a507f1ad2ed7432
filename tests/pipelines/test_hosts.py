"""Sends latents between processes and hosts, over loopback. Receivers join late,
packets are lost, and connections break.

usage: test_hosts.py SOURCE BUILD [TEST...]
"""
import os
import queue
import socket
import struct
import sys
import threading
from time import sleep

import streams

streams.need_python("import gi, numpy\ngi.require_version('GstApp', '1.0')")
sys.path.insert(0, os.path.join(streams.PIPELINES, "examples"))

import decode_arrays
import numpy
from decode_file import Gst, check
from streams import FRAMES, HEIGHT, LATENTS, WIDTH

import vaesend
import vaesend_file

SPACE = "gst-vae-demo"
WHOLE = 4 * LATENTS - 3  # frames, if nothing states the length of the clip
TICK = Gst.SECOND // 90000 + 1  # RTP rounds times to this
LOCAL = "127.0.0.1"


class Receiver:
    """A pipeline that gives frames. Its error becomes an exception."""

    def __init__(self, pipeline):
        self.pipeline = Gst.parse_launch(
            f"{pipeline} ! vaedecode name=decode ! video/x-raw,format=RGB ! "
            "appsink name=sink sync=false")
        self.gaps = []
        self.pipeline.get_by_name("decode").get_static_pad("src").add_probe(
            Gst.PadProbeType.EVENT_DOWNSTREAM, self.see)
        self.pipeline.set_state(Gst.State.PLAYING)

    def see(self, _, info):
        if info.get_event().type == Gst.EventType.GAP:
            self.gaps.append(info.get_event().parse_gap())
        return Gst.PadProbeReturn.OK

    def frames(self, count=None):
        """Returns [(index by the PTS, DISCONT, bytes)] of `count` frames, or of all to
        the end of the stream."""
        found = []
        sink = self.pipeline.get_by_name("sink")
        while count is None or len(found) < count:
            sample = sink.try_pull_sample(Gst.SECOND // 10)
            if sample:
                buffer = sample.get_buffer()
                found.append((
                    round(buffer.pts * 16 / Gst.SECOND),
                    bool(buffer.get_flags() & Gst.BufferFlags.DISCONT),
                    buffer.extract_dup(0, buffer.get_size())))
                continue
            check(self.pipeline)
            if sink.is_eos():
                break
        return found

    def close(self):
        self.pipeline.set_state(Gst.State.NULL)


class Hosts(streams.Streams):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Gst.init(None)
        array, _ = vaesend_file.open_latents(cls.clip)
        cls.latents = numpy.frombuffer(array.data, "<f4").reshape(array.shape)
        cls.whole = cls.decode(range(LATENTS))

    @classmethod
    def decode(cls, latents):
        """Returns the frames of these latents as one sequence, not cropped."""
        return [frame.tobytes() for frame in decode_arrays.decode(
            (cls.latents[k] for k in latents), SPACE)]

    def receiver(self, pipeline):
        made = Receiver(pipeline)
        self.addCleanup(made.close)
        return made

    def assert_video(self, found, expected):
        """found: from Receiver.frames(). expected: the bytes of the frames."""
        self.assertEqual(len(found), len(expected))
        self.assertEqual([i for i, (_, _, data) in enumerate(found)
                          if data != expected[i]], [], "frames that differ")


class Server:
    """Sends single latents to a tcpserversink, and waits for clients."""

    def __init__(self, latents, **properties):
        self.pipeline = Gst.parse_launch(
            "appsrc name=src format=time ! gdppay ! tcpserversink name=sink "
            f"host={LOCAL} port=0 sync=false")
        self.latents = latents
        self.events = queue.Queue()
        sink = self.pipeline.get_by_name("sink")
        for name, value in properties.items():
            Gst.util_set_object_arg(sink, name.replace("_", "-"), str(value))
        for signal in ("client-added", "client-removed"):
            sink.connect(signal, lambda *_, signal=signal:
                         self.events.put(signal))
        self.source = self.pipeline.get_by_name("src")
        self.source.set_caps(decode_arrays.caps_of(latents[0], SPACE, 16))
        self.pipeline.set_state(Gst.State.PLAYING)
        # The sink listens from READY on. PLAYING would wait for a buffer.
        self.port = sink.props.current_port

    def push(self, *numbers, start=0):
        """Pushes these latents. Latent `start` begins a sequence."""
        for k in numbers:
            buffer = decode_arrays.wrap(self.latents[k % len(self.latents)],
                                        k, 16, 4)
            if k == start and k > 0:
                buffer.unset_flags(Gst.BufferFlags.DELTA_UNIT)
                buffer.duration = Gst.SECOND // 16
            self.source.push_buffer(buffer)

    def wait(self, event):
        while self.events.get() != event:
            pass

    def close(self):
        self.pipeline.set_state(Gst.State.NULL)


class Tcp(Hosts):
    def server(self, latents=None, **properties):
        made = Server(self.latents if latents is None else latents,
                      **properties)
        self.addCleanup(made.close)
        return made

    def client(self, server):
        made = self.receiver(
            f"tcpclientsrc host={LOCAL} port={server.port} ! gdpdepay")
        server.wait("client-added")
        return made

    def test_two_processes(self):
        port = streams.free_port()
        receiver = self.receiver(
            f"tcpserversrc host={LOCAL} port={port} ! gdpdepay")
        sender = streams.launch(
            f"filesrc location={self.clip} ! latentdemux ! gdppay ! "
            f"tcpclientsink host={LOCAL} port={port}")
        found = receiver.frames()
        self.finish(sender)
        self.assertEqual([i for i, _, _ in found], list(range(FRAMES)))
        self.assertEqual(b"".join(data for _, _, data in found), self.frames)

    def test_late_joiner(self):
        """A client joins after latents 0 to 2. Latent 3 then has no context, and gives
        only its last frame; the rest of its time is a GAP."""
        server = self.server()
        early = self.client(server)
        server.push(0, 1, 2)
        self.assertEqual(len(early.frames(9)), 9)
        late = self.client(server)
        server.push(3, 4, 5)
        found = late.frames(9)
        self.assertEqual([i for i, _, _ in found], list(range(12, 21)))
        self.assertEqual(late.gaps, [(9 * Gst.SECOND // 16,
                                      3 * Gst.SECOND // 16)])
        rest = early.frames(12)
        server.close()
        self.assertEqual([late.frames(), early.frames()], [[], []])
        self.assertEqual([i for i, _, _ in rest], list(range(9, 21)))
        self.assertEqual([data for _, _, data in rest], self.whole[9:])
        # This frame differs from the right one, because the context is missing.
        self.assertNotEqual(found[0][2], self.whole[12])

    def test_late_joiner_and_a_sequence(self):
        """From the next start of a sequence on, a late client gets the same bytes as
        all others."""
        server = self.server()
        early = self.client(server)
        server.push(0, 1, 2)
        self.assertEqual(len(early.frames(9)), 9)
        late = self.client(server)
        server.push(3, 4, 5, start=4)
        found = late.frames(6)
        self.assertEqual([i for i, _, _ in found], [12, 13, 17, 18, 19, 20])
        self.assert_video(found[1:], self.decode([4, 5]))
        self.assert_video(early.frames(9)[4:], self.decode([4, 5]))

    def test_client_that_reads_nothing(self):
        """A client that reads nothing does not delay the others. If there is a limit,
        the server removes it."""
        latent = numpy.zeros((16, 64, 64), "<f4")
        server = self.server([latent], buffers_max=3)
        with socket.socket() as deaf, socket.socket() as good:
            for client in (deaf, good):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect((LOCAL, server.port))
                server.wait("client-added")
            k = 0
            with good.makefile("rb") as stream:
                while server.events.empty():
                    server.push(k)
                    while self.next_packet(stream) != vaesend.BUFFER:
                        pass
                    k += 1
            self.assertEqual(server.events.get(), "client-removed")

    @staticmethod
    def next_packet(stream):
        kind, length = struct.unpack_from(">4xHI", stream.read(62))
        assert len(stream.read(length)) == length
        return kind

    def test_again(self):
        """A client that disconnects disturbs neither the server nor other clients. When
        it connects again, it is a new client."""
        server = self.server()
        other, client = self.client(server), self.client(server)
        server.push(0, 1)
        self.assertEqual(len(client.frames(5)), 5)
        client.close()
        server.push(2, 3)
        server.wait("client-removed")
        self.assertEqual(len(other.frames(13)), 13)  # all frames so far
        client = self.client(server)
        server.push(4, 5)
        self.assertEqual([i for i, _, _ in client.frames(5)],
                         list(range(16, 21)))


class Broken(Hosts):
    """The sender ends in the middle of a latent."""

    def stream(self):
        with vaesend.Sender(self.path("whole.gdp"), SPACE) as sender:
            for latent in self.latents:
                sender.send(latent)
        return self.read(self.path("whole.gdp"))

    def received(self, data, reset):
        with socket.socket() as listener:
            listener.bind((LOCAL, 0))
            listener.listen(1)
            receiver = self.receiver(
                f"tcpclientsrc host={LOCAL} port={listener.getsockname()[1]} "
                "! gdpdepay")
            link, _ = listener.accept()
        with link:
            link.sendall(data)
            found = receiver.frames(9)  # of latents 0 to 2
            if reset:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                struct.pack("ii", 1, 0))
        return found + receiver.frames()

    def test_closed(self):
        """A closed connection ends the stream, after the frames of whole latents."""
        data = self.stream()
        cut = len(data) - 62 - 1000  # in the last latent
        found = self.received(data[:cut], False)
        self.assert_video(found, self.whole[:WHOLE - 4])

    def test_reset(self):
        """A reset connection, such as after a restart of the host, is an error."""
        data = self.stream()
        with self.assertRaisesRegex(RuntimeError, "tcpclientsrc.*(reset|error state)"):
            self.received(data[:len(data) - 1062], True)

    def test_garbage(self):
        data = self.stream()
        with self.assertRaisesRegex(RuntimeError, "gdpdepay"):
            self.received(data[:-62] + bytes(4000), False)


class Relay(threading.Thread):
    """Forwards UDP packets, except those for which lose(latent, packet) is true. Delays
    every other latent by `late` seconds. Packets of one latent have the same time."""

    def __init__(self, port, lose, late):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((LOCAL, 0))
        self.port = self.socket.getsockname()[1]
        self.to, self.lose, self.lost = (LOCAL, port), lose, 0
        self.late = late

    def run(self):
        latent, packet, time = -1, 0, None
        while True:
            data = self.socket.recv(65536)
            if not data:
                return
            now = struct.unpack_from(">I", data, 4)[0]
            packet = packet + 1 if now == time else 0
            latent += now != time
            time = now
            if packet == 0 and latent % 2 == 0:
                sleep(self.late)
            if self.lose(latent, packet):
                self.lost += 1
            else:
                self.socket.sendto(data, self.to)

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (LOCAL, self.port))
        self.join()
        self.socket.close()


class Rtp(Hosts):
    RTP = ("application/x-rtp,media=application,clock-rate=90000,"
           "encoding-name=X-GST")

    def played(self, lose, frames, late=0):
        port = streams.free_port(socket.SOCK_DGRAM)
        receiver = self.receiver(
            f"udpsrc address={LOCAL} port={port} caps={self.RTP} ! "
            "rtpjitterbuffer mode=none do-lost=true ! rtpgstdepay")
        relay = Relay(port, lose, late)
        relay.start()
        sender = streams.launch(
            f"filesrc location={self.clip} ! latentdemux ! rtpgstpay mtu=1000 "
            f"! udpsink host={LOCAL} port={relay.port} sync=true")
        found = receiver.frames(frames)
        self.finish(sender)
        relay.close()
        start = found[0][0]
        return [(i - start, discont, data) for i, discont, data in found], \
            receiver, relay.lost

    def test_whole(self):
        found, _, lost = self.played(lambda latent, packet: False, FRAMES)
        self.assertEqual(lost, 0)
        self.assertEqual(b"".join(data for _, _, data in found), self.frames)
        self.assertEqual([i for i, _, _ in found], list(range(FRAMES)))

    def test_late(self):
        """Frames have the times of the sender, whenever the latents arrive."""
        found, _, _ = self.played(lambda latent, packet: False, FRAMES, 0.15)
        self.assertEqual([i for i, _, _ in found], list(range(FRAMES)))

    def test_one_packet_lost(self):
        """Latent 2 is lost, and has no frames. Latent 3 is DISCONT and has no context,
        so it gives only its last frame, which is also DISCONT."""
        found, receiver, lost = self.played(
            lambda latent, packet: latent == 2 and packet == 1, 10)
        self.assertEqual(lost, 1)
        self.assertEqual([i for i, _, _ in found],
                         [0, 1, 2, 3, 4] + [12, 13, 14, 15, 16])
        self.assertEqual([discont for _, discont, _ in found],
                         [True] + [False] * 4 + [True] + [False] * 4)
        frame = WIDTH * HEIGHT * 3
        self.assertEqual(b"".join(data for _, _, data in found[:5]),
                         self.frames[:5 * frame])
        own = receiver.gaps[-1]
        self.assertAlmostEqual(own[1], 3 * Gst.SECOND // 16, delta=TICK)


class Srt(Hosts):
    def test_srt(self):
        """SRT carries bytes. The sender ends only after the receiver has all."""
        port = streams.free_port(socket.SOCK_DGRAM)
        receiver = self.receiver(
            f"srtsrc uri=srt://{LOCAL}:{port}?mode=listener ! gdpdepay")
        sender = streams.launch(
            f"fdsrc blocksize=1316 ! srtsink uri=srt://{LOCAL}:{port}",
            stdin=-1)
        link = vaesend.Sender(sender.stdin, SPACE)
        for latent in self.latents:
            link.send(latent)
        self.assert_video(receiver.frames(WHOLE), self.whole)
        link.close()
        self.finish(sender)


if __name__ == "__main__":
    if not streams.has("srtsrc"):
        del Srt
    streams.main("gdppay", "tcpserversink", "rtpgstpay", "udpsrc", "vaedecode")
