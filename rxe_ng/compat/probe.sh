#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Find out which shape each kernel interface has that differs between the kernels
# that are supported, and write the answers to DIR/rxng_probes.h:
#
#	KDIR=/lib/modules/VERSION/build probe.sh DIR
#
# Each probe is compiled in its newest form and, where that fails, in its older
# one: exactly one has to compile, else the kernel is one that nobody has seen and
# the build stops here, with the compiler's words. No version is ever compared: point
# releases and distributions carry interfaces back.

set -eu

dir=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
: "${KDIR:?set it to the kernel's headers}"
out=$dir/rxng_probes.h
work=$dir/.probe

# Probes cost seconds: keep the answers while kernel and questions are the same.
stamp="/* $(cat "$here/probe.sh" "$KDIR/include/generated/autoconf.h" \
	"$KDIR/include/generated/utsrelease.h" | cksum) $KDIR */"
if [ -f "$out" ] && [ "$(head -n 1 "$out")" = "$stamp" ]; then
	exit 0
fi

rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

# form NAME new|old: the text of one form, from standard input
form() {
	{
		echo '#include <linux/module.h>'
		cat
	} >"$work/$1_$2.c"
	echo "obj-m += $1_$2.o" >>"$work/Kbuild"
}

# Controls: when these do not behave, no answer can be trusted.
form CONTROL_PASS new <<'E'
#include <rdma/ib_verbs.h>
int probe(struct ib_device *dev);
int probe(struct ib_device *dev) { return dev->phys_port_cnt; }
E
form CONTROL_MISSING new <<'E'
#include <rdma/ib_verbs.h>
int probe(struct ib_device *dev);
int probe(struct ib_device *dev) { return ib_no_such_function(dev); }
E
form CONTROL_TYPE new <<'E'
#include <rdma/ib_verbs.h>
static void f(struct ib_cq *cq) { }
const struct ib_device_ops probe = { .destroy_cq = f };
E

form CREATE_CQ_ATTRS new <<'E'
#include <rdma/ib_verbs.h>
static int f(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
	     struct uverbs_attr_bundle *attrs) { return 0; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .create_cq = f };
E
form CREATE_CQ_ATTRS old <<'E'
#include <rdma/ib_verbs.h>
static int f(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
	     struct ib_udata *udata) { return 0; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .create_cq = f };
E

form RESIZE_USER_CQ new <<'E'
#include <rdma/ib_verbs.h>
static int f(struct ib_cq *cq, unsigned int cqe, struct ib_udata *udata)
{ return 0; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .resize_user_cq = f };
E
form RESIZE_USER_CQ old <<'E'
#include <rdma/ib_verbs.h>
static int f(struct ib_cq *cq, int cqe, struct ib_udata *udata) { return 0; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .resize_cq = f };
E

form SPEED_EVENT new <<'E'
#include <rdma/ib_verbs.h>
extern const enum ib_event_type probe;
const enum ib_event_type probe = IB_EVENT_DEVICE_SPEED_CHANGE;
E
form SPEED_EVENT old <<'E'
#include <rdma/ib_verbs.h>
enum { IB_EVENT_DEVICE_SPEED_CHANGE = IB_EVENT_WQ_FATAL };
extern const enum ib_event_type probe;
const enum ib_event_type probe = (enum ib_event_type)IB_EVENT_DEVICE_SPEED_CHANGE;
E

form REG_USER_MR_DMAH new <<'E'
#include <rdma/ib_verbs.h>
static struct ib_mr *f(struct ib_pd *pd, u64 start, u64 length, u64 va,
		       int access, struct ib_dmah *dmah,
		       struct ib_udata *udata) { return NULL; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .reg_user_mr = f };
E
form REG_USER_MR_DMAH old <<'E'
#include <rdma/ib_verbs.h>
static struct ib_mr *f(struct ib_pd *pd, u64 start, u64 length, u64 va,
		       int access, struct ib_udata *udata) { return NULL; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .reg_user_mr = f };
E

form REG_DMABUF_DMAH new <<'E'
#include <rdma/ib_verbs.h>
struct ib_mr *probe(const struct ib_device_ops *ops);
struct ib_mr *probe(const struct ib_device_ops *ops)
{ return ops->reg_user_mr_dmabuf(NULL, 0, 0, 0, 0, 0, NULL, NULL); }
E
form REG_DMABUF_DMAH old <<'E'
#include <rdma/ib_verbs.h>
struct ib_mr *probe(const struct ib_device_ops *ops);
struct ib_mr *probe(const struct ib_device_ops *ops)
{ return ops->reg_user_mr_dmabuf(NULL, 0, 0, 0, 0, 0, NULL); }
E

form REG_DMABUF_ATTRS new <<'E'
#include <rdma/ib_verbs.h>
typedef struct ib_mr *(*with_udata)(struct ib_pd *, u64, u64, u64, int, int,
				    struct ib_udata *);
static_assert(!__builtin_types_compatible_p(with_udata,
	typeof(((struct ib_device_ops *)NULL)->reg_user_mr_dmabuf)));
E
form REG_DMABUF_ATTRS old <<'E'
#include <rdma/ib_verbs.h>
typedef struct ib_mr *(*with_udata)(struct ib_pd *, u64, u64, u64, int, int,
				    struct ib_udata *);
static_assert(__builtin_types_compatible_p(with_udata,
	typeof(((struct ib_device_ops *)NULL)->reg_user_mr_dmabuf)));
E

form DMA_BUF_VMAP_UNLOCKED new <<'E'
#include <linux/dma-buf.h>
int probe(struct dma_buf *buf, struct iosys_map *map);
int probe(struct dma_buf *buf, struct iosys_map *map)
{ return dma_buf_vmap_unlocked(buf, map); }
MODULE_INFO(import_ns, "DMA_BUF");
E
form DMA_BUF_VMAP_UNLOCKED old <<'E'
#include <linux/dma-buf.h>
int dma_buf_vmap_unlocked(void);
int dma_buf_vmap_unlocked(void) { return 0; }
E

form REPORT_PORT_EVENT new <<'E'
#include <rdma/ib_verbs.h>
static void f(struct ib_device *dev, struct net_device *ndev,
	      unsigned long event) { }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .report_port_event = f };
E
form REPORT_PORT_EVENT old <<'E'
#include <rdma/ib_verbs.h>
int probe(struct ib_device_ops *ops);
int probe(struct ib_device_ops *ops) { return !ops->query_port; }
E

form COUNTER_PORT new <<'E'
#include <rdma/ib_verbs.h>
static int f(struct rdma_counter *counter, struct ib_qp *qp, u32 port)
{ return 0; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = {
	.counter_bind_qp = f, .size_rdma_counter = sizeof(struct rdma_counter) };
E
form COUNTER_PORT old <<'E'
#include <rdma/ib_verbs.h>
static int f(struct rdma_counter *counter, struct ib_qp *qp) { return 0; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .counter_bind_qp = f };
E

form FILL_RES_SRQ new <<'E'
#include <rdma/ib_verbs.h>
static int f(struct sk_buff *msg, struct ib_srq *srq) { return 0; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .fill_res_srq_entry = f };
E
form FILL_RES_SRQ old <<'E'
#include <rdma/ib_verbs.h>
static int f(struct sk_buff *msg, struct ib_qp *qp) { return 0; }
extern const struct ib_device_ops probe;
const struct ib_device_ops probe = { .fill_res_qp_entry = f };
E

form CURR_PORT_STATE new <<'E'
#include <rdma/ib_verbs.h>
int probe(struct net_device *ndev);
int probe(struct net_device *ndev) { return ib_get_curr_port_state(ndev); }
E
form CURR_PORT_STATE old <<'E'
#include <rdma/ib_verbs.h>
enum ib_port_state ib_get_curr_port_state(int other);
int probe(void);
int probe(void) { return IB_PORT_ACTIVE; }
E

form NAME_ASSIGNED new <<'E'
#include <rdma/ib_verbs.h>
void probe(struct ib_device *dev);
void probe(struct ib_device *dev) { ib_mark_name_assigned_by_user(dev); }
E
form NAME_ASSIGNED old <<'E'
#include <rdma/ib_verbs.h>
void ib_mark_name_assigned_by_user(int other);
int probe(void);
int probe(void) { return 0; }
E

form UMEM_GET_VA new <<'E'
#include <rdma/ib_umem.h>
struct ib_umem *probe(struct ib_device *dev);
struct ib_umem *probe(struct ib_device *dev)
{ return ib_umem_get_va(dev, 0ul, (size_t)1, 0); }
E
form UMEM_GET_VA old <<'E'
#include <rdma/ib_umem.h>
struct ib_umem *probe(struct ib_device *dev);
struct ib_umem *probe(struct ib_device *dev)
{ return ib_umem_get(dev, 0ul, (size_t)1, 0); }
E

form UDP_TUNNEL_SOCK new <<'E'
#include <net/udp_tunnel.h>
void probe(struct net *net, struct sock *sk, struct udp_tunnel_sock_cfg *cfg);
void probe(struct net *net, struct sock *sk, struct udp_tunnel_sock_cfg *cfg)
{ setup_udp_tunnel_sock(net, sk, cfg); udp_tunnel_sock_release(sk); }
E
form UDP_TUNNEL_SOCK old <<'E'
#include <net/udp_tunnel.h>
void probe(struct net *net, struct socket *s, struct udp_tunnel_sock_cfg *cfg);
void probe(struct net *net, struct socket *s, struct udp_tunnel_sock_cfg *cfg)
{ setup_udp_tunnel_sock(net, s, cfg); udp_tunnel_sock_release(s); }
E

form FLOWI4_DSCP new <<'E'
#include <net/flow.h>
#include <net/inet_dscp.h>
void probe(struct flowi4 *fl4);
void probe(struct flowi4 *fl4) { fl4->flowi4_dscp = inet_dsfield_to_dscp(8); }
E
form FLOWI4_DSCP old <<'E'
#include <net/flow.h>
void probe(struct flowi4 *fl4);
void probe(struct flowi4 *fl4) { fl4->flowi4_tos = 8; }
E

form HRTIMER_SETUP new <<'E'
#include <linux/hrtimer.h>
void probe(struct hrtimer *t, enum hrtimer_restart (*f)(struct hrtimer *));
void probe(struct hrtimer *t, enum hrtimer_restart (*f)(struct hrtimer *))
{ hrtimer_setup(t, f, CLOCK_MONOTONIC, HRTIMER_MODE_ABS); }
E
form HRTIMER_SETUP old <<'E'
#include <linux/hrtimer.h>
void probe(struct hrtimer *t, enum hrtimer_restart (*f)(struct hrtimer *));
void probe(struct hrtimer *t, enum hrtimer_restart (*f)(struct hrtimer *))
{ hrtimer_init(t, CLOCK_MONOTONIC, HRTIMER_MODE_ABS); t->function = f; }
E

form VM_FLAGS_SET new <<'E'
#include <linux/mm.h>
void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma) { vm_flags_set(vma, VM_DONTEXPAND); }
E
form VM_FLAGS_SET old <<'E'
#include <linux/mm.h>
void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma) { vma->vm_flags |= VM_DONTEXPAND; }
E

objects=$(sed -n 's/^obj-m += //p' "$work/Kbuild")
# shellcheck disable=SC2086 # the names of the objects are to be split
make -C "$KDIR" M="$work" -k -j"$(nproc)" $objects >"$work/log" 2>&1 || :

fail() {
	cat "$work/log" >&2
	echo "probe.sh: $1" >&2
	exit 1
}

[ -f "$work/CONTROL_PASS_new.o" ] ||
	fail "the control that must compile does not: is this a kernel's build directory: $KDIR?"
for control in CONTROL_MISSING CONTROL_TYPE; do
	[ ! -f "$work/${control}_new.o" ] ||
		fail "$control compiles, and must not: the compiler's flags hide errors"
done

{
	echo "$stamp"
	for old in "$work"/*_old.c; do
		name=$(basename "$old" _old.c)
		if [ -f "$work/${name}_new.o" ]; then
			echo "#define RXNG_HAVE_$name 1"
		elif [ -f "$work/${name}_old.o" ]; then
			echo "/* RXNG_HAVE_$name: no */"
		else
			fail "neither form of $name compiles: this kernel's interface is not known"
		fi
	done
} >"$work/out"
mv "$work/out" "$out"
