"""The laptop kit: files of `config/agents/laptop/install` make agents use the gateway, and override the settings of the
user. The kit's /etc is mounted over that of the machine in a mount namespace of the agent, which requires root."""

import json
import subprocess
import tomllib

from coding_agents import opencode
from install import BIN, REPO, native
from harness import CLIENT_TIMEOUT, Harness, check, contains, lacks

INSTALL = REPO / "config" / "agents" / "laptop" / "install"
OTHER_URL = "http://127.0.0.1:1"
LOGIN_SHELL = 'mount -t overlay overlay -o "lowerdir=$KIT/etc:/etc" /etc && . /etc/profile.d/hookgate.sh && exec "$@"'
OPENCODE = opencode.OpenCode("messages", None, "anthropic/claude-sonnet-4-5")


class UserSettings:
    """Settings of a user by which an agent bypasses the gateway, and the command that runs the agent."""

    def __init__(self, path, settings, command):
        self.path, self.settings, self.command = path, settings, command

    def write(self, home):
        (home / self.path).parent.mkdir(parents=True, exist_ok=True)
        (home / self.path).write_text(self.settings)


USER_SETTINGS = {
    "gemini-cli": UserSettings(
        ".gemini/settings.json",
        json.dumps({"security": {"folderTrust": {"enabled": False}, "auth": {"selectedType": "vertex-ai"}}}),
        lambda: [BIN / "node", BIN / "gemini", "-m", "gemini-2.5-flash", "-p", "Say hello"]),
    "claude code": UserSettings(
        ".claude/settings.json",
        json.dumps({"env": {"ANTHROPIC_BASE_URL": OTHER_URL}}),
        lambda: [native("claude"), "-p", "Say hello"]),
    "codex": UserSettings(
        ".codex/config.toml",
        'model_provider = "elsewhere"\n[model_providers.elsewhere]\nname = "elsewhere"\n'
        f'base_url = "{OTHER_URL}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n',
        lambda: [native("codex"), "exec", "--skip-git-repo-check", "-c", "model_provider=elsewhere", "Say hello"]),
    "opencode": UserSettings(
        ".config/opencode/opencode.json",
        json.dumps({"provider": {"anthropic": {"options": {"baseURL": f"{OTHER_URL}/v1"}}}}),
        lambda: [native("opencode"), "run", "--model", OPENCODE.model, "Say hello"]),
}


def install(harness, *options):
    root = harness.home / "kit"
    command = [INSTALL, "--url", harness.gateway, "--root", root, *options]
    return root, subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=CLIENT_TIMEOUT)


def the_kit_overrides_user_settings(name):
    user = USER_SETTINGS[name]
    with Harness() as harness:
        root, run = install(harness)
        check(run.returncode, 0, run)
        user.write(harness.home)
        variables = {"KIT": str(root), "GEMINI_CLI_NO_RELAUNCH": "true"}
        if name == "opencode":
            variables |= opencode.VARIABLES
        run = harness.run_isolated(variables, "unshare", "--mount", "bash", "-c", LOGIN_SHELL, "login", *user.command())
        contains(run.stdout, "Say hello", run)
        contains(run.stdout, "You said", run)
        check(bool(harness.mock_requests()), True, run)


def the_kit_contains_the_url_the_key_and_the_ca_certificate():
    with Harness() as harness:
        (harness.home / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
        (harness.home / "key").write_text("hookgate-a-key\n")
        authorities = harness.home / "kit/etc/ssl/certs/ca-certificates.crt"
        authorities.parent.mkdir(parents=True)
        authorities.write_text("the system's authorities\n")
        files = ["--ca", harness.home / "ca.pem", "--key", harness.home / "key"]
        root, run = install(harness, *files, "--login", "vertex")
        check(run.returncode, 0, run)
        files = [it for it in root.rglob("*") if it.is_file()]
        check(sorted(run.stdout.split()), sorted(str(it) for it in files if not it.name.startswith(("ca", "written"))), run)
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
        check(codex["model_providers"][codex["model_provider"]]["base_url"], f"{harness.gateway}/v1")
        command = ["bash", "-c", '. "$0" && env', root / "etc/profile.d/hookgate.sh"]
        printed = subprocess.run(command, env={}, capture_output=True, text=True, timeout=CLIENT_TIMEOUT)
        variables = dict(it.split("=", 1) for it in printed.stdout.splitlines())
        check(variables["GOOGLE_VERTEX_BASE_URL"], harness.gateway, printed)
        check(variables["GOOGLE_API_KEY"], "hookgate-a-key", printed)
        check(variables["NODE_EXTRA_CA_CERTS"], "/etc/hookgate/ca.pem", printed)
        check(variables["SSL_CERT_FILE"], "/etc/hookgate/ca-bundle.pem", printed)
        bundle = (root / "etc/hookgate/ca-bundle.pem").read_text()
        check(bundle, "the system's authorities\n-----BEGIN CERTIFICATE-----\n")


def the_kit_installer_refuses_invalid_options():
    with Harness() as harness:
        for invalid in [["--url", "localhost:8787"], ["--url", "http://a b"], ["--login", "none"],
                        ["--key", "/dev/null"], ["--url"]]:
            root, run = install(harness, *invalid)
            check((run.returncode, root.exists()), (2, False), run)


CASES = [(f"the kit overrides user settings of {it}", lambda it=it: the_kit_overrides_user_settings(it))
         for it in USER_SETTINGS]
CASES += [(it.__name__.replace("_", " "), it) for it in [
    the_kit_contains_the_url_the_key_and_the_ca_certificate, the_kit_installer_refuses_invalid_options]]
