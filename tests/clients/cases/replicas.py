"""Three gateways with one Redis are replaced one after the other while real agents work."""

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
from stage import Stage, at_least, check, contains, fail, lacks, write_json

REPLICAS = 3
PROMPTS = 6
DENIED = "alpha is nobody's business"
# Seconds between two readiness probes, and in which a gateway that ends still serves.
PROBE, LAME_DUCK = 0.05, 1


class GeminiCli(CodingAgent):
    name = "gemini-cli"

    def asks(self, stage, prompt, resumed=False):
        return stage.asks_gemini(prompt, *(["--resume", "latest"] if resumed else []))

    def reads(self, stage, *names):
        return "Use " + " and ".join(f'read_file {json.dumps({"file_path": it})}' for it in names)

    def requests(self, stage):
        return [it for it in stage.seen() if it["path"].endswith(":streamGenerateContent")]


class Replicas(Stage):
    """A stage whose gateway is a balancer in front of three gateways."""

    def config(self, listen):
        config = super().config(listen)
        del config["record"]  # a folder of recordings belongs to one gateway
        config["sessions"] = {"store": {"redis": {"url": {"file": str(self.redis_url)}}}}
        config["timeouts"] = {"lame_duck": f"{LAME_DUCK}s", "drain": "60s"}
        return config

    def serve(self, listen):
        self.redis_url = self.home / "redis-url"
        self.redis_url.write_text(self.serving.enter_context(redis(self.home)))
        self.balancer = self.serving.enter_context(Balancer())
        self.gate, self.running = self.balancer.url, []
        self.config_file = write_json(self.home / "hookgate.yaml", self.config(listen))
        for _ in range(REPLICAS):
            self.start()
        self.serving.callback(lambda: [it.close() for it in self.running])

    def start(self):
        replica = contextlib.ExitStack()
        gate, admin = replica.enter_context(self.server("serve", "--config", self.config_file, urls=2))
        self.balancer.add(gate, admin)
        self.running.append(replica)

    def replace(self):
        """Starts a gateway and ends the oldest, which finishes what it has begun."""
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
        until("Redis listens", lambda: reaches(port))
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class Balancer:
    """New connections go to gateways whose readiness probe succeeds, in turn."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.replicas, self.ready, self.turns, self.ended = {}, [], itertools.count(), threading.Event()
        for work in [self.probe, self.accept]:
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.ended.set()
        self.listener.close()

    def add(self, gate, admin):
        self.replicas[gate] = admin
        until("the gateway is ready", lambda: gate in self.ready)

    def probe(self):
        while not self.ended.wait(PROBE):
            self.ready = [gate for gate, admin in list(self.replicas.items()) if is_ready(admin)]

    def accept(self):
        with contextlib.suppress(OSError):  # it is closed at the end
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


def reaches(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def until(what, holds):
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            fail(f"not within 30 s: {what}")
        time.sleep(PROBE)


def no_call_fails_and_no_session_or_denial_is_lost_while_gateways_are_replaced():
    agents = [GeminiCli(), ClaudeCode(), Codex(), opencode.ALL[0]]
    with Replicas(recorded=["SessionStart", "BeforeAgent"], BeforeTool="refuse_alpha.sh") as stage:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            talks = [pool.submit(talk, agent, stage) for agent in agents]
            replaced = 0
            while not all(it.done() for it in talks):
                stage.replace()
                replaced += 1
        for it in talks:
            it.result()
        at_least(replaced, 2 * REPLICAS)
        for agent in agents:
            keeps_denial_and_session(agent, stage)


def talk(agent, stage):
    """A conversation whose first tool call is denied."""
    with agent.conversation(stage) as conversation:
        contains(conversation.says(first_prompt(agent, stage)), DENIED)
        for turn in range(2, PROMPTS + 1):
            contains(conversation.says(later_prompt(agent, turn)), later_prompt(agent, turn))


def first_prompt(agent, stage):
    return agent.reads(stage, "alpha.txt")


def later_prompt(agent, turn):
    return f"prompt {turn} of {agent.name}"


def keeps_denial_and_session(agent, stage):
    requests = [it for it in agent.requests(stage) if later_prompt(agent, 2) in json.dumps(it["body"])]
    check(len(requests), PROMPTS - 1)
    for request in requests:
        lacks(json.dumps(request["body"]), "contents of alpha")
        contains(json.dumps(request["body"]), DENIED)
    mine = {later_prompt(agent, turn) for turn in range(2, PROMPTS + 1)}
    turns = [it for it in stage.events("BeforeAgent") if any(it["prompt"].endswith(prompt) for prompt in mine)]
    check(len({it["session_id"] for it in turns}), 1)
    started = [it["session_id"] for it in stage.events("SessionStart")]
    check(started.count(turns[0]["session_id"]), 1)


CASES = [("no call fails and no session or denial is lost while gateways are replaced",
          no_call_fails_and_no_session_or_denial_is_lost_while_gateways_are_replaced)]
