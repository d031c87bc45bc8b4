// Asks through the Google Gen AI SDK for JavaScript, in the way its argument names, and prints what it got as JSON.

import { ApiError, GoogleGenAI } from "@google/genai";

const model = "gemini-2.5-flash";

async function main(mode) {
  const client = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY });
  if (mode === "whole") {
    return told([[await client.models.generateContent({ model, contents: "turn 1" })]]);
  }
  if (mode === "stream") {
    return told([await all(client.models.generateContentStream({ model, contents: "turn 1" }))]);
  }
  const chat = client.chats.create({ model });
  const answers = [];
  for (const turn of [1, 2, 3]) {
    answers.push(await all(chat.sendMessageStream({ message: `turn ${turn}` })));
  }
  return told(answers);
}

async function all(stream) {
  const chunks = [];
  for await (const chunk of await stream) {
    chunks.push(chunk);
  }
  return chunks;
}

// The text of each answer, and the number of chunks of the last one.
function told(answers) {
  const texts = answers.map((chunks) => chunks.map((chunk) => chunk.text ?? "").join(""));
  return { texts, chunks: answers.at(-1).length };
}

try {
  console.log(JSON.stringify(await main(process.argv[2])));
} catch (error) {
  if (!(error instanceof ApiError)) {
    throw error;
  }
  console.log(JSON.stringify({ status: error.status, message: error.message }));
}
