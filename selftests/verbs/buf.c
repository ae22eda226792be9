// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Registered memory, and what should be in it. */
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs.h"

static uint64_t next_seed;

/* Successive values of a 64-bit counter, well mixed. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

void buf_refill(struct buf *buf)
{
	uint64_t seed = ++next_seed << 32;
	size_t i;

	for (i = 0; i < buf->size; i += sizeof(uint64_t)) {
		uint64_t word = mix(seed + i);
		size_t n = buf->size - i;

		memcpy(buf->shadow + i, &word,
		       n < sizeof(word) ? n : sizeof(word));
	}
	memcpy(buf->mem, buf->shadow, buf->size);
}

struct buf *buf_new(struct ibv_pd *pd, size_t size, int access)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_ERRNO(mem != MAP_FAILED);
	return buf_of(pd, mem, size, access);
}

struct buf *buf_of(struct ibv_pd *pd, void *mem, size_t size, int access)
{
	struct buf *buf = calloc(1, sizeof(*buf));

	CHECK(buf);
	buf->size = size;
	buf->mem = mem;
	buf->shadow = malloc(size);
	CHECK(buf->shadow);
	buf_refill(buf);
	buf->mr = ibv_reg_mr(pd, buf->mem, size, access);
	if (!buf->mr)
		FAIL("cannot register %zu bytes: %s", size, strerror(errno));
	return buf;
}

void buf_free(struct buf *buf)
{
	if (buf->mr)
		CHECK_RC(ibv_dereg_mr(buf->mr));
	munmap(buf->mem, buf->size);
	free(buf->shadow);
	free(buf);
}

uint64_t buf_addr(const struct buf *buf, size_t offset)
{
	return (uintptr_t)buf->mem + offset;
}

struct ibv_sge buf_sge(const struct buf *buf, size_t offset, uint32_t length)
{
	return (struct ibv_sge) {
		.addr = buf_addr(buf, offset),
		.length = length,
		.lkey = buf->mr->lkey,
	};
}

int buf_cut(const struct buf *buf, size_t offset, uint32_t length, int count,
	    struct ibv_sge *sge)
{
	int i;

	if (!length)
		return 0;
	if (length < 3 * (uint32_t)count)
		count = 1;
	for (i = 0; i < count; i++) {
		uint32_t n = length / (count - i);

		if (i < count - 1)
			n |= 1;
		else
			n = length;
		CHECK(offset + n <= buf->size);
		sge[i] = buf_sge(buf, offset, n);
		offset += n + 1 + i % 7;
		length -= n;
	}
	return count;
}

void buf_move(struct buf *dst, const struct ibv_sge *to, struct buf *src,
	      const struct ibv_sge *from, size_t length)
{
	size_t done_to = 0, done_from = 0;

	while (length) {
		size_t n = length;

		if (done_to == to->length) {
			done_to = 0;
			to++;
			continue;
		}
		if (done_from == from->length) {
			done_from = 0;
			from++;
			continue;
		}
		if (n > to->length - done_to)
			n = to->length - done_to;
		if (n > from->length - done_from)
			n = from->length - done_from;
		memcpy(dst->shadow + (to->addr - (uintptr_t)dst->mem) + done_to,
		       src->shadow + (from->addr - (uintptr_t)src->mem) +
		       done_from, n);
		done_to += n;
		done_from += n;
		length -= n;
	}
}

void buf_put64(struct buf *buf, size_t offset, uint64_t value)
{
	memcpy(buf->shadow + offset, &value, sizeof(value));
}

uint64_t buf_get64(const struct buf *buf, size_t offset)
{
	uint64_t value;

	memcpy(&value, buf->shadow + offset, sizeof(value));
	return value;
}

void buf_check_(const struct buf *buf, const char *what)
{
	size_t i, last;

	if (!memcmp(buf->mem, buf->shadow, buf->size))
		return;
	for (i = 0; buf->mem[i] == buf->shadow[i]; i++)
		;
	for (last = buf->size - 1; buf->mem[last] == buf->shadow[last]; last--)
		;
	FAIL("%s: bytes %zu to %zu of %zu: first is 0x%02x, not 0x%02x",
	     what, i, last, buf->size, buf->mem[i], buf->shadow[i]);
}
