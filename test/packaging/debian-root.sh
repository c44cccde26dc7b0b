#!/usr/bin/env bash
# debian-root.sh OLD.deb NEW.deb: installs, upgrades, removes and purges the package in a minimal
# Debian, where nothing else is installed and systemd does not run. Needs root and debootstrap.
set -euo pipefail
# shellcheck source=minimal-debian.sh
source "$(dirname "$(readlink -f "$0")")/minimal-debian.sh"
say() { echo "deb: $*"; }
fail() { say "FAILED: $*" && exit 1; }

if [[ ${1:-} != --in-namespace ]]; then
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/deb.XXXXXX") inner=
  clean() {
    # Its death ends all processes of its namespace, and with them go their mounts.
    [[ -z $inner ]] || kill -KILL "$inner" 2>/dev/null || true
    wait
    until rm -rf --one-file-system "$work" 2>/dev/null; do sleep 0.2; done
  }
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  unshare --mount --pid --fork --kill-child --mount-proc "$0" --in-namespace "$work" "$@" &
  inner=$!
  wait "$inner" && ended=0 || ended=$?
  inner=
  exit "$ended"
fi

work=$2 old=$3 new=$4
root=$work/root
unpack_debian "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp "$old" "$root/root/old.deb"
cp "$new" "$root/root/new.deb"
bare() { chroot "$root" env -i "${environment[@]}" bash -c "cd ~ && $1"; }
install() {
  alone "dpkg -i ./$1 >install.log 2>&1" || {
    bare 'tail -20 install.log'
    fail "dpkg -i $1"
  }
}

# Starts the service as its unit does, on the unit's account, and sends it lines.
serve_alone() {
  ip link set lo up
  bare 'exec runuser -u runnerbean -- runnerbean --config /etc/runnerbean/runnerbean.toml' >"$work/serve.log" 2>&1 &
  local started=$!
  until { exec 3<>/dev/tcp/127.0.0.1/11300; } 2>/dev/null; do
    kill -0 "$started" 2>/dev/null || { cat "$work/serve.log" && fail "the server ended"; }
    sleep 0.1
  done
  printf '%bquit\r\n' "$1" >&3
  tr '\r\n' '  ' <&3 >"$work/replies"
  # The line that comes when all of it listens.
  until grep -q ' or kill [0-9]' "$work/serve.log" || ! kill -0 "$started"; do sleep 0.1; done
  bare 'runnerbean health --url http://127.0.0.1:11380' || fail 'health'
  kill "$(sed -n 's/.* or kill \([0-9]*\).*/\1/p' "$work/serve.log")"
  wait "$started" || { cat "$work/serve.log" && fail "the server ended with $?"; }
}
export -f serve_alone bare say fail
export root work
environment_text=$(printf '%q ' "${environment[@]}")
# In a network of its own, where the ports are free.
serve() {
  unshare --net bash -euo pipefail -c "environment=($environment_text); serve_alone \"\$1\"" bash "$1"
  replies=$(<"$work/replies")
  say "replies: $replies"
}

# Runs a command of the root in a network of its own, where the ports are free.
alone() {
  unshare --net bash -euo pipefail -c "environment=($environment_text); ip link set lo up; bare \"\$1\"" bash "$1"
}

bare 'apt-get update -qq'
bare 'apt-get install -y -qq --no-install-recommends adduser libatomic1 libgcc-s1 libstdc++6 beanstalkd >install.log 2>&1' ||
  { bare 'tail -20 install.log' && fail 'apt-get install beanstalkd'; }

say 'installs while beanstalkd has the port'
alone 'install -d -o beanstalkd /var/lib/beanstalkd
  runuser -u beanstalkd -- beanstalkd -b /var/lib/beanstalkd -f 0 &
  until { exec 3<>/dev/tcp/127.0.0.1/11300; } 2>/dev/null; do sleep 0.1; done
  printf "put 7 0 60 3\r\nold\r\nquit\r\n" >&3 && grep -q "INSERTED 1" <&3
  dpkg -i new.deb >install.log 2>&1 || { tail install.log; exit 1; }
  grep "^runnerbean: " install.log
  runnerbean doctor --config /etc/runnerbean/runnerbean.toml >doctor.log || test $? = 2
  grep -q "^fail  port .*11300: beanstalkd" doctor.log || { cat doctor.log; exit 1; }
  kill %1 && wait || true' >"$work/beside.log" || { cat "$work/beside.log" && fail 'the installation beside beanstalkd'; }
line='runnerbean: beanstalkd uses port 11300, so the service is not started. Next step: /usr/share/doc/runnerbean/docs/replace-beanstalkd.md'
[[ $(grep '^runnerbean: ' "$work/beside.log") == "$line" ]] || { cat "$work/beside.log" && fail 'the next step'; }
bare 'test -s /usr/share/doc/runnerbean/docs/replace-beanstalkd.md' || fail 'the page of the next step'
bare 'test ! -e /etc/systemd/system/multi-user.target.wants/runnerbean.service' || fail 'the unit is enabled'

say 'takes over its jobs, as the page says'
page=$root/usr/share/doc/runnerbean/docs/replace-beanstalkd.md
copy=$(sed -n 's/^    sudo \(install .*binlog.*\)/\1/p' "$page")
[[ -n $copy ]] || fail 'the page has no command that copies'
bare "$copy" || fail "$copy"
bare 'runnerbean config check /etc/runnerbean/runnerbean.toml' || fail 'config check'
serve 'reserve\r\n'
[[ $replies == 'RESERVED 1 3  old  ' ]] || fail "replies: $replies"

say 'judges files as the user of the service'
bare 'runnerbean token add mailer --role worker --token-file /etc/runnerbean/tokens' >/dev/null || fail 'token add'
bare 'test "$(stat -c %U:%a /etc/runnerbean/tokens)" = runnerbean:600' || fail 'the owner of the tokens'
with() { # with LINE: checks the configuration with one more line, and expects the message $2.
  bare "cp /etc/runnerbean/runnerbean.toml before && echo '$1' | cat - before >/etc/runnerbean/runnerbean.toml
    runnerbean config check /etc/runnerbean/runnerbean.toml >check.log 2>&1; cat before >/etc/runnerbean/runnerbean.toml"
  bare "cat check.log" | grep -qE "$2" || { bare 'cat check.log' && fail "config check with $1"; }
}
with 'token-file = "/etc/runnerbean/tokens"' 'is right for the service, which runs as runnerbean'
bare 'chown root /etc/runnerbean/tokens'
with 'token-file = "/etc/runnerbean/tokens"' 'permission denied'
bare 'sed -i "s/^binlog = .*/binlog = \"\/var\/lib\/beanstalkd\"/" /etc/runnerbean/runnerbean.toml'
bare 'chown root: /var/lib/beanstalkd && chmod 755 /var/lib/beanstalkd'
with '# nothing' "can't write to /var/lib/beanstalkd .EACCES.: chown -R runnerbean: /var/lib/beanstalkd"
bare 'chown -R runnerbean: /var/lib/beanstalkd'
with '# nothing' 'is right'
bare 'mkdir -m 777 /srv/log && sed -i "s/^binlog = .*/binlog = \"\/srv\/log\"/" /etc/runnerbean/runnerbean.toml'
with '# nothing' 'ReadWritePaths=/srv/log'

say 'purges it with a socket unit that was enabled'
bare 'mkdir -p /etc/systemd/system/sockets.target.wants && ln -s /usr/lib/systemd/system/runnerbean.socket /etc/systemd/system/sockets.target.wants/'
bare 'apt-get purge -y -qq runnerbean beanstalkd >/dev/null 2>&1 && rm -rf /srv/log' || fail 'apt-get purge'
bare '! find / -xdev -name "*runnerbean*" -not -path "/proc/*" -not -path "/root/*" | grep .' || fail 'purge left files'

say "installs the old one: $(bare 'dpkg-deb -f old.deb Package Version Architecture' | tr '\n' ' ')"
install old.deb
bare 'test "$(stat -c %U:%a /var/lib/runnerbean)" = runnerbean:700' || fail 'the folder of the log'
bare 'test -L /etc/systemd/system/multi-user.target.wants/runnerbean.service' || fail 'the unit is not enabled'
bare 'test -s /usr/share/man/man1/runnerbean.1.gz' || fail 'no manual page'
serve 'put 0 0 60 5\r\nhello\r\n'
[[ $replies == 'INSERTED 1  ' ]] || fail "replies: $replies"

say 'changes the configuration and upgrades'
bare 'echo "max-job-size = 70000" | cat - /etc/runnerbean/runnerbean.toml >x && cat x >/etc/runnerbean/runnerbean.toml'
install new.deb
version=$(bare 'dpkg-deb -f new.deb Version')
[[ $(bare 'dpkg-query -W -f "\${Version}" runnerbean') == "$version" ]] || fail 'the version after the upgrade'
bare 'grep -q 70000 /etc/runnerbean/runnerbean.toml' || fail 'the upgrade changed the configuration'
serve 'reserve\r\nstats\r\n'
[[ $replies == 'RESERVED 1 5  hello  '*'max-job-size: 70000 '* ]] || fail "replies: $replies"

say 'removes and purges'
bare 'apt-get remove -y -qq runnerbean >/dev/null 2>&1' || fail 'apt-get remove'
bare 'test ! -e /usr/bin/runnerbean && test -f /etc/runnerbean/runnerbean.toml' || fail 'what remove leaves'
bare 'ls /var/lib/runnerbean | grep -q .' || fail 'remove took the log'
bare 'apt-get purge -y -qq runnerbean >/dev/null 2>&1' || fail 'apt-get purge'
bare 'test ! -e /etc/runnerbean && test ! -e /var/lib/runnerbean' || fail 'what purge leaves'
bare '! find / -xdev -name "*runnerbean*" -not -path "/proc/*" -not -path "/root/*" | grep .' || fail 'purge left files'
say 'passed'
