#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Runs in a guest: bring it to the state in which a test begins, whatever the one before left.
#	base.sh DRIVER LINK MTU
# DRIVER is rxe_ng, rdma_rxe or none: the module that shall be loaded (removed at the first try
# where it shall not); LINK is yes when rxe0 shall be on eth0. Says what it had to put right.
# Exit status 1, with a reason on standard error: it cannot be done, this guest is spoiled.

driver=$1 link=$2 mtu=$3
. /usr/local/lib/rxe-vm/config
patience=100
[ "$RELEASE" != debug ] || patience=1200
# The kernel may have been told to do without IPv6.
ipv6=yes
[ -e /proc/sys/net/ipv6 ] || ipv6=no

fail()
{
	echo "$*" >&2
	exit 1
}

# Run a command until it succeeds.
await()
{
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ "$tries" -lt "$patience" ] || return 1
		sleep 0.05
	done
}

# Refused until the namespaces that were deleted are gone.
shared_by_namespaces()
{
	rdma system set netns shared
}

empty()
{
	grep -q '^populated 0' "$1/cgroup.events" 2>/dev/null || [ ! -d "$1" ]
}

kill_commands()
{
	read -r own </proc/self/cgroup
	own=${own##*/}
	for group in /sys/fs/cgroup/command-*; do
		[ -d "$group" ] && [ "${group##*/}" != "$own" ] || continue
		if ! empty "$group"; then
			read -r pid <"$group/cgroup.procs"
			read -r name <"/proc/$pid/comm"
			echo "ended: $name"
			echo 1 >"$group/cgroup.kill"
			if ! await empty "$group"; then
				read -r pid <"$group/cgroup.procs"
				fail "$(cat "/proc/$pid/comm") (pid $pid) cannot be killed:" \
					"$(cat "/proc/$pid/stack")"
			fi
		fi
		rmdir "$group" 2>/dev/null
	done
}

# The NIC's present name: a test may have renamed it or moved it to a namespace that is going.
nic()
{
	for path in /sys/class/net/*; do
		read -r address <"$path/address" 2>/dev/null || continue
		[ -e "$path/device" ] && [ "$address" = "$mac" ] || continue
		nic=${path##*/}
		return 0
	done
	return 1
}

# RDMA links that a test does not begin with, into $spare.
find_spare_links()
{
	spare=
	for path in /sys/class/infiniband/*; do
		name=${path##*/}
		[ -e "$path" ] || continue
		[ "$name" = rxe0 ] && [ "$wanted" = yes ] || spare="$spare $name"
	done
}

no_spare_links()
{
	find_spare_links
	[ -z "$spare" ]
}

# What differs on eth0 from the way a test begins, into $change: flags, MTU, bridge, addresses.
look_at_eth0()
{
	change=
	read -r flags </sys/class/net/eth0/flags
	read -r value </sys/class/net/eth0/mtu
	[ $((flags & 0x301)) -eq 1 ] || change="flags $flags"	# up, not promiscuous, not all multicast
	[ "$value" = "$mtu" ] || change="$change mtu $value"
	[ ! -e /sys/class/net/eth0/master ] || change="$change has a master"
	addresses=$(ip -o addr show dev eth0 | while read -r _ _ family address _; do
		case $address in
		fe80:*) ;;
		*) printf ' %s %s' "$family" "$address" ;;
		esac
	done)
	case $ipv6:$addresses in
	"yes: inet 10.77.0.$HOST/24 inet6 fd77::$HOST/64" | "no: inet 10.77.0.$HOST/24") ;;
	*) change="$change addresses$addresses" ;;
	esac
}

repair_eth0()
{
	for port in $(bridge link show dev eth0 2>/dev/null | cut -d: -f2); do
		echo "taken from its bridge: $port"
	done
	tc qdisc del dev eth0 root 2>/dev/null
	tc qdisc del dev eth0 ingress 2>/dev/null
	ip link set eth0 nomaster down
	ip addr flush dev eth0
	ip link set eth0 mtu "$mtu" promisc off allmulticast off
	ip link set eth0 up || fail "eth0 cannot be set up"
	ip addr add "10.77.0.$HOST/24" dev eth0
	[ $ipv6 = no ] || ip addr add "fd77::$HOST/64" dev eth0 nodad
}

carrier()
{
	read -r up <"/sys/class/net/eth0/carrier" && [ "$up" = 1 ]
}

active()
{
	read -r state </sys/class/infiniband/rxe0/ports/1/state && [ "$state" = "4: ACTIVE" ]
}

# GIDs stand without gaps but those that a removal left: a dozen places will do.
gids_there()
{
	missing=2
	[ $ipv6 = yes ] || missing=1
	for n in 0 1 2 3 4 5 6 7 8 9 10 11; do
		read -r gid <"/sys/class/infiniband/rxe0/ports/1/gids/$n" || continue
		case $gid in
		"0000:0000:0000:0000:0000:ffff:0a4d:000$HOST" | "fd77:0000:0000:0000:0000:0000:0000:000$HOST")
			missing=$((missing - 1))
			;;
		esac
	done 2>/dev/null
	[ "$missing" -eq 0 ]
}

kill_commands

wanted=no
[ "$link" = yes ] && [ -d "/sys/module/$driver" ] && wanted=yes
mac=52:54:00:77:00:0$HOST

for path in /run/netns/*; do
	[ -e "$path" ] || continue
	name=${path##*/}
	echo "removed: network namespace $name"
	ip netns del "$name"
done
await nic || fail "the NIC with address $mac is gone"

find_spare_links
for name in $spare; do
	echo "removed: RDMA link $name"
	# It may go by itself, with the namespace or netdev that went before.
	rdma link delete "$name" || ! rdma link show "$name" >/dev/null 2>&1 ||
		fail "the RDMA link $name cannot be deleted"
done
await no_spare_links || fail "RDMA links do not go:$spare"
mode=/sys/module/ib_core/parameters/netns_mode
if [ -e $mode ] && read -r value <$mode && [ "$value" = N ]; then
	echo "changed: RDMA devices are shared by namespaces again"
	await shared_by_namespaces || fail "RDMA's namespace mode cannot be set back"
fi

for path in /sys/class/net/*; do
	name=${path##*/}
	case $name in
	lo | "$nic" | bonding_masters | sit0 | ip6tnl0 | tunl0 | gre0 | gretap0 | erspan0 | ip6gre0) continue ;;
	esac
	[ -e "$path" ] || continue	# the other end of a pair that is gone
	echo "removed: network device $name"
	ip link del "$name" || fail "the network device $name cannot be removed"
done
if [ "$nic" != eth0 ]; then
	echo "renamed: $nic to eth0"
	ip link set "$nic" down && ip link set "$nic" name eth0 || fail "$nic cannot be renamed to eth0"
fi
tc qdisc show | while read -r _ kind _ _ name _; do
	case $name:$kind in
	lo:noqueue | eth0:mq | eth0:fq | eth0:fq_codel | eth0:pfifo_fast) continue ;;
	lo:* | eth0:*) ;;
	*) continue ;;
	esac
	echo "removed: $kind on $name"
	case $kind in
	ingress | clsact) tc qdisc del dev "$name" "$kind" ;;
	*) tc qdisc del dev "$name" root ;;
	esac
done
look_at_eth0
if [ -n "$change" ]; then
	echo "changed: eth0 had $change"
	repair_eth0
fi
await carrier || fail "eth0 has no carrier"
# The other host's address may have been another one.
ip neigh flush dev eth0
if [ -d /sys/module/nf_tables ] && [ -n "$(nft list ruleset)" ]; then
	echo "removed: nftables' rules"
	nft flush ruleset
fi
for file in /sys/kernel/debug/fail*/probability; do
	[ -e "$file" ] && read -r value <"$file" && [ "$value" != 0 ] || continue
	echo "ended: fault injection by ${file%/*}"
	echo 0 >"$file"
done

for module in rxe_ng rdma_rxe; do
	[ "$module" != "$driver" ] && [ -d "/sys/module/$module" ] || continue
	for path in /sys/class/infiniband/*; do
		[ -e "$path" ] || continue
		name=${path##*/}
		rdma link delete "$name" || fail "the RDMA link $name cannot be deleted"
	done
	rmmod "$module" || fail "rmmod $module fails"
done
if [ "$driver" != none ] && [ ! -d "/sys/module/$driver" ]; then
	case $driver in
	rxe_ng) load-rxe_ng ;;
	*) modprobe -a "$driver" rdma_ucm ib_umad ;;
	esac || fail "$driver cannot be loaded"
fi
[ "$driver" != none ] && [ "$link" = yes ] || exit 0

if [ ! -d /sys/class/infiniband/rxe0 ]; then
	rdma link add rxe0 type rxe netdev eth0 || fail "the RDMA link rxe0 cannot be added"
fi
await gids_there || fail "rxe0 does not get GIDs for 10.77.0.$HOST and fd77::$HOST"
await active || fail "the port of rxe0 is not active: $(cat /sys/class/infiniband/rxe0/ports/1/state)"
exit 0
