#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs packages, builds,
# generates click logs, trains CTR-DNN with 2 servers and 2 workers. A second
# run does only what is left to do.
set -euo pipefail
cd "$(dirname "$0")"
rows=400000

echo "== 1. packages"
bazel/install_packages.sh
bazel/cache.sh write
bazel/cache.sh trim

echo "== 2. build (some minutes the first time)"
bazel build --noshow_progress --ui_event_filters=-info \
  //cli:oarlock //examples/ctr:train
oarlock=bazel-bin/cli/oarlock

echo "== 3. data: $rows rows in Criteo's format under build/quickstart/data"
if [ ! -f build/quickstart/generator.txt ]; then
  rm -rf build/quickstart
  mkdir -p build/quickstart
  "$oarlock" generate criteo --rows "$rows" --files 8 --seed 1 \
    --out build/quickstart/data >build/quickstart/generator.tmp
  mv build/quickstart/generator.tmp build/quickstart/generator.txt
fi
cat build/quickstart/generator.txt

echo "== 4. CTR-DNN, 2 servers, 2 workers; the last file is held out to test"
"$oarlock" train --server_num 2 --worker_num 2 --model ctr_dnn \
  --train_files 'build/quickstart/data/part-[0-6]' \
  --test_files build/quickstart/data/part-7 \
  --log_dir build/quickstart/logs
grep '^best' build/quickstart/generator.txt

cat <<'EOF'
== next
  your own data (label, 13 integers, 26 categories; tab separated):
    bazel-bin/cli/oarlock train --server_num 2 --worker_num 2 \
      --train_files 'data/part-*' --test_files data/test
  PaddlePaddle's quick start, with its flags and defaults:
    bazel-bin/cli/oarlock launch --worker_num 2 --server_num 2 \
      bazel-bin/examples/ctr/train --train_files 'data/part-*'
  every flag: bazel-bin/cli/oarlock train --help, docs/configuration.md
EOF
