"""The SDKs of Anthropic and OpenAI, OpenAI's Agents SDK, and aider: each by each of its APIs."""

import functools
import json

from install import HERE, SCRATCH, python
from stage import Stage, check, contains, lacks
from wires import Chat, Messages, Responses

# These need little of the machine but time, so they run beside each other.
CASES = []

# Name, program with its first argument, the file that points it here, how to read its requests.
SDKS = [
    ("anthropic sdk", ["anthropic_talk.py"], "anthropic-sdk.env", Messages),
    ("openai sdk (chat)", ["openai_talk.py", "chat"], "openai-sdk.env", Chat),
    ("openai sdk (responses)", ["openai_talk.py", "responses"], "openai-sdk.env", Responses),
    ("openai agents (chat)", ["openai_agents_talk.py", "chat"], "openai-sdk.env", Chat),
    ("openai agents (responses)", ["openai_agents_talk.py", "responses"], "openai-sdk.env", Responses),
]
EVENTS = ["SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "AfterTool", "AfterAgent"]
EMAIL = {"policy": "redact", "detect": ["email"]}
SUN = 'Use lookup {"word":"sun"}'
SUN_AND_MOON = 'Use lookup {"word":"sun"} and lookup {"word":"moon"}'


class Sdk:
    """One of the programs in `agents/`."""

    def __init__(self, program, pointed, wire):
        self.program, self.pointed, self.wire = program, pointed, wire

    def talks(self, stage, *prompts, ways=("streamed", "whole")):
        """Says the same in each way; `results` has what came of each."""
        name, *api = self.program
        run = stage.run_sealed(stage.pointed(self.pointed), python("vendors"), HERE / "agents" / name, *api, ",".join(ways),
                               json.dumps(prompts))
        check(run.returncode, 0, run)
        run.results = json.loads(run.stdout.splitlines()[-1])
        return run

    def requests(self, stage):
        return [it["body"] for it in stage.seen() if it["path"].endswith(self.wire.path)]


def each_sdk(function):
    for name, program, pointed, wire in SDKS:
        sdk = Sdk(program, pointed, wire)
        CASES.append((f"{name} {function.__name__.replace('_', ' ')}", lambda sdk=sdk: function(sdk)))
    return function


def is_one_session_over_ten_turns(sdk, way):
    with Stage(recorded=EVENTS) as stage:
        said = [SUN_AND_MOON if turn == 4 else f"prompt {turn}" for turn in range(1, 11)]
        run = sdk.talks(stage, *said, ways=[way])
        (result,) = run.results
        for seen, prompt in zip(result["texts"], said, strict=True):
            contains(seen, "moon means moon" if "moon" in prompt else f"You said: {prompt}", run)
        check(sorted(result["words"]), ["moon", "sun"], run)
        requests = sdk.requests(stage)
        check(len(requests), 11, run)
        for before, after in zip(requests, requests[1:]):
            history = sdk.wire.history(before)
            check(sdk.wire.history(after)[:len(history)], history, run)
        check(len({it["session_id"] for it in stage.events()}), 1, run)
        check([it["prompt"] for it in stage.events("BeforeAgent")], said, run)
        check([it["tool_input"] for it in stage.events("BeforeTool")], [{"word": "sun"}, {"word": "moon"}], run)
        check(len(stage.events("AfterTool")), 2, run)
        check(len(stage.events("AfterAgent")), 10, run)


for way in ["streamed", "whole"]:
    each = functools.partial(is_one_session_over_ten_turns, way=way)
    each.__name__ = f"is_one_session_over_ten_turns_({way})"
    each_sdk(each)


@each_sdk
def never_hears_of_what_hooks_hide_and_deny(sdk):
    with Stage(AfterTool="hide_meaning.sh", BeforeAgent="no_aurora.sh", settings={"policies": [EMAIL]}) as stage:
        said = [SUN, "Tell me of project aurora", "I am jo@example.com", *(f"prompt {it}" for it in range(4, 11))]
        run = sdk.talks(stage, *said)
        for result in run.results:
            texts = result["texts"]
            contains(texts[0], "this meaning is not for models", run)
            check(texts[1:4], ["Project Aurora is not for models.", "You said: I am [REDACTED:email]", "You said: prompt 4"], run)
        requests = json.dumps(stage.seen())
        for hidden in ["sun means sun", "project aurora", "Project Aurora", "jo@example.com"]:
            lacks(requests, hidden, run)


@each_sdk
def hears_why_a_call_of_its_tool_was_denied(sdk):
    with Stage(BeforeTool="no_lookups.sh") as stage:
        # OpenAI's helper for streams of responses raises if an item never ends, as the reasoning before a denied call does.
        ways = ["whole"] if sdk.program == ["openai_talk.py", "responses"] else ["streamed", "whole"]
        run = sdk.talks(stage, SUN, "And now", ways=ways)
        for result in run.results:
            contains(result["texts"][0], "nothing is looked up", run)
            check([result["texts"][1], result["words"]], ["You said: And now", []], run)
        check(len(sdk.requests(stage)), 3 * len(ways), run)


@each_sdk
def gets_another_model_tools_of_a_whitelist_and_an_answer_without_digits(sdk):
    with Stage(BeforeModel="small_model.sh", BeforeToolSelection="only_readers.sh", AfterModel="redact.py") as stage:
        run = sdk.talks(stage, "My card is 4111 1111")
        check([it["texts"] for it in run.results], [["You said: My card is #### ####"]] * 2, run)
        requests = sdk.requests(stage)
        check([it["model"] for it in requests], ["a-small-model"] * 2, run)
        check([sdk.wire.declared(it) for it in requests], [{"lookup"}] * 2, run)


@each_sdk
def is_answered_in_place_of_the_model(sdk):
    with Stage(BeforeModel="answer.sh") as stage:
        run = sdk.talks(stage, "Say hello")
        check([it["texts"] for it in run.results], [["An answer from the hook."]] * 2, run)
        check(sdk.requests(stage), [], run)


@each_sdk
def is_denied_by_an_error_that_it_does_not_retry(sdk):
    with Stage(settings={"denials": "error"}, BeforeModel="deny.sh") as stage:
        run = sdk.talks(stage, "Say hello")
        check([it.get("status") for it in run.results], [403 if sdk.wire is Messages else 400] * 2, run)
        contains(run.results[0]["message"], "No models today.", run)
        check([sdk.requests(stage), stage.hook_runs()], [[], 2], run)


# --- aider, which has no tools ---


def aider_case(api, model, wire):
    def is_answered_masked_and_denied():
        with Stage(BeforeAgent="no_aurora.sh", settings={"policies": [EMAIL]}) as stage:
            for prompt, shown in [("I am jo@example.com", "You said: I am [REDACTED:email]"),
                                  ("Tell me of project aurora", "Project Aurora is not for models.")]:
                run = stage.run_sealed(
                    stage.pointed("aider.env"), SCRATCH / "aider" / "bin" / "aider", "--model", model, "--weak-model", model,
                    "--no-git", "--yes-always", "--no-check-update", "--no-analytics", "--no-show-model-warnings",
                    "--no-pretty", "--map-tokens", "0", "--message", prompt)
                check(run.returncode, 0, run)
                check(run.stdout.count(shown), 1, run)
            requests = [it["body"] for it in stage.seen() if it["path"].endswith(wire.path)]
            check(len(requests), 1, run)
            contains(wire.prompts(requests[0])[-1], "I am [REDACTED:email]", run)

    CASES.append((f"aider ({api}) is answered, masked and denied", is_answered_masked_and_denied))


aider_case("messages", "anthropic/claude-sonnet-4-5", Messages)
aider_case("chat", "openai/gpt-4o", Chat)
