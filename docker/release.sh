#!/usr/bin/env bash
# Builds the image's binary, target/released/hookgate: docker/release.sh
#
# Profile-guided optimisation in two builds of the `dist` profile. The first build
# is instrumented and records a profile of a few seconds of the benchmark. The second
# build uses the profile, which saves a quarter of the instructions of a call. Both
# builds use the same flags, so that the profile applies. Needs rustup.
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

# Relative relocations in a compact form, which glibc reads from 2.36 on.
linked="-Clink-arg=-Wl,-z,pack-relative-relocs"
# Functions with equal code are kept once, by the linker that Rust uses on x86-64 only.
[[ $host != x86_64-* ]] || linked+=" -Clink-arg=-Wl,--icf=all"

# build FLAGS FOLDER: `--target` excludes build scripts from the flags.
build() {
  RUSTFLAGS="$linked $1" cargo build --profile dist --locked --features jemalloc --target "$host" --target-dir "$target/$2"
}

rm -rf "$counts"
build "-Cprofile-generate=$counts" counting
# Only the gateway is instrumented; the benchmark itself may be unoptimised.
HOOKGATE_BIN=$target/counting/$host/dist/hookgate \
  cargo bench --profile dev --locked --bench gateway -- \
  short rounds=1 none policies redact derived http worker cold-bash
"$tools/llvm-profdata" merge -o "$target/counts.profdata" "$counts"/*.profraw
# Separates hot and cold code, also within functions: a call after a pause loads less
# code.
build "-Cprofile-use=$target/counts.profdata -Cllvm-args=-enable-split-machine-functions \
  -Cllvm-args=-pgso-lwss-only=false -Clink-arg=-Wl,-z,keep-text-section-prefix" counted
install -D "$target/counted/$host/dist/hookgate" "$released"
