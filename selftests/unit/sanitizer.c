// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* tap.c keeps its tables to the end, and proto/ allocates nothing. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
