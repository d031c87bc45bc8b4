#!/usr/bin/env bash
# Any event: refuses input that holds a private key. The exit code 2 denies, and
# stderr is the reason.
if grep -q -e '-----BEGIN [A-Z ]*PRIVATE KEY-----'; then
  echo "There is a private key in here; it stays where it is." >&2
  exit 2
fi
