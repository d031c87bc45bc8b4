#!/usr/bin/env bash
# Assembles the image's files and tests them: docker/build.sh [FOLDER [BINARY]]
#
# FOLDER (default: target/image) becomes the image's root: the binary, its config
# and the health check. The Dockerfile runs this script with the binary of
# docker/release.sh, CI with that of the tests. Without BINARY, it builds a plain
# release.
set -euo pipefail
cd "$(dirname "$0")/.."
root=${1:-target/image}
binary=${2:-}

if [ -z "$binary" ]; then
  cargo build --release --locked
  binary=${CARGO_TARGET_DIR:-target}/release/hookgate
fi
rm -rf "$root"
mkdir -p "$root/usr/local/bin" "$root/etc"
cp "$binary" "$root/usr/local/bin/hookgate"
install -m 755 docker/healthcheck.sh "$root/usr/local/bin/hookgate-healthcheck"
cp -R config "$root/etc/hookgate"
cp docker/hookgate.yaml "$root/etc/hookgate/hookgate.yaml"

hookgate=$root/usr/local/bin/hookgate
health=$root/usr/local/bin/hookgate-healthcheck
# Environment variables that the configs refer to, with placeholder values.
export HOOKGATE_REDIS_URL=redis://localhost
while read -r name; do
  export "$name=${!name:-only-for-this-check}"
done < <(grep -ohE '\benv: [A-Z_]+' docker/hookgate.yaml config/examples/*.yaml | cut -d ' ' -f 2 | sort -u)

"$hookgate" --version
"$hookgate" check "$root/etc/hookgate/hookgate.yaml"
for example in "$root"/etc/hookgate/examples/*.yaml; do
  "$hookgate" check "$example"
done

# Health check of a running gateway and of a stopped one.
log=$(mktemp)
coproc gateway {
  exec "$hookgate" serve --config "$root/etc/hookgate/hookgate.yaml" \
    --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 2>"$log"
}
pid=$gateway_PID
trap 'kill "$pid" 2>/dev/null || true' EXIT
while read -r -t 30 line <&"${gateway[0]}"; do
  if [[ $line == "admin on "* ]]; then
    port=${line##*:}
    break
  fi
done
"$health" "${port:?the gateway did not start, see $log}"
kill "$pid"
wait "$pid"
if "$health" "$port" 2>/dev/null; then
  echo "the health check succeeds for a stopped gateway" >&2
  exit 1
fi
trap - EXIT
rm "$log"
echo "$root: the image's files, assembled and tested"
