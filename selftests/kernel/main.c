// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Runs all tests when it is loaded. The results are in the kernel log and in
 * /sys/kernel/debug/rxng_ktest/results, in TAP.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "ktest.h"

#define RESULTS_SIZE (64 * 1024)

static char *dev_name_wanted = "";
module_param_named(dev, dev_name_wanted, charp, 0444);
MODULE_PARM_DESC(dev, "device to test; the first soft-RoCE device when empty");

static char *only = "";
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "run only tests whose names contain this");

static int gid_index = -1;
module_param(gid_index, int, 0444);
MODULE_PARM_DESC(gid_index, "source GID; the first of RoCEv2 when negative");

unsigned int kt_timeout_ms = 20000;
module_param_named(timeout_ms, kt_timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "how long to wait for anything that must happen");

static char *results;
static size_t results_len;
static bool results_complete;
static DECLARE_WAIT_QUEUE_HEAD(results_wait);
static struct dentry *debugfs_dir;

/* The device under test; its removal waits until the tests are through. */
static struct ib_device *device;
static DECLARE_COMPLETION(tests_done);

static const struct kt_case *const suites[] = {
	kt_data_cases, kt_post_cases, kt_cq_cases, kt_mr_cases, kt_life_cases,
	kt_fail_cases, kt_srq_cases,
};

/**
 * kt_fail - record why a test failed
 * @t: test
 * @fmt: reason; only the first one is kept
 *
 * Return: false, for the test to return.
 */
bool kt_fail(struct kt *t, const char *fmt, ...)
{
	va_list args;

	if (!t->failed) {
		va_start(args, fmt);
		vscnprintf(t->why, sizeof(t->why), fmt, args);
		va_end(args);
	}
	t->failed = true;
	return false;
}

/**
 * kt_skip - record why a test cannot be run here
 * @t: test
 * @fmt: reason
 *
 * Return: true, for the test to return.
 */
bool kt_skip(struct kt *t, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vscnprintf(t->why, sizeof(t->why), fmt, args);
	va_end(args);
	t->skipped = true;
	return true;
}

__printf(1, 2) static void say(const char *fmt, ...)
{
	size_t start = results_len;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vscnprintf(results + start, RESULTS_SIZE - start, fmt, args);
	va_end(args);
	pr_info("%s", results + start);
	/* Pairs with results_read(). */
	smp_store_release(&results_len, start + n);
	wake_up(&results_wait);
}

/* A kernel consumer resolves link addresses itself: here it is our own. */
static void take_gid(struct kt *t, const struct ib_gid_attr *attr)
{
	struct net_device *ndev;

	t->gid_index = attr->index;
	t->gid = attr->gid;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR(ndev))
		ether_addr_copy(t->mac, ndev->dev_addr);
	rcu_read_unlock();
}

static bool choose_gid(struct kt *t)
{
	int i;

	for (i = 0; i < 256; i++) {
		const struct ib_gid_attr *attr;
		bool fits;

		if (gid_index >= 0 && i != gid_index)
			continue;
		attr = rdma_get_gid_attr(t->dev, 1, i);
		if (IS_ERR(attr))
			continue;
		fits = attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
		       (gid_index >= 0 ||
			ipv6_addr_v4mapped((struct in6_addr *)&attr->gid));
		if (fits)
			take_gid(t, attr);
		rdma_put_gid_attr(attr);
		if (fits)
			return true;
	}
	return false;
}

static bool prepare(struct kt *t)
{
	struct ib_port_attr port;

	t->dev = device;
	if (ib_query_port(t->dev, 1, &port) || port.state != IB_PORT_ACTIVE) {
		say("Bail out! port of %s is not active\n",
		    dev_name(&device->dev));
		return false;
	}
	t->mtu = port.active_mtu;
	t->mtu_bytes = ib_mtu_enum_to_int(port.active_mtu);
	if (!choose_gid(t)) {
		say("Bail out! %s has no RoCEv2 GID of IPv4\n",
		    dev_name(&device->dev));
		return false;
	}
	say("# %s, GID %d %pI6c, MTU %u\n", dev_name(&device->dev),
	    t->gid_index, t->gid.raw, t->mtu_bytes);
	return true;
}

static void run_case(const struct kt *env, const struct kt_case *c, int number)
{
	struct kt *t = kmemdup(env, sizeof(*env), GFP_KERNEL);

	if (!t) {
		say("not ok %d - %s\n# no memory\n", number, c->name);
		return;
	}
	if (kt_setup(t, &c->opts))
		c->run(t);
	kt_teardown(t);

	if (t->failed)
		say("not ok %d - %s\n# %s\n", number, c->name, t->why);
	else if (t->skipped)
		say("ok %d - %s # SKIP %s\n", number, c->name, t->why);
	else
		say("ok %d - %s\n", number, c->name);
	kfree(t);
}

static void run_all(void)
{
	struct kt env = {};
	const struct kt_case *c;
	int i, number = 0;

	say("TAP version 13\n");
	if (!prepare(&env))
		return;
	for (i = 0; i < ARRAY_SIZE(suites); i++) {
		for (c = suites[i]; c->name; c++) {
			if (!strstr(c->name, only))
				continue;
			run_case(&env, c, ++number);
		}
	}
	say("1..%d\n", number);
}

static int add_device(struct ib_device *ibdev)
{
	bool wanted;

	if (*dev_name_wanted)
		wanted = !strcmp(dev_name(&ibdev->dev), dev_name_wanted);
	else
		wanted = ibdev->ops.driver_id == RDMA_DRIVER_RXE;
	if (device || !wanted)
		return -EOPNOTSUPP;
	device = ibdev;
	return 0;
}

static void remove_device(struct ib_device *ibdev, void *client_data)
{
	wait_for_completion(&tests_done);
}

static struct ib_client client = {
	.name = KBUILD_MODNAME,
	.add = add_device,
	.remove = remove_device,
};

/* A reader gets each result as it comes, and the end when all are there. */
static ssize_t results_read(struct file *file, char __user *buf, size_t count,
			    loff_t *pos)
{
	int err;

	err = wait_event_interruptible(results_wait,
				       smp_load_acquire(&results_complete) ||
				       *pos < smp_load_acquire(&results_len));
	if (err)
		return err;
	return simple_read_from_buffer(buf, count, pos, results,
				       smp_load_acquire(&results_len));
}

static const struct file_operations results_fops = {
	.owner = THIS_MODULE,
	.read = results_read,
};

static int __init ktest_init(void)
{
	int err;

	results = vzalloc(RESULTS_SIZE);
	if (!results)
		return -ENOMEM;
	debugfs_dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("results", 0444, debugfs_dir, NULL, &results_fops);
	err = ib_register_client(&client);
	if (err)
		goto err_results;

	if (device)
		run_all();
	else
		say("Bail out! no such device\n");
	complete_all(&tests_done);
	smp_store_release(&results_complete, true);
	wake_up(&results_wait);
	return 0;

err_results:
	debugfs_remove_recursive(debugfs_dir);
	vfree(results);
	return err;
}

static void __exit ktest_exit(void)
{
	ib_unregister_client(&client);
	debugfs_remove_recursive(debugfs_dir);
	vfree(results);
}

module_init(ktest_init);
module_exit(ktest_exit);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("tests of RDMA verbs for kernel consumers");
