#!/usr/bin/env bash
# BeforeModel: no cloud key leaves the house. TerminaI shows calls and their
# results as text, so that a key is seen wherever it stands. What is no JSON is a
# message for the user.
if grep -qE 'AKIA[0-9A-Z]{16}'; then
  echo "There is a cloud key in this conversation." >&2
  exit 2
fi
echo "No cloud key in this conversation."
