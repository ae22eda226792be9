/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A small TAP producer. A test program is a set of named cases; each runs in
 * a child process of its own with a time limit, so that a crash or a hang
 * costs one case and nothing leaks from one case into the next.
 *
 *	TEST(name) { CHECK(...); }		a case
 *	TEST_F(thing, name) { use(thing); }	one with a fixture: thing_setup()
 *						and thing_teardown() around it
 *	TEST_EACH(name, table) { use(arg); }	one case per entry of a table
 *	OPTION(name, "default", "help")		--name VALUE, read as opt_name
 *
 * main() is in tap.c.
 */
#ifndef TAP_H
#define TAP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tap_case {
	const char *name;
	void (*run)(const void *arg);
	const void *arg;
	unsigned int limit;		/* seconds; 0: the default */
	struct tap_case *next;
};

struct tap_option {
	const char *name;
	const char *value;
	const char *help;
	struct tap_option *next;
};

void tap_add(struct tap_case *c);
void tap_add_option(struct tap_option *o);

/* One case per element; each element begins with its name (const char *). */
void tap_add_table(const char *prefix, void (*run)(const void *),
		   const void *table, size_t size, size_t count,
		   unsigned int limit);

/* The case ends here, whoever calls; all in the caller's process group die. */
void tap_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void tap_skip(const char *fmt, ...)
	__attribute__((noreturn, format(printf, 1, 2)));

/* A comment line in the output. */
void tap_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Where the case is; a failure inside a helper names this place too. */
void tap_here(const char *file, int line);

/* --slow N: time limits are N times longer, and there are N times less rounds. */
unsigned int tap_slow(void);
unsigned int tap_rounds(unsigned int rounds);

uint64_t tap_now_ns(void);

#define TAP_CTOR static void __attribute__((constructor))

#define TEST_LIMIT(id, seconds)						\
	static void id(void);						\
	static void id##__run(const void *arg)				\
	{								\
		(void)arg;						\
		id();							\
	}								\
	TAP_CTOR id##__add(void)					\
	{								\
		static struct tap_case c = {				\
			.name = #id, .run = id##__run,			\
			.limit = (seconds),				\
		};							\
		tap_add(&c);						\
	}								\
	static void id(void)

#define TEST(id) TEST_LIMIT(id, 0)

#define TEST_F(fixture, id)						\
	static void id(struct fixture *fixture);			\
	static void id##__run(const void *arg)				\
	{								\
		struct fixture *f = fixture##_setup();			\
		(void)arg;						\
		id(f);							\
		fixture##_teardown(f);					\
	}								\
	TAP_CTOR id##__add(void)					\
	{								\
		static struct tap_case c = {				\
			.name = #id, .run = id##__run,			\
		};							\
		tap_add(&c);						\
	}								\
	static void id(struct fixture *fixture)

#define TEST_EACH_LIMIT(id, table, seconds)				\
	static void id(__typeof__(&(table)[0]) arg);			\
	static void id##__run(const void *arg)				\
	{								\
		id(arg);						\
	}								\
	TAP_CTOR id##__add(void)					\
	{								\
		tap_add_table(#id, id##__run, (table), sizeof((table)[0]), \
			      sizeof(table) / sizeof((table)[0]), (seconds)); \
	}								\
	static void id(__typeof__(&(table)[0]) arg)

#define TEST_EACH(id, table) TEST_EACH_LIMIT(id, table, 0)

#define OPTION(id, def, text)						\
	static struct tap_option opt_##id##__o = {			\
		.name = #id, .value = (def), .help = (text),		\
	};								\
	TAP_CTOR opt_##id##__add(void)					\
	{								\
		tap_add_option(&opt_##id##__o);				\
	}
#define OPT(id) (opt_##id##__o.value)

#define AT(call) (tap_here(__FILE__, __LINE__), (call))

#define FAIL(...) tap_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...) tap_skip(__VA_ARGS__)

#define CHECK(cond) do {						\
	if (!(cond))							\
		FAIL("%s", #cond);					\
} while (0)

/* The call must give a true value, else the reason is errno. */
#define CHECK_ERRNO(cond) do {						\
	if (!(cond))							\
		FAIL("%s: %s", #cond, strerror(errno));			\
} while (0)

/* The call must return 0; it returns an error number otherwise. */
#define CHECK_RC(call) do {						\
	int rc__ = (call);						\
									\
	if (rc__)							\
		FAIL("%s: %d (%s)", #call, rc__,			\
		     strerror(rc__ < 0 ? -rc__ : rc__));		\
} while (0)

#define CHECK_EQ(got, want) do {					\
	long long got__ = (long long)(got), want__ = (long long)(want);	\
									\
	if (got__ != want__)						\
		FAIL("%s is %lld (0x%llx), not %lld (0x%llx)", #got,	\
		     got__, got__, want__, want__);			\
} while (0)

#endif
