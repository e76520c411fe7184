#!/usr/bin/env bash
# Makes a folder of golden files with a program: what it trains on, a checkpoint,
# a push log, and what they hold as text.
#
#   O=.../oarlock tests/golden/make.sh FOLDER
#
# FOLDER must not exist. format_1 was made so by the program whose
# `oarlock --version` is in format_1/version.txt; it is never made anew.
set -euo pipefail
O=$(realpath "${O:?path of the program}")
folder=${1:?the folder to make}
mkdir "$folder"
cd "$folder"

"$O" --version >version.txt
# One dense feature, two slots, a label; 70 ids.
awk 'function next_(n) {
       seed = (seed * 1103515245 + 12345) % 2147483648
       return int(seed / 65536) % n
     }
     BEGIN {
       seed = 7
       for (i = 0; i < 400; ++i) {
         u = next_(40); v = next_(30); d = next_(1000) / 1000
         print "1 " d " 1 " u " 1 " 1000 + v " 1 " ((u * 7 + v * 3) % 10 < 4)
       }
     }' >clicks.txt

model=(--model wide_deep --data_format multi_slot --dense_dim 1 --num_slots 2
  --embedding_size 2 --hidden_sizes 4 --optimizer adagrad --learning_rate 0.1
  --accessor ctr --batch_size 20)
keep=(--num_partitions 4 --checkpoint_interval_s 0)

# A sparse table with statistics and optimizer state, a dense one, two servers.
"$O" train --server_num 2 --worker_num 1 "${model[@]}" "${keep[@]}" \
  --mode sync --epochs 3 --train_files clicks.txt --checkpoint_dir checkpoint \
  --log_dir scratch
rm -r checkpoint/store
"$O" checkpoint export checkpoint --table embedding \
  --output checkpoint_rows.txt
"$O" checkpoint inspect --json checkpoint >checkpoint.json

# A server whose log has the pushes of 100 examples when all is killed: the
# worker waits for more.
port=$(/usr/bin/python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
serve=(--pserver_endpoints "127.0.0.1:$port" --trainers 1)
server() {
  exec "$O" server "${serve[@]}" --current_endpoint "127.0.0.1:$port" \
    "${keep[@]}" --durability log --checkpoint_dir "$@"
}
status() { "$O" ctl status --json --server "127.0.0.1:$port"; }
mkfifo more
server push_log 2>/dev/null &
server=$!
"$O" train --role TRAINER --trainer_id 0 "${serve[@]}" "${model[@]}" \
  --dense_interval_steps 1 --epochs 3 --train_files clicks.txt \
  --pipe_command 'head -n 100; cat more' --log_dir scratch 2>/dev/null &
worker=$!
trap 'kill -9 $server $worker; rm -f more' EXIT
# The mark comes with the server's heartbeats.
until [ -e push_log/log/RUN ] && status 2>/dev/null |
  grep -q '"examples": 100\b'; do
  sleep .1
done
kill -9 $server $worker
wait $server $worker || true
rm -rf push_log/store

# What is in the log: a job that goes on from a copy makes a checkpoint at once.
cp -r push_log replayed
server replayed --resume 2>/dev/null &
server=$!
until status >/dev/null 2>&1; do sleep .1; done
"$O" ctl checkpoint --server "127.0.0.1:$port"
"$O" ctl drain --server "127.0.0.1:$port"
wait $server
trap - EXIT
"$O" checkpoint export replayed --table embedding --output push_log_rows.txt
"$O" checkpoint export-model replayed --output model
/usr/bin/python3 -c 'import array, sys
dense = array.array("f")
dense.frombytes(sys.stdin.buffer.read())
print(*(f"{value:.9g}" for value in dense), sep="\n")' \
  <model/dense.bin >push_log_dense.txt
rm -r replayed model more scratch
