#!/usr/bin/env bash
# Builds hookgate as the image has it: docker/release.sh
#
# Twice. The first one counts what runs while the bench asks it for a few seconds;
# by that the second one is laid out, so that what calls need stands together: a
# quarter fewer instructions for a call. It needs rustup, and becomes
# target/released/hookgate.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
host=$(rustc -vV | sed -n 's/^host: //p')
counts=$target/counts
released=$target/released/hookgate
tools=$(rustc --print sysroot)/lib/rustlib/$host/bin

read=(.cargo benches config src Cargo.lock Cargo.toml rust-toolchain.toml)
if [ -e "$released" ] && [ -z "$(find "${read[@]}" -newer "$released" -print -quit)" ]; then
  echo "$released: nothing has changed since it was built"
  exit
fi

[ -x "$tools/llvm-profdata" ] || rustup component add llvm-tools

rm -rf "$counts"
# With `--target`, what only runs while it is built is not counted.
RUSTFLAGS="-Cprofile-generate=$counts" cargo bench --locked --profile counting \
  --target "$host" --target-dir "$target/counting" --bench gateway -- \
  short rounds=1 none policies redact derived http worker cold-bash
"$tools/llvm-profdata" merge -o "$target/counts.profdata" "$counts"/*.profraw
RUSTFLAGS="-Cprofile-use=$target/counts.profdata" cargo build --release --locked \
  --target "$host" --target-dir "$target/counted"
install -D "$target/counted/$host/release/hookgate" "$released"
