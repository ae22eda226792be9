// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Making the kernel's allocations fail. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "inject.h"

#define FAULTS "/sys/kernel/debug/"
#define MODULE "rxe_ng"

static int fail_nth = -1;

/* Not all kernels have all settings; false when this one has not. */
static bool set(const char *fault, const char *setting, const char *value)
{
	char path[128];
	int fd, n, len = strlen(value);

	snprintf(path, sizeof(path), FAULTS "%s/%s", fault, setting);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return false;
	n = write(fd, value, len);
	close(fd);
	if (n != len)
		FAIL("cannot write %s to %s", value, path);
	return true;
}

/* Both kinds of allocations. */
static void set_both(const char *setting, const char *value)
{
	set("failslab", setting, value);
	set("fail_page_alloc", setting, value);
}

void inject_open(void)
{
	inject_rain_end();
	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR);
	if (fail_nth < 0 || !set("failslab", "verbose", "0"))
		SKIP("this kernel has no failslab");
	/* Those that may wait fail too, and quietly. */
	set_both("ignore-gfp-wait", "N");
	set_both("verbose", "0");
	set("fail_page_alloc", "ignore-gfp-highmem", "N");
	set("fail_page_alloc", "min-order", "0");
	set("fail_usercopy", "verbose", "0");
}

static bool write_nth(unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	return pwrite(fail_nth, text, len, 0) == len;
}

void inject_arm(unsigned int nth)
{
	CHECK_ERRNO(write_nth(nth));
}

unsigned int inject_disarm(void)
{
	char text[16] = "";
	unsigned int left = 1;

	/* The failure may hit what asks for it: then it was left. */
	if (pread(fail_nth, text, sizeof(text) - 1, 0) > 0)
		left = strtoul(text, NULL, 10);
	if (!write_nth(0))
		CHECK_ERRNO(write_nth(0));
	return left;
}

/* Where the module's functions are; what lies behind them is its data. */
static void module_text(unsigned long *start, unsigned long *end)
{
	FILE *f = fopen("/proc/modules", "re");
	unsigned long size;
	char line[512];

	CHECK_ERRNO(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, MODULE " %lu %*s %*s %*s 0x%lx", &size,
			   start) != 2)
			continue;
		fclose(f);
		*end = *start + size;
		return;
	}
	fclose(f);
	SKIP(MODULE " is not loaded as a module");
}

void inject_rain(unsigned int percent)
{
	unsigned long start, end;
	char text[32];

	module_text(&start, &end);
	set_both("stacktrace-depth", "32");
	snprintf(text, sizeof(text), "0x%lx", start);
	if (!set("failslab", "require-start", text))
		SKIP("failslab cannot tell whose allocation it is");
	set_both("require-start", text);
	snprintf(text, sizeof(text), "0x%lx", end);
	set_both("require-end", text);
	snprintf(text, sizeof(text), "%u", percent);
	set_both("probability", text);
}

void inject_drop(void)
{
	set_both("times", "1");
	inject_rain(100);
}

void inject_rain_end(void)
{
	set_both("probability", "0");
	set_both("require-start", "0x0");
	set_both("require-end", "0xffffffffffffffff");
	set_both("times", "-1");
}

bool inject_is_cause(int err)
{
	switch (err) {
	case ENOMEM:
	case ENOBUFS:
	case EAGAIN:
	case EFAULT:	/* a copy from or to user space */
		return true;
	default:
		return false;
	}
}

char *resources(void)
{
	FILE *f = popen("rdma resource show", "re");
	char *text = calloc(1, 4096);
	size_t n;

	CHECK_ERRNO(f);
	CHECK(text);
	n = fread(text, 1, 4095, f);
	CHECK_EQ(pclose(f), 0);
	CHECK(n < 4095);
	return text;
}

unsigned long counter(const char *device, const char *name)
{
	unsigned long value;
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path),
		 "/sys/class/infiniband/%s/ports/1/hw_counters/%s", device,
		 name);
	f = fopen(path, "re");
	if (!f)
		FAIL("%s: %s", path, strerror(errno));
	CHECK_EQ(fscanf(f, "%lu", &value), 1);
	fclose(f);
	return value;
}
