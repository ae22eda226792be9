#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Run the tests of verbs for kernel consumers on a device of this host, and
# print the results as TAP: run.sh MODULE.ko [PARAMETER=VALUE...]
# Parameters are the module's: dev=NAME only=PART gid_index=N timeout_ms=N
# Exit status: 0 all passed, 1 not so, 4 the tests cannot be run here.

set -eu

ko=${1:?name the test module}
shift
results=/sys/kernel/debug/rxng_ktest/results

if [ -d /sys/module/rxng_ktest ]; then
	echo "Bail out! rxng_ktest is loaded already"
	exit 4
fi
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
modprobe -a ib_core || exit 4
insmod "$ko" "$@" || exit 4
output=$(cat "$results")
rmmod rxng_ktest
echo "$output"
case $output in
*"Bail out!"*) exit 4 ;;
*"
not ok "*) exit 1 ;;
esac
