"""Installs the clients, once, into .scratch/clients: nothing outside of it is touched."""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent.parent
SCRATCH = REPO / ".scratch" / "clients"
BIN = SCRATCH / "node_modules" / ".bin"
AGENTS = SCRATCH / "agents" / "node_modules"

NPM = ["npm", "install", "--no-audit", "--no-fund"]
NODE_PACKAGES = ["@google/gemini-cli@0.61", "@google/genai@3.1", "node@22"]
# Coding agents, which are programs for one platform each; their own folder, since nothing is left out there.
AGENT_PACKAGES = ["@anthropic-ai/claude-code@2.1.330", "@openai/codex@0.169.0", "opencode-ai@1.18.33"]
PROGRAMS = {
    "claude": "@anthropic-ai/claude-code-*/claude",
    "codex": "@openai/codex-*/vendor/*/bin/codex",
    "opencode": "opencode-*/bin/opencode",
}
# Installs the packages of Python in a third of the time and a tenth of the work that pip needs.
UV = "uv==0.13.9"
# Lets SDKs speak HTTP/2.
H2 = "h2==4.4.1"
PYTHON_PACKAGES = {
    "sdk": ["google-genai==3.4.0", H2],
    # These pin an older google-genai, so they have a place of their own.
    # LiteLLM imports mcp without asking for it.
    "frameworks": ["langchain-google-genai==4.4.2", "litellm==1.106.2", "mcp==2.3.0", "google-adk==2.13.0"],
    # What tries out the interface by its document.
    "interface": ["schemathesis==4.32.5"],
    "vendors": ["anthropic==2.12.0", "openai==3.54.0", "openai-agents==0.24.0", H2],
    "aider": ["aider-chat==0.86.2"],
}


def python(environment):
    return SCRATCH / environment / "bin" / "python"


def native(program):
    """The program of a coding agent for this platform."""
    return next(AGENTS.glob(PROGRAMS[program]))


def all_clients():
    """Installs the clients unless these very versions are there."""
    if not shutil.which("tmux"):
        sys.exit("tmux is not installed; gemini-cli's windows need it")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "agents" / "genai.mjs", SCRATCH)  # an import is looked up beside the program
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(it) for it in [node_clients, coding_agents, python_clients]]:
            done.result()


def python_clients():
    """Installs what is written in Python."""
    python_environments(PYTHON_PACKAGES)


def python_environments(packages_of):
    """Installs environments of Python, each with its packages."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    once("tools", [UV], lambda: [
        [sys.executable, "-m", "venv", "--clear", "tools"],
        [python("tools"), "-m", "pip", "install", "--quiet", UV],
    ])
    uv = [python("tools").with_name("uv"), "--quiet", "--cache-dir", "cache"]
    for environment, packages in packages_of.items():
        once(environment, packages, lambda: [
            [*uv, "venv", "--clear", "--python", sys.executable, environment],
            [*uv, "pip", "install", "--python", python(environment), *packages],
        ])


def node_clients():
    """Installs gemini-cli and the SDK for JavaScript."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    once("node", NODE_PACKAGES, lambda: [[*NPM, "--omit=optional", *NODE_PACKAGES]])


def coding_agents():
    """Installs the coding agents, whose programs are optional packages."""
    folder = AGENTS.parent
    folder.mkdir(parents=True, exist_ok=True)
    once("agents", AGENT_PACKAGES, lambda: [[*NPM, "--ignore-scripts", *AGENT_PACKAGES]], folder)


def once(name, packages, steps, folder=SCRATCH):
    done, wanted = SCRATCH / f"installed.{name}.json", json.dumps(packages)
    if done.exists() and done.read_text() == wanted:
        return
    package = folder / "package.json"
    if not package.exists():
        package.write_text('{"private": true}')
    for step in steps():
        run = subprocess.run(step, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            sys.exit(f"cannot install the clients: {' '.join(map(str, step))}\n{run.stdout[-2000:]}")
    done.write_text(wanted)


if __name__ == "__main__":
    node_clients()
