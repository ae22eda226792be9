#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Build the module whose sources are in DIR against the kernel of the release that this
# runs in ('rxe-vm chroot' sets KDIR): build-module.sh DIR [MAKE-ARGUMENT...]
# Warnings are errors, from the compiler (W=1) and from modpost.

set -eu

dir=$(cd "$1" && pwd)
shift

if [ -f "$dir/rxe_ng/compat/probe.sh" ]; then
	sh "$dir/rxe_ng/compat/probe.sh" "$dir"
fi

status=0
make -C "$KDIR" M="$dir" W=1 KCFLAGS=-Werror -j"$(nproc)" "$@" modules >"$dir/build.log" 2>&1 || status=$?
cat "$dir/build.log"
[ "$status" -eq 0 ] || exit "$status"
if grep -q '^WARNING: modpost' "$dir/build.log"; then
	echo "modpost warned: see above" >&2
	exit 1
fi
