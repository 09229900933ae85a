#!/bin/sh
# Compiles every *.bpf.c of this folder, into it or into the folder given.
#   ./build.sh [OUTPUT]
# Needs Debian's clang, llvm, libbpf-dev and linux-libc-dev. Without an argument it also records
# what was compiled from what (MANIFEST), which a test compares with the sources.
set -eu
cd "$(dirname "$0")"
out=${1:-.}
clang=${CLANG:-clang}
strip=${LLVM_STRIP:-llvm-strip}
# Names in the object stay relative to this folder, whatever its place on the machine.
for source in *.bpf.c; do
	object=$out/${source%.c}.o
	"$clang" -O2 -g -target bpf -mcpu=v3 -Wall -Werror \
		-idirafter "/usr/include/$(uname -m)-linux-gnu" \
		-fdebug-prefix-map="$PWD"=. -fdebug-compilation-dir=. \
		-c "$source" -o "$object"
	"$strip" --strip-debug "$object"
done
if [ "$out" = . ]; then
	{
		echo "# Made by build.sh: the compiler, then the SHA-256 of sources and objects."
		echo "# $("$clang" --version | head -n 1)"
		sha256sum *.h *.bpf.c *.bpf.o
	} > MANIFEST
fi
