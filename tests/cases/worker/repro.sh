#!/usr/bin/env bash
# Reproduces the cases C1 to C14 of worker_faults.md, but C12, which wants
# examples/images. usage: O=.../oarlock worker/repro.sh [CASE...] (default: all).
# Runs in a new folder, on loopback only.
set -u
O=${O:?path of the binary}
here=$(cd "$(dirname "$0")" && pwd)
W=$(mktemp -d "${TMPDIR:-/tmp}/oarlock-cases.XXXXXX")
cd "$W" || exit 1
trap 'rm -rf "$W"' EXIT

/usr/bin/python3 "$here/inputs.py" .
timeout 60 "$O" generate criteo --rows 20000 --files 4 --out d >g.log
export O D=$W/d

one=(--server_num 1 --worker_num 1)

# The last N (4) lines that say something, and the exit code.
run() {
  echo "\$ oarlock $*"
  timeout "${T:-60}" "$O" "$@" >out 2>&1
  local rc=$?
  grep -vE 'no PADDLE|^a step|^staleness|^summary|^servers|^oarlock   job|the job is done| I ' out |
    cut -c1-330 | tail -n "${N:-4}"
  echo "rc $rc"
}

C1() {
  local model
  for model in dlrm autoint; do
    run train --model $model --data_format multi_slot --dense_dim 2 \
      --num_slots 3 --train_files fm.ms --test_files fm.ms --epochs 3 \
      "${one[@]}" --checkpoint_dir fmck.$model
    N=1 run checkpoint export-model fmck.$model --output fmex.$model
    /usr/bin/python3 "$here/nans.py" fmex.$model/*.bin
  done
  run train --model autoint --optimizer sgd --learning_rate 30 \
    --batch_size 100 --train_files 'd/part-*' "${one[@]}" \
    --checkpoint_dir ratek
  N=1 run checkpoint export-model ratek --output ratex
  /usr/bin/python3 "$here/nans.py" ratex/*.bin
}

C2() {
  local mode threads
  for mode in sync half_async; do
    for threads in 100 210 256; do
      rm -rf bnx st.txt
      N=2 T=300 run train --model ctr_dnn "${one[@]}" --mode $mode \
        --thread_num $threads --hidden_norm batch --hidden_sizes 8 \
        --batch_size 2 --epochs 10 --train_files 'd/part-[012]' \
        --test_files d/part-3 --checkpoint_dir bnx --lease_s 60
      N=0 run checkpoint export bnx --table statistics --output "$PWD/st.txt"
      head -n 2 st.txt | cut -c1-80
    done
  done
}

# Trains, then goes on with other flags: other MODEL FLAGS -- OTHER FLAGS.
other() {
  local before=()
  while [ "$1" != -- ]; do
    before+=("$1")
    shift
  done
  shift
  local job=("${one[@]}" --mode sync --train_files 'd/part-[012]'
    --test_files d/part-3 --checkpoint_dir rs)
  rm -rf rs
  N=0 run train "${before[@]}" "${job[@]}" --epochs 1
  N=2 run train "${job[@]}" --epochs 2 --resume "$@"
}
C3() {
  other --model wide_deep -- --model deepfm
  other --model ctr_dnn -- --model ctr_dnn --dense_transform quick_start
  other --model wide_deep -- --model wide_deep --sparse_feature_dim 1000
  other --model ctr_dnn --pooling sum -- --model ctr_dnn --pooling mean
}

C4() {
  "$here/mix.sh" "" "--model deepfm"
  "$here/mix.sh" "" "--model wide_deep" "--dense_transform quick_start"
  "$here/mixt.sh" "$D/part-[012]" "$D/part-0" sync
  "$here/mix.sh" "" "--model wide_deep" "--epochs 2"
}

C5() {
  run train --model ctr_dnn --hidden_norm batch --data_format libsvm \
    --train_files p/a.txt --batch_size 100 --hidden_sizes 8
}

C6() {
  local model
  for model in fm ffm; do
    N=1 run train --model $model --data_format libsvm --train_files p/xor.svm \
      --test_files p/xor.svm --epochs 20
    N=1 run train --model $model --data_format multi_slot --dense_dim 0 \
      --num_slots 2 --train_files p/xor.ms --test_files p/xor.ms --epochs 20
  done
}

# A checkpoint in ck.
ck() {
  N=0 run train --model lr "${one[@]}" --train_files d/part-0 \
    --checkpoint_dir ck
}

C7() {
  ck
  mknod mynull c 1 3 || return
  run infer --checkpoint ck --files d/part-3 --out mynull
  echo "mynull is now: $(stat -c %F mynull)"
}

C8() {
  ck
  "$O" checkpoint export ck --table embedding --output /dev/stdout 2>err |
    head -n 1 | cut -c1-80
  echo "rc ${PIPESTATUS[0]}: $(tail -n 1 err | cut -c1-200)"
}

C9() {
  env -i PATH="$PATH" POD_IP=fd00::1 PADDLE_PORT=6170 \
    'PADDLE_PSERVERS_IP_PORT_LIST=[fd00::1]:6170' TRAINING_ROLE=PSERVER \
    PADDLE_TRAINERS_NUM=1 "$O" explain-env 2>&1 | cut -c1-200
  local node
  for node in 0 1; do
    # shellcheck disable=SC2016 # the started shell's variable
    POD_IP=::1 timeout 20 "$O" launch --master '[::1]:39411' --nnodes 2 \
      --server_num 1 --worker_num 1 --log_dir l9.$node \
      sh -c 'echo "list $PADDLE_PSERVERS_IP_PORT_LIST"' >l9.$node.out 2>&1 &
  done
  wait
  grep -hs list l9.* l9.*/* | sort -u
}

C10() { /usr/bin/python3 "$here/stall.py"; }

C11() {
  local server job
  timeout 40 "$O" train "${one[@]}" --train_files d/part-0 \
    --data_format criteo --pipe_command 'sleep 60; cat' --log_dir l11 \
    >l11.out 2>&1 &
  job=$!
  sleep 4
  server=$(awk '$1 == "servers" {print $2}' l11.out)
  timeout 10 "$O" ctl stop --server "$server" --log_dir l11 2>&1 | tail -n 1
  sleep 10
  if kill -0 $job 2>/dev/null; then
    echo "10 s after ctl stop the job still runs"
    timeout 10 "$O" ctl drain --server "$server" --log_dir l11 2>&1 | tail -n 1
  fi
  wait $job
  echo "rc $?: $(tail -n 1 l11.out | cut -c1-200)"
}

C13() {
  /usr/bin/python3 "$here/auc.py"
  /usr/bin/python3 "$here/lowctr.py"
  N=1 run train --model lr --data_format libsvm --train_files low_r1e-4.tr \
    --test_files low_r1e-4.te "${one[@]}" --checkpoint_dir lowck
}

C14() {
  cp d/part-0 a.txt
  N=2 run train --model lr --train_files a.txt,./a.txt
  head -n 500 d/part-0 | gzip -c >padded.gz
  head -c 1024 /dev/zero >>padded.gz
  gzip -t padded.gz
  echo "gzip -t: rc $?"
  N=2 run train --model lr --train_files padded.gz
  N=2 run train --model lr --server_num 1 --worker_num 2 --split by_file \
    --drop_tail --batch_size 1 --train_files a.txt
  printf '\xef\xbb\xbf' >bom
  N=3 run train --model lr --train_files a.txt,bom
}

cases=("$@")
if [ ${#cases[@]} = 0 ]; then
  cases=(C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C13 C14)
fi
for name in "${cases[@]}"; do
  echo "=== $name"
  "$name" 2>&1
  echo
done
