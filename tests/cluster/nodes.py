"""A Ray cluster of several nodes on this machine: a head without a worker, and nodes of one
CPU each."""
import os
import random
import signal
import subprocess
import sys
import time

from clips import CLUSTER

from ray.cluster_utils import Cluster

# Not what the machine has free, which other programs change.
NODE = {"object_store_memory": 100 << 20, "memory": 1 << 30,
        "include_log_monitor": False}  # takes CPU time from the workers


class Nodes:
    def __init__(self, count):
        os.environ["VAE_RAY_TEST"] = str(os.getpid())
        os.environ["RAY_memory_monitor_refresh_ms"] = "0"
        os.environ["RAY_worker_niceness"] = "0"
        os.environ["RAY_agent_register_timeout_ms"] = "600000"  # on a busy machine
        # A node that was killed counts as dead after five checks, by default of 3 s.
        os.environ["RAY_health_check_period_ms"] = "300"
        self.cluster = Cluster(initialize_head=True, head_node_args={
            "num_cpus": 0, "include_dashboard": False, **NODE})
        self.nodes = [self.add() for _ in range(count)]

    def add(self, folder=None, **env):
        """folder: in which the node and its workers run."""
        before = os.getcwd()
        if folder:
            os.chdir(folder)
        try:
            return self.cluster.add_node(num_cpus=1, env_vars=env, **NODE)
        finally:
            os.chdir(before)

    def replace(self):
        """Kills a node with all that runs on it, and adds another one."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)
        self.nodes.append(self.add())

    def close(self):
        self.cluster.shutdown()

    def start(self, *arguments, script="decode.py", cwd=None):
        return subprocess.Popen(
            [sys.executable, os.path.join(CLUSTER, script), "--address",
             self.cluster.address, "--threads", "1", *arguments],
            # Ray reports each process that ends on the standard output.
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=cwd)

    @staticmethod
    def workers():
        """Process ids of the actors that hold a model."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    title = file.read()
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = b"VAE_RAY_TEST=" + str(os.getpid()).encode() in file.read()
            except OSError:
                continue
            if title.startswith(b"ray::Actor") and ours:
                found.append(int(pid))
        return found

    def kill(self, process, part, kind, kills, seed=1):
        """Ends workers by a signal, and with SIGKILL also a node for each three workers,
        some time after each progress of a driver. Returns [workers, nodes]."""
        chance = random.Random(seed)
        done = [0, 0]
        before = 0
        while process.poll() is None and sum(done) < kills:
            time.sleep(0.02)
            written = os.stat(part).st_blocks if os.path.exists(part) else 0
            if written <= before:
                continue
            time.sleep(chance.uniform(0, 0.3))
            before = written
            if kind == signal.SIGKILL and done[0] >= 3 * (done[1] + 1):
                self.replace()
                done[1] += 1
                continue
            for pid in self.workers()[:1 + sum(done) % 2]:
                try:
                    os.kill(pid, kind)
                    done[0] += 1
                except ProcessLookupError:
                    pass
        return done
