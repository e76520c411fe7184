#!/bin/sh
# Rank 0 writes a lot and goes on; rank 1 dies after 2 s.
if [ "$PADDLE_TRAINER_ID" = 1 ]; then
  sleep 2
  echo dying
  date +%s.%N >died_at
  exit 7
fi
i=0
while [ $i -lt 30 ]; do
  head -c 20000 /dev/zero | tr '\0' x
  echo
  sleep 0.1
  i=$((i + 1))
done
sleep 20
echo end
