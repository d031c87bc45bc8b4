"""Installation of the clients into .scratch/clients, once. No other folder is changed."""

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
# Coding agents, whose programs are optional packages for one platform each. They have a folder of their own, because
# the other one omits optional packages.
AGENT_PACKAGES = ["@anthropic-ai/claude-code@2.1.330", "@openai/codex@0.169.0", "opencode-ai@1.18.33"]
PROGRAMS = {
    "claude": "@anthropic-ai/claude-code-*/claude",
    "codex": "@openai/codex-*/vendor/*/bin/codex",
    "opencode": "opencode-*/bin/opencode",
}
# Installs Python packages in a third of the time and a tenth of the CPU time that pip needs.
UV = "uv==0.13.9"
# HTTP/2 support of the SDKs.
H2 = "h2==4.4.1"
PYTHON_PACKAGES = {
    "sdk": ["google-genai==3.4.0", H2],
    # These pin an older google-genai, so they have an environment of their own.
    # LiteLLM imports mcp without a dependency on it.
    "frameworks": ["langchain-google-genai==4.4.2", "litellm==1.106.2", "mcp==2.3.0", "google-adk==2.13.0"],
    # Tests the HTTP API against its OpenAPI document.
    "interface": ["schemathesis==4.32.5"],
    "vendors": ["anthropic==2.12.0", "openai==3.54.0", "openai-agents==0.24.0", H2],
    "aider": ["aider-chat==0.86.2"],
}


def python(environment):
    return SCRATCH / environment / "bin" / "python"


def native(program):
    """Path of a coding agent's program for this platform."""
    return next(AGENTS.glob(PROGRAMS[program]))


def environment(home, temporary):
    """Environment variables of a process with these folders."""
    # Caches of compiled code, shared by all cases.
    compiled = SCRATCH / "compiled"
    caches = {"NODE_COMPILE_CACHE": str(compiled), "PYTHONPYCACHEPREFIX": str(compiled / "python")}
    # Bun programs leave libraries in the folder for temporary files.
    folders = {"HOME": str(home), "TMPDIR": str(temporary)}
    path = f"{BIN}:/usr/local/bin:/usr/bin:/bin"
    return caches | folders | {"PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color"}


def all_clients():
    """Installs the clients unless these versions are installed."""
    if not shutil.which("tmux"):
        sys.exit("tmux is not installed; the cases with windows need it")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "agents" / "genai.mjs", SCRATCH)  # Node resolves its imports from this folder
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for future in [pool.submit(it) for it in [node_clients, coding_agents, python_clients]]:
            future.result()


def python_clients():
    """Installs the SDKs, frameworks and agents that are Python packages."""
    python_environments(PYTHON_PACKAGES)


def python_environments(packages_by_environment):
    """Creates virtual environments, each with its packages."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    install_once("tools", [UV], lambda: [
        [sys.executable, "-m", "venv", "--clear", "tools"],
        [python("tools"), "-m", "pip", "install", "--quiet", UV],
    ])
    uv = [python("tools").with_name("uv"), "--quiet", "--cache-dir", "cache"]
    for environment, packages in packages_by_environment.items():
        install_once(environment, packages, lambda: [
            [*uv, "venv", "--clear", "--python", sys.executable, environment],
            [*uv, "pip", "install", "--python", python(environment), *packages],
        ])


def node_clients():
    """Installs gemini-cli and the SDK for JavaScript."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    install_once("node", NODE_PACKAGES, lambda: [[*NPM, "--omit=optional", *NODE_PACKAGES]])


def coding_agents():
    """Installs the coding agents with their optional packages."""
    folder = AGENTS.parent
    folder.mkdir(parents=True, exist_ok=True)
    install_once("agents", AGENT_PACKAGES, lambda: [[*NPM, "--ignore-scripts", *AGENT_PACKAGES]], folder)


def install_once(name, packages, commands, folder=SCRATCH):
    """Runs the commands unless the last installation of this name had the same packages."""
    done, wanted = SCRATCH / f"installed.{name}.json", json.dumps(packages)
    if done.exists() and done.read_text() == wanted:
        return
    package = folder / "package.json"
    if not package.exists():
        package.write_text('{"private": true}')
    for command in commands():
        run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            sys.exit(f"cannot install the clients: {' '.join(map(str, command))}\n{run.stdout[-2000:]}")
    done.write_text(wanted)


if __name__ == "__main__":
    node_clients()
