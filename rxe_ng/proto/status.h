/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion statuses (IBTA 11.6.2), numbered as the verbs number them. */
#ifndef RXNG_STATUS_H
#define RXNG_STATUS_H

enum rxng_status {
	RXNG_WC_SUCCESS = 0,
	RXNG_WC_LOC_LEN_ERR = 1,
	RXNG_WC_LOC_QP_OP_ERR = 2,
	RXNG_WC_LOC_PROT_ERR = 4,
	RXNG_WC_WR_FLUSH_ERR = 5,
	RXNG_WC_MW_BIND_ERR = 6,
	RXNG_WC_BAD_RESP_ERR = 7,
	RXNG_WC_LOC_ACCESS_ERR = 8,
	RXNG_WC_REM_INV_REQ_ERR = 9,
	RXNG_WC_REM_ACCESS_ERR = 10,
	RXNG_WC_REM_OP_ERR = 11,
	RXNG_WC_RETRY_EXC_ERR = 12,
	RXNG_WC_RNR_RETRY_EXC_ERR = 13,
};

#endif
