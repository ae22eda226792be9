// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Does on purpose what the debug kernel is there to find, when it is loaded:
 * what=inversion, sleep or leak. For faults of memory the kernel has lkdtm.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *what = "";
module_param(what, charp, 0444);
MODULE_PARM_DESC(what, "which fault");

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(lock);

/* Two locks in either order: a deadlock when two do it at the same time. */
static void inversion(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static void sleep_in_atomic(void)
{
	spin_lock(&lock);
	might_sleep();
	spin_unlock(&lock);
}

/* Where they are nothing tells that kmemleak understands, until the module goes. */
static unsigned long hidden[16];

static void leak(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(hidden); i++)
		hidden[i] = ~(unsigned long)kmalloc(1234, GFP_KERNEL);
}

static void unleak(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(hidden) && hidden[i]; i++)
		kfree((void *)~hidden[i]);
}

static int __init provoke_init(void)
{
	if (sysfs_streq(what, "inversion"))
		inversion();
	else if (sysfs_streq(what, "sleep"))
		sleep_in_atomic();
	else if (sysfs_streq(what, "leak"))
		leak();
	else
		return -EINVAL;
	return 0;
}

static void __exit provoke_exit(void)
{
	unleak();
}

module_init(provoke_init);
module_exit(provoke_exit);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Faults for the debug kernel's checkers");
