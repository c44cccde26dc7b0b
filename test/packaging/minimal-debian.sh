# Sourced by the scripts beside it: makes the root of a minimal Debian, with this machine's way to
# Debian's mirror.
#
# debootstrap makes the root from the mirror that this machine's apt already uses, and a tarball
# keeps it ($BARE_CACHE, default /var/tmp/runnerbean-bare, as in .ci/bare).
cache=${BARE_CACHE:-/var/tmp/runnerbean-bare} suite=bookworm

# unpack_debian ROOT: the environment of the root's commands is in the array `environment` then.
unpack_debian() {
  local root=$1 tarball mirror file name
  tarball=$cache/$suite-$(uname -m)-minbase.tar.gz
  mkdir -p "$root"
  if [[ ! -f $tarball ]]; then
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian' | grep -v security | head -1)
    echo "makes a minimal Debian ($suite)"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
      tail -20 "$root.log"
      exit 1
    }
    rm -rf "$root"/var/cache/apt/archives/*.deb
    tar -C "$root" -I 'gzip -1' -cf "$root.tar.gz" .
    mv "$root.tar.gz" "$tarball"
  else
    tar -C "$root" -xzf "$tarball"
  fi
  # The way to Debian's mirror is that of this machine, and is not told to the tarball.
  for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    [[ ! -f $file ]] || install -D -m 644 "$(realpath "$file")" "$root$file"
  done
  apt-config dump | grep -E '^Acquire::https?::' >"$root/etc/apt/apt.conf.d/99-machine" || true
  environment=(HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
  for name in $(compgen -e | grep -iE '^(https?_proxy|no_proxy|all_proxy|SSL_CERT_(FILE|DIR))$'); do
    environment+=("$name=${!name}")
  done
}
