"""Test harness: a mock model API, a gateway, a home with a project, runs of agents, and assertions."""

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

import programs
from install import BIN, HERE, REPO, SCRATCH, environment

AGENT_CONFIGS = REPO / "config" / "agents" / "pointed"

CLIENT_TIMEOUT = 120  # seconds, for one run of a client

# Condition of `hookgate replay --fail-on`: a replay under the recorded config differs from the recording.
REPLAY_DIFFERS = "newly_denied > 0 || newly_allowed > 0 || edited > 0 || unknown > 0 || damaged > 0"

UPSTREAMS = ["gemini", "vertex", "code_assist", "anthropic", "openai"]

REPLAYED_CALLS = []  # number of replayed calls of each case


class Harness:
    """A mock, a gateway in front of it and a temporary home with a project, which are removed at the end.

    `recorded` names the events whose inputs `events` returns. `mock` has options of `hookgate mock`, and `script` its
    responses. `settings` are added to the config. `login` selects the files of `config/agents/pointed` by which
    gemini-cli logs in and uses the gateway. Each further argument is an event and the script in `hooks/` that runs
    on it. The model calls are replayed at the end, which must not change any.
    """

    def __init__(self, recorded=(), mock=(), script=None, settings=None, login="api-key", **hooks):
        self.recorded, self.mock_options, self.script = recorded, mock, script
        self.settings, self.hooks, self.login = settings or {}, hooks, login

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            home = tempfile.TemporaryDirectory(prefix="hookgate-clients-", ignore_cleanup_errors=True)
            self.home = pathlib.Path(stack.enter_context(home))
            stack.callback(self.kill_daemons)
            self.project = self.home / "project"
            self.project.mkdir()
            self.temporary = self.home / "tmp"
            for folder in ["transcripts", "tmp"]:
                (self.home / folder).mkdir()
            for name in ["alpha", "beta"]:
                (self.project / f"{name}.txt").write_text(f"contents of {name}\n")
            write_json(self.home / ".gemini" / "settings.json", self.gemini_settings())
            stack.push(self.replay_recordings)
            mock = self.server("mock", "--listen", "127.0.0.1:0", *self.mock_arguments())
            self.mock_url, _ = stack.enter_context(mock)
            self.gateway_stack = stack.enter_context(contextlib.ExitStack())
            self.serve("127.0.0.1:0")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def replay_recordings(self, error, *_):
        """Replays the calls of a passed case after its servers have ended. The same config must not change any."""
        if error is not None or not any((self.home / "recordings").glob("rec-*")):
            return
        options = ["--config", "hookgate.yaml", "--format", "json", "--fail-on", REPLAY_DIFFERS]
        run = subprocess.run([hookgate(), "replay", *options, "recordings"], env=self.environment(), cwd=self.home,
                             capture_output=True, text=True, timeout=CLIENT_TIMEOUT)
        if run.returncode != 0:
            fail(f"the replay differs: {run.stdout[:4000]}", run)
        REPLAYED_CALLS.append(json.loads(run.stdout)["counts"]["calls"])

    def kill_daemons(self):
        """Kills processes that agents leave running in this home, as Codex does after a run in a window."""
        home = f"HOME={self.home}".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                if home in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)

    def mock_arguments(self):
        if self.script is None:
            return self.mock_options
        responses = self.home / "answers.responses"
        responses.write_text("".join(f"{json.dumps(line)}\n" for line in self.script))
        return [*self.mock_options, "--responses", responses]

    def config(self, listen):
        """The gateway's config, written as JSON, which is YAML."""
        return {
            "listen": listen,
            "admin": {"listen": "127.0.0.1:0"},
            "upstreams": {api: {"url": self.mock_url} for api in UPSTREAMS},
            "hooks": {event: [{"hooks": hooks}] for event, hooks in self.hooks_by_event().items()},
            "record": {"path": "recordings", "what": {"sample": 1}, "redact": "none"},
            **self.settings,
        }

    def hooks_by_event(self):
        hooks = {event: [self.hook("record.sh")] for event in self.recorded}
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
        server = self.server("serve", "--config", config, urls=2)
        self.gateway, self.admin = self.gateway_stack.enter_context(server)

    def restart(self):
        """Stops the gateway and starts another at the same address, without the state of the first."""
        self.gateway_stack.close()
        self.serve(self.gateway.removeprefix("http://"))

    @contextlib.contextmanager
    def server(self, *arguments, urls=1):
        """Starts a hookgate command, yields the URLs that it prints (None for the second of one), and stops it."""
        with open(self.home / f"{arguments[0]}.log", "w+") as log:
            process = subprocess.Popen([hookgate(), *arguments], env=self.environment(), cwd=self.home,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                lines = [process.stdout.readline().strip() for _ in range(urls)]
                if not all(" on http://" in it for it in lines):
                    log.seek(0)
                    raise Failed(f"`{arguments[0]}` did not start: {lines} {log.read()[-500:]}")
                listening = [it.split(" on ")[1] for it in lines]
                yield (*listening, None)[:2]
            finally:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def environment(self):
        return environment(self.home, self.temporary)

    def gemini_settings(self):
        settings = json.loads((AGENT_CONFIGS / f"gemini-cli.{self.login}.settings.json").read_text())
        return GEMINI_SETTINGS | {"security": GEMINI_SETTINGS["security"] | settings["security"]}

    def gemini_environment(self):
        # Without it, gemini-cli starts a second process with another memory limit.
        variables = {"GEMINI_CLI_NO_RELAUNCH": "true"}
        if self.login == "code-assist":
            # A token replaces the login in a browser.
            variables |= {"GOOGLE_CLOUD_ACCESS_TOKEN": "a-token", "GOOGLE_CLOUD_PROJECT": "a-project"}
        return self.environment() | self.agent_variables(f"gemini-cli.{self.login}.env") | variables

    def agent_variables(self, file):
        """Environment variables of a file in `config/agents/pointed`, with the URL of this gateway."""
        lines = [it for it in (AGENT_CONFIGS / file).read_text().splitlines() if it and not it.startswith("#")]
        return dict(it.replace("http://127.0.0.1:8787", self.gateway).split("=", 1) for it in lines)

    def run_isolated(self, environment, *command, stdin=""):
        """Runs an agent in the harness's environment with these variables added."""
        return subprocess.run([*map(str, command)], env=self.environment() | environment, cwd=self.project, input=stdin,
                              capture_output=True, text=True, timeout=CLIENT_TIMEOUT)

    def run_python(self, virtual_environment, program, *arguments, **environment):
        """Runs a program in the harness's environment with these variables added, as `programs.run` does."""
        return programs.run(virtual_environment, program, arguments, self.environment() | environment, self.project,
                            CLIENT_TIMEOUT)

    def run(self, *command, **environment):
        """Runs a command in the environment of gemini-cli with these variables added."""
        return subprocess.run(command, env=self.gemini_environment() | environment, cwd=self.project,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CLIENT_TIMEOUT)

    def run_gemini(self, prompt, *arguments, **environment):
        return self.run(BIN / "node", BIN / "gemini", *arguments, "-p", prompt, **environment)

    def prompt_gemini(self, prompt, *arguments, **environment):
        """Runs gemini-cli, which must succeed, with every tool approved and a fixed model, without its router."""
        run = self.run_gemini(prompt, "-m", "gemini-2.5-flash", "--yolo", *arguments, **environment)
        check(run.returncode, 0, run)
        return run

    def run_sdk(self, language, mode):
        """Runs one of the programs on a Google Gen AI SDK. `result` of the returned run is its printed JSON."""
        return self.run_program("genai.mjs" if language == "js" else "genai.py", mode)

    def run_program(self, name, *arguments, **environment):
        """Runs one of the programs in `agents/`. `result` of the returned run is its printed JSON."""
        litellm = self.home / "litellm.yaml"
        litellm.write_text((AGENT_CONFIGS / "litellm.yaml").read_text().replace("http://127.0.0.1:8787", self.gateway))
        variables = self.agent_variables("sdk.env") | {"LITELLM_CONFIG": str(litellm)}
        if name.endswith(".mjs"):
            run = self.run(BIN / "node", SCRATCH / name, *arguments, **variables | environment)
        else:
            variables = self.gemini_environment() | variables | environment
            run = self.run_python("sdk" if name == "genai.py" else "frameworks", HERE / "agents" / name, *arguments,
                                  **variables)
        check(run.returncode, 0, run)
        run.result = json.loads(run.stdout.splitlines()[-1])
        return run

    def raw_stream(self):
        """Requests a stream without an SDK. Returns the seconds until its status line, and its body."""
        connection = http.client.HTTPConnection(self.gateway.removeprefix("http://"), timeout=CLIENT_TIMEOUT)
        with contextlib.closing(connection):
            body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "turn 1"}]}]})
            started = time.monotonic()
            connection.request("POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", body,
                               {"content-type": "application/json"})
            response = connection.getresponse()
            return time.monotonic() - started, response.read()

    def mock_requests(self):
        """The requests that the mock received."""
        return get(f"{self.mock_url}/__requests")

    def sessions(self):
        """Sessions of the admin API, the newest first."""
        return get(f"{self.admin}/sessions")["sessions"]

    def hook_runs(self):
        """Number of runs of hooks that append to `HOOK_RUNS`."""
        runs = self.home / "hook_runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def events(self, name=None):
        """Inputs of the recorded events in order, or of those with this name."""
        path = self.home / "hook_events"
        lines = path.read_text().splitlines() if path.exists() else []
        events = [json.loads(line) for line in lines]
        return [it for it in events if name in (None, it["hook_event_name"])]


GEMINI_SETTINGS = {
    "security": {"folderTrust": {"enabled": False}},
    "general": {
        "enableAutoUpdate": False,
        "enableAutoUpdateNotification": False,
        # Its cleanup deletes a session that was resumed in another minute, as if it were empty.
        "sessionRetention": {"enabled": False},
    },
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


class Failed(Exception):
    """An assertion of a case that does not hold."""


def check(actual, expected, run=None):
    if actual != expected:
        fail(f"got {abbreviate(actual)} instead of {abbreviate(expected)}", run)


def contains(text, expected, run=None):
    if expected not in text:
        fail(f"{expected!r} is not in {abbreviate(text)}", run)


def lacks(text, unwanted, run=None):
    if unwanted in text:
        at = text.index(unwanted)
        fail(f"{unwanted!r} is in …{text[max(0, at - 200):at + 200]!r}…", run)


def at_least(actual, minimum, run=None):
    if actual < minimum:
        fail(f"got {actual} instead of at least {minimum}", run)


def fail(message, run=None):
    if run is not None:
        message = f"{message} (exit {run.returncode}, stderr {abbreviate(run.stderr.strip())})"
    raise Failed(message)


def abbreviate(value):
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]}…{text[-200:]}"


def get(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as answer:
        return json.load(answer)


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=CLIENT_TIMEOUT) as answer:
        return json.load(answer)


def without_envelope(request):
    """The body of a Gemini API request, without the envelope of Code Assist."""
    return request["body"].get("request", request["body"])


def tool_responses(request):
    """The responses of the function responses in the last content of a request."""
    return [it["functionResponse"]["response"] for it in without_envelope(request)["contents"][-1]["parts"]]


def tool_outputs(request):
    """The outputs of the function responses in the last content of a request."""
    return [it.get("output") for it in tool_responses(request)]


def prompts(request):
    """The texts of the user in a request."""
    contents = [it for it in request["body"]["contents"] if it["role"] == "user"]
    return [part["text"] for it in contents for part in it["parts"] if "text" in part]


def write_json(path, document):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=2))
    return path


def hookgate():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
    binary = pathlib.Path(os.environ.get("HOOKGATE", target / "debug" / "hookgate")).resolve()
    if not binary.is_file():
        raise Failed(f"there is no hookgate at {binary}; build it, or set HOOKGATE to its path")
    return binary
