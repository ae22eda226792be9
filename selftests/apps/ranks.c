// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An MPI program of two ranks that checks each byte: messages of both
 * protocols (eager and rendezvous), many at once, windows that the other rank
 * puts to, gets from and adds to, collectives. Prints what it checked; any
 * difference aborts all ranks.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST (4 << 20)
#define MANY 200
#define ADDS 50

static const int sizes[] = { 0, 1, 8, 1000, 8191, 65536, 1000003, LARGEST };
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int rank, other;
static long checked;

static uint8_t byte_of(int from, int seed, size_t i)
{
	uint32_t x = (from + 1) * 2654435761u ^ seed * 40503u ^ i * 2246822519u;

	return x >> 13 ^ x >> 24;
}

static void fill(uint8_t *buf, int seed, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_of(rank, seed, i);
}

static void differ(const char *what, size_t place)
{
	fprintf(stderr, "rank %d: %s differs at %zu\n", rank, what, place);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(const char *what, const uint8_t *buf, int from, int seed,
		  size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != byte_of(from, seed, i))
			differ(what, i);
	checked += len;
}

static uint8_t *get_buf(size_t len)
{
	uint8_t *buf = malloc(len);

	if (!buf)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return buf;
}

static void exchange(void)
{
	uint8_t *out = get_buf(LARGEST), *in = get_buf(LARGEST);
	MPI_Status status;
	int len;

	for (size_t s = 0; s < NUM_SIZES; s++) {
		fill(out, s, sizes[s]);
		memset(in, 0, sizes[s]);
		MPI_Sendrecv(out, sizes[s], MPI_BYTE, other, s,
			     in, LARGEST, MPI_BYTE, other, s,
			     MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &len);
		if (len != sizes[s])
			differ("a length", len);
		check("a message", in, other, s, sizes[s]);
	}
	free(out);
	free(in);
}

/* Of growing size, sent in one order and received in the other one. */
static void exchange_many(void)
{
	MPI_Request requests[2 * MANY];
	uint8_t *out[MANY], *in[MANY];

	for (int i = 0; i < MANY; i++) {
		out[i] = get_buf(i * 97 + 1);
		in[i] = get_buf(i * 97 + 1);
		fill(out[i], i, i * 97 + 1);
		MPI_Isend(out[i], i * 97 + 1, MPI_BYTE, other, i,
			  MPI_COMM_WORLD, &requests[i]);
	}
	for (int i = MANY - 1; i >= 0; i--)
		MPI_Irecv(in[i], i * 97 + 1, MPI_BYTE, other, i,
			  MPI_COMM_WORLD, &requests[MANY + i]);
	MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < MANY; i++) {
		check("one of many", in[i], other, i, i * 97 + 1);
		free(out[i]);
		free(in[i]);
	}
}

static void put_and_get(void)
{
	uint8_t *window, *mine = get_buf(LARGEST);
	MPI_Win win;

	MPI_Win_allocate(LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window,
			 &win);
	for (size_t s = 0; s < NUM_SIZES; s++) {
		fill(mine, 100 + s, sizes[s]);
		MPI_Win_fence(0, win);
		MPI_Put(mine, sizes[s], MPI_BYTE, other, 0, sizes[s], MPI_BYTE,
			win);
		MPI_Win_fence(0, win);
		check("what was put", window, other, 100 + s, sizes[s]);
		memset(mine, 0, sizes[s]);
		MPI_Win_fence(0, win);
		MPI_Get(mine, sizes[s], MPI_BYTE, other, 0, sizes[s], MPI_BYTE,
			win);
		MPI_Win_fence(0, win);
		check("what was got", mine, rank, 100 + s, sizes[s]);
	}
	MPI_Win_free(&win);
	free(mine);
}

/* Both add to both, so that each addition has to be atomic. */
static void add(void)
{
	int64_t *sum, one = 1, before;
	MPI_Win win;

	MPI_Win_allocate(sizeof(*sum), sizeof(*sum), MPI_INFO_NULL,
			 MPI_COMM_WORLD, &sum, &win);
	*sum = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < ADDS; i++)
		for (int to = 0; to < 2; to++) {
			MPI_Fetch_and_op(&one, &before, MPI_INT64_T, to, 0,
					 MPI_SUM, win);
			MPI_Win_flush(to, win);
			if (before < i || before >= 2 * ADDS)
				differ("a sum before", before);
		}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
	if (*sum != 2 * ADDS)
		differ("a sum", *sum);
	MPI_Win_unlock(rank, win);
	checked += sizeof(*sum);
	MPI_Win_free(&win);
}

static void collect(void)
{
	static int32_t mine[100000], sum[100000];
	uint8_t *buf = get_buf(LARGEST);

	for (int i = 0; i < 100000; i++)
		mine[i] = (rank + 1) * i;
	MPI_Allreduce(mine, sum, 100000, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < 100000; i++)
		if (sum[i] != 3 * i)
			differ("a reduced sum", i);
	checked += sizeof(sum);
	if (rank == 0)
		fill(buf, 7, LARGEST);
	MPI_Bcast(buf, LARGEST, MPI_BYTE, 0, MPI_COMM_WORLD);
	check("a broadcast", buf, 0, 7, LARGEST);
	free(buf);
}

int main(int argc, char **argv)
{
	int size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 2) {
		fprintf(stderr, "two ranks are needed\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	other = !rank;
	exchange();
	exchange_many();
	if (argc < 2 || strcmp(argv[1], "messages")) {
		put_and_get();
		add();
	}
	collect();
	printf("rank %d checked %ld bytes\n", rank, checked);
	MPI_Finalize();
	return 0;
}
