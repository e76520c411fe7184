#!/usr/bin/env bash
# One server and two workers, roles by PADDLE_*, of other --train_files.
# usage: O=.../oarlock D=FOLDER [T=SECONDS] mixt.sh FILES_0 FILES_1 MODE
set -u
O=${O:?path of the binary}
D=${D:?a folder of Criteo files part-0..3}
T=${T:-40}
rm -rf mixt.run
mkdir mixt.run
cd mixt.run || exit 1

# role NAME FILES VARIABLE=VALUE...
role() {
  env PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:46175 PADDLE_TRAINERS_NUM=2 \
    "${@:3}" timeout "$T" "$O" train --train_files "$2" --model wide_deep \
    --test_files "$D/part-3" --batch_size 100 --epochs 1 --mode "$mode" \
    >"$1.log" 2>&1
  echo "rc $?" >>"$1.log"
}
mode=$3
role s "$1" TRAINING_ROLE=PSERVER POD_IP=127.0.0.1 PADDLE_PORT=46175 &
role w0 "$1" TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 &
role w1 "$2" TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=1 &
wait
echo "== $1 | $2 | $3"
grep -h '^train\|^test\|oarlock train:\|^rc' ./*.log | cut -c1-260
