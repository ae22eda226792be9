/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Included before everything else when sparse watches: what the newest kernels
 * use and the sparse of distributions does not know.
 */
#define __typeof_unqual__ __typeof__
/* In a static assertion about string literals (MODULE_INFO). */
#define __builtin_strlen(literal) (sizeof(literal) - 1)
