#!/usr/bin/env bash
# Fuzzes with libFuzzer under the address sanitizer: every target, or those
# named (checkpoint, codec, config, data, environment, images, push_log), each for SECONDS.
#
#   tests/fuzz/fuzz.sh SECONDS [TARGET...]
#
# Begins with each target's corpus/. What is new is put into a folder beside
# it that git does not know, build/fuzz/TARGET, and crashes too; to keep what
# covers more, in few and small files:
#
#   bazel-out/k8-opt-fuzz/bin/tests/fuzz/TARGET/fuzzer -merge=1 -max_len=400 \\
#       tests/fuzz/TARGET/corpus build/fuzz/TARGET
#
# Wants what tests/fuzz/packages.txt names, which
# `bazel/install_packages.sh tests/fuzz/packages.txt` installs.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:?how many seconds for each target?}
shift
targets=("${@:-}")
if [ -z "${targets[0]}" ]; then
  targets=(checkpoint codec config data environment images push_log)
fi

labels=()
for target in "${targets[@]}"; do labels+=("//tests/fuzz/$target:fuzzer"); done
mapfile -t cache < <(CC=clang bazel/cache.sh)
CC=clang bazel build "${cache[@]}" --config=asan --platform_suffix=fuzz \
  --copt=-fsanitize=fuzzer-no-link "${labels[@]}"
bin=bazel-out/k8-opt-fuzz/bin

for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/$target"
  echo "== $target, $seconds s"
  "$bin/tests/fuzz/$target/fuzzer" -max_total_time="$seconds" \
    -max_len=4096 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$target/" "build/fuzz/$target" \
    "tests/fuzz/$target/corpus" 2>&1 |
    grep -vE '^#[0-9]+|^INFO: ' || exit 1
done
