#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Build rxng_ktest.ko for a release, into build/ktest/RELEASE: build.sh RELEASE

set -eu

release=${1:?name a release, such as backports}
cd "$(dirname "$0")/../.."
mkdir -p "build/ktest/$release"
cp -au selftests/kernel/Kbuild selftests/kernel/*.[ch] "build/ktest/$release/"
exec tools/rxe-vm chroot "$release" -- \
	sh tools/kernel/build-module.sh "build/ktest/$release"
