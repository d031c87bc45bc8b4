"""The SDKs of Anthropic and OpenAI, OpenAI's Agents SDK, and aider: each by each of its APIs."""

import functools
import json

from install import HERE, SCRATCH, python
from matrix import Case
from stage import Stage, at_least, check, contains, lacks
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

    def __init__(self, name, program, pointed, wire):
        self.name, self.program, self.pointed, self.wire = name, program, pointed, wire
        self.thinks = wire is not Chat

    def talks(self, stage, *prompts, ways=("streamed", "whole"), file=(), **environment):
        """Says the same in each way; `results` has what came of each."""
        name, *api = self.program
        run = stage.run_sealed(stage.pointed(self.pointed) | environment, python("vendors"), HERE / "agents" / name, *api,
                               ",".join(ways), json.dumps(prompts), *file)
        check(run.returncode, 0, run)
        run.results = json.loads(run.stdout.splitlines()[-1])
        return run

    def requests(self, stage):
        return [it["body"] for it in stage.seen() if it["path"].endswith(self.wire.path)]


ALL = [Sdk(*it) for it in SDKS]


def each_sdk(*features, able=lambda sdk: True):
    """One case for each SDK that is able to do it; it shows these features."""

    def register(function):
        for sdk in filter(able, ALL):
            name = f"{sdk.name} {function.__name__.replace('_', ' ')}"
            shown = tuple(it for it in features if it != "thinking" or sdk.thinks)
            CASES.append(Case(name, lambda sdk=sdk: function(sdk), sdk.name, shown))
        return function

    return register


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
        if sdk.thinks:
            at_least(len(sdk.wire.thoughts(requests[-1])), 10, run)


for way in ["streamed", "whole"]:
    each = functools.partial(is_one_session_over_ten_turns, way=way)
    each.__name__ = f"is_one_session_over_ten_turns_({way})"
    each_sdk("plain answer", "tool loop", "parallel tools", "thinking")(each)


@each_sdk("deny at the prompt", "hidden result over ten turns")
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


@each_sdk("deny of a tool call")
def hears_why_a_call_of_its_tool_was_denied(sdk):
    with Stage(BeforeTool="no_lookups.sh") as stage:
        run = sdk.talks(stage, SUN, "And now")
        for result in run.results:
            contains(result["texts"][0], "nothing is looked up", run)
            check([result["texts"][1], result["words"]], ["You said: And now", []], run)
        check(len(sdk.requests(stage)), 6, run)


@each_sdk("model swap", "whitelist", "redaction over a stream")
def gets_another_model_tools_of_a_whitelist_and_an_answer_without_digits(sdk):
    with Stage(BeforeModel="small_model.sh", BeforeToolSelection="only_readers.sh", AfterModel="redact.py") as stage:
        run = sdk.talks(stage, "My card is 4111 1111")
        check([it["texts"] for it in run.results], [["You said: My card is #### ####"]] * 2, run)
        requests = sdk.requests(stage)
        check([it["model"] for it in requests], ["a-small-model"] * 2, run)
        check([sdk.wire.declared(it) for it in requests], [{"lookup"}] * 2, run)


@each_sdk("synthetic answer")
def is_answered_in_place_of_the_model(sdk):
    with Stage(BeforeModel="answer.sh") as stage:
        run = sdk.talks(stage, "Say hello")
        check([it["texts"] for it in run.results], [["An answer from the hook."]] * 2, run)
        check(sdk.requests(stage), [], run)


@each_sdk("denials: error")
def is_denied_by_an_error_that_it_does_not_retry(sdk):
    with Stage(settings={"denials": "error"}, BeforeModel="deny.sh") as stage:
        run = sdk.talks(stage, "Say hello")
        check([it.get("status") for it in run.results], [403 if sdk.wire is Messages else 400] * 2, run)
        contains(run.results[0]["message"], "No models today.", run)
        check([sdk.requests(stage), stage.hook_runs()], [[], 2], run)


def is_agent(sdk):
    return sdk.name.startswith("openai agents")


@each_sdk(able=lambda sdk: not is_agent(sdk))
def speaks_nothing_but_http_2(sdk):
    with Stage(BeforeTool="no_lookups.sh", settings={"policies": [EMAIL]}) as stage:
        run = sdk.talks(stage, SUN, "I am jo@example.com", OVER_HTTP2="1")
        for result in run.results:
            contains(result["texts"][0], "nothing is looked up", run)
            check([result["texts"][1], result["words"]], ["You said: I am [REDACTED:email]", []], run)
    with Stage(recorded=EVENTS) as stage:
        run = sdk.talks(stage, SUN_AND_MOON, OVER_HTTP2="1")
        check([sorted(it["words"]) for it in run.results], [["moon", "sun"]] * 2, run)
        at_least(len(stage.events("AfterTool")), 2, run)


@each_sdk("sub-agent", able=is_agent)
def has_an_agent_as_a_tool_that_is_a_session_of_its_own(sdk):
    with Stage(recorded=EVENTS) as stage:
        asked = {"input": 'lookup {"word":"sun"} and lookup {"word":"moon"}'}
        run = sdk.talks(stage, f"Use ask_expert {json.dumps(asked)}", ways=["streamed"])
        contains(run.results[0]["texts"][0], "sun means sun", run)
        check(sorted(run.results[0]["words"]), ["moon", "sun"], run)
        inner = {it["session_id"] for it in stage.events("BeforeTool") if it["tool_name"] == "lookup"}
        outer = {it["session_id"] for it in stage.events("BeforeTool") if it["tool_name"] == "ask_expert"}
        check([len(inner), len(outer), len(inner & outer)], [1, 1, 0], run)


@each_sdk("resume", able=is_agent)
def goes_on_with_a_conversation_from_a_file(sdk):
    with Stage(recorded=EVENTS) as stage:
        file = [stage.home / "talk.db"]
        for prompt in ["prompt 1", SUN, "prompt 3"]:
            run = sdk.talks(stage, prompt, ways=["streamed"], file=file)
        check(run.results[0]["texts"], ["You said: prompt 3"], run)
        check(sdk.wire.prompts(sdk.requests(stage)[-1]), ["prompt 1", SUN, "prompt 3"], run)
        check(len({it["session_id"] for it in stage.events()}), 1, run)
        check(len(stage.events("SessionStart")), 1, run)


@each_sdk("compaction", able=lambda sdk: sdk.name == "openai agents (responses)")
def goes_on_after_its_conversation_was_compacted(sdk):
    with Stage(recorded=["BeforeAgent"], settings={"policies": [EMAIL]}) as stage:
        run = sdk.talks(stage, "I am jo@example.com, and long", "And now", ways=["whole"], file=[stage.home / "talk.db"])
        check(run.results[0]["texts"][1], "You said: And now", run)
        check([it["path"] for it in stage.seen()], ["/v1/responses", "/v1/responses/compact", "/v1/responses"], run)
        contains(json.dumps(stage.seen()[-1]["body"]["input"]), '"type": "compaction"', run)
        lacks(json.dumps(stage.seen()), "jo@example.com", run)


# --- aider, which has no tools ---


class Aider:
    """aider by one of its APIs."""

    def __init__(self, api, model, wire, thinking):
        self.name, self.model, self.wire, self.thinking = f"aider ({api})", model, wire, thinking

    def asks(self, stage, prompt, *options):
        return stage.run_sealed(
            stage.pointed("aider.env"), SCRATCH / "aider" / "bin" / "aider", "--model", self.model, "--weak-model", self.model,
            "--no-git", "--yes-always", "--no-check-update", "--no-analytics", "--no-show-model-warnings",
            "--no-pretty", "--map-tokens", "0", *options, "--message", prompt)

    def shows(self, shown, stage, prompt, *options):
        """Runs it and checks that it shows this once."""
        run = self.asks(stage, prompt, *options)
        check(run.returncode, 0, run)
        check(run.stdout.count(shown), 1, run)
        return run

    def requests(self, stage):
        return [it["body"] for it in stage.seen() if it["path"].endswith(self.wire.path)]


AIDERS = [
    Aider("messages", "anthropic/claude-sonnet-4-5", Messages, ["--thinking-tokens", "2k"]),
    Aider("chat", "openai/gpt-4o", Chat, ["--reasoning-effort", "low", "--no-check-model-accepts-settings"]),
]


def each_aider(*features):
    def register(function):
        for aider in AIDERS:
            name = f"{aider.name} {function.__name__.replace('_', ' ')}"
            CASES.append(Case(name, lambda aider=aider: function(aider), aider.name, features))
        return function

    return register


@each_aider("plain answer", "model swap", "redaction over a stream", "thinking")
def thinks_with_another_model_and_shows_an_answer_without_digits(aider):
    with Stage(BeforeModel="small_model.sh", AfterModel="redact.py", settings={"policies": [EMAIL]}) as stage:
        shown = "You said: My card is #### ####, I am [REDACTED:email]"
        run = aider.shows(shown, stage, "My card is 4111 1111, I am jo@example.com", *aider.thinking)
        contains(run.stdout, "Considering the request", run)
        (request,) = aider.requests(stage)
        check(request["model"], "a-small-model", run)
        lacks(json.dumps(request), "jo@example.com", run)


@each_aider("deny at the prompt", "resume")
def goes_on_after_a_denied_prompt(aider):
    with Stage(BeforeAgent="no_aurora.sh") as stage:
        kept = ["--restore-chat-history", "--max-chat-history-tokens", "100000"]
        aider.shows("Project Aurora is not for models.", stage, "Tell me of project aurora", *kept)
        check(aider.requests(stage), [])
        for turn in [2, 3]:
            run = aider.shows(f"You said: prompt {turn}", stage, f"prompt {turn}", *kept)
        last = aider.requests(stage)[-1]
        check([it[:8] for it in aider.wire.prompts(last) if it.startswith("prompt")], ["prompt 2", "prompt 3"], run)
        lacks(json.dumps(last), "project aurora", run)


@each_aider("compaction")
def goes_on_after_its_conversation_was_summed_up(aider):
    with Stage(BeforeAgent="no_aurora.sh", settings={"policies": [EMAIL]}) as stage:
        (stage.project / ".aider.chat.history.md").write_text(f"#### I am jo@example.com\n\n{'an answer ' * 40}\n")
        run = aider.shows("You said: prompt 2", stage, "prompt 2", "--restore-chat-history", "--max-chat-history-tokens", "50")
        summary, last = aider.requests(stage)
        contains(json.dumps(summary), "# USER\\nI am [REDACTED:email]", run)
        contains(json.dumps(last), "I spoke to you previously", run)
        lacks(json.dumps([summary, last]), "jo@example.com", run)


@each_aider("synthetic answer")
def shows_an_answer_in_place_of_the_model(aider):
    with Stage(BeforeModel="answer.sh") as stage:
        aider.shows("An answer from the hook.", stage, "Say hello")
        check(aider.requests(stage), [])
