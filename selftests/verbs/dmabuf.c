// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Regions of dma-bufs that the CPU can map: of a memfd (udmabuf), of a heap. */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"
#include "verbs.h"

#define PAGE 4096
#define SIZE (16 * PAGE)

/* ---- buffers ------------------------------------------------------------ */

/* A device that makes buffers; the case is skipped where there is none. */
static int open_maker(const char *path)
{
	int fd = open(path, O_RDWR);

	if (fd < 0)
		SKIP("this kernel has no %s", path);
	return fd;
}

static int from_memfd(void)
{
	int maker = open_maker("/dev/udmabuf");
	struct udmabuf_create create = {
		.memfd = memfd_create("dmabuf", MFD_ALLOW_SEALING),
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = SIZE,
	};
	int fd;

	CHECK_ERRNO((int)create.memfd >= 0 &&
		    !ftruncate(create.memfd, SIZE) &&
		    !fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	fd = ioctl(maker, UDMABUF_CREATE, &create);
	CHECK_ERRNO(fd >= 0);
	close(create.memfd);
	close(maker);
	return fd;
}

static int from_heap(void)
{
	int maker = open_maker("/dev/dma_heap/system");
	struct dma_heap_allocation_data data = {
		.len = SIZE,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};

	CHECK_ERRNO(!ioctl(maker, DMA_HEAP_IOCTL_ALLOC, &data));
	close(maker);
	return data.fd;
}

static const struct source {
	const char *name;
	int (*make)(void);
} sources[] = {
	{ "memfd", from_memfd },
	{ "heap", from_heap },
};

/* ---- cases --------------------------------------------------------------- */

/* Written and read by a peer, at odd places; not one byte beside it. */
TEST_EACH(transfer, sources)
{
	int fd = arg->make();
	struct pair *pair = pair_setup();
	struct buf *local = buf_new(pair->a.host->pd, SIZE, ALL_ACCESS);
	uint8_t *mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	const uint64_t offset = 3 * PAGE + 100, length = 7 * PAGE, iova = 0x10000064;
	struct ibv_sge sge = buf_sge(local, 0, length), back;
	struct dmabuf_mr region;

	CHECK_ERRNO(mem != MAP_FAILED);
	memset(mem, 0x5a, SIZE);
	CHECK_RC(call_reg_dmabuf_mr(pair->b.host->pd, fd, offset, length, iova,
				    ALL_ACCESS, &region));
	/* The region keeps the buffer. */
	close(fd);
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, iova, region.rkey),
		 IBV_WC_SUCCESS);
	CHECK(!memcmp(mem + offset, local->mem, length));
	CHECK_EQ(mem[offset - 1], 0x5a);
	CHECK_EQ(mem[offset + length], 0x5a);

	memset(mem + offset + 5000, 0x77, 300);
	back = buf_sge(local, 0, 300);
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_READ, &back, iova + 5000, region.rkey),
		 IBV_WC_SUCCESS);
	CHECK(!memcmp(local->mem, mem + offset + 5000, 300));

	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, iova + 1, region.rkey),
		 IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(pair);
	CHECK_RC(call_dereg_dmabuf_mr(pair->b.host->pd, &region));
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, iova, region.rkey),
		 IBV_WC_REM_ACCESS_ERR);
	munmap(mem, SIZE);
	buf_free(local);
	pair_teardown(pair);
}

/* As the memory of a request of our own. */
TEST_EACH(local_memory, sources)
{
	int fd = arg->make();
	struct pair *pair = pair_setup();
	struct buf *far = buf_new(pair->b.host->pd, SIZE, ALL_ACCESS);
	uint8_t *mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct dmabuf_mr region;
	struct ibv_sge sge;

	CHECK_ERRNO(mem != MAP_FAILED);
	for (int i = 0; i < SIZE; i++)
		mem[i] = i * 7 + i / 253;
	CHECK_RC(call_reg_dmabuf_mr(pair->a.host->pd, fd, 0, SIZE, 0,
				    IBV_ACCESS_LOCAL_WRITE, &region));
	sge = (struct ibv_sge) { .addr = 11, .length = SIZE - 11,
				 .lkey = region.lkey };
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, buf_addr(far, 0),
		     far->mr->rkey), IBV_WC_SUCCESS);
	CHECK(!memcmp(far->mem, mem + 11, SIZE - 11));
	CHECK_RC(call_dereg_dmabuf_mr(pair->a.host->pd, &region));
	munmap(mem, SIZE);
	close(fd);
	buf_free(far);
	pair_teardown(pair);
}

TEST_EACH(refused, sources)
{
	int fd = arg->make(), other = memfd_create("none", 0);
	struct host *host = host_open(0);
	struct dmabuf_mr region;

	CHECK_EQ(call_reg_dmabuf_mr(host->pd, fd, SIZE, 1, 0, ALL_ACCESS,
				    &region), EINVAL);
	CHECK_EQ(call_reg_dmabuf_mr(host->pd, fd, 0, SIZE + 1, 0, ALL_ACCESS,
				    &region), EINVAL);
	CHECK_EQ(call_reg_dmabuf_mr(host->pd, fd, PAGE, UINT64_MAX - PAGE + 1,
				    PAGE, ALL_ACCESS, &region), EINVAL);
	CHECK_EQ(call_reg_dmabuf_mr(host->pd, fd, 0, 0, 0, ALL_ACCESS, &region),
		 EINVAL);
	CHECK_EQ(call_reg_dmabuf_mr(host->pd, other, 0, PAGE, 0, ALL_ACCESS,
				    &region), EINVAL);
	close(other);
	CHECK_EQ(call_reg_dmabuf_mr(host->pd, other, 0, PAGE, 0, ALL_ACCESS,
				    &region), EBADF);
	CHECK_EQ(call_reg_dmabuf_mr(host->pd, fd, 0, PAGE, 0,
				    IBV_ACCESS_REMOTE_WRITE, &region),
		 EINVAL);
	CHECK_RC(call_reg_dmabuf_mr(host->pd, fd, 0, SIZE, 0, ALL_ACCESS,
				    &region));
	close(fd);
	/* And left to the kernel, with the device that is closed. */
	CHECK_RC(ibv_close_device(host->ctx));
}
