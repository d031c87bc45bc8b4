// Calls through the Google Gen AI SDK for JavaScript: `whole`, `stream`, `chat` or `conversation`.
// Prints the answers as JSON.

import { ApiError, GoogleGenAI } from "@google/genai";

const model = "gemini-2.5-flash";

const lookup = {
  name: "lookup",
  description: "Looks a word up.",
  parametersJsonSchema: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
};

async function main(mode, ...rest) {
  const client = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY });
  if (mode === "whole") {
    return summary([[await client.models.generateContent({ model, contents: "turn 1" })]]);
  }
  if (mode === "stream") {
    return summary([await all(client.models.generateContentStream({ model, contents: "turn 1" }))]);
  }
  if (mode === "conversation") {
    return conversation(client, rest[0] === "streamed", JSON.parse(rest[1]));
  }
  const chat = client.chats.create({ model });
  const answers = [];
  for (const turn of [1, 2, 3]) {
    answers.push(await all(chat.sendMessageStream({ message: `turn ${turn}` })));
  }
  return summary(answers);
}

async function all(stream) {
  const chunks = [];
  for await (const chunk of await stream) {
    chunks.push(chunk);
  }
  return chunks;
}

// Text of each answer, and the number of chunks of the last one.
function summary(answers) {
  return { texts: answers.map(text), chunks: answers.at(-1).length };
}

function text(chunks) {
  return chunks.map((chunk) => chunk.text ?? "").join("");
}

// A chat with a tool: the last text of each turn, the session of each call, and the words that the tool looked up.
async function conversation(client, streamed, prompts) {
  const chat = client.chats.create({ model, config: { tools: [{ functionDeclarations: [lookup] }] } });
  const [texts, sessions, words] = [[], [], []];
  for (const prompt of prompts) {
    let message = prompt;
    while (message !== null) {
      const chunks = streamed ? await all(chat.sendMessageStream({ message })) : [await chat.sendMessage({ message })];
      sessions.push(chunks[0].sdkHttpResponse?.headers?.["x-hookgate-session"] ?? null);
      const calls = chunks.flatMap((chunk) => chunk.functionCalls ?? []);
      words.push(...calls.map((call) => call.args.word));
      message = calls.length ? calls.map(functionResponse) : null;
      if (message === null) {
        texts.push(text(chunks));
      }
    }
  }
  return { texts, sessions, words };
}

function functionResponse({ id, name, args }) {
  return { functionResponse: { id, name, response: { output: `${args.word} means ${args.word}` } } };
}

try {
  console.log(JSON.stringify(await main(...process.argv.slice(2))));
} catch (error) {
  if (!(error instanceof ApiError)) {
    throw error;
  }
  console.log(JSON.stringify({ status: error.status, message: error.message }));
}
