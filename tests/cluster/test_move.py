"""A stream that moves between hosts: three processes over TCP on the loopback."""
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest.mock

import clips
from clips import CLUSTER, DEMO, SOURCE, TINY

sys.path.insert(0, os.path.join(SOURCE, "tests/pipelines"))
import streams

streams.need_python("import gi\ngi.require_version('Gst', '1.0')")

import move
import vaesend
import vaesend_file

MOVE = os.path.join(CLUSTER, "move.py")
FRAME = 48 * 32 * 3


class Process:
    """A move.py, with its messages."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, MOVE, *arguments], text=True,
                                        stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = []
        self.change = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.port = self.wait_for("listening on").rpartition(":")[2].strip()

    def read(self):
        for line in self.process.stderr:
            with self.change:
                self.said.append(line)
                self.change.notify_all()
        with self.change:
            self.said.append(None)
            self.change.notify_all()

    def wait_for(self, text, times=1):
        """The first line with this text, when there are so many of them; "" if the
        process ends before."""
        with self.change:
            self.change.wait_for(lambda: None in self.said or sum(
                text in line for line in self.said) >= times)
            return next((line for line in self.said if line and text in line), "")

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ended(self):
        self.process.stdin.close()
        self.reader.join()
        return self.process.wait()


class Move(clips.Clips):
    LATENTS = 24

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        array, _ = vaesend_file.open_latents(cls.clip)
        size = len(array.data) // cls.LATENTS
        cls.latents = [vaesend.Array(array.type, array.shape[1:],
                                     bytes(array.data[k * size:(k + 1) * size]))
                       for k in range(cls.LATENTS)]

    def host(self, name, model=DEMO, more="", precision="fp32"):
        made = Process("host", "--listen", "0",
                       f"vaedecode name=decode model={model} precision={precision} "
                       f"threads=1 slice-size=1 {more} ! video/x-raw,format=RGB ! "
                       f"filesink location={self.path(name)} buffer-mode=unbuffered "
                       "sync=false")
        self.addCleanup(made.process.kill)
        return made

    def relay(self, first):
        made = Process("relay", "--listen", "0", "--to", f"127.0.0.1:{first.port}")
        self.addCleanup(made.process.kill)
        return made

    def send(self, relay, moves):
        """Sends the clip. moves: {latent: a move before it}."""
        with vaesend.Sender(f"tcp://127.0.0.1:{relay.port}", "gst-vae-demo", fps=16,
                            channels=16, temporal=4) as sender:
            for k, latent in enumerate(self.latents):
                if k in moves:
                    moves[k]()
                sender.send(latent)

    def wait_for_frames(self, host, name, count):
        while (host.process.poll() is None and
               clips.size(self.path(name)) < count * FRAME):
            time.sleep(0.01)

    def frames(self, *names):
        return b"".join(clips.read(self.path(name)) for name in names)

    def one_host(self):
        if not hasattr(Move, "right"):
            one = self.host("one")
            relay = self.relay(one)
            self.send(relay, {})
            self.assertEqual((one.ended(), relay.ended()), (0, 0), one.said + relay.said)
            Move.right = self.frames("one")
            self.assertEqual(len(Move.right), FRAME * (4 * self.LATENTS - 3))
        return Move.right

    def test_moves_twice(self):
        hosts = [self.host(name) for name in "abc"]
        relay = self.relay(hosts[0])

        def move(to, old, frames):
            def now():
                self.wait_for_frames(hosts[to - 1], old, frames)
                relay.tell(f"127.0.0.1:{hosts[to].port}")
                relay.wait_for("carries for", to)
                self.assertNotIn("not moved", "".join(relay.said))
            return now

        self.send(relay, {7: move(1, "a", 25), 15: move(2, "b", 32)})
        codes = [p.ended() for p in (*hosts, relay)]
        self.assertEqual(codes, [0] * 4, [p.said for p in (*hosts, relay)])
        self.assertTrue(self.frames("a", "b", "c") == self.one_host(), "frames differ")
        self.assertEqual([os.path.getsize(self.path(n)) // FRAME for n in "abc"],
                         [25, 32, 36])

    def test_after_the_last_latent(self):
        one = self.host("stopped")
        relay = self.relay(one)
        one.process.send_signal(signal.SIGSTOP)
        self.send(relay, {})
        relay.wait_for("all 24 latents have been sent")
        relay.tell("127.0.0.1:1")
        self.assertIn("has all latents", relay.wait_for("not moved"))
        one.process.send_signal(signal.SIGCONT)
        self.assertEqual((one.ended(), relay.ended()), (0, 0), one.said + relay.said)
        self.assertTrue(self.frames("stopped") == self.one_host(), "frames differ")

    def test_while_latents_arrive(self):
        """The move is at any latent. Prints the seconds from the last frame of the old
        host to the first one of the new host, less the transfer."""
        a, b = self.host("a"), self.host("b")
        relay = self.relay(a)

        def pace():
            time.sleep(0.02)

        moves = dict.fromkeys(range(1, self.LATENTS), pace)
        moves[9] = lambda: (self.wait_for_frames(a, "a", 5),
                            relay.tell(f"127.0.0.1:{b.port}"))
        seen = {}

        def watch():
            while relay.process.poll() is None:
                for name in "ab":
                    size = clips.size(self.path(name))
                    if size and (name == "a" or name not in seen):
                        if seen.get(name, (0,))[0] != size:
                            seen[name] = (size, time.monotonic())
                time.sleep(0.002)

        watcher = threading.Thread(target=watch)
        watcher.start()
        self.send(relay, moves)
        codes = [p.ended() for p in (a, b, relay)]
        watcher.join()
        self.assertEqual(codes, [0] * 3, a.said + b.said + relay.said)
        self.assertTrue(self.frames("a", "b") == self.one_host(), "frames differ")
        self.assertGreater(len(self.frames("b")), 0)
        self.assertIn(f"from 127.0.0.1:{a.port} to", relay.wait_for("moved after latent"))
        said = relay.wait_for("carries for")
        sent = float(re.search(r"bytes in ([\d.]+) s", said)[1])
        gap = seen["b"][1] - seen["a"][1] - sent
        print(f"{said.strip()}; gap of {gap:.3f} s without that")

    def test_stays_if_it_cannot_move(self):
        port = streams.free_port()
        a = self.host("a")
        relay = self.relay(a)

        def nowhere():
            where = f"127.0.0.1:{port}"
            relay.tell(f"{where}\n{where}")  # both in one read
            self.assertIn(f"not moved: {where}: Connection refused\n",
                          relay.wait_for("not moved", 2))

        self.send(relay, {5: nowhere})
        self.assertEqual((a.ended(), relay.ended()), (0, 0), a.said + relay.said)
        self.assertTrue(self.frames("a") == self.one_host(), "frames differ")

    def check_moves_back(self, b, reason):
        """The old host goes on, and nothing is lost. Then it moves to a good one."""
        a, c = self.host("a"), self.host("c")
        relay = self.relay(a)

        def move(to, frames):
            def now():
                self.wait_for_frames(a, "a", frames)
                relay.tell(f"127.0.0.1:{to.port}")
                relay.wait_for(f"127.0.0.1:{to.port}")
            return now

        self.send(relay, {5: move(b, 17), 15: move(c, 57)})
        self.assertEqual((a.ended(), c.ended(), relay.ended()), (0, 0, 0),
                         a.said + c.said + relay.said)
        self.assertIn(reason, relay.wait_for(
            f"not moved: 127.0.0.1:{b.port} refused the carries: "))
        moved = [line for line in relay.said if line and "moved after" in line]
        self.assertEqual(moved, [f"move: moved after latent 15 from 127.0.0.1:{a.port} "
                                 f"to 127.0.0.1:{c.port}\n"])
        self.assertEqual(b.ended(), 3)
        self.assertTrue(self.frames("a", "c") == self.one_host(), "frames differ")
        self.assertEqual(len(self.frames("c")), 36 * FRAME)

    def test_another_precision(self):
        self.check_moves_back(self.host("b", precision="bf16"), "fp32")

    def test_fails_before_the_carries(self):
        # A CPU has no tf32: the pipeline fails at the caps.
        self.check_moves_back(self.host("b", precision="tf32"), "tf32")

    def test_another_model(self):
        self.check_moves_back(self.host("b", model=TINY), "")

    def test_failed_before_it_reads(self):
        """The old host has saved its carries only when the new one has failed, answered
        and closed the connection."""
        host = move.Host("vaedecode name=decode model=/none ! fakesink")
        with host.change:
            host.change.wait_for(lambda: host.failed)
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in "ab"]
        old, new = (f"127.0.0.1:{s.getsockname()[1]}" for s in servers)
        errors = []

        def serve():
            with servers[0].accept()[0] as a:
                kind, _ = move.packet(a)
                with servers[1].accept()[0] as b:
                    try:
                        host.serve(b)
                    except ValueError as error:
                        errors.extend((kind, str(error)))
                # More than the buffers of a connection that nobody reads.
                a.sendall(move.own(move.LOAD, bytes(1 << 25)))
                errors.append(a.recv(1))

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        relay = move.Relay(None, old)
        relay.latents = 1
        with unittest.mock.patch.object(move, "say") as say:
            relay.move(new)
        said = [call.args[0] for call in say.call_args_list]
        self.assertEqual(relay.where, old)
        relay.link.close()
        server.join()
        self.assertEqual(errors, [move.SAVE, host.failed, b""])
        self.assertEqual(said, [f"not moved: {new} refused the carries: {host.failed}"])
        for server in servers:
            server.close()

    def test_refuses(self):
        bad = subprocess.run([sys.executable, MOVE, "host", "--listen", "0", "fakesink"],
                             stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(bad.returncode, 3)
        self.assertIn('no element "decode"', bad.stderr)


if __name__ == "__main__":
    clips.unittest.main(argv=sys.argv[:1] + sys.argv[3:])
