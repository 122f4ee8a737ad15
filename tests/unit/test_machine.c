/* SPDX-License-Identifier: MIT */
/* Covers common/machine. */
#include "tests/unit/folder_unit.h"

#include <sched.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/machine.h"

#define GIB ((uint64_t)1 << 30)

/* FOLDER/NAME with this text; folders are made. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    *strrchr(path, '/') = '\0';
    assert_ok(file_make_folders(path));
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_ok(file_write_whole(path, text, strlen(text)));
}

static struct machine look(void)
{
    struct machine machine;
    machine_look_below(folder, &machine);
    return machine;
}

static unsigned affinity(void)
{
    cpu_set_t processors;
    assert_int_equal(sched_getaffinity(0, sizeof(processors), &processors), 0);
    return (unsigned)CPU_COUNT(&processors);
}

static void test_without_groups_it_is_the_machine(void **state)
{
    (void)state;
    struct machine machine = look();
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(machine.processors, affinity());
    assert_true(machine.memory_bytes == memory);
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "max\n");
    put("sys/fs/cgroup/cpu.max", "max 100000\n");
    machine = look();
    assert_int_equal(machine.processors, affinity());
    assert_true(machine.memory_bytes == memory);
}

static void test_version_2_and_the_groups_above(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/kube/pod/one\n");
    put("sys/fs/cgroup/kube/pod/one/memory.max", "max\n");
    put("sys/fs/cgroup/kube/pod/memory.max", "536870912\n");
    put("sys/fs/cgroup/kube/memory.max", "1073741824\n");
    put("sys/fs/cgroup/kube/pod/cpu.max", "50000 100000\n");
    struct machine machine = look();
    assert_true(machine.memory_bytes == GIB / 2);
    assert_int_equal(machine.processors, 1);
}

/* The least that any of them leaves. */
static void test_free_memory(void **state)
{
    (void)state;
    assert_true(look().free_bytes == 0);
    put("proc/meminfo", "MemTotal:       4194304 kB\nMemFree:  1 kB\nMemAvailable:   3145728 kB\n");
    assert_true(look().free_bytes == 3 * GIB);
    put("proc/self/cgroup", "0::/kube/pod\n");
    put("sys/fs/cgroup/kube/memory.max", "2147483648\n");
    put("sys/fs/cgroup/kube/memory.current", "1610612736\n");
    assert_true(look().free_bytes == GIB / 2);
    put("sys/fs/cgroup/kube/memory.stat", "anon 5\nactive_file 7\ninactive_file 536870912\n");
    assert_true(look().free_bytes == GIB);
    put("sys/fs/cgroup/kube/pod/memory.max", "max\n");
    put("sys/fs/cgroup/kube/pod/memory.current", "1\n");
    assert_true(look().free_bytes == GIB);
    put("sys/fs/cgroup/kube/pod/memory.high", "268435457\n");
    assert_true(look().free_bytes == GIB / 4);
    put("sys/fs/cgroup/kube/pod/memory.high", "max\n");
    put("sys/fs/cgroup/kube/memory.max", "1024\n"); /* lowered below what is used */
    assert_true(look().free_bytes == 1);
    put("sys/fs/cgroup/kube/memory.max", "max\n");
    put("proc/self/cgroup", "4:memory:/docker\n");
    put("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "1073741824\n");
    put("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "805306368\n");
    put("sys/fs/cgroup/memory/docker/memory.stat", "total_inactive_file 268435456\n");
    assert_true(look().free_bytes == GIB / 2);
}

static void test_version_1_as_a_container_sees_it(void **state)
{
    (void)state;
    put("proc/self/cgroup", "4:memory:/docker/0123\n1:cpu,cpuacct:/docker/0123\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"); /* the mount is the group */
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    struct machine machine = look();
    assert_true(machine.memory_bytes == GIB / 4);
    assert_int_equal(machine.processors, affinity());
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "1000\n");
    assert_int_equal(look().processors, 1);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    assert_true(look().memory_bytes > GIB / 4);
}

/* Whatever files other controllers' folders have, they say nothing of processors and memory. */
static void test_version_1_by_the_names_of_controllers(void **state)
{
    (void)state;
    put("proc/self/cgroup", "3:cpuset:/\n2:cpuacct:/\n1:net_cls,memory,cpu:/\n");
    put("sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "1000\n");
    put("sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/cpuacct/memory.limit_in_bytes", "1000\n");
    put("sys/fs/cgroup/net_cls,memory,cpu/memory.limit_in_bytes", "268435456\n");
    struct machine machine = look();
    assert_true(machine.memory_bytes == GIB / 4);
    assert_int_equal(machine.processors, affinity());
    put("sys/fs/cgroup/net_cls,memory,cpu/cpu.cfs_quota_us", "1000\n");
    put("sys/fs/cgroup/net_cls,memory,cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(look().processors, 1);
}

/* Nobody may run with fewer than one processor, whatever is written there. */
static void test_files_of_nonsense(void **state)
{
    (void)state;
    put("proc/self/cgroup", "\n:\n::\n0::\n0::/a/../b\nxx:yy:zz\n0:memory");
    put("sys/fs/cgroup/cpu.max", "1 100000\n");
    put("sys/fs/cgroup/memory.max", "0\n");
    struct machine machine = look();
    assert_int_equal(machine.processors, 1);
    assert_true(machine.memory_bytes > 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_free_memory, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_without_groups_it_is_the_machine, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_version_2_and_the_groups_above, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_version_1_as_a_container_sees_it, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_version_1_by_the_names_of_controllers, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_files_of_nonsense, make_folder, remove_folder),
};

UNIT_MAIN(tests)
