#!/usr/bin/env bash
# BeforeModel: denies prompts with cloud keys. TerminaI shows calls and their
# results as text, so a key is found there, too. Output that is not JSON is a
# message for the user.
if grep -qE 'AKIA[0-9A-Z]{16}'; then
  echo "There is a cloud key in this conversation." >&2
  exit 2
fi
echo "No cloud key in this conversation."
