#!/usr/bin/env bash
# Health check: exit code 0 if /healthz of the admin port, by default 8788, returns 200.
# The image has no curl; bash opens the connection itself.
set -euo pipefail

exec 3<>"/dev/tcp/127.0.0.1/${1:-8788}"
printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 3 status <&3
[[ $status == "HTTP/1.1 200 "* ]]
