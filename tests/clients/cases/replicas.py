"""Rolling restart of three gateways with one Redis while real agents work."""

import concurrent.futures
import contextlib
import itertools
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from coding_agents import CodingAgent, opencode
from coding_agents.claude_code import ClaudeCode
from coding_agents.codex import Codex
from harness import Harness, at_least, check, contains, fail, lacks, write_json

REPLICAS = 3
PROMPTS = 6
DENIAL_REASON = "alpha is private"
# Seconds between two readiness probes, and in which a stopping gateway still accepts connections.
PROBE_INTERVAL, LAME_DUCK = 0.05, 1


class GeminiCli(CodingAgent):
    name = "gemini-cli"

    def run(self, harness, prompt, resumed=False):
        return harness.prompt_gemini(prompt, *(["--resume", "latest"] if resumed else []))

    def read_prompt(self, harness, *names):
        return "Use " + " and ".join(f'read_file {json.dumps({"file_path": it})}' for it in names)

    def requests(self, harness):
        return [it for it in harness.mock_requests() if it["path"].endswith(":streamGenerateContent")]


class Replicas(Harness):
    """A harness whose gateway is a load balancer in front of three gateways."""

    def config(self, listen):
        config = super().config(listen)
        del config["record"]  # a folder of recordings belongs to one gateway
        config["sessions"] = {"store": {"redis": {"url": {"file": str(self.redis_url)}}}}
        config["timeouts"] = {"lame_duck": f"{LAME_DUCK}s", "drain": "60s"}
        return config

    def serve(self, listen):
        self.redis_url = self.home / "redis-url"
        self.redis_url.write_text(self.gateway_stack.enter_context(redis(self.home)))
        self.balancer = self.gateway_stack.enter_context(LoadBalancer())
        self.gateway, self.running = self.balancer.url, []
        self.config_file = write_json(self.home / "hookgate.yaml", self.config(listen))
        for _ in range(REPLICAS):
            self.start()
        self.gateway_stack.callback(lambda: [it.close() for it in self.running])

    def start(self):
        replica = contextlib.ExitStack()
        gateway, admin = replica.enter_context(self.server("serve", "--config", self.config_file, urls=2))
        self.balancer.add(gateway, admin)
        self.running.append(replica)

    def replace(self):
        """Starts a gateway and stops the oldest one, which finishes its calls."""
        self.start()
        self.running.pop(0).close()


@contextlib.contextmanager
def redis(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        wait_until("Redis listens", lambda: accepts_connections(port))
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class LoadBalancer:
    """Round robin for new connections over the gateways whose readiness probe succeeds."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.replicas, self.ready, self.turns, self.stopped = {}, [], itertools.count(), threading.Event()
        for work in [self.probe, self.accept]:
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.stopped.set()
        self.listener.close()

    def add(self, gateway, admin):
        self.replicas[gateway] = admin
        wait_until("the gateway is ready", lambda: gateway in self.ready)

    def probe(self):
        while not self.stopped.wait(PROBE_INTERVAL):
            self.ready = [gateway for gateway, admin in list(self.replicas.items()) if is_ready(admin)]

    def accept(self):
        with contextlib.suppress(OSError):  # the listener is closed at the end
            while True:
                agent, _ = self.listener.accept()
                threading.Thread(target=self.connect, args=[agent], daemon=True).start()

    def connect(self, agent):
        ready = self.ready
        host, port = ready[next(self.turns) % len(ready)].removeprefix("http://").split(":")
        gateway = socket.create_connection((host, int(port)))
        threading.Thread(target=copy, args=[gateway, agent], daemon=True).start()
        copy(agent, gateway)


def copy(source, target):
    with contextlib.suppress(OSError):  # one side has closed its connection
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def is_ready(admin):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{admin}/readyz", timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


def accepts_connections(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def wait_until(description, condition):
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            fail(f"not within 30 s: {description}")
        time.sleep(PROBE_INTERVAL)


def a_rolling_restart_loses_no_calls_sessions_or_denials():
    agents = [GeminiCli(), ClaudeCode(), Codex(), opencode.ALL[0]]
    with Replicas(recorded=["SessionStart", "BeforeAgent"], BeforeTool="refuse_alpha.sh") as harness:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            conversations = [pool.submit(converse, agent, harness) for agent in agents]
            replaced = 0
            while not all(it.done() for it in conversations):
                harness.replace()
                replaced += 1
        for it in conversations:
            it.result()
        at_least(replaced, 2 * REPLICAS)
        for agent in agents:
            check_denial_and_session(agent, harness)


def converse(agent, harness):
    """A conversation whose first tool call is denied."""
    with agent.conversation(harness) as conversation:
        contains(conversation.send(first_prompt(agent, harness)), DENIAL_REASON)
        for turn in range(2, PROMPTS + 1):
            contains(conversation.send(later_prompt(agent, turn)), later_prompt(agent, turn))


def first_prompt(agent, harness):
    return agent.read_prompt(harness, "alpha.txt")


def later_prompt(agent, turn):
    return f"prompt {turn} of {agent.name}"


def check_denial_and_session(agent, harness):
    requests = [it for it in agent.requests(harness) if later_prompt(agent, 2) in json.dumps(it["body"])]
    check(len(requests), PROMPTS - 1)
    for request in requests:
        lacks(json.dumps(request["body"]), "contents of alpha")
        contains(json.dumps(request["body"]), DENIAL_REASON)
    prompts = {later_prompt(agent, turn) for turn in range(2, PROMPTS + 1)}
    turns = [it for it in harness.events("BeforeAgent") if any(it["prompt"].endswith(prompt) for prompt in prompts)]
    check(len({it["session_id"] for it in turns}), 1)
    started = [it["session_id"] for it in harness.events("SessionStart")]
    check(started.count(turns[0]["session_id"]), 1)


CASES = [("a rolling restart loses no calls sessions or denials", a_rolling_restart_loses_no_calls_sessions_or_denials)]
