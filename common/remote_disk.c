/* SPDX-License-Identifier: MIT */
#include "common/remote_disk.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/statfs.h>

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
