"""A conversation with a tool through LiteLLM.

Prints the last text of each turn and the words that the tool looked up, as JSON.
"""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "true"  # otherwise it is fetched from the network on import

import litellm
import yaml

LOOKUP = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Looks a word up.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}


with open(os.environ["LITELLM_CONFIG"]) as config:
    PARAMETERS = yaml.safe_load(config)["model_list"][0]["litellm_params"]


def main(streamed, prompts):
    history, texts, words = [], [], []
    for prompt in prompts:
        history.append({"role": "user", "content": prompt})
        history.append(ask(streamed, history))
        while calls := history[-1].get("tool_calls"):
            for call in calls:
                word = json.loads(call["function"]["arguments"])["word"]
                words.append(word)
                history.append({"role": "tool", "tool_call_id": call["id"], "content": f"{word} means {word}"})
            history.append(ask(streamed, history))
        texts.append(history[-1]["content"])
    return {"texts": texts, "words": words}


def ask(streamed, history):
    answer = litellm.completion(
        messages=history, tools=[LOOKUP], stream=streamed, **PARAMETERS
    )
    if streamed:
        answer = litellm.stream_chunk_builder(list(answer), messages=history)
    return answer.choices[0].message.model_dump(exclude_none=True)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1] == "streamed", json.loads(sys.argv[2]))))
