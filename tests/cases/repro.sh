#!/usr/bin/env bash
# Reproduces the cases K01 to K18. usage: O=.../oarlock repro.sh [CASE...]
# (default: all). Runs in a new folder, on loopback only; touches no device of
# /dev but /dev/full (write only, as stdout).
set -u
O=${O:?path of the binary}
here=$(cd "$(dirname "$0")" && pwd)
W=$(mktemp -d "${TMPDIR:-/tmp}/oarlock-cases.XXXXXX")
cd "$W" || exit 1
trap 'rm -rf "$W"' EXIT

/usr/bin/python3 "$here/gen.py" .
timeout 60 "$O" generate criteo --rows 20000 --files 4 --out demo >g.log
cut -f2- demo/part-1 >nolabel.txt
head -500 demo/part-0 >small
gzip -c small | head -c 5000 >torn.gz

multi_slot=(--data_format multi_slot --dense_dim 3 --num_slots 2
  --batch_size 128)
one=(--server_num 1 --worker_num 1)

# The last N (4) lines that say something, and the exit code.
run() {
  echo "\$ oarlock $*"
  timeout 60 "$O" "$@" >out 2>&1
  local rc=$?
  grep -vE 'no PADDLE|^a step|^staleness|^summary|^servers|^oarlock   job|the job is done| I ' out |
    cut -c1-330 | tail -n "${N:-4}"
  echo "rc $rc"
}

# A checkpoint in ck.
ck() {
  timeout 60 "$O" train "${one[@]}" --train_files demo/part-0 \
    --batch_size 256 --model deepfm --log_dir lk --checkpoint_dir ck \
    >k.log 2>&1
}

K01() {
  run train "${multi_slot[@]}" --model deepfm \
    --train_files ms_dense_big.txt --test_files ms_dense_big.txt
  run train "${multi_slot[@]}" --model deepfm --dense_norm batch \
    --train_files ms_dense_big.txt --test_files ms_dense_big.txt
}

K02() {
  ck
  mkfifo ff
  (timeout 5 cat ff | wc -l >got) &
  run infer --checkpoint ck --files demo/part-1 --out ff
  wait
  echo "the reader got $(cat got) lines; ff is now: $(stat -c %F ff)"
  echo old >real
  ln -s real lnk
  run infer --checkpoint ck --files demo/part-1 --out lnk
  echo "lnk is now: $(stat -c %F lnk), real has $(wc -l <real) lines"
}

K03() {
  ck
  mkfifo f2
  (timeout 5 cat f2 >g2) &
  run checkpoint export ck --table embedding --output f2
  wait
}

K04() {
  ck
  "$O" checkpoint inspect --json ck >/dev/full
  echo "inspect --json > full disk: rc $?"
}

K05() {
  rm -rf c5
  N=2 run train "${one[@]}" --train_files 'demo/part-*' --epochs 4 \
    --batch_size 256 --checkpoint_interval_s 0 --checkpoint_dir c5 \
    --test_files nolabel.txt --log_dir l5
  echo "checkpoints left: $(cd c5 && echo *)"
}

resumed_with() {
  ck
  cp -r ck c6
  run train "${one[@]}" --train_files demo/part-0 --test_files demo/part-1 \
    --batch_size 256 --log_dir l6 --checkpoint_dir c6 --resume \
    --model deepfm "$@"
  rm -rf c6
}
K06() {
  resumed_with
  resumed_with --sparse_feature_dim 1000
  resumed_with --model wide_deep
}

K07() {
  mkdir -p 'my data'
  cp small 'my data/part-0'
  run train --train_files 'my data/part-0'
  printf 'train_files: "my data/part-0"\n' >c7
  run train -c c7
}

K08() {
  run train "${one[@]}" --train_files demo/part-* --sparse_feature_dim 0 \
    --batch_size 20000 --embedding_size 256 --model deepfm --hidden_sizes 8 \
    --log_dir l8
}

K09() {
  (
    ulimit -v 8000000
    run train "${one[@]}" --train_files small --log_dir l9
  )
}

K10() {
  rm -rf l10
  run train --train_files small --log_dir l10 --model lr
  run train --train_files criteo.csv --log_dir l10
  grep -E '"model"|"examples":' l10/summary.json
}

K11() {
  mkdir -p hive/dt=1
  cp small hive/dt=1/part-0
  run train --train_files hive
  run train --train_files 'hive/*'
}

K12() {
  tar czf dac.tar.gz small
  run train --train_files dac.tar.gz
  cp dac.tar.gz dac.tgz
  run train --train_files dac.tgz
}

# Two processes of one trainer id: duplicate PORT TRAINER_ID.
duplicate() {
  local server older younger
  timeout 30 "$O" server --pserver_endpoints "127.0.0.1:$1" \
    --current_endpoint "127.0.0.1:$1" --trainers 2 >s13 2>&1 &
  server=$!
  local flags=(train --pserver_endpoints "127.0.0.1:$1" --trainers 2
    --role TRAINER --trainer_id "$2" --train_files demo/part-0)
  timeout 15 "$O" "${flags[@]}" --log_dir la >a 2>&1 &
  older=$!
  sleep .8
  timeout 4 "$O" "${flags[@]}" --log_dir lb >b 2>&1 &
  younger=$!
  wait $older
  echo "older rc $?: $(tail -n 1 a | cut -c1-200)"
  wait $younger
  kill $server
  wait $server
}
K13() { duplicate 7341 0; }

K14() {
  run train --train_files all_one.txt --test_files all_one.txt --model lr
}

K15() {
  local flags
  for flags in "" "--server_num 2 --worker_num 2" \
    "--server_num 2 --worker_num 2 --dense_interval_steps 1"; do
    # shellcheck disable=SC2086 # flags are words
    N=1 run train $flags --epochs 2 --train_files 'demo/part-[0-2]' \
      --test_files demo/part-3 --log_dir l15 | grep -vE '^rc'
  done
}

# Ids of day 0 are never seen again; four later jobs of about 11 ticks each go
# on from --load. In one job 100 rows would be left.
K16() {
  local day i j
  for day in 0 1; do
    for i in $(seq 3000); do
      echo "1 $((day * 1000 + i % 100)) 1 $((i % 2))"
    done >ms$day
  done
  local flags=(--data_format multi_slot --dense_dim 0 --num_slots 1 --model lr
    "${one[@]}" --evict_idle_ticks 8 --tick_s .1 --batch_size 32
    --epochs 60 --log_dir l16)
  run train "${flags[@]}" --train_files ms0 --checkpoint_dir d0
  for j in 1 2 3 4; do
    N=1 run train "${flags[@]}" --train_files ms1 --load d$((j - 1)) \
      --checkpoint_dir d$j
  done
  "$O" checkpoint inspect d4 | grep -i row
}

K17() {
  SLURM_PROCID=2 SLURM_NTASKS=4 timeout 60 "$O" train --train_files small \
    2>&1 | grep -v 'a step' | cut -c1-120
  PADDLE_MASTER=h:1 PADDLE_NNODES=4 timeout 60 "$O" train \
    --train_files small 2>&1 | grep -v 'a step' | cut -c1-120
}

K18() {
  run train "${one[@]}" --train_files small --checkpoint_dir s3://b/ck \
    --log_dir l18
  ls -d s3:
}

cases=("$@")
if [ ${#cases[@]} = 0 ]; then
  mapfile -t cases < <(printf 'K%02d\n' {1..18})
fi
for name in "${cases[@]}"; do
  echo "=== $name"
  "$name" 2>&1
  echo
done
