#!/usr/bin/env bash
# Builds the image's binary, target/released/hookgate: docker/release.sh
#
# Profile-guided optimisation in two builds of the `dist` profile. The first build
# counts what runs during a few seconds of the benchmark; the second build uses the
# counts, which saves a quarter of the instructions of a call. Both builds use the
# same flags, so that the counts fit. Needs rustup.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
host=$(rustc -vV | sed -n 's/^host: //p')
counts=$target/counts
released=$target/released/hookgate
tools=$(rustc --print sysroot)/lib/rustlib/$host/bin

sources=(.cargo benches config crates src Cargo.lock Cargo.toml docker/release.sh rust-toolchain.toml)
if [ -e "$released" ] && [ -z "$(find "${sources[@]}" -newer "$released" -print -quit)" ]; then
  echo "$released is up to date"
  exit
fi

[ -x "$tools/llvm-profdata" ] || rustup component add llvm-tools

# build FLAGS FOLDER: with `--target`, build scripts are built without the flags.
build() {
  RUSTFLAGS=$1 cargo build --profile dist --locked --features jemalloc --target "$host" --target-dir "$target/$2"
}

rm -rf "$counts"
build "-Cprofile-generate=$counts" counting
# Agents and the model API are not counted, so they may be slow.
HOOKGATE_BIN=$target/counting/$host/dist/hookgate \
  cargo bench --profile dev --locked --bench gateway -- \
  short rounds=1 none policies redact derived http worker cold-bash
"$tools/llvm-profdata" merge -o "$target/counts.profdata" "$counts"/*.profraw
# Hot and cold code are placed apart, also within a function: a call after a pause
# loads less code.
build "-Cprofile-use=$target/counts.profdata -Cllvm-args=-enable-split-machine-functions \
  -Cllvm-args=-pgso-lwss-only=false -Clink-arg=-Wl,-z,keep-text-section-prefix" counted
install -D "$target/counted/$host/dist/hookgate" "$released"
