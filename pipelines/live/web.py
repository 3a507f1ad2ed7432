"""The HTTP server. Each connection has its own thread, and the pipeline waits for
none of them."""

import http.server
import ipaddress
import json
import os
import select
import socket
import sys
import threading
import urllib.parse

import metrics

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.html")
BOUNDARY = "picture"
# Seconds after which a client that takes nothing counts as gone.
PATIENCE_S = 20
# Bytes buffered for a slow client; a larger buffer would delay the pictures.
SEND_BUFFER = 64 << 10
# Each one has a thread and a file descriptor, of which a process may have 1024.
MAX_CONNECTIONS = 160
# Answers that last, and how many clients may have each at a time. Their sum
# leaves connections for all other requests.
MAX_CLIENTS = {"/picture": 64, "/events": 64, "/picture.jpg": 16}
NO_STORE = ("Cache-Control", "no-store")


class Handler(http.server.BaseHTTPRequestHandler):
    server_version = "gst-vae-live"
    timeout = PATIENCE_S

    def setup(self):
        self.request.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER
        )
        super().setup()

    def log_message(self, *_):
        pass

    def answer(self, status, kind, body, *headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (NO_STORE,) + headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def say(self, status, words, *headers):
        self.answer(
            status, "text/plain; charset=utf-8", (words + "\n").encode(), *headers
        )

    def get_page(self):
        with open(PAGE, "rb") as f:
            self.answer(
                200,
                "text/html; charset=utf-8",
                f.read(),
                (
                    "Content-Security-Policy",
                    "default-src 'self' 'unsafe-inline'; img-src 'self' data:",
                ),
            )

    def get_metrics(self):
        live = self.server.live
        text = metrics.render(live.state(), self.server.viewers())
        self.answer(200, metrics.CONTENT_TYPE, text.encode())

    def get_snapshot(self):
        _, picture = self.server.live.pictures.get(0, PATIENCE_S)
        if picture:
            self.answer(200, "image/jpeg", picture)
        else:
            self.say(503, "no picture yet")

    def stream(self, kind, values, part):
        """Sends each newest value, as the bytes that part() makes of it, until
        the client or the server ends."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header(*NO_STORE)
        self.end_headers()
        if self.command == "HEAD":
            return
        seen = 0
        while not self.server.ending:
            seen, value = values.get(seen, 1)
            if value is not None:
                self.wfile.write(part(value))
                self.wfile.flush()
            elif self.is_gone():
                return

    def is_gone(self):
        """True if the client has closed an idle connection, for example while
        the pipeline is paused."""
        poll = select.poll()  # recv() of a socket with a timeout would wait
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)

    def get_pictures(self):
        self.stream(
            "multipart/x-mixed-replace; boundary=" + BOUNDARY,
            self.server.live.pictures,
            lambda jpeg: b"--%s\r\nContent-Type: image/jpeg\r\n"
            b"Content-Length: %d\r\n\r\n%s\r\n"
            % (BOUNDARY.encode(), len(jpeg), jpeg),
        )

    def get_events(self):
        def part(state):
            whole = dict(state, viewers=self.server.viewers())
            return b"data: %s\n\n" % json.dumps(whole).encode()

        self.stream("text/event-stream", self.server.live.states, part)

    GET = {
        "/": get_page,
        "/metrics": get_metrics,
        "/picture": get_pictures,
        "/picture.jpg": get_snapshot,
        "/events": get_events,
    }

    def url(self):
        """The requested path; None if the request has no valid URL."""
        try:
            return urllib.parse.urlsplit(self.path)
        except ValueError:
            return None

    def begin(self):
        """The requested URL, or None after an answer that refuses it."""
        self.server.has_asked(self.request)
        url, host = self.url(), self.headers.get("Host")
        if url is None:
            self.say(400, "%s is no URL" % self.path)
        elif host is not None and not self.server.is_own(host):
            # Another site may give its own name the address of this machine.
            self.say(421, "%s is no name of this host; --name adds one" % host)
        else:
            return url
        return None

    def do_GET(self):
        url = self.begin()
        if url is None:
            return
        if url.path not in self.GET:
            self.say(404, "there is no %s" % url.path)
        elif self.server.enter(url.path):
            try:
                self.GET[url.path](self)
            finally:
                self.server.leave(url.path)
        else:
            self.say(503, "too many clients", ("Retry-After", "10"))

    do_HEAD = do_GET

    def is_foreign(self):
        """True if the request comes from a page of another site."""
        origin = self.headers.get("Origin")
        try:
            return origin is not None and urllib.parse.urlsplit(
                origin
            ).netloc != self.headers.get("Host")
        except ValueError:
            return True

    def do_POST(self):
        url = self.begin()
        if url is None:
            return
        live = self.server.live
        name = urllib.parse.parse_qs(url.query).get("name", [""])[0]
        if self.is_foreign():
            self.say(403, "only the page itself may do this")
        elif url.path in ("/play", "/pause"):
            live.play(url.path == "/play")
            self.say(202, "done")
        elif url.path == "/model" and name in live.models:
            live.use_model(name)
            self.say(202, "done")
        elif url.path == "/model":
            self.say(400, "no model %s, only: %s" % (name, ", ".join(live.models)))
        else:
            self.say(404, "there is no %s" % url.path)


def end_both_ways(connection):
    """Its thread then ends. The thread closes the connection."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the client was faster


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address, live, names=()):
        self.live = live
        self.ending = False
        self._lock = threading.Lock()
        self._clients = dict.fromkeys(Handler.GET, 0)
        self._connections = {}  # True: its request is not complete
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)
        host = socket.gethostname()
        names = ("localhost", host, host + ".local", self.server_name, *names)
        self._names = {name.lower().rstrip(".") for name in (address[0], *names)}

    def url(self):
        host, port = self.server_address[:2]
        return "http://%s:%d/" % ("[%s]" % host if ":" in host else host, port)

    def is_own(self, host):
        """True if a Host header names this host. An address does: no other site
        can have it."""
        try:
            name = urllib.parse.urlsplit("//" + host).hostname or ""
            return name.rstrip(".") in self._names or bool(
                ipaddress.ip_address(name)
            )
        except ValueError:
            return False

    def viewers(self):
        with self._lock:
            return self._clients["/picture"]

    def enter(self, path):
        """Counts a client of the path. False: it has too many already."""
        with self._lock:
            free = self._clients[path] < MAX_CLIENTS.get(path, MAX_CONNECTIONS)
            self._clients[path] += free
            return free

    def leave(self, path):
        with self._lock:
            self._clients[path] -= 1

    def has_asked(self, connection):
        """The request is complete."""
        with self._lock:
            self._connections[connection] = False

    def process_request(self, request, client_address):
        """Beyond the limit a connection without a complete request is closed,
        the oldest one first, or else the new one."""
        with self._lock:
            victim = None
            if len(self._connections) >= MAX_CONNECTIONS:
                idle = (c for c, waits in self._connections.items() if waits)
                victim = next(idle, request)
            if victim is not request:
                self._connections[request] = True
            if victim is not None and victim is not request:
                self._connections[victim] = False
                end_both_ways(victim)
        if victim is request:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request):
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        """A client that goes away is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self):
        self.ending = True
        self.shutdown()
        self.server_close()
