#!/bin/sh
# Runs every scenario for a moment against a server and expects no errors and some commands.
# SERVER="beanstalkd" PORT=11399 ./check.sh
set -u
cd "$(dirname "$0")" || exit 1
SERVER=${SERVER:-beanstalkd}
PORT=${PORT:-11399}
failures=0

server=
start() {
  "$@" &
  server=$!
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.1
    build/beanload --port "$PORT" --scenario "$probe" --connections 1 --jobs 1 --seconds 1 >/dev/null 2>&1 && return
  done
  echo "check: $1 doesn't answer on port $PORT" >&2
  stop
  exit 1
}
stop() {
  kill "$server" 2>/dev/null
  wait "$server" 2>/dev/null
}

run() {
  line=$(build/beanload --port "$PORT" --seconds 0.5 "$@")
  status=$?
  case $line in
    *'"commands":0,'* | '') status=1 ;;
  esac
  if [ $status -eq 0 ]; then
    echo "ok      $*"
  else
    echo "FAILED  $*"
    failures=$((failures + 1))
  fi
}

probe=echo
start build/echo "$PORT"
run --scenario echo
run --scenario echo --pipeline 64
stop

if ! command -v "${SERVER%% *}" >/dev/null; then
  echo "check: no $SERVER here, scenarios not run"
  exit $failures
fi
probe=list-tube-used
# shellcheck disable=SC2086 # SERVER may hold options
start $SERVER -l 127.0.0.1 -p "$PORT" -z 1048576
run --scenario list-tube-used --pipeline 16
run --scenario put-reserve-delete
run --scenario put-reserve-delete --pipeline 16 --tubes 7 --threads 2
run --scenario put-reserve-delete --connections 10 --processes 10
run --scenario put-reserve-delete --connections 2 --body 1048576
run --scenario put-reserve-delete --body 0
run --scenario put-reserve-delete --rate 5000 --warmup 0.1
run --scenario producers-consumers --connections 100 --pipeline 16
run --scenario producers-consumers --rate 9000
run --scenario producers-consumers --tubes 5 --threads 2
run --scenario tubes --connections 4 --tubes 150 --watchers 30
run --scenario tubes --connections 4 --tubes 150 --watchers 30 --rate 4000
run --scenario delayed --seconds 1.5 --rate 6000
run --scenario buried-kicked --pipeline 4
run --scenario put --pipeline 64 --jobs 1000
run --scenario drain --pipeline 8 --connections 5
# A job of another size in the tube has to be noticed.
build/beanload --port "$PORT" --scenario put --connections 1 --jobs 1 --body 10 >/dev/null
if build/beanload --port "$PORT" --scenario put-reserve-delete --connections 1 --seconds 0.2 >/dev/null 2>&1; then
  echo "FAILED  a wrong body went unnoticed"
  failures=$((failures + 1))
else
  echo "ok      a wrong body is an error"
fi
stop
[ $failures -eq 0 ] && echo "check: all well"
exit $failures
