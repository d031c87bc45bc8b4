"""What the cases stand on: a mock, a gateway, a home with a project, agents that run there, and ways to check."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.request

from install import BIN, HERE, REPO, SCRATCH, python

POINTED = REPO / "config" / "agents" / "pointed"

DEADLINE = 120  # seconds for one run of a client

# Fails if a replay under the recorded config differs from what was recorded.
DIFFERENT = "newly_denied > 0 || newly_allowed > 0 || edited > 0 || unknown > 0 || damaged > 0"

REPLAYED = []  # numbers of the calls that were replayed, of each case


class Stage:
    """A mock, a gateway in front of it and a fresh home with a project, all gone at the end.

    `recorded` names events whose inputs are kept for `events`; `mock` holds options of `hookgate mock`, and `script` the
    lines of its answers; `settings` go into the config; `way` is how gemini-cli is pointed here and logged in, by the files in
    `config/agents/pointed`; each further argument is an event and the script in `hooks/` that runs on it. Model calls are
    replayed at the end, which must change nothing.
    """

    def __init__(self, recorded=(), mock=(), script=None, settings=None, way="api-key", **hooks):
        self.recorded, self.mock_options, self.script = recorded, mock, script
        self.settings, self.hooks, self.way = settings or {}, hooks, way

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="hookgate-clients-", ignore_cleanup_errors=True))
            self.home = pathlib.Path(home)
            stack.callback(self.end_daemons)
            self.project = self.home / "project"
            self.project.mkdir()
            self.temporary = self.home / "tmp"
            for folder in ["transcripts", "tmp"]:
                (self.home / folder).mkdir()
            for name in ["alpha", "beta"]:
                (self.project / f"{name}.txt").write_text(f"contents of {name}\n")
            write_json(self.home / ".gemini" / "settings.json", self.gemini_settings())
            stack.push(self.replays)
            self.mock, _ = stack.enter_context(self.server("mock", "--listen", "127.0.0.1:0", *self.sent_to_mock()))
            self.serving = stack.enter_context(contextlib.ExitStack())
            self.serve("127.0.0.1:0")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def replays(self, error, *_):
        """Replays the calls of a case that passed, when its servers have ended: the same config changes nothing."""
        if error is not None or not any((self.home / "recordings").glob("rec-*")):
            return
        command = [hookgate(), "replay", "--config", "hookgate.yaml", "--format", "json", "--fail-on", DIFFERENT, "recordings"]
        run = subprocess.run(command, env=self.environment(), cwd=self.home, capture_output=True, text=True, timeout=DEADLINE)
        if run.returncode != 0:
            fail(f"the replay differs: {run.stdout[:4000]}", run)
        REPLAYED.append(json.loads(run.stdout)["counts"]["calls"])

    def end_daemons(self):
        """Ends what agents leave running in this home, as the window of Codex does."""
        home = f"HOME={self.home}".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if home in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)

    def sent_to_mock(self):
        if self.script is None:
            return self.mock_options
        responses = self.home / "answers.responses"
        responses.write_text("".join(f"{json.dumps(line)}\n" for line in self.script))
        return [*self.mock_options, "--responses", responses]

    def config(self, listen):
        """JSON is YAML."""
        return {
            "listen": listen,
            "admin": {"listen": "127.0.0.1:0"},
            "upstreams": {api: {"url": self.mock} for api in ["gemini", "vertex", "code_assist", "anthropic", "openai"]},
            "hooks": {event: [{"hooks": hooks}] for event, hooks in self.hooks_by_event().items()},
            "record": {"path": "recordings", "what": {"sample": 1}, "redact": "none"},
            **self.settings,
        }

    def hooks_by_event(self):
        hooks = {event: [self.hook("record.py")] for event in self.recorded}
        for event, script in self.hooks.items():
            hooks[event] = hooks.get(event, []) + [self.hook(script)]
        return hooks

    def hook(self, script):
        return {
            "type": "command",
            "name": script,
            "command": f"'{HERE / 'hooks' / script}'",
            "env": {"HOOK_RUNS": str(self.home / "hook_runs"), "HOOK_EVENTS": str(self.home / "hook_events")},
        }

    def serve(self, listen):
        config = write_json(self.home / "hookgate.yaml", self.config(listen))
        self.gate, self.admin = self.serving.enter_context(self.server("serve", "--config", config, urls=2))

    def restart(self):
        """Ends the gateway and starts another at the same address, which remembers nothing."""
        self.serving.close()
        self.serve(self.gate.removeprefix("http://"))

    @contextlib.contextmanager
    def server(self, *arguments, urls=1):
        """Starts a hookgate command, yields the URLs it says it listens on (None for one not asked for), and stops it."""
        with open(self.home / f"{arguments[0]}.log", "w+") as log:
            process = subprocess.Popen([hookgate(), *arguments], env=self.environment(), cwd=self.home,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                lines = [process.stdout.readline().strip() for _ in range(urls)]
                if not all(" on http://" in it for it in lines):
                    log.seek(0)
                    raise Failed(f"`{arguments[0]}` did not start: {lines} {log.read()[-500:]}")
                found = [it.split(" on ")[1] for it in lines]
                yield (*found, None)[:2]
            finally:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def environment(self):
        path = f"{BIN}:/usr/local/bin:/usr/bin:/bin"
        # Programs of Bun leave libraries behind where temporary files are. What Node and Python compile is kept.
        compiled = {"NODE_COMPILE_CACHE": str(SCRATCH / "compiled"), "PYTHONPYCACHEPREFIX": str(SCRATCH / "compiled" / "python")}
        return compiled | {"PATH": path, "HOME": str(self.home), "TMPDIR": str(self.temporary), "LANG": "C.UTF-8", "TERM": "xterm-256color"}

    def gemini_settings(self):
        pointed = json.loads((POINTED / f"gemini-cli.{self.way}.settings.json").read_text())
        return GEMINI_SETTINGS | {"security": GEMINI_SETTINGS["security"] | pointed["security"]}

    def agent_environment(self):
        # A token in place of the login, which would need a browser.
        login = {"GOOGLE_CLOUD_ACCESS_TOKEN": "a-token", "GOOGLE_CLOUD_PROJECT": "a-project"} if self.way == "code-assist" else {}
        # Otherwise it starts itself once more, with another limit of memory.
        alone = {"GEMINI_CLI_NO_RELAUNCH": "true"}
        return self.environment() | self.pointed(f"gemini-cli.{self.way}.env") | alone | login

    def pointed(self, file):
        """The variables of a file that points agents here."""
        lines = [it for it in (POINTED / file).read_text().splitlines() if it and not it.startswith("#")]
        return dict(it.replace("http://127.0.0.1:8787", self.gate).split("=", 1) for it in lines)

    def run_sealed(self, environment, *command, said=""):
        """Runs an agent in a fresh environment with only these variables of its own, and `said` on its input."""
        return subprocess.run([*map(str, command)], env=self.environment() | environment, cwd=self.project, input=said,
                              capture_output=True, text=True, timeout=DEADLINE)

    def run(self, *command, **environment):
        return subprocess.run(command, env=self.agent_environment() | environment, cwd=self.project, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE)

    def gemini(self, prompt, *arguments, **environment):
        return self.run(BIN / "node", BIN / "gemini", *arguments, "-p", prompt, **environment)

    def asks_gemini(self, prompt, *arguments, **environment):
        """Runs gemini-cli on a model named beforehand (so that its router is not asked), with every tool approved."""
        run = self.gemini(prompt, "-m", "gemini-2.5-flash", "--yolo", *arguments, **environment)
        check(run.returncode, 0, run)
        return run

    def sdk(self, language, mode):
        """Runs one of the SDK programs; `result` is what it printed."""
        return self.program("genai.mjs" if language == "js" else "genai.py", mode)

    def program(self, name, *arguments, **environment):
        """Runs one of the programs in `agents/`; `result` is what it printed."""
        litellm = self.home / "litellm.yaml"
        litellm.write_text((POINTED / "litellm.yaml").read_text().replace("http://127.0.0.1:8787", self.gate))
        pointed = self.pointed("sdk.env") | {"LITELLM_CONFIG": str(litellm)}
        run = self.run(*self.started_by(name), *arguments, **pointed | environment)
        check(run.returncode, 0, run)
        run.result = json.loads(run.stdout.splitlines()[-1])
        return run

    @staticmethod
    def started_by(name):
        if name.endswith(".mjs"):
            return [BIN / "node", SCRATCH / name]
        environment = "sdk" if name == "genai.py" else "frameworks"
        return [python(environment), HERE / "agents" / name]

    def raw_stream(self):
        """Asks without any SDK: the seconds until the status came, and the bytes of the answer."""
        connection = http.client.HTTPConnection(self.gate.removeprefix("http://"), timeout=DEADLINE)
        with contextlib.closing(connection):
            body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "turn 1"}]}]})
            begin = time.monotonic()
            connection.request("POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", body,
                               {"content-type": "application/json"})
            response = connection.getresponse()
            return time.monotonic() - begin, response.read()

    def seen(self):
        """The requests that reached the mock."""
        return get(f"{self.mock}/__requests")

    def sessions(self):
        """What the gateway says of its sessions, the newest first."""
        return get(f"{self.admin}/sessions")["sessions"]

    def hook_runs(self):
        """How often the hooks that count themselves were started."""
        runs = self.home / "hook_runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def events(self, name=None):
        """The inputs of recorded events, in order; only those of this name, if one is given."""
        path = self.home / "hook_events"
        lines = path.read_text().splitlines() if path.exists() else []
        events = [json.loads(line) for line in lines]
        return [it for it in events if name in (None, it["hook_event_name"])]


GEMINI_SETTINGS = {
    "security": {"folderTrust": {"enabled": False}},
    "general": {
        "enableAutoUpdate": False,
        "enableAutoUpdateNotification": False,
        # When it tidies up, it takes a session that was resumed in another minute for an empty one.
        "sessionRetention": {"enabled": False},
    },
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


class Failed(Exception):
    """A case did not see what it should."""


def check(seen, expected, run=None):
    if seen != expected:
        fail(f"saw {short(seen)} instead of {short(expected)}", run)


def contains(text, wanted, run=None):
    if wanted not in text:
        fail(f"{wanted!r} is not in {short(text)}", run)


def lacks(text, unwanted, run=None):
    if unwanted in text:
        at = text.index(unwanted)
        fail(f"{unwanted!r} is in …{text[max(0, at - 200):at + 200]!r}…", run)


def at_least(seen, expected, run=None):
    if seen < expected:
        fail(f"saw {seen} instead of at least {expected}", run)


def fail(why, run=None):
    raise Failed(why if run is None else f"{why} (exit {run.returncode}, stderr {short(run.stderr.strip())})")


def short(value):
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]}…{text[-200:]}"


def get(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as answer:
        return json.load(answer)


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=DEADLINE) as answer:
        return json.load(answer)


def inner(request):
    """The request of the Gemini API, whichever API carries it."""
    return request["body"].get("request", request["body"])


def tool_responses(request):
    """The responses of the function responses in the last content of a request."""
    return [it["functionResponse"]["response"] for it in inner(request)["contents"][-1]["parts"]]


def tool_outputs(request):
    """The outputs of the function responses in the last content of a request."""
    return [it.get("output") for it in tool_responses(request)]


def prompts(request):
    """The texts of the user in a request."""
    return [part["text"] for it in request["body"]["contents"] if it["role"] == "user" for part in it["parts"] if "text" in part]


def write_json(path, document):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=2))
    return path


def hookgate():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
    binary = pathlib.Path(os.environ.get("HOOKGATE", target / "debug" / "hookgate")).resolve()
    if not binary.is_file():
        raise Failed(f"there is no hookgate at {binary}; build it, or name it in HOOKGATE")
    return binary
