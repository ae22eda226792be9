#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Run the tests of verbs for kernel consumers on a device of this host, and
# print the results as TAP, as they come: run.sh MODULE.ko [PARAMETER=VALUE...]
# Parameters are the module's: dev=NAME only=PART gid_index=N timeout_ms=N
# Exit status: 0 all passed, 1 not so, 4 the tests cannot be run here.

set -u

ko=${1:?name the test module}
shift
results=/sys/kernel/debug/rxng_ktest/results
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT

give_up()
{
	echo "Bail out! $*"
	exit 4
}

[ ! -d /sys/module/rxng_ktest ] || give_up "rxng_ktest is loaded already"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
modprobe -a ib_core || give_up "there is no RDMA in this kernel"

# Let the tests choose an allocation that fails, where the kernel can do that.
for how in failslab fail_page_alloc; do
	[ -d "/sys/kernel/debug/$how" ] || continue
	echo N >"/sys/kernel/debug/$how/ignore-gfp-wait"
	echo 0 >"/sys/kernel/debug/$how/verbose"
done

# Loading it runs the tests.
insmod "$ko" "$@" &
loading=$!
until [ -e "$results" ]; do
	kill -0 "$loading" 2>/dev/null || give_up "$ko cannot be loaded"
	sleep 0.05
done
tee "$copy" <"$results"
wait "$loading" || give_up "$ko was not loaded"
rmmod rxng_ktest || give_up "rxng_ktest cannot be unloaded"

if grep -q '^Bail out!' "$copy"; then
	exit 4
fi
if grep -q '^not ok' "$copy"; then
	exit 1
fi
