#!/bin/sh
# Builds bin/lib/ARCH/libatomic.so.1 into the folder $1 for the architecture $2 (x64 or arm64).
# The bytes depend on the compiler: those in bin/lib are from gcc 12.2 and binutils 2.40 (Debian 12).
set -eu
here=$(dirname "$(readlink -f "$0")")
case $2 in
  x64) compiler=x86_64-linux-gnu-gcc-12 ;;
  arm64) compiler=aarch64-linux-gnu-gcc-12 ;;
  *) echo "build.sh: $2 is not x64 or arm64" >&2 && exit 2 ;;
esac
command -v "$compiler" >/dev/null || { echo "build.sh: there is no $compiler: install gcc-12" >&2; exit 3; }
mkdir -p "$1/$2"
echo 'LIBATOMIC_1.0 { global: __atomic_compare_exchange; local: *; };' >"$1/$2/map"
[ "$2" = x64 ] || set -- "$1" "$2" -mno-outline-atomics
folder=$1/$2
shift 2
cd "$here"
"$compiler" -std=c11 -Os -Wall -Wextra -Werror -fPIC -ffreestanding -fno-builtin -fno-ident \
  -fno-tree-loop-distribute-patterns -fno-stack-protector -fno-asynchronous-unwind-tables "$@" \
  -shared -nostdlib -Wl,--version-script="$folder/map" -Wl,-soname,libatomic.so.1 \
  -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-z,now -Wl,-z,noseparate-code -s -o "$folder/libatomic.so.1" atomic.c
rm "$folder/map"
