#!/usr/bin/env bash
# nats-server.sh DIR [SUITE]: the nats-server of another Debian release (default trixie), from the
# mirror that this machine's apt already uses, unpacked under DIR without root or installation;
# prints the path of the program. Debian 12's own (2.9.10) knows no sync_interval. Checked against
# the suite's signed index by apt.
set -euo pipefail
dir=$1 suite=${2:-trixie}
if [[ ! -x $dir/usr/sbin/nats-server ]]; then
  mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$dir/apt/sources.list"
  apt=(-o "Dir::Etc::SourceList=$dir/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt/cache" -o APT::Default-Release= -o APT::Sandbox::User=root)
  apt-get "${apt[@]}" -qq update >&2
  (cd "$dir" && apt-get "${apt[@]}" -qq download nats-server >&2 && dpkg -x nats-server_*.deb .)
fi
echo "$dir/usr/sbin/nats-server"
