// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Loading and unloading, and keeping rdma_rxe out while we are here. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <rdma/rdma_netlink.h>

#include "device.h"
#include "link.h"
#include "net.h"
#include "odp.h"
#include "qp.h"

#define RIVAL "rdma_rxe"

/*
 * Both drivers have the same driver id, link type and UDP port, and each takes
 * every device of the id for its own: rdma_rxe casts what it finds on a netdev
 * to its own type, and its exit unregisters all of them.
 */
static bool rival_is_loaded(void)
{
	struct kobject *kobj;

	if (IS_BUILTIN(CONFIG_RDMA_RXE))
		return true;
	/* The set of all modules, ours among them, each by its name. */
	kobj = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, RIVAL);
	kobject_put(kobj);
	return kobj;
}

static int module_event(struct notifier_block *nb, unsigned long state,
			void *data)
{
	const struct module *mod = data;

	if (state != MODULE_STATE_COMING || strcmp(mod->name, RIVAL))
		return NOTIFY_DONE;
	pr_err("refusing to let " RIVAL " in: unload rxe_ng first\n");
	return notifier_from_errno(-EBUSY);
}

static struct notifier_block module_nb = {
	.notifier_call = module_event,
};

static int __init rxng_init(void)
{
	int err;

	/* First of all, so that no rival slips in behind the check. */
	err = register_module_notifier(&module_nb);
	if (err)
		return err;
	if (rival_is_loaded()) {
		pr_err(RIVAL " is here: remove it first (modprobe -r " RIVAL ")\n");
		err = -EBUSY;
		goto err_notifier;
	}
	rxng_qp_init_table();
	err = rxng_inbox_init();
	if (err)
		goto err_qp_table;
	err = rxng_fault_init();
	if (err)
		goto err_inbox;
	err = rxng_odp_init();
	if (err)
		goto err_fault;
	err = rxng_net_init();
	if (err)
		goto err_odp;
	err = rxng_link_init();
	if (err)
		goto err_net;
	return 0;

err_net:
	rxng_net_exit();
err_odp:
	rxng_odp_exit();
err_fault:
	rxng_fault_exit();
err_inbox:
	rxng_inbox_exit();
err_qp_table:
	rxng_qp_exit_table();
err_notifier:
	unregister_module_notifier(&module_nb);
	return err;
}

static void __exit rxng_exit(void)
{
	/* No new link, no event; then all devices, whoever began to end them. */
	rxng_link_exit();
	rxng_net_exit();
	rxng_odp_exit();
	rxng_fault_exit();
	rxng_inbox_exit();
	rxng_qp_exit_table();
	unregister_module_notifier(&module_nb);
}

module_init(rxng_init);
module_exit(rxng_exit);

MODULE_DESCRIPTION("Soft RoCEv2: RDMA on any netdev");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION(RXNG_VERSION);
MODULE_ALIAS_RDMA_LINK("rxe_ng");
MODULE_ALIAS_RDMA_LINK("rxe");
