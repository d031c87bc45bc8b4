#!/usr/bin/env bash
# BeforeTool: denies every tool call.
echo "nothing is looked up" >&2
exit 2
