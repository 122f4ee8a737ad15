/* SPDX-License-Identifier: MIT */
#include "common/remote_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

/* Magic numbers of statfs(2): NFS, SMB 2, CIFS, SMB 1, FUSE, Ceph, Lustre, 9P, GPFS, AFS, BeeGFS,
 * OCFS2. */
static const uint32_t elsewhere[] = {0x6969,     0xfe534d42, 0xff534d42, 0x517b,
                                     0x65735546, 0x00c36400, 0x0bd00bd0, 0x01021997,
                                     0x47504653, 0x5346414f, 0x19830326, 0x7461636f};

bool remote_disk_holds(const char *path)
{
    struct statfs facts;
    if (statfs(path, &facts) != 0)
        return true;
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
        if ((uint32_t)facts.f_type == elsewhere[i])
            return true;
    }
    return false;
}

/* O_DIRECT bypasses the page cache; some file systems do not support it. */
int remote_disk_open(const char *path, int flags, bool is_remote)
{
    flags |= O_RDONLY | O_CLOEXEC;
    int descriptor = open(path, flags | (is_remote ? O_DIRECT : 0));
    if (descriptor < 0 && errno == EINVAL)
        descriptor = open(path, flags);
    return descriptor;
}

/* O_DIRECT requires memory and lengths to be multiples of a block. */
ssize_t remote_disk_read(int descriptor, void *out, size_t bytes)
{
    _Alignas(REMOTE_DISK_BYTES) char block[REMOTE_DISK_BYTES];
    ssize_t length = pread(descriptor, block, sizeof(block), 0);
    if (length > (ssize_t)bytes)
        length = (ssize_t)bytes;
    if (length > 0)
        memcpy(out, block, (size_t)length);
    return length;
}
