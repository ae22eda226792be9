# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A file system that the second host has on a disk of the first one, on /mnt."""


def make_data(test, device):
    """Make the file system and a file in it; return the file's checksum."""
    test.b.run(f"mkfs.ext4 -q {device} && mount {device} /mnt", check=True, timeout=60 * test.slow)
    return test.b.run("head -c 20000000 /dev/urandom >/tmp/data; cp /tmp/data /mnt/data; sync; "
                      "sha256sum </tmp/data", check=True, timeout=90 * test.slow).stdout


def read_back(test, device):
    """Return the checksum of what the disk holds."""
    return test.b.run(f"umount /mnt; echo 3 >/proc/sys/vm/drop_caches; mount {device} /mnt; "
                      "sha256sum </mnt/data", check=True, timeout=90 * test.slow).stdout
