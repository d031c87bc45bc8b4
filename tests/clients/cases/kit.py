"""The laptop kit: what `config/agents/laptop/install` writes keeps agents at the gateway, whatever a user's own settings
say. Its /etc is laid over that of the machine in a mount namespace of the agent's own, for which it must be root."""

import json
import subprocess
import tomllib

from coding_agents import opencode
from install import BIN, REPO, native
from stage import DEADLINE, Stage, check, contains, lacks

INSTALL = REPO / "config" / "agents" / "laptop" / "install"
ELSEWHERE = "http://127.0.0.1:1"
LOGIN = 'mount -t overlay overlay -o "lowerdir=$KIT/etc:/etc" /etc && . /etc/profile.d/hookgate.sh && exec "$@"'
OPENCODE = opencode.OpenCode("messages", None, "anthropic/claude-sonnet-4-5")


class User:
    """A user who has pointed an agent elsewhere: the settings in a home, and the command that asks."""

    def __init__(self, path, settings, command):
        self.path, self.settings, self.command = path, settings, command

    def points_elsewhere(self, home):
        (home / self.path).parent.mkdir(parents=True, exist_ok=True)
        (home / self.path).write_text(self.settings)


USERS = {
    "gemini-cli": User(
        ".gemini/settings.json",
        json.dumps({"security": {"folderTrust": {"enabled": False}, "auth": {"selectedType": "vertex-ai"}}}),
        lambda: [BIN / "node", BIN / "gemini", "-m", "gemini-2.5-flash", "-p", "Say hello"]),
    "claude code": User(
        ".claude/settings.json",
        json.dumps({"env": {"ANTHROPIC_BASE_URL": ELSEWHERE}}),
        lambda: [native("claude"), "-p", "Say hello"]),
    "codex": User(
        ".codex/config.toml",
        'model_provider = "elsewhere"\n[model_providers.elsewhere]\nname = "elsewhere"\n'
        f'base_url = "{ELSEWHERE}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n',
        lambda: [native("codex"), "exec", "--skip-git-repo-check", "-c", "model_provider=elsewhere", "Say hello"]),
    "opencode": User(
        ".config/opencode/opencode.json",
        json.dumps({"provider": {"anthropic": {"options": {"baseURL": f"{ELSEWHERE}/v1"}}}}),
        lambda: [native("opencode"), "run", "--model", OPENCODE.model, "Say hello"]),
}


def install(stage, *options):
    root = stage.home / "kit"
    command = [INSTALL, "--url", stage.gate, "--root", root, *options]
    return root, subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=DEADLINE)


def the_kit_outranks_a_user(name):
    user = USERS[name]
    with Stage() as stage:
        root, run = install(stage)
        check(run.returncode, 0, run)
        user.points_elsewhere(stage.home)
        extra = {"KIT": str(root), "GEMINI_CLI_NO_RELAUNCH": "true", **(OPENCODE.environment(stage) if name == "opencode" else {})}
        run = stage.run_sealed(extra, "unshare", "--mount", "bash", "-c", LOGIN, "login", *user.command())
        contains(run.stdout, "Say hello", run)
        contains(run.stdout, "You said", run)
        check(bool(stage.seen()), True, run)


def the_kit_has_the_address_the_key_and_the_authority():
    with Stage() as stage:
        (stage.home / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
        (stage.home / "key").write_text("hookgate-a-key\n")
        root, run = install(stage, "--ca", stage.home / "ca.pem", "--key", stage.home / "key", "--login", "vertex")
        check(run.returncode, 0, run)
        files = [it for it in root.rglob("*") if it.is_file()]
        check(sorted(run.stdout.split()), sorted(str(it) for it in files if it.name != "ca.pem"), run)
        for file in files:
            text = file.read_text()
            lacks(text, "held-by-hookgate")
            lacks(text, "127.0.0.1:8787")
            if file.suffix == ".json":
                json.loads(text)
            check(file.stat().st_mode & 0o777, 0o644)
        gemini = json.loads((root / "etc/gemini-cli/settings.json").read_text())
        check(gemini["security"]["auth"]["enforcedType"], "vertex-ai")
        codex = tomllib.loads((root / "etc/codex/managed_config.toml").read_text())
        check(codex["model_providers"][codex["model_provider"]]["base_url"], f"{stage.gate}/v1")
        printed = subprocess.run(["bash", "-c", '. "$0" && env', root / "etc/profile.d/hookgate.sh"], env={}, capture_output=True,
                                 text=True, timeout=DEADLINE)
        variables = dict(it.split("=", 1) for it in printed.stdout.splitlines())
        check(variables["GOOGLE_VERTEX_BASE_URL"], stage.gate, printed)
        check(variables["GOOGLE_API_KEY"], "hookgate-a-key", printed)
        check(variables["NODE_EXTRA_CA_CERTS"], "/etc/hookgate/ca.pem", printed)


def the_kit_refuses_what_is_no_address():
    with Stage() as stage:
        for wrong in [["--url", "localhost:8787"], ["--url", "http://a b"], ["--login", "none"], ["--key", "/dev/null"], ["--url"]]:
            root, run = install(stage, *wrong)
            check((run.returncode, root.exists()), (2, False), run)


CASES = [(f"the kit outranks a user of {it}", lambda it=it: the_kit_outranks_a_user(it)) for it in USERS]
CASES += [(it.__name__.replace("_", " "), it) for it in [
    the_kit_has_the_address_the_key_and_the_authority, the_kit_refuses_what_is_no_address]]
