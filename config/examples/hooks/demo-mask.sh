#!/usr/bin/env bash
# AfterModel: puts [EMAIL] in the place of every e-mail address, text by text.
# Needs no JSON tool: the texts of the answer are cut out, changed and put back.
input=$(cat)
parts=$(sed -E 's/.*"llm_response":.*"parts":\[([^]]*)\].*/\1/' <<<"$input")
masked=$(sed -E 's/[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}/[EMAIL]/g' <<<"$parts")
if [ "$parts" != "$masked" ]; then
  printf '{"hookSpecificOutput":{"llm_response":{"candidates":[{"content":{"role":"model","parts":[%s]}}]}}}\n' "$masked"
fi
