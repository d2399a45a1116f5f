"""Real Redis for the tests: single servers, a Sentinel set and a Cluster, on free ports and in folders of their own."""

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

BINARY = shutil.which("redis-server")
MISSING = "redis-server is not installed: what needs a real Redis is left out"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def free_cluster_port():
    """A cluster node also listens 10,000 ports above its own."""
    while True:
        port = free_port()
        if port <= 55535:
            with socket.socket() as bus, contextlib.suppress(OSError):
                bus.bind(("127.0.0.1", port + 10000))
                return port


class Server:
    """One redis-server process, started again by `start` on the same port and in the same folder."""

    def __init__(self, folder: Path, *options: str, port: int | None = None, sentinel: bool = False):
        self.port = port or free_port()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._options = options
        self._sentinel = sentinel
        self.process = None
        self._clients = []

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def client(self, **options):
        """A client, kept until `stop`: one left to the collector is a warning in whatever test runs then."""
        client = Redis(port=self.port, **options)
        self._clients.append(client)
        return client

    def start(self, wait=True):
        base = ["--port", str(self.port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]
        base += ["--repl-diskless-sync-delay", "0"]
        if self._sentinel:
            config = self.folder / "sentinel.conf"
            config.write_text("\n".join((f"port {self.port}", "bind 127.0.0.1", *self._options)) + "\n")
            command = [BINARY, str(config), "--sentinel"]
        else:
            command = [BINARY, *base, *self._options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        if wait:
            self.wait()
        return self

    def wait(self, seconds=10.0):
        with contextlib.closing(Redis(port=self.port)) as client:
            until(client.ping, seconds)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        for client in self._clients:
            client.close()
        self._clients.clear()
        if self.process is not None and self.process.poll() is None:
            self.resume()
            self.kill()


class SentinelSet:
    """A master, a replica and three Sentinels that fail over after 300 ms."""

    name = "limits"

    def __init__(self, folder: Path):
        self.master = Server(folder / "master")
        self.replica = Server(folder / "replica", "--replicaof", "127.0.0.1", str(self.master.port))
        watch = (
            f"sentinel monitor {self.name} 127.0.0.1 {self.master.port} 2",
            f"sentinel down-after-milliseconds {self.name} 300",
            f"sentinel failover-timeout {self.name} 2000",
        )
        self.sentinels = [Server(folder / f"sentinel{number}", *watch, sentinel=True) for number in range(3)]

    @property
    def servers(self):
        return [self.master, self.replica, *self.sentinels]

    @property
    def urls(self):
        return tuple(server.url for server in self.sentinels)

    def start(self):
        for server in (self.master, self.replica):
            server.start(wait=False)
        for server in (self.master, self.replica):
            server.wait()
        until(lambda: self.replica.client().info("replication")["master_link_status"] == "up")
        for server in self.sentinels:
            server.start()
        until(lambda: all(self._sees_all(server) for server in self.sentinels))
        return self

    def _sees_all(self, server):
        state = server.client().sentinel_master(self.name)
        return state["num-other-sentinels"] == 2 and state["num-slaves"] == 1

    def stop(self):
        for server in self.servers:
            server.stop()


class ClusterSet:
    """Three masters with a third of the slots each, and a replica of each where `replicas`."""

    def __init__(self, folder: Path, replicas=False):
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "500", "--cluster-require-full-coverage", "no")
        count = 6 if replicas else 3
        self.servers = [Server(folder / f"node{number}", *options, port=free_cluster_port()) for number in range(count)]

    @property
    def urls(self):
        return tuple(server.url for server in self.servers)

    def start(self):
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait()
        command = ["redis-cli", "--cluster", "create", *(f"127.0.0.1:{server.port}" for server in self.servers)]
        command += ["--cluster-replicas", str(len(self.servers) // 3 - 1), "--cluster-yes"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
        until(
            lambda: all(
                server.client().execute_command("CLUSTER INFO")["cluster_state"] == "ok" for server in self.servers
            )
        )
        if len(self.servers) > 3:
            until(lambda: all(self._synced(server) for server in self.servers))
        return self

    def _synced(self, server):
        state = server.client().info("replication")
        return state.get("master_link_status", "up") == "up" and (state["role"] == "slave" or state["connected_slaves"])

    def stop(self):
        for server in self.servers:
            server.stop()


def until(true, seconds=20.0):
    """Ask again and again until `true` is, and fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(RedisError):
            if true():
                return
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)
