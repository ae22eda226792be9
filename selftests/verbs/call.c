// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Calls of the kernel that the stock provider does not make. */
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "call.h"

#define RXE_DRIVER_ID 14

void call_attr(struct call *call, uint16_t id, uint16_t len, uint64_t data)
{
	CHECK(call->hdr.num_attrs < ARRAY_SIZE(call->attrs));
	call->attrs[call->hdr.num_attrs++] = (struct ib_uverbs_attr) {
		.attr_id = id,
		.len = len,
		.flags = UVERBS_ATTR_F_MANDATORY,
		.data = data,
	};
}

int call_method(struct ibv_context *ctx, uint16_t object, uint16_t method,
		struct call *call)
{
	call->hdr.object_id = object;
	call->hdr.method_id = method;
	call->hdr.driver_id = RXE_DRIVER_ID;
	call->hdr.length = sizeof(call->hdr) +
			   call->hdr.num_attrs * sizeof(call->attrs[0]);
	return ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, call) ? errno : 0;
}

int call_command(struct ibv_context *ctx, uint32_t command, const void *body,
		 size_t bytes, size_t out_bytes)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint8_t body[64];
	} call = {
		.hdr.command = command,
		.hdr.in_words = (sizeof(call.hdr) + bytes) / 4,
		.hdr.out_words = out_bytes / 4,
	};

	CHECK(bytes <= sizeof(call.body) && !(bytes % 4));
	memcpy(call.body, body, bytes);
	bytes += offsetof(typeof(call), body);
	return write(ctx->cmd_fd, &call, bytes) == (ssize_t)bytes ? 0 : errno;
}

int call_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *mem,
		  size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ib_uverbs_rereg_mr cmd = {
		.response = (uintptr_t)&resp,
		.mr_handle = mr->handle,
		.flags = flags,
		.start = (uintptr_t)mem,
		.length = length,
		.hca_va = (uintptr_t)mem,
		.pd_handle = pd ? pd->handle : 0,
		.access_flags = access,
	};
	int err = call_command(mr->context, IB_USER_VERBS_CMD_REREG_MR, &cmd,
			       sizeof(cmd), sizeof(resp));

	if (err)
		return err;
	mr->lkey = resp.lkey;
	mr->rkey = resp.rkey;
	return 0;
}

int call_ex_command(struct ibv_context *ctx, uint32_t command, const void *body,
		    size_t bytes)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		uint8_t body[64];
	} call = {
		.hdr.command = IB_USER_VERBS_CMD_FLAG_EXTENDED | command,
		.hdr.in_words = bytes / 8,
	};

	CHECK(bytes <= sizeof(call.body) && !(bytes % 8));
	memcpy(call.body, body, bytes);
	bytes += offsetof(typeof(call), body);
	return write(ctx->cmd_fd, &call, bytes) == (ssize_t)bytes ? 0 : errno;
}

int call_advise_mr(struct ibv_pd *pd, uint32_t advice, uint32_t flags,
		   const struct ibv_sge *sge)
{
	struct ib_uverbs_sge {
		__aligned_u64 addr;
		__u32 length, lkey;
	} list = { sge->addr, sge->length, sge->lkey };
	struct call call = {};

	call_attr(&call, UVERBS_ATTR_ADVISE_MR_PD_HANDLE, 0, pd->handle);
	call_attr(&call, UVERBS_ATTR_ADVISE_MR_ADVICE, 8, advice);
	call_attr(&call, UVERBS_ATTR_ADVISE_MR_FLAGS, 4, flags);
	call_attr(&call, UVERBS_ATTR_ADVISE_MR_SGE_LIST, sizeof(list),
		  (uintptr_t)&list);
	return call_method(pd->context, UVERBS_OBJECT_MR,
			   UVERBS_METHOD_ADVISE_MR, &call);
}

int call_reg_dmabuf_mr(struct ibv_pd *pd, int fd, uint64_t offset,
		       uint64_t length, uint64_t iova, int access,
		       struct dmabuf_mr *mr)
{
	struct call call = {};
	int err;

	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle);
	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset);
	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, length);
	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova);
	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_FD, 4, fd);
	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access);
	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4,
		  (uintptr_t)&mr->lkey);
	call_attr(&call, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4,
		  (uintptr_t)&mr->rkey);
	err = call_method(pd->context, UVERBS_OBJECT_MR,
			  UVERBS_METHOD_REG_DMABUF_MR, &call);
	mr->handle = call.attrs[0].data;
	return err;
}

int call_dereg_dmabuf_mr(struct ibv_pd *pd, const struct dmabuf_mr *mr)
{
	struct call call = {};

	call_attr(&call, UVERBS_ATTR_DESTROY_MR_HANDLE, 0, mr->handle);
	return call_method(pd->context, UVERBS_OBJECT_MR,
			   UVERBS_METHOD_MR_DESTROY, &call);
}
