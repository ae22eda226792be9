# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rxe_ng: everything that can be made. 'make' or 'make help' lists it.

SHELL := /bin/bash
.SHELLFLAGS := -ec -o pipefail
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

RXE_VM := tools/rxe-vm

# Releases that the module is built and tested for; each is a row of 'rxe-vm releases'.
RELEASES ?= bookworm backports

# What this machine needs, as COMMAND-OR-FILE:DEBIAN-PACKAGE.
DEPS := \
	python3:python3 \
	qemu-system-x86_64:qemu-system-x86 \
	mmdebstrap:mmdebstrap \
	mksquashfs:squashfs-tools \
	busybox:busybox-static \
	modprobe:kmod \
	xz:xz-utils \
	unshare:util-linux \
	/usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring

# What building the tests of proto/ needs besides.
CHECK_DEPS := \
	clang:clang \
	/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a:libclang-rt-dev

.PHONY: help
help: ## this list
	@echo "make TARGET, where TARGET is one of:"
	@sed -nE 's/^([a-z][a-z%-]*):[^#]*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
	@echo "releases: $(RELEASES) (set RELEASES to change them)"

.PHONY: deps
deps: ## install the Debian packages that are missing here, and say which
	@export PATH="$$PATH:/usr/sbin:/sbin"; missing=; \
	for pair in $(DEPS); do \
		what=$${pair%:*}; \
		if [[ $$what == /* ]]; then compgen -G "$$what" >/dev/null && continue; \
		else command -v "$$what" >/dev/null && continue; fi; \
		missing+=" $${pair##*:}"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	echo "deps: installing$$missing"; \
	apt-get update -q >/dev/null; \
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing >/dev/null

.PHONY: images
images: deps ## make the root image of each release
	$(RXE_VM) prepare $(RELEASES)

.PHONY: debug-kernel
debug-kernel: deps ## build the debug kernel (once, about 10 minutes)
	$(RXE_VM) prepare debug

.PHONY: module
module: $(RELEASES:%=module-%) ## build rxe_ng.ko for each release, into build/module/RELEASE/

.PHONY: sparse
sparse: $(RELEASES:%=sparse-%) ## build it with sparse watching (C=2)

# Debian's headers lack the script that looks whether sparse is there: KBUILD_CHECKSRC says so.
# The sources are copied, since kbuild writes beside them and each release needs its own objects;
# those that differ, with the time of the copy, so that make sees a file that was edited meanwhile.
# The lock is for two who build the same release at the same time.
define build-in-root
	@mkdir -p build/$(1)
	@exec 9>build/$(1).lock; flock 9; \
	find Kbuild rxe_ng uapi -type f | while read -r file; do \
		cmp -s "$$file" "build/$(1)/$$file" || install -D "$$file" "build/$(1)/$$file"; \
	done; \
	(cd build/$(1); find rxe_ng uapi -name '*.[ch]') | while read -r file; do \
		[ -e "$$file" ] || rm "build/$(1)/$$file"; \
	done; \
	$(RXE_VM) chroot $* -- sh tools/kernel/build-module.sh build/$(1)
endef

module-%: deps
	$(call build-in-root,module/$*)

sparse-%: deps
	$(call build-in-root,sparse/$*) C=2 KBUILD_CHECKSRC=2 \
		CF="-Wsparse-error -include /repo/build/sparse/$*/rxe_ng/compat/checker.h"

.PHONY: demo
demo: deps ## two hosts with plain NICs become RDMA hosts, and show it
	@tools/demo

# Kinds of tests, and which of them, for 'make check'; e.g. make check TEST=apps.RcPingpong
KINDS ?=
TEST ?=
# Words that names of tests have to hold; seconds for all of them, and within which they may start.
ONLY ?=
LIMIT ?=
START ?=
CHECK = selftests/check $(addprefix --release ,$(KERNEL)) $(if $(TEST),-k '$(TEST)') $(addprefix -k ,$(ONLY)) \
	$(addprefix --time-limit ,$(LIMIT)) $(addprefix --start-within ,$(START))

.PHONY: check-deps
check-deps:
	@$(MAKE) -s deps DEPS='$(DEPS) $(CHECK_DEPS)'

.PHONY: check
check: check-deps images ## run all tests (TEST=name, KINDS='net wire', KERNEL=bookworm choose) but those of the debug kernel
	@$(CHECK) $(KINDS)

.PHONY: check-unit check-fuzz check-sim
check-unit check-fuzz check-sim: check-%: check-deps
	@$(CHECK) $*

.PHONY: check-debug
check-debug: check-deps debug-kernel ## run the module's tests on the debug kernel
	@$(CHECK) debug

# check-vm, check-verbs, check-net, check-rdma-core...
.PHONY: check-%
check-%: check-deps images ## run one kind of tests: selftests/ has a folder for each
	@$(CHECK) $(subst -,_,$*)

.PHONY: bench
bench: deps ## our module against the kernel's own rdma_rxe (BENCH='--help' tells more)
	@tools/bench $(BENCH)

.PHONY: clean
clean: ## remove what was built, but not the cached images and kernels
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} +; fi

.PHONY: distclean
distclean: ## remove everything that was made, the caches too
	rm -rf build
