"""Hooks of the gateway on tools, prompts and answers of agents that do not report events.

The settings.json of gemini-cli has no hook in any of these cases.
"""

import json

from harness import Harness, check, contains, lacks, prompts, tool_responses

CASES = []

WRITE = 'write_file {"file_path":"out.txt","content":"hello"}'
READ = 'read_file {"file_path":"alpha.txt"}'
BLOCKED = "Tool execution blocked: nothing is written here"


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


# --- before a tool ---


@case
def a_denied_tool_never_runs_and_the_model_receives_the_reason():
    with Harness(BeforeTool="no_writes.sh") as harness:
        run = harness.prompt_gemini(f"Use {WRITE}")
        check((harness.project / "out.txt").exists(), False, run)
        contains(run.stdout, f'The tool returned: {{"error":"{BLOCKED}', run)
        lacks(run.stderr, "rror", run)
        first, second = harness.mock_requests()
        check(len(second["body"]["contents"]), len(first["body"]["contents"]) + 2, run)
        (response,) = tool_responses(second)
        contains(response["error"], BLOCKED, run)
        resumed = harness.prompt_gemini("And now", "--resume", "latest")
        check(resumed.stdout.strip(), "You said: And now", resumed)


@case
def a_denied_tool_call_postpones_the_other_call_of_its_step():
    calls = [
        {"name": "write_file", "args": {"file_path": "out.txt", "content": "hello"}},
        {"name": "read_file", "args": {"file_path": "alpha.txt"}},
    ]
    script = [stream_line(calls), stream_line(calls[1:]), stream_line("I have read it.")]
    with Harness(script=script, BeforeTool="no_writes.sh", recorded=["AfterTool"]) as harness:
        run = harness.prompt_gemini("Write and read")
        check(run.stdout.strip(), "I have read it.", run)
        lacks(run.stderr, "rror", run)
        check((harness.project / "out.txt").exists(), False, run)
        _, second, third = harness.mock_requests()
        denied, postponed = tool_responses(second)
        contains(denied["error"], BLOCKED, run)
        check(list(postponed), ["error"], run)
        check(tool_responses(third), [{"output": "contents of alpha\n"}], run)
        check([it["tool_name"] for it in harness.events("AfterTool")], ["read_file"], run)
        check(roles(third), "umumu", run)


@case
def repeated_calls_of_a_denied_tool_are_limited():
    call = [{"name": "write_file", "args": {"file_path": "out.txt", "content": "hello"}}]
    with Harness(script=[stream_line(call)] * 20, BeforeTool="no_writes.sh") as harness:
        run = harness.prompt_gemini("Write")
        contains(run.stdout, "nothing is written here", run)
        check(run.stdout.count("nothing is written here"), 1, run)
        check((harness.project / "out.txt").exists(), False, run)
        check(len(harness.mock_requests()) <= 4, True, run)


@case
def a_tool_runs_with_arguments_replaced_by_a_hook():
    with Harness(BeforeTool="write_elsewhere.sh", recorded=["AfterTool"]) as harness:
        run = harness.prompt_gemini(f"Use {WRITE}")
        check((harness.project / "out.txt").exists(), False, run)
        check((harness.project / "elsewhere.txt").read_text(), "hello", run)
        (event,) = harness.events("AfterTool")
        check(event["tool_input"], {"file_path": "elsewhere.txt", "content": "hello"}, run)


@case
def a_stopped_agent_makes_no_call_until_its_next_prompt():
    with Harness(BeforeTool="stop_writes.sh") as harness:
        run = harness.prompt_gemini(f"Use {WRITE}")
        check((harness.project / "out.txt").exists(), False, run)
        contains(run.stdout, "Writing is the end of it.", run)
        check(len(harness.mock_requests()), 1, run)
        resumed = harness.prompt_gemini("And now", "--resume", "latest")
        check(resumed.stdout.strip(), "You said: And now", resumed)


# --- after a tool ---


@case
def context_added_to_a_tool_result_is_in_every_later_request():
    with Harness(AfterTool="scanned.sh") as harness:
        harness.prompt_gemini(f"Use {READ}")
        run = harness.prompt_gemini("And now", "--resume", "latest")
        _, *later = harness.mock_requests()
        expected = "contents of alpha\n\n\n<hook_context>scanned: clean</hook_context>"
        for request in later:
            responses = [part["functionResponse"]["response"] for it in request["body"]["contents"]
                         for part in it["parts"] if "functionResponse" in part]
            check({it["output"] for it in responses}, {expected}, run)


# --- prompts and answers ---


@case
def a_denied_prompt_is_answered_once_and_the_next_one_works():
    with Harness(BeforeAgent="no_aurora.sh") as harness:
        run = harness.prompt_gemini("Tell me of project aurora")
        check(run.stdout.strip(), "Project Aurora is not for models.", run)
        check(harness.mock_requests(), [], run)
        run = harness.prompt_gemini("And now", "--resume", "latest")
        check(run.stdout.strip(), "You said: And now", run)
        (request,) = harness.mock_requests()
        lacks(json.dumps(request["body"]), "project aurora", run)
        lacks(json.dumps(request["body"]), "Project Aurora", run)
        check(harness.hook_runs(), 2, run)


@case
def context_of_a_turn_or_session_is_in_its_own_calls_only():
    read = [{"name": "read_file", "args": {"file_path": "alpha.txt"}}]
    script = [stream_line(read), stream_line("Read."), stream_line("Nothing more.")]
    with Harness(script=script, BeforeAgent="this_turn.sh", SessionStart="whole_session.sh") as harness:
        harness.prompt_gemini("Read it")
        harness.prompt_gemini("And now", "--resume", "latest")
        calls = [prompts(it) for it in harness.mock_requests()]
        check(len(calls), 3)
        context = "<hook_context>known in the whole session</hook_context>"
        for call, turn in zip(calls, [1, 1, 2]):
            contains(call[0], "<session_context>")
            check(call[1], context)
            check([it for it in call if "known in turn" in it], [f"<hook_context>known in turn {turn}</hook_context>"])


@case
def a_rejected_answer_is_requested_once_more():
    with Harness(AfterAgent="say_please.sh", recorded=["AfterAgent"]) as harness:
        run = harness.prompt_gemini("Say hello")
        contains(run.stdout, "You said: Say it again, politely.", run)
        check(len(harness.mock_requests()), 2, run)
        check(prompts(harness.mock_requests()[1])[-1], "Say it again, politely.", run)
        answers = [(it["stop_hook_active"], it["prompt_response"]) for it in harness.events("AfterAgent")]
        check(answers, [(False, "You said: Say hello"), (True, "You said: Say it again, politely.")], run)
        resumed = harness.prompt_gemini("And now", "--resume", "latest")
        contains(resumed.stdout, "You said: And now", resumed)
        check(len(harness.mock_requests()), 4, resumed)


# --- SDKs and frameworks ---

PROGRAMS = [("genai.mjs", "conversation"), ("genai.py", "conversation"), ("langchain_conversation.py",),
            ("litellm_conversation.py",), ("adk_conversation.py",)]
PROMPTS = ["prompt 1", 'Use lookup {"word":"sun"}', *[f"prompt {it}" for it in range(3, 11)]]


def conversation_case(function):
    """Registers a case for each program and each mode. Its argument is the program with its arguments."""
    for program, *arguments in PROGRAMS:
        for mode in ["streamed", "whole"]:
            name = f"{function.__name__.replace('_', ' ')}, {program} {mode}"
            command = program, *arguments, mode, json.dumps(PROMPTS)
            CASES.append((name, lambda command=command: function(command)))


@conversation_case
def a_denied_tool_never_runs_and_the_conversation_continues(command):
    with Harness(BeforeTool="no_lookups.sh") as harness:
        run = harness.run_program(*command)
        check(run.result["words"], [], run)
        contains(run.result["texts"][1], "Tool execution blocked: nothing is looked up", run)
        others = [0, *range(2, 10)]
        check([run.result["texts"][it] for it in others], [f"You said: {PROMPTS[it]}" for it in others], run)


@conversation_case
def a_hidden_result_is_in_no_request_of_the_conversation(command):
    with Harness(AfterTool="hide_meaning.sh") as harness:
        run = harness.run_program(*command)
        check(run.result["words"], ["sun"], run)
        requests = harness.mock_requests()
        check(len(requests), 11, run)
        lacks(json.dumps(requests), "sun means sun", run)
        for request in requests[2:]:
            contains(json.dumps(request["body"]), "this meaning is not for models", run)


def stream_line(content):
    """A line of the mock's script: a stream of one chunk with this text or these function calls."""
    parts = [{"text": content}] if isinstance(content, str) else [{"functionCall": it} for it in content]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"method": "generateContentStream", "response": [{"candidates": [candidate]}]}


def roles(request):
    return "".join(it["role"][0] for it in request["body"]["contents"])
