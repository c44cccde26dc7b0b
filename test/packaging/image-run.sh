#!/usr/bin/env bash
# image-run.sh CONTEXT: builds the image by its Dockerfile with buildah, unpacks it with umoci, and
# runs it with crun: a user, a root that can't be written, a network of its own. Needs root.
#
# The base in the Dockerfile can't be fetched from Debian's mirror, so another one with the same
# library is made of Debian's packages.
set -euo pipefail
say() { echo "image: $*"; }
fail() { say "FAILED: $*" && exit 1; }

if [[ ${1:-} != --in-namespace ]]; then
  context=$(realpath "$1")
  # buildah takes the path for a name, which has no capitals.
  work=/var/tmp/runnerbean-image.$$ inner=
  mkdir "$work"
  clean() {
    [[ -z $inner ]] || kill -KILL "$inner" 2>/dev/null || true
    wait
    until rm -rf --one-file-system "$work" 2>/dev/null; do sleep 0.2; done
  }
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  mkdir "$work/debs" "$work/base"
  (cd "$work/debs" && apt-get -o APT::Sandbox::User=root download -qq base-files libc6 netbase tzdata)
  for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/base"; done
  rm -rf "$work/base/usr/share/doc"
  # From here on without a network.
  unshare --net --mount --pid --fork --kill-child --mount-proc "$0" --in-namespace "$work" "$context" &
  inner=$!
  wait "$inner" && ended=0 || ended=$?
  inner=
  exit "$ended"
fi

work=$2 context=$3
cd "$work"
umoci init --layout base-image
umoci new --image base-image:base
umoci insert --image base-image:base base / >/dev/null
store=(--root "$work/store" --runroot "$work/run" --storage-driver vfs)
buildah "${store[@]}" bud -q --isolation chroot --format docker --build-arg "BASE=oci:$work/base-image:base" -t runnerbean "$context"
buildah "${store[@]}" push -q --format oci localhost/runnerbean "oci:$work/image:runnerbean"
bytes=$(du -cb image/blobs/sha256/* | tail -1 | cut -f 1)
say "compressed: $bytes bytes"
((bytes <= 60000000)) || fail 'it has more than 60 MB'
umoci unpack --image image:runnerbean bundle >/dev/null 2>&1
[[ $(stat -c %u:%g:%a bundle/rootfs/data) == 11300:11300:755 ]] || fail 'the folder of the log'

# crun refuses a machine with both versions of cgroups.
mount -t cgroup2 none /sys/fs/cgroup
# Writes the settings of a container with these arguments.
configure() {
  ruby -rjson -e '
    config = JSON.parse(File.read("bundle/config.json"))
    process = config["process"]
    abort "user: #{process["user"]}" unless process["user"].values_at("uid", "gid") == [11300, 11300]
    process["terminal"] = false
    process["args"] = process["args"].first(1) + ARGV unless ARGV.empty?
    %w[bounding effective inheritable permitted ambient].each { |set| process["capabilities"][set] = [] }
    config["root"]["readonly"] = true
    config["mounts"] << { "destination" => "/data", "type" => "bind", "source" => "#{Dir.pwd}/volume", "options" => %w[bind rw] }
    # It shares the network that was made for it, where this script asks it.
    config["linux"]["namespaces"].reject! { |each| %w[network cgroup].include?(each["type"]) }
    config["linux"].delete("resources")
    config["mounts"].reject! { |each| each["type"] == "cgroup" }
    File.write("run-bundle/config.json", config.to_json)
  ' -- "$@"
}
container=(crun --root "$work/crun" --cgroup-manager=disabled)
install -d -o 11300 -g 11300 volume
mkdir -p run-bundle
ln -s ../bundle/rootfs run-bundle/rootfs
ip link set lo up
# Stands for the address that the engine publishes.
ip address add 10.11.12.13/32 dev lo

start() {
  configure "$@"
  "${container[@]}" run --bundle run-bundle one >log 2>&1 &
  running=$!
  touch log
  until grep -q ' or kill [0-9]' log; do
    kill -0 "$running" 2>/dev/null || { cat log && fail 'the container ended'; }
    sleep 0.1
  done
}
stop() {
  "${container[@]}" kill one TERM
  wait "$running" || { cat log && fail "the container ended with $?"; }
}

say 'as the Dockerfile says'
start
exec 3<>/dev/tcp/10.11.12.13/11300
printf 'put 0 0 60 5\r\nhello\r\nquit\r\n' >&3
replies=$(tr '\r\n' '  ' <&3)
[[ $replies == 'INSERTED 1  ' ]] || fail "replies: $replies"
"${container[@]}" exec one /usr/bin/runnerbean health --url http://127.0.0.1:11380 || fail 'the health check'
said=$("${container[@]}" exec one /usr/bin/runnerbean -p 0 -b /tmp 2>&1) && fail 'the root can be written'
[[ $said == *EROFS* || $said == *ead-only* ]] || fail "another log in /tmp: $said"
! (exec 3<>/dev/tcp/10.11.12.13/11380) 2>/dev/null || fail 'HTTP is open to the network'
stop

say 'with the dashboard, as docs/deployment.md says'
start -l 0.0.0.0 -b /data --http 0.0.0.0:11380 --http-insecure
curl -sf --noproxy '*' http://10.11.12.13:11380/ | grep -q '<title>' || fail 'the dashboard'
curl -sf --noproxy '*' http://10.11.12.13:11380/v1/tubes/default | grep -q '"ready": \?1' || fail 'the job of before'
stop
say 'passed'
