"""Tools, prompts and answers of agents that know nothing of hooks: those of the gateway have their say.

The settings.json of gemini-cli holds no hook in any of these cases.
"""

import json

from stage import Stage, check, contains, lacks, prompts, tool_responses

CASES = []

WRITE = 'write_file {"file_path":"out.txt","content":"hello"}'
READ = 'read_file {"file_path":"alpha.txt"}'
BLOCKED = "Tool execution blocked: nothing is written here"


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


# --- before a tool ---


@case
def a_denied_tool_never_runs_and_the_model_hears_why():
    with Stage(BeforeTool="no_writes.sh") as stage:
        run = stage.asks_gemini(f"Use {WRITE}")
        check((stage.project / "out.txt").exists(), False, run)
        contains(run.stdout, f'The tool returned: {{"error":"{BLOCKED}', run)
        lacks(run.stderr, "rror", run)
        asked, told = stage.seen()
        check(len(told["body"]["contents"]), len(asked["body"]["contents"]) + 2, run)
        (response,) = tool_responses(told)
        contains(response["error"], BLOCKED, run)
        resumed = stage.asks_gemini("And now", "--resume", "latest")
        check(resumed.stdout.strip(), "You said: And now", resumed)


@case
def of_two_calls_in_one_step_only_the_denied_one_never_runs():
    calls = [
        {"name": "write_file", "args": {"file_path": "out.txt", "content": "hello"}},
        {"name": "read_file", "args": {"file_path": "alpha.txt"}},
    ]
    script = [streamed(calls), streamed(calls[1:]), streamed("I have read it.")]
    with Stage(script=script, BeforeTool="no_writes.sh", recorded=["AfterTool"]) as stage:
        run = stage.asks_gemini("Write and read")
        check(run.stdout.strip(), "I have read it.", run)
        lacks(run.stderr, "rror", run)
        check((stage.project / "out.txt").exists(), False, run)
        asked, told, read = stage.seen()
        refused, put_off = tool_responses(told)
        contains(refused["error"], BLOCKED, run)
        check(list(put_off), ["error"], run)
        check(tool_responses(read), [{"output": "contents of alpha\n"}], run)
        check([it["tool_name"] for it in stage.events("AfterTool")], ["read_file"], run)
        check(roles(read), "umumu", run)


@case
def a_model_that_insists_on_a_denied_tool_is_cut_short():
    call = [{"name": "write_file", "args": {"file_path": "out.txt", "content": "hello"}}]
    with Stage(script=[streamed(call)] * 20, BeforeTool="no_writes.sh") as stage:
        run = stage.asks_gemini("Write")
        contains(run.stdout, "nothing is written here", run)
        check(run.stdout.count("nothing is written here"), 1, run)
        check((stage.project / "out.txt").exists(), False, run)
        check(len(stage.seen()) <= 4, True, run)


@case
def a_tool_gets_the_arguments_that_a_hook_made_of_them():
    with Stage(BeforeTool="write_elsewhere.sh", recorded=["AfterTool"]) as stage:
        run = stage.asks_gemini(f"Use {WRITE}")
        check((stage.project / "out.txt").exists(), False, run)
        check((stage.project / "elsewhere.txt").read_text(), "hello", run)
        (ran,) = stage.events("AfterTool")
        check(ran["tool_input"], {"file_path": "elsewhere.txt", "content": "hello"}, run)


@case
def a_stopped_agent_stays_stopped_until_its_next_prompt():
    with Stage(BeforeTool="stop_writes.sh") as stage:
        run = stage.asks_gemini(f"Use {WRITE}")
        check((stage.project / "out.txt").exists(), False, run)
        contains(run.stdout, "Writing is the end of it.", run)
        check(len(stage.seen()), 1, run)
        resumed = stage.asks_gemini("And now", "--resume", "latest")
        check(resumed.stdout.strip(), "You said: And now", resumed)


# --- after a tool ---


@case
def a_hidden_result_is_in_no_later_request():
    with Stage(AfterTool="hide_secret.sh") as stage:
        (stage.project / "alpha.txt").write_text("the-secret-word\n")
        run = stage.asks_gemini(f"Use {READ}")
        contains(run.stdout, "this result is not for models", run)
        for turn in range(2, 11):
            if turn == 6:
                stage.restart()  # the next call comes to a gateway that remembers nothing
            run = stage.asks_gemini(f"turn {turn}", "--resume", "latest")
            check(run.stdout.strip(), f"You said: turn {turn}", run)
        requests = stage.seen()
        check(len(requests), 11, run)
        lacks(json.dumps(requests), "the-secret-word", run)
        for request in requests[1:]:
            contains(json.dumps(request["body"]), "this result is not for models", run)


@case
def what_a_hook_adds_to_a_result_stays_with_it():
    with Stage(AfterTool="scanned.sh") as stage:
        stage.asks_gemini(f"Use {READ}")
        run = stage.asks_gemini("And now", "--resume", "latest")
        _, *later = stage.seen()
        wanted = "contents of alpha\n\n\n<hook_context>scanned: clean</hook_context>"
        for request in later:
            responses = [part["functionResponse"]["response"] for it in request["body"]["contents"]
                         for part in it["parts"] if "functionResponse" in part]
            check({it["output"] for it in responses}, {wanted}, run)


# --- prompts and answers ---


@case
def a_denied_prompt_is_answered_once_and_the_next_one_works():
    with Stage(BeforeAgent="no_aurora.sh") as stage:
        run = stage.asks_gemini("Tell me of project aurora")
        check(run.stdout.strip(), "Project Aurora is not for models.", run)
        check(stage.seen(), [], run)
        run = stage.asks_gemini("And now", "--resume", "latest")
        check(run.stdout.strip(), "You said: And now", run)
        (request,) = stage.seen()
        lacks(json.dumps(request["body"]), "project aurora", run)
        lacks(json.dumps(request["body"]), "Project Aurora", run)
        check(stage.hook_runs(), 2, run)


@case
def what_is_known_in_a_turn_or_in_a_session_is_in_its_calls_alone():
    read = [{"name": "read_file", "args": {"file_path": "alpha.txt"}}]
    script = [streamed(read), streamed("Read."), streamed("Nothing more.")]
    with Stage(script=script, BeforeAgent="this_turn.sh", SessionStart="whole_session.sh") as stage:
        stage.asks_gemini("Read it")
        stage.asks_gemini("And now", "--resume", "latest")
        calls = [prompts(it) for it in stage.seen()]
        check(len(calls), 3)
        context = "<hook_context>known in the whole session</hook_context>"
        for call, turn in zip(calls, [1, 1, 2]):
            contains(call[0], "<session_context>")
            check(call[1], context)
            check([it for it in call if "known in turn" in it], [f"<hook_context>known in turn {turn}</hook_context>"])


@case
def a_rejected_answer_is_asked_for_once_more():
    with Stage(AfterAgent="say_please.sh", recorded=["AfterAgent"]) as stage:
        run = stage.asks_gemini("Say hello")
        contains(run.stdout, "You said: Say it again, politely.", run)
        check(len(stage.seen()), 2, run)
        check(prompts(stage.seen()[1])[-1], "Say it again, politely.", run)
        answers = [(it["stop_hook_active"], it["prompt_response"]) for it in stage.events("AfterAgent")]
        check(answers, [(False, "You said: Say hello"), (True, "You said: Say it again, politely.")], run)
        resumed = stage.asks_gemini("And now", "--resume", "latest")
        contains(resumed.stdout, "You said: And now", resumed)
        check(len(stage.seen()), 4, resumed)


# --- SDKs and frameworks ---

TALKS = [("genai.mjs", "talk"), ("genai.py", "talk"), ("langchain_talk.py",), ("litellm_talk.py",), ("adk_talk.py",)]
SAID = ["prompt 1", 'Use lookup {"word":"sun"}', *[f"prompt {it}" for it in range(3, 11)]]


def talking_case(function):
    for program, *mode in TALKS:
        for way in ["streamed", "whole"]:
            name = f"{function.__name__.replace('_', ' ')}, {program} {way}"
            CASES.append((name, lambda talk=(program, *mode, way, json.dumps(SAID)): function(talk)))


@talking_case
def a_denied_tool_never_runs_and_the_talk_goes_on(talk):
    with Stage(BeforeTool="no_lookups.sh") as stage:
        run = stage.program(*talk)
        check(run.result["words"], [], run)
        contains(run.result["texts"][1], "Tool execution blocked: nothing is looked up", run)
        check([run.result["texts"][it] for it in [0, *range(2, 10)]], [f"You said: {SAID[it]}" for it in [0, *range(2, 10)]], run)


@talking_case
def a_hidden_result_is_in_no_request_of_the_talk(talk):
    with Stage(AfterTool="hide_meaning.sh") as stage:
        run = stage.program(*talk)
        check(run.result["words"], ["sun"], run)
        requests = stage.seen()
        check(len(requests), 11, run)
        lacks(json.dumps(requests), "sun means sun", run)
        for request in requests[2:]:
            contains(json.dumps(request["body"]), "this meaning is not for models", run)


def streamed(said):
    """A line of the mock's script: a stream of one chunk with this text or these function calls."""
    parts = [{"text": said}] if isinstance(said, str) else [{"functionCall": it} for it in said]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"method": "generateContentStream", "response": [{"candidates": [candidate]}]}


def roles(request):
    return "".join(it["role"][0] for it in request["body"]["contents"])
