// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <fnmatch.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

#define DEFAULT_LIMIT 120		/* seconds for a case */
#define KILL_LIMIT 30			/* seconds for a killed case to be gone */

enum outcome { RUNNING, PASSED, FAILED, SKIPPED };

/* What a case tells its parent; shared between the two. */
struct report {
	int outcome;
	char reason[1024];
};

static struct tap_case *cases, **cases_end = &cases;
static struct tap_option *options, **options_end = &options;
static struct report *report;
static unsigned int limit_s = DEFAULT_LIMIT;
static unsigned int slow = 1;
static pid_t case_pid;
static const char *here_file;
static int here_line;

void tap_add(struct tap_case *c)
{
	*cases_end = c;
	cases_end = &c->next;
}

void tap_add_option(struct tap_option *o)
{
	*options_end = o;
	options_end = &o->next;
}

void tap_add_table(const char *prefix, void (*run)(const void *),
		   const void *table, size_t size, size_t count,
		   unsigned int limit)
{
	const char *entry = table;

	for (; count--; entry += size) {
		struct tap_case *c = calloc(1, sizeof(*c));
		char *name = NULL;

		if (!c || asprintf(&name, "%s/%s", prefix,
				   *(const char *const *)entry) < 0)
			abort();
		c->name = name;
		c->run = run;
		c->arg = entry;
		c->limit = limit;
		tap_add(c);
	}
}

unsigned int tap_slow(void)
{
	return slow;
}

unsigned int tap_rounds(unsigned int rounds)
{
	unsigned int n = rounds / slow;

	return n ? n : 1;
}

uint64_t tap_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

void tap_here(const char *file, int line)
{
	here_file = file;
	here_line = line;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The first outcome counts: a second thread may fail because of the first. */
static void finish(int outcome, const char *reason)
{
	int running = RUNNING;

	if (__atomic_compare_exchange_n(&report->outcome, &running, outcome,
					false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		snprintf(report->reason, sizeof(report->reason), "%s", reason);
	if (getpid() != case_pid)
		kill(case_pid, SIGUSR2);
	fflush(stdout);
	_exit(outcome == FAILED);
}

void tap_fail(const char *file, int line, const char *fmt, ...)
{
	char text[700], reason[1000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (here_file && (here_line != line || strcmp(here_file, file)))
		snprintf(reason, sizeof(reason), "%s (%s:%d, from %s:%d)", text,
			 base_name(file), line, base_name(here_file),
			 here_line);
	else
		snprintf(reason, sizeof(reason), "%s (%s:%d)", text,
			 base_name(file), line);
	finish(FAILED, reason);
	abort();
}

void tap_skip(const char *fmt, ...)
{
	char reason[1000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	finish(SKIPPED, reason);
	abort();
}

void tap_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	printf("\n");
	fflush(stdout);
	va_end(ap);
}

/* A process that the case had forked has ended it. */
static void ended_by_child(int sig)
{
	(void)sig;
	_exit(1);
}

static void run_in_child(const struct tap_case *c)
{
	setpgid(0, 0);
	case_pid = getpid();
	signal(SIGUSR2, ended_by_child);
	c->run(c->arg);
	finish(PASSED, "");
}

/* Wait for the child without reaping it; false when the time is over. */
static bool wait_child(pid_t pid, unsigned int seconds)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	uint64_t end = tap_now_ns() + seconds * 1000000000ull;
	int n;

	if (fd < 0) {
		perror("pidfd_open");
		exit(1);
	}
	do {
		uint64_t now = tap_now_ns();

		n = poll(&pfd, 1, now < end ? (end - now) / 1000000 + 1 : 0);
	} while (n < 0 && errno == EINTR);
	close(fd);
	return n > 0;
}

static void set_reason(int outcome, const char *fmt, int value)
{
	report->outcome = outcome;
	snprintf(report->reason, sizeof(report->reason), fmt, value);
}

/* Run one case; false when its process cannot be ended. */
static bool run_case(const struct tap_case *c)
{
	unsigned int seconds = (c->limit ? c->limit : limit_s) * slow;
	bool gone = true;
	int status;
	pid_t pid;

	memset(report, 0, sizeof(*report));
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (!pid)
		run_in_child(c);
	setpgid(pid, pid);
	if (!wait_child(pid, seconds)) {
		set_reason(FAILED, "no end after %d s", seconds);
		kill(-pid, SIGKILL);
		gone = wait_child(pid, KILL_LIMIT * slow);
	}
	kill(-pid, SIGKILL);
	if (!gone) {
		set_reason(FAILED, "hangs in the kernel: pid %d survives kill -9",
			   pid);
		return false;
	}
	waitpid(pid, &status, 0);
	if (report->outcome == RUNNING && WIFSIGNALED(status))
		set_reason(FAILED, "killed by signal %d", WTERMSIG(status));
	else if (report->outcome == RUNNING)
		set_reason(FAILED, "exit status %d", WEXITSTATUS(status));
	return true;
}

static bool selected(const struct tap_case *c, char **globs)
{
	if (!*globs)
		return true;
	for (; *globs; globs++)
		if (!fnmatch(*globs, c->name, 0))
			return true;
	return false;
}

static void print_case(unsigned int n, const struct tap_case *c, uint64_t ns)
{
	switch (report->outcome) {
	case PASSED:
		printf("ok %u %s\n", n, c->name);
		break;
	case SKIPPED:
		printf("ok %u %s # SKIP %s\n", n, c->name, report->reason);
		break;
	default:
		printf("not ok %u %s\n# %s\n", n, c->name, report->reason);
	}
	if (ns > 5000000000ull)
		printf("# took %u.%u s\n", (unsigned int)(ns / 1000000000),
		       (unsigned int)(ns / 100000000 % 10));
	fflush(stdout);
}

static int run_all(char **globs)
{
	unsigned int planned = 0, n = 0, failed = 0, skipped = 0;
	struct tap_case *c;

	for (c = cases; c; c = c->next)
		planned += selected(c, globs);
	printf("TAP version 13\n1..%u\n", planned);
	for (c = cases; c; c = c->next) {
		uint64_t start = tap_now_ns();
		bool gone;

		if (!selected(c, globs))
			continue;
		gone = run_case(c);
		failed += report->outcome == FAILED;
		skipped += report->outcome == SKIPPED;
		print_case(++n, c, tap_now_ns() - start);
		if (!gone) {
			printf("Bail out! a case cannot be ended\n");
			return 1;
		}
	}
	printf("# %u passed, %u failed, %u skipped\n", n - failed - skipped,
	       failed, skipped);
	if (!n) {
		fprintf(stderr, "no case has such a name; see --list\n");
		return 1;
	}
	return failed ? 1 : 0;
}

static void usage(const char *program)
{
	struct tap_option *o;

	printf("usage: %s [options] [case or glob]...\n"
	       "  --list         names of the cases\n"
	       "  --limit S      seconds for one case (%u)\n"
	       "  --slow N       a slow machine: longer limits, fewer rounds\n",
	       program, DEFAULT_LIMIT);
	for (o = options; o; o = o->next)
		printf("  --%s VALUE\t%s\n", o->name, o->help);
}

static unsigned int number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);

	if (!*text || *end || !n || n > 1000000) {
		fprintf(stderr, "%s: not a number above 0\n", text);
		exit(2);
	}
	return n;
}

/* The options of tap.c itself, then those that the program registered. */
static struct option *long_options(void)
{
	static const struct option own[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "list", no_argument, NULL, 'l' },
		{ "limit", required_argument, NULL, 't' },
		{ "slow", required_argument, NULL, 's' },
	};
	size_t n = sizeof(own) / sizeof(own[0]);
	struct tap_option *o;
	struct option *all;

	for (o = options; o; o = o->next)
		n++;
	all = calloc(n + 1, sizeof(*all));
	if (!all)
		abort();
	memcpy(all, own, sizeof(own));
	n = sizeof(own) / sizeof(own[0]);
	for (o = options; o; o = o->next)
		all[n++] = (struct option){ o->name, required_argument, NULL, 'o' };
	return all;
}

static void set_option(const char *name, const char *value)
{
	struct tap_option *o;

	for (o = options; o; o = o->next)
		if (!strcmp(o->name, name))
			o->value = value;
}

int main(int argc, char **argv)
{
	struct option *opts = long_options();
	struct tap_case *c;
	int opt, index;

	while ((opt = getopt_long(argc, argv, "h", opts, &index)) != -1) {
		switch (opt) {
		case 'l':
			for (c = cases; c; c = c->next)
				puts(c->name);
			return 0;
		case 't':
			limit_s = number(optarg);
			break;
		case 's':
			slow = number(optarg);
			break;
		case 'o':
			set_option(opts[index].name, optarg);
			break;
		case 'h':
			usage(argv[0]);
			return 0;
		default:
			usage(argv[0]);
			return 2;
		}
	}
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	return run_all(argv + optind);
}
