#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Build the kernel module of a folder of selftests for a release, into
# build/ktest/RELEASE/FOLDER: build-module.sh FOLDER RELEASE

set -eu

folder=${1:?name a folder of selftests, such as kernel}
release=${2:?name a release, such as backports}
cd "$(dirname "$0")/../.."
out=build/ktest/$release/$folder
mkdir -p "$out"
cp -au "selftests/$folder/Kbuild" "selftests/$folder/"*.[ch] "$out/"
exec tools/rxe-vm chroot "$release" -- sh tools/kernel/build-module.sh "$out"
