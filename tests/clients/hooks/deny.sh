#!/bin/sh
# BeforeModel: denies every call.
echo run >> "$HOOK_RUNS"
echo "No models today." >&2
exit 2
