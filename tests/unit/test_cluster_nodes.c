/* SPDX-License-Identifier: MIT */
/* Covers trainer/cluster/cluster_nodes. */
#include "tests/unit/cluster_unit.h"

#include "trainer/cluster/cluster_nodes.h"
#include "trainer/cluster/cluster_parse.h"
#include "trainer/cluster/tf_config.h"

static void test_each_node_has_a_server_and_a_trainer(void **state)
{
    static const struct {
        const char *nodes, *shown;
    } cases[] = {
        {"ip0,ip1,ip2,ip3",
         "master 0 chief: master ip0:2223; worker ip1:2223 ip2:2223 ip3:2223; ps ip0:2222 ip1:2222 "
         "ip2:2222 ip3:2222; trainers 4, server ip0:2222 ip1:2222 ip2:2222 ip3:2222"},
        {"ip0", "master 0 chief: master ip0:2223; ps ip0:2222; trainers 1, server ip0:2222"},
        {"fd00::1,[fd00::2]",
         "master 0 chief: master [fd00::1]:2223; worker [fd00::2]:2223; ps [fd00::1]:2222 "
         "[fd00::2]:2222; trainers 2, server [fd00::1]:2222 [fd00::2]:2222"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cluster cluster;
        assert_ok(cluster_nodes_parse(cases[i].nodes, 2222, 2223, &cluster));
        assert_string_equal(cluster_show(&cluster), cases[i].shown);
        for (size_t node = 0; node < cluster_server_count(&cluster); node++)
            assert_string_equal(cluster_nodes_trainer(&cluster, node)->host,
                                cluster_server(&cluster, node)->host);
        cluster_release(&cluster);
    }
}

static void test_what_is_no_node(void **state)
{
    static const struct {
        const char *nodes, *message;
    } cases[] = {
        {"", "--nodes has \"\", must be a host's name or address without a port"},
        {"a,", "--nodes has \"\""},
        {"a, b", "--nodes has \" b\""},
        {"a:1", "--nodes has \"a:1\""},
        {"[fd00::1", "--nodes has \"[fd00::1\""},
        {"[]", "--nodes has \"[]\""},
        {"a'b", "--nodes has \"a'b\""},
        {"a,b,a", "ps 0 and ps 2 have the same address in --nodes, a:2222"},
    };
    struct cluster cluster;
    char name[CLUSTER_HOST_LIMIT + 2] = "";
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_fails(cluster_nodes_parse(cases[i].nodes, 2222, 2223, &cluster), ERROR_USAGE,
                     cases[i].message);
    assert_fails(cluster_nodes_parse("a", 2222, 2222, &cluster), ERROR_USAGE,
                 "master 0 and ps 0 have the same address");
    memset(name, 'a', CLUSTER_HOST_LIMIT);
    assert_ok(cluster_nodes_parse(name, 2222, 65535, &cluster));
    cluster_release(&cluster);
    name[CLUSTER_HOST_LIMIT] = 'a';
    assert_fails(cluster_nodes_parse(name, 2222, 65535, &cluster), ERROR_USAGE, "--nodes has");
}

/* ---- what is printed for a task is the cluster as that task sees it ------- */

static uint64_t chance;

static unsigned draw(unsigned below)
{
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(chance >> 33) % below;
}

/* Different ones, of every kind. */
static void add_random_node(struct buffer *nodes, unsigned number)
{
    buffer_add_text(nodes, number > 0 ? "," : "");
    switch (draw(4)) {
    case 0:
        buffer_print(nodes, "10.%u.%u.%u", draw(256), number / 256, number % 256);
        break;
    case 1:
        buffer_print(nodes, "fd00::%x:%x", draw(65536), number);
        break;
    case 2:
        buffer_print(nodes, "[fe80::%x%%eth%u]", number, draw(10));
        break;
    default:
        buffer_print(nodes, "node-%u.%.*s", number, (int)draw(9), "a_b.c-9.z");
    }
}

static void assert_same_list(const struct cluster *a, const struct cluster *b)
{
    assert_int_equal(a->task_count, b->task_count);
    for (size_t i = 0; i < a->task_count; i++) {
        assert_int_equal(a->tasks[i].role, b->tasks[i].role);
        assert_int_equal(a->tasks[i].index, b->tasks[i].index);
        assert_int_equal(a->tasks[i].port, b->tasks[i].port);
        assert_string_equal(a->tasks[i].host, b->tasks[i].host);
    }
    assert_memory_equal(a->begin, b->begin, sizeof(a->begin));
    assert_int_equal(cluster_trainer_count(a), cluster_trainer_count(b));
    assert_int_equal(cluster_server_count(a), cluster_server_count(b));
}

static void assert_read_back(const struct cluster *cluster)
{
    static const struct cluster_flags no_flags;
    struct buffer json = BUFFER_INIT(1 << 20);
    for (size_t i = 0; i < cluster->task_count; i++) {
        const struct cluster_task *task = &cluster->tasks[i];
        struct cluster seen;
        buffer_clear(&json);
        assert_ok(tf_config_print(cluster, task->role, task->index, &json));
        assert_ok(cluster_parse(json.data, &no_flags, &seen));
        assert_same_list(cluster, &seen);
        assert_int_equal(seen.role, task->role);
        assert_int_equal(seen.index, task->index);
        assert_int_equal(seen.is_chief, task->role == CLUSTER_CHIEF);
        assert_int_equal(cluster_runs_server(&seen), task->role == CLUSTER_PS);
        assert_true(seen.chief_is_master && !seen.is_alone && seen.workers_known &&
                    seen.servers_known);
        cluster_release(&seen);
    }
    buffer_release(&json);
}

static void test_every_task_reads_the_same_cluster_back(void **state)
{
    (void)state;
    chance = unit_seed();
    for (int round = 0; round < 100; round++) {
        struct buffer nodes = BUFFER_INIT(1 << 16);
        struct cluster cluster;
        unsigned count = 1 + draw(round < 90 ? 6 : 40);
        for (unsigned i = 0; i < count; i++)
            add_random_node(&nodes, i);
        assert_ok(nodes.error);
        assert_ok(cluster_nodes_parse(nodes.data, 1 + draw(60000), 60001 + draw(5000), &cluster));
        assert_int_equal(cluster.task_count, 2 * count);
        assert_read_back(&cluster);
        cluster_release(&cluster);
        buffer_release(&nodes);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_each_node_has_a_server_and_a_trainer),
    cmocka_unit_test(test_what_is_no_node),
    cmocka_unit_test(test_every_task_reads_the_same_cluster_back),
};

UNIT_MAIN(tests)
