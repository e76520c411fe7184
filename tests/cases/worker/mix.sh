#!/usr/bin/env bash
# One server and two workers, roles by PADDLE_*; the workers' flags may differ.
# usage: O=.../oarlock D=FOLDER [T=SECONDS] mix.sh \
#   [FLAGS OF WORKER 0] [MODEL FLAGS OF WORKER 1] [FLAGS OF WORKER 1]
set -u
O=${O:?path of the binary}
D=${D:?a folder of Criteo files part-0..3}
T=${T:-60}
rm -rf mix.run
mkdir mix.run
cd mix.run || exit 1

# role NAME VARIABLE=VALUE... -- FLAGS
role() {
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do
    variables+=("$1")
    shift
  done
  env PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:46170 PADDLE_TRAINERS_NUM=2 \
    "${variables[@]}" timeout "$T" "$O" train "${@:2}" >"$name.log" 2>&1
  echo "rc $?" >>"$name.log"
}
common=(--train_files "$D/part-[012]" --test_files "$D/part-3"
  --batch_size 100 --epochs 1 --mode sync)
# shellcheck disable=SC2206 # flags are words
{
  one=(${1:-})
  model=(${2:---model wide_deep})
  two=(${3:-})
}
role s TRAINING_ROLE=PSERVER POD_IP=127.0.0.1 PADDLE_PORT=46170 -- \
  --model wide_deep "${common[@]}" &
role w0 TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 -- \
  --model wide_deep "${common[@]}" "${one[@]}" &
role w1 TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=1 -- \
  "${model[@]}" "${common[@]}" "${two[@]}" &
wait
for name in s w0 w1; do
  echo "-- $name"
  tail -4 $name.log | cut -c1-300
done
