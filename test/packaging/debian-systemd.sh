#!/usr/bin/env bash
# debian-systemd.sh NEW.deb: plays docs/replace-beanstalkd.md in a Debian with systemd and Debian's
# beanstalkd, in namespaces of its own. Needs root, debootstrap and a cgroup2 hierarchy.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=minimal-debian.sh
source "$here/minimal-debian.sh"
say() { echo "systemd: $*"; }
fail() { say "FAILED: $*" && exit 1; }

if [[ ${1:-} == --boot ]]; then
  root=$2
  # The root of a new hierarchy of namespaces: systemd finds what it finds on a machine.
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs tmpfs "$root/run"
  mount -t tmpfs tmpfs "$root/tmp"
  mount --rbind /dev "$root/dev"
  ip link set lo up
  exec chroot "$root" env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=console --unit=multi-user.target
fi

mkdir -p "$cache"
work=$(mktemp -d "$cache/systemd.XXXXXX") outer=
root=$work/root
group=$(sed -n 's/^cgroup2\? \(\S*\) cgroup2 .*/\1/p' /proc/mounts | head -1)/runnerbean-$$
clean() {
  # Its death ends all processes of its namespaces, and with them go their mounts.
  [[ -z $outer ]] || kill -KILL "$outer" 2>/dev/null || true
  wait
  until rm -rf --one-file-system "$work" 2>/dev/null; do sleep 0.2; done
  [[ ! -d $group ]] || find "$group" -depth -type d -exec rmdir {} + || true
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

unpack_debian "$root"
cp "$1" "$root/root/new.deb"
say 'installs systemd and beanstalkd'
chroot "$root" env -i "${environment[@]}" bash -c 'apt-get update -qq && apt-get install -y -qq \
  --no-install-recommends systemd systemd-sysv dbus adduser libatomic1 libgcc-s1 libstdc++6 \
  beanstalkd >/root/install.log 2>&1' || { tail -20 "$root/root/install.log" && fail 'apt-get install'; }
sed -i 's|^#BEANSTALKD_EXTRA|BEANSTALKD_EXTRA|' "$root/etc/default/beanstalkd"
mkdir "$group"
bash -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --pid --fork --kill-child --net --uts --ipc --cgroup "$2" --boot "$3"' \
  bash "$group" "$(readlink -f "$0")" "$root" >"$work/boot.log" 2>&1 &
outer=$!
until inner=$(pgrep -P "$outer" -x systemd); do
  kill -0 "$outer" 2>/dev/null || { cat "$work/boot.log" && fail 'systemd did not start'; }
  sleep 0.1
done
in_it() { nsenter -t "$inner" -m -p -n -u -i -C -r -w env -i "${environment[@]}" bash -c "cd /root; $1"; }
# says LINES: sends them to the port, and prints the replies in a line.
says() { in_it "exec 3<>/dev/tcp/127.0.0.1/11300; printf '%bquit\r\n' '$1' >&3; tr '\r\n' '  ' <&3"; }
# page N PATTERN: runs the commands of step N of the page that match.
page() {
  local commands
  commands=$(sed -n "/^## $1\./,/^## /s/^    sudo //p" "$root/usr/share/doc/runnerbean/docs/replace-beanstalkd.md" | grep -E "$2")
  [[ -n $commands ]] || fail "step $1 has no $2"
  in_it "set -e; $commands" >"$work/page.log" 2>&1 || { cat "$work/page.log" && fail "step $1: $commands"; }
}
until in_it 'systemctl is-active --quiet beanstalkd' 2>/dev/null; do sleep 0.1; done
until [[ $(says 'put 7 0 60 3\r\nold\r\n' 2>/dev/null) == 'INSERTED 1  ' ]]; do sleep 0.1; done

say 'installs the package while beanstalkd serves'
said=$(in_it 'dpkg -i new.deb 2>&1') || fail "$said"
grep -q '^runnerbean: beanstalkd uses port 11300, so the service is not started. Next step: ' <<<"$said" || fail "$said"
in_it '! systemctl is-enabled --quiet runnerbean && ! systemctl is-failed --quiet runnerbean' || fail 'the service'
[[ $(says 'peek 1\r\n') == 'FOUND 1 3  old  ' ]] || fail 'beanstalkd does not serve any more'
in_it 'runnerbean doctor' >"$work/doctor.log" && fail 'doctor does not see beanstalkd'
grep -q '^fail  port .*11300: beanstalkd ' "$work/doctor.log" || { cat "$work/doctor.log" && fail doctor; }

say 'switches, as the page says'
page 2 'config check'
page 3 .
[[ $(says 'peek 1\r\n') == 'FOUND 1 3  old  ' ]] || fail 'the job of beanstalkd is lost'
in_it 'grep -qx runnerbean /proc/[0-9]*/comm' || fail 'the name of the process'

say 'stays on in an upgrade, and off in another installation beside beanstalkd'
in_it 'dpkg -i new.deb >again.log 2>&1 && systemctl is-active --quiet runnerbean && ! grep "not started" again.log' || fail 'the upgrade'
in_it 'dpkg --remove runnerbean >/dev/null 2>&1 && systemctl start beanstalkd && dpkg -i new.deb >again.log 2>&1 &&
  grep -q "not started" again.log && ! systemctl is-active --quiet runnerbean &&
  ! systemctl is-enabled --quiet runnerbean && ! systemctl is-enabled --quiet runnerbean.socket && [ -z "$(systemctl list-units --failed --plain --no-legend)" ] &&
  systemctl stop beanstalkd && systemctl enable --quiet --now runnerbean' || { in_it 'cat again.log' && fail 'the installation after a removal'; }
[[ $(says 'peek 1\r\n') == 'FOUND 1 3  old  ' ]] || fail 'the job after a removal'

say 'uses tokens that root has made'
in_it 'runnerbean token add mailer --role worker --token-file /etc/runnerbean/tokens >/dev/null 2>&1 &&
  sed -i "1i token-file = \"/etc/runnerbean/tokens\"" /etc/runnerbean/runnerbean.toml &&
  runnerbean config check /etc/runnerbean/runnerbean.toml && systemctl restart runnerbean' || fail 'tokens'

say "sees files of the log that the service can't use"
in_it 'systemctl stop runnerbean && chown root: /var/lib/runnerbean/*.log && ! runnerbean config check /etc/runnerbean/runnerbean.toml 2>check.log &&
  grep -q "write to /var/lib/runnerbean/runnerbean\..*: chown -R runnerbean: /var/lib/runnerbean" check.log && ! runnerbean doctor >doctor.log &&
  grep -q "write to /var/lib/runnerbean/runnerbean\." doctor.log && chown -R runnerbean: /var/lib/runnerbean && systemctl start runnerbean' ||
  { in_it 'cat check.log doctor.log' && fail 'files of another user'; }

say 'switches socket activation on and off'
in_it 'systemctl enable --quiet runnerbean.socket && systemctl stop runnerbean && systemctl start runnerbean.socket runnerbean' || fail 'on'
[[ $(says 'peek 1\r\n') == 'FOUND 1 3  old  ' ]] || fail 'with a socket of systemd'
in_it 'systemctl disable --quiet --now runnerbean.socket && systemctl is-active --quiet runnerbean && systemctl restart runnerbean' || fail 'off'
[[ $(says 'peek 1\r\n') == 'FOUND 1 3  old  ' ]] || fail 'without a socket of systemd'

say "uses beanstalkd's own directory"
own='cp /etc/runnerbean/runnerbean.toml before && sed -i "s|^binlog = .*|binlog = \"/var/lib/beanstalkd\"|" /etc/runnerbean/runnerbean.toml'
in_it "$own && systemctl stop runnerbean && ! runnerbean config check /etc/runnerbean/runnerbean.toml 2>check.log" || fail 'config check of a directory of beanstalkd'
in_it 'grep -q "chown -R runnerbean: /var/lib/beanstalkd" check.log && chown -R runnerbean: /var/lib/beanstalkd && systemctl start runnerbean' || fail 'its own directory'
[[ $(says 'peek 1\r\n') == 'FOUND 1 3  old  ' ]] || fail 'the job in its own directory'

say 'logs errors with their level'
in_it 'sed -i "1i prot = 1" /etc/runnerbean/runnerbean.toml; systemctl restart runnerbean 2>/dev/null || true
  until journalctl -u runnerbean -p err --no-pager -o cat | grep -q "unknown key prot: did you mean port"; do sleep 0.2; done
  cp before /etc/runnerbean/runnerbean.toml; systemctl reset-failed runnerbean; systemctl restart runnerbean' || fail 'journalctl -p err'

say 'goes back to beanstalkd, as the page says'
page 5 .
in_it 'sed -i "s|/var/lib/beanstalkd|/var/lib/beanstalkd-new|" /etc/default/beanstalkd; systemctl enable --now beanstalkd 2>/dev/null'
until [[ $(says 'peek 1\r\n' 2>/dev/null) == 'FOUND 1 3  old  ' ]]; do
  in_it '! systemctl is-failed --quiet beanstalkd' || fail 'beanstalkd'
  sleep 0.1
done

say 'purges it with socket, drop-in and tokens'
in_it 'systemctl disable --now beanstalkd 2>/dev/null; rm -rf /var/lib/beanstalkd; systemctl enable --quiet --now runnerbean.socket &&
  systemctl start runnerbean && mkdir -p /etc/systemd/system/runnerbean.service.d &&
  echo "[Service]" >/etc/systemd/system/runnerbean.service.d/override.conf && dpkg --purge runnerbean >purge.log 2>&1' || fail 'dpkg --purge'
left=$(in_it 'find / -xdev -name "*runnerbean*" -not -path "/proc/*" -not -path "/root/*"')
[[ -z $left ]] || fail "purge left $left"
[[ -z $(in_it 'systemctl list-units --failed --plain --no-legend') ]] || fail 'failed units'
say 'passed'
