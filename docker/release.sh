#!/usr/bin/env bash
# Builds hookgate as the image has it: docker/release.sh
#
# Twice. The first one counts what runs while the bench asks it for a few seconds;
# by that the second one is laid out, so that what calls need stands together: a
# quarter fewer instructions for a call. Both are built alike, or the counts would
# be of functions that the second one does not have. It needs rustup, and becomes
# target/released/hookgate.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
host=$(rustc -vV | sed -n 's/^host: //p')
counts=$target/counts
released=$target/released/hookgate
tools=$(rustc --print sysroot)/lib/rustlib/$host/bin

read=(.cargo benches config src Cargo.lock Cargo.toml docker/release.sh rust-toolchain.toml)
if [ -e "$released" ] && [ -z "$(find "${read[@]}" -newer "$released" -print -quit)" ]; then
  echo "$released: nothing has changed since it was built"
  exit
fi

[ -x "$tools/llvm-profdata" ] || rustup component add llvm-tools

# FLAG FOLDER: a release build. With `--target`, what only runs while it is built
# is built as ever.
build() {
  RUSTFLAGS=$1 cargo build --release --locked --target "$host" --target-dir "$target/$2"
}

rm -rf "$counts"
build "-Cprofile-generate=$counts" counting
# Agents and the model API are not counted, so they may be slow.
HOOKGATE_BIN=$target/counting/$host/release/hookgate \
  cargo bench --profile dev --locked --bench gateway -- \
  short rounds=1 none policies redact derived http worker cold-bash
"$tools/llvm-profdata" merge -o "$target/counts.profdata" "$counts"/*.profraw
# What runs is kept apart from what never did, also within a function: a call that
# comes after a pause has less to fetch.
build "-Cprofile-use=$target/counts.profdata -Cllvm-args=-enable-split-machine-functions \
  -Cllvm-args=-pgso-lwss-only=false -Clink-arg=-Wl,-z,keep-text-section-prefix" counted
install -D "$target/counted/$host/release/hookgate" "$released"
