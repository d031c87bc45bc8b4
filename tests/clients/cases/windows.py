"""gemini-cli in an interactive window: cancelling, slash commands, sub-agents and denials."""

import json

from harness import Harness, check, lacks, prompts
from terminal import GeminiWindow

CASES = []
# Cases that must act during an answer, and so run without other cases on the machine.
SEQUENTIAL_CASES = []

# Options of a mock whose answers have a chunk for each letter, so that a long one takes seconds to be cancelled in.
SLOW_MOCK = ["--chunks", "120", "--interval", "40"]
CANCELLED = "prompt 3, which is long and not answered to the end: the answer would repeat every word of it, letter by letter"
READ = 'Use read_file {"file_path":"alpha.txt"}'


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


def sequential_case(function):
    SEQUENTIAL_CASES.append((function.__name__.replace("_", " "), function))
    return function


@sequential_case
def a_window_of_gemini_cli_keeps_its_session_after_cancelling_and_compression():
    recorded = ["SessionStart", "BeforeAgent", "BeforeModel", "AfterTool", "AfterAgent"]
    with Harness(recorded=recorded, mock=SLOW_MOCK) as harness, GeminiWindow(harness) as window:
        window.send_and_wait("prompt 1", "You said: prompt 1")
        window.send_and_wait(READ, "contents of alpha")
        window.send(CANCELLED)
        window.wait_for("You said: prompt 3")
        window.press("Escape")
        window.wait_for("Request cancelled")
        for prompt in ["prompt 4", "prompt 5"]:
            window.send_and_wait(prompt, f"You said: {prompt}")
        window.send_and_wait("/compress", "Chat history compressed")
        rest = [f"prompt {it}" for it in range(6, 11)]
        for prompt in rest:
            window.send_and_wait(prompt, f"You said: {prompt}")

        check({it["session_id"] for it in harness.events()}, {harness.events()[0]["session_id"]})
        sent = ["prompt 1", READ, CANCELLED, "prompt 4", "prompt 5", *rest]
        check([it["prompt"] for it in harness.events("BeforeAgent")], sent)
        answered = [it for it in sent if it != CANCELLED]
        check([it["prompt"] for it in harness.events("AfterAgent")], answered)
        check(len(harness.events("SessionStart")), 1)
        check(len(harness.events("AfterTool")), 1)
        # The compression makes two calls, and the tool result one.
        check(len(harness.events("BeforeModel")), 13)
        check(len(harness.sessions()), 1)


@case
def a_cleared_window_of_gemini_cli_has_another_session():
    with Harness(recorded=["SessionStart", "BeforeAgent"]) as harness, GeminiWindow(harness) as window:
        window.send_and_wait("prompt 1", "You said: prompt 1")
        window.send("/clear")
        window.wait_until("the window is cleared", lambda: "prompt 1" not in window.screen())
        window.send_and_wait("prompt 2", "You said: prompt 2")
        starts = harness.events("SessionStart")
        check([it["source"] for it in starts], ["startup", "startup"])
        check(len({it["session_id"] for it in starts}), 2)
        check([it["prompt"] for it in harness.events("BeforeAgent")], ["prompt 1", "prompt 2"])
        lacks(json.dumps(harness.mock_requests()[-1]), "prompt 1")


@case
def a_sub_agent_in_a_window_has_a_separate_session():
    recorded = ["BeforeAgent", "BeforeModel", "AfterAgent"]
    with Harness(recorded=recorded, mock=SLOW_MOCK) as harness, GeminiWindow(harness) as window:
        arguments = {"agent_name": "codebase_investigator", "prompt": 'read_file {"file_path":"alpha.txt"}'}
        window.send_and_wait("prompt 1", "You said: prompt 1")
        window.send_and_wait(f"Use invoke_agent {json.dumps(arguments)}", "The tool returned")
        window.send_and_wait("prompt 3", "You said: prompt 3")
        calls = harness.events("BeforeModel")
        main, *_, last = [it["session_id"] for it in calls]
        check(last == main, True)
        check(len({it["session_id"] for it in calls}), 2)
        of_main = [it["prompt"] for it in harness.events("BeforeAgent") if it["session_id"] == main]
        check(of_main, ["prompt 1", f"Use invoke_agent {json.dumps(arguments)}", "prompt 3"])
        check(len(harness.sessions()), 2)


@case
def a_window_shows_the_denial_of_a_prompt_once_and_continues():
    with Harness(BeforeAgent="no_aurora.sh") as harness, GeminiWindow(harness) as window:
        window.send_and_wait("prompt 1", "You said: prompt 1")
        window.send_and_wait("Tell me of project aurora", "Project Aurora is not for models.")
        window.send_and_wait("prompt 3", "You said: prompt 3")
        check(window.screen().count("Project Aurora is not for models."), 1)
        requests = harness.mock_requests()
        check([prompts(it)[-1] for it in requests], ["prompt 1", "prompt 3"])
        lacks(json.dumps(requests), "project aurora")
        lacks(json.dumps(requests), "Project Aurora")


@case
def a_window_shows_the_answer_after_a_denied_tool_call():
    with Harness(BeforeTool="no_writes.sh") as harness, GeminiWindow(harness) as window:
        write = 'Use write_file {"file_path":"out.txt","content":"hello"}'
        window.send_and_wait(write, 'The tool returned: {"error":"Tool execution blocked: nothing is written here')
        window.send_and_wait("And now", "You said: And now")
        check((harness.project / "out.txt").exists(), False)
        lacks(window.screen(), "✕")
